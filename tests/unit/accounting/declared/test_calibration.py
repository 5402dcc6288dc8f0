from fractions import Fraction

import pytest

from dpsdk import Boolean, Domain, PrivateData
from dpsdk.accounting import (
    AdvancedComposition,
    ApproximateGuarantee,
    BasicComposition,
    Budget,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    Odometer,
    PureGuarantee,
    RenyiComposition,
    State,
    ZCDPComposition,
    calibrate,
    default_composition,
    max_epsilon_for,
    zcdp_rho,
)
from dpsdk.accounting.declared.calibration import calibrate_within, fits_all, largest
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import Kernel
from dpsdk.testing.noise import seeded

ALL = [
    BasicComposition(),
    AdvancedComposition(),
    ZCDPComposition(),
    EnvelopeComposition(),
    RenyiComposition(12),
    default_composition(),
]
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
