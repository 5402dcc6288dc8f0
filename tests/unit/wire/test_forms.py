"""Every public value has one written form, and is read back from it as it was."""

import json
import math
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from inspect import isabstract, isclass
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, wire
from dpsdk.errors import InvalidArgument, WireError
from dpsdk.hypothesis import DenseHypothesis, SyntheticData
from dpsdk.mechanisms import MWEM, ConvexPMW, Laplace, Mechanism, OnlinePMW
from dpsdk.queries import Conjunction, Count, Linear, Marginal, Not, Query, Threshold, Workload
from dpsdk.wire import Catalogue
from worlds import repeatable
from written import CATALOGUE, DOMAIN, GIVEN, VALUES

GOLDEN = Path(__file__).with_name("version-1.jsonl")

READINGS = "what somebody reads of a ledger, and nothing that is handed in"
RESULTS = "what an answer is made of; a release writes it as plain numbers"
BOUNDS = "on what a bound rests; a release writes the bound"
WITHOUT = {
    "Answers": RESULTS, "MarginalTable": RESULTS, "GroupTable": RESULTS, "Model": RESULTS,
    "Classifier": RESULTS, "FittedTable": RESULTS, "UnmatchedTable": RESULTS,
    "Certificate": BOUNDS, "CertifiedExcess": BOUNDS, "CoefficientSet": BOUNDS,
    "PredictedExcess": BOUNDS, "ProjectionAccuracy": BOUNDS, "Constants": BOUNDS,
    "JointAccuracy": BOUNDS, "RankAccuracy": BOUNDS,
    "PartsStrategy": "a strategy of mechanisms, and none itself",
    "Single": "what a mechanism asks of a kernel",
    "ResidualPlan": "what a channel will measure, worked out anew from the mechanism",
    "Fitted": "a strategy of mechanisms, and none itself",
    "Unfinished": "an error",
    "Effort": "what a plan says in members of its own",
    "Curve": "what is read at the moment of planning", "Point": "a part of a curve",
    "Payment": "what a release writes with itself",
    "Remaining": READINGS, "Readings": READINGS, "Declared": READINGS,
    "ScopeStatement": READINGS,
    "Not": "a part of a condition, which queries write",
    "Between": "a part of a condition, which queries write",
    "Boolean": "a part of a domain", "Binned": "a part of a domain",
    "Categorical": "a part of a domain", "Integer": "a part of a domain",
    "Date": "a part of a domain", "Number": "a part of a domain",
    "UndeclaredFacts": "what a table without a domain says of itself",
}  # fmt: skip
"""Public values without a written form by themselves, and why."""


def test_every_public_value_has_a_written_form_or_a_reason_against():
    known = {kind.made for kind in CATALOGUE.among(object)}
    rooms = ("domain", "data", "losses", "queries", "mechanisms", "accounting", "planner")
    public = {
        value
        for room in rooms
        for name in import_module(f"dpsdk.{room}").__all__
        if isclass(value := getattr(import_module(f"dpsdk.{room}"), name))
        and attrs.has(value)
        and not isabstract(value)
    }
    assert {value.__name__ for value in public - known} <= set(WITHOUT)
    assert not {value.__name__ for value in known} & set(WITHOUT)


def test_every_kind_has_an_example():
    kinds = {wire.to_json(value, allow=CATALOGUE)["kind"] for value in VALUES}
    assert kinds == set(CATALOGUE.kinds) == set(Catalogue.shipped().kinds)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_read_back_as_it_was(value):
    text = wire.dumps(value, allow=CATALOGUE)
    back = wire.loads(type(value), text, allow=CATALOGUE)
    assert back == value
    assert type(back) is type(value)
    assert wire.to_json(back, allow=CATALOGUE) == json.loads(text)
    assert wire.digest(back, allow=CATALOGUE) == wire.digest(value, allow=CATALOGUE)
    assert wire.from_json(type(value), json.loads(text), allow=CATALOGUE) == value
    assert wire.loads(type(value), text.encode(), allow=CATALOGUE) == value


