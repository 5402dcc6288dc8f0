"""Whatever is handed to a reader, it is a value to the letter or a WireError, and quickly."""

import json
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import damaged
from dpsdk import wire
from dpsdk.accuracy import Bound
from dpsdk.codec import ALL_MEASURED, MEASURED, Codebook, text
from dpsdk.errors import WireError
from dpsdk.mechanisms import Laplace
from dpsdk.planner import Forecast, Plan
from dpsdk.queries import Conjunction, Count, Not, Query, Threshold, Workload
from dpsdk.release import Cost
from worlds import repeatable
from written import CATALOGUE, VALUES


def sample(kind="query.threshold", **members):
    return {"format": "dpsdk.wire", "version": 1, "kind": kind, **members}


THRESHOLD = sample(attribute="age", threshold=40)


def attempt(data):
    """The value of data, if they are a written form; nothing but a WireError is raised."""
    try:
        value = wire.from_json(object, data, allow=CATALOGUE)
    except WireError as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert refused.path.startswith("$")
        assert len(str(refused)) < 2_000
        str(refused).encode("utf-8")
        return None
    again = wire.to_json(value, allow=CATALOGUE)
    assert wire.from_json(object, again, allow=CATALOGUE) == value
    return value


def first_of_each_kind():
    seen = {}
    for value in VALUES:
        seen.setdefault(type(value), value)
    return list(seen.values())


@pytest.mark.thorough(quick=22)
@pytest.mark.parametrize("value", first_of_each_kind(), ids=lambda value: type(value).__name__)
def test_data_with_one_thing_wrong_are_refused_or_mean_something_else(value):
    data = wire.to_json(value, allow=CATALOGUE)
    refused = 0
    for place, wrong in enumerate(damaged(data)):
        if place % 29 == 3 or place < 30:
            refused += attempt(wrong) is None
    assert refused > 3


@pytest.mark.audit
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_all_data_with_one_thing_wrong_are_refused_or_mean_something_else(value):
    for wrong in damaged(wire.to_json(value, allow=CATALOGUE)):
        attempt(wrong)


leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["1/3", "age", "query.threshold", "infinity", *CATALOGUE.kinds])
)  # fmt: skip
names = st.sampled_from(
    ["kind", "attribute", "attributes", "where", "queries", "not", "any", "range", "bin", "weights",
     "workload", "epsilon", "delta", "rho", "normalized", "shape", "numbers"]
) | st.text(max_size=3)  # fmt: skip
anything = st.recursive(
    leaves,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(names, inside, max_size=5),
    max_leaves=12,
)
kinds = st.sampled_from(CATALOGUE.kinds)


@st.composite
def nearly(draw):
    """A written form whose members are anything, or what members of others are."""
    kind = draw(kinds)
    members = CATALOGUE.kind_named(kind, "$").members
    some = anything | st.sampled_from(EXAMPLES)
    return sample(kind, **{name: draw(some) for name in members})


EXAMPLES = [
    one
    for value in first_of_each_kind()
    for name, one in wire.to_json(value, allow=CATALOGUE).items()
    if name not in ("format", "version")
]


@pytest.mark.thorough
@settings(repeatable, max_examples=20)
@given(anything | nearly())
def test_arbitrary_data_raise_nothing_but_a_wire_error(data):
    attempt(data)


@pytest.mark.audit
@settings(repeatable, max_examples=20_000)
@given(anything | nearly())
def test_very_much_arbitrary_data_raises_nothing_but_a_wire_error(data):
    attempt(data)


@repeatable
@given(st.text(max_size=40) | st.binary(max_size=40) | st.text('[]{}",:0e.-tfn\\ \n', max_size=40))
def test_arbitrary_texts_raise_nothing_but_a_wire_error(text):
    with pytest.raises(WireError):
        wire.loads(object, text)


