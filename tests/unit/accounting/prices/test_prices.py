"""What runs cost: the notions turned into each other, each law by its own rule, and claims."""

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsdk.accounting import (
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
    bun_steinke_epsilon,
    bun_steinke_start,
    default_composition,
    gaussian_claim,
    gdp_delta,
    gdp_epsilon,
    gdp_start,
    leak,
    pure_epsilon,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
    zcdp_start,
)
from dpsdk.accounting.prices import gdp
from dpsdk.accounting.prices.claims import claim_holds, claim_rho
from dpsdk.accounting.prices.gdp import mills, randomised_response_mu_squared
from dpsdk.accounting.prices.run import bounded_range_rho, pure_rho
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.kernel import GaussianNoise
from dpsdk.mechanisms import Gaussian
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


mpf = mpmath.mpf


def gaussian_delta(epsilon, mu):
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
def test_the_start_of_a_gaussian_is_certified_and_nearly_the_largest(epsilon, delta):
    bound, goal = Fraction(epsilon), Fraction(delta)
    square = gdp_start(bound, goal)
    assert square >= 2 * zcdp_start(bound, goal) > 0
    with mpmath.workdps(400):
        mu = mpmath.sqrt(mpf(square.numerator) / square.denominator)
        allowed = mpf(goal.numerator) / goal.denominator
        assert gaussian_delta(bound, mu) <= allowed
        assert gaussian_delta(bound, mu * (1 + mpf("1e-12"))) > allowed


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
            exact = gaussian_delta(Fraction(epsilon), mpf(mu))
            assert exact <= mpf(gdp_delta(mu, epsilon)) <= exact * (1 + mpf("1e-15"))
        epsilon_up = gdp_epsilon(2, 1e-6)
        assert gaussian_delta(Fraction(epsilon_up), mpf(2)) <= mpf("1e-6")
        assert gaussian_delta(Fraction(epsilon_up) * Fraction("0.999999999"), mpf(2)) > mpf("1e-6")
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


SIZES = [
    Fraction(text)
    for text in ("1e-40", "1e-16", "1e-9", "0.001", "0.1", "1", "2.5", "10", "60", "999", "1e4")
]


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
