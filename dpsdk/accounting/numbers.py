"""Exact numbers: sums on a grid, decimals rounded to a side, a search, and how all are shown.

A step of the grid is 10^-50 (of leaks 10^-400) divided by the least common multiple of 1 to 100.
Decimal fractions lie on it, and so do their halves, thirds, ... and hundredths: ten charges of 0.1,
or three of 1/3, fill a budget of 1 exactly. Everything else is rounded against the caller, budgets
down and charges up, by less than a step.

The four operations of `DOWN` and `UP` round to that side. Logarithm, exponential and square root
of the decimal module are correctly rounded to the nearest; one step of the last place outwards
makes each a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    Inexact,
)
from fractions import Fraction

from dpsdk._checks import shown, to_fraction
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = [
    "DOWN",
    "LEAK_STEPS",
    "STEPS",
    "UP",
    "as_bound",
    "as_room",
    "as_text",
    "ceil_steps",
    "certainty",
    "confidence",
    "exp_down",
    "exp_up",
    "float_up",
    "floor_steps",
    "fraction_down",
    "fraction_up",
    "from_steps",
    "largest",
    "ln_down",
    "ln_up",
    "percentage",
    "sqrt_down",
    "sqrt_up",
    "to_nonnegative",
    "truncated",
]

_PARTS = math.lcm(*range(1, 101))

STEPS = 10**50 * _PARTS
"""Steps in one unit of epsilon, rho or a squared Gaussian shift."""

LEAK_STEPS = 10**400 * _PARTS
"""Steps in one unit of delta."""

_EXACT_DIGITS = 10
_ROUNDED_DIGITS = 5
_SEARCH_DIGITS = 12


def to_nonnegative(
    parameter: str, value: Real, expected: str = "a finite number, at least 0"
) -> Fraction:
    """A finite number of at least 0."""
    number = to_fraction(parameter, value, expected)
    if number < 0:
        raise InvalidArgument(parameter, expected, shown(value))
    return number


def floor_steps(value: Fraction, steps: int = STEPS) -> int:
    """The number of whole steps in a value: for what may be spent."""
    return value.numerator * steps // value.denominator


def ceil_steps(value: Fraction, steps: int = STEPS) -> int:
    """The number of steps that cover a value: for what is charged."""
    return -(-value.numerator * steps // value.denominator)


def from_steps(count: int, steps: int = STEPS) -> Fraction:
    """The value of a number of steps, exactly."""
    return Fraction(count, steps)


def _context(rounding: str, digits: int = 120) -> Context:
    return Context(prec=digits, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


DOWN, UP = _context(ROUND_FLOOR), _context(ROUND_CEILING)
"""Round towards minus infinity and towards infinity, at 120 digits."""


def _divide(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def fraction_down(value: Fraction) -> Decimal:
    """A decimal at or below a fraction."""
    return _divide(value, DOWN)


def fraction_up(value: Fraction) -> Decimal:
    """A decimal at or above a fraction."""
    return _divide(value, UP)


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
    return Fraction(_divide(value, _context(ROUND_FLOOR, digits)))


def largest(
    fits: Callable[[Fraction], bool], low: Fraction, high: Fraction | None = None
) -> Fraction:
    """The largest number that fits, to nine digits and rounded down; 0 where none is found."""
    low = truncated(low, _SEARCH_DIGITS)
    if low <= 0:
        low = Fraction(1)
    for _ in range(1100):
        if fits(low):
            break
        low = truncated(low / 2, _SEARCH_DIGITS)
    else:
        return Fraction(0)
    high = 2 * low if high is None or high <= low else truncated(high, _SEARCH_DIGITS)
    for _ in range(1100):
        if not fits(high):
            break
        low, high = high, 2 * high
    while high - low > low / 10**9:
        middle = truncated((low + high) / 2, _SEARCH_DIGITS)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _quotient(
    value: Fraction, digits: int, rounding: str = ROUND_HALF_EVEN
) -> tuple[Decimal, bool]:
    context = _context(rounding, digits)
    quotient = _divide(value, context)
    return quotient.normalize(context), not context.flags[Inexact]


def as_text(value: Fraction, *, up: bool = False, down: bool = False) -> str:
    """Show a number: in full where ten digits suffice, else to five significant digits.

    ``as_text(Fraction(1, 10**6))`` is ``"1e-6"``, and ``as_text(Fraction(1, 3))`` is ``"0.33333"``,
    or ``"0.33334"`` if it is to be rounded up, as what is claimed of a guarantee has to be.
    """
    if not value:
        return "0"
    quotient, exact = _quotient(value, _EXACT_DIGITS)
    if not exact:
        rounding = ROUND_CEILING if up else ROUND_FLOOR if down else ROUND_HALF_EVEN
        quotient, _ = _quotient(value, _ROUNDED_DIGITS, rounding)
    return f"{quotient:f}" if -5 < quotient.adjusted() < 7 else f"{quotient:e}"


def as_room(value: Fraction) -> str:
    """Show what still fits, as `as_text` does, but never more than it is."""
    return as_text(value, down=True)


def as_bound(error: float) -> str:
    """Show a bound of an error: in four digits, never less than it is."""
    if not math.isfinite(error):
        return f"{error:g}"
    # As it is printed: 0.007 is the double beside it.
    context = Context(prec=4, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(repr(float(error)))):.4g}"


def certainty(beta: float, whole: int = 1) -> str:
    """Show the probability 1 - beta: in seven digits, never more than it is, and so never 1."""
    left = whole * (1 - Fraction(repr(float(beta))))
    return f"{_quotient(left, 7, ROUND_FLOOR)[0]:f}"


def confidence(beta: float) -> str:
    """The same in per cent.

    >>> from dpsdk.accounting.numbers import confidence
    >>> confidence(0.05), confidence(1e-12)
    ('95%', '99.99999%')
    """
    return f"{certainty(beta, 100)}%"


def percentage(share: float) -> str:
    """Show a share of a whole; only nothing reads 0% and only everything reads 100%."""
    if 0.0 < share < 1e-4:
        return "<0.01%"
    if 0.9999 < share < 1.0:
        return ">99.99%"
    return f"{100.0 * share:.4g}%"