def with_text(inside, before=""):
    whole = json.dumps(THRESHOLD)
    return whole[:-1] + f", {before}{inside}}}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "JSON"), ("{", "JSON"), ("[1,]", "JSON"), ("\ufeff{}", "JSON"), (b"\xff", "UTF-8"),
        (json.dumps(THRESHOLD) + "x", "JSON"),
        (with_text('"attribute": "b"'), "'attribute' twice"),
        (with_text('"where": {"a": 1, "a": 2}'), "'a' twice"),
        (with_text('"more": 1'), "also 'more'"),
        (with_text('"where": {"a": NaN}'), "NaN"),
        (with_text('"where": {"a": -Infinity}'), "-Infinity"),
        (with_text('"where": {"a": 1e400}'), "finite number"),
        (with_text('"where": {"a": "\\ud800"}'), "surrogate"),
        (with_text('"where": {"\\udfff": 1}'), "surrogate"),
        (with_text('"where": {"a": 1' + "0" * 400 + "}"), "400 characters"),
        (with_text('"where": {"a": 0.' + "1" * 400 + "}"), "400 characters"),
        (with_text('"where": {"a": ' + str(2**1023) + "}"), r"2\^1023"),
        (with_text('"where": {"a": "' + "x" * 70_000 + '"}'), "65,536"),
        (with_text('"where": ' + "[" * 100 + "]" * 100), "100 lists or objects deep"),
        (with_text('"where": ' + '{"not":' * 100 + "1" + "}" * 100), "100 lists or objects deep"),
        (with_text('"normalized": "false"'), r"\$.normalized must be true or false; got 'false'"),
        (with_text('"normalized": 0'), r"\$.normalized must be true or false; got 0"),
        ("[" * 10**6, "deep"), ('{"a":' * 10**5, "deep"), ('"' + "\\" * 10**5, "JSON"),
        ('"' * 10**5, "JSON"), ('"a\\"' * 10**5, "JSON"), ("[" + "0," * 2**21 + "0]", "values"),
        (" " * (2**24 + 1), "characters"), ("9" * 10**6, "400 characters"),
        (["{}"], "a text in JSON"), (None, "a text in JSON"),
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_texts_that_are_refused(text, reason):
    with pytest.raises(WireError, match=reason):
        wire.loads("query", text)


def test_numbers_are_not_widened():
    rectangles = sample("query.rectangles", attributes=["a"], lower=[[1]], upper=[[2]])
    assert wire.from_json("query", rectangles)
    for wrong in (40.9, 1.0, "1", True, None, [1]):
        with pytest.raises(WireError, match=r"\$.lower\[0\]\[0\] must be an integer"):
            wire.from_json("query", rectangles | {"lower": [[wrong]]})
    for wrong in ("40", True, None, [40], {}):
        with pytest.raises(WireError, match=r"\$.threshold"):
            wire.from_json("query", THRESHOLD | {"threshold": wrong})
    for wrong in (1, True, None, ["a"], ""):
        with pytest.raises(WireError, match=r"\$.attribute"):
            wire.from_json("query", THRESHOLD | {"attribute": wrong})
    for wrong in (True, 1.0, "1", 2, None):
        with pytest.raises(WireError, match=r"\$.version must be 1"):
            wire.from_json("query", THRESHOLD | {"version": wrong})


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Members(dict):
    pass


@pytest.mark.parametrize(
    "data",
    [
        THRESHOLD | {"attribute": Text("age")}, THRESHOLD | {"threshold": Number(40)},
        Members(THRESHOLD), THRESHOLD | {"where": Members(a=1)}, THRESHOLD | {"where": {1: 1}},
        THRESHOLD | {"where": ("a",)}, THRESHOLD | {"where": {"a": {1, 2}}}, THRESHOLD | {1: 2},
        THRESHOLD | {"threshold": float("nan")}, THRESHOLD | {"threshold": 2**1023},
        THRESHOLD | {"attribute": "\udc00"}, json.dumps(THRESHOLD), None, [THRESHOLD],
    ],
    ids=repr,
)  # fmt: skip
def test_data_of_other_classes_than_a_reader_of_json_gives_are_refused(data):
    with pytest.raises(WireError):
        wire.from_json("query", data)


ODD = [0.0, -0.0, 3.0, 0.5, 1e300, 2.0**53, -(2.0**53) + 1, math.nan, math.inf, -math.inf]


@pytest.mark.parametrize(
    "values",
    [
        ODD, ODD[:7], tuple(ODD), np.array(ODD), np.zeros(0), (), [3, 0.5],
        [True, 2.5, np.float64(2)],
    ],
)  # fmt: skip
def test_many_numbers_are_written_as_each_is(values):
    codebook = Codebook(CATALOGUE)
    written = ALL_MEASURED.write(values, "$", codebook)
    each = [MEASURED.write(one, "$", codebook) for one in values]
    assert list(map(repr, written)) == list(map(repr, each))


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (math.nan, "a finite number"),
        (-math.inf, "a finite number"),
        (1 << 1023, "an integer below"),
        (-(1 << 2000), "an integer below"),
        (np.float64(1), "plain JSON"),
    ],
)
def test_one_number_among_many_that_is_not_sound_is_named(odd, reason):
    text.check({"a": [1, True, 0.5, None, (1 << 1023) - 1, 1e308, 1e308]})
    with pytest.raises(WireError, match=reason) as refused:
        text.check({"a": [1, 0.5, odd, 2]})
    assert refused.value.path == "$.a[2]"


