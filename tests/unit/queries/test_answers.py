"""Every query, with the noise as good as off, equals a count by hand."""

import tracemalloc
from fractions import Fraction
from functools import partial
from itertools import count

import numpy as np
import pytest

from dpsdk import Domain, Integer, Neighbors, PrivateData
from dpsdk.errors import (
    DomainError,
    InvalidArgument,
    PublicSizeRequired,
    QueryError,
    TooLarge,
    UnknownAttribute,
    UnknownLabel,
)
from dpsdk.kernel import Terms
from dpsdk.mechanisms import Laplace
from dpsdk.queries import (
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    Mean,
    Not,
    Sum,
    Threshold,
    Workload,
    marginals,
)
from worlds import PEOPLE, QUIET, crossed, facts, inside, middle, people, quiet, table

LOW, MIDDLE, HIGH = (0, 10), (10, 20), (20, 40)


def labelled(row):
    """The row's labels in the universe."""
    bins = {5.0: LOW, 15.0: MIDDLE, 30.0: HIGH}
    return {**row, "hours": bins[middle(row)]}


CONDITIONS = {
    "label": ({"sex": "Male"}, lambda r: r["sex"] == "Male"),
    "boolean": ({"member": True}, lambda r: r["member"]),
    "bin": ({"hours": HIGH}, lambda r: r["hours"] == HIGH),
    "range": ({"age": range(18, 22)}, lambda r: 18 <= r["age"] < 22),
    "steps": ({"age": range(17, 24, 3)}, lambda r: r["age"] in {17, 20, 23}),
    "backwards": ({"age": range(22, 17, -1)}, lambda r: 18 <= r["age"] <= 22),
    "backward steps": ({"age": range(24, 17, -2)}, lambda r: r["age"] in {24, 22, 20, 18}),
    "set": ({"age": {17, 24, 20}}, lambda r: r["age"] in {17, 24, 20}),
    "run": ({"age": {19, 18, 20}}, lambda r: r["age"] in {18, 19, 20}),
    "frozenset": ({"hours": frozenset({LOW, HIGH})}, lambda r: r["hours"] != MIDDLE),
    "not a label": ({"sex": Not("Male")}, lambda r: r["sex"] != "Male"),
    "not in the middle": ({"age": Not(20)}, lambda r: r["age"] != 20),
    "not a range": ({"age": Not(range(17, 20))}, lambda r: r["age"] >= 20),
    "not a set": ({"age": Not({18, 22})}, lambda r: r["age"] not in {18, 22}),
    "not not": ({"age": Not(Not({18, 22}))}, lambda r: r["age"] in {18, 22}),
    "not all": ({"sex": Not({"Female", "Male"})}, lambda r: False),
    "several": (
        {"sex": "Female", "age": range(18, 23), "hours": Not(LOW), "member": {True, False}},
        lambda r: r["sex"] == "Female" and 18 <= r["age"] < 23 and r["hours"] != LOW,
    ),
}

