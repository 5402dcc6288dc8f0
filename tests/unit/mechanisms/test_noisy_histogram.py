"""Noisy counts of all cells: what answers are sums of, what their bounds claim, what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import (
    Binned,
    Boolean,
    Budget,
    DistributionChannel,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    SyntheticData,
)
from dpsdk.accounting import pure_epsilon, zcdp_rho
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import Measure, Terms
from dpsdk.mechanisms import NoisyHistogram
from dpsdk.mechanisms.linear_accuracy import summed_tail
from dpsdk.noise import DiscreteLaplace
from dpsdk.queries import (
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    Mean,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.testing import seeded
from worlds import crossed, facts, inside, people, table, weights

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 0, 15), Boolean("member"))
COUNTS = np.arange(32) % 7 * 3
TOTALS = [
    NoisyHistogram(epsilon=1),
    NoisyHistogram(epsilon=1, delta="1e-6"),
    NoisyHistogram(rho="0.1"),
]
QUERIES = [
    Count(),
    Threshold("age", 5),
    Interval("age", 3, 9, where={"member": True}),
    Marginal("member", "age"),
    Marginal("age"),
    Sum("age"),
    Linear(lambda record: record["age"] / 20 if record["member"] else 0.25),
]


def session(noise=1, neighbors=Neighbors.REPLACE_ONE, outside=False, budget=10, counts=COUNTS):
    cells = np.repeat(np.arange(32), counts)
    rows = {"age": (cells // 2).tolist(), "member": (cells % 2).tolist()}
    if outside:
        rows = {"age": [*rows["age"], *[99] * 4], "member": [*rows["member"], *[0] * 4]}
    data = PrivateData.from_columns(
        rows, DOMAIN, neighbors=neighbors, outside="cell" if outside else "raise"
    )
    return Session(data, Budget(epsilon=budget, delta="1e-5"), noise=seeded(noise))


@pytest.mark.parametrize("mechanism", TOTALS, ids=repr)
def test_it_is_paid_once_and_every_answer_is_a_sum_of_the_same_noisy_counts(mechanism):
    asked = session()
    channel = asked.open(mechanism)
    assert type(channel) is DistributionChannel
    assert asked.spent.charges == 1
    cells = channel.answer(Marginal("age", "member", normalized=False)).values
    n = COUNTS.sum()
    for query in QUERIES[:-1]:
        weight = weights(query.lower(DOMAIN))
        wanted = weight @ cells.ravel() / n
        got = channel.answer(query)
        got = got.values if isinstance(query, Marginal) else got
        if query == QUERIES[3]:
            got = got.T
        assert np.ravel(got) == pytest.approx(wanted)
    release = channel.release(QUERIES[1])
    assert release.source == "fitted"
    assert release.cost.nothing
    assert release.bound().proven
    assert asked.spent.charges == 1


def test_what_is_asked_for_is_what_is_quoted():
    asked = session()
    assert pure_epsilon(asked.quote(Count(), using=TOTALS[0]).at_open.guarantees[0]) == 1
    assert zcdp_rho(asked.quote(Count(), using=TOTALS[2]).at_open.guarantees[0]) <= Fraction("0.1")


@pytest.mark.parametrize("mechanism", TOTALS, ids=repr)
def test_variances_are_those_of_the_weights(mechanism):
    terms = Terms(facts(DOMAIN, rows=300))
    noise = mechanism._noise()
    pricing = Measure(mechanism._measured(terms).strategy, noise).price(terms)
    sd = pricing.law.standard_deviation() * 2.0**-pricing.bits
    for query in QUERIES:
        form = query.lower(DOMAIN)
        wanted = (weights(form) ** 2).sum(axis=1) * sd**2
        got = mechanism.quote(form, terms).accuracy.variances
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize(("scale", "count"), [(0.5, 2), (1.3, 3), (4, 7), (20, 2), (3, 40)])
def test_the_tail_of_a_sum_of_laplace_noises_is_exact(scale, count):
    ratio, reach = math.exp(-1 / scale), int(60 * scale * math.sqrt(count))
    one = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-reach, reach + 1))
    law = one
    for _ in range(count - 1):
        law = np.convolve(law, one)
    far = np.abs(np.arange(len(law)) - len(law) // 2)
    tail = summed_tail(scale, count)
    for radius in (0, 1, 5, int(5 * scale * math.sqrt(count))):
        exact = law[far > radius].sum()
        assert exact <= tail(radius) <= exact * (1 + 3e-9)


def test_one_cell_has_the_exact_radius_of_its_law():
    asked = session()
    quote = asked.quote(Conjunction({"age": 3, "member": True}, normalized=False), using=TOTALS[0])
    assert quote.error(0.05) == DiscreteLaplace(2).radius(0.05)
    table_quote = asked.quote(Marginal("age", "member", normalized=False), using=TOTALS[0])
    assert table_quote.error(0.05) == DiscreteLaplace(2).radius(0.05, 32)


@pytest.mark.parametrize(
    ("total", "consistent"), crossed([{"epsilon": 1}, {"rho": "0.02"}], [False, True], 2), ids=str
)
def test_bounds_hold_as_often_as_they_say(total, consistent):
    seed = 11 if "epsilon" in total else 12
    asked = session(seed, budget=10**6)
    mechanism = NoisyHistogram(**total, consistent=consistent)
    queries = [
        (Interval("age", 2, 9, normalized=False), np.arange(32) // 2 >= 2),
        (Marginal("age", normalized=False), None),
    ]
    quotes = [asked.quote(query, using=mechanism).error(0.2) for query, _ in queries]
    truth = COUNTS.reshape(16, 2).sum(axis=1)
    missed, runs = [0, 0], 200
    for _ in range(runs):
        channel = asked.open(mechanism)
        error = abs(channel.answer(queries[0][0]) - truth[2:10].sum())
        missed[0] += error > quotes[0]
        errors = np.abs(channel.answer(queries[1][0]).values - truth)
        missed[1] += errors.max() > quotes[1]
    # Five deviations above 20% of 200.
    assert max(missed) <= 40 + 28
    if not consistent and "epsilon" in total:
        # The bound of a sum of Laplace noises is its exact tail.
        assert missed[0] >= 40 - 28


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("outside", [False, True])
def test_consistent_counts_are_possible_ones(neighbors, outside):
    asked = session(3, neighbors, outside)
    channel = asked.open(NoisyHistogram(epsilon="0.05", consistent=True))
    cells = channel.answer(Marginal("age", "member", normalized=False)).values
    assert cells.min() >= 0
    rows = asked.facts.rows
    if rows is not None:
        assert cells.sum() <= rows * (1 + 1e-12)
        if not outside:
            assert cells.sum() == pytest.approx(rows)
            release = channel.release(Count())
            assert (release.value, release.error()) == (pytest.approx(1), 0)
    release = channel.release(Marginal("age", "member", normalized=False))
    assert "projection" in release.bound().kind
    data = channel.distribution
    assert isinstance(data, SyntheticData)
    if rows is not None:
        assert data.rows == rows
    inside = data.counts("age", "member")
    assert np.abs(np.cumsum(inside) - np.cumsum(cells)).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("total", [{"epsilon": "0.2"}, {"rho": "0.02"}], ids=str)
def test_a_release_of_possible_counts_is_bounded_by_how_far_they_were_moved(total):
    asked = session(21, budget=10**6)
    mechanism = NoisyHistogram(**total, consistent=True)
    query = Marginal("age", normalized=False)
    truth = COUNTS.reshape(16, 2).sum(axis=1)
    quoted = asked.quote(query, using=mechanism).error(0.2)
    missed, bounds, runs = 0, [], 200
    for _ in range(runs):
        release = asked.open(mechanism).release(query)
        bounds.append(release.error(0.2))
        missed += np.abs(release.value.values - truth).max() > bounds[-1]
    # Five deviations above 20% of 200.
    assert missed <= 40 + 28
    assert np.median(bounds) < 0.7 * quoted


def test_weights_of_both_signs_have_no_complement_among_possible_counts():
    domain = Domain(Binned("balance", [-2, 0, 2]))
    columns = {"balance": [-1.0] * 60 + [1.0] * 40}
    data = PrivateData.from_columns(columns, domain, outside="raise")
    asked = Session(data, Budget(10**6), noise=seeded(7))
    mechanism = NoisyHistogram(epsilon="0.2", consistent=True)
    query = Sum("balance", normalized=False)
    bound = asked.quote(query, using=mechanism).error(0.05)
    errors = [abs(asked.open(mechanism).answer(query) + 20) for _ in range(60)]
    assert max(errors) > 1
    # Ten misses of 60 at 5% are less likely than one in a thousand.
    assert sum(error > bound for error in errors) <= 10
    # One half of the domain is still off as far as the other.
    half = Threshold("balance", 0, normalized=False)
    assert 0 < asked.quote(half, using=mechanism).error(0.05) < bound


def test_a_mean_of_two_values_is_not_known_among_possible_counts():
    # Its sum is measured from the middle, so that the values weigh as much on either side of it.
    domain = Domain(Integer("owns", 0, 1))
    data = PrivateData.from_columns({"owns": [0] * 60 + [1] * 40}, domain, outside="raise")
    asked = Session(data, Budget(10**6), noise=seeded(8))
    mechanism, missed = NoisyHistogram(epsilon="0.2", consistent=True), 0
    for _ in range(60):
        low, high = asked.open(mechanism).release(Mean("owns")).interval()
        missed += not low <= 0.4 <= high
    # Ten misses of 60 at 5% are less likely than one in a thousand.
    assert missed <= 10


def test_possible_counts_are_the_nearest():
    from scipy.optimize import minimize

    from dpsdk.mechanisms.noisy_histogram import nearest_possible

    rng = np.random.default_rng(5)
    for outside in (False, True):
        for _ in range(6):
            counts = rng.normal(3, 8, size=6)
            domain = Domain(Integer("x", 0, 5))
            of = facts(domain, rows=20, outside=outside)
            kind = "ineq" if outside else "eq"
            solved = minimize(
                lambda p, counts=counts: ((p - counts) ** 2).sum(),
                np.full(6, 3.0),
                bounds=[(0, None)] * 6,
                constraints={"type": kind, "fun": lambda p: 20 - p.sum()},
                options={"ftol": 1e-12},
            )
            assert nearest_possible(counts, of) == pytest.approx(solved.x, abs=1e-4)


def test_noise_that_leaves_nothing_still_leaves_a_distribution():
    asked = session(1, Neighbors.ADD_REMOVE, counts=np.zeros(32, dtype=int))
    for _ in range(5):
        assert asked.open(NoisyHistogram(epsilon="0.001")).distribution.rows >= 1


def test_a_mean_of_a_private_number_of_rows_is_answered():
    rows = people(2000, 4)
    data = table(rows, Neighbors.ADD_REMOVE)
    asked = Session(data, Budget(epsilon=10), noise=seeded(2))
    release = asked.open(NoisyHistogram(epsilon=5)).release(Mean("hours", where={"sex": "Female"}))
    low, high = release.interval()
    hours = [row["hours"] for row in rows if inside(row) and row["sex"] == "Female"]
    assert low < np.mean(hours) < high
    parts = release.bound().parts
    assert parts["noise"] < 1.5
    assert 5 < parts["bins"] < 10  # half the width of bins with a mean of about 19


def test_possible_counts_are_asked_for_by_a_truth_value():
    with pytest.raises(InvalidArgument):
        NoisyHistogram(epsilon=1, consistent="yes")


def test_answers_to_a_workload_are_those_of_its_queries():
    asked = session()
    channel = asked.open(NoisyHistogram(epsilon=1))
    workload = Workload(Threshold("age", t) for t in range(16))
    assert channel.answer(workload).values == pytest.approx(
        [channel.answer(query) for query in workload.queries]
    )
    release = channel.release(workload)
    assert release.errors(0.05) == pytest.approx(
        [channel.release(query).error(0.05) for query in workload.queries]
    )
    assert release == channel.release(workload)