def test_numbers_are_counted_wherever_they_are(monkeypatch):
    monkeypatch.setattr(text, "MOST_ITEMS", 7)
    text.check([[1, 2], [3, 0.5], True])
    for data in ([[1, 2], [3, 0.5], True, None], [1] * 8, [[1, None], [3, 0.5], [1]]):
        with pytest.raises(WireError, match="at most 7 values"):
            text.check(data)


def test_data_that_hold_themselves_are_refused():
    loop = sample("query.workload", queries=[])
    loop["queries"].append(loop)
    wide = []
    wide.extend([wide, wide])
    for data in (loop, sample("query.workload", queries=wide)):
        with pytest.raises(WireError, match=r"deep|values"):
            wire.from_json("query", data)


def test_limits_do_not_depend_on_those_of_the_interpreter():
    deep = Workload([Threshold("age", 40)])
    for _ in range(31):
        deep = Workload([deep])
    text = wire.dumps(Workload([Count({"a": Not(Not({"b"}))}), deep.queries[0]]))
    digits, depth = sys.get_int_max_str_digits(), sys.getrecursionlimit()
    long = json.dumps(THRESHOLD | {"threshold": 7}).replace("7", "7" * 500_000)
    try:
        sys.set_int_max_str_digits(0)
        for limit in (depth, 10_000):
            sys.setrecursionlimit(limit)
            assert wire.dumps(wire.loads("query", text)) == text
            with pytest.raises(WireError, match="400 characters"):
                wire.loads("query", long)
            with pytest.raises(WireError, match="deep"):
                wire.loads("query", with_text('"where": ' + "[" * 5_000 + "]" * 5_000))
    finally:
        sys.set_int_max_str_digits(digits)
        sys.setrecursionlimit(depth)


@pytest.mark.audit
def test_a_value_beyond_the_limits_is_not_written_either():
    wide = Workload([Threshold("age", 40)] * 400_000)
    with pytest.raises(WireError, match="values"):
        wire.dumps(wide)


def test_an_error_leads_to_the_place_and_says_what_may_stand_there():
    data = wire.to_json(Workload([Count({"the age": {1, 2}}), Threshold("age", 40)]))
    data["queries"][0]["where"]["the age"]["any"][1] = None
    with pytest.raises(WireError) as caught:
        wire.from_json(Query, data)
    error = caught.value
    assert error.path == "$.queries[0].where['the age'].any[1]"
    assert error.expected.startswith("a text, an integer")
    assert error.got == "null"
    assert isinstance(error, ValueError)
    data = sample("query.interval", attribute="a", low=3, high=1)
    with pytest.raises(WireError, match="at least low") as caught:
        wire.from_json(Query, data)
    assert caught.value.path == "$"
    assert wire.from_json(Conjunction, sample("query.conjunction", conditions={"a": 1}))