SCALARS = {
    "count": (lambda **g: Count(**g), lambda r: 1.0),
    "threshold": (lambda **g: Threshold("age", 20, **g), lambda r: r["age"] <= 20),
    "threshold between": (lambda **g: Threshold("age", 20.7, **g), lambda r: r["age"] <= 20),
    "threshold below": (lambda **g: Threshold("age", -5, **g), lambda r: 0.0),
    "threshold above": (lambda **g: Threshold("age", 1e9, **g), lambda r: 1.0),
    "threshold edge": (lambda **g: Threshold("hours", 20, **g), lambda r: r["hours"] != HIGH),
    "threshold last": (lambda **g: Threshold("hours", 40, **g), lambda r: 1.0),
    "threshold first": (lambda **g: Threshold("hours", 0, **g), lambda r: 0.0),
    "interval": (lambda **g: Interval("age", 18, 21, **g), lambda r: 18 <= r["age"] <= 21),
    "interval open": (lambda **g: Interval("age", 17.2, 20.9, **g), lambda r: 18 <= r["age"] <= 20),
    "interval of none": (lambda **g: Interval("age", 18.2, 18.8, **g), lambda r: 0.0),
    "interval wide": (lambda **g: Interval("age", -1e9, 1e9, **g), lambda r: 1.0),
    "interval bins": (lambda **g: Interval("hours", 10, 20, **g), lambda r: r["hours"] == MIDDLE),
    "interval beyond": (lambda **g: Interval("hours", -3, 99, **g), lambda r: 1.0),
    "sum": (lambda **g: Sum("age", **g), lambda r: r["age"]),
    "sum of bins": (
        lambda **g: Sum("hours", **g),
        lambda r: {LOW: 5.0, MIDDLE: 15.0, HIGH: 30.0}[r["hours"]],
    ),
    "linear": (lambda **g: Linear(lambda r: r["age"] / 24, **g), lambda r: r["age"] / 24),
    "linear of two": (
        lambda **g: Linear(
            lambda r: 0.3 if r["member"] else (r["age"] - 17) / 7, ["member", "age"], **g
        ),
        lambda r: 0.3 if r["member"] else (r["age"] - 17) / 7,
    ),
    "linear array": (
        lambda **g: Linear(np.arange(16).reshape(2, 8) / 16, ["sex", "age"], **g),
        lambda r: ((r["sex"] == "Male") * 8 + r["age"] - 17) / 16,
    ),
    "linear flat": (
        lambda **g: Linear(np.arange(8) / 8, ["age"], **g),
        lambda r: (r["age"] - 17) / 8,
    ),
}

ROWS = people(300, 7)
DATA = table(ROWS)
PRIVATE_SIZE = table(ROWS, Neighbors.ADD_REMOVE, max_rows=1000)
KEPT = [labelled(row) for row in ROWS if inside(row)]


def ask(query, data=DATA):
    return quiet(data).answer(query, using=QUIET)


@pytest.mark.thorough(quick=27)
@pytest.mark.parametrize(("kind", "condition"), crossed(SCALARS, [None, *CONDITIONS], 3))
def test_every_scalar_query_counts_the_rows_that_meet_its_condition(kind, condition):
    make, weigh = SCALARS[kind]
    where, holds = CONDITIONS[condition] if condition else (None, lambda r: True)
    expected = sum(float(weigh(row)) for row in KEPT if holds(row))
    count = ask(make(where=where, normalized=False), PRIVATE_SIZE)
    share = ask(make(where=where))
    assert type(count) is float
    assert type(share) is float
    assert count == pytest.approx(expected, abs=1e-5)
    assert share == pytest.approx(expected / len(ROWS), abs=1e-7)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conjunctions_count_their_rows(condition):
    where, holds = CONDITIONS[condition]
    expected = sum(1 for row in KEPT if holds(row))
    assert ask(Conjunction(where)) == pytest.approx(expected / 300, abs=1e-12)
    assert ask(Conjunction(where, normalized=False), PRIVATE_SIZE) == expected


@pytest.mark.thorough(quick=23)
@pytest.mark.parametrize("condition", [None, *CONDITIONS])
@pytest.mark.parametrize(
    "names", [("sex",), ("age",), ("hours", "sex"), ("member", "age", "sex"), PEOPLE.names[::-1]]
)
def test_marginals_count_every_combination_in_the_order_asked(names, condition):
    where, holds = CONDITIONS[condition] if condition else (None, lambda r: True)
    answer = ask(Marginal(*names, where=where, normalized=False))
    assert answer.names == names
    assert answer.values.shape == tuple(PEOPLE[name].size for name in names)
    expected = dict.fromkeys(answer.to_dict(), 0.0)
    for row in KEPT:
        if holds(row):
            expected[tuple(row[name] for name in names)] += 1
    assert answer.to_dict() == expected
    shares = ask(Marginal(*names, where=where))
    np.testing.assert_allclose(shares.values * 300, answer.values, atol=1e-9)


