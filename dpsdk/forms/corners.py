"""Sums over many boxes of a table or of records, and of the boxes that hold each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpsdk._records import frozen
from dpsdk.forms.blocks import tally
from dpsdk.typing import Array, Floats, Ints

__all__ = ["CORNER_LIMIT", "Corners", "counted_within"]

CORNER_LIMIT = 2**8
"""A box of more corners is better answered in another way."""

_WIDE_LIMIT = 2**26
"""No table of running sums has more cells."""

_CHUNK = 2**16

_RECORDS = 2**13
_BOXES = 2**12
_ADDED = 2**6
"""So many records and boxes are looked at together, and so many boxes added up: a few MiB each."""

Bits: TypeAlias = npt.NDArray[np.uint8]
"""One bit a record, eight in a byte, the first of them the highest."""

_Side: TypeAlias = tuple[Ints, Ints]
"""Ends that some boxes have along an attribute, and which of them each box has."""


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
                    table = _ranges_along(table, axis) if listed else _running(table, axis)
        flat = table.reshape(-1)
        answers = np.zeros(starts.shape[1])
        for chunk in _chunks(starts.shape[1]):
            for sign, cells in self._places(starts[:, chunk], stops[:, chunk]):
                if sign > 0:
                    answers[chunk] += flat[cells]
                else:
                    answers[chunk] -= flat[cells]
        if self.listed.count(False) % 2:
            np.negative(answers, out=answers)
        answers[(starts >= stops).any(axis=0)] = 0.0
        return answers

    def held(self, weights: Floats, starts: Ints, stops: Ints) -> Floats:
        """For each cell the sum of the weights of the boxes that hold it. None may be empty."""
        changes = np.zeros(self.wide)
        for chunk in _chunks(len(weights)):
            for sign, cells in self._places(starts[:, chunk], stops[:, chunk]):
                found = tally(cells, weights[chunk], self.wide)
                if sign > 0:
                    changes += found
                else:
                    changes -= found
        for axis, listed in enumerate(self.listed):
            if listed:
                changes = _from_ranges_along(changes, axis, self.shape[axis])
            else:
                np.cumsum(changes, axis=axis, out=changes)
                changes = changes.take(np.arange(self.shape[axis]), axis=axis)
        return changes

    def _places(self, starts: Ints, stops: Ints) -> Iterator[tuple[int, Ints]]:
        """The corners of boxes as cells of the wide table, and their signs."""
        cells = np.zeros(starts.shape[1], dtype=np.int64)
        lengths: list[Ints] = []
        stride = math.prod(self.wide)
        for axis, (size, wide, listed) in enumerate(
            zip(self.shape, self.wide, self.listed, strict=True)
        ):
            stride //= wide
            start, stop = starts[axis], stops[axis]
            if listed:
                # Ranges are listed by where they start, then by how long they are. What an empty
                # one finds is not used.
                place = start * (2 * size - start + 1) // 2 + (stop - start - 1)
                cells += np.clip(place, 0, wide - 1) * stride
            else:
                cells += start * stride
                lengths.append((stop - start) * stride)
        sign, at = 1, 0
        yield sign, cells
        for number in range(1, 1 << len(lengths)):
            axis = (number & -number).bit_length() - 1
            if at >> axis & 1:
                cells -= lengths[axis]
            else:
                cells += lengths[axis]
            at ^= 1 << axis
            sign = -sign
            yield sign, cells


def _chunks(boxes: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, boxes, _CHUNK)]


def _cut(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


def _running(table: Floats, axis: int) -> Floats:
    """Sums of all cells before each, and of all at the end."""
    shape = [size + (place == axis) for place, size in enumerate(table.shape)]
    sums = np.zeros(shape)
    np.cumsum(table, axis=axis, out=sums[_cut(axis, slice(1, None))])
    return sums


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
    """For each box the sum of the counts of the records in it.

    Whether a record lies beyond an end is found once for each end that some box has, and kept as
    one bit; a box takes two look-ups of such bits an attribute, and then one for each byte of them,
    in a table of what eight records count together.

    Parameters
    ----------
    starts, stops
        Of shape (attributes, boxes): the first cells, and the first behind.
    codes
        For each attribute the cells of the records.
    counts
        What each record counts.
    """
    answers = np.zeros(starts.shape[1])
    for first in range(0, len(answers), _BOXES):
        boxes = slice(first, first + _BOXES)
        sides = [
            (_ends(start[boxes]), _ends(stop[boxes]))
            for start, stop in zip(starts, stops, strict=True)
        ]
        for place in range(0, len(counts), _RECORDS):
            records = slice(place, place + _RECORDS)
            packed = [
                (
                    _packed(code[records] >= low[0][:, None]),
                    _packed(code[records] < high[0][:, None]),
                )
                for code, (low, high) in zip(codes, sides, strict=True)
            ]
            chosen = [(low[1], high[1]) for low, high in sides]
            answers[boxes] += _added(packed, chosen, _eights(counts[records]))
    return answers


def _ends(cells: Ints) -> _Side:
    ends, chosen = np.unique(cells, return_inverse=True)
    return ends, chosen.reshape(-1)


def _packed(flags: Array) -> Bits:
    return np.packbits(flags, axis=1)


def _eights(counts: Floats) -> Floats:
    """The count of each choice among eight records in a row, shape (bytes, 256)."""
    padded = np.zeros((-(-len(counts) // 8), 8))
    padded.reshape(-1)[: len(counts)] = counts
    choices = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    return padded @ choices.T.astype(np.float64)


def _added(
    packed: Sequence[tuple[Bits, Bits]], chosen: Sequence[tuple[Ints, Ints]], eights: Floats
) -> Floats:
    """The counts of those records that are in a box along every attribute."""
    answers = np.empty(len(chosen[0][0]))
    flat, offsets = eights.reshape(-1), np.arange(len(eights)) * 256
    for first in range(0, len(answers), _ADDED):
        some = slice(first, first + _ADDED)
        inside = np.full((len(answers[some]), len(eights)), 255, dtype=np.uint8)
        for (above, below), (low, high) in zip(packed, chosen, strict=True):
            inside &= above[low[some]]
            inside &= below[high[some]]
        answers[some] = flat.take(offsets + inside).sum(axis=1)
    return answers
