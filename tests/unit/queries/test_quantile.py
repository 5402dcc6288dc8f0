"""Quantiles and medians: what they are, how far off they may be, and of what they are asked."""

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import (
    Binned,
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
)
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.mechanisms import Gaussian, Laplace, NoisyHistogram, OnlinePMW, SquareRoot, Tree
from dpsdk.queries import Median, Quantile, Threshold, Workload, isotonic
from dpsdk.testing import seeded
from worlds import crossed

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 10, 49), Binned("hours", [0, 10, 20, 40]), Boolean("member"))
RNG = np.random.default_rng(3)
AGES = RNG.integers(10, 50, 2000)
COLUMNS = {
    "age": AGES.tolist(),
    "hours": RNG.uniform(0, 40, 2000).tolist(),
    "member": (AGES % 3 == 0).tolist(),
}
QUIET = Laplace(epsilon=10**7)


def session(neighbors=Neighbors.REPLACE_ONE, outside="cell", columns=COLUMNS, noise=1):
    data = PrivateData.from_columns(columns, DOMAIN, neighbors=neighbors, outside=outside)
    return Session(data, Budget(10**9, "0.1"), noise=seeded(noise))


def least(values, q):
    """The least value that a share q of all are at or below, by counting."""
    ordered = sorted(values)
    return next(v for i, v in enumerate(ordered, start=1) if i >= q * len(ordered) - 1e-9)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("outside", ["cell", "raise"])
def test_without_noise_it_is_the_quantile(neighbors, outside):
    asked = session(neighbors, outside)
    for q in (0.001, 0.1, 0.25, 0.5, 0.9, 0.999):
        release = asked.release(Quantile("age", q), using=QUIET)
        assert release.value == least(COLUMNS["age"], q)
        low, high = release.interval()
        assert low <= release.value <= high
    assert asked.answer(Median("age"), using=QUIET) == statistics.median_low(COLUMNS["age"])
    members = [age for age in COLUMNS["age"] if age % 3 == 0]
    got = asked.answer(Quantile("age", 0.3, where={"member": True}), using=QUIET)
    assert got == least(members, 0.3)
    # The upper edge of the bin.
    assert asked.answer(Quantile("hours", 0.5), using=QUIET) in (20.0, 40.0)
    assert Median("age") != Quantile("age", 0.4)


def test_a_share_that_a_count_meets_exactly_is_reached():
    columns = {"age": list(range(10, 20)), "hours": [1.0] * 10, "member": [True] * 10}
    for outside in ("cell", "raise"):
        asked = session(outside=outside, columns=columns)
        for tenth in range(1, 10):
            got = asked.answer(Quantile("age", f"0.{tenth}"), using=QUIET)
            assert got == 9 + tenth


