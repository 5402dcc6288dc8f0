"""Releases that are moved to be non-negative or monotone say so, and their bounds stay true."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.stats import binom

from dpsdk import Budget, Domain, Integer, PrivateData, Session, wire
from dpsdk.accuracy import ConstrainedAccuracy, HalfWidths, NoAccuracy
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.mechanisms import Gaussian, Laplace, NoisyHistogram, Projection, ResidualPlanner, Tree
from dpsdk.queries import (
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    MarginalTable,
    Mean,
    Rectangles,
    Sum,
    Threshold,
    Workload,
    isotonic,
    marginals,
)
from dpsdk.queries.monotone import risen
from dpsdk.testing import seeded
from dpsdk.wire import ReleaseRecord
from worlds import PEOPLE, people, table

pytestmark = pytest.mark.thorough

DATA = table(people(60, 4))
AGES = Workload(Threshold("age", t) for t in (20, 17, 23, 19, 24, 18))


def session(seed=1, data=DATA):
    return Session(data, Budget(10**9, "1e-6"), noise=seeded(seed))


class Widths(HalfWidths):
    kind, standing = "a test", "proven"

    def __init__(self, radii):
        self._radii = radii

    def radii(self, beta, *, joint):
        return self._radii.copy()


def by_definition(numbers):
    """By its definition: the largest least mean of the stretches around each place."""
    size = len(numbers)
    return [
        max(min(np.mean(numbers[a : b + 1]) for b in range(i, size)) for a in range(i + 1))
        for i in range(size)
    ]


def one_chain(size):
    return np.zeros(size, dtype=np.int64), np.arange(size)


def test_pooling_is_the_isotonic_regression_and_never_farther_from_what_does_not_fall():
    rising = [np.array(t) for t in itertools.product(range(3), repeat=4) if list(t) == sorted(t)]
    for given in itertools.product((-2.0, 0.0, 1.0, 3.0), repeat=4):
        numbers = np.array(given)
        moved = risen(numbers, *one_chain(4))
        np.testing.assert_allclose(moved, by_definition(numbers), atol=1e-12)
        np.testing.assert_allclose(moved, isotonic(numbers), atol=1e-12)
        assert (np.diff(moved) >= 0).all()
        for truth in rising:
            assert np.abs(moved - truth).max() <= np.abs(numbers - truth).max() + 1e-12


def test_chains_are_moved_apart_equal_ranks_become_equal_and_nan_plays_no_part():
    chains, ranks = np.array([1, 0, 0, 1, 0, 0]), np.array([5, 2, 1, 6, 2, 3])
    moved = risen(np.array([3.0, 1.0, 2.0, 1.0, 3.0, np.nan]), chains, ranks)
    np.testing.assert_array_equal(moved, [2.0, 2.0, 2.0, 2.0, 2.0, np.nan])
    assert risen(np.zeros(0), np.zeros(0, int), np.zeros(0, int)).shape == (0,)
    assert np.isnan(risen(np.full(2, np.nan), *one_chain(2))).all()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_half_widths_there_were_the_truth_is_within_those_that_are_left(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        truth = np.sort(rng.integers(0, 6, 7)).astype(float)
        radii = rng.exponential(3, 7)
        numbers = truth + radii * rng.choice([-1, 1, 0.3], 7)
        chains = np.array([0, 0, 0, 1, 1, 1, -1])
        moved = risen(numbers[:6], chains[:6], np.arange(6))
        moves = np.append(moved, numbers[6]) - numbers
        accuracy = ConstrainedAccuracy(Widths(radii), "monotone", moves, chains)
        for joint in (True, False):  # the half-widths of the test hold for all at once
            allowed = accuracy.radii(0.05, joint=joint) + 1e-9
            assert (np.abs(numbers + moves - truth) <= allowed).all()
        assert accuracy.radii(0.05, joint=True)[:3].max() <= radii[:3].max()
        assert accuracy.radii(0.05, joint=True)[6] == radii[6]
        clipped = np.maximum(numbers, 0)
        kept = ConstrainedAccuracy(Widths(radii), "nonnegative", clipped - numbers, np.full(7, -1))
        assert (np.abs(clipped - truth) <= kept.radii(0.05, joint=True) + 1e-9).all()
        np.testing.assert_array_equal(kept.radii(0.05, joint=False), radii)


def test_a_release_made_monotone_says_so():
    release = session().release(AGES, using=Laplace("0.2"))
    assert release.moved == 0.0
    assert "moved" not in repr(release)
    rising = release.monotone()
    shares = [rising.value[Threshold("age", t)] for t in (17, 18, 19, 20, 23, 24)]
    assert shares == sorted(shares)
    moves = rising.value.values - release.value.values
    assert rising.moved == pytest.approx(np.abs(moves).max())
    assert rising.moved > 0
    assert f"moved by up to {rising.moved:.4g}" in repr(rising)
    assert rising.accuracy.kind.endswith("made monotone")
    assert rising.bound() != release.bound()
    assert rising.error() == pytest.approx(release.error())
    np.testing.assert_allclose(rising.errors(), release.errors() + np.abs(moves))
    low, high = rising.interval()
    assert (low.values <= rising.value.values).all()
    assert (rising.value.values <= high.values).all()
    assert (rising.cost, rising.asked, rising.payment) == (
        release.cost, release.asked, release.payment,
    )  # fmt: skip
    assert rising != release
    assert pickle.loads(pickle.dumps(rising)) == rising  # noqa: S301
    assert rising.monotone().value == rising.value
    assert rising.monotone().moved == pytest.approx(rising.moved)


def test_constraints_follow_each_other_and_what_was_moved_counts_from_the_measurement():
    release = session(4).release(AGES, using=Laplace("0.1"))
    both = release.monotone().nonnegative()
    assert (both.value.values >= 0).all()
    assert both.moved == pytest.approx(np.abs(both.value.values - release.value.values).max())
    assert both.accuracy.kind.endswith("made monotone, made non-negative")
    assert both.error() == pytest.approx(release.error())
    again = release.nonnegative().monotone()
    assert again.moved == pytest.approx(np.abs(again.value.values - release.value.values).max())


WEIGHED = Linear([0.5, 0.0], ["sex"])
NEVER_NEGATIVE = [
    Count(), Count(normalized=False), Threshold("age", 20, where={"member": True}),
    Interval("age", 18, 20), Conjunction({"sex": "Male"}), Sum("hours"), WEIGHED,
    Marginal("sex", "age"), Rectangles("age", lower=[0, 3], upper=[2, 4]),
    Workload([Count(), Marginal("sex"), AGES]),
]  # fmt: skip


@pytest.mark.parametrize("query", NEVER_NEGATIVE, ids=str)
def test_whatever_counts_rows_can_be_made_nonnegative(query):
    numbers = []
    for seed in range(20):
        release = session(seed).release(query, using=Gaussian(rho="0.0001"))
        kept = release.nonnegative()
        assert (kept.raw >= 0).all()
        np.testing.assert_array_equal(kept.raw, np.maximum(release.raw, 0))
        assert kept.error() == release.error()
        np.testing.assert_array_equal(kept.errors(), release.errors())
        assert type(kept.value) is type(release.value)
        numbers.append(kept.moved)
        again = kept.nonnegative()
        assert again.moved == kept.moved
    assert max(numbers) > 0


def test_a_table_made_nonnegative_says_so():
    release = session().release(Marginal("sex", "age"), using=Laplace("0.1"))
    kept = release.nonnegative()
    assert kept.value == release.value.nonnegative()
    assert kept.value.moved == kept.moved == -release.value.values.min() > 0
    assert repr(kept.value).splitlines()[-1] == (
        f"moved by up to {kept.moved:.4g}, for none to be negative"
    )
    assert release.value.moved == 0.0
    assert kept.value.nonnegative().moved == kept.moved
    assert kept.nonnegative().value.moved == kept.moved
    assert kept.value.project("sex").moved == 8 * kept.moved
    assert kept.value.project("age", "sex").moved == kept.moved


@pytest.mark.parametrize("moved", [-1, float("nan"), "far", None])
def test_a_table_is_moved_by_a_number_of_at_least_nought(moved):
    with pytest.raises(InvalidArgument, match="moved"):
        MarginalTable((Integer("a", 0, 1),), np.zeros(2), moved=moved)


REFUSED = [
    (Mean("age"), "nonnegative"),
    (Workload([Count(), Mean("age")]), "nonnegative"), (Count(), "monotone"),
    (Marginal("age"), "monotone"), (Workload([Threshold("age", 20), Count()]), "monotone"),
    (Workload([AGES]), "monotone"), (Threshold("age", 20), "monotone"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "constraint"), REFUSED, ids=str)
def test_what_may_be_negative_or_fall_is_refused_by_name(query, constraint):
    release = session().release(query, using=Laplace("0.5"))
    with pytest.raises(QueryError) as caught:
        getattr(release, constraint)()
    assert caught.value.query == str(query)


def test_a_query_that_looks_like_a_threshold_is_none():
    class Falling(Threshold):
        def lower(self, domain):
            return Interval(self.attribute, self.threshold, 99).lower(domain)

    workload = Workload(Falling("age", t) for t in (18, 20))
    with pytest.raises(QueryError, match="monotone"):
        session().release(workload, using=Laplace("0.5")).monotone()


def test_thresholds_of_several_attributes_and_conditions_rise_each_by_itself():
    members = {"member": True}
    workload = Workload(
        [
            *(Threshold("age", t, where=w) for w in (None, members) for t in (17, 19, 22)),
            *(Threshold("hours", t, normalized=False) for t in (10, 20, 40)),
        ]
    )
    release = session(2).release(workload, using=Laplace("0.1")).monotone()
    for start in (0, 3, 6):
        part = release.value.values[start : start + 3]
        assert (np.diff(part) >= 0).all()
    assert (np.diff(release.value.values) < 0).any()


def test_bounds_of_what_was_moved_hold_as_often_as_they_say():
    truth = session().release(AGES, using=Laplace(10**7)).value.values
    turns, missed = 400, {"joint": 0, "each": 0}
    with session(5) as asked:
        for turn in range(turns):
            using = Laplace(epsilon=f"0.5{turn:04d}")
            release = asked.release(AGES, using=using).monotone().nonnegative()
            off = np.abs(release.value.values - truth)
            missed["joint"] += bool((off > release.bound(0.2).error + 1e-12).any())
            missed["each"] += bool(off[2] > release.errors(0.2)[2] + 1e-12)
    # A false alarm once in a million seeds, were it to be drawn anew.
    assert max(missed.values()) <= binom.isf(1e-6, turns, 0.2)


@pytest.mark.parametrize(
    "mechanism",
    [
        NoisyHistogram(epsilon="0.1", consistent=True),
        ResidualPlanner(marginals(PEOPLE, 2), rho="0.001", nonnegative=True),
        Projection(epsilon="0.1", delta="1e-7"),
    ],
    ids=str,
)
def test_mechanisms_that_move_answers_say_so_on_their_releases(mechanism):
    with session() as asked:
        if isinstance(mechanism, Projection):
            release = asked.release(marginals(PEOPLE, 2), using=mechanism)
        else:
            release = asked.open(mechanism).release(marginals(PEOPLE, 2))
        assert release.moved > 0
        assert f"moved by up to {release.moved:.4g}" in repr(release)
        distances = release.accuracy.distances / 60
        assert release.moved == pytest.approx(distances.max())
        assert ReleaseRecord.of(release).moved == release.moved
        assert release.nonnegative().moved >= release.moved
    with session().open(Tree("age", epsilon=1)) as channel:
        assert channel.release(AGES).moved == 0.0


def test_what_is_given_again_without_a_bound_stays_without_one():
    accuracy = ConstrainedAccuracy(
        NoAccuracy("not kept"), "nonnegative", np.ones(2), np.full(2, -1)
    )
    assert accuracy.standing == "none"
    assert accuracy.kind == "not kept"
    assert (accuracy.radii(0.05, joint=True) == np.inf).all()
    assert accuracy.missing(0.05) == NoAccuracy("not kept").missing(0.05)


def test_the_written_form_says_how_far_it_was_moved_and_no_more_of_the_noise():
    release = session().release(AGES, using=Laplace("0.2"))
    plain, moved = ReleaseRecord.of(release), ReleaseRecord.of(release.monotone())
    assert plain.moved == 0.0
    assert '"moved"' not in wire.dumps(plain)
    assert plain.noise is not None
    assert (moved.noise, moved.sensitivity) == (None, None)
    assert moved.moved == release.monotone().moved
    text = wire.dumps(moved)
    assert wire.loads(ReleaseRecord, text) == moved
    with pytest.raises(wire.WireError):
        wire.loads(ReleaseRecord, text.replace('"moved":', '"moved":-'))


def test_a_sum_of_what_may_be_negative_is_refused():
    data = PrivateData.from_columns({"t": [-1, 2]}, Domain(Integer("t", -2, 2)))
    release = session(data=data).release(Sum("t"), using=Laplace(1))
    with pytest.raises(QueryError, match="truth may be negative"):
        release.nonnegative()


@pytest.mark.parametrize("seed", range(12))
def test_what_is_as_it_should_be_is_left_as_it_is(seed):
    # Of equal thresholds the mean must be that very number, whatever is rounded.
    several = Workload(Threshold("age", t) for t in (20, 17, 20, 23, 19, 20, 24, 18, 18))
    release = session(seed).release(several, using=Laplace("0.1"))
    kept, rising = release.nonnegative(), release.monotone()
    assert kept.nonnegative() == kept
    assert rising.monotone() == rising
    assert rising.monotone().moved == rising.moved
    for both in (kept.monotone(), rising.nonnegative()):
        for _ in range(2):  # neither moves what does not fall and is not negative
            again = both.nonnegative().monotone()
            assert again == both
            assert again.value == both.value
            assert (again.moved, again.bound()) == (both.moved, both.bound())
            np.testing.assert_array_equal(again.errors(), both.errors())
    table = session(seed).release(Marginal("sex", "age"), using=Laplace("0.1")).nonnegative()
    assert table.nonnegative() == table
    assert table.nonnegative().value.moved == table.value.moved == table.moved
