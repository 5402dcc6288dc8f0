"""Readers of arguments: each turns what callers write into one exact type, or names the culprit."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from operator import index

from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = [
    "shown",
    "to_count",
    "to_fraction",
    "to_integer",
    "to_name",
    "to_positive",
    "to_probability",
]


_LARGEST_EXPONENT = 2000
"""Decimals of a larger exponent are refused: their fractions would take for ever to make."""


def shown(value: object) -> str:
    """A short description of a public argument, for an error."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def to_fraction(parameter: str, value: Real, expected: str = "a finite number") -> Fraction:
    """The exact value of a number; a float or a text stands for the decimal that it prints as."""
    if isinstance(value, bool):
        raise InvalidArgument(parameter, expected, shown(value))
    try:
        if isinstance(value, int):
            # A class of another author may answer for its numbers as it likes; this one does not.
            return Fraction(int.__add__(value, 0))
        if isinstance(value, numbers.Rational):
            # Made anew of plain integers: fractions can be changed, also by who handed one over.
            return Fraction(index(value.numerator), index(value.denominator))
        if isinstance(value, float):
            # float.__repr__, since the repr of a numpy scalar names its type.
            return Fraction(float.__repr__(value))
        if isinstance(value, str) or type(value) is Decimal:
            decimal = Decimal(str.strip(value)) if isinstance(value, str) else value
            if abs(decimal.adjusted()) <= _LARGEST_EXPONENT:
                return Fraction(decimal)
        if isinstance(value, numbers.Real):
            return Fraction(repr(float(value)))
    except (ValueError, OverflowError, InvalidOperation, TypeError, ZeroDivisionError):
        pass
    raise InvalidArgument(parameter, expected, shown(value))


def to_positive(parameter: str, value: Real) -> Fraction:
    """A finite number above zero."""
    expected = "a positive finite number"
    number = to_fraction(parameter, value, expected)
    if number <= 0:
        raise InvalidArgument(parameter, expected, shown(value))
    return number


def to_probability(parameter: str, value: Real, *, zero: bool = False) -> Fraction:
    """A number in (0, 1), or in [0, 1) where `zero` is allowed."""
    expected = "a number in [0, 1)" if zero else "a number strictly between 0 and 1"
    number = to_fraction(parameter, value, expected)
    if number >= 1 or number < 0 or (number == 0 and not zero):
        raise InvalidArgument(parameter, expected, shown(value))
    return number


def to_integer(parameter: str, value: int, expected: str = "an integer") -> int:
    """An integer; floats and texts are refused even where they are whole."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidArgument(parameter, expected, shown(value))
    return int(value)


def to_count(parameter: str, value: int) -> int:
    """An integer of at least 1."""
    expected = "an integer of at least 1"
    number = to_integer(parameter, value, expected)
    if number < 1:
        raise InvalidArgument(parameter, expected, shown(value))
    return number


def to_name(parameter: str, value: str) -> str:
    """A non-empty text."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(parameter, "a non-empty text", shown(value))
    return value


def to_beta(value: float) -> float:
    """A failure probability, strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidArgument("beta", "a number strictly between 0 and 1", shown(value))
    number = float(value)
    if not (0.0 < number < 1.0) or math.isnan(number):
        raise InvalidArgument("beta", "a number strictly between 0 and 1", shown(value))
    return number
