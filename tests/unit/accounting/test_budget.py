import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsdk.accounting import Budget
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
from dpsdk.errors import InvalidArgument

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
