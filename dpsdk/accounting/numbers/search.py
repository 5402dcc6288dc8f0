"""The largest number for which something holds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dpsdk.accounting.numbers.rounding import truncated

__all__ = ["largest"]

_DIGITS = 12


def largest(
    fits: Callable[[Fraction], bool], low: Fraction, high: Fraction | None = None
) -> Fraction:
    """The largest number that fits, to nine digits and rounded down; 0 where none is found."""
    low = truncated(low, _DIGITS)
    if low <= 0:
        low = Fraction(1)
    for _ in range(1100):
        if fits(low):
            break
        low = truncated(low / 2, _DIGITS)
    else:
        return Fraction(0)
    high = 2 * low if high is None or high <= low else truncated(high, _DIGITS)
    for _ in range(1100):
        if not fits(high):
            break
        low, high = high, 2 * high
    while high - low > low / 10**9:
        middle = truncated((low + high) / 2, _DIGITS)
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
