"""Sets of attributes: which a workload asks for, which lie below them, and which are alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
from attrs import frozen

from dpsdk.errors import TooLarge
from dpsdk.typing import Floats

__all__ = ["Attributes", "Lattice", "below", "stacks"]

Attributes: TypeAlias = tuple[int, ...]
"""The positions of some attributes in their domain, rising."""

SET_LIMIT = 2**16
"""Beyond so many sets the plan alone would take minutes."""

CELL_LIMIT = 2**24
"""No single table has more cells."""

STACKED = 2**18
"""Cells of the tables of one shape that are fitted together, unless one table has more."""


def below(sets: Attributes) -> list[Attributes]:
    """The sets of one attribute less: the i-th is without the i-th attribute."""
    return [sets[:place] + sets[place + 1 :] for place in range(len(sets))]


@frozen
class Lattice:
    """The sets of a workload and all sets below them, but for the empty one.

    Parameters
    ----------
    sizes
        How many cells each attribute of the domain has.
    wanted
        The sets that were asked for, smaller ones first, each once.
    closed
        Those and all sets below them, in the same order.
    """

    sizes: tuple[int, ...]
    wanted: tuple[Attributes, ...]
    closed: tuple[Attributes, ...]

    @classmethod
    def of(cls, sizes: tuple[int, ...], sets: Iterable[Attributes]) -> Lattice:
        """The lattice of a workload.

        Raises
        ------
        TooLarge
            If there are more than 2^16 sets, or a table of more than 2^24 cells.
        """
        wanted = {chosen for chosen in sets if chosen}
        closed: set[Attributes] = set()
        for chosen in wanted:
            _check(sizes, chosen)
            if chosen in closed:
                continue
            for width in range(1, len(chosen) + 1):
                closed.update(itertools.combinations(chosen, width))
            if len(closed) > SET_LIMIT:
                raise _too_many(len(closed))
        return cls(sizes, tuple(sorted(wanted, key=_order)), tuple(sorted(closed, key=_order)))

    @property
    def pairs(self) -> tuple[Attributes, ...]:
        """The sets of two attributes."""
        return tuple(chosen for chosen in self.closed if len(chosen) == 2)

    def shape(self, chosen: Attributes) -> tuple[int, ...]:
        """The shape of a table."""
        return tuple(self.sizes[place] for place in chosen)

    def cells(self, chosen: Attributes) -> int:
        """How many cells a table has."""
        return _cells(self.sizes, chosen)

    def worths(self, sets: Iterable[Attributes]) -> Floats:
        """By how much errors of sets count: 1 if asked for, and a half for each attribute beyond.

        A set that was asked for counts also at all sets below it, whose tables are its margins.
        """
        found: dict[Attributes, float] = dict.fromkeys(self.closed, 0.0)
        for chosen in self.wanted:
            for width in range(1, len(chosen) + 1):
                share = 0.5 ** (len(chosen) - width)
                for lower in itertools.combinations(chosen, width):
                    found[lower] += share
        return np.array([found[chosen] for chosen in sets])


def _order(chosen: Attributes) -> tuple[int, Attributes]:
    return len(chosen), chosen


def _cells(sizes: tuple[int, ...], chosen: Attributes) -> int:
    cells = 1
    for place in chosen:
        cells *= sizes[place]
    return cells


def _check(sizes: tuple[int, ...], chosen: Attributes) -> None:
    cells = _cells(sizes, chosen)
    if cells > CELL_LIMIT:
        advice = "ask for fewer attributes at a time, or declare coarser ones"
        raise TooLarge("a table of LocalMarginals", cells, CELL_LIMIT, "cells", advice)
    if 2 ** len(chosen) - 1 > SET_LIMIT:
        raise _too_many(2 ** len(chosen) - 1)


def _too_many(count: int) -> TooLarge:
    advice = "ask for fewer marginals, or narrower ones"
    return TooLarge("LocalMarginals", count, SET_LIMIT, "sets of attributes", advice)


def stacks(lattice: Lattice, sets: Iterable[Attributes]) -> Iterator[list[Attributes]]:
    """Sets whose tables have one shape, together up to 2^18 cells or one table at a time."""
    alike: dict[tuple[int, ...], list[Attributes]] = {}
    for chosen in sets:
        alike.setdefault(lattice.shape(chosen), []).append(chosen)
    for group in alike.values():
        step = max(1, STACKED // lattice.cells(group[0]))
        for first in range(0, len(group), step):
            yield group[first : first + step]
