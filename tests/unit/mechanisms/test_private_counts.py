"""Multiplicative weights where the number of rows is private: counted first, then public."""

from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import BasicComposition
from dpsdk.accounting.guarantee import PureGuarantee
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import Facts
from dpsdk.mechanisms import OnlinePMW
from dpsdk.mechanisms.pmw import schedule as schedules
from dpsdk.mechanisms.pmw.schedule import Promise, Rounds
from dpsdk.queries import Conjunction, Linear, Threshold, Workload
from dpsdk.testing import seeded
from dpsdk.testing.audit import audit, program
from worlds import with_private_sizes

LINE = Domain(Integer("x", 0, 7))
COUNTS = np.array([20, 10, 5, 5, 30, 10, 10, 10]) * 1000
PROMISED = OnlinePMW(10, alpha=0.2, beta=0.1, queries=60)


def table(counts=COUNTS, outside="raise"):
    rows = {"x": np.repeat(np.arange(8), counts)}
    return PrivateData.from_columns(
        rows, LINE, neighbors=Neighbors.ADD_REMOVE, max_rows=10**6, outside=outside
    )


def session(data=None, seed=0):
    return Session(data or table(), Budget(10**4, "0.1"), noise=seeded(seed))


def below(level):
    return Threshold("x", level, normalized=False)


def signs(weights):
    return Linear(np.array(weights, dtype=float), low=-1, high=1, normalized=False)


@pytest.mark.parametrize("outside", ["raise", "apart", "clip"])
@pytest.mark.parametrize(
    "mechanism",
    [OnlinePMW(4, updates=9), OnlinePMW(4, "1e-6", updates=9, prepaid=True), PROMISED],
    ids=repr,
)
def test_counts_are_answered_within_their_bounds(mechanism, outside):
    opened = session(table(outside=outside))
    if outside == "clip":  # a missing value may lie outside then
        with pytest.raises(PublicSizeRequired, match="apart"):
            opened.open(mechanism)
        assert opened.spent.charges == 0
        return
    quote = opened.quote(below(3), using=mechanism)
    with opened.open(mechanism) as channel:
        assert opened.spent.charges == len(quote.at_open.guarantees)
        for level in range(8):
            release = channel.release(below(level))
            truth = int(COUNTS[: level + 1].sum())
            assert abs(release.value - truth) <= release.error(0.1) <= 0.2 * 10**5


def test_what_cannot_be_answered_is_refused_before_any_charge():
    opened = session()
    for mechanism, words in [
        (OnlinePMW(1, updates=3, start="product"), "product"),
        (OnlinePMW(1, updates=3, start="pairs"), "marginals"),
        (OnlinePMW.textbook(1, alpha=0.1, beta=0.1, queries=9), "constants"),
    ]:
        for ask in (opened.open, lambda using: opened.quote(below(3), using=using)):
            with pytest.raises(PublicSizeRequired, match=words):
                ask(mechanism)
    with pytest.raises(InvalidArgument, match=r"at most 1,000,000 rows; this takes"):
        opened.open(OnlinePMW(1, alpha=0.001, beta=0.1, queries=9))
    assert opened.spent.charges == 0
    with opened.open(OnlinePMW(1, updates=3)) as channel, pytest.raises(PublicSizeRequired):
        channel.answer(Threshold("x", 3))


