import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsdk.accounting import (
    bun_steinke_epsilon,
    bun_steinke_start,
    gaussian_claim,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_start,
)
from dpsdk.errors import InvalidArgument
from worlds import thinned

EXTREMES = [
    (Fraction(epsilon), Fraction(delta))
    for epsilon in ("1e-12", "1e-6", "0.01", "1", "30", "1e6")
    for delta in ("1e-300", "1e-30", "1e-6", "0.01", "0.5")
]


def real(value):
    return mpmath.mpf(value.numerator) / value.denominator


def log_delta_at(rho, epsilon, order):
    excess = order - 1
    return (
        excess * (order * rho - epsilon) + order * mpmath.log(excess / order) - mpmath.log(excess)
    )


def best_log_delta(rho, epsilon):
    """The smallest certified ln(delta), by a search of its own."""
    rho_, epsilon_ = real(rho), real(epsilon)

    def value(u):
        return log_delta_at(rho_, epsilon_, 1 + mpmath.e**u)

    best = min((mpmath.mpf(u) / 4 for u in range(-120, 480)), key=value)
    low, high = best - 0.25, best + 0.25
    for _ in range(60):
        left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
        if value(left) <= value(right):
            high = right
        else:
            low = left
    return value((low + high) / 2)


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(("epsilon", "delta"), thinned(EXTREMES, 2))
def test_the_start_is_certified_and_nearly_the_largest(epsilon, delta):
    with mpmath.workdps(80):
        rho = zcdp_start(epsilon, delta)
        assert rho > 0
        log_delta = mpmath.log(real(delta))
        assert best_log_delta(rho, epsilon) <= log_delta
        assert best_log_delta(rho * Fraction(1 + 10**-6), epsilon) > log_delta


@pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
def test_the_closed_start_is_rounded_down_and_tight(epsilon, delta):
    with mpmath.workdps(400):
        rho = real(bun_steinke_start(epsilon, delta))
        spent = rho + 2 * mpmath.sqrt(rho * mpmath.log(1 / real(delta)))
        assert spent <= real(epsilon)
        assert spent > real(epsilon) * (1 - mpmath.mpf(10) ** -90)


@given(st.floats(1e-9, 1e5), st.floats(1e-200, 0.9))
@settings(max_examples=40, deadline=None)
def test_epsilon_delta_and_start_are_inverse_within_rounding(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    back = zcdp_start(Fraction(epsilon), Fraction(delta))
    assert math.isclose(float(back), rho, rel_tol=1e-6) or epsilon == 0.0
    assert zcdp_delta(rho, epsilon) <= delta * (1 + 1e-6)


@pytest.mark.thorough
def test_epsilon_and_delta_are_upper_bounds_to_the_last_digit():
    with mpmath.workdps(60):
        for rho in (Fraction("1e-4"), Fraction("0.3"), Fraction(20)):
            epsilon = zcdp_epsilon(rho, 1e-6)
            assert best_log_delta(rho, Fraction(epsilon)) <= mpmath.log("1e-6")
            delta = zcdp_delta(rho, 2)
            assert delta == 1.0 or best_log_delta(rho, Fraction(2)) <= mpmath.log(delta)


def test_nothing_is_certified_without_delta_and_nothing_costs_nothing():
    assert zcdp_start(Fraction(1), Fraction(0)) == 0
    assert bun_steinke_start(Fraction(1), Fraction(0)) == 0
    assert zcdp_epsilon(0, 1e-6) == 0.0
    assert zcdp_delta(0, 0) == 0.0


def test_delta_is_never_above_one_and_epsilon_never_negative():
    assert zcdp_delta(1e9, 1) == 1.0
    assert zcdp_epsilon(1e-300, 0.5) == 0.0


def test_the_published_figures_hold():
    assert zcdp_epsilon(0.5, 1e-6) == pytest.approx(5.222, abs=5e-4)
    assert bun_steinke_epsilon(0.005, 1e-6) == pytest.approx(0.53065218, abs=1e-8)


def test_a_claim_for_a_gaussian_run_is_the_conversion():
    epsilon, delta = gaussian_claim(0.005, 1e-9)
    assert delta == Fraction(1, 10**9)
    assert epsilon == Fraction(zcdp_epsilon(0.005, 1e-9))


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: zcdp_epsilon(-1, 1e-6), "rho"),
        (lambda: zcdp_epsilon(1, 0), "delta"),
        (lambda: zcdp_delta(1, -1), "epsilon"),
        (lambda: zcdp_delta(float("nan"), 1), "rho"),
        (lambda: bun_steinke_epsilon(1, 1), "delta"),
    ],
)
def test_bad_parameters_are_named(call, parameter):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.parameter == parameter
