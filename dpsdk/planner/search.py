"""Binary search over amounts: what a family does for each, in order even where it is not quite.

Amounts are the nodes of the tree that the search walks through; a trial that is not between those
above its node gives way to the one on its left (docs/explanation/proofs/planner.md).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Generic, TypeVar

from dpsdk._records import frozen

__all__ = ["A_DECADE", "OrderedSearch", "amount"]

T = TypeVar("T")

A_DECADE = 96
"""Amounts a decade, each in three digits."""


def amount(index: int) -> Fraction:
    """Return the amount at a place of the grid: 1 at 0, and larger at each further place."""
    decade, step = divmod(index, A_DECADE)
    return Fraction(round(1000 * 10 ** (step / A_DECADE)), 1000) * Fraction(10) ** decade


@frozen(eq=False)
class OrderedSearch(Generic[T]):
    """Binary search over values at places, which are in order or made to be.

    `value` returns None where there is none. `ordered` says if one value may stand at a lower place
    than another: a transitive and reflexive relation.
    """

    value: Callable[[int], T | None]
    ordered: Callable[[T, T], bool]
    low: int
    high: int

    def around(self, stops: Callable[[T], bool]) -> tuple[T | None, T | None]:
        """Return the highest value that does not stop a walk upwards, and the lowest that does.

        Each is None if there is none. A value above one that stops must stop, too.
        """
        below: T | None = None
        above: T | None = None
        low, high = self.low, self.high
        while low <= high:
            place = (low + high) // 2
            here = self.value(place)
            if (
                here is None
                or (below is not None and not self.ordered(below, here))
                or (above is not None and not self.ordered(here, above))
            ):
                here = below
            if here is not None and stops(here):
                above, high = here, place - 1
            else:
                below, low = here, place + 1
        return below, above
