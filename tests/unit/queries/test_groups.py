"""Means, sums and counts of all groups of rows at once."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import (
    MISSING,
    OTHER,
    Binned,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    plots,
    wire,
)
from dpsdk.data.vault import open_histogram
from dpsdk.errors import InvalidArgument, PublicSizeRequired, QueryError, UnknownAttribute
from dpsdk.forms import Facts, Kronecker, LinearForm, sensitivity
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import (
    Above,
    Count,
    GroupTable,
    Marginal,
    Mean,
    StdDev,
    Sum,
    Variance,
    Workload,
)
from dpsdk.queries.coarse import farthest_means
from dpsdk.release.ranking import rank
from dpsdk.testing import seeded

ADD = Neighbors.ADD_REMOVE
RELATIONS = list(itertools.product(Neighbors, (True, False)))
DOMAIN = Domain(
    Integer("x", -1, 3), Categorical("g", ["a", "b", "c"]), Categorical("h", ["u", "v"])
)
OPEN = Domain(
    Integer("x", -1, 1, missing=True),
    Categorical("g", ["a", "b"], other=True, missing=True),
    Categorical("h", ["u", "v"], missing=True),
)
QUERIES = [
    Mean("x", by="g"),
    Mean("x", by=["h", "g"], where={"g": {"a", "b"}}),
    Mean("x", by="g", where={"x": range(3)}),
    Sum("x", by="g", normalized=False),
    Sum("x", by="h", where={"g": "a"}, normalized=False),
    Count(by=["h", "g"], normalized=False),
    Count({"x": 0}, by="g", normalized=False),
]


def facts_of(neighbors, outside, rows=100, domain=DOMAIN):
    public = rows if neighbors is Neighbors.REPLACE_ONE else None
    return Facts(domain, neighbors, public, outside, rows)


def columns_of(form, *, outside):
    """What a row of each cell adds to the raw numbers; a row outside adds nothing."""
    columns = []
    for cell in np.eye(form.domain.size, dtype=int):
        histogram = open_histogram(PrivateData.from_counts(cell, form.domain))
        columns.append(form.evaluate(histogram))
    return [*columns, np.zeros(form.rows)] if outside else columns


def largest(form, neighbors, *, outside):
    """The largest L1 and squared L2 moves of all pairs of neighbours, by looking at them."""
    columns = columns_of(form, outside=outside)
    moves = columns
    if neighbors is Neighbors.REPLACE_ONE:
        moves = [one - other for one, other in itertools.combinations(columns, 2)]
    return max(np.abs(m).sum() for m in moves), max((m**2).sum() for m in moves)


@pytest.mark.parametrize("query", QUERIES, ids=repr)
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
@pytest.mark.parametrize("domain", [DOMAIN, OPEN], ids=["closed", "open"])
def test_no_row_moves_all_groups_farther_than_is_paid_for(query, neighbors, outside, domain):
    form = query.lower(domain)
    paid = sensitivity(form, facts_of(neighbors, outside, domain=domain))
    l1, squared = largest(form, neighbors, outside=outside)
    assert (paid.l1, paid.l2_squared) == (l1, squared)


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_a_broken_twin_is_found(neighbors, outside):
    # One that pays for the mean of one group, and measures the counts at twice their weight.
    total, count = Mean("x", by="g").lower(DOMAIN).blocks
    twin = LinearForm(DOMAIN, (total, count.times(2)))
    paid = sensitivity(Mean("x").lower(DOMAIN), facts_of(neighbors, outside))
    assert largest(twin, neighbors, outside=outside)[1] > paid.l2_squared
    # And one that pays in L1 what one mean does.
    if neighbors is Neighbors.REPLACE_ONE:
        both = Mean("x", by="g").lower(DOMAIN)
        assert largest(both, neighbors, outside=outside)[0] == 2 * paid.l1


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
@pytest.mark.parametrize("by", ["g", ["g", "h"]])
def test_the_means_of_all_groups_cost_what_one_mean_does(neighbors, outside, by):
    facts = facts_of(neighbors, outside)
    one = sensitivity(Mean("x").lower(DOMAIN), facts)
    all_of_them = sensitivity(Mean("x", by=by).lower(DOMAIN), facts)
    assert all_of_them.l2_squared == one.l2_squared
    assert all_of_them.l1 == one.l1 * (2 if neighbors is Neighbors.REPLACE_ONE else 1)


ROWS = {
    "x": [-1, 3, 3, 0, 1, 2, 2, 2],
    "g": ["a", "a", "a", "b", "b", "b", "b", "b"],
    "h": ["u", "v", "u", "v", "u", "v", "u", "v"],
}
TIMES = 500


def session_of(epsilon=10**6, **options):
    many = {name: values * TIMES for name, values in ROWS.items()}
    data = PrivateData.from_columns(many, DOMAIN, name="groups", **options)
    return Session(data, Budget(epsilon, "1e-6"), noise=seeded(5))


def truth(function, by):
    """The same of each group, by looking at the rows."""
    groups = {}
    for place, value in enumerate(ROWS["x"]):
        groups.setdefault(tuple(ROWS[name][place] for name in by), []).append(value)
    return {labels: function(values) for labels, values in groups.items()}


@pytest.mark.parametrize("by", [("g",), ("h", "g"), ("g", "h")])
def test_each_group_gets_its_own_number(by):
    session, using = session_of(), Gaussian(rho=1000)
    means = session.answer(Mean("x", by=by), using=using)
    assert isinstance(means, GroupTable)
    assert means.names == by
    expected = truth(np.mean, by)
    for labels, value in means.to_dict().items():
        assert np.isnan(value) if labels not in expected else abs(value - expected[labels]) < 0.01
    sums = session.answer(Sum("x", by=by, normalized=False), using=using)
    counts = session.answer(Count(by=by, normalized=False), using=using)
    shares = session.answer(Count(by=by), using=using)
    for labels, values in truth(list, by).items():
        assert sums[labels] == pytest.approx(sum(values) * TIMES, abs=5)
        assert counts[labels] == pytest.approx(len(values) * TIMES, abs=5)
        assert means.counts[labels] == pytest.approx(len(values) * TIMES, abs=5)
        assert shares[labels] == pytest.approx(len(values) / len(ROWS["x"]), abs=0.01)
    assert sums.counts is None


def test_rows_of_missing_and_of_other_values_are_groups():
    counts = np.zeros(OPEN.shape, dtype=int)
    rows = [(1, "a"), (1, "a"), (MISSING, "a"), (-1, OTHER), (0, MISSING), (1, MISSING)]
    for value, group in rows:
        counts[OPEN["x"].index(value), OPEN["g"].index(group), 0] += 1000
    session = Session(PrivateData.from_counts(counts, OPEN), Budget(10**6), noise=seeded(1))
    release = session.release(Mean("x", by="g"), using=Laplace(epsilon=100))
    table = release.value
    assert table["a"] == pytest.approx(1, abs=0.01)
    assert table[OTHER] == pytest.approx(-1, abs=0.01)
    assert table[MISSING] == pytest.approx(0.5, abs=0.01)
    assert np.isnan(table["b"])
    # A row counts in its group where its value is known.
    assert table.counts["a"] == pytest.approx(2000, abs=5)
    assert release.top(2).labels == (("a",), (MISSING,))
    assert "(missing)" in repr(release.top(2))
    assert table.to_frame()["g"].to_list() == ["a", "b", "(other)", "(missing)"]


def test_a_condition_holds_within_each_group():
    session = session_of()
    table = session.answer(Mean("x", by="g", where={"h": "v"}), using=Gaussian(rho=1000))
    assert table["a"] == pytest.approx(3, abs=0.01)
    assert table["b"] == pytest.approx(4 / 3, abs=0.01)
    assert np.isnan(table["c"])


@pytest.mark.parametrize("options", [{}, {"neighbors": ADD, "max_rows": 10_000}], ids=str)
def test_each_group_has_a_bound_and_a_group_without_rows_has_no_number(options):
    session = session_of(**options)
    release = session.release(Mean("x", by="g"), using=Laplace(epsilon=1))
    table, errors = release.value, release.errors(0.05)
    low, high = release.interval(0.05)
    for label, expected in (("a", 5 / 3), ("b", 7 / 5)):
        place = DOMAIN["g"].index(label)
        assert abs(table[label] - expected) <= errors[place] < 0.2
        assert low[label] <= expected <= high[label]
        assert low.counts[label] < table.counts[label] < high.counts[label]
    assert np.isnan(table["c"])
    assert errors[2] == 4
    # The count of such a group is there all the same, and may be of no row.
    assert low.counts["c"] <= 0 <= high.counts["c"]
    lowest, highest = release.interval(0.9)
    assert (lowest["c"], highest["c"]) == (-1, 3)
    for query in (StdDev("x", by="g"), Variance("x", by=["h", "g"])):
        spread = session.release(query, using=Laplace(epsilon=1))
        empty = spread.value["c" if query.by == ("g",) else ("u", "c")]
        assert np.isnan(empty)
        assert np.isfinite(spread.value.counts.values).all()
        assert not np.isnan(spread.interval(0.9)[0].values).any()
        assert np.isnan(spread.value.values).sum() == (1 if query.by == ("g",) else 2)
    # The bound of all at once is that of the group of which nothing is known.
    assert release.error(0.05) == 4
    assert release.bound().vacuous
    assert "bounds each group" in repr(release)
    assert (low["c"], high["c"]) == (-1, 3)


def test_bounds_hold_as_often_as_they_say():
    session, query, runs, beta = session_of(10**9), Mean("x", by=["g", "h"]), 300, 0.2
    expected = truth(np.mean, ("g", "h"))
    missed, jointly = dict.fromkeys(expected, 0), 0
    for _ in range(runs):
        release = session.release(query, using=Laplace(epsilon="0.1"))
        errors = dict(zip(release.value.to_dict(), release.errors(beta), strict=True))
        off = {labels: abs(release.value[labels] - value) for labels, value in expected.items()}
        for labels, far in off.items():
            missed[labels] += far > errors[labels]
        jointly += max(off.values()) > release.error(beta)
    # Five standard deviations above what is allowed.
    most = runs * beta + 5 * (runs * beta * (1 - beta)) ** 0.5
    assert max(*missed.values(), jointly) <= most


def test_the_answer_without_groups_is_that_of_the_only_group():
    domain = Domain(Integer("x", -1, 3), Categorical("g", ["a"]))
    data = PrivateData.from_columns({"x": ROWS["x"] * 50, "g": ["a"] * 400}, domain)
    answers = []
    for by in (None, "g"):
        session = Session(data, Budget(10), noise=seeded(7))
        release = session.release(Mean("x", by=by), using=Laplace(epsilon=1))
        answers.append((release.value if by is None else release.value["a"], release.error()))
    assert answers[0] == answers[1]
    one, grouped = Mean("x").lower(domain), Mean("x", by="g").lower(domain)
    assert one.identity == grouped.identity


def test_several_aggregates_are_one_table_each_for_one_charge():
    session, by = session_of(), "g"
    several = Workload([Mean("x", by=by), Count(by=by, normalized=False), Marginal("h")])
    means, counts, marginal = session.answer(several, using=Gaussian(rho=1))
    assert (means.names, counts.names, marginal.names) == (("g",), ("g",), ("h",))
    assert counts["b"] == pytest.approx(5 * TIMES, abs=30)
    assert session.spent.charges == 1


def test_tables_of_groups_are_shown_and_handed_on():
    session = session_of()
    release = session.release(Mean("x", by=["h", "g"]), using=Gaussian(rho=10))
    table = release.value
    assert repr(table).splitlines()[0].split() == ["h", "g", "value", "count"]
    assert "<th>count</th>" in table._repr_html_() or "count" in table._repr_html_()
    assert set(table.to_columns()) == {"h", "g", "value", "count"}
    frame = release.to_frame(joint=False)
    assert frame.columns[:3] == ["h", "g", "value"]
    assert frame.height == 6
    assert table.to_frame(value="count").columns == ["h", "g", "count", "rows"]
    written = wire.loads("release", wire.dumps(release))
    assert written.answer.stands_for == "table"
    assert written.answer.shape == (2, 3)
    with pytest.raises(InvalidArgument, match="value must be another name"):
        table.to_columns("h")
    with pytest.raises(InvalidArgument, match="counts"):
        GroupTable(
            table.attributes,
            table.values,
            counts=session.answer(Marginal("g"), using=Gaussian(rho=1)),
        )


def test_written_forms_without_groups_are_as_they_were():
    for query in (Mean("x"), Sum("x"), Count()):
        assert "by" not in wire.to_json(query)
    for query in QUERIES:
        text = wire.dumps(query)
        assert wire.loads("query", text) == query
        assert wire.dumps(wire.loads("query", text)) == text
    assert wire.to_json(Mean("x", by="g"))["by"] == ["g"]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Mean("x", by="x"), "by must be attributes other than 'x'"),
        (lambda: Mean("x", by=[]), "by must be distinct attribute names"),
        (lambda: Sum("x", by=["g", "g"]), "by must be distinct attribute names"),
        (lambda: Count(by=3), "by must be distinct attribute names"),
        (lambda: Above(Count(by="g"), 0.5), "query must be a query with one share"),
    ],
)
def test_other_groups_are_refused(make, named):
    with pytest.raises(InvalidArgument, match=named):
        make()


def test_what_cannot_be_asked_costs_nothing():
    session = session_of(neighbors=ADD, max_rows=10_000)
    with pytest.raises(UnknownAttribute):
        session.answer(Mean("x", by="nobody"), using=Laplace(epsilon=1))
    with pytest.raises(QueryError):
        session.answer(Mean("g", by="h"), using=Laplace(epsilon=1))
    with pytest.raises(PublicSizeRequired):
        session.answer(Count(by="g"), using=Laplace(epsilon=1))
    assert session.spent.charges == 0


def test_a_plan_says_what_it_needs_and_takes_it():
    session = session_of()
    plans = session.plan(Mean("x", by="g"), error=0.5)
    assert any('"smallest_group": ...' in reason.text for plan in plans for reason in plan.because)
    plan = session.plan(Mean("x", by="g"), error=0.5, assume={"smallest_group": 900}).best
    assert plan.assumed.error <= 0.5
    assert plan.assumes == ("at least 900 rows count in each group",)
    quote = session.quote(
        Mean("x", by="g", where={"g": {"a", "b"}}),
        using=Laplace(epsilon=1),
        assume={"smallest_group": 1500},
    )
    bound = quote.assumed()
    assert bound.standing == "assumed"
    release = session.release(Mean("x", by="g"), using=Laplace(epsilon=1))
    assert max(release.errors()[:2]) <= bound.error
    with pytest.raises(InvalidArgument, match="smallest_group must be at most"):
        session.quote(Mean("x", by="g"), using=Laplace(epsilon=1), assume={"smallest_group": 10**6})
    assert Fraction(1) <= session.spent.epsilon


def test_what_is_assumed_of_groups_bounds_every_such_table():
    # Every number of rows of each group from the smallest on, every corner of the noise.
    domain = Domain(Integer("x", 0, 2), Categorical("g", ["a", "b"]))
    facts, query = facts_of(Neighbors.REPLACE_ONE, False, 7, domain), Mean("x", by="g")
    form = query.lower(domain)
    weights = np.stack(columns_of(form, outside=False), axis=1)
    unit = np.abs(weights).max()
    wide = np.full(4, 0.6 * unit)
    from dpsdk.forms.assumptions import Assumptions

    said = query.presumed(wide, lambda: wide / 2, facts, Assumptions(smallest_group=3))
    assert said.max() < 2
    for cells in itertools.combinations_with_replacement(range(6), 6):
        counts = np.bincount(cells, minlength=6)
        groups = counts.reshape(3, 2).sum(axis=0)
        if groups.min() < 3:
            continue
        raw = weights @ counts
        means = query.numbers(raw, facts)
        for moves in itertools.product((-1.0, 1.0), repeat=4):
            released = query.settled(raw + wide * moves, lambda: wide / 2, facts)
            assert (query.spread(released, wide, facts) <= said).all()
            assert (abs(query.numbers(released, facts) - means) <= said).all()


def test_groups_are_one_block_each_of_total_and_count():
    form = Mean("x", by=["g", "h"]).lower(DOMAIN)
    assert [block.rows for block in form.blocks] == [6, 6]
    assert all(isinstance(block, Kronecker) for block in form.blocks)


def truths_within(low, high):
    """Corners and middles of all intervals."""
    return itertools.product(
        *[sorted({one, (one + other) / 2, other}) for one, other in zip(low, high, strict=True)]
    )


@pytest.mark.parametrize("seed", range(20))
def test_ranks_are_those_of_some_truth_and_of_no_other(seed):
    rng = np.random.default_rng(seed)
    size = 5
    low = rng.integers(0, 6, size).astype(float)
    high = low + rng.integers(0, 4, size)
    value = (low + high) / 2
    labels = [(label,) for label in "abcde"]
    tables = [dict(zip(labels, numbers.tolist(), strict=True)) for numbers in (value, low, high)]
    k = int(rng.integers(1, size + 1))
    axes = (Categorical("g", list("abcde")),)
    ranking = rank(axes, *tables, k, 0.1)
    by_label = {one.labels: one for one in rank(axes, *tables, size, 0.1)}
    best, worst = [size] * size, [1] * size
    always = set(range(size))
    for numbers in truths_within(low, high):
        ranks = [1 + sum(other > one for other in numbers) for one in numbers]
        best = [min(pair) for pair in zip(best, ranks, strict=True)]
        worst = [max(pair) for pair in zip(worst, ranks, strict=True)]
        always &= {place for place, one in enumerate(ranks) if one <= k}
    assert [by_label[label].best for label in labels] == best
    assert [by_label[label].worst for label in labels] == worst
    shown = {place for place, label in enumerate(labels) if label in ranking.labels}
    assert set(ranking.certain) == {labels[place] for place in always & shown}
    assert set(ranking.possible) == {
        label for place, label in enumerate(labels) if best[place] <= k or place in shown
    }
    assert [one.value for one in ranking] == sorted(value.tolist(), reverse=True)[:k]


def test_the_first_of_a_released_table_are_named_and_told_apart():
    session = session_of()
    release = session.release(Marginal("g", normalized=False), using=Gaussian(rho=1))
    top = release.top(2)
    assert top.labels == (("b",), ("a",))
    assert top.certain == top.possible == top.labels
    assert [(one.best, one.worst) for one in top] == [(1, 1), (2, 2)]
    assert "2 to" not in repr(top)
    assert session.spent.charges == 1
    assert top.to_frame().columns == ["g", "value", "low", "high", "best", "worst", "certain"]
    assert "certain" in top._repr_html_()
    means = session.release(Mean("x", by="g"), using=Gaussian(rho=1)).top(3)
    # Of the third group nothing is known, so it may be anywhere, and so may no other be certain.
    assert means.labels[-1] == ("c",)
    assert (means[2].best, means[2].worst) == (1, 3)
    assert means.beta == 0.05
    domain = Domain(Binned("b", [0, 1, 2.5]), Categorical("g", ["a", "b"], missing=True))
    data = PrivateData.from_counts([[9, 1, 500], [5, 2, 90]], domain)
    pairs = Session(data, Budget(10), noise=seeded(1)).release(
        Count(by=["b", "g"]), using=Laplace(1)
    )
    assert repr(pairs.top(2)).splitlines()[1].split()[:3] == ["[0,", "1)", "(missing)"]
    assert pairs.top(1).labels == (((0.0, 1.0), MISSING),)
    assert pairs.top(2).to_frame()["g"].to_list() == ["(missing)", "(missing)"]
    noisy = session.release(Marginal("g", normalized=False), using=Laplace(epsilon="0.0001"))
    unsure = noisy.top(1)
    assert unsure.certain == ()
    assert len(unsure.possible) == 3
    assert "2 more may be among them" in repr(unsure)
    for k in (0, 4, 1.5, True):
        with pytest.raises(InvalidArgument, match="k must be"):
            release.top(k)
    with pytest.raises(QueryError, match="only a table has first entries"):
        session.release(Count(), using=Laplace(epsilon=1)).top(1)


def test_what_bins_hide_is_said_of_each_group():
    domain = Domain(Binned("x", [0.0, 1.0, 10.0]), Categorical("g", ["a", "b", "c"]))
    columns = {"x": [0.5] * 900 + [5] * 900, "g": ["a"] * 900 + ["b"] * 900}
    session = Session(PrivateData.from_columns(columns, domain), Budget(10**6), noise=seeded(1))
    for by in (None, "g"):
        mean = session.release(Mean("x", by=by), using=Laplace(epsilon=100))
        total = session.release(Sum("x", by=by, normalized=False), using=Laplace(epsilon=100))
        low, high = total.interval()
        if by is None:
            assert low < 900 * 5.5 < high
            continue
        # The first group may be half a unit off, the second four and a half.
        assert mean.errors()[0] < 0.6 < 4.5 < mean.errors()[1]
        ends = mean.interval()
        assert ends[0]["a"] < 0.05 < 0.95 < ends[1]["a"] < 1.1
        assert ends[0]["b"] < 1.1
        assert high["b"] - low["b"] > 2 * 4.5 * 900
        assert low["c"] < 0 < high["c"]
    quote = session.quote(Mean("x", by="g"), using=Laplace(epsilon=1))
    assert quote.bound().vacuous


def test_very_many_groups_are_bounded_together():
    attribute = Binned("x", [0.0, 1.0, 10.0])
    low, high = np.zeros(2**12 + 1), np.full(2**12 + 1, 0.6)
    assert (
        farthest_means(attribute, low, high) >= farthest_means(attribute, low[:1], high[:1])
    ).all()


@pytest.mark.thorough
def test_tables_of_groups_are_drawn_and_described(tmp_path):
    session = session_of()
    for query in (Mean("x", by="g"), Sum("x", by=["g", "h"]), Count(by="g")):
        release = session.release(query, using=Laplace(epsilon=1))
        pictures = [plots.marginal(release)]
        if len(query.by) == 2:
            pictures.append(plots.heatmap(release))
        for place, picture in enumerate(pictures):
            picture.savefig(tmp_path / f"{place}.png", dpi=30)
        (table,) = release.metadata().tables
        assert [column.name for column in table.columns[: len(query.by)]] == list(query.by)
    with pytest.raises(InvalidArgument, match="a release of a table"):
        plots.marginal(session.release(Count(), using=Laplace(epsilon=1)))


def test_a_workload_of_means_by_condition_is_told_of_groups():
    one_by_one = Workload(Mean("x", where={"g": label}) for label in "ab")
    assert "Mean('x', by='g') is one query for all groups" in one_by_one.advice
    assert Workload([Mean("x", where={"g": "a"}), Mean("x", where={"h": "u"})]).advice == ""
    assert Workload([Mean("x", where={"g": "a"})]).advice == ""
    assert Workload([Mean("x", by="g"), Mean("x", where={"g": "a"})]).advice == ""
    # They cost the same.
    facts, two = facts_of(Neighbors.REPLACE_ONE, True), Mean("x", by="g", where={"g": {"a", "b"}})
    assert sensitivity(one_by_one.lower(DOMAIN), facts) == sensitivity(two.lower(DOMAIN), facts)


def test_a_release_of_groups_shows_the_interval_of_each():
    columns = {"x": [0, 1, 2, 3] * 500, "g": ["a", "b"] * 1000, "h": ["u"] * 2000}
    data = PrivateData.from_columns(columns, DOMAIN)
    release = Session(data, Budget(9, "1e-6"), noise=seeded(1)).release(
        Mean("x", by="g"), using=Gaussian(rho="0.1")
    )
    low, high = release.interval(0.05)
    header, first = [line.split() for line in repr(release).splitlines()[1:3]]
    assert header[-2:] == ["from", "to"]
    assert float(first[-2]) == pytest.approx(low.values[0], rel=1e-4)
    assert float(first[-1]) == pytest.approx(high.values[0], rel=1e-4)
