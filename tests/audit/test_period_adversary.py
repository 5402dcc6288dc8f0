"""The strongest adaptive adversary against budgets by period, by exact dynamic programming.

Three periods with at most one row of a one each, and randomised response about whether any row of
some of them is a one. After every outcome the adversary picks the periods and the ε of the next run
that maximise the loss on a pair of tables; refusals are public, and tell it nothing.
"""

import functools
import itertools
import math

import pytest

from dpsdk.accounting import (
    BasicComposition,
    Budget,
    Dataset,
    Odometer,
    Payer,
    PureGuarantee,
)
from dpsdk.accounting.guarantee import GuaranteeByPeriod
from dpsdk.accounting.ledger.bookkeeping import Refusal, charge_books

PERIODS, SIZES, DEPTH = 3, (PureGuarantee("0.5"), PureGuarantee(1)), 6
TOUCHED = [some for n in (1, 2, 3) for some in itertools.combinations(range(PERIODS), n)]
TABLES = list(itertools.product((0, 1), repeat=PERIODS))


def each(touched):
    return touched


def first_alone(touched):
    return touched[:1]


def last_alone(touched):
    return touched[-1:]


def worst_loss(pairs, charged):
    """The largest loss over the strategies of the adversary, where some periods are charged."""
    dataset = Dataset("t", "add-remove", periods="day")
    odometer = Odometer(Budget(1), BasicComposition(), dataset=dataset, periods=(0, PERIODS - 1))
    begun, payer = odometer._ledger.read(), Payer(periods=(0, PERIODS - 1))

    @functools.cache
    def after(timeline, touched, run):
        parts = tuple([(period, period, run) for period in charged(touched)])
        told = GuaranteeByPeriod(run, parts)
        books = begun._replace(timeline=timeline)
        taken = charge_books(odometer.composition, books, payer, (told,))
        return None if isinstance(taken, Refusal) else taken.timeline

    def worst(one, other):
        @functools.cache
        def loss(timeline, left):
            best = 0.0
            for touched, run in itertools.product(TOUCHED, SIZES) if left else ():
                then = after(timeline, touched, run)
                seen = [any(table[period] for period in touched) for table in (one, other)]
                # One of the two outcomes always has a loss of ε, or both have none.
                gained = float(run.epsilon) if seen[0] != seen[1] else 0.0
                if then is not None:
                    best = max(best, gained + loss(then, left - 1))
            return best

        return loss(begun.timeline, DEPTH)

    return max(worst(one, other) for one, other in pairs)


def differing(periods):
    """The pairs of tables that differ in these periods, and in no other."""
    return [
        (one, other)
        for one, other in itertools.product(TABLES, TABLES)
        if {p for p in range(PERIODS) if one[p] != other[p]} == set(periods)
    ]


@pytest.mark.parametrize("period", range(PERIODS))
def test_a_row_of_one_period_loses_the_budget_of_one_period(period):
    assert worst_loss(differing([period]), each) == pytest.approx(1.0, abs=1e-12)


def test_rows_in_two_periods_lose_two_budgets_and_no_more():
    pairs = [pair for some in itertools.combinations(range(3), 2) for pair in differing(some)]
    assert worst_loss(pairs, each) == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize("mutant", [first_alone, last_alone])
def test_a_mutant_that_charges_one_touched_period_alone_is_caught(mutant):
    pairs = [pair for period in range(PERIODS) for pair in differing([period])]
    assert worst_loss(pairs, mutant) == pytest.approx(3.0, abs=1e-12)


def test_a_loss_of_epsilon_is_what_an_outcome_of_randomised_response_has():
    for run in SIZES:
        kept = math.exp(run.epsilon) / (1 + math.exp(run.epsilon))
        assert math.log(kept / (1 - kept)) == pytest.approx(float(run.epsilon))
