"""Disjoint cells, as of a histogram: counted by groups of cells that are equally full."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database import coverage
from dpsdk.kernel.draw_database.base import Aim, Effort, Part, Profile
from dpsdk.kernel.draw_database.coverage import Coverage
from dpsdk.kernel.draw_database.thresholds import Axis
from dpsdk.kernel.draw_database.ways import EMPTY, Bounded, Ways, choose, combine, split
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["Cells", "Pieces", "Side", "Table"]


class Cells(Part):
    """How many records lie in each atom, but for the last where that is `spare`."""

    __slots__ = ()

    @abstractmethod
    def locate(self, histogram: Counts) -> tuple[Ints, Ints]:
        """Atoms, some of them repeatedly, and how many rows are there. The spare one may lack."""

    def coverage(self, atoms: int) -> Coverage:
        return coverage.Cells(atoms)

    def profile(self, histogram: Counts, aim: Aim) -> Profile:
        asked = self.atoms - self.spare
        where, weights = self.locate(histogram)
        occupied, inverse = np.unique(where, return_inverse=True)
        counts = np.zeros(len(occupied), dtype=np.int64)
        np.add.at(counts, inverse, weights)
        kept = (occupied < asked) & (counts > 0)
        occupied, counts = occupied[kept].astype(np.int64), counts[kept]
        groups = [
            _Group(int(count), occupied[counts == count], vacant=None)
            for count in np.unique(counts)
        ]
        if asked > len(occupied):
            groups.append(_Group(0, occupied, vacant=asked - len(occupied)))
        return _Near(aim, tuple(groups), occupied, counts, asked, self.spare)

    def effort(self, aim: Aim, width: int) -> Effort:
        # Cells that may hold equally much are one kind, and there are few bounds on what they may.
        kinds = min(2 * aim.size + 1, math.isqrt(2 * aim.rows) + 1, self.atoms)
        # Large kinds are halved again and again, each time once or twice.
        halves = 2 * self.atoms.bit_length()
        products = aim.size * (kinds * width + halves * aim.size)
        return Effort(kinds + halves, products // 4, (kinds + halves) * (aim.size + 1))


@frozen(eq=False)
class _Group:
    """The cells that have one count: those listed, or, of the vacant, all that are not."""

    count: int
    listed: Ints
    vacant: int | None

    @property
    def cells(self) -> int:
        return len(self.listed) if self.vacant is None else self.vacant

    def atom(self, number: int) -> int:
        """The atom of one of its cells."""
        if self.vacant is None:
            return int(self.listed[number])
        before = self.listed - np.arange(len(self.listed))
        return number + int(np.searchsorted(before, number, side="right"))


@frozen(eq=False)
class _Kind:
    """The groups whose cells may hold equally much."""

    bounded: Bounded
    groups: Sequence[_Group]

    @property
    def cells(self) -> int:
        return sum(group.cells for group in self.groups)

    @property
    def ways(self) -> Ways:
        return self.bounded.ways(self.cells)

    def atom(self, number: int) -> int:
        """The atom of one of its cells."""
        for group in self.groups:
            if number < group.cells:
                return group.atom(number)
            number -= group.cells
        raise ArithmeticError("a cell beyond the last")


@frozen(eq=False)
class _Near(Profile):
    aim: Aim
    groups: tuple[_Group, ...]
    occupied: Ints
    counts: Ints
    asked: int
    spare: bool

    def _kinds(self, level: int) -> list[_Kind]:
        """The cells by what they may hold, the spare one last."""
        aim = self.aim
        alike: dict[tuple[int, int], list[_Group]] = {}
        for group in self.groups:
            low = max(0, aim.least(group.count, level))
            high = min(aim.size, aim.most(group.count, level))
            alike.setdefault((low, high), []).append(group)
        kinds = [
            _Kind(Bounded(low, high, aim.size, aim.ordered), groups)
            for (low, high), groups in alike.items()
        ]
        if self.spare:
            spare = _Group(0, np.array([self.asked], dtype=np.int64), vacant=None)
            kinds.append(_Kind(Bounded(0, aim.size, aim.size, aim.ordered), [spare]))
        return kinds

    def _tables(self, kinds: Sequence[_Kind]) -> list[Ways]:
        aim = self.aim
        tables = [EMPTY]
        for kind in kinds:
            tables.append(combine(tables[-1], kind.ways, 0, aim.size, ordered=aim.ordered))
        return tables

    def ways(self, level: int) -> Ways:
        return self._tables(self._kinds(level))[-1]

    def sample(self, level: int, records: int, noise: NoiseSource) -> list[int]:
        kinds = self._kinds(level)
        tables = self._tables(kinds)
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


@frozen(eq=False)
class Pieces(Cells):
    """Some pieces of an axis, or all where `chosen` is None, in order; the others are spare."""

    axis: Axis
    chosen: Ints | None

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]  # derived here, a field elsewhere
        return (self.axis.name,)

    @property
    def atoms(self) -> int:
        return self.axis.pieces if self.chosen is None else len(self.chosen) + 1

    @property
    def spare(self) -> bool:
        return self.chosen is not None

    def locate(self, histogram: Counts) -> tuple[Ints, Ints]:
        (codes,), counts = histogram.records((self.axis.name,))
        pieces, weights = self.axis.locate(codes), counts.astype(np.int64)
        if self.chosen is None:
            return pieces, weights
        places = np.searchsorted(self.chosen, pieces)
        inside = self.chosen[np.minimum(places, len(self.chosen) - 1)] == pieces
        return np.where(inside, places, len(self.chosen)).astype(np.int64), weights

    def fill(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        if self.chosen is None:
            return (self.axis.fill(atom, noise),)
        if atom < len(self.chosen):
            return (self.axis.fill(int(self.chosen[atom]), noise),)
        others = sorted({*range(self.axis.pieces)} - {*self.chosen.tolist()})
        lengths = [stop - start for start, stop in map(self.axis.span, others)]
        return (self.axis.fill(others[choose(lengths, noise)], noise),)


@frozen
class Side:
    """One attribute of a table: each cell apart, or one range of cells."""

    name: str
    size: int
    apart: bool
    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many cells are in the range."""
        return self.stop - self.start


