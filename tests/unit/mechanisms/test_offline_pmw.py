"""Offline private multiplicative weights: its promise, its early return, and what it costs."""

import math

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import BasicComposition
from dpsdk.errors import NoBound, PublicSizeRequired
from dpsdk.kernel import Terms
from dpsdk.mechanisms import OfflinePMW
from dpsdk.mechanisms.mwem.offline import Certifying
from dpsdk.queries import Marginal, Threshold, Workload
from dpsdk.testing import seeded

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


def test_the_promise_is_the_sum_of_its_parts():
    opened = session()
    plan = OfflinePMW(LINE, epsilon=1, beta=0.1).plan(Terms(opened.facts))
    rows, potential = COUNTS.sum(), math.log(9)
    assert plan.rounds > potential / (2 * (plan.gap / rows) ** 2)
    each = float(plan.each)
    assert each == pytest.approx(1 / (2 * plan.rounds))
    number = math.log(2 * plan.rounds / 0.1) / each
    choice = 2 / each * math.log(2 * 8 * plan.rounds / 0.1)
    assert plan.error == pytest.approx(plan.gap + 2 * number + choice, rel=1e-2)


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


def test_a_private_number_of_rows_is_refused():
    opened = session(neighbors=Neighbors.ADD_REMOVE)
    with pytest.raises(PublicSizeRequired):
        opened.open(OfflinePMW(LINE, epsilon=1))
    assert opened.spent.charges == 0
