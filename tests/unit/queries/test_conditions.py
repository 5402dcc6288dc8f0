"""Conditions: what they may be, what they say when they are wrong, and how they read."""

import pickle
import sys
from datetime import date
from typing import NamedTuple

import numpy as np
import pytest
from attrs import fields

from dpsdk import Boolean, Budget, Categorical, Date, Domain, Integer, PrivateData, Session
from dpsdk.errors import InvalidArgument, TooLarge, UnknownLabel
from dpsdk.forms import Range, Weights
from dpsdk.mechanisms import Laplace
from dpsdk.queries import (
    Above,
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    MarginalTable,
    Mean,
    Not,
    Sum,
    Threshold,
)
from dpsdk.queries.conditions import indicator
from dpsdk.testing import seeded
from worlds import PEOPLE, QUIET, people, quiet, table


def refusal(condition, domain=PEOPLE):
    with pytest.raises((UnknownLabel, InvalidArgument)) as caught:
        Count(condition).lower(domain)
    return str(caught.value)


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ({"age": (18, 20)}, "for all from 18 to 20 write range(18, 21)"),
        ({"age": (18, 20)}, "for these labels write {18, 20}"),
        ({"age": Not((18, 20))}, "range(18, 21)"),
        ({"age": (20,)}, "for a single label write 20"),
        ({"age": {(18, 20)}}, "range(18, 21)"),
        ({"sex": ("Male",)}, "for a single label write 'Male'"),
        ({"sex": ("Male", "Female")}, "write {'Male', 'Female'}"),
        ({"sex": {"Male": 1}}, "write a set"),
        ({"sex": np.array(["Male"])}, "write a set"),
        ({"sex": range(3)}, "a set of labels: 'Female', 'Male'"),
        ({"age": slice(18, 20)}, "a set or range of labels"),
        ({"member": range(2)}, "a set of labels: 'False', 'True'"),
        ({"hours": (0, 20)}, "Interval('hours', ...)"),
        ({"hours": range(20)}, "Interval('hours', ...)"),
        ({"age": range(25, 90)}, "integers from 17 to 24"),
    ],
)
def test_a_condition_in_another_notation_gets_a_hint(condition, hint):
    assert hint in refusal(condition)
    (name,) = condition
    assert name in refusal(condition)


def test_the_attribute_is_named_where_the_condition_cannot_be_of_any():
    assert "the condition on 'sex'" in refusal({"sex": {"Male": 1}})
    with pytest.raises(InvalidArgument, match=r"Not must be .* write a set"):
        Not({"Male": 1})


def test_a_list_of_labels_is_a_set_of_them():
    assert Count({"sex": ["Male"]}) == Count({"sex": {"Male"}})
    assert Not([20, 18]) == Not({18, 20})
    labels = ["Male"]
    query = Count({"sex": labels})
    labels.append("Female")
    assert query == Count({"sex": {"Male"}})


def test_the_names_of_a_marginal_may_be_one_list():
    assert Marginal(["sex", "age"]) == Marginal("sex", "age")
    for names in (["sex", 1], [["sex"]], [], ["sex", "sex"], {"sex": 1}):
        with pytest.raises(InvalidArgument):
            Marginal(names)


def test_counts_of_whole_rows_print_with_all_their_digits():
    counts = MarginalTable((PEOPLE["sex"],), np.array([1234567.0, 12.0]))
    assert repr(counts).split() == ["sex", "value", "Female", "1234567", "Male", "12"]
    session = quiet(table(people(40, 1)))
    release = session.release(Count({"sex": "Male"}, normalized=False), using=QUIET)
    assert repr(release).startswith(f"Release({int(release.value)} ±")


def test_the_mean_of_the_only_value_is_known():
    domain = Domain(Integer("one", 5, 5), Integer("a", 0, 1))
    data = PrivateData.from_columns({"one": [5, 5], "a": [0, 0]}, domain)
    session = Session(data, Budget(epsilon=1), noise=seeded(1))
    for where in (None, {"a": 1}):
        release = session.release(Mean("one", where=where), using=Laplace(epsilon="1e-6"))
        assert (release.value, release.error(0.05)) == (5.0, 0.0)
        assert not release.bound(0.05).vacuous


def test_a_table_that_is_too_large_names_its_bytes_and_what_would_fit():
    domain = Domain(*(Integer(f"a{number}", 0, 999) for number in range(3)))
    with pytest.raises(TooLarge, match=r"1,000,000,000 numbers \(8 GB\).*\(Binned\)"):
        Marginal(*domain.names).lower(domain)


