"""Thresholds of one ordered attribute, counted along the running counts of its atoms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database import coverage
from dpsdk.kernel.draw_database.base import Aim, Effort, Part, Profile
from dpsdk.kernel.draw_database.coverage import Coverage
from dpsdk.kernel.draw_database.ways import (
    EMPTY,
    NOTHING,
    Ways,
    combine,
    free,
    multiset,
    sequence,
    split,
)
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["Axis", "Chain", "Course", "Step", "Thresholds", "course"]


@frozen(eq=False)
class Axis:
    """Cells 0 to `size` - 1 of an attribute, in `pieces` consecutive pieces.

    `ends` has the end of each piece, not included in it; None stands for one piece a cell, so that
    an attribute of 2**62 cells is as good as a small one.
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
class Course:
    """The running counts of a private table along its atoms: a step function of the atom.

    The count after atom j is `counts[i]` for the last i with `starts[i]` <= j; `starts[0]` is 0.
    `size` is that of the small database.
    """

    atoms: int
    rows: int
    size: int
    starts: Ints
    counts: Ints

    @classmethod
    def of(cls, atoms: int, rows: int, size: int, where: Ints, weights: Ints) -> Course:
        """Of counts at atoms, in any order."""
        occupied, inverse = np.unique(where, return_inverse=True)
        summed = np.zeros(len(occupied), dtype=np.int64)
        np.add.at(summed, inverse, weights)
        counts = np.cumsum(summed)
        if not len(occupied) or occupied[0] > 0:
            occupied, counts = np.append(0, occupied), np.append(0, counts)
        return cls(atoms, rows, size, occupied.astype(np.int64), counts.astype(np.int64))

    def checks(self, below: int, above: int) -> Ints:
        """The atoms, but for the last, after which bounds on size·F - rows·G bind, in order.

        F and G are the running counts of the table and of the small database, and the difference
        is to stay from `below` to `above` after each atom but the last.
        """
        last = self.atoms - 1
        if not self.rows or not last:
            return np.zeros(0, dtype=np.int64)
        records = self._exact(np.arange(self.size)) * self.rows
        # The first atom after which more than so many records are needed.
        least = self._found((records + above) // self.size + 1, "left")
        rises = self.starts[least[least < len(self.starts)]]
        # The last atom after which no more than so many records are allowed.
        most = self._found((records + (self.rows + below - 1)) // self.size, "right")
        ends = np.append(self.starts, last)[most[most > 0]]
        return np.unique(np.concatenate([rises[rises < last], np.minimum(ends, last) - 1]))

    @property
    def _large(self) -> bool:
        """True if size·F - rows·G, or twice as much, may be too large for an array of int64."""
        return self.size * (self.rows + 1) >= 1 << 60

    def _exact(self, numbers: Ints) -> Ints:
        """Integers that do not overflow: where they may, Python's own."""
        return cast("Ints", numbers.astype(np.object_)) if self._large else numbers

    def _found(self, counts: Ints, side: Literal["left", "right"]) -> Ints:
        inside = np.clip(counts, -1, self.rows + 1).astype(np.int64)
        return np.searchsorted(self.counts, inside, side=side)

    def steps(self, checks: Ints, below: int, above: int) -> list[Step]:
        """The steps between such atoms, and from the last of them to the end, which is free."""
        done = [0, *(checks + 1).tolist()]
        lengths = np.diff(np.array([*done, self.atoms], dtype=np.int64)).tolist()
        if not len(checks):
            return [Step(self.atoms, 0, self.size)]
        runs = np.searchsorted(self.starts, checks, side="right") - 1
        counts = self._exact(self.counts[runs]) * self.size
        needed = np.maximum(-((above - counts) // self.rows), 0).tolist()
        allowed = np.minimum((counts - below) // self.rows, self.size).tolist()
        bounds = zip(lengths, [*needed, 0], [*allowed, self.size], strict=True)
        return [Step(*step) for step in bounds]

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
        gaps = self._exact(table) * self.size - self._exact(small) * self.rows
        if not len(gaps):
            return 0, 0
        return min(0, int(gaps.min())), max(0, int(gaps.max()))


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
            before = tables[-1]
            if not before.counts:
                tables.append(NOTHING)
                continue
            more = free(step.atoms, max(0, step.high - before.low), ordered=ordered)
            tables.append(combine(before, more, step.low, step.high, ordered=ordered))
        return cls(steps, tables, ordered)

    @property
    def ways(self) -> Ways:
        """The ways for each number of records in all."""
        return self.tables[-1]

    def sample(self, records: int, noise: NoiseSource) -> list[int]:
        """The atoms of a uniform way for so many records, in order."""
        return self.unwind(len(self.steps), records, noise)

    def unwind(self, steps: int, records: int, noise: NoiseSource) -> list[int]:
        """The atoms of a uniform way of so many records along the first steps."""
        found: list[int] = []
        end = sum(step.atoms for step in self.steps[:steps])
        for number in reversed(range(steps)):
            step = self.steps[number]
            end -= step.atoms
            before = self.tables[number]
            more = free(step.atoms, records - before.low, ordered=self.ordered)
            records, moved = split(before, more, records, noise, ordered=self.ordered)
            spread = sequence if self.ordered else multiset
            found += [end + atom for atom in spread(step.atoms, moved, noise)] if moved else []
        return sorted(found)


def course(axis: Axis, histogram: Counts, aim: Aim) -> Course:
    """The running counts of a private table along an attribute."""
    (codes,), counts = histogram.records((axis.name,))
    return Course.of(axis.pieces, aim.rows, aim.size, axis.locate(codes), counts.astype("int64"))


@frozen(eq=False)
class Thresholds(Part):
    """How many records lie at or before the end of each piece of an axis, but for the last."""

    axis: Axis

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]  # derived here, a field elsewhere
        return (self.axis.name,)

    @property
    def atoms(self) -> int:
        return self.axis.pieces

    @property
    def spare(self) -> bool:
        return True

    def coverage(self, atoms: int) -> Coverage:
        del atoms
        return coverage.Thresholds()

    def profile(self, histogram: Counts, aim: Aim) -> Profile:
        return _Near(course(self.axis, histogram, aim), aim)

    def fill(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        return (self.axis.fill(atom, noise),)

    def effort(self, aim: Aim, width: int) -> Effort:
        steps = min(2 * aim.size, self.atoms) + 1
        return Effort(steps, steps * width * width // 2, steps * width)


@frozen(eq=False)
class _Near(Profile):
    course: Course
    aim: Aim

    def ways(self, level: int) -> Ways:
        return self._chain(level).ways

    def _chain(self, level: int) -> Chain:
        reach = level * self.aim.size
        checks = self.course.checks(-reach, reach)
        steps = self.course.steps(checks, -reach, reach)
        return Chain.along(steps, ordered=self.aim.ordered)

    def sample(self, level: int, records: int, noise: NoiseSource) -> list[int]:
        return self._chain(level).sample(records, noise)

    def score(self, atoms: Sequence[int]) -> int:
        low, high = self.course.extremes(atoms, last=False)
        return self.aim.score(max(-low, high))
