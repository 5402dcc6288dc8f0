from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from dpsdk.accounting import gdp_delta, gdp_epsilon, gdp_start, zcdp_start
from dpsdk.accounting.prices import gdp
from dpsdk.accounting.prices.gdp import mills, randomised_response_mu_squared
from dpsdk.errors import InvalidArgument

mpf = mpmath.mpf


def exact_delta(epsilon, mu):
    bound = mpf(epsilon.numerator) / epsilon.denominator
    return mpmath.ncdf(mu / 2 - bound / mu) - mpmath.exp(bound) * mpmath.ncdf(-mu / 2 - bound / mu)


@pytest.mark.parametrize(
    "t", ["-20", "-0.3", "0", "1e-20", "3", "11.99", "12", "12.01", "40", "900"]
)
def test_mills_ratio_is_enclosed_to_many_digits(t):
    low, high = mills(Decimal(t))
    with mpmath.workdps(150):
        exact = mpmath.ncdf(-mpf(t)) / mpmath.npdf(mpf(t))
        assert mpf(str(low)) <= exact <= mpf(str(high))
        assert mpf(str(high)) / mpf(str(low)) - 1 < mpf("1e-50")


@pytest.mark.thorough(quick=4)
@pytest.mark.parametrize("epsilon", ["1e-12", "1e-3", "1", "30", "1e6"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-30", "1e-6", "0.5"])
def test_the_start_is_certified_and_nearly_the_largest(epsilon, delta):
    bound, goal = Fraction(epsilon), Fraction(delta)
    square = gdp_start(bound, goal)
    assert square >= 2 * zcdp_start(bound, goal) > 0
    with mpmath.workdps(400):
        mu = mpmath.sqrt(mpf(square.numerator) / square.denominator)
        allowed = mpf(goal.numerator) / goal.denominator
        assert exact_delta(bound, mu) <= allowed
        assert exact_delta(bound, mu * (1 + mpf("1e-12"))) > allowed


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(2, 7)])
def test_the_start_is_certified_at_no_more_than_epsilon(epsilon, monkeypatch):
    asked = []
    bound = gdp._delta_up

    def seen(target, mu):
        asked.append(target)
        return bound(target, mu)

    monkeypatch.setattr(gdp, "_delta_up", seen)
    gdp._gdp_start.__wrapped__(epsilon, Fraction(1, 10**6))
    assert asked
    assert max(map(Fraction, asked)) <= epsilon


def test_no_start_without_delta():
    assert gdp_start(Fraction(1), Fraction(0)) == 0


def test_figures_are_upper_bounds_and_tight():
    with mpmath.workdps(60):
        for mu, epsilon in ((1, "4.88"), (2, "0.5"), ("0.05", "0.1")):
            exact = exact_delta(Fraction(epsilon), mpf(mu))
            assert exact <= mpf(gdp_delta(mu, epsilon)) <= exact * (1 + mpf("1e-15"))
        epsilon_up = gdp_epsilon(2, 1e-6)
        assert exact_delta(Fraction(epsilon_up), mpf(2)) <= mpf("1e-6")
        assert exact_delta(Fraction(epsilon_up) * Fraction("0.999999999"), mpf(2)) > mpf("1e-6")
    assert gdp_epsilon("1e-9", "0.1") == 0.0


@pytest.mark.parametrize("epsilon", ["1e-30", "1e-3", "0.1", "1", "20", "500", "700"])
def test_the_corner_of_randomised_response_is_covered(epsilon):
    square = randomised_response_mu_squared(Fraction(epsilon))
    with mpmath.workdps(700):
        half = mpmath.sqrt(mpf(square.numerator) / square.denominator) / 2
        assert mpmath.ncdf(-half) <= 1 / (1 + mpmath.exp(mpf(epsilon)))
        if Fraction(1, 10**9) < Fraction(epsilon) < 600:
            smaller = half * (1 - mpf("1e-5"))
            assert mpmath.ncdf(-smaller) > 1 / (1 + mpmath.exp(mpf(epsilon)))


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: gdp_delta(0, 1), "mu"),
        (lambda: gdp_delta(1, -1), "epsilon"),
        (lambda: gdp_epsilon(-1, 0.1), "mu"),
        (lambda: gdp_epsilon(1, 0), "delta"),
    ],
)
def test_bad_parameters_are_named(call, parameter):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.parameter == parameter