@pytest.mark.parametrize(
    ("name", "label", "meant"),
    [
        ("own", "1", "1, without quotes"), ("age", "30", "30, without quotes"), ("age", 30.0, "30"),
        ("flag", "true", "True, without quotes"), ("flag", 0, "False"),
        ("day", "2020-03-04", "datetime.date(2020, 3, 4)"),
        ("text", "Red", "'red'"), ("text", "grean", "'green'"),
        ("own", "9", ""), ("own", 9, ""), ("age", "130", ""), ("age", "x", ""), ("flag", "x", ""),
        ("day", "2030-03-04", ""), ("day", "x", ""), ("text", "x", ""), ("text", 7, ""),
    ],
)  # fmt: skip
def test_a_label_of_another_type_or_misspelled_is_told_with_what_was_meant(name, label, meant):
    domain = Domain(
        Categorical("own", [1, 3]),
        Categorical("text", ["red", "green"]),
        Integer("age", 0, 99),
        Boolean("flag"),
        Date("day", date(2020, 1, 1), date(2020, 12, 31)),
    )
    text = refusal({name: label}, domain)
    assert text.partition("; did you mean ")[2] == (f"{meant}?" if meant else "")


def test_an_integer_stands_for_the_text_of_its_digits_where_it_is_no_label():
    codes = Domain(Categorical("code", ["1", "2", "x"]), Categorical("own", [1, 3]))
    assert indicator(codes["code"], 2) == indicator(codes["code"], "2") == Range(3, 1, 2)
    assert indicator(codes["code"], {1, 2}) == Range(3, 0, 2)
    assert indicator(codes["own"], 3) == Range(2, 1, 2)
    for label in (3, True, 1.0):
        with pytest.raises(UnknownLabel):
            indicator(codes["code"], label)
    table = MarginalTable((codes["code"],), np.array([5.0, 6.0, 7.0]))
    assert table[2] == table["2"] == 6.0


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (range(200), range(17, 25)), (range(-5, 20), range(17, 20)),
        (range(20, 10**30), range(20, 25)), (range(30, 19, -1), range(20, 25)),
        (range(15, 100, 2), {17, 19, 21, 23}), (range(16, 100, 3), {19, 22}),
        (range(100, 0, -4), {20, 24}), (range(-(10**30), 10**30, 10**30 + 18), {18}),
        (range(24, 25), {24}),
    ],
)  # fmt: skip
def test_a_range_stands_for_the_labels_that_lie_in_it(wide, narrow):
    for one, other in ((wide, narrow), (Not(wide), Not(narrow))):
        found = indicator(PEOPLE["age"], one).matrix()
        np.testing.assert_array_equal(found, indicator(PEOPLE["age"], other).matrix())


def test_a_range_stands_for_the_integer_labels_of_a_categorical_attribute():
    codes = Domain(Categorical("code", [1, 2, 4, 8, "none"]))
    assert indicator(codes["code"], range(2, 9)).matrix().tolist() == [[0, 1, 1, 1, 0]]
    assert indicator(codes["code"], range(2, 10**30, 2)).matrix().tolist() == [[0, 1, 1, 1, 0]]
    assert "'1'" in refusal({"code": range(5, 8)}, codes)


@pytest.mark.parametrize("start", range(10, 30, 3))
@pytest.mark.parametrize("step", [1, 2, 5, -1, -3])
def test_clipping_a_range_drops_what_is_no_label_and_nothing_else(start, step):
    wanted = range(start, start + 7 * step, step)
    kept = [age for age in range(17, 25) if age in wanted]
    if not kept:
        assert "no label in range" in refusal({"age": wanted})
        return
    found = indicator(PEOPLE["age"], wanted).matrix()[0]
    assert [17 + place for place in np.flatnonzero(found)] == kept


def test_a_deeply_nested_not_is_read_like_a_shallow_one():
    odd = even = Not("Male")
    for number in range(100_001):
        odd = Not(odd)
        even = odd if number % 2 else even
    rows = people(50, 3)
    session = quiet(table(rows))
    males = session.answer(Count({"sex": "Male"}), using=QUIET)
    assert session.answer(Count({"sex": odd}), using=QUIET) == males
    assert len(repr(odd)) < 100
    assert even == Not("Male")
    assert hash(Count({"sex": odd})) == hash(Count({"sex": Not(Not("Male"))}))


def test_labels_nested_deep_are_refused():
    deep = ("Male",)
    deeper = frozenset({"Male"})
    for _ in range(10**5):
        deep = (deep,)
    for _ in range(300):
        deeper = frozenset({deeper})
    for label in (deep, [deep], {deeper}, Not, (10**5000,), ["x"] * 10**6, {("a", "b"): 1}):
        if label is Not:
            continue
        text = refusal({"sex": label})
        assert len(text) < 400


LONG = "x" * 10**6
NAME = "x" * 1000
MANY = [f"attribute {number}" for number in range(5000)]


