"""How an exact number is shown to people: short, and never rounded to nothing."""

from __future__ import annotations

import math
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

__all__ = ["as_bound", "as_text", "certainty", "confidence", "percentage"]

_EXACT_DIGITS = 10
_ROUNDED_DIGITS = 5


def _quotient(
    value: Fraction, digits: int, rounding: str = ROUND_HALF_EVEN
) -> tuple[Decimal, bool]:
    context = Context(prec=digits, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return quotient.normalize(context), not context.flags[Inexact]


def as_text(value: Fraction, *, up: bool = False, down: bool = False) -> str:
    """Show a number: in full where ten digits suffice, else to five significant digits.

    ``as_text(Fraction(1, 10**6))`` is ``"1e-6"``, and ``as_text(Fraction(1, 3))`` is ``"0.33333"``,
    or ``"0.33334"`` if it is to be rounded up, as what is claimed of a guarantee has to be.
    Rounded down it is no more than it is, as what still fits has to be.
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


def certainty(beta: float) -> str:
    """Show the probability 1 - beta: in seven digits, never more than it is, and so never 1."""
    left = 1 - Fraction(repr(float(beta)))
    return f"{_quotient(left, 7, ROUND_FLOOR)[0]:f}"


def confidence(beta: float) -> str:
    """The same in per cent.

    >>> from dpsdk.accounting.numbers.display import confidence
    >>> confidence(0.05), confidence(1e-12)
    ('95%', '99.99999%')
    """
    left = 100 * (1 - Fraction(repr(float(beta))))
    return f"{_quotient(left, 7, ROUND_FLOOR)[0]:f}%"


def percentage(share: float) -> str:
    """Show a share of a whole; only nothing reads 0% and only everything reads 100%."""
    if 0.0 < share < 1e-4:
        return "<0.01%"
    if 0.9999 < share < 1.0:
        return ">99.99%"
    return f"{100.0 * share:.4g}%"
