"""What a form costs in one period: every row of every period, beside what is charged there."""

import math
from datetime import date, timedelta

import numpy as np
import pytest
from random_forms import random_form

from dpsdk import Categorical, Date, Domain, Integer, Neighbors, Periods
from dpsdk.accounting import GuaranteeByPeriod
from dpsdk.forms import Facts, GapForm, Kronecker, LinearForm, Prefix, Weights
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Select, Terms
from dpsdk.queries import Between, Marginal, Workload
from worlds import weights

NOISES = [LaplaceNoise("0.5"), GaussianNoise("0.1")]


def facts(domain, periods, unit_rows=1):
    person = "who" if unit_rows > 1 else None
    return Facts(
        domain, Neighbors.ADD_REMOVE, None, False, 1000, unit_rows, person, periods=periods
    )


def by_hand(form, domain, periods, unit_rows):
    """The L1 and squared L2 moves of all rows of a person, by the period that they are in."""
    when = domain[periods.attribute]
    axis = domain.position(periods.attribute)
    cells = np.indices(domain.shape)[axis].reshape(-1)
    numbers = np.array([periods.number(when, int(cell)) for cell in cells])
    matrix = np.abs(weights(form))
    l1, squares = matrix.sum(axis=0) * unit_rows, (matrix**2).sum(axis=0) * unit_rows**2
    return {
        int(one): (l1[numbers == one].max(), squares[numbers == one].max())
        for one in np.unique(numbers)
    }


def charged(guarantee):
    """What is charged for each period: the L1 or the squared L2 move."""
    assert isinstance(guarantee, GuaranteeByPeriod)
    return {
        period: getattr(part, "shift_squared", getattr(part, "shift", None))
        for first, last, part in guarantee.parts
        for period in range(first, last + 1)
    }


def check(form, domain, periods, noise, unit_rows=1):
    """Charge as much as any row moves, in the form as it is read; and say how near it is."""
    setting = facts(domain, periods, unit_rows)
    pricing = Measure(form, noise).price(Terms(setting))
    if pricing.guarantee.free:
        return 1.0
    found = charged(pricing.guarantee)
    moved = by_hand(pricing._form, domain, periods, unit_rows)
    squared = isinstance(noise, GaussianNoise)
    ratios = []
    for period, (l1, squares) in moved.items():
        least = squares if squared else l1
        assert found.get(period, 0) >= least
        if least:
            ratios.append(found[period] / least)
        else:
            assert period not in found
    whole = pricing.guarantee.whole
    assert max(found.values()) <= (whole.shift_squared if squared else whole.shift)
    return math.prod(ratios) ** (1 / len(ratios))


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "fractions"])
@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "gauss"])
def test_no_row_of_a_period_moves_farther_than_is_charged_there(noise, whole):
    rng = np.random.default_rng(7)
    near = []
    for _ in range(60):
        size = int(rng.integers(2, 9))
        domain = Domain(Integer("when", 3, 2 + size), Integer("a", 0, 2), Integer("b", 0, 1))
        periods = Periods("when", width=int(rng.integers(1, 4)), origin=int(rng.integers(-2, 3)))
        form = random_form(rng, domain, whole=whole)
        near.append(check(form, domain, periods, noise, int(rng.integers(1, 3))))
    # Most are charged what they move.
    assert np.median(near) < 1.02


def test_what_is_charged_is_of_the_form_that_is_read():
    """Shares of the form's own move by its weights on the time are too small once it is rounded."""
    rng = np.random.default_rng(3)
    short = 0
    for _ in range(40):
        domain = Domain(Integer("when", 0, 3), Integer("a", 0, 2))
        factors = {"when": Weights(rng.uniform(0, 1, (1, 4))), "a": Weights(rng.random((2, 3)))}
        form = LinearForm(domain, [Kronecker.of(domain, factors)])
        noise, periods = GaussianNoise("0.4"), Periods("when")
        check(form, domain, periods, noise)
        pricing = Measure(form, noise).price(Terms(facts(domain, periods)))
        moved = by_hand(pricing._form, domain, periods, 1)
        line = factors["when"].weights[0]
        for period, (_, squares) in moved.items():
            share = (line[period] / line.max()) ** 2
            short += share * pricing.guarantee.whole.shift_squared < squares
    assert short > 0


def test_days_that_a_question_does_not_ask_for_are_not_charged():
    first = date(2026, 5, 1)
    domain = Domain(
        Date("visited", first, first + timedelta(days=30)), Categorical("sex", ["F", "M"])
    )
    week = Between(first + timedelta(days=7), first + timedelta(days=13))
    periods = Periods("visited", days=1)
    setting, when = facts(domain, periods), domain["visited"]
    start = periods.number(when, 0)
    asked = Marginal("sex", where={"visited": week}, normalized=False)
    for query in (asked, Workload([asked, asked])):
        for noise in NOISES:
            guarantee = Measure(query.lower(domain), noise).price(Terms(setting)).guarantee
            assert [part[:2] for part in guarantee.parts] == [(start + 7, start + 13)]
    everything = Measure(Marginal("sex").lower(domain), NOISES[0]).price(Terms(setting)).guarantee
    assert [part[:2] for part in everything.parts] == [(start, start + 30)]


def test_sums_that_grow_with_time_cost_more_on_early_days():
    domain = Domain(Integer("when", 0, 4))
    form = LinearForm(domain, [Kronecker.of(domain, {"when": Prefix(5)})])
    pricing = Measure(form, NOISES[0]).price(Terms(facts(domain, Periods("when"))))
    assert charged(pricing.guarantee) == {0: 5, 1: 4, 2: 3, 3: 2, 4: 1}


def test_prices_by_period_are_of_measured_numbers_alone():
    """A gap has a rate, so that a row of a period where nothing weighs moves it, too."""
    domain = Domain(Integer("when", 0, 4), Integer("a", 0, 3))
    form = Marginal("a", where={"when": 0}, normalized=False).lower(domain)
    setting = Terms(facts(domain, Periods("when")))
    assert isinstance(Measure(form, NOISES[0]).price(setting).guarantee, GuaranteeByPeriod)
    gaps = GapForm(form, np.full(4, 0.25), np.zeros(4), absolute=False)
    chosen = Select(gaps, 1).price(setting).guarantee
    assert not isinstance(chosen, GuaranteeByPeriod)
