"""Disjoint cells, as of a histogram: counted by groups of cells that are equally full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.base import Aim, Effort
from dpsdk.kernel.draw_database.bounds import CellCoverage, Coverage
from dpsdk.kernel.draw_database.thresholds import Axis
from dpsdk.kernel.draw_database.ways import EMPTY, Bounded, Ways, choose, combine, split
from dpsdk.noise import NoiseSource
from dpsdk.typing import Bools, Ints

__all__ = ["NearCells", "Cells", "Side"]


@frozen(eq=False)
class Side:
    """One attribute of a table: all pieces of an axis apart, or the `chosen` ones, in order."""

    axis: Axis
    chosen: Ints | None

    @property
    def count(self) -> int:
        """How many pieces are apart."""
        return self.axis.pieces if self.chosen is None else len(self.chosen)

    def locate(self, codes: Ints) -> tuple[Ints, Bools]:
        """The place of each cell's piece among the chosen, and which cells are in one at all."""
        pieces = self.axis.locate(codes)
        if self.chosen is None:
            return pieces, np.ones(len(pieces), dtype=bool)
        places = np.minimum(np.searchsorted(self.chosen, pieces), len(self.chosen) - 1)
        return places, self.chosen[places] == pieces

    def fill(self, place: int, noise: NoiseSource) -> int:
        """A uniform cell of a chosen piece."""
        return self.axis.fill(place if self.chosen is None else int(self.chosen[place]), noise)

    @property
    def inside(self) -> int:
        """How many cells are in chosen pieces."""
        if self.chosen is None:
            return self.axis.size
        return sum(stop - start for start, stop in map(self.axis.span, self.chosen.tolist()))

    def miss(self, noise: NoiseSource) -> int:
        """A uniform cell of the pieces that are not chosen."""
        chosen = () if self.chosen is None else self.chosen
        others = np.setdiff1d(np.arange(self.axis.pieces), chosen).tolist()
        at = noise.uniform_below(self.axis.size - self.inside)
        for start, stop in map(self.axis.span, others):
            if at < stop - start:
                return start + at
            at -= stop - start
        raise ArithmeticError("a cell beyond the last")