@pytest.mark.parametrize(
    "query",
    [
        Count({"who": LONG}),
        Count({"who": {LONG, "y"}}),
        Count({"who": Not(LONG)}),
        Count({NAME: "x"}),
        Count(dict.fromkeys(MANY, "x")),
        Count({name: {f"{n}{'y' * 70}" for n in range(50)} for name in MANY}),
        Marginal(*MANY),
        Marginal(NAME),
        Threshold(NAME, 3),
        Interval(NAME, 3, 4, where={NAME: LONG}),
        Sum(NAME),
        Mean(NAME, where={NAME: {LONG}}),
        Above(Count({"who": {LONG}}), 0.5),
        Conjunction({"who": range(10**250)}),
    ],
    ids=range(14),
)
def test_descriptions_stay_short_whatever_is_long(query):
    assert len(repr(query)) < 2500
    assert repr(query) == str(query)


def test_a_short_description_is_written_in_full():
    query = Conjunction({"age": {30, 4, 20}, "hours": {(10, 20), (0, 10)}, "sex": {"b", "a"}})
    assert repr(query) == (
        "Conjunction({'age': {4, 20, 30}, 'hours': {(0, 10), (10, 20)}, 'sex': {'a', 'b'}})"
    )


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    low: float
    high: float


def test_conditions_are_kept_as_plain_values():
    query = Conjunction(
        {
            Text("sex"): Text("Male"),
            "age": {np.int64(18), 19},
            "member": np.bool_(True),
            "hours": Pair(np.float64(0.0), 10),
        }
    )
    assert [type(name) for name, _ in query.conditions] == [str] * 4
    sex, age, member, hours = (value for _, value in query.conditions)
    assert type(sex) is str
    assert {type(label) for label in age} == {int}
    assert type(age) is frozenset
    assert member is True
    assert type(hours) is tuple
    assert [type(end) for end in hours] == [float, int]


def test_conjunctions_are_equal_if_they_ask_the_same():
    one = Conjunction({"age": 18, "member": True})
    other = Conjunction({"member": True, "age": 18})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Conjunction({"age": 18, "member": 1})
    assert one != Conjunction({"age": 18})
    assert one != Conjunction({"age": 18, "member": True}, normalized=False)
    assert Conjunction({"age": {18, 19}}) == Conjunction({"age": frozenset({19, 18})})
    assert Conjunction({"age": Not(18)}) != Conjunction({"age": 18})


def test_conditions_too_large_to_write_out_are_refused_by_their_attribute():
    domain = Domain(Integer("id", 1, 10**9), Categorical("sex", ["F", "M"]))
    for condition in ({1, 10**6}, Not({10**6}), range(1, 10**9, 2)):
        with pytest.raises(TooLarge, match="a condition on 'id'"):
            Count({"id": condition}).lower(domain)
    wide = Domain(Integer("zip", 0, 9999))
    with pytest.raises(TooLarge, match="a condition on 'zip'"):
        Marginal("zip", where={"zip": {1, 5}}).lower(wide)


def test_the_shortest_factor_is_chosen_for_a_condition():
    age = PEOPLE["age"]
    assert indicator(age, {18, 19, 20}) == Range(8, 1, 4)
    assert isinstance(indicator(age, {18, 20}), Weights)
    assert sys.getsizeof(indicator(age, range(17, 10**100))) < 200


@pytest.mark.parametrize("kind", [Threshold, Interval, Sum, Linear, Mean, Marginal, Count])
def test_every_query_takes_its_condition_from_one_field(kind):
    where = fields(kind).where
    assert where.inherited
    assert where.kw_only
    assert where.converter is fields(Threshold).where.converter
    if kind is Mean:
        assert not hasattr(fields(kind), "normalized")
    else:
        assert fields(kind).normalized.inherited
        assert fields(kind).normalized.kw_only


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: Threshold("age", 20, **given),
        lambda **given: Interval("age", 18, 20, **given),
        lambda **given: Sum("age", **given),
        lambda **given: Linear(np.full(2, 0.5), ["sex"], **given),
        lambda **given: Marginal("sex", **given),
        Count,
    ],
)
def test_queries_with_a_condition_compare_hash_and_read_by_it(make):
    given = [
        {},
        {"where": {"age": 18}},
        {"normalized": False},
        {"where": {"age": 18}, "normalized": False},
    ]
    made = [make(**each) for each in given]
    assert len(set(made)) == len({repr(query) for query in made}) == 4
    for query, each in zip(made, given, strict=True):
        assert query == make(**each)
        assert hash(query) == hash(make(**each))
        assert pickle.loads(pickle.dumps(query)) == query  # noqa: S301
        with pytest.raises(AttributeError):
            query.where = None
    for wrong in ({"where": 3}, {"where": []}, {"normalized": 1}, {"normalized": None}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            make(**wrong)
