"""Budgets, the figures that are shown of them, and what a run guarantees."""

import math
from fractions import Fraction

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsdk.accounting import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Odometer,
    PureGuarantee,
    declare,
    leak,
    pure_epsilon,
    zcdp_rho,
)
from dpsdk.accounting.guarantee import check_guarantee
from dpsdk.accounting.numbers import (
    LEAK_STEPS,
    STEPS,
    as_bound,
    as_text,
    ceil_steps,
    certainty,
    confidence,
    floor_steps,
    from_steps,
    percentage,
)
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from mixtures import compositions

positive = st.fractions(min_value=0, max_value=10**6)


def test_floats_and_texts_are_read_as_decimals():
    assert Budget(0.1, 1e-6) == Budget("0.1", "1e-6") == Budget(Fraction(1, 10), Fraction(1, 10**6))


def test_shown_without_rounding_delta_away():
    assert repr(Budget(1, 1e-6)) == "Budget(epsilon=1, delta=1e-6)"
    assert str(Budget(1, 1e-6)) == "(1, 1e-6)-DP"
    assert str(Budget(0.5)) == "0.5-DP"


@pytest.mark.parametrize("epsilon", [0, -1, float("inf"), float("nan"), "one", True])
def test_epsilon_must_be_positive_and_finite(epsilon):
    with pytest.raises(InvalidArgument) as caught:
        Budget(epsilon)
    assert caught.value.parameter == "epsilon"


@pytest.mark.parametrize("delta", [1, -1e-9, 2, float("nan")])
def test_delta_must_be_in_zero_to_one(delta):
    with pytest.raises(InvalidArgument) as caught:
        Budget(1, delta)
    assert caught.value.parameter == "delta"


@given(positive)
def test_the_grid_rounds_to_the_named_side_by_less_than_a_step(value):
    for steps in (STEPS, LEAK_STEPS):
        low, high = floor_steps(value, steps), ceil_steps(value, steps)
        assert from_steps(low, steps) <= value <= from_steps(high, steps)
        assert high - low <= 1


def test_decimals_and_small_parts_of_one_are_on_the_grid():
    for value in (Fraction("0.1"), Fraction(1, 3), Fraction(1, 97), Fraction("1e-50")):
        assert from_steps(floor_steps(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(1), "1"),
        (Fraction(1, 10**6), "1e-6"),
        (Fraction("2.5e-7"), "2.5e-7"),
        (Fraction(1, 3), "0.33333"),
        (Fraction(2, 3 * 10**9), "6.6667e-10"),
        (Fraction("0.995"), "0.995"),
        (Fraction(1234567), "1234567"),
        (Fraction(10) ** 400, "1e+400"),
        (Fraction(1, 10**400), "1e-400"),
    ],
)
def test_figures_are_short_and_never_vanish(value, text):
    assert as_text(value) == text


def test_what_is_claimed_is_never_rounded_in_its_own_favour():
    assert str(Budget(Fraction(1, 3), Fraction(1, 3 * 10**6))) == "(0.33334, 3.3334e-7)-DP"
    assert as_text(Fraction(1, 4), up=True) == "0.25"
    assert [as_bound(error) for error in (0.0, 0.007, 1.23401, math.inf, 12345.0)] == [
        "0", "0.007", "1.235", "inf", "1.235e+04",
    ]  # fmt: skip
    for beta in (0.05, 1 / 3, 1e-12, 1e-300, np.float64(0.25)):
        assert Fraction(certainty(beta)) <= 1 - Fraction(repr(float(beta)))
        assert Fraction(confidence(beta).removesuffix("%")) / 100 < 1
    assert (certainty(0.05), confidence(0.05)) == ("0.95", "95%")


def test_only_nothing_reads_zero_percent_and_only_all_reads_a_hundred():
    assert percentage(0.0) == "0%"
    assert percentage(1e-9) == "<0.01%"
    assert percentage(0.25) == "25%"
    assert percentage(1 - 1e-12) == ">99.99%"
    assert percentage(1.0) == "100%"


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


@pytest.mark.parametrize("guarantee", MADE, ids=lambda one: type(one).__name__)
def test_a_class_below_a_known_one_has_no_price(guarantee):
    kind = type("Below", (type(guarantee),), {"__slots__": ()})
    below = kind(*attrs.astuple(guarantee, recurse=False))
    for figure in (check_guarantee, pure_epsilon, leak, zcdp_rho, lambda one: declare([one])):
        with pytest.raises(UnsupportedGuarantee):
            figure(below)
    for composition in compositions(leak_share="0.01").values():
        with pytest.raises(UnsupportedGuarantee):
            composition.charge(composition.begin(Budget(1, 1e-6)), below)
    odometer = Odometer(Budget(1, 1e-6))
    with pytest.raises(UnsupportedGuarantee):
        odometer.charge(below, "asked")
    assert odometer.spent.charges == 0