def test_equal_values_have_equal_digests_and_no_others():
    known = {}
    for value in VALUES:
        digest = wire.digest(value, allow=CATALOGUE)
        assert digest not in known, (value, known[digest])
        known[digest] = value
    assert not any(
        type(one) is type(other) and one == other
        for place, one in enumerate(VALUES)
        for other in VALUES[:place]
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Conjunction({"a": 1, "b": {3, 1, 2}}), Conjunction({"b": {2, 3, 1}, "a": 1})),
        (Conjunction({"a": {(0.0, 1.0)}}), Conjunction({"a": {(-0.0, 1.0)}})),
        (Conjunction({"a": Not(Not(Not("x")))}), Conjunction({"a": Not("x")})),
        (Threshold("age", 40), Threshold("age", 40.0)),
        (Threshold("age", 0), Threshold("age", -0.0)),
        (Threshold("age", 2**60), Threshold("age", float(2**60))),
        (Threshold("age", np.float32(0.5)), Threshold("age", 0.5)),
        (Laplace("0.10"), Laplace(Fraction(1, 10))),
        (Linear([0.0, -0.0], ["b"]), Linear([False, 0], ["b"])),
        (Count(where=Conjunction({"a": 1}, normalized=False)), Count(where={"a": 1})),
    ],
)
def test_equal_values_are_written_alike(one, other):
    assert one == other
    assert hash(one) == hash(other)
    assert wire.digest(one) == wire.digest(other)


labels = st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "1", "True", "é"])
bins = st.tuples(*[st.sampled_from([0, 1, 0.0, 1.0, 0.5, -0.0])] * 2)
wanted = (
    labels
    | bins
    | st.frozensets(labels | bins, max_size=12)
    | st.builds(range, st.integers(-2, 2), st.integers(-2, 5), st.sampled_from([1, 2, -1]))
)
conditions = st.dictionaries(
    st.sampled_from("abc"), wanted | wanted.map(Not), min_size=1, max_size=2
)


@repeatable
@given(conditions, conditions)
def test_conditions_are_equal_if_and_only_if_their_digests_are(one, other):
    first, second = Conjunction(one), Conjunction(other)
    assert wire.loads(Conjunction, wire.dumps(first)) == first
    assert (first == second) == (wire.digest(first) == wire.digest(second))
    if first == second:
        assert hash(first) == hash(second)


def test_what_was_written_once_keeps_its_meaning():
    # Never edit a line of that file: a new kind gets a new line, and a new version a new file.
    lines = GOLDEN.read_text("utf-8").splitlines()
    kinds = set()
    for line, value in zip(lines, VALUES, strict=True):
        kinds.add(json.loads(line)["kind"])
        assert wire.loads(type(value), line, allow=CATALOGUE) == value
        assert wire.dumps(value, allow=CATALOGUE) == line
    assert kinds == set(CATALOGUE.kinds)


def test_names_of_what_may_be_asked_for():
    threshold, laplace = wire.dumps(Threshold("age", 40)), wire.dumps(Laplace(1))
    assert wire.loads("query", threshold) == Threshold("age", 40)
    assert wire.loads(Query, threshold) == Threshold("age", 40)
    assert wire.loads("one-shot", laplace) == wire.loads("mechanism", laplace) == Laplace(1)
    assert wire.loads(Mechanism, laplace) == Laplace(1)
    with pytest.raises(WireError, match=r"\$.kind must be the kind of a OneShot"):
        wire.loads("one-shot", wire.dumps(OnlinePMW(1, updates=3)))
    with pytest.raises(WireError, match=r"\$.kind must be the kind of a Query"):
        wire.loads("query", laplace)
    for kind in ("query.threshold", "os", None, 3, [], "Query"):
        with pytest.raises(InvalidArgument, match="kind must be a class, or one of query"):
            wire.loads(kind, laplace)
    with pytest.raises(InvalidArgument, match="allow"):
        wire.loads("query", threshold, allow=["query.threshold"])


