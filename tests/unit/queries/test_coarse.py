"""What bins hide of values is in the errors of answers about values: docs/.../proofs/bins.md."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from dpsdk import (
    Above,
    Binned,
    Budget,
    Categorical,
    Domain,
    Integer,
    Laplace,
    Mean,
    Median,
    Neighbors,
    Number,
    PrivateData,
    Quantile,
    Session,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.forms import Facts
from dpsdk.mechanisms import NoisyHistogram
from dpsdk.queries import StdDev, Variance
from dpsdk.queries.coarse import _highest, farthest, farthest_mean
from dpsdk.release import Rounded
from dpsdk.testing import seeded

EDGES = [0, 10, 20, 50, 100, 200, 500]
AMOUNTS = np.minimum(np.random.default_rng(3).lognormal(3, 1, 20_000), 500.0)


def table(values, edges=EDGES, **more):
    return PrivateData.from_columns({"amount": values}, Domain(Binned("amount", edges)), **more)


def session(data, seed=1):
    return Session(data, Budget(epsilon=100), noise=seeded(seed))


@pytest.mark.parametrize("seed", range(60))
def test_the_highest_mean_is_that_of_linear_programming(seed):
    rng = np.random.default_rng(seed)
    places, heights = np.sort(rng.normal(size=7)) * 10, rng.random(7) * 5
    if seed % 3 == 0:
        places[2] = places[3] = 0.0
    low, high = np.sort(rng.uniform(places.min(), places.max(), 2))
    best = linprog(
        -heights,
        A_ub=[places, -places],
        b_ub=[high, -low],
        A_eq=[np.ones(7)],
        b_eq=[1],
    )
    assert _highest(places, heights, low, high) == pytest.approx(-best.fun, abs=1e-9)


def test_values_at_the_ends_of_their_bins_are_as_far_as_is_said():
    bins = Binned("amount", EDGES)
    shares = np.array([0.9, 0, 0, 0, 0, 0.1])
    edges = np.array(EDGES)
    middle = float(shares @ (edges[:-1] + edges[1:]) / 2)
    upper = float(shares @ edges[1:])
    assert farthest_mean(bins, middle, middle) == pytest.approx(upper - middle)
    assert farthest_mean(bins, 0, 500) == pytest.approx(farthest(bins)) == pytest.approx(150)
    assert farthest_mean(bins, math.nan, math.nan) == pytest.approx(150)
    assert farthest_mean(bins, -9, -9) == pytest.approx(5)
    assert farthest(Integer("age", 0, 9)) == farthest_mean(Integer("age", 0, 9), 1, 2) == 0


@pytest.mark.parametrize("relation", Neighbors)
@pytest.mark.parametrize("edges", [EDGES, [-500, -3, 1, 500], [0, 500]], ids=str)
def test_bounds_cover_the_truth_about_the_values(edges, relation):
    values = AMOUNTS if edges[0] == 0 else AMOUNTS - 20
    data = table(values, edges, neighbors=relation, max_rows=25_000)
    asked = session(data)
    questions = {Mean("amount"): values.mean(), Sum("amount", normalized=False): values.sum()}
    if relation is Neighbors.REPLACE_ONE:
        questions[Sum("amount")] = values.mean()
    for query, truth in questions.items():
        release = asked.release(query, using=Laplace(0.2))
        low, high = release.interval()
        assert abs(release.value - truth) <= release.error()
        assert low <= truth <= high
        assert abs(release.value - truth) <= release.errors()[0]
        parts = release.bound().parts
        assert set(parts) == {"noise", "bins"}
        assert sum(parts.values()) == pytest.approx(release.error())
        assert "bins" in release.bound().kind
    for q in ("0.01", "0.5", "0.99"):
        release = asked.release(Quantile("amount", q), using=NoisyHistogram(epsilon=1))
        truth, (low, high) = (
            np.quantile(values, float(q), method="inverted_cdf"),
            release.interval(),
        )
        assert abs(release.value - truth) <= release.error()
        assert low <= truth <= high


def test_the_example_of_amounts_is_true():
    # Of one that was "35.992 ± 0.338, proven", of a truth of 33.
    release = session(table(AMOUNTS)).release(Mean("amount"), using=Laplace(0.5))
    truth = AMOUNTS.mean()
    assert abs(release.value - truth) > release.bound().parts["noise"]
    assert abs(release.value - truth) < release.error() < 25
    # Nothing smaller is known: values at the ends of the same bins are as far away.
    edges = np.array(EDGES)
    places = np.searchsorted(edges, AMOUNTS, side="right") - 1
    there = edges[np.minimum(places, 5)]
    assert release.value - there.mean() > 0.7 * release.error()


def test_a_quantile_adds_the_width_of_its_bin():
    values = np.repeat([5.0, 60.0, 150.0], [100, 1000, 100])
    release = session(table(values)).release(Median("amount"), using=NoisyHistogram(epsilon=10))
    assert (release.value, release.interval(), release.error()) == (100, (50, 100), 50)
    assert release.bound().parts == {"noise": 0, "bins": 50}


def test_nothing_is_added_where_cells_are_values_or_what_is_asked_for():
    asked = session(table(AMOUNTS))
    release = asked.release(Threshold("amount", 50), using=Laplace(1))
    assert release.bound().parts == {"noise": release.error()}
    ages = PrivateData.from_columns({"age": [1, 2, 3]}, Domain(Integer("age", 0, 9)))
    assert session(ages).release(Mean("age"), using=Laplace(50)).bound().bins == 0


def test_a_mean_of_nobody_is_off_by_the_width_as_before():
    release = session(table([600.0] * 50)).release(Mean("amount"), using=Laplace(1))
    assert math.isnan(release.value)
    assert release.error() == 500
    assert release.bound().vacuous
    assert release.bound().parts == {"noise": 500}
    assert release.interval() == (0, 500)


def test_each_answer_of_a_workload_has_its_own():
    asked = session(table(AMOUNTS))
    batch = Workload([Threshold("amount", 50), Mean("amount"), Workload([Sum("amount")])])
    release = asked.release(batch, using=Laplace(50))
    share, mean, total = release.errors()
    assert share < 0.01
    assert 1 < mean < 25 > total > 1
    low, high = release.interval()
    assert high[1] - low[1] > 2
    assert high[0] - low[0] < 0.01
    assert release.bound().bins > 1


def test_plans_and_quotes_promise_no_more_than_releases():
    asked = session(table(AMOUNTS))
    query = Sum("amount")
    assert asked.quote(query, using=Laplace(1)).error() == pytest.approx(150, abs=0.1)
    (refused,) = asked.plan(query, error=20)
    assert not refused.feasible
    assert refused.because[0].code == "too-coarse"
    assert "150" in refused.because[0].text
    best = asked.plan(query, error=151).best
    assert best.promised.error <= 151
    assert asked.release(query, using=best).error() <= 151
    # What nobody planned costs what it did: bins add nothing that noise could lessen.
    assert asked.release(query).bound().parts["noise"] == pytest.approx(5, rel=0.1)
    assumed = asked.quote(Mean("amount"), using=Laplace(1), assume={"inside": 1}).assumed()
    release = asked.release(Mean("amount"), using=Laplace(1))
    assert release.error() <= assumed.error
    assert assumed.bins == pytest.approx(150)


def test_a_comparison_of_a_sum_has_them_too():
    scores = PrivateData.from_columns({"score": [0.1] * 100}, Domain(Binned("score", [0, 0.5, 1])))
    query = Above(Sum("score"), 0.3)
    hidden = query.coarseness(np.zeros(1), np.zeros(1), scores.facts)
    assert hidden == pytest.approx([0.25])
    assert query.values_of() == {"score"}


def test_of_a_number_half_a_step_is_hidden_whatever_the_unit_of_its_sums():
    domain = Domain(Number("amount", 0, 500, step="0.5"))
    facts = Facts(domain, Neighbors.REPLACE_ONE, 100, outside=True, row_limit=100)
    wide = np.ones(2)
    for raw in (None, np.array([10.0, 90_000.0])):
        assert Mean("amount").coarseness(raw, wide, facts) == pytest.approx([0.25])
        first = None if raw is None else raw[:1]
        assert Sum("amount").coarseness(first, wide[:1], facts) == pytest.approx([0.25])
        whole = Sum("amount", normalized=False)
        assert whole.coarseness(first, wide[:1], facts) == pytest.approx([25])
    assert Median("amount").coarseness(None, wide, facts) == pytest.approx([0.25])


def test_an_exact_number_has_the_bounds_of_an_integer():
    values = {"age": [20, 30, 30, 40] * 500}
    grids = Integer("age", 0, 100), Number("age", 0, 100, exact=True)
    for query in (Mean("age"), Sum("age"), Median("age"), Variance("age"), StdDev("age")):
        bounds = []
        for grid in grids:
            data = PrivateData.from_columns(values, Domain(grid), name="ages")
            with Session(data, Budget(10), noise=seeded(3)) as asked:
                release = asked.release(query, using=Laplace(5))
            assert not any(isinstance(note, Rounded) for note in release.notes)
            bounds.append((release.value, release.error(0.05), release.bound(0.05).parts))
        assert bounds[0] == bounds[1]


def test_rows_that_do_not_count_are_no_reason_to_think_of_low_bins():
    # A third of the rows counts, at the top of a wide bin: their sum is that of all in a narrow.
    columns = {"amount": [499.9] * 1000, "kind": ["a", "b", "b", "b"] * 250}
    domain = Domain(Binned("amount", [100, 101, 500]), Categorical("kind", ["a", "b"]))
    asked = session(PrivateData.from_columns(columns, domain))
    release = asked.release(Sum("amount", where={"kind": "a"}), using=Laplace(50))
    assert abs(release.value - 499.9 / 4) <= release.error()
    low, high = release.interval()
    assert low <= 499.9 / 4 <= high