def test_a_promise_is_made_once_enough_rows_are_counted():
    quote = session().quote(Workload([below(3)] * 60), using=PROMISED)
    assert "rows or more are counted" in quote.bound(0.1).kind
    few = session(table(COUNTS // 100))
    with few.open(PROMISED) as channel:
        assert channel._strategy._schedule.promise is None
        release = channel.release(below(3))
        # What was compared keeps the bound of its noise, which is wider than the promise.
        assert release.error(0.1) > 0.2 * COUNTS.sum() / 100
        assert abs(release.value - COUNTS[:4].sum() / 100) <= release.error(0.1)
    with session().open(PROMISED) as channel:
        kept = channel._strategy._schedule
        assert kept.promise.alpha <= 0.2
        assert kept.least is None
        assert kept.radius < kept.gap


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("seed", range(30))
def test_the_promise_holds_for_all_answers_of_a_stream(seed):
    rng = np.random.default_rng(seed)
    signed = bool(seed % 2)
    mechanism = OnlinePMW(40, alpha=0.4, beta=0.1, queries=60, signed=signed)
    with session(seed=seed).open(mechanism) as channel:
        for _ in range(60):
            weights = rng.choice([-1.0, 0.0, 1.0] if signed else [0.0, 1.0], 8)
            release = channel.release(signs(weights))
            bound = release.error(0.1)
            # At most alpha of the count, which is within a few rows of the truth.
            assert bound <= 0.4 * (COUNTS.sum() + 1000)
            assert abs(release.value - float(weights @ COUNTS)) <= bound


@pytest.mark.parametrize("forgotten", [None, "missed"])
def test_a_count_that_is_off_by_what_it_may_be_proves_the_gap(forgotten, monkeypatch):
    """The inequalities of the proof, at random tables, distributions and counts."""
    facts = Facts(LINE, Neighbors.ADD_REMOVE, None, False, 10**6, 1)
    wanted = Promise(0.3, 0.1, 50)
    first = schedules._attempt(Fraction(1, 2), Fraction(0), 8, Fraction(1, 4), facts, prepaid=False)
    counted = schedules._Counted.of(first, wanted, facts, np.log(8), 1.0)
    missed, rng, broken = counted.missed, np.random.default_rng(1), 0
    if forgotten:
        counted = schedules.evolve(counted, missed=0.0)
    for _ in range(3000):
        count = int(rng.integers(int(missed) + 2, int(4 * missed)))
        rows = count + rng.choice([-missed, missed, rng.uniform(-missed, missed)])
        ready = counted.at(schedules.evolve(facts, rows=count), wanted, 1)
        truth, hypothesis = rng.dirichlet(np.full(8, 0.2), 2)
        weights = rng.choice([0.0, 1.0], 8)
        shares = float(weights @ truth), float(weights @ hypothesis)
        gap = abs(rows * shares[0] - count * shares[1])
        real = abs(shares[0] - shares[1])
        # A top: the gap is proven; a number is within the radius; at the end, answers are near.
        top = gap < ready.threshold - counted.above or real >= ready.gap - 1e-12
        number = abs((rows * shares[0] + counted.number) / count - shares[0])
        near = number <= ready.radius + 1e-12
        end = real > ready.gap or gap <= ready.threshold - counted.above + 1e-9
        broken += not (top and near and end)
    assert (broken > 0) is bool(forgotten)


ASKED = Conjunction({"bit": True}, normalized=False)


def unpaid(self, kernel, allowance):
    """The true number of rows, which nobody paid for."""
    from dpsdk.data.vault import open_histogram

    return schedules.evolve(kernel.facts, rows=max(open_histogram(kernel._access.data).rows, 1))


@pytest.mark.parametrize(
    ("epsilon", "broken"),
    [
        (36, None),
        pytest.param(14, None, marks=pytest.mark.thorough),
        pytest.param(14, "unpaid", marks=pytest.mark.thorough),
    ],
)
def test_the_count_and_a_round_keep_the_claim_over_all_tiny_neighbours(
    epsilon, broken, monkeypatch
):
    monkeypatch.setattr(schedules, "COUNT_SHARE", Fraction(1, 3))
    monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", 0)
    if broken:
        monkeypatch.setattr(Rounds, "counted", unpaid)
    # The hypothesis answers half of the count, mostly.
    mechanism = OnlinePMW(epsilon, updates=1, threshold=0.99)
    run = program(mechanism, ASKED, composition=BasicComposition())
    report = audit(run, with_private_sizes(), PureGuarantee(epsilon), tail=1e-6)
    assert report.pairs == 12
    assert report.passed is not bool(broken), report
