"""Ladders: things from cheap and vague to dear and exact, in order even where they are not.

Costs and errors are nearly monotone in the amount of a family, and not quite: a lattice, a number
of rounds or a last digit may be in the way. A search by halves would find one place for an error,
and another for the cost of that place. So what stands at a place is made to be in order: the places
are the nodes of the tree that halving walks through, and a thing that is not between those above
its node, on either side, gives way to the one on its left. In docs/explanation/proofs/planner.md it
is proven that all places are in order then, so that both searches find what is best of all places;
and each looks at no more things than halving would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Ladder"]

T = TypeVar("T")


class Ladder(Generic[T]):
    """Things at places, in order.

    Parameters
    ----------
    thing
        What there is at a place; None where there is nothing.
    ordered
        Whether one may stand at a lower place than another: a transitive relation that each has to
        itself.
    low, high
        The lowest and the highest place.
    """

    __slots__ = ("_high", "_low", "_ordered", "_thing")

    def __init__(
        self,
        thing: Callable[[int], T | None],
        ordered: Callable[[T, T], bool],
        low: int,
        high: int,
    ) -> None:
        self._thing = thing
        self._ordered = ordered
        self._low = low
        self._high = high

    def around(self, stops: Callable[[T], bool]) -> tuple[T | None, T | None]:
        """The highest thing that does not stop a walk upwards, and the lowest that does.

        Each None if there is none. Whatever is in order above one that stops must stop, too.
        """
        below: T | None = None
        above: T | None = None
        low, high = self._low, self._high
        while low <= high:
            place = (low + high) // 2
            here = self._thing(place)
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
