"""Binary search over amounts: what a family does for each, in order even where it is not quite.

Amounts are the nodes of the tree that the search walks through; a trial that is not between those
above its node gives way to the one on its left (docs/explanation/proofs/planner.md).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Generic, TypeVar

__all__ = ["A_DECADE", "OrderedSearch", "amount", "below"]

T = TypeVar("T")

A_DECADE = 96
"""Amounts a decade, each in three digits."""


@cache
def _digits() -> tuple[int, ...]:
    return tuple(round(1000 * 10 ** (step / A_DECADE)) for step in range(A_DECADE))


def amount(index: int) -> Fraction:
    """Return the amount at a place of the grid: 1 at 0, and larger at each further place."""
    decade, step = divmod(index, A_DECADE)
    return Fraction(_digits()[step], 1000) * Fraction(10) ** decade


@lru_cache(64)
def below(value: Fraction) -> int:
    """Return the place of the largest amount that is no larger."""
    decade = 0
    while Fraction(10) ** decade > value:
        decade -= 1
    while Fraction(10) ** (decade + 1) <= value:
        decade += 1
    index = decade * A_DECADE
    while amount(index + 1) <= value:
        index += 1
    return index


class OrderedSearch(Generic[T]):
    """Binary search over values at places, which are in order or made to be.

    Parameters
    ----------
    value
        Returns the value at a place; None where there is none.
    ordered
        Whether one value may stand at a lower place than another: a transitive and reflexive
        relation.
    low, high
        The lowest and the highest place.
    """

    __slots__ = ("_high", "_low", "_ordered", "_value")

    def __init__(
        self,
        value: Callable[[int], T | None],
        ordered: Callable[[T, T], bool],
        low: int,
        high: int,
    ) -> None:
        self._value = value
        self._ordered = ordered
        self._low = low
        self._high = high

    def around(self, stops: Callable[[T], bool]) -> tuple[T | None, T | None]:
        """Return the highest value that does not stop a walk upwards, and the lowest that does.

        Each is None if there is none. A value above one that stops must stop, too.
        """
        below: T | None = None
        above: T | None = None
        low, high = self._low, self._high
        while low <= high:
            place = (low + high) // 2
            here = self._value(place)
            if here is None or not self._between(below, here, above):
                here = below
            if here is not None and stops(here):
                above, high = here, place - 1
            else:
                below, low = here, place + 1
        return below, above

    def _between(self, below: T | None, here: T, above: T | None) -> bool:
        after = below is None or self._ordered(below, here)
        return after and (above is None or self._ordered(here, above))
