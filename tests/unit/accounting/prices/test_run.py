from fractions import Fraction

import mpmath
import pytest

from dpsdk.accounting import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
    leak,
    pure_epsilon,
    zcdp_rho,
)
from dpsdk.accounting.prices.run import bounded_range_rho, pure_rho
from dpsdk.errors import UnsupportedGuarantee

SIZES = [
    Fraction(text)
    for text in ("1e-40", "1e-16", "1e-9", "0.001", "0.1", "1", "2.5", "10", "60", "999", "1e4")
]


def real(value):
    return mpmath.mpf(value.numerator) / value.denominator


@pytest.mark.parametrize("epsilon", SIZES)
def test_the_rho_of_pure_runs_is_an_upper_bound_and_tight(epsilon):
    # The bound of a tiny ε is exact to some 2000 digits.
    with mpmath.workdps(2500):
        exact = real(epsilon) * mpmath.tanh(real(epsilon) / 2)
        bound = real(pure_rho(epsilon))
        assert exact <= bound <= exact * (1 + mpmath.mpf("1e-4"))
        if epsilon <= 3:
            assert bound <= exact * (1 + mpmath.mpf("1e-20"))


@pytest.mark.parametrize("eta", SIZES)
def test_the_rho_of_bounded_range_is_an_upper_bound_and_tight(eta):
    with mpmath.workdps(200):
        x = real(eta) / mpmath.expm1(real(eta))
        exact = x - 1 - mpmath.log(x)
        bound = real(Fraction(*bounded_range_rho(eta)))
        assert exact <= bound <= min(real(eta) ** 2 / 8, real(eta))
        if eta <= Fraction("4.7"):
            assert bound <= exact * (1 + mpmath.mpf("1e-15"))


def worst_divergence(eta, order):
    """The largest divergence of two-point losses t and t - eta, over all t."""

    def moment(t):
        up = (mpmath.exp(width) - mpmath.exp(t)) * mpmath.exp((a - 1) * t)
        down = (mpmath.exp(t) - 1) * mpmath.exp((a - 1) * (t - width))
        return mpmath.log((up + down) / mpmath.expm1(width)) / (a - 1)

    width, a = real(eta), mpmath.mpf(order)
    return max(moment(width * step / 300) for step in range(301))


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("eta", ["0.3", "2", "4.7", "4.71", "7", "20"])
def test_the_rho_of_bounded_range_covers_every_order(eta):
    size = Fraction(eta)
    with mpmath.workdps(40):
        for order in ("1.001", "1.2", "2", "5", "40"):
            rho = real(Fraction(*bounded_range_rho(size)))
            assert worst_divergence(size, order) <= mpmath.mpf(order) * rho


def test_beyond_its_proof_the_rho_of_bounded_range_is_one_that_is_proven():
    for eta in (Fraction("4.71"), Fraction(6), Fraction(30)):
        assert Fraction(*bounded_range_rho(eta)) == min(eta * eta / 8, pure_rho(eta))


def test_each_law_is_charged_by_its_own_rule():
    assert zcdp_rho(DiscreteGaussianGuarantee(50, 2, 1)) == Fraction(1, 50)
    laplace = DiscreteLaplaceGuarantee(10, 1)
    assert zcdp_rho(laplace) == zcdp_rho(PureGuarantee(0.1)) == pure_rho(Fraction(1, 10))
    assert pure_epsilon(laplace) == pure_epsilon(BoundedRangeGuarantee(0.1)) == Fraction(1, 10)
    assert pure_epsilon(DiscreteGaussianGuarantee(50, 2, 1)) is None
    approximate = ApproximateGuarantee(0.1, 1e-9)
    assert zcdp_rho(approximate) == pure_rho(Fraction(1, 10))
    assert leak(approximate) == Fraction(1, 10**9)
    assert leak(laplace) == 0


def test_free_runs_cost_nothing():
    free = DiscreteGaussianGuarantee(0, 0, 0)
    assert zcdp_rho(free) == 0
    assert pure_epsilon(free) == 0
    assert zcdp_rho(PureGuarantee(0)) == 0
    assert zcdp_rho(BoundedRangeGuarantee(0)) == 0


def test_a_guarantee_without_a_theorem_is_refused():
    class Unknown(Guarantee):
        @property
        def free(self):
            return False

        def __str__(self):
            return "a stranger"

    with pytest.raises(UnsupportedGuarantee) as caught:
        zcdp_rho(Unknown())
    assert caught.value.guarantee == "Unknown"