def test_members_that_may_be_left_out_have_a_meaning_of_their_own():
    def short(kind, **members):
        return {"format": "dpsdk.wire", "version": 1, "kind": kind, **members}

    query = short("query.marginal", attributes=["sex"])
    assert wire.from_json("query", query) == Marginal("sex")
    assert wire.from_json("query", short("query.count", where={"a": 1})) == Count({"a": 1})
    assert wire.from_json("mechanism", short("mechanism.gaussian", rho="0.1")).rho == Fraction(
        1, 10
    )
    assert wire.from_json("budget", short("budget", epsilon="1")).delta == 0
    with pytest.raises(WireError, match="none called 'attributes'"):
        wire.from_json("query", short("query.marginal"))
    for name in ("format", "version", "kind"):
        with pytest.raises(WireError, match=rf"\$\.{name}"):
            wire.from_json("query", {key: one for key, one in query.items() if key != name})


@pytest.mark.parametrize("text", ["1", "1.0", "0.1", "1e-9", "1E+2", "1/3", "2/4", "10/0x1f"])
def test_amounts_are_decimals_or_fractions(text):
    data = {"format": "dpsdk.wire", "version": 1, "kind": "guarantee.pure", "epsilon": text}
    above, _, below = text.partition("/")
    expected = Fraction(above) / (int(below, 0) if below else 1)
    assert wire.from_json("guarantee", data).epsilon == expected


@pytest.mark.parametrize(
    "text",
    [
        1, 0.1, True, None, "", " 1", "1 ", "+1", "-1", "01", "1.", ".5", "1_0", "nan", "inf",
        "1e9999", "1/0", "1/01", "1/-2", "٣", "0x", "0x0", "0X1", "1e", "1/3\n", "0." + "1" * 5000,
        "9" * 5000, ["1"], {"exact": "1"},
    ],
)  # fmt: skip
def test_nothing_else_is_an_amount(text):
    data = {"format": "dpsdk.wire", "version": 1, "kind": "guarantee.pure", "epsilon": text}
    with pytest.raises(WireError, match="epsilon"):
        wire.from_json("guarantee", data)


def test_a_function_is_written_as_its_table_or_refused():
    def rule(record):
        return 0.5 if record["age"] > 30 else 0.0

    query = Linear(rule, attributes=["age"], where={"sex": "Male"})
    table = Linear([0.0] * 14 + [0.5] * 60, attributes=["age"], where={"sex": "Male"})
    assert query.tabulated(DOMAIN) == table
    assert table.tabulated(DOMAIN) is table
    assert wire.loads(Linear, wire.dumps(query, domain=DOMAIN)) == table
    assert wire.digest(query, domain=DOMAIN) == wire.digest(table)
    inside = Workload([Count(), query])
    assert wire.loads(Workload, wire.dumps(inside, domain=DOMAIN)) == Workload([Count(), table])
    with pytest.raises(WireError, match=r"\$.queries\[1\].weights .* a function alone"):
        wire.dumps(inside)
    large = Domain(Integer("age", 0, 2**20), Boolean("b"))
    with pytest.raises(WireError, match=r"\$.weights .*cells"):
        wire.dumps(Linear(lambda record: 1.0), domain=large)
    with pytest.raises(WireError, match=r"raised KeyError"):
        wire.dumps(Linear(lambda record: record["no"]), domain=DOMAIN)
    with pytest.raises(InvalidArgument, match="domain"):
        wire.dumps(query, domain="age")


def test_a_distribution_is_written_by_its_digest_and_has_to_be_handed_in():
    mechanism = OnlinePMW(1, updates=3, start=GIVEN)
    text = wire.dumps(mechanism)
    assert wire.digest(GIVEN) in text
    assert wire.loads("mechanism", text, allow=CATALOGUE) == mechanism
    with pytest.raises(WireError, match=r"\$.start.distribution must be the digest"):
        wire.loads("mechanism", text)
    other = SyntheticData(DOMAIN, [[0, 1, 0], [5, 0, 0]])
    moved = DenseHypothesis.uniform(DOMAIN)
    assert len({wire.digest(one) for one in (GIVEN, other, moved)}) == 3
    assert wire.digest(moved) == wire.digest(moved.copy())
    known = Catalogue.shipped().knowing(moved)
    text = wire.dumps(OnlinePMW(1, updates=3, start=moved))
    moved.blend(0.5)
    assert wire.digest(wire.loads("mechanism", text, allow=known)) == wire.digest(
        OnlinePMW(1, updates=3, start=DenseHypothesis.uniform(DOMAIN))
    )
    with pytest.raises(InvalidArgument, match="distributions"):
        Catalogue.shipped().knowing("a")


