"""Boxes: many conjunctions of ranges on the same attributes, by sums over corners."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import frozen

from dpsdk.forms.blocks import Block, Kronecker, tally
from dpsdk.forms.factors import Range
from dpsdk.typing import Floats, Ints

__all__ = ["Boxes", "worth_boxing"]

CORNER_LIMIT = 2**8
"""A box of more corners is better answered in another way."""

_CHUNK = 2**18


@frozen(eq=False)
class Boxes(Block):
    """Indicators of boxes, each times a scale: one range of cells for each name.

    A box is summed over a table from the running sums at its corners, so its size does not matter.
    `starts` and `stops` have shape (names, boxes).
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    starts: Ints
    stops: Ints
    scales: Floats

    @classmethod
    def stack(cls, blocks: Sequence[Kronecker]) -> Boxes:
        """Gather one-row blocks of ranges that share their names."""
        pairs = [
            [(factor.start, factor.stop) for factor in block.factors if isinstance(factor, Range)]
            for block in blocks
        ]
        ends = np.array(pairs, dtype=np.int64)
        scales = np.array([block.scale for block in blocks])
        starts = np.ascontiguousarray(ends[:, :, 0].T)
        # An empty range has no corners of its own; both ends at its start cancel.
        stops = np.maximum(ends[:, :, 1].T, starts)
        return cls(blocks[0].names, blocks[0].shape, starts, stops, scales)

    @property
    def nbytes(self) -> int:
        arrays = (self.starts, self.stops, self.scales)
        return super().nbytes + sum([array.nbytes for array in arrays])

    @property
    def rows(self) -> int:
        return len(self.scales)

    @property
    def integral(self) -> bool:
        return bool((self.scales == np.rint(self.scales)).all())

    @property
    def reach(self) -> float:
        # Corners are added and subtracted, up to so many whole tables, and the sum is scaled last.
        return max(float(np.abs(self.scales).max()), 2.0 ** len(self.names))

    def extents(self) -> tuple[Floats, Floats]:
        full = ((self.starts <= 0) & (self.stops >= np.array(self.shape)[:, None])).all(axis=0)
        empty = (self.starts >= self.stops).any(axis=0)
        always = np.where(full & ~empty, self.scales, 0.0)
        somewhere = np.where(empty, 0.0, self.scales)
        return np.minimum(always, somewhere), np.maximum(always, somewhere)

    def answer(self, table: Floats) -> Floats:
        sums = np.pad(table, [(1, 0)] * table.ndim)
        for axis in range(table.ndim):
            np.cumsum(sums, axis=axis, out=sums)
        flat = sums.reshape(-1)
        answers = np.zeros(self.rows)
        for start in range(0, self.rows, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            for sign, cells in self._corners(chunk):
                answers[chunk] += sign * flat[cells]
        answers *= self.scales
        return answers

    def _corners(self, chunk: slice) -> Iterator[tuple[float, Ints]]:
        """The corners of the boxes as cells of a table with one more cell along each axis."""
        ends = (self.starts[:, chunk], self.stops[:, chunk])
        for choice in itertools.product((0, 1), repeat=len(self.names)):
            cells = np.zeros(ends[0].shape[1], dtype=np.int64)
            for axis, side in enumerate(choice):
                cells = cells * (self.shape[axis] + 1) + ends[side][axis]
            yield (1.0 if sum(choice) % 2 == len(choice) % 2 else -1.0), cells

    def answer_records(self, codes: Sequence[Ints], counts: Floats) -> Floats:
        answers = np.empty(self.rows)
        for row in range(self.rows):
            inside = np.ones(len(counts), dtype=bool)
            for axis, code in enumerate(codes):
                inside &= (code >= self.starts[axis, row]) & (code < self.stops[axis, row])
            answers[row] = counts[inside].sum()
        answers *= self.scales
        return answers

    def columns(self, codes: Sequence[Ints]) -> Floats:
        inside = np.ones((self.rows, len(codes[0])), dtype=bool)
        for axis, code in enumerate(codes):
            inside &= (self.starts[axis][:, None] <= code) & (code < self.stops[axis][:, None])
        return inside * self.scales[:, None]

    def column_norms(self, power: int) -> Floats:
        # Boxes are counted by what changes at their corners, then summed up again.
        wide = tuple(size + 1 for size in self.shape)
        weights = self.scales * self.scales if power == 2 else np.abs(self.scales)
        # An empty box would add and take away at one corner, which may round off all others.
        weights = np.where((self.starts >= self.stops).any(axis=0), 0.0, weights)
        norms = np.zeros(wide)
        for part in self._parts(weights):
            norms += self._spread(part, wide)
        return norms[tuple(slice(0, size) for size in self.shape)]

    def _parts(self, weights: Floats) -> list[Floats]:
        """Weights that add up to these, each small enough for exact sums where all are integers.

        What is added at one corner and taken away at another would else round off what lies
        between, by what all boxes weigh together and not by what a cell does.
        """
        if not self.integral:
            return [weights]
        corners = 2.0 ** len(self.names)
        unit = 2.0 ** math.floor(math.log2(2.0**53 / (corners * self.rows)))
        parts: list[Floats] = []
        end = unit
        while weights.any():
            low = np.fmod(weights, end)
            parts.append(low)
            weights, end = weights - low, end * unit
        return parts

    def _spread(self, weights: Floats, wide: tuple[int, ...]) -> Floats:
        """For each cell the sum of the weights of the boxes that hold it."""
        changes = np.zeros(wide)
        for start in range(0, self.rows, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            for sign, cells in self._corners(chunk):
                changes += tally(cells, sign * weights[chunk], wide)
        if len(self.names) % 2:
            changes = -changes
        for axis in range(changes.ndim):
            np.cumsum(changes, axis=axis, out=changes)
        return changes


def worth_boxing(block: Kronecker) -> bool:
    """Whether corners are fewer than cells, and few."""
    corners = 2 ** len(block.names)
    plain = all(isinstance(factor, Range) for factor in block.factors)
    return plain and corners <= min(CORNER_LIMIT, math.prod(block.shape))
