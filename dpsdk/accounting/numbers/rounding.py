"""Decimal arithmetic that rounds to a chosen side, for bounds that must hold to the last digit.

The four operations of `DOWN` and `UP` round to that side. Logarithm, exponential and square root
of the decimal module are correctly rounded to the nearest; one step of the last place outwards
makes each a bound.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

__all__ = [
    "DOWN",
    "UP",
    "exp_down",
    "exp_up",
    "float_up",
    "fraction_down",
    "fraction_up",
    "ln_down",
    "ln_up",
    "sqrt_down",
    "sqrt_up",
    "truncated",
]

_DIGITS = 120


def _context(rounding: str) -> Context:
    return Context(prec=_DIGITS, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


DOWN = _context(ROUND_FLOOR)
"""Rounds towards minus infinity, at 120 digits."""

UP = _context(ROUND_CEILING)
"""Rounds towards infinity, at 120 digits."""


def fraction_down(value: Fraction) -> Decimal:
    """A decimal at or below a fraction."""
    return DOWN.divide(Decimal(value.numerator), Decimal(value.denominator))


def fraction_up(value: Fraction) -> Decimal:
    """A decimal at or above a fraction."""
    return UP.divide(Decimal(value.numerator), Decimal(value.denominator))


def ln_down(value: Decimal) -> Decimal:
    """A lower bound of ln(value), for a positive value."""
    return DOWN.next_minus(DOWN.ln(value))


def ln_up(value: Decimal) -> Decimal:
    """An upper bound of ln(value), for a positive value."""
    return UP.next_plus(UP.ln(value))


def exp_down(value: Decimal) -> Decimal:
    """A lower bound of exp(value), never below 0."""
    return max(Decimal(0), DOWN.next_minus(DOWN.exp(value)))


def exp_up(value: Decimal) -> Decimal:
    """An upper bound of exp(value)."""
    return UP.next_plus(UP.exp(value))


def sqrt_down(value: Decimal) -> Decimal:
    """A lower bound of the square root of a value that is not negative."""
    return max(Decimal(0), DOWN.next_minus(DOWN.sqrt(value)))


def sqrt_up(value: Decimal) -> Decimal:
    """An upper bound of the square root of a value that is not negative."""
    return UP.next_plus(UP.sqrt(value))


def float_up(value: Decimal) -> float:
    """The smallest float at or above a decimal; infinity where no float is."""
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if Decimal(nearest) < value else nearest


def truncated(value: Fraction, digits: int = 15) -> Fraction:
    """A number that is not negative, cut down to so many significant digits."""
    context = Context(prec=digits, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    return Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
