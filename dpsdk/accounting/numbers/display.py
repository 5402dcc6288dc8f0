"""How an exact number is shown to people: short, and never rounded to nothing."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact
from fractions import Fraction

__all__ = ["as_text", "percentage"]

_EXACT_DIGITS = 10
_ROUNDED_DIGITS = 5


def _quotient(value: Fraction, digits: int) -> tuple[Decimal, bool]:
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return quotient.normalize(context), not context.flags[Inexact]


def as_text(value: Fraction) -> str:
    """Show a number: in full where ten digits suffice, else to five significant digits.

    ``as_text(Fraction(1, 10**6))`` is ``"1e-6"``, and ``as_text(Fraction(1, 3))`` is ``"0.33333"``.
    """
    if not value:
        return "0"
    quotient, exact = _quotient(value, _EXACT_DIGITS)
    if not exact:
        quotient, _ = _quotient(value, _ROUNDED_DIGITS)
    return f"{quotient:f}" if -5 < quotient.adjusted() < 7 else f"{quotient:e}"


def percentage(share: float) -> str:
    """Show a share of a whole; only nothing reads 0% and only everything reads 100%."""
    if 0.0 < share < 1e-4:
        return "<0.01%"
    if 0.9999 < share < 1.0:
        return ">99.99%"
    return f"{100.0 * share:.4g}%"
