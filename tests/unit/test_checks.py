from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsdk._checks import (
    shown,
    to_beta,
    to_fraction,
    to_integer,
    to_name,
    to_positive,
    to_probability,
)
from dpsdk.errors import InvalidArgument
from worlds import repeatable

BAD = [
    "x", "", "1/3", "nan", "inf", "-Infinity", "sNaN", float("nan"), float("inf"), None, True,
    False, np.True_, 1j, [1], b"1", object(), Decimal("NaN"), Decimal("Infinity"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, Fraction(3)), (0.1, Fraction(1, 10)), ("0.1", Fraction(1, 10)),
        (" 1e-3 ", Fraction(1, 1000)), (Decimal("2.50"), Fraction(5, 2)),
        (Fraction(1, 3), Fraction(1, 3)), (np.float64(0.1), Fraction(1, 10)),
        (np.int32(7), Fraction(7)), (np.float32(0.5), Fraction(1, 2)), (-2, Fraction(-2)),
        (10**30, Fraction(10**30)), (1e-7, Fraction(1, 10**7)),
    ],
)  # fmt: skip
def test_numbers_are_the_decimals_that_they_print_as(value, expected):
    assert to_fraction("x", value) == expected


@repeatable
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_is_read_as_its_text(value):
    assert float(to_fraction("x", value)) == value
    assert to_fraction("x", value) == to_fraction("x", repr(value))


@pytest.mark.parametrize("value", BAD, ids=repr)
@pytest.mark.parametrize("read", [to_fraction, to_positive, to_probability])
def test_what_is_no_finite_number_is_refused(value, read):
    with pytest.raises(InvalidArgument) as caught:
        read("width", value)
    assert caught.value.parameter == "width"
    assert "width must be" in str(caught.value)


def test_positive_numbers_and_probabilities_have_their_ranges():
    assert to_positive("x", "1e-300") > 0
    for value in (0, -1, -0.0, "0.0"):
        with pytest.raises(InvalidArgument, match="positive"):
            to_positive("x", value)
    assert to_probability("x", 0.5) == Fraction(1, 2)
    assert to_probability("x", 0, zero=True) == 0
    for value in (0, 1, -0.1, 1.5):
        with pytest.raises(InvalidArgument, match="strictly between"):
            to_probability("x", value)
    for value in (1, -0.1):
        with pytest.raises(InvalidArgument, match="in \\[0, 1\\)"):
            to_probability("x", value, zero=True)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_integers_are_plain_ones_afterwards(value):
    assert type(to_integer("x", value)) is int
    assert to_integer("x", value) == 3


@pytest.mark.parametrize("value", [3.0, "3", True, np.True_, None, Fraction(3), Decimal(3)])
def test_what_is_no_integer_is_refused_even_where_it_is_whole(value):
    with pytest.raises(InvalidArgument, match="an integer"):
        to_integer("x", value)


@pytest.mark.parametrize("value", ["", "  ", None, 3, b"x"])
def test_names_are_texts_with_something_in_them(value):
    assert to_name("x", "a b") == "a b"
    with pytest.raises(InvalidArgument, match="non-empty text"):
        to_name("x", value)


@pytest.mark.parametrize("value", [0, 1, -0.1, 2, float("nan"), float("inf"), "0.5", True, None])
def test_beta_is_strictly_between_0_and_1(value):
    assert to_beta(np.float64(0.25)) == 0.25
    assert to_beta(Fraction(1, 2)) == 0.5
    with pytest.raises(InvalidArgument, match="beta"):
        to_beta(value)


def test_long_arguments_are_cut_short():
    assert shown("abc") == "'abc'"
    assert len(shown("x" * 1000)) == 80
    assert shown("x" * 1000).endswith("...")
