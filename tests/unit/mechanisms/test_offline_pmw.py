"""Offline private multiplicative weights: its promise, its early return, and what it costs."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session, Stopped
from dpsdk.accounting import BasicComposition
from dpsdk.accounting.declared.calibration import fits_all
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.errors import BudgetExceeded, InvalidArgument, NoBound
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Terms
from dpsdk.mechanisms import MWEM, OfflinePMW
from dpsdk.mechanisms.mwem.learners import Certifying
from dpsdk.queries import Linear, Marginal, Threshold, Workload
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("c", 0, 7))
LINE = Workload(Threshold("c", t, normalized=False) for t in range(8))
COUNTS = np.array([300_000, 10_000, 50_000, 1_000, 1_000, 200_000, 1_000, 1_000])


def session(seed=1, budget=2, counts=COUNTS, **given):
    data = PrivateData.from_counts(counts, DOMAIN, **given)
    return Session(data, Budget(budget), composition=BasicComposition(), noise=seeded(seed))


@pytest.mark.parametrize("unit_rows", [1, 2])
def test_the_promise_holds_and_rounds_end_early(unit_rows):
    mechanism = OfflinePMW(LINE, epsilon=2)
    for seed in range(5):
        opened = session(seed, unit_rows=unit_rows)
        plan = mechanism.plan(Terms(opened.facts))
        channel = opened.open(mechanism)
        release = channel.release(LINE)
        assert release.error(0.05) == plan.error < COUNTS.sum()
        assert np.abs(release.value.values - np.cumsum(COUNTS)).max() <= plan.error
        assert 0 < opened.spent.charges < 2 * plan.rounds
        assert opened.spent.epsilon < 2
        assert opened.quote(LINE, using=mechanism).at_most.epsilon <= 2
        with pytest.raises(NoBound):
            channel.release(Marginal("c", normalized=False)).error(0.05)


@pytest.mark.parametrize("make", [OfflinePMW, partial(MWEM.textbook, rounds=3)])
def test_a_budget_that_ends_within_the_first_round_stops_it_with_what_was_paid(make):
    # A choice and a number a round, of which the first alone fits.
    mechanism = make(LINE, epsilon=2)
    whole = session()
    whole.open(mechanism)
    first = whole.history[0].cost.guarantees[0]
    opened = session(budget=pure_epsilon(first))
    with pytest.raises(Stopped) as caught:
        opened.open(mechanism)
    assert caught.value.why == "budget"
    assert caught.value.paid.guarantees == (first,)
    assert opened.spent.charges == 1
    # Nothing was learnt, and it says no more than that.
    release = caught.value.channel.release(LINE)
    assert release.source == "fitted"
    assert not release.accuracy.proven
    nothing = session(budget=Fraction(pure_epsilon(first)) / 2)
    with pytest.raises(BudgetExceeded):
        nothing.open(mechanism)
    assert nothing.spent.charges == 0


def test_the_promise_is_the_sum_of_its_parts():
    opened = session()
    plan = OfflinePMW(LINE, epsilon=1, beta=0.1).plan(Terms(opened.facts))
    rows, potential = COUNTS.sum(), math.log(9)
    assert plan.rounds > potential / (2 * (plan.gap / rows) ** 2)
    each = float(plan.choice)
    assert plan.noise == LaplaceNoise(plan.choice)
    assert each == pytest.approx(1 / (2 * plan.rounds))
    number = math.log(2 * plan.rounds / 0.1) / each
    choice = 2 / each * math.log(2 * 8 * plan.rounds / 0.1)
    assert plan.error == pytest.approx(plan.gap + 2 * number + choice, rel=1e-2)


TOTALS = [{"epsilon": 1}, {"rho": "0.05"}, {"epsilon": 1, "delta": "1e-6"}]
SMALL = np.array([3000, 100, 500, 10, 10, 2000, 10, 10])


@pytest.mark.parametrize("given", TOTALS, ids=repr)
def test_the_promise_holds_for_every_total_and_no_more_is_paid(given):
    mechanism = OfflinePMW(LINE, **given)
    data = PrivateData.from_counts(SMALL, DOMAIN)
    for seed in range(2):
        opened = Session(data, Budget(2, "1e-3"), noise=seeded(seed))
        terms = Terms(opened.facts)
        plan, quote = mechanism.plan(terms), opened.quote(LINE, using=mechanism)
        assert quote.at_most == plan.cost
        channel = opened.open(mechanism)
        release = channel.release(LINE)
        assert release.error(0.05) == plan.error == quote.error(0.05)
        assert np.abs(release.value.values - np.cumsum(SMALL)).max() <= plan.error
        paid = [run for receipt in opened.history for run in receipt.cost.guarantees]
        assert 0 < len(paid) <= len(plan.cost.guarantees)
        if isinstance(plan.noise, GaussianNoise):
            # Each charge is the one that was quoted in its place, or free.
            for real, quoted in zip(paid, plan.cost.guarantees, strict=False):
                assert real == quoted or real.free
    if "rho" in given:
        assert sum(map(zcdp_rho, plan.cost.guarantees)) <= Fraction(given["rho"])
    else:
        budget = Budget(given["epsilon"], given.get("delta", 0))
        state = terms.composition.begin(budget)
        assert fits_all(terms.composition, state, plan.cost.guarantees)


def test_parts_of_a_concentrated_promise_and_the_best_share():
    facts = session(counts=SMALL).facts
    plan = OfflinePMW(LINE, rho="0.05", beta=0.1).plan(Terms(facts))
    numbers, options = (math.log(count * plan.rounds / 0.1) for count in (2, 16))
    epsilon, rho = float(plan.choice), float(plan.noise.rho)
    assert epsilon**2 / 8 + rho == pytest.approx(0.05 / plan.rounds, rel=1e-9)
    choice, number = 2 / epsilon * options, math.sqrt(numbers / rho)
    assert plan.error == pytest.approx(plan.gap + 2 * number + choice, rel=5e-2)
    whole = 0.05 / plan.rounds
    for share in np.linspace(0.05, 0.95, 19):
        other = 2 / math.sqrt(8 * whole * share) * options
        other += 2 * math.sqrt(numbers / (whole * (1 - share)))
        assert choice + 2 * number <= other * 1.001
    # A total of zCDP buys many more rounds than the pure one that implies it.
    pure = OfflinePMW(LINE, epsilon=math.sqrt(0.1)).plan(Terms(facts))
    assert plan.rounds > pure.rounds
    assert plan.error < pure.error


def test_functions_that_cost_differently_are_fitted_by_covers():
    facts = session(counts=SMALL).facts
    uneven = Workload([LINE, Linear(lambda record: record["c"] / 16, ["c"], normalized=False)])
    terms, given = Terms(facts), {"epsilon": 1, "delta": "1e-6"}
    plans = [OfflinePMW(workload, **given).plan(terms) for workload in (LINE, uneven)]
    runs = [plan.cost.guarantees[1].rho / plan.noise.rho for plan in plans]
    assert runs[0] == 1
    assert runs[1] > 1.02
    for plan in plans:
        state = terms.composition.begin(Budget(1, "1e-6"))
        assert fits_all(terms.composition, state, plan.cost.guarantees)


def test_every_function_may_be_chosen_however_near_it_is():
    # If only those were options that are off, their set would tell of the table.
    uniform = np.full(8, 1000)
    chosen = set()
    for seed in range(40):
        opened = session(seed, budget=1, counts=uniform)
        strategy = opened.open(OfflinePMW(LINE, epsilon="0.001"))._strategy
        chosen |= set(strategy.chosen)
    assert chosen == set(range(8))


def test_rounds_that_run_out_promise_nothing():
    opened = session()
    terms = Terms(opened.facts)
    form = LINE.lower(DOMAIN)
    plan = OfflinePMW(LINE, epsilon=1).plan(terms)
    learner = Certifying(form, plan, opened.facts)
    assert learner.strategy(finished=True).promise is None


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_the_textbook_stops_with_what_it_promises(low):
    rng = np.random.default_rng(1)
    weights = np.where(rng.random((30, 8)) < 0.5, low, 1.0)
    workload = Workload(Linear(row, low=low, high=1, normalized=False) for row in weights)
    mechanism = OfflinePMW.textbook(workload, epsilon=40, alpha=0.1)
    assert "textbook" in repr(mechanism)
    rows = COUNTS.sum()
    for seed in range(5):
        opened = session(seed, budget=50)
        plan = mechanism.plan(Terms(opened.facts))
        assert plan.rounds == math.floor(400 * math.log(8 + opened.facts.outside)) + 1
        assert plan.threshold == pytest.approx(0.2 * rows)
        assert plan.radius <= 0.1 * rows
        release = opened.open(mechanism).release(workload)
        assert 0.2 * rows < release.error(0.05) == plan.error
        assert np.abs(release.value.values - weights @ COUNTS).max() <= plan.error
        assert opened.spent.charges < 2 * plan.rounds


def test_the_textbook_step_leaves_no_room_for_so_many_rounds():
    """Exact answers that are off by more than alpha, every time: the regret forbids it."""
    rng, width = np.random.default_rng(2), 8
    for alpha in (0.15, 0.3):
        rounds = math.floor(4 * math.log(width) / alpha**2) + 1
        step = math.sqrt(math.log(width) / rounds)
        for _ in range(5):
            truth, shares = np.eye(width)[rng.integers(width)], np.full(width, 1 / width)
            moves = 0
            while moves < rounds:
                weights = rng.choice([-1.0, 1.0], (200, width))
                gaps = weights @ (truth - shares)
                off = np.flatnonzero(np.abs(gaps) > alpha)
                if not off.size:
                    break
                place = off[np.argmin(np.abs(gaps[off]))]
                shares = shares * np.exp(step * np.sign(gaps[place]) * weights[place])
                shares /= shares.sum()
                moves += 1
            assert moves < rounds


def test_a_textbook_that_noise_drowns_runs_and_promises_nothing():
    mechanism = OfflinePMW.textbook(LINE, epsilon="0.001", alpha=0.3)
    opened = session()
    assert opened.quote(LINE, using=mechanism).bound(0.05).error == math.inf
    with pytest.raises(NoBound):
        opened.open(mechanism).release(LINE).error(0.05)
    assert mechanism.alpha_for(Terms(opened.facts)) is None
    for alpha, given in [(0.001, {"epsilon": 1}), (0.05, {"epsilon": 1, "delta": "1e-6"})]:
        with pytest.raises(InvalidArgument, match="alpha"):
            opened.open(OfflinePMW.textbook(LINE, **given, alpha=alpha))
    for alpha in (0, 1.5, "much"):
        with pytest.raises(InvalidArgument, match="alpha"):
            OfflinePMW.textbook(LINE, epsilon=1, alpha=alpha)
