"""What each query means over attributes with cells for missing and for other values."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import (
    MISSING,
    OTHER,
    Binned,
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    wire,
)
from dpsdk.errors import InvalidArgument, QueryError, UnknownLabel, WireError
from dpsdk.forms import sensitivity
from dpsdk.forms.assumptions import Assumptions
from dpsdk.mechanisms import Laplace, NumericSparse
from dpsdk.queries import (
    Above,
    Between,
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    Mean,
    Median,
    Not,
    NumericAbove,
    Quantile,
    Rectangles,
    Sum,
    Threshold,
    Unmatched,
    Workload,
)
from dpsdk.testing import seeded
from worlds import QUIET, facts, moves, weights

WORLD = Domain(
    Integer("age", 1, 4, missing=True, other=True),
    Categorical("sex", ["F", "M"], missing=True),
    Binned("hours", [0, 2, 6], other=True),
    Boolean("b"),
)
RECORDS = list(WORLD.records())
COUNTS = np.random.default_rng(3).integers(0, 5, WORLD.size)
ROWS = [record for record, count in zip(RECORDS, COUNTS, strict=True) for _ in range(count)]
MIDDLES = {(0.0, 2.0): 1.0, (2.0, 6.0): 4.0}


def known(row, *names):
    return all(row[name] not in (MISSING, OTHER) for name in names)


def share(test):
    return sum(map(test, ROWS)) / len(ROWS)


def mean_of(numbers):
    values = list(numbers)
    return sum(values) / len(values)


def table_of(test, *axes):
    """Shares of the rows at each combination of labels."""
    return [
        share(lambda row, labels=labels: test(row, labels)) for labels in itertools.product(*axes)
    ]


def weighed(row):
    return 1.0 if row["age"] is MISSING else 0.5 if row["sex"] == "F" else 0.0


AGES = (1, 2, 3, 4)
MEANINGS = {
    "all rows": (Count(), lambda: 1.0),
    "missing": (Count({"sex": MISSING}), lambda: share(lambda r: r["sex"] is MISSING)),
    "a label or missing": (
        Count({"sex": {"F", MISSING}}),
        lambda: share(lambda r: r["sex"] in ("F", MISSING)),
    ),
    "other or missing": (
        Count({"age": [OTHER, MISSING]}),
        lambda: share(lambda r: not known(r, "age")),
    ),
    "not a label": (Count({"sex": Not("F")}), lambda: share(lambda r: r["sex"] == "M")),
    "not some labels": (
        Count({"age": Not({1, 3})}),
        lambda: share(lambda r: r["age"] in (2, 4)),
    ),
    "not missing": (Count({"age": Not(MISSING)}), lambda: share(lambda r: r["age"] is not MISSING)),
    "not a label nor missing": (
        Count({"age": Not({2, MISSING})}),
        lambda: share(lambda r: r["age"] not in (2, MISSING)),
    ),
    "not not": (Count({"sex": Not(Not("F"))}), lambda: share(lambda r: r["sex"] == "F")),
    "range": (Count({"age": range(2, 99)}), lambda: share(lambda r: r["age"] in (2, 3, 4))),
    "not a range": (Count({"age": Not(range(3, 99))}), lambda: share(lambda r: r["age"] in (1, 2))),
    "not all": (Count({"age": Not(range(1, 5))}), lambda: 0.0),
    "steps": (Count({"age": range(1, 99, 2)}), lambda: share(lambda r: r["age"] in (1, 3))),
    "between": (Count({"hours": Between(0, 9)}), lambda: share(lambda r: known(r, "hours"))),
    "conjunction": (
        Conjunction({"age": Not(1), "sex": MISSING, "hours": OTHER}),
        lambda: share(
            lambda r: r["age"] in (2, 3, 4) and r["sex"] is MISSING and r["hours"] is OTHER
        ),
    ),
    "threshold": (Threshold("age", 2), lambda: share(lambda r: r["age"] in (1, 2))),
    "threshold beyond": (Threshold("age", 99), lambda: share(lambda r: known(r, "age"))),
    "threshold of bins": (Threshold("hours", 9), lambda: share(lambda r: known(r, "hours"))),
    "threshold where": (
        Threshold("age", 3, where={"age": Not(1), "sex": Not(MISSING)}),
        lambda: share(lambda r: r["age"] in (2, 3) and r["sex"] is not MISSING),
    ),
    "threshold of the known": (
        Threshold("age", 2, known=True),
        lambda: mean_of(r["age"] <= 2 for r in ROWS if known(r, "age")),
    ),
    "threshold of the known where": (
        Threshold("age", 3, known=True, where={"age": Not(1), "sex": {"M", MISSING}}),
        lambda: mean_of(
            r["age"] <= 3 for r in ROWS if r["age"] in (2, 3, 4) and r["sex"] in ("M", MISSING)
        ),
    ),
    "threshold beyond of the known": (Threshold("age", 9, known=True), lambda: 1.0),
    "threshold below of the known": (Threshold("age", 0, known=True), lambda: 0.0),
    "interval of the known": (
        Interval("age", 2, 3, known=True),
        lambda: mean_of(r["age"] in (2, 3) for r in ROWS if known(r, "age")),
    ),
    "interval of known bins": (
        Interval("hours", 2, 6, known=True, where={"age": OTHER}),
        lambda: mean_of(
            r["hours"] == (2.0, 6.0) for r in ROWS if known(r, "hours") and r["age"] is OTHER
        ),
    ),
    "interval": (Interval("age", 2, 99), lambda: share(lambda r: r["age"] in (2, 3, 4))),
    "marginal": (
        Marginal("sex", "age"),
        lambda: table_of(
            lambda r, labels: (r["sex"], r["age"]) == labels,
            ("F", "M", MISSING), (*AGES, OTHER, MISSING),
        ),
    ),
    "marginal of the known": (
        Marginal("age", "sex", known=True, where={"hours": OTHER}),
        lambda: table_of(
            lambda r, labels: (r["age"], r["sex"]) == labels and r["hours"] is OTHER,
            AGES, ("F", "M"),
        ),
    ),
    "sum": (Sum("age"), lambda: sum(r["age"] for r in ROWS if known(r, "age")) / len(ROWS)),
    "sum of bins": (
        Sum("hours", where={"sex": MISSING}),
        lambda: sum(MIDDLES.get(r["hours"], 0) for r in ROWS if r["sex"] is MISSING) / len(ROWS),
    ),
    "mean": (Mean("age"), lambda: mean_of(r["age"] for r in ROWS if known(r, "age"))),
    "mean of bins": (
        Mean("hours", where={"age": MISSING}),
        lambda: mean_of(
            MIDDLES[r["hours"]] for r in ROWS if known(r, "hours") and r["age"] is MISSING
        ),
    ),
    "quantile": (
        Quantile("age", 0.4),
        lambda: sorted(r["age"] for r in ROWS if known(r, "age"))[
            math.ceil(0.4 * sum(known(r, "age") for r in ROWS)) - 1
        ],
    ),
    "median": (
        Median("age", where={"sex": {"M", MISSING}, "age": {1, 4}}),
        lambda: float(np.quantile(
            [r["age"] for r in ROWS if r["sex"] != "F" and r["age"] in (1, 4)],
            0.5, method="inverted_cdf",
        )),
    ),
    "linear": (
        Linear(weighed, ["age", "sex"]),
        lambda: mean_of(map(weighed, ROWS)),
    ),
    "rectangles": (
        Rectangles(["age", "sex"], lower=[[4, 0], [0, 2]], upper=[[5, 2], [3, 2]]),
        lambda: [
            share(lambda r: not known(r, "age")),
            share(lambda r: known(r, "age") and r["sex"] is MISSING),
        ],
    ),
    "unmatched": (
        Unmatched(),
        lambda: [
            share(lambda r: r["age"] is OTHER),
            share(lambda r: r["age"] is MISSING),
            share(lambda r: r["sex"] is MISSING),
            share(lambda r: r["hours"] is OTHER),
        ],
    ),
    "unmatched where": (
        Unmatched(where={"age": Not(MISSING), "b": True}),
        lambda: [
            share(lambda r: r["b"] and r["age"] is OTHER),
            0.0,
            share(lambda r: r["b"] and r["age"] is not MISSING and r["sex"] is MISSING),
            share(lambda r: r["b"] and r["age"] is not MISSING and r["hours"] is OTHER),
        ],
    ),
    "workload": (
        Workload([Threshold("age", t) for t in range(6)]),
        lambda: [share(lambda r, t=t: known(r, "age") and r["age"] <= t) for t in range(6)],
    ),
}  # fmt: skip


def data(neighbors=Neighbors.REPLACE_ONE):
    more = {} if neighbors is Neighbors.REPLACE_ONE else {"max_rows": 10**4}
    return PrivateData.from_counts(
        COUNTS.reshape(WORLD.shape), WORLD, name="world", neighbors=neighbors, **more
    )


def numbers(answer):
    values = getattr(answer, "values", answer)
    return np.asarray(values, dtype=float).reshape(-1)


@pytest.mark.parametrize("name", MEANINGS)
def test_a_query_means_what_plain_counting_says(name):
    query, expected = MEANINGS[name]
    session = Session(data(), Budget(epsilon=10**12), noise=seeded(1))
    answer = session.answer(query, using=QUIET)
    assert numbers(answer) == pytest.approx(numbers(expected()), abs=1e-4)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("name", MEANINGS)
def test_sensitivities_hold_on_all_records(name, neighbors):
    form = MEANINGS[name][0].lower(WORLD)
    of = facts(WORLD, neighbors, outside=False)
    found = sensitivity(form, of)
    l1, l2, top = moves(weights(form), of)
    assert found.l1 >= l1
    assert found.l2_squared >= l2
    assert found.maximum >= top
    if found.exact and form.integral:
        assert (found.l1, found.l2_squared, found.maximum) == (l1, l2, top)


@pytest.mark.parametrize("name", MEANINGS)
def test_a_query_is_written_and_read(name):
    query = MEANINGS[name][0]
    if name != "linear":
        assert wire.loads("query", wire.dumps(query)) == query


def test_an_extra_is_written_by_its_name():
    text = wire.dumps(Count({"age": Not({2, MISSING}), "hours": OTHER}))
    assert '{"not": {"any": [{"extra": "missing"}, 2]}}' in text
    assert '"hours": {"extra": "other"}' in text


@pytest.mark.parametrize("extra", ['"Missing"', '"none"', "1", "null", '["missing"]'])
def test_no_other_extra_is_read(extra):
    text = wire.dumps(Count({"sex": MISSING}))
    with pytest.raises(WireError, match="extra"):
        wire.loads("query", text.replace('"missing"', extra))


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ({"sex": None}, "for missing values write MISSING"),
        ({"sex": "(missing)"}, "for missing values write MISSING"),
        ({"sex": OTHER}, "other=True"),
        ({"b": MISSING}, "missing=True"),
        ({"age": float("nan")}, "an integer from 1 to 4"),
    ],
)
def test_what_an_attribute_does_not_have_is_refused(condition, hint):
    with pytest.raises(UnknownLabel, match=hint):
        Count(condition).lower(WORLD)


def test_a_table_is_asked_by_its_extras():
    session = Session(data(), Budget(epsilon=10**12), noise=seeded(1))
    table = session.answer(Marginal("sex", "age", normalized=False), using=QUIET)
    there = sum(r["sex"] is MISSING and r["age"] is OTHER for r in ROWS)
    assert table[MISSING, OTHER] == there == table.to_dict()[MISSING, OTHER]
    one = session.answer(Marginal("sex"), using=QUIET)
    assert "(missing)" in repr(one)
    assert "(missing)" in one._repr_html_()
    assert one.to_columns()["sex"] == ["F", "M", "(missing)"]
    assert one.to_frame()["sex"].to_list() == ["F", "M", "(missing)"]
    closed = session.answer(Marginal("sex", known=True), using=QUIET)
    assert closed.to_columns()["sex"] == ["F", "M"]
    with pytest.raises(UnknownLabel):
        closed[MISSING]


def test_without_extras_known_changes_nothing():
    domain = Domain(Integer("a", 1, 3), Boolean("b"))
    assert Marginal("a", known=True).lower(domain).identity == Marginal("a").lower(domain).identity
    assert repr(Marginal("a", known=True)) == "Marginal('a', known=True)"
    with pytest.raises(InvalidArgument, match="known"):
        Marginal("a", known="yes")


def test_closing_a_domain_undoes_opening_it():
    plain = Domain(Integer("a", 1, 3), Categorical("c", ["x", "y"], other="x"), missing_texts=["?"])
    assert plain.open().closed() == plain
    assert plain.closed() == plain
    assert WORLD.closed().open().closed() == WORLD.closed()


def test_above_asks_of_extras_too():
    session = Session(data(), Budget(epsilon=10**12), noise=seeded(1))
    true = share(lambda r: r["sex"] is MISSING)
    with session.open(NumericSparse(epsilon=10**6, tops=2)) as channel:
        assert channel.answer(Above(Count({"sex": MISSING}), true - 0.01))
        assert not channel.answer(Above(Count({"sex": MISSING}), true + 0.01))


def test_unmatched_values_are_told_by_attribute():
    session = Session(data(), Budget(epsilon=10**12), noise=seeded(1))
    release = session.release(Unmatched(normalized=False), using=QUIET)
    table = release.value
    missing = sum(r["age"] is MISSING for r in ROWS)
    assert table["age", MISSING] == table["age (missing)"] == table.missing["age"] == missing
    assert table.other.keys() == {"age", "hours"}
    assert table.missing.keys() == {"age", "sex"}
    assert release.error(0.05) == 0.0
    assert release.to_frame()["unmatched"].to_list()[2] == "sex (missing)"
    for cell in [("sex", OTHER), ("b", MISSING), "age", ("age", 1)]:
        with pytest.raises((UnknownLabel, InvalidArgument)):
            table[cell]
    with pytest.raises(QueryError, match='outside="apart"'):
        Unmatched().lower(WORLD.closed())


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_row_may_lack_all_its_values_at_once(neighbors):
    domain = Domain(*[Integer(f"a{n}", 0, 99) for n in range(9)]).open()
    moved = 18 if neighbors is Neighbors.REPLACE_ONE else 9
    found = sensitivity(Unmatched().lower(domain), facts(domain, neighbors, outside=False))
    assert (found.l1, found.l2_squared, found.maximum) == (moved, moved, 1)


KNOWN = [
    Threshold("age", 2, known=True),
    Interval("age", 2, 3, known=True),
    Threshold("age", 9, known=True),
]


@pytest.mark.parametrize("query", KNOWN, ids=repr)
def test_the_interval_of_a_share_of_the_known_holds_the_truth(query):
    rng = np.random.default_rng(8)
    of = data().facts
    rows = len(query.lower(WORLD).blocks[0].factors[0].ranges[0])
    for _ in range(300):
        true = rng.integers(0, 60, rows).astype(float)
        radii = rng.integers(0, 9, rows).astype(float)
        raw = true + rng.uniform(-1, 1, rows) * radii
        truth = query.lift(true, of)
        if not true.sum() > 2 * radii.sum():
            continue
        low, high = query.bracket(raw, radii, of)
        assert low - 1e-12 <= truth <= high + 1e-12
        error = query.spread(raw, radii, of)[0]
        assert abs(query.lift(raw, of) - truth) <= error + 1e-12
        believed = Assumptions(inside=Fraction(int(true.sum()), of.rows))
        assert error <= query.presumed(radii, lambda: np.zeros(rows), of, believed)[0] + 1e-12


def test_a_share_of_nothing_known_is_not_a_number():
    session = Session(data(), Budget(epsilon=10**12), noise=seeded(1))
    release = session.release(Threshold("age", 2, known=True), using=Laplace(epsilon="0.001"))
    assert math.isnan(release.value)
    assert release.bound().vacuous
    assert release.interval() == (0.0, 1.0)


def test_a_share_of_the_known_needs_no_public_size_and_has_no_count():
    session = Session(data(Neighbors.ADD_REMOVE), Budget(epsilon=10**12), noise=seeded(1))
    share_of_all = mean_of(r["age"] <= 2 for r in ROWS if known(r, "age"))
    assert session.answer(Threshold("age", 2, known=True), using=QUIET) == share_of_all
    for wrong in ({"normalized": False, "known": True}, {"known": 1}):
        with pytest.raises(InvalidArgument, match="known"):
            Threshold("age", 2, **wrong)
    for made in (Above, NumericAbove):
        with pytest.raises(InvalidArgument, match="query"):
            made(Threshold("age", 2, known=True), 0.5)
    shares = Workload([Threshold("age", t, known=True) for t in (1, 2)])
    release = session.release(shares, using=Laplace(epsilon=1))
    with pytest.raises((QueryError, InvalidArgument)):
        release.monotone()


def test_a_share_of_the_known_costs_as_two_counts_that_share_no_row():
    form = Interval("age", 2, 3, known=True).lower(WORLD)
    for neighbors, moved in ((Neighbors.ADD_REMOVE, 1), (Neighbors.REPLACE_ONE, 2)):
        assert sensitivity(form, facts(WORLD, neighbors, outside=False)).l1 == moved


def test_gaps_in_two_columns_take_no_row_out_of_a_third():
    rng = np.random.default_rng(0)
    ages = [
        None if gap else int(age)
        for gap, age in zip(rng.random(10_000) < 0.2, rng.integers(17, 91, 10_000), strict=True)
    ]
    regions = np.where(rng.random(10_000) < 0.1, "?", rng.choice(["N", "S"], 10_000)).tolist()
    sexes = rng.choice(["F", "M", "m"], 10_000, p=[0.5, 0.45, 0.05]).tolist()
    domain = Domain(
        Integer("age", 17, 90),
        Categorical("region", ["N", "S"]),
        Categorical("sex", ["F", "M"]),
        missing_texts=["?"],
    )
    table = {"age": ages, "region": regions, "sex": sexes}
    answers = {}
    for outside in ("cell", "apart"):
        loaded = PrivateData.from_columns(table, domain, name="gaps", outside=outside)
        session = Session(loaded, Budget(epsilon=10), noise=seeded(3))
        release = session.release(Marginal("sex", normalized=False), using=Laplace(epsilon=1))
        answers[outside] = release.value
        within = release.error(0.01)
        if outside == "apart":
            unmatched = session.answer(Unmatched(normalized=False), using=Laplace(epsilon=1))
            shares = session.answer(Threshold("age", 50, known=True), using=Laplace(epsilon=1))
            assert session.answer(Count(), using=Laplace(epsilon=1)) == 1.0
    # Before, the gaps of other columns thinned the table out, and the bound said nothing of it.
    assert answers["cell"].total() < 7_000
    assert abs(answers["apart"].total() - 10_000) <= 4 * within
    for label in ("F", "M"):
        assert abs(answers["apart"][label] - sexes.count(label)) <= within
    assert abs(answers["apart"][OTHER] - sexes.count("m")) <= within
    assert abs(unmatched["age", MISSING] - ages.count(None)) <= 40
    assert abs(unmatched["region", MISSING] - regions.count("?")) <= 40
    known_ages = [age for age in ages if age is not None]
    assert shares == pytest.approx(mean_of(age <= 50 for age in known_ages), abs=0.005)


def test_a_part_of_the_table_is_asked_by_an_extra():
    session = Session(data(), Budget(epsilon=10**12), noise=seeded(1))
    with session.partition("sex") as parts:
        rows = parts[MISSING].answer(Count(normalized=False), using=QUIET)
    assert rows == sum(r["sex"] is MISSING for r in ROWS)


def test_a_function_sees_extras_as_labels():
    seen = []
    Linear(lambda record: seen.append(record["age"]) or 0.0, ["age"]).lower(WORLD)
    assert set(seen) == {1, 2, 3, 4, OTHER, MISSING}
    with pytest.raises(QueryError, match=r"raised TypeError at .*OTHER"):
        Linear(lambda record: record["age"] / 4, ["age"]).lower(WORLD)


@pytest.mark.parametrize(
    "query", [Unmatched(), Marginal("sex"), Threshold("age", 2, known=True), Mean("age")], ids=repr
)
def test_plans_keep_what_they_promise(query):
    session = Session(data(), Budget(epsilon=10**3, delta="1e-6"), noise=seeded(1))
    believed = {"inside": "0.5"} if isinstance(query, Mean | Threshold) else None
    plan = session.plan(query, error=0.2, assume=believed)[0]
    assert session.release(query, using=plan).error(0.05) <= 0.2