@frozen(eq=False)
class Table(Cells):
    """A table of counts: one atom for each combination of cells along the sides that are apart.

    What lies outside the range of another side is spare.
    """

    sides: tuple[Side, ...]

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]  # derived here, a field elsewhere
        return tuple(side.name for side in self.sides)

    @property
    def spare(self) -> bool:
        return any(side.length < side.size for side in self.sides)

    @property
    def _asked(self) -> int:
        return math.prod(side.size for side in self.sides if side.apart)

    @property
    def atoms(self) -> int:
        return self._asked + self.spare

    def locate(self, histogram: Counts) -> tuple[Ints, Ints]:
        codes, counts = histogram.records(self.names)
        cells = np.zeros(len(counts), dtype=np.int64)
        inside = np.ones(len(counts), dtype=bool)
        for side, code in zip(self.sides, codes, strict=True):
            if side.apart:
                cells = cells * side.size + code
            else:
                inside &= (code >= side.start) & (code < side.stop)
        return np.where(inside, cells, self._asked), counts.astype(np.int64)

    def fill(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        if atom == self._asked:
            return self._fill_outside(noise)
        cell: list[int] = []
        for side in reversed(self.sides):
            if side.apart:
                atom, code = divmod(atom, side.size)
            else:
                code = side.start + noise.uniform_below(side.length)
            cell.append(code)
        return tuple(reversed(cell))

    def _fill_outside(self, noise: NoiseSource) -> tuple[int, ...]:
        """A uniform cell outside some range, by the first of the sides that it misses."""
        sides = self.sides
        weights = [
            math.prod(side.length for side in sides[:first])
            * (sides[first].size - sides[first].length)
            * math.prod(side.size for side in sides[first + 1 :])
            for first in range(len(sides))
        ]
        first = choose(weights, noise)
        cell: list[int] = []
        for number, side in enumerate(sides):
            if number < first:
                cell.append(side.start + noise.uniform_below(side.length))
            elif number > first:
                cell.append(noise.uniform_below(side.size))
            else:
                code = noise.uniform_below(side.size - side.length)
                cell.append(code if code < side.start else code + side.length)
        return tuple(cell)
