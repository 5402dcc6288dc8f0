from fractions import Fraction

import pytest

from dpsdk.accounting import (
    AdvancedComposition,
    BasicComposition,
    Budget,
    Composition,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    PureGuarantee,
    RenyiComposition,
    ZCDPComposition,
    calibrate,
    default_composition,
    max_epsilon_for,
)
from dpsdk.accounting.calibration import fits_all, largest
from dpsdk.errors import InvalidArgument

ALL: list[Composition] = [
    BasicComposition(),
    AdvancedComposition(),
    ZCDPComposition(),
    EnvelopeComposition(),
    RenyiComposition(12),
    default_composition(),
]
NEARLY = Fraction("1.0001")


@pytest.mark.parametrize("composition", ALL)
@pytest.mark.parametrize("count", [1, 7, 200])
def test_the_largest_epsilon_for_a_count_fits_and_is_nearly_the_largest(
    composition: Composition, count: int
):
    state = composition.begin(Budget(3, 1e-6))
    epsilon = max_epsilon_for(composition, state, count)
    assert fits_all(composition, state, [PureGuarantee(epsilon)] * count)
    assert not fits_all(composition, state, [PureGuarantee(epsilon * NEARLY)] * count)


def test_equal_parts_of_a_plain_budget_are_exact():
    composition = BasicComposition()
    assert max_epsilon_for(composition, composition.begin(Budget(1)), 7) == Fraction(1, 7)


@pytest.mark.parametrize("composition", ALL)
def test_a_whole_plan_is_scaled_to_fit(composition: Composition):
    spent = composition.charge(composition.begin(Budget(3, 1e-6)), PureGuarantee("0.1"))
    assert spent is not None

    def planned(scale: Fraction) -> list[PureGuarantee]:
        return [PureGuarantee(scale * 9 / 10), *[PureGuarantee(scale / 100)] * 10]

    scale = calibrate(composition, spent, planned)
    assert scale > 0
    assert fits_all(composition, spent, planned(scale))
    assert not fits_all(composition, spent, planned(scale * NEARLY))


def test_noise_is_calibrated_as_well_as_epsilon():
    composition = ZCDPComposition()
    state = composition.begin(Budget(1, 1e-6))

    def planned(scale: Fraction) -> list[DiscreteGaussianGuarantee]:
        return [DiscreteGaussianGuarantee(1 / scale, 1, 1)] * 10

    scale = calibrate(composition, state, planned)
    assert scale == pytest.approx(float(composition.largest_rho(state)) / 5, rel=1e-6)


def test_nothing_fits_an_empty_budget():
    composition = ZCDPComposition()
    assert max_epsilon_for(composition, composition.begin(Budget(1)), 3) == 0
    assert largest(lambda _: False, Fraction(1)) == 0


def test_bad_counts_are_named():
    composition = BasicComposition()
    for count in (0, -1, 1.5):
        with pytest.raises(InvalidArgument) as caught:
            max_epsilon_for(composition, composition.begin(Budget(1)), count)
        assert caught.value.parameter == "count"
