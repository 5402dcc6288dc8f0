"""Sets of attributes: which a workload asks for, which lie below them, and which are alike."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias

import numpy as np

from dpsdk._records import frozen
from dpsdk.errors import TooLarge
from dpsdk.typing import Floats

__all__ = ["Attributes", "Lattice", "Stack", "below"]

Attributes: TypeAlias = tuple[int, ...]
"""The positions of some attributes in their domain, rising."""

SET_LIMIT = 2**16
"""Beyond so many sets the plan alone would take minutes."""

CELL_LIMIT = 2**24
"""No single table has more cells."""

_STACKED = 2**16
"""Cells of the tables of one shape that are fitted together, unless one table has more."""

_MEASURED = 2**23
_MEASURED_WIDE = 2**15
_EXACT = 2**53

_ROWS = 2**47
"""So many rows fit every look: in steps of 2^-12 rows, and twice over, they stay within 2^61."""


_FEWER_ROWS = "declare a smaller max_rows"


def below(chosen: Attributes) -> list[Attributes]:
    """The sets of one attribute less: the i-th is without the i-th attribute."""
    return [chosen[:place] + chosen[place + 1 :] for place in range(len(chosen))]


@frozen(eq=False)
class Stack:
    """Sets whose tables have one shape, always made together: so each is always the same."""

    sets: tuple[Attributes, ...]


@frozen
class Lattice:
    """The sets of a workload and all sets below them, but for the empty one."""

    sizes: tuple[int, ...]
    """How many cells each attribute of the domain has."""
    wanted: tuple[Attributes, ...]
    """The sets that were asked for, smaller ones first, each once."""
    closed: tuple[Attributes, ...]
    """Those and all sets below them, in the same order."""
    row_limit: int = 1

    @classmethod
    def of(cls, sizes: tuple[int, ...], sets: Iterable[Attributes], row_limit: int = 1) -> Lattice:
        """The lattice of a workload, over tables of no more rows than a public limit."""
        if row_limit > _ROWS:
            raise TooLarge("LocalMarginals", row_limit, _ROWS, "rows", _FEWER_ROWS)
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
        for place in {place for chosen in wanted for place in chosen}:
            if sizes[place] * row_limit >= _EXACT:
                most = (_EXACT - 1) // sizes[place]
                raise TooLarge("LocalMarginals", row_limit, most, "rows", _FEWER_ROWS)
        asked, known = (tuple(sorted(found, key=_order)) for found in (wanted, closed))
        return cls(sizes, asked, known, max(row_limit, 1))

    @property
    def singles(self) -> tuple[Attributes, ...]:
        """The sets of one attribute."""
        return tuple([chosen for chosen in self.closed if len(chosen) == 1])

    @cached_property
    def measurable(self) -> frozenset[Attributes]:
        """The sets of two attributes or more that are looked at, and may be measured.

        Narrow and small ones first, as many as have 2^23 cells together; of three attributes or
        more those of up to 2^15 cells; none whose cells times rows might not fit 53 bits. What has
        an attribute of one cell says nothing of its own.
        """
        room, found = _MEASURED, set[Attributes]()
        wide = [chosen for chosen in self.closed if len(chosen) > 1]
        for chosen in sorted(wide, key=lambda one: (len(one), self.cells(one), one)):
            cells = self.cells(chosen)
            if min(self.shape(chosen)) < 2 or (len(chosen) > 2 and cells > _MEASURED_WIDE):
                continue
            if cells * self.row_limit >= _EXACT:
                continue
            room -= cells
            if room < 0:
                break
            found.add(chosen)
        return frozenset(found)

    @cached_property
    def stacks(self) -> tuple[Stack, ...]:
        """All sets of two attributes or more, smaller ones first, by the shapes of their tables."""
        alike: dict[tuple[int, ...], list[Attributes]] = {}
        for chosen in self.closed:
            if len(chosen) > 1:
                alike.setdefault(self.shape(chosen), []).append(chosen)
        found: list[Stack] = []
        for group in alike.values():
            step = max(1, _STACKED // self.cells(group[0]))
            found += [Stack(tuple(group[k : k + step])) for k in range(0, len(group), step)]
        return tuple(found)

    @cached_property
    def places(self) -> dict[Attributes, tuple[Stack, int]]:
        """In which stack each set is, and where there."""
        return {
            chosen: (stack, place)
            for stack in self.stacks
            for place, chosen in enumerate(stack.sets)
        }

    def covers(self, chosen: Attributes) -> bool:
        """True if a set has a table of its own: it is below the workload, or all below it are."""
        known = self._known
        return (
            not chosen
            or chosen in known
            or (
                len(chosen) > 1
                and self.cells(chosen) <= CELL_LIMIT
                and all(lower in known for lower in below(chosen))
            )
        )

    @cached_property
    def _known(self) -> frozenset[Attributes]:
        return frozenset(self.closed)

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
        return np.array([found.get(chosen, 0.0) for chosen in sets])


def _order(chosen: Attributes) -> tuple[int, Attributes]:
    return len(chosen), chosen


def _cells(sizes: tuple[int, ...], chosen: Attributes) -> int:
    return math.prod(sizes[place] for place in chosen)


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
