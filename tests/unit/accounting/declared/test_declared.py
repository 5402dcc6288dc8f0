"""Runs that are fixed beforehand, bounds for any time, and noise that a plan can afford."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpsdk import Boolean, Domain, PrivateData
from dpsdk.accounting import (
    Anytime,
    ApproximateGuarantee,
    BasicComposition,
    Budget,
    Composition,
    DiscreteGaussianGuarantee,
    Odometer,
    PureGuarantee,
    State,
    ZCDPComposition,
    advanced_epsilon,
    calibrate,
    declare,
    default_composition,
    heterogeneous_epsilon,
    max_epsilon_for,
    optimal_epsilon,
    zcdp_epsilon,
    zcdp_rho,
)
from dpsdk.accounting.declared.calibration import calibrate_within, fits_all, largest
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import Kernel
from dpsdk.testing.noise import seeded
from mixtures import compositions


def randomised_response_delta(epsilon, each, count):
    """The exact delta at epsilon of this many randomised responses."""
    e0, bound = mpmath.mpf(each), mpmath.mpf(epsilon)
    p = 1 / (1 + mpmath.exp(-e0))
    total = mpmath.mpf(0)
    for flips in range(count + 1):
        loss = (count - 2 * flips) * e0
        if loss > bound:
            mass = mpmath.binomial(count, flips) * p ** (count - flips) * (1 - p) ** flips
            total += mass * (1 - mpmath.exp(bound - loss))
    return total


@pytest.mark.parametrize(
    ("each", "count", "delta"),
    [("0.1", 1, 1e-6), ("0.1", 100, 1e-6), ("1", 30, 1e-9), ("0.01", 400, 0.3), ("3", 5, 1e-3)],
)
def test_the_optimal_bound_is_exact_and_not_below(each, count, delta):
    epsilon = optimal_epsilon(each, count, delta)
    with mpmath.workdps(50):
        assert randomised_response_delta(epsilon, each, count) <= delta
        if epsilon:
            assert randomised_response_delta(epsilon * (1 - 1e-7), each, count) > delta


def tail_delta(epsilon, each, count):
    """The same for many runs, from the smallest loss above epsilon on, to fifteen digits."""
    e0, bound = mpmath.mpf(each), mpmath.mpf(epsilon)
    flips = int(mpmath.ceil((count - bound / e0) / 2)) - 1
    mass = mpmath.exp(
        mpmath.loggamma(count + 1)
        - mpmath.loggamma(flips + 1)
        - mpmath.loggamma(count - flips + 1)
        - flips * e0
        - count * mpmath.log1p(mpmath.exp(-e0))
    )
    total, ratio, above = mpmath.mpf(0), mpmath.exp(e0), 0
    while flips >= 0 and (above < 10 or mass > total * mpmath.mpf("1e-15")):
        total += mass * -mpmath.expm1(bound - (count - 2 * flips) * e0)
        mass *= ratio * flips / (count - flips + 1)
        flips, above = flips - 1, above + 1
    return total


@pytest.mark.thorough
@pytest.mark.parametrize(("each", "count"), [("0.001", 100_000), ("0.0001", 2_000_000)])
def test_the_optimal_bound_of_many_runs_is_not_below(each, count):
    epsilon = optimal_epsilon(each, count, 1e-6)
    with mpmath.workdps(30):
        found = tail_delta(epsilon, each, count)
        assert found <= mpmath.mpf("1e-6") <= found * (1 + mpmath.mpf("5e-8"))


def test_leaks_that_nearly_fill_delta_leave_what_is_left():
    epsilon = optimal_epsilon("0.1", 50, "1e-9", leak_each="1.9999999999e-11")
    with mpmath.workdps(50):
        kept = (1 - mpmath.mpf("1.9999999999e-11")) ** 50
        for found, sign in ((epsilon, 1), (epsilon * (1 - 1e-8), -1)):
            delta = 1 - kept * (1 - randomised_response_delta(found, "0.1", 50))
            assert sign * delta <= sign * mpmath.mpf("1e-9")
    assert epsilon == pytest.approx(4.999947, abs=1e-6)
    assert optimal_epsilon("0.1", 1, "1e-9", leak_each="1e-9") == pytest.approx(0.1, rel=1e-9)
    few = optimal_epsilon("0.01", 10**4, "1e-9", leak_each="0.99999e-13")
    assert optimal_epsilon("0.01", 10**4, "1e-9") < few < 100
    assert optimal_epsilon("0.01", 10**4, "1e-9", leak_each="1.01e-13") == math.inf


@pytest.mark.parametrize(
    ("each", "count", "delta", "leak_each", "low", "high"),
    [
        ("0.1", 5, "1e-400", 0, 0.5, 0.5),
        ("0.1", 5, Fraction(1, 10**3000), 0, 0.5, 0.5),
        ("1e-400", 5, "1e-6", 0, 0.0, 0.0),
        ("1e-400", 5, "1e-500", 0, 5e-324, 5e-324),
        ("1e-200", 5, "1e-250", 0, 5e-200, 5.1e-200),
        (10**400, 3, 0.1, 0, math.inf, math.inf),
        ("0.1", 5, "0.5", 1 - Fraction(1, 10**30), math.inf, math.inf),
        ("0.1", 10**5, "0.5", 1 - Fraction(1, 10**30), math.inf, math.inf),
        ("0.1", 5, 1 - Fraction(1, 10**20), 0, 0.0, 0.0),
    ],
)
def test_parameters_that_floats_cannot_hold_have_a_figure(each, count, delta, leak_each, low, high):
    assert low <= optimal_epsilon(each, count, delta, leak_each=leak_each) <= high


def test_the_other_theorems_take_any_delta():
    near_one = 1 - Fraction(1, 10**20)
    sizes = ["0.1"] * 5
    mean = 5 * 0.1 * math.tanh(0.05)
    root = math.sqrt(2 * 5 * 0.01)
    for delta, log in (("1e-400", 400 * math.log(10)), (near_one, 1e-20)):
        expected = mean + root * math.sqrt(log)
        assert advanced_epsilon("0.1", 5, delta) == pytest.approx(expected, rel=1e-10)
        assert heterogeneous_epsilon(sizes, delta) == pytest.approx(min(expected, 0.5), rel=1e-10)
    # By 1e-10, which the float of 1 - delta would have lost.
    assert heterogeneous_epsilon(sizes, near_one) > mean + root * 0.99e-10
    assert 0 < heterogeneous_epsilon(["1e-200"], "0.1") <= 1e-199
    assert heterogeneous_epsilon([10**400], "0.1") == math.inf
    assert advanced_epsilon(1000, 2, "0.1", "middle") == math.inf


@pytest.mark.parametrize("delta", ["1e-6", "1e-400", 1 - Fraction(1, 10**20)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**400), Fraction(1, 10), Fraction(10**400)])
def test_a_list_of_any_size_has_figures(epsilon, delta):
    runs = declare([PureGuarantee(epsilon)] * 3)
    assert set(runs.bounds(delta)) == {"basic", "zCDP", "heterogeneous", "optimal"}
    assert runs.epsilon(delta) >= 0


def test_leaks_count_within_delta():
    assert optimal_epsilon("0.1", 10, 1e-6, leak_each="1e-6") == math.inf
    assert optimal_epsilon("0.1", 10, 1e-6, leak_each="5e-8") > optimal_epsilon("0.1", 10, 1e-6)


def test_a_large_delta_leaves_nothing_to_pay():
    assert optimal_epsilon("0.01", 1, 0.5) == 0.0


def test_the_loose_form_is_refused_where_it_is_false():
    assert advanced_epsilon("1.2564", 10, 1e-6, "loose") > advanced_epsilon("1.2564", 10, 1e-6)
    with pytest.raises(InvalidArgument) as caught:
        advanced_epsilon("1.2565", 10, 1e-6, "loose")
    assert caught.value.parameter == "epsilon"
    assert advanced_epsilon("1.2565", 10, 1e-6, "middle") > advanced_epsilon("1.2565", 10, 1e-6)


def test_the_heterogeneous_bound_never_exceeds_the_plain_sum():
    assert heterogeneous_epsilon(["0.1", "0.2"], 1e-6) == pytest.approx(0.3, rel=1e-9)
    many = heterogeneous_epsilon(["0.01"] * 500 + ["0.02"] * 100, 1e-6)
    assert many < 500 * 0.01 + 100 * 0.02


def test_a_plan_takes_the_best_theorem_that_applies():
    pure = declare([PureGuarantee("0.1")] * 100)
    assert set(pure.bounds(1e-6)) == {"basic", "zCDP", "heterogeneous", "optimal"}
    assert pure.epsilon(1e-6) == optimal_epsilon("0.1", 100, 1e-6)
    mixed = declare([PureGuarantee("0.1"), DiscreteGaussianGuarantee(100, 1, 1)])
    assert set(mixed.bounds(1e-6)) == {"zCDP"}
    assert declare([PureGuarantee("0.1")] * 3).bounds(1e-6)["basic"] == pytest.approx(0.3)


def test_a_plan_pays_leaks_out_of_delta():
    leaking = declare([ApproximateGuarantee("0.1", "1e-7")] * 10)
    assert set(leaking.bounds(1e-6)) == {"basic"}
    assert leaking.bounds(5e-7) == {}
    assert leaking.epsilon(5e-7) == math.inf
    assert leaking.epsilon(2e-6) >= declare([PureGuarantee("0.1")] * 10).epsilon(1e-6)


def test_a_plan_is_no_filter():
    assert not isinstance(declare([]), Composition)


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: advanced_epsilon(0, 1, 0.1), "epsilon"),
        (lambda: advanced_epsilon(1, 0, 0.1), "count"),
        (lambda: advanced_epsilon(1, 1, 0), "delta"),
        (lambda: heterogeneous_epsilon([-1], 0.1), "epsilons"),
        (lambda: optimal_epsilon(1, 1, 0.1, leak_each=1), "leak_each"),
        (lambda: declare([PureGuarantee(Fraction(1))]).epsilon(0), "delta"),
        (lambda: Anytime(0, 1), "delta"),
        (lambda: Anytime(0.1, 0), "around"),
        (lambda: Anytime(0.1, 1).epsilon(-1), "rho"),
    ],
)
def test_bad_parameters_are_named(call, parameter):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.parameter == parameter


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


ALL = list(compositions(order=12).values())
NEARLY = Fraction("1.0001")


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("composition", ALL)
@pytest.mark.parametrize("count", [1, 7, 200])
def test_the_largest_epsilon_for_a_count_fits_and_is_nearly_the_largest(composition, count):
    state = composition.begin(Budget(3, 1e-6))
    epsilon = max_epsilon_for(composition, state, count)
    assert fits_all(composition, state, [PureGuarantee(epsilon)] * count)
    assert not fits_all(composition, state, [PureGuarantee(epsilon * NEARLY)] * count)


def test_equal_parts_of_a_plain_budget_are_exact():
    composition = BasicComposition()
    assert max_epsilon_for(composition, composition.begin(Budget(1)), 7) == Fraction(1, 7)


@pytest.mark.parametrize("composition", ALL)
def test_a_whole_plan_is_scaled_to_fit(composition):
    spent = composition.charge(composition.begin(Budget(3, 1e-6)), PureGuarantee("0.1"))
    assert spent is not None

    def given(scale):
        return [PureGuarantee(scale * 9 / 10), *[PureGuarantee(scale / 100)] * 10]

    scale = calibrate(composition, spent, given)
    assert scale > 0
    assert fits_all(composition, spent, given(scale))
    assert not fits_all(composition, spent, given(scale * NEARLY))


def test_noise_is_calibrated_as_well_as_epsilon():
    composition = ZCDPComposition()
    state = composition.begin(Budget(1, 1e-6))

    def given(scale):
        return [DiscreteGaussianGuarantee(1 / scale, 1, 1)] * 10

    scale = calibrate(composition, state, given)
    assert scale == pytest.approx(float(composition.largest_rho(state)) / 5, rel=1e-6)


def test_nothing_fits_an_empty_budget():
    composition = ZCDPComposition()
    state = composition.begin(Budget(1, 1e-6))
    assert max_epsilon_for(composition, State(state.limit, state.limit), 3) == 0
    assert largest(lambda _: False, Fraction(1)) == 0


def test_bad_counts_are_named():
    composition = BasicComposition()
    for count in (0, -1, 1.5):
        with pytest.raises(InvalidArgument) as caught:
            max_epsilon_for(composition, composition.begin(Budget(1)), count)
        assert caught.value.parameter == "count"


@pytest.mark.parametrize("composition", ALL)
def test_a_plan_never_costs_more_than_its_total(composition):
    def given(scale):
        return [PureGuarantee(scale / 2), *[PureGuarantee(scale / 20)] * 10]

    for total in (Budget(2, 1e-6), Budget("3.3", 1e-9)):
        scale = calibrate_within(composition, total, given)
        start = composition.begin(total)
        assert fits_all(composition, start, given(scale))
        assert not fits_all(composition, start, given(scale * NEARLY))


def test_equal_halves_of_a_total_are_exact():
    def halves(scale):
        return [PureGuarantee(scale / 2)] * 2

    assert calibrate_within(BasicComposition(), Budget("0.3"), halves) == Fraction(3, 10)

    def gaussians(scale):
        return [DiscreteGaussianGuarantee(3 / (2 * scale), 1, 1)] * 3

    assert calibrate_within(BasicComposition(), Fraction(3, 100), gaussians) == Fraction(3, 100)


def test_a_total_of_rho_allows_no_leaks():
    def leaky(scale):
        return [PureGuarantee(scale), ApproximateGuarantee(scale, "1e-9")]

    assert calibrate_within(ZCDPComposition(), Fraction(1, 10), leaky) == 0


def test_the_kernel_calibrates_and_allows_within_its_composition():
    domain = Domain(Boolean("member"))
    data = PrivateData.from_columns({"member": [True, False]}, domain)
    odometer = Odometer(Budget(1, 1e-6), default_composition())
    kernel = Kernel(data, odometer, seeded(1), "test")

    def given(scale):
        return [PureGuarantee(scale / 5)] * 5

    scale = kernel.calibrate(given, Budget("0.4"))
    assert scale == Fraction(2, 5)
    assert odometer.spent.charges == 0
    assert kernel.allowance(given(scale)).left == 5
    assert odometer.spent.epsilon == Fraction(2, 5)
    rho = kernel.calibrate(given, rho="0.01")
    assert sum(map(zcdp_rho, given(rho))) <= Fraction(1, 100)
    assert sum(map(zcdp_rho, given(rho * NEARLY))) > Fraction(1, 100)
    for wrong in ({}, {"rho": -1}):
        with pytest.raises(InvalidArgument):
            kernel.calibrate(given, **wrong)
    with pytest.raises(InvalidArgument, match="total"):
        kernel.calibrate(given, Budget(1), rho=1)
    with pytest.raises(InvalidArgument, match="a Budget"):
        kernel.calibrate(given, (1, 1e-6))
