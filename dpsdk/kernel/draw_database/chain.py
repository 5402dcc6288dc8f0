"""Small databases whose running counts along an order stay within bounds.

Bounds that rise along the order bind only where they are about to rise or have just risen, so that
of any number of atoms a few more than twice the records matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
from attrs import frozen

from dpsdk.kernel.draw_database.spread import multiset, sequence
from dpsdk.kernel.draw_database.ways import EMPTY, NOTHING, Ways, combine, free, split
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["Chain", "Course", "Step"]


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
        """Whether size·F - rows·G, or twice as much, may be too large for an array of int64."""
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
