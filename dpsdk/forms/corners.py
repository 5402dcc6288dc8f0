"""Sums over many boxes of a table or of records, and of the boxes that hold each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpsdk._records import frozen
from dpsdk.forms.blocks import tally
from dpsdk.forms.ranges import running
from dpsdk.typing import Array, Floats, Ints

__all__ = ["CORNER_LIMIT", "RECORDS", "Corners", "added", "counted_within"]

CORNER_LIMIT = 2**8
"""A box of more corners is better answered in another way."""

_WIDE_LIMIT = 2**26
"""No table of running sums has more cells."""

_CHUNK = 2**16

RECORDS = 2**13
_BOXES = 2**12
_ADDED = 2**6
"""So many records and boxes are looked at together, and so many boxes added up: a few MiB each."""

Bits: TypeAlias = npt.NDArray[np.uint8]
"""One bit a record, eight in a byte, the first of them the highest."""


@frozen
class Corners:
    """How boxes are summed: from running sums at their corners, and of short axes all ranges.

    Along an axis of `listed` the sums of all its ranges are tabled, so that a box finds its own;
    along the others running sums are, of which a box takes the difference at its ends. Each axis
    that is listed halves the corners of a box and makes the table larger.
    """

    shape: tuple[int, ...]
    listed: tuple[bool, ...]

    @classmethod
    def best(cls, shape: tuple[int, ...], boxes: int) -> Corners | None:
        """The way with the fewest steps for so many boxes; None where it takes too much room."""
        axes = sorted(range(len(shape)), key=shape.__getitem__)
        cells, corners = math.prod(size + 1 for size in shape), 2 ** len(shape)
        found, least = None, math.inf
        for count in range(len(axes) + 1):
            if count:
                size = shape[axes[count - 1]]
                cells, corners = cells // (size + 1) * (size * (size + 1) // 2), corners // 2
            if cells > _WIDE_LIMIT:
                break
            steps = cells * len(shape) + boxes * corners
            if corners <= CORNER_LIMIT and steps < least:
                found, least = count, steps
        if found is None:
            return None
        return cls(shape, tuple([axis in axes[:found] for axis in range(len(shape))]))

    @property
    def wide(self) -> tuple[int, ...]:
        """The shape of the table of sums."""
        pairs = zip(self.shape, self.listed, strict=True)
        return tuple([size * (size + 1) // 2 if listed else size + 1 for size, listed in pairs])

    def sums(self, table: Floats, starts: Ints, stops: Ints) -> Floats:
        """The sum of a table over each box. An empty box has none, whatever its corners say."""
        for listing in (False, True):
            for axis, listed in enumerate(self.listed):
                if listed is listing:
                    table = _ranges_along(table, axis) if listed else running(table, axis)
        flat = table.reshape(-1)
        answers = np.zeros(starts.shape[1])
        for chunk, sign, cells in self._places(starts, stops):
            answers[chunk] += sign * flat[cells]
        if self.listed.count(False) % 2:
            np.negative(answers, out=answers)
        answers[(starts >= stops).any(axis=0)] = 0.0
        return answers

    def held(self, weights: Floats, starts: Ints, stops: Ints) -> Floats:
        """For each cell the sum of the weights of the boxes that hold it. None may be empty."""
        changes = np.zeros(self.wide)
        for chunk, sign, cells in self._places(starts, stops):
            changes += sign * tally(cells, weights[chunk], self.wide)
        for axis, listed in enumerate(self.listed):
            if listed:
                changes = _from_ranges_along(changes, axis, self.shape[axis])
            else:
                np.cumsum(changes, axis=axis, out=changes)
                changes = changes.take(np.arange(self.shape[axis]), axis=axis)
        return changes

    def _places(self, starts: Ints, stops: Ints) -> Iterator[tuple[slice, float, Ints]]:
        """The corners of boxes, some of these at a time, as cells of the wide table; and signs."""
        for first in range(0, starts.shape[1], _CHUNK):
            chunk = slice(first, first + _CHUNK)
            cells = np.zeros(len(starts[0][chunk]), dtype=np.int64)
            lengths: list[Ints] = []
            stride = math.prod(self.wide)
            axes = zip(self.shape, self.wide, self.listed, starts, stops, strict=True)
            for size, wide, listed, every_start, every_stop in axes:
                stride //= wide
                start, stop = every_start[chunk], every_stop[chunk]
                if listed:
                    # Ranges are listed by where they start, then by how long they are. What an
                    # empty one finds is not used.
                    place = start * (2 * size - start + 1) // 2 + (stop - start - 1)
                    cells += np.clip(place, 0, wide - 1) * stride
                else:
                    cells += start * stride
                    lengths.append((stop - start) * stride)
            sign, at = 1.0, 0
            yield chunk, sign, cells
            for number in range(1, 1 << len(lengths)):
                axis = (number & -number).bit_length() - 1
                cells += -lengths[axis] if at >> axis & 1 else lengths[axis]
                at, sign = at ^ 1 << axis, -sign
                yield chunk, sign, cells


def _cut(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


def _ranges_along(table: Floats, axis: int) -> Floats:
    """Sums of all ranges of cells along an axis."""
    size = table.shape[axis]
    parts: Sequence[Floats] = [
        np.cumsum(table[_cut(axis, slice(start, None))], axis=axis) for start in range(size)
    ]
    return parts[0] if size == 1 else np.concatenate(parts, axis=axis)


def _from_ranges_along(weights: Floats, axis: int, size: int) -> Floats:
    """For each cell along an axis the sum of the weights of the ranges that hold it."""
    shape = [size if place == axis else length for place, length in enumerate(weights.shape)]
    held, first = np.zeros(shape), 0
    for start in range(size):
        own = np.flip(weights[_cut(axis, slice(first, first + size - start))], axis=axis)
        held[_cut(axis, slice(start, None))] += np.flip(np.cumsum(own, axis=axis), axis=axis)
        first += size - start
    return held


def counted_within(starts: Ints, stops: Ints, codes: Sequence[Array], counts: Floats) -> Floats:
    """For each box, with ends of shape (attributes, boxes), the sum of counts of records in it.

    Whether a record lies beyond an end is found once for each end that some box has, and kept as
    one bit; a box takes two look-ups of such bits an attribute, and then one for each byte of them,
    in a table of what eight records count together.
    """
    answers = np.zeros(starts.shape[1])
    for first in range(0, len(answers), _BOXES):
        boxes = slice(first, first + _BOXES)
        lows = [np.unique(start[boxes], return_inverse=True) for start in starts]
        highs = [np.unique(stop[boxes], return_inverse=True) for stop in stops]
        for place in range(0, len(counts), RECORDS):
            own = [code[place : place + RECORDS] for code in codes]
            sides = [
                (np.packbits(code >= ends[:, None], axis=1), chosen.reshape(-1))
                for code, (ends, chosen) in zip(own, lows, strict=True)
            ] + [
                (np.packbits(code < ends[:, None], axis=1), chosen.reshape(-1))
                for code, (ends, chosen) in zip(own, highs, strict=True)
            ]
            answers[boxes] += added(sides, counts[place : place + RECORDS])
    return answers


def added(sides: Sequence[tuple[Bits, Ints]], counts: Floats) -> Floats:
    """The counts of those records that are on the sides that each box chooses."""
    padded = np.zeros((-(-len(counts) // 8), 8))
    padded.reshape(-1)[: len(counts)] = counts
    choices = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    eights = (padded @ choices.T.astype(np.float64)).reshape(-1)
    offsets = np.arange(len(padded)) * 256
    answers = np.empty(len(sides[0][1]))
    for first in range(0, len(answers), _ADDED):
        some = slice(first, first + _ADDED)
        inside = np.full((len(answers[some]), len(padded)), 255, dtype=np.uint8)
        for bits, chosen in sides:
            inside &= bits[chosen[some]]
        answers[some] = eights.take(offsets + inside).sum(axis=1)
    return answers
