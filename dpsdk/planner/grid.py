"""The amounts that are tried: 96 a decade, in three digits."""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache

__all__ = ["A_DECADE", "amount", "below"]

A_DECADE = 96


@cache
def _digits() -> tuple[int, ...]:
    return tuple(round(1000 * 10 ** (step / A_DECADE)) for step in range(A_DECADE))


def amount(index: int) -> Fraction:
    """The amount at a place of the grid; that at 0 is 1, and each is larger than the one before."""
    decade, step = divmod(index, A_DECADE)
    return Fraction(_digits()[step], 1000) * Fraction(10) ** decade


@lru_cache(64)
def below(value: Fraction) -> int:
    """The place of the largest amount that is no larger."""
    decade = 0
    while Fraction(10) ** decade > value:
        decade -= 1
    while Fraction(10) ** (decade + 1) <= value:
        decade += 1
    index = decade * A_DECADE
    while amount(index + 1) <= value:
        index += 1
    return index
