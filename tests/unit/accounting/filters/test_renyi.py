from fractions import Fraction

import mpmath
import pytest

from dpsdk.accounting import (
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    PureGuarantee,
    RenyiComposition,
    ZCDPComposition,
    renyi_divergence,
    renyi_start,
)
from dpsdk.errors import InvalidArgument

mpf = mpmath.mpf


def real(value):
    return mpf(value.numerator) / value.denominator


@pytest.mark.thorough(quick=14)
@pytest.mark.parametrize("epsilon", ["1e-20", "0.01", "1", "30", "2000"])
@pytest.mark.parametrize("order", ["1.0001", "2", "7/3", "1000"])
def test_the_divergence_of_randomised_response_is_bounded_tightly(epsilon, order):
    size, a = Fraction(epsilon), Fraction(order)
    with mpmath.workdps(2500):
        e, b = real(size), real(a)
        exact = mpmath.log(mpmath.cosh((b - mpf("0.5")) * e) / mpmath.cosh(e / 2)) / (b - 1)
        bound = real(renyi_divergence(PureGuarantee(size), a))
        assert exact <= bound <= exact * (1 + mpf("1e-15"))


def test_other_laws_take_the_order_times_rho():
    assert renyi_divergence(DiscreteGaussianGuarantee(50, 1, 1), Fraction(3)) == Fraction(3, 100)
    bounded = renyi_divergence(BoundedRangeGuarantee("0.2"), Fraction(2))
    assert bounded == pytest.approx(2 * 0.04 / 8, rel=1e-3)


@pytest.mark.parametrize("order", ["1.5", "7/3", "40"])
def test_the_start_is_certified_and_tight(order):
    a = Fraction(order)
    start = renyi_start(Fraction(1), Fraction("1e-6"), a)
    with mpmath.workdps(60):
        b = real(a)
        exact = 1 + (mpmath.log(mpf("1e-6")) + b * mpmath.log(b / (b - 1)) + mpmath.log(b - 1)) / (
            b - 1
        )
        assert real(start) <= max(exact, 0)
        assert real(start) >= exact - mpf("1e-50")


def test_it_beats_concentrated_composition_for_few_large_bounded_runs():
    budget, run = Budget(20, 1e-6), PureGuarantee(3)
    renyi, concentrated = RenyiComposition(4), ZCDPComposition()
    first = renyi.capacity(renyi.begin(budget), run)
    second = concentrated.capacity(concentrated.begin(budget), run)
    assert first > second > 0


def test_the_largest_requests_fit_and_hardly_larger_ones_do_not():
    composition = RenyiComposition("12.5", leak_share="0.1")
    state = composition.begin(Budget(5, 1e-6))
    epsilon = composition.largest_epsilon(state)
    assert composition.charge(state, PureGuarantee(epsilon)) is not None
    assert composition.charge(state, PureGuarantee(epsilon * Fraction("1.00001"))) is None
    rho = composition.largest_rho(state)
    assert composition.charge(state, DiscreteGaussianGuarantee(1 / (2 * rho), 1, 1)) is not None


@pytest.mark.parametrize("order", [1, 0, -2, float("inf")])
def test_the_order_must_be_above_one(order):
    with pytest.raises(InvalidArgument) as caught:
        RenyiComposition(order)
    assert caught.value.parameter == "order"
