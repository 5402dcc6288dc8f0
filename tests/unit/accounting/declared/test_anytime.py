from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpsdk.accounting import (
    Anytime,
    ApproximateGuarantee,
    Budget,
    Odometer,
    PureGuarantee,
    default_composition,
    zcdp_epsilon,
)
from dpsdk.errors import InvalidArgument


def test_a_random_walk_of_losses_hardly_ever_crosses_the_bound():
    # Gaussian runs: each loss is normal with mean rho and variance 2 rho.
    bound = Anytime(delta="0.01", around="0.1")
    rho, steps, walks = 0.002, 200, 4000
    noise = np.random.default_rng(5).normal(rho, np.sqrt(2 * rho), size=(walks, steps))
    limits = np.array([bound.epsilon(rho * (step + 1)) for step in range(steps)])
    crossed = (np.cumsum(noise, axis=1) > limits).any(axis=1).mean()
    assert 0.0005 < crossed <= 0.01


def test_it_costs_more_than_a_figure_for_one_moment():
    bound = Anytime(delta=1e-6, around="0.025")
    assert bound.epsilon("0.025") > zcdp_epsilon("0.025", 1e-6)
    assert bound.epsilon("0.025") == pytest.approx(1.263, abs=1e-3)
    assert bound.epsilon(0) == 0.0


def test_an_odometer_reads_it_beside_the_filter():
    odometer = Odometer(
        Budget(5, 1e-6), default_composition("0.1"), Anytime(delta=1e-6, around="0.3")
    )
    odometer.charge_all([PureGuarantee("0.1")] * 30, "runs")
    readings = odometer.readings(1e-6)
    assert readings.always == odometer.budget
    assert readings.anytime is not None
    assert readings.declared < readings.level < readings.anytime < 5
    assert repr(readings).startswith("Readings(always (5, 1e-6)-DP; anytime epsilon 3.")
    odometer.charge(ApproximateGuarantee("0.01", "1e-9"), "leaking")
    assert odometer.readings(1e-6).anytime is None


@pytest.mark.parametrize("around", ["1e-330", "0.1", "1e330"])
@pytest.mark.parametrize("delta", ["1e-330", "1e-310", "0.01"])
@pytest.mark.parametrize("rho", ["1e-340", "0.002", "1e300"])
def test_the_bound_is_rounded_up_for_every_parameter(delta, around, rho):
    found = Anytime(delta, around).epsilon(rho)
    with mpmath.workdps(60):
        v, g = 2 * mpmath.mpf(rho), 2 * mpmath.mpf(around) / 31
        log = mpmath.log(mpmath.mpf("0.5") + mpmath.sqrt((v + g) / g) / (2 * mpmath.mpf(delta)))
        exact = v / 2 + mpmath.sqrt(2 * (v + g) * log)
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-15")) + mpmath.mpf("1e-323")


def test_a_tiny_run_can_be_read():
    odometer = Odometer(Budget(1, 1e-6), default_composition(), Anytime("1e-400", "1e-330"))
    odometer.charge(PureGuarantee(Fraction(1, 10**400)), "tiny")
    for delta in ("1e-6", "1e-400", 1 - Fraction(1, 10**20)):
        readings = odometer.readings(delta)
        assert readings.declared <= readings.level <= 1e-30
        assert readings.anytime is not None


def test_nothing_is_read_where_no_bound_was_fixed():
    assert Odometer(Budget(1, 1e-6), default_composition()).readings(1e-6).anytime is None


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: Anytime(0, 1), "delta"),
        (lambda: Anytime(0.1, 0), "around"),
        (lambda: Anytime(0.1, 1).epsilon(-1), "rho"),
    ],
)
def test_bad_parameters_are_named(call, parameter):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.parameter == parameter