MECHANISMS = [
    Tree("age", epsilon=1), SquareRoot("age", rho="0.1"), NoisyHistogram(epsilon=1),
    NoisyHistogram(rho="0.1", consistent=True), OnlinePMW(epsilon=20, updates=5),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_every_mechanism_answers_from_thresholds(mechanism):
    with session().open(mechanism) as channel:
        release = channel.release(Median("age"))
        assert 10 <= release.value <= 49
        assert release.value == channel.answer(Quantile("age", "0.5"))
        if release.bound().proven:
            low, high = release.interval()
            assert low <= least(COLUMNS["age"], 0.5) <= high


@pytest.mark.parametrize(("neighbors", "outside"), crossed(Neighbors, ["cell", "raise"], 2))
def test_bounds_hold_as_often_as_they_say(neighbors, outside):
    asked, missed, runs = session(neighbors, outside, noise=7), np.zeros(3), 200
    truth = least(COLUMNS["age"], 0.25)
    for _ in range(runs):
        with asked.open(Tree("age", epsilon="0.3")) as channel:
            release = channel.release(Quantile("age", 0.25))
        low, high = release.interval(0.2)
        missed += (
            not low <= truth <= high,
            abs(release.value - truth) > release.error(0.2),
            abs(release.value - truth) > release.errors(0.2)[0],
        )
        assert release.bound(0.2).proven
        assert high - low < 39
    assert missed.max() <= 0.2 * runs + 5 * math.sqrt(0.16 * runs)


def test_the_answer_lies_within_its_interval():
    # No rows between two values, so that noise alone decides where the counts cross the share.
    rows = {"age": [10] * 20 + [49] * 20, "hours": [1.0] * 40, "member": [True] * 40}
    asked, moved = session(outside="raise", columns=rows, noise=6), 0
    for _ in range(60):
        release = asked.release(Median("age"), using=Laplace("0.5"))
        low, high = release.interval(0.9)
        assert low <= release.value <= high
        moved += low < high
    assert moved


def test_nobody_has_no_median():
    columns = {"age": [99] * 50, "hours": [1.0] * 50, "member": [True] * 50}
    release = session(columns=columns, noise=2).release(Median("age"), using=Gaussian(rho="0.01"))
    assert math.isnan(release.value)
    bound = release.bound()
    assert (bound.error, bound.vacuous) == (39, True)
    assert release.interval() == (10, 49)


def test_a_workload_of_quantiles_is_bounded_together():
    asked = session()
    deciles = Workload(Quantile("age", f"0.{i}") for i in range(1, 10))
    with asked.open(Tree("age", epsilon=1)) as channel:
        release = channel.release(deciles)
    truth = [least(COLUMNS["age"], i / 10) for i in range(1, 10)]
    assert np.abs(release.value.values - truth).max() <= release.error()
    assert (np.abs(release.value.values - truth) <= release.errors()).all()
    assert list(release.value) == sorted(release.value)


def test_what_cannot_be_asked_is_refused_unpaid():
    domain = Domain(Categorical("sex", ["F", "M"]), Integer("far", 0, 2**30))
    data = PrivateData.from_columns({"sex": ["F"], "far": [1]}, domain)
    asked = Session(data, Budget(1), noise=seeded(1))
    with pytest.raises(QueryError, match="no order"):
        asked.answer(Median("sex"), using=Laplace(1))
    with pytest.raises(TooLarge):
        asked.answer(Median("far"), using=Laplace(1))
    assert asked.spent.charges == 0
    for q in (0, 1, -1, 2, float("nan"), "x", None, True):
        with pytest.raises(InvalidArgument, match="q"):
            Quantile("age", q)


@pytest.mark.parametrize(
    "values",
    [[[1.0]], [math.nan], [math.inf], ["x"], 3, None, [10**400], np.array([1j, 2])],
    ids=["deep", "nan", "inf", "text", "number", "none", "endless", "complex"],
)
def test_only_rows_of_finite_numbers_are_made_to_rise(values):
    with pytest.raises(InvalidArgument, match="values"):
        isotonic(values)


def test_thresholds_that_were_made_to_rise_keep_their_bound():
    thresholds = Workload(Threshold("age", t) for t in range(10, 50))
    asked, truth = session(noise=4), np.array([(t >= AGES).mean() for t in range(10, 50)])
    release = asked.release(thresholds, using=Gaussian(rho="0.01"))
    values = release.value.values
    assert (np.diff(values) < 0).any()
    rising = isotonic(values)
    assert (np.diff(rising) >= 0).all()
    assert np.abs(rising - truth).max() <= np.abs(values - truth).max() <= release.error()
    assert isotonic([]).shape == (0,)


def test_the_largest_floats_are_made_to_rise():
    assert isotonic([1.75e308, 1.5e308]).tolist() == pytest.approx([1.625e308] * 2)
    assert isotonic([1.0, -1.5e308, -1.75e308]).max() < -1e308
    assert isotonic([5e-324, 1.75e308]).max() == 1.75e308


@pytest.mark.parametrize(
    ("q", "written"),
    [
        (0.9, "0.9"), ("0.975", "0.975"), (Fraction(1, 3), "Fraction(1, 3)"), (1e-9, "1e-09"),
        (1 / 3, "0.3333333333333333"), ("0.9999999", "0.9999999"), (0.123456789, "0.123456789"),
        (Fraction(1, 3**60), repr(float(Fraction(1, 3**60)))),
    ],
)  # fmt: skip
def test_a_share_is_shown_as_it_can_be_given_again(q, written):
    query = Quantile("age", q)
    assert repr(query) == f"Quantile('age', {written})"
    if "Fraction" not in written and query.q.denominator < 2**64:
        assert Quantile("age", written) == query
