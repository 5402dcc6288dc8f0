"""Thresholds of one ordered attribute, counted along the running counts of its atoms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Literal, cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.base import Aim, Effort
from dpsdk.kernel.draw_database.bounds import Coverage, ThresholdCoverage
from dpsdk.kernel.draw_database.ways import EMPTY, NOTHING, Ways, combine, free, split, spread
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["NearThresholds", "Axis", "Chain", "Course", "Step", "Thresholds"]


@frozen(eq=False)
class Axis:
    """Cells 0 to `size` - 1 of an attribute, in consecutive pieces that end before `ends`.

    None stands for one piece a cell, so that an attribute of 2**62 cells is as good as a small one.
    """

    name: str
    size: int
    ends: Ints | None

    @classmethod
    def cut(cls, name: str, size: int, cuts: Iterable[int]) -> Axis:
        """Pieces that begin and end at the given cells, at 0 and at `size`."""
        inner = {int(cut) for cut in cuts if 0 < cut < size}
        if len(inner) == size - 1:
            return cls(name, size, None)
        return cls(name, size, np.array([*sorted(inner), size], dtype=np.int64))

    @property
    def pieces(self) -> int:
        """How many there are."""
        return self.size if self.ends is None else len(self.ends)

    def locate(self, codes: Ints) -> Ints:
        """The piece that each cell belongs to."""
        if self.ends is None:
            return codes
        return np.searchsorted(self.ends, codes, side="right").astype(np.int64, copy=False)

    def span(self, piece: int) -> tuple[int, int]:
        """The first cell of a piece, and the one after its last."""
        if self.ends is None:
            return piece, piece + 1
        return int(self.ends[piece - 1]) if piece else 0, int(self.ends[piece])

    def fill(self, piece: int, noise: NoiseSource) -> int:
        """A uniform cell of a piece."""
        start, stop = self.span(piece)
        return start + noise.uniform_below(stop - start)


@frozen
class Step:
    """So many atoms in a row, and how many records may lie in these and all before."""

    atoms: int
    low: int
    high: int


@frozen(eq=False)
class Chain:
    """Small databases that keep to steps, counted forwards: `tables[i]` after i steps."""

    steps: Sequence[Step]
    tables: Sequence[Ways]
    ordered: bool

    @classmethod
    def along(cls, steps: Sequence[Step], *, ordered: bool) -> Chain:
        """Count them."""
        tables = [EMPTY]
        for step in steps:
            before, ways = tables[-1], NOTHING
            if before.counts:
                more = free(step.atoms, max(0, step.high - before.low), ordered=ordered)
                ways = combine(before, more, step.low, step.high, ordered=ordered)
            tables.append(ways)
        return cls(steps, tables, ordered)

    @property
    def ways(self) -> Ways:
        """The ways for each number of records in all."""
        return self.tables[-1]

    @cached_property
    def _starts(self) -> list[int]:
        """The first atom of each step."""
        return [0, *accumulate(step.atoms for step in self.steps)]

    def sample(self, records: int, noise: NoiseSource, steps: int | None = None) -> list[int]:
        """The atoms of a uniform way for so many records along all or the first steps, in order."""
        found: list[int] = []
        for number in reversed(range(len(self.steps) if steps is None else steps)):
            records, moved = self.step_back(number, self.tables[number], records, noise)
            found += moved
        return sorted(found)

    def step_back(
        self, number: int, before: Ways, records: int, noise: NoiseSource
    ) -> tuple[int, list[int]]:
        """How many of the records lie before a step, and the atoms of those in it."""
        atoms, start = self.steps[number].atoms, self._starts[number]
        more = free(atoms, records - before.low, ordered=self.ordered)
        records, moved = split(before, more, records, noise, ordered=self.ordered)
        return records, [start + atom for atom in spread(atoms, moved, noise, ordered=self.ordered)]


@frozen(eq=False)
class Course:
    """The running counts of a private table along its atoms: a step function of the atom.

    The count after atom j is `counts[i]` for the last i with `starts[i]` <= j; `starts[0]` is 0.
    """

    atoms: int
    aim: Aim
    starts: Ints
    counts: Ints

    @classmethod
    def of(cls, axis: Axis, histogram: Counts, aim: Aim) -> Course:
        """Those along an attribute."""
        (codes,), weights = histogram.records((axis.name,))
        occupied, inverse = np.unique(axis.locate(codes), return_inverse=True)
        summed = np.zeros(len(occupied), dtype=np.int64)
        np.add.at(summed, inverse, weights.astype(np.int64))
        counts = np.cumsum(summed)
        if not len(occupied) or occupied[0] > 0:
            occupied, counts = np.append(0, occupied), np.append(0, counts)
        return cls(axis.pieces, aim, occupied.astype(np.int64), counts.astype(np.int64))

    def checks(self, below: int, above: int) -> Ints:
        """The atoms, but for the last, after which bounds on size·F - rows·G bind, in order.

        F and G are the running counts of the table and of the small database, and the difference
        is to stay from `below` to `above` after each atom but the last.
        """
        last, size, rows = self.atoms - 1, self.aim.size, self.aim.rows
        if not rows or not last:
            return np.zeros(0, dtype=np.int64)
        records = self._exact(np.arange(size)) * rows
        # The first atom after which more than so many records are needed.
        least = self._found((records + above) // size + 1, "left")
        rises = self.starts[least[least < len(self.starts)]]
        # The last atom after which no more than so many records are allowed.
        most = self._found((records + (rows + below - 1)) // size, "right")
        ends = np.append(self.starts, last)[most[most > 0]]
        return np.unique(np.concatenate([rises[rises < last], np.minimum(ends, last) - 1]))

    def _exact(self, numbers: Ints) -> Ints:
        """Integers that do not overflow: Python's own where size·F - rows·G, or twice it, may."""
        large = self.aim.size * (self.aim.rows + 1) >= 1 << 60
        return cast("Ints", numbers.astype(np.object_)) if large else numbers

    def _found(self, counts: Ints, side: Literal["left", "right"]) -> Ints:
        inside = np.clip(counts, -1, self.aim.rows + 1).astype(np.int64)
        return np.searchsorted(self.counts, inside, side=side)

    def chain(self, below: int, above: int, checks: Ints | None = None) -> Chain:
        """The small databases that stay within bounds after all atoms but the last.

        Its steps are between the given atoms, and from the last of them to the end, which is free.
        """
        if checks is None:
            checks = self.checks(below, above)
        size, rows, steps = self.aim.size, self.aim.rows, [Step(self.atoms, 0, self.aim.size)]
        if len(checks):
            done = np.array([0, *(checks + 1).tolist(), self.atoms], dtype=np.int64)
            runs = np.searchsorted(self.starts, checks, side="right") - 1
            counts = self._exact(self.counts[runs]) * size
            needed = np.maximum(-((above - counts) // rows), 0).tolist()
            allowed = np.minimum((counts - below) // rows, size).tolist()
            bounds = zip(np.diff(done).tolist(), [*needed, 0], [*allowed, size], strict=True)
            steps = [Step(*step) for step in bounds]
        return Chain.along(steps, ordered=self.aim.ordered)

    def extremes(self, records: Sequence[int], *, last: bool) -> tuple[int, int]:
        """The least and the largest of size·F - rows·G, after the atoms and before the first.

        `records` are the atoms of the small database. Whether after the `last` atom, too.
        """
        ours = np.array(records, dtype=np.int64)
        ours.sort()
        places = np.unique(np.concatenate([self.starts, ours]))
        if not last:
            # What holds after the last atom but one has begun before.
            places = places[places < self.atoms - 1]
        table = self.counts[np.searchsorted(self.starts, places, side="right") - 1]
        small = np.searchsorted(ours, places, side="right")
        gaps = self._exact(table) * self.aim.size - self._exact(small) * self.aim.rows
        return int(gaps.min(initial=0)), int(gaps.max(initial=0))


@frozen(eq=False)
class Thresholds:
    """How many records lie at or before the end of each piece of an axis, but for the last."""

    axis: Axis
    spare = True

    @property
    def names(self) -> tuple[str, ...]:
        return (self.axis.name,)

    @property
    def atoms(self) -> int:
        return self.axis.pieces

    def coverage(self, atoms: int) -> Coverage:
        del atoms
        return ThresholdCoverage()

    def profile(self, histogram: Counts, aim: Aim) -> NearThresholds:
        return NearThresholds(Course.of(self.axis, histogram, aim))

    def fill(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        return (self.axis.fill(atom, noise),)

    def effort(self, aim: Aim, width: int) -> Effort:
        steps = min(2 * aim.size, self.atoms) + 1
        return Effort(steps, steps * width * width // 2, steps * width)


@frozen(eq=False)
class NearThresholds:
    """A private table as these functions see it, and the small databases near it."""

    course: Course

    def _chain(self, level: int) -> Chain:
        reach = level * self.course.aim.size
        return self.course.chain(-reach, reach)

    def ways(self, level: int) -> Ways:
        return self._chain(level).ways

    def sample(self, level: int, records: int, noise: NoiseSource) -> list[int]:
        return self._chain(level).sample(records, noise)

    def score(self, atoms: Sequence[int]) -> int:
        low, high = self.course.extremes(atoms, last=False)
        return self.course.aim.score(max(-low, high))
