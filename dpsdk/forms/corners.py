"""Sums over many boxes of one table, and the counts of the boxes that hold each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import frozen

from dpsdk.forms.blocks import tally
from dpsdk.typing import Floats, Ints

__all__ = ["CORNER_LIMIT", "Corners"]

CORNER_LIMIT = 2**8
"""A box of more corners is better answered in another way."""

_WIDE_LIMIT = 2**26
"""No table of running sums has more cells."""

_CHUNK = 2**16


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
        """What takes the fewest steps for so many boxes; None where it would take too much room."""
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
        """The corners of boxes as cells of the wide table, and their signs.

        The first is that of all starts. Each other differs from the one before in one axis, as in
        a Gray code. The array is the same every time, written anew.
        """
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