@pytest.mark.thorough(quick=39)
@pytest.mark.parametrize("condition", [None, *CONDITIONS])
@pytest.mark.parametrize("attribute", ["age", "hours"])
@pytest.mark.parametrize("data", [DATA, PRIVATE_SIZE], ids=["public size", "private size"])
def test_means_are_those_of_the_rows_that_count(attribute, condition, data):
    where, holds = CONDITIONS[condition] if condition else (None, lambda r: True)
    kept = [row for row in KEPT if holds(row)]
    values = [r["age"] if attribute == "age" else sum(r["hours"]) / 2 for r in kept]
    release = quiet(data).release(Mean(attribute, where=where), using=QUIET)
    low, high = PEOPLE[attribute].bounds
    if values:
        assert low <= release.value <= high
        assert release.value == pytest.approx(np.mean(values), abs=1e-6)
        # Bins of these hours are up to 20 wide, and hide what lies in them.
        assert sum(release.bound().parts.values()) == release.error()
        assert release.bound().parts["noise"] < 1e-3
        assert release.bound().bins <= (10.001 if attribute == "hours" else 0)
    else:
        assert np.isnan(release.value)
        assert release.error() == high - low
        assert release.bound().vacuous
        assert release.interval() == (low, high)


@pytest.mark.parametrize("seed", range(40))
def test_the_bracket_of_a_mean_is_the_range_of_means_over_the_box_of_its_numbers(seed):
    rng = np.random.default_rng(seed)
    of, mean = facts(PEOPLE), Mean("age")
    count = rng.uniform(20, 900)
    raw = np.array([rng.uniform(-1, 1) * count, count])
    radii = rng.uniform(0, 15, 2)
    low, high = mean.bracket(raw, radii, of)
    box = [
        mean.lift(np.array([raw[0] + a * radii[0], raw[1] + b * radii[1]]), of)
        for a in np.linspace(-1, 1, 9)
        for b in np.linspace(-1, 1, 9)
    ]
    assert low == pytest.approx(min(box), abs=1e-12)
    assert high == pytest.approx(max(box), abs=1e-12)
    assert low < mean.lift(raw, of) < high or {low, high} & {17.0, 24.0}
    assert mean.spread(raw, radii, of)[0] >= (high - low) / 2
    # Where there may be no row at all, the mean may be anything.
    assert mean.bracket(raw, np.array([0.0, count]), of) == (17.0, 24.0)


def test_a_workload_answers_what_its_queries_answer_alone():
    queries = [
        Threshold("age", 20),
        Marginal("member", "sex"),
        Mean("age", where={"sex": "Male"}),
        Sum("hours", normalized=False),
        Count({"age": Not(20)}),
        Workload([Count(), Marginal("hours", normalized=False)]),
        Linear(lambda r: r["age"] / 24, ["age"]),
        Conjunction({"age": {17, 20}, "sex": "Male"}),
        Conjunction({"age": {18, 24}, "sex": "Female"}),
    ]
    together = ask(Workload(queries))
    assert len(together) == len(queries)
    for query, answer in zip(queries, together, strict=True):
        alone = ask(query)
        assert type(answer) is type(alone)
        if isinstance(alone, float):
            assert answer == pytest.approx(alone, abs=1e-4)
        elif hasattr(alone, "to_dict"):
            np.testing.assert_allclose(answer.values, alone.values, atol=1e-4)
    assert together.values.shape == (1 + 4 + 1 + 1 + 1 + 4 + 1 + 1 + 1,)
    assert together.values[0] == together[0]
    np.testing.assert_array_equal(together.values[1:5], together[1].values.ravel())


def test_the_marginals_of_a_domain_are_all_of_them():
    answers = ask(marginals(PEOPLE, 2))
    assert len(answers) == 6
    for answer in answers:
        assert answer.total() == pytest.approx(len(KEPT) / 300)


