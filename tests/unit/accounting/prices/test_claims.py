"""The (ε, δ) of a single discrete Gaussian, against its exact δ."""

import math
from fractions import Fraction

import mpmath
import pytest

from dpsdk.accounting import (
    BasicComposition,
    Budget,
    DiscreteGaussianGuarantee,
    default_composition,
    gdp_start,
    zcdp_start,
)
from dpsdk.accounting.prices.claims import claim_holds, claim_rho
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import GaussianNoise
from dpsdk.mechanisms import Gaussian

PAIRS = [("1", "1e-6"), ("0.1", "1e-8"), ("3", "1e-3"), ("10", "1e-6"), ("0.01", "0.1")]


def exact_delta(variance, shift, epsilon):
    """The δ at ε of discrete Gaussian noise whose answer moves by so many steps."""
    with mpmath.workdps(40):
        size = mpmath.mpf(variance.numerator) / variance.denominator
        bound = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        reach = int(40 * mpmath.sqrt(size)) + shift
        weights = {z: mpmath.exp(-mpmath.mpf(z * z) / (2 * size)) for z in range(-reach, reach + 1)}
        total = mpmath.fsum(weights.values())
        zero = mpmath.mpf(0)
        excess = (
            weight - mpmath.exp(bound) * weights.get(z - shift, zero)
            for z, weight in weights.items()
        )
        return mpmath.fsum(max(zero, one) for one in excess) / total


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
@pytest.mark.parametrize("wider", [1, 3])
def test_the_largest_rho_of_a_claim_keeps_it(epsilon, delta, wider):
    size, chance = Fraction(epsilon), Fraction(delta)
    rho = claim_rho(size, chance)
    shift = 1
    while shift**2 < 64 * 2 * rho:
        shift += 1
    shift *= wider
    run = DiscreteGaussianGuarantee(shift**2 / (2 * rho), shift**2, shift, claim=(size, chance))
    assert run.rho == rho
    assert claim_holds(run)
    exact = exact_delta(run.variance, shift, size)
    assert exact <= mpmath.mpf(delta)


def test_it_is_the_sharpest_certificate_there_is():
    size, chance = Fraction(1), Fraction(1, 10**6)
    assert claim_rho(size, chance) > zcdp_start(size, chance) * Fraction("1.12")
    for epsilon, delta in PAIRS:
        pair = Fraction(epsilon), Fraction(delta)
        assert claim_rho(*pair) >= zcdp_start(*pair)
        assert claim_rho(*pair) >= gdp_start(*pair) / 2 * Fraction("0.94")


def test_narrow_noise_does_not_have_what_wide_noise_has():
    size, chance = Fraction(5), Fraction(1, 10**6)
    rho = claim_rho(size, chance)
    assert rho > zcdp_start(size, chance)
    narrow = DiscreteGaussianGuarantee(1 / (2 * rho), 1, 1, claim=(size, chance))
    assert not claim_holds(narrow)
    assert not claim_holds(DiscreteGaussianGuarantee(100, 1, 1))
    assert not claim_holds(DiscreteGaussianGuarantee(100, 1, 1, claim=(1, 0)))
    false = DiscreteGaussianGuarantee(100, 1, 1, claim=("0.1", "1e-6"))
    assert not claim_holds(false)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_a_session_by_default_admits_one_gaussian_of_its_budget(epsilon, delta):
    noise = Gaussian(epsilon=epsilon, delta=delta).noise
    shift = math.isqrt(math.ceil(128 * noise.rho)) + 1
    run = DiscreteGaussianGuarantee(shift**2 / (2 * noise.rho), shift**2, shift, noise.claim)
    for composition in (default_composition(), BasicComposition()):
        state = composition.begin(Budget(epsilon, delta))
        assert composition.charge(state, run) is not None


def test_a_claim_that_no_theorem_gives_is_refused():
    rho = claim_rho(Fraction(1), Fraction(1, 10**6))
    assert GaussianNoise(rho, (Fraction(1), Fraction(1, 10**6))).rho == rho
    with pytest.raises(InvalidArgument):
        GaussianNoise(rho * Fraction("1.01"), (Fraction(1), Fraction(1, 10**6)))
