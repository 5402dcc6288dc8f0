"""Public figures hold for numbers of any length, and for sums of very many of them."""

import re
from fractions import Fraction

import pytest

from dpsdk.accounting import (
    AnyOf,
    Anytime,
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Odometer,
    PureGuarantee,
    RenyiComposition,
    ZCDPComposition,
    declare,
)
from dpsdk.errors import BudgetExceeded
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Watching

LONG = Fraction(2**40_000 + 1, 3**900)
SMALL = Fraction(3**900, 2**40_000 + 1)

VALUES = [
    PureGuarantee(LONG),
    DiscreteLaplaceGuarantee(LONG, 1),
    DiscreteGaussianGuarantee(LONG, 1, 1, (LONG, SMALL)),
    BoundedRangeGuarantee(LONG),
    ApproximateGuarantee(LONG, SMALL),
    Anytime(SMALL, LONG),
    ZCDPComposition(SMALL),
    RenyiComposition(LONG, SMALL),
    AnyOf((BasicComposition(), ZCDPComposition()), (LONG, SMALL), SMALL),
    LaplaceNoise(LONG),
    GaussianNoise(LONG),
    Watching(LONG, SMALL),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda one: type(one).__name__)
def test_a_repr_never_raises_however_long_the_numbers_are(value):
    assert repr(value).startswith(type(value).__name__)
    assert len(repr(value)) < 2_000


def test_a_sum_of_very_many_different_amounts_is_kept_on_the_grid():
    # Sums of unrounded fractions of so many denominators would have hundreds of thousands of bits.
    runs = [DiscreteLaplaceGuarantee(Fraction(10**9, 10_007 + 2 * n), 1) for n in range(20_000)]
    found = declare(runs).bounds("1e-6")
    exact = sum(10_007 + 2 * n for n in range(20_000)) / 10**9
    assert found["basic"] == pytest.approx(exact, rel=1e-12)
    assert found["basic"] >= exact
    assert found["zCDP"] < found["basic"]
    odd = [PureGuarantee(Fraction(1, 10_007 + 2 * n)) for n in range(1_000)]
    assert declare(odd).bounds("1e-6")["basic"] == pytest.approx(
        sum(map(float, (one.epsilon for one in odd)))
    )


def test_readings_hold_after_many_charges_of_different_amounts():
    odometer = Odometer(Budget(1000, "1e-5"))
    runs = [DiscreteLaplaceGuarantee(Fraction(1, Fraction(1 + n, 10**4)), 1) for n in range(500)]
    odometer.charge_all(
        [*runs, *[PureGuarantee(Fraction(1, 10_007 + 2 * n)) for n in range(500)]], "x"
    )
    readings = odometer.readings("1e-6")
    assert 0 < readings.declared <= readings.level


@pytest.mark.thorough
def test_every_public_figure_holds_after_a_hundred_thousand_different_amounts():
    odometer = Odometer(Budget(10**6, "1e-5"))
    runs = [PureGuarantee(Fraction(1, 10_007 + 2 * n)) for n in range(100_000)]
    odometer.charge_all(runs, "x")
    assert odometer.spent.charges == 100_000
    total = sum(float(run.epsilon) for run in runs)
    assert float(odometer.spent.epsilon) == pytest.approx(total)
    assert odometer.remaining.epsilon > 0
    assert odometer.readings("1e-6").level > 0
    assert odometer.affords(PureGuarantee(1)) > 0
    assert len(str(odometer)) < 1000


@pytest.mark.parametrize("asked", [Fraction(1, 3), Fraction(1, 7)])
def test_a_refusal_tells_the_asked_from_the_left(asked):
    odometer = Odometer(Budget(asked), BasicComposition())
    more = asked + Fraction(1, 10**30)
    with pytest.raises(BudgetExceeded) as caught:
        odometer.charge(PureGuarantee(more), "x")
    text = str(caught.value)
    told, left = re.findall(r"epsilon (?:up to )?([\d.]+)", text)
    assert Fraction(told) > Fraction(left)