PRIME = 2**61 - 1


@pytest.mark.parametrize(
    "data",
    [
        sample("query.count", where={"a": {"any": [PRIME * n for n in range(101)]}}),
        sample("query.count", where={"a": {"any": [{"bin": [PRIME * n, 1]} for n in range(101)]}}),
        sample("domain", attributes=[
            {"kind": "categorical", "name": "a", "labels": [PRIME * n for n in range(101)]},
        ]),
        sample("domain", attributes=[
            {"kind": "integer", "name": f"a{n}", "low": 0, "high": 2**1000} for n in range(1_048)
        ]),
    ],
    ids=["set", "bins", "labels", "attributes"],
)  # fmt: skip
def test_data_that_would_take_long_are_refused(data):
    # Of a few of them nothing is noticed; a text of megabytes would take hours.
    with pytest.raises(WireError, match=r"remainder|1,048,576 bits"):
        wire.from_json(object, data)


def test_large_labels_are_read_if_they_are_spread():
    labels = [2**63 + n * 2**40 for n in range(300)]
    assert wire.from_json(Query, sample("query.count", where={"a": {"any": labels}}))
    domain = sample("domain", attributes=[{"kind": "categorical", "name": "a", "labels": labels}])
    assert wire.from_json("domain", domain).size == 300


PROMISED = Bound(0.5, 0.05, "words", "proven", vacuous=False)
EXPECTED = Forecast(2.0, 1.0, 3.0, "noise")
PLAN = Plan(
    Laplace(1), Cost(), Fraction(1, 2), PROMISED, None, EXPECTED, 0.5, 9, True, (), attainable=0.5
)


def a_plan(path=(), value=None):
    whole = place = wire.to_json(PLAN)
    for name in path[:-1]:
        place = place[name]
    if path:
        place[path[-1]] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("share_of_remaining",), "3/2"), (("promised", "error"), -1),
        (("promised", "error"), -1e-300), (("promised", "beta"), 0), (("promised", "beta"), 1),
        (("promised", "beta"), -5), (("promised", "predicted"), -1), (("expected", "median"), 0.5),
        (("expected", "median"), 4), (("expected", "low"), -1), (("expected", "high"), 1.5),
        (("seconds",), -1), (("attainable",), -0.5),
    ],
)  # fmt: skip
def test_plans_that_no_planner_makes_are_refused(path, value):
    assert wire.loads("plan", a_plan()).expected.median == 2
    with pytest.raises(WireError) as refused:
        wire.loads("plan", a_plan(path, value))
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "value",
    [
        Bound(-1.0, 0.05, "words", "proven", vacuous=False),
        Bound(1.0, 2.0, "words", "proven", vacuous=False),
        Bound("1", 0.05, "words", "proven", vacuous=False),
        Forecast(4.0, 1.0, 3.0, "noise"),
        Forecast(None, 1.0, 3.0, "noise"),
        Plan(Laplace(1), Cost(), Fraction(3, 2), None, None, None, None, None, True, ()),
        Plan(Laplace(1), Cost(), None, None, None, None, -1.0, None, True, ()),
    ],
)
def test_nothing_is_written_that_would_not_be_read(value):
    with pytest.raises(WireError):
        wire.dumps(value)


def test_what_is_empty_and_what_is_negative_is_refused_in_words_that_say_so():
    with pytest.raises(WireError, match="object with members; got an object, which is empty"):
        wire.from_json(Query, sample("query.count", where={}))
    with pytest.raises(WireError, match=r"fraction of 0 or more .* got '-1'"):
        wire.from_json(Laplace, sample("mechanism.laplace", epsilon="-1"))