@pytest.mark.thorough
def test_the_answers_on_a_universe_of_10_to_the_20_cells_need_little_memory():
    domain = Domain(*(Integer(f"a{i}", 0, 99) for i in range(10)))
    rng = np.random.default_rng(2)
    given = {name: rng.integers(0, 100, 500) for name in domain.names}
    session = quiet(PrivateData.from_columns(given, domain))
    tracemalloc.start()
    try:
        low = {name: range(30) for name in domain.names[:3]}
        # Four attributes of a hundred cells are more than a table is made for.
        many = {name: range(80) for name in domain.names[:4]}
        assert session.answer(Conjunction(low, normalized=False), using=QUIET) == sum(
            given["a0"][i] < 30 and given["a1"][i] < 30 and given["a2"][i] < 30 for i in range(500)
        )
        assert session.answer(Conjunction(many, normalized=False), using=QUIET) == sum(
            all(given[f"a{j}"][i] < 80 for j in range(4)) for i in range(500)
        )
        assert session.answer(Threshold("a9", 49, where=low, normalized=False), using=QUIET) == sum(
            all(given[f"a{j}"][i] < 30 for j in range(3)) and given["a9"][i] <= 49
            for i in range(500)
        )
        wide = session.answer(Marginal("a7", "a2", where=many, normalized=False), using=QUIET)
        assert wide.total() == sum(
            all(given[f"a{j}"][i] < 80 for j in range(4)) for i in range(500)
        )
        ages = session.answer(Workload(Threshold("a3", t) for t in range(100)), using=QUIET)
        assert ages[-1] == 1.0
        peak = tracemalloc.get_traced_memory()[1]
        before = session.spent
        for ask_too_much in (
            Marginal(*domain.names),
            Marginal(*domain.names[:4]),
            Linear(lambda r: 0.5),
            Linear(lambda r: 0.5, domain.names[:4]),
            Linear(np.full((100, 100), 0.5), ["a0", "a1"], where={"a2": 1, "a3": 1, "a4": 1}),
            Workload([Linear(np.full((100, 100), 0.5), ["a0", "a1"])] * 10**5),
            Workload([Marginal("a0", "a1", "a2")] * 20),
        ):
            with pytest.raises(TooLarge) as caught:
                session.answer(ask_too_much, using=QUIET)
            assert caught.value.needed > caught.value.limit
        assert session.spent == before
        refused = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    many = Workload([Linear(np.full((100, 100), 0.5), ["a0", "a1"])] * 2 * 10**5)
    with pytest.raises(TooLarge):
        session.quote(many, using=QUIET)
    assert peak < 64 * 2**20
    assert refused < 64 * 2**20


def test_huge_attributes_are_answered_or_refused_at_once():
    domain = Domain(Integer("id", 0, 10**15))
    session = quiet(PrivateData.from_columns({"id": [1, 10**15, 7]}, domain))
    tracemalloc.start()
    try:
        count = Conjunction({"id": range(10**12)}, normalized=False)
        assert session.answer(count, using=QUIET) == 2
        assert session.answer(Threshold("id", 6, normalized=False), using=QUIET) == 1
        assert session.answer(Count({"id": Not(range(7))}, normalized=False), using=QUIET) == 2
        total = pytest.approx(10**15 + 8, rel=1e-5)
        assert session.answer(Sum("id", normalized=False), using=QUIET) == total
        assert 3 * session.answer(Mean("id"), using=QUIET) == total
        for refused in (
            Marginal("id"), Conjunction({"id": {1, 7}}),
            Conjunction({"id": range(0, 10**15, 2)}), Count({"id": Not(7)}),
        ):  # fmt: skip
            with pytest.raises(TooLarge):
                session.answer(refused, using=QUIET)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "query",
    [
        Count(), Threshold("age", 20), Interval("age", 18, 20), Sum("age"), Marginal("sex"),
        Conjunction({"sex": "Male"}), Linear(lambda r: 1.0, ["sex"]), Workload([Count()]),
        Workload([Mean("age"), Workload([Marginal("sex")])]),
    ],
)  # fmt: skip
def test_a_share_of_a_private_number_of_rows_is_refused_before_any_charge(query):
    session = quiet(PRIVATE_SIZE)
    with pytest.raises(PublicSizeRequired) as caught:
        session.answer(query, using=QUIET)
    assert "normalized=False" in str(caught.value)
    with pytest.raises(PublicSizeRequired):
        session.quote(query, using=QUIET)
    assert session.spent.charges == 0
    assert session.history == ()


