from fractions import Fraction

import attrs
import pytest

from dpsdk.accounting import (
    AdvancedComposition,
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    MixedComposition,
    Odometer,
    PureGuarantee,
    RenyiComposition,
    ZCDPComposition,
    declare,
    default_composition,
    leak,
    pure_epsilon,
    zcdp_rho,
)
from dpsdk.accounting.guarantee import check_guarantee
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee


def test_equal_laws_are_equal_and_hash_alike():
    first, second = PureGuarantee(0.1), PureGuarantee("0.1")
    assert first == second
    assert hash(first) == hash(second)
    assert first != BoundedRangeGuarantee(0.1)


def test_numbers_are_exact_fractions():
    assert PureGuarantee(0.1).epsilon == Fraction(1, 10)
    assert DiscreteLaplaceGuarantee(Fraction(7, 3), 5).epsilon == Fraction(15, 7)
    assert DiscreteGaussianGuarantee(50, 2, 1).rho == Fraction(1, 50)


def test_shown_short_with_the_notion_that_it_carries():
    assert str(PureGuarantee(0.1)) == "0.1-DP"
    assert str(DiscreteLaplaceGuarantee(10, 1)) == "0.1-DP, discrete Laplace"
    assert str(DiscreteGaussianGuarantee(100, 1, 1)) == "0.005-zCDP, discrete Gaussian"
    assert str(BoundedRangeGuarantee(1)) == "1-DP, bounded range"
    assert str(ApproximateGuarantee(1, 1e-6)) == "(1, 1e-6)-DP"


@pytest.mark.parametrize(
    ("guarantee", "free"),
    [
        (PureGuarantee(0), True),
        (PureGuarantee("1e-40"), False),
        (DiscreteLaplaceGuarantee(0, 0), True),
        (DiscreteLaplaceGuarantee(3, 0), True),
        (DiscreteLaplaceGuarantee(3, 1), False),
        (DiscreteGaussianGuarantee(0, 0, 0), True),
        (DiscreteGaussianGuarantee(9, 1, 1), False),
        (BoundedRangeGuarantee(0), True),
        (BoundedRangeGuarantee(1), False),
        (ApproximateGuarantee(0, 0), True),
        (ApproximateGuarantee(0, "1e-30"), False),
    ],
)
def test_free_exactly_where_nothing_is_told(guarantee, free):
    assert guarantee.free is free


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: PureGuarantee(-1), "epsilon"),
        (lambda: PureGuarantee(float("nan")), "epsilon"),
        (lambda: PureGuarantee(float("inf")), "epsilon"),
        (lambda: ApproximateGuarantee(1, 1), "delta"),
        (lambda: ApproximateGuarantee(1, -0.1), "delta"),
        (lambda: DiscreteLaplaceGuarantee(0, 1), "scale"),
        (lambda: DiscreteLaplaceGuarantee(1, -1), "shift"),
        (lambda: DiscreteLaplaceGuarantee(1, 1.5), "shift"),
        (lambda: DiscreteGaussianGuarantee(0, 1, 1), "variance"),
        (lambda: DiscreteGaussianGuarantee(1, 4, 3), "shift_max"),
        (lambda: DiscreteGaussianGuarantee(1, 4, 0), "shift_max"),
        (lambda: DiscreteGaussianGuarantee(1, 0, 1), "shift_max"),
        (lambda: DiscreteGaussianGuarantee(1, 1, 1, (-1, 0)), "claim"),
        (lambda: BoundedRangeGuarantee("-0.1"), "eta"),
    ],
)
def test_bad_parameters_are_named(make, parameter):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.parameter == parameter


MADE = [
    PureGuarantee("0.1"),
    DiscreteLaplaceGuarantee(10, 1),
    DiscreteGaussianGuarantee(10_000, 4, 2, claim=("0.2", "1e-9")),
    BoundedRangeGuarantee("0.1"),
    ApproximateGuarantee("0.1", "1e-9"),
]
COMPOSITIONS = [
    BasicComposition(),
    AdvancedComposition(),
    ZCDPComposition("0.01"),
    EnvelopeComposition("0.01"),
    MixedComposition("0.01"),
    RenyiComposition(30, "0.01"),
    default_composition(),
]


@pytest.mark.parametrize("guarantee", MADE, ids=lambda one: type(one).__name__)
def test_a_class_below_a_known_one_has_no_price(guarantee):
    kind = type("Below", (type(guarantee),), {"__slots__": ()})
    below = kind(*attrs.astuple(guarantee, recurse=False))
    for figure in (check_guarantee, pure_epsilon, leak, zcdp_rho, lambda one: declare([one])):
        with pytest.raises(UnsupportedGuarantee):
            figure(below)
    for composition in COMPOSITIONS:
        with pytest.raises(UnsupportedGuarantee):
            composition.charge(composition.begin(Budget(1, 1e-6)), below)
    odometer = Odometer(Budget(1, 1e-6))
    with pytest.raises(UnsupportedGuarantee):
        odometer.charge(below, "asked")
    assert odometer.spent.charges == 0