@frozen(eq=False)
class Cells:
    """How many records lie in each cell of a table: one atom for each combination of pieces.

    What lies outside the chosen pieces of a side is spare, and the last atom.
    """

    sides: tuple[Side, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(side.axis.name for side in self.sides)

    @property
    def spare(self) -> bool:
        return any(side.chosen is not None for side in self.sides)

    @property
    def _asked(self) -> int:
        return math.prod(side.count for side in self.sides)

    @property
    def atoms(self) -> int:
        return self._asked + self.spare

    def coverage(self, atoms: int) -> Coverage:
        return CellCoverage(atoms)

    def profile(self, histogram: Counts, aim: Aim) -> NearCells:
        codes, weights = histogram.records(self.names)
        where = np.zeros(len(weights), dtype=np.int64)
        kept: Bools = weights > 0
        for side, code in zip(self.sides, codes, strict=True):
            places, inside = side.locate(code)
            where, kept = where * side.count + places, kept & inside
        occupied, inverse = np.unique(where[kept], return_inverse=True)
        counts = np.zeros(len(occupied), dtype=np.int64)
        np.add.at(counts, inverse, weights[kept].astype(np.int64))
        return NearCells(aim, occupied, counts, self._asked, self.spare)

    def effort(self, aim: Aim, width: int) -> Effort:
        # Cells that may hold equally much are one kind, and there are few bounds on what they may.
        kinds = min(2 * aim.size + 1, math.isqrt(2 * aim.rows) + 1, self.atoms)
        # Large kinds are halved again and again, each time once or twice.
        halves = 2 * self.atoms.bit_length()
        products = aim.size * (kinds * width + halves * aim.size)
        return Effort(kinds + halves, products // 4, (kinds + halves) * (aim.size + 1))

    def fill(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        if atom == self._asked:
            return self._fill_outside(noise)
        cell: list[int] = []
        for side in reversed(self.sides):
            atom, place = divmod(atom, side.count)
            cell.append(side.fill(place, noise))
        return tuple(reversed(cell))

    def _fill_outside(self, noise: NoiseSource) -> tuple[int, ...]:
        """A uniform cell outside some side, by the first of the sides that it misses."""
        if len(self.sides) == 1:
            (side,) = self.sides
            # Afresh within its piece, as seeded draws always were.
            return (side.axis.fill(int(side.axis.locate(np.array(side.miss(noise)))), noise),)
        sizes = [side.axis.size for side in self.sides]
        inside = [side.inside for side in self.sides]
        weights = [
            math.prod(inside[:first]) * (size - inside[first]) * math.prod(sizes[first + 1 :])
            for first, size in enumerate(sizes)
        ]
        first = choose(weights, noise)
        cell: list[int] = []
        for number, side in enumerate(self.sides):
            if number < first and side.chosen is not None:
                cell.append(side.fill(0, noise))
            elif number != first:
                cell.append(noise.uniform_below(side.axis.size))
            else:
                cell.append(side.miss(noise))
        return tuple(cell)


@frozen(eq=False)
class _Kind:
    """Cells that may hold equally much: those listed, and then so many that are not occupied."""

    bounded: Bounded
    listed: Ints
    vacant: int
    occupied: Ints

    @property
    def cells(self) -> int:
        return len(self.listed) + self.vacant

    @property
    def ways(self) -> Ways:
        return self.bounded.ways(self.cells)

    def atom(self, number: int) -> int:
        """The atom of one of its cells."""
        if number < len(self.listed):
            return int(self.listed[number])
        number -= len(self.listed)
        before = self.occupied - np.arange(len(self.occupied))
        return number + int(np.searchsorted(before, number, side="right"))


@frozen(eq=False)
class NearCells:
    """A private table as these functions see it, and the small databases near it."""

    aim: Aim
    occupied: Ints
    counts: Ints
    asked: int
    spare: bool

    @cached_property
    def _groups(self) -> list[tuple[int, Ints]]:
        """The occupied cells of each count."""
        return [(int(n), self.occupied[self.counts == n]) for n in np.unique(self.counts)]

    def _tables(self, level: int) -> tuple[list[_Kind], list[Ways]]:
        """The cells by what they may hold, the spare one last, and the ways of those up to each."""
        aim, none = self.aim, np.zeros(0, dtype=np.int64)
        alike: dict[tuple[int, int], list[Ints]] = {}
        vacant = self.asked - len(self.occupied)
        for count, listed in [*self._groups, *([(0, none)] if vacant else [])]:
            low = max(0, aim.least(count, level))
            high = min(aim.size, aim.most(count, level))
            alike.setdefault((low, high), []).append(listed)
        kinds = [
            _Kind(
                Bounded(*ends, aim.size, aim.ordered),
                np.concatenate(groups),
                vacant if groups[-1] is none else 0,
                self.occupied,
            )
            for ends, groups in alike.items()
        ]
        if self.spare:
            spare = np.array([self.asked], dtype=np.int64)
            kinds.append(_Kind(Bounded(0, aim.size, aim.size, aim.ordered), spare, 0, none))
        tables = [EMPTY]
        for kind in kinds:
            tables.append(combine(tables[-1], kind.ways, 0, aim.size, ordered=aim.ordered))
        return kinds, tables

    def ways(self, level: int) -> Ways:
        return self._tables(level)[1][-1]

    def sample(self, level: int, records: int, noise: NoiseSource) -> list[int]:
        kinds, tables = self._tables(level)
        found: list[int] = []
        for before, kind in zip(reversed(tables[:-1]), reversed(kinds), strict=True):
            records, here = split(before, kind.ways, records, noise, ordered=self.aim.ordered)
            found += map(kind.atom, kind.bounded.sample(kind.cells, here, noise))
        return sorted(found)

    def score(self, atoms: Sequence[int]) -> int:
        drawn, held = np.unique(np.array(atoms, dtype=np.int64), return_counts=True)
        theirs = dict(zip(self.occupied.tolist(), self.counts.tolist(), strict=True))
        ours = dict(zip(drawn.tolist(), held.tolist(), strict=True))
        ours.pop(self.asked, None)
        aim = self.aim
        gaps = [
            abs(aim.size * theirs.get(cell, 0) - aim.rows * ours.get(cell, 0))
            for cell in {*theirs, *ours}
        ]
        return aim.score(max(gaps, default=0))
