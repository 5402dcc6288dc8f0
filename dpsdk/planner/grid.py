"""The amounts that are tried: 96 a decade, in three digits, so that searches agree."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

__all__ = ["amount", "below", "least"]

_A_DECADE = 96


@cache
def _digits() -> tuple[int, ...]:
    return tuple(round(1000 * 10 ** (step / _A_DECADE)) for step in range(_A_DECADE))


def amount(index: int) -> Fraction:
    """The amount at a place of the grid; that at 0 is 1, and each is larger than the one before."""
    decade, step = divmod(index, _A_DECADE)
    return Fraction(_digits()[step], 1000) * Fraction(10) ** decade


def below(value: Fraction) -> int:
    """The place of the largest amount that is no larger."""
    decade = 0
    while Fraction(10) ** decade > value:
        decade -= 1
    while Fraction(10) ** (decade + 1) <= value:
        decade += 1
    index = decade * _A_DECADE
    while amount(index + 1) <= value:
        index += 1
    return index


def least(passes: Callable[[int], bool], low: int, high: int) -> int | None:
    """A place that passes, where the one before did not; None if `high` does not pass.

    Which places are tried depends on `low` and `high` alone. So whatever passes more often is found
    no later, even where to pass is not quite monotone.
    """
    if not passes(high):
        return None
    first, last = low, high
    while first < last:
        middle = (first + last) // 2
        if passes(middle):
            last = middle
        else:
            first = middle + 1
    return last