NOT_THERE = {
    UnknownAttribute: [
        Count({"ages": 3}), Threshold("ages", 3), Marginal("age", "ages"), Mean("ages"),
        Linear(lambda r: 1.0, ["ages"]),
    ],
    UnknownLabel: [
        Count({"sex": "male"}), Count({"age": 25}), Count({"age": True}), Count({"age": 17.0}),
        Count({"age": range(25, 40)}), Count({"age": range(16, 0, -3)}),
        Count({"age": range(10, 40, 15)}), Count({"hours": range(10, 20)}),
        Count({"sex": {"Male", "x"}}), Count({"sex": range(1)}), Count({"hours": 5}),
        Count({"hours": (0, 20)}), Count({"hours": ("0", "10")}), Count({"member": 1}),
        Count({"age": Not(99)}), Workload([Count(), Count({"age": 99})]),
    ],
    QueryError: [
        Count({"age": set()}), Count({"age": range(0)}), Count({"age": range(20, 17)}),
        Threshold("sex", 3), Threshold("hours", 15), Interval("hours", 5, 20),
        Interval("hours", 10, 25), Interval("member", 0, 1), Sum("sex"), Mean("member"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "error"), [(query, error) for error, asked in NOT_THERE.items() for query in asked]
)
def test_what_the_universe_does_not_have_is_refused_before_any_charge(query, error):
    session = quiet(DATA)
    with pytest.raises(error) as caught:
        session.answer(query, using=QUIET)
    assert isinstance(caught.value, DomainError | QueryError)
    assert session.spent.charges == 0


CANNOT_BE = {
    Conjunction: [
        {}, "age", None, {3: 4}, {"age": {17: 18}}, {"age": np.arange(3)}, {"age": iter([17])},
        {"age": slice(17, 20)}, {"age": {frozenset({17})}}, {"age": 10**5000},
        {"age": range(10**5000)},
    ],
    Count: [3, {}, {"age": type("Label", (), {"__hash__": None})()}],
    partial(Threshold, ""): [3],
    partial(Threshold, "age"): [
        10**5000, Fraction(10**5000), "3", True, float("nan"), float("inf"), None,
    ],
    partial(Interval, "age", high=2): [-(10**400), 3, float("-inf")],
    partial(Linear, lambda r: 1.0): [[["a"]], 3, [], ["a", "a"]],
    Linear: [np.array([2.0]), np.array([-1e-9]), np.array([float("nan")]), np.array([]), "x"],
    Workload: [3, [], [Count(), 3]],
    Sum: [3],
    Mean: [None],
    (lambda names: Marginal(*names)): [(), ("a", "a"), (3,)],
    partial(marginals, PEOPLE): [0, 5, 2.0],
    (lambda normalized: Count(normalized=normalized)): ["no"],
    (lambda normalized: Sum("age", normalized=normalized)): [0],
    (lambda normalized: Conjunction({"age": 3}, normalized=normalized)): [None],
    (lambda normalized: Marginal("age", normalized=normalized)): [1],
    (lambda normalized: marginals(PEOPLE, 1, normalized=normalized)): ["yes"],
    (lambda normalized: Threshold("age", 3, normalized=normalized)): [()],
    (lambda normalized: Interval("age", 3, 4, normalized=normalized)): [""],
    (lambda normalized: Linear(lambda r: 1.0, normalized=normalized)): [[]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("make", "given"),
    [(make, one) for make, values in CANNOT_BE.items() for one in values],
    ids=count(),  # as some are integers too long to be written
)
def test_a_query_that_cannot_be_is_refused_when_it_is_made(make, given):
    with pytest.raises(InvalidArgument):
        make(given)


@pytest.mark.parametrize(
    "query",
    [
        Threshold("age", 40), Threshold("age", 40.5, where={"sex": "Male"}), Interval("a", 1, 2),
        Count(), Count(where={"sex": Not("Male"), "age": {1, 2}}, normalized=False),
        Sum("age", normalized=False), Mean("age", where={"a": range(3)}),
        Marginal("a", "b", normalized=False), Conjunction({"a": frozenset({"x"})}),
    ],
)  # fmt: skip
def test_a_query_prints_as_it_is_written_and_equal_ones_are_equal(query):
    again = eval(repr(query))  # noqa: S307
    assert again == query
    assert hash(again) == hash(query)
    assert repr(again) == repr(query)


def test_sums_move_by_the_declared_bounds_not_by_the_rows():
    one = Laplace(epsilon=1)
    of = facts(PEOPLE, rows=10)
    quote = one.quote(Sum("age", normalized=False).lower(PEOPLE), Terms(of))
    (guarantee,) = quote.at_most.guarantees
    assert guarantee.shift == 24  # from outside, where the sum is zero, to the largest age