def test_domains_of_every_kind_of_attribute_are_written():
    domain = Domain(Categorical("c", ["a", 2]), Binned("x", [0, 0.1]), Integer("n", -3, 4))
    assert wire.loads("domain", wire.dumps(domain)) == domain


def test_what_has_no_written_form_says_so():
    class Mine(Threshold):
        pass

    class Free(Laplace):
        __slots__ = ()

    class Own(Integer):
        __slots__ = ()

    for value in (
        Mine("age", 1), Free(1), object(), 3, None, "a", Threshold, Domain(Own("a", 0, 1)),
    ):  # fmt: skip
        with pytest.raises(WireError):
            wire.to_json(value)
    for value in (
        Count({"a": None}), Count({"a": 0.5}), Count({"a": ("x", 1)}), Count({"a": (math.inf, 1)}),
        Count({"a": (1, 2, 3)}), Workload([Mine("age", 1)]), Count({"a": "x" * 70_000}),
    ):  # fmt: skip
        with pytest.raises(WireError, match=r"^\$\.(where|queries)"):
            wire.dumps(value)


def test_only_what_a_catalogue_has_is_read_and_written():
    allowed = Catalogue.shipped().only("query.threshold", "query.workload", Laplace)
    assert allowed.kinds == ("mechanism.laplace", "query.threshold", "query.workload")
    threshold = Workload([Threshold("age", 40)])
    assert wire.loads("query", wire.dumps(threshold), allow=allowed) == threshold
    inside = wire.dumps(Workload([Count()]))
    with pytest.raises(WireError, match=r"\$.queries\[0\].kind .* got 'query.count'"):
        wire.loads("query", inside, allow=allowed)
    with pytest.raises(WireError, match="of class Count"):
        wire.dumps(Count(), allow=allowed)
    assert "query.count" in Catalogue.shipped().only("query").kinds
    assert "mechanism.laplace" not in Catalogue.shipped().only(Query).kinds
    for wrong in ("query.tresholt", "", int, None, 3):
        with pytest.raises(InvalidArgument, match="wanted"):
            Catalogue.shipped().only(wrong)


@pytest.mark.parametrize("wrong", ["False", 0, 1, None, []])
def test_flags_of_mechanisms_are_truth_values(wrong):
    few = Workload([Count()])
    for make in (
        lambda flag: OnlinePMW(1, updates=3, prepaid=flag),
        lambda flag: OnlinePMW(1, updates=3, replay=flag),
        lambda flag: ConvexPMW(1, "1e-6", updates=3, prepaid=flag),
        lambda flag: MWEM(few, epsilon=1, average=flag),
    ):
        with pytest.raises(InvalidArgument, match="must be True or False"):
            make(wrong)
        made = make(np.bool_(True))
        assert wire.loads("mechanism", wire.dumps(made)) == made == make(True)


def test_texts_of_classes_below_are_written_as_what_they_equal():
    using = OnlinePMW(1, updates=3, when_spent=np.str_("raise"))
    assert wire.loads("mechanism", wire.dumps(using)) == using
    answers = wire.ReleasedAnswer("numbers", [2], [1, 2])
    assert wire.loads(wire.ReleasedAnswer, wire.dumps(answers)) == answers


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_public_value_has_a_repr_of_moderate_length(value):
    assert 0 < len(repr(value)) < 20_000


def test_a_fresh_process_knows_every_kind():
    """Classes are registered when they are loaded, and a new process has loaded few of them."""
    program = "from dpsdk import wire; print(len(wire.Catalogue.shipped().kinds))"
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(ran.stdout) == len(wire.Catalogue.shipped().kinds) > 80
