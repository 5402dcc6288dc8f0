"""Boxes on many sets of attributes, a few on each, summed over records and not table by table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from dpsdk._records import frozen
from dpsdk.forms.blocks import Block, Kronecker
from dpsdk.forms.boxes import Boxes, worth_boxing
from dpsdk.forms.corners import RECORDS, added
from dpsdk.forms.slopes import InPieces
from dpsdk.typing import Floats, Ints

__all__ = ["Group", "Scattered"]

Group: TypeAlias = tuple[Block, "slice[int, int, None] | Ints"]
"""A block to evaluate, and the places of its functions in the answer."""

_MANY = 2**8
"""Fewer sets of attributes are left to their tables."""

_BOXES = 8
_CELLS = 2**12
"""A table takes as long as so many boxes, and as one more for each so many cells of it."""


@frozen(eq=False)
class Scattered:
    """Whole boxes on many sets of attributes.

    Whether a record is beyond an end is found once for each end that some box has along an
    attribute, and kept as one bit, as it is for boxes on one set.
    """

    names: tuple[str, ...]
    lows: Ints
    """Shape (2, ends): the number of an attribute, and the first cell of some box along it."""
    highs: Ints
    """The same with the first cell behind it."""
    low_of: Ints
    """Shape (attributes of a box, boxes): the number of an end."""
    high_of: Ints
    scales: Floats
    places: Ints

    @classmethod
    def of(cls, groups: tuple[Group, ...]) -> tuple[Scattered | None, tuple[Group, ...]]:
        """The groups that are better answered so, if they are many, and the others."""
        few: list[tuple[Boxes, slice[int, int, None] | Ints]] = []
        others: list[Group] = []
        for block, places in groups:
            if (boxes := _few(block)) is None:
                others.append((block, places))
            else:
                few.append((boxes, places))
        if len(few) < _MANY:
            return None, groups
        names = tuple(dict.fromkeys([name for block, _ in few for name in block.names]))
        number = {name: place for place, name in enumerate(names)}
        total = sum([block.rows for block, _ in few])
        shape = max([len(block.names) for block, _ in few]), total
        # What a box of fewer attributes lacks is true of all records.
        axes, starts = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        stops = np.full(shape, np.iinfo(np.int64).max)
        first = 0
        for block, _ in few:
            own = slice(len(block.names)), slice(first, first + block.rows)
            axes[own] = np.array([number[name] for name in block.names])[:, None]
            starts[own], stops[own] = block.starts, block.stops
            first += block.rows
        lows, low_of = _ends(axes, starts)
        highs, high_of = _ends(axes, stops)
        scales = np.concatenate([block.scales for block, _ in few])
        numbers = [
            np.arange(places.start, places.stop) if isinstance(places, slice) else places
            for _, places in few
        ]
        return cls(names, lows, highs, low_of, high_of, scales, np.concatenate(numbers)), tuple(
            others
        )

    def evaluate(self, counts: InPieces) -> Floats:
        """The boxes summed over counted records."""
        answers = np.zeros(len(self.scales))
        for codes, own in counts.pieces(self.names, RECORDS):
            beyond = [np.packbits(codes[axis] >= cell) for axis, cell in _pairs(self.lows)]
            before = [np.packbits(codes[axis] < cell) for axis, cell in _pairs(self.highs)]
            sides = [(np.stack(beyond), chosen) for chosen in self.low_of]
            sides += [(np.stack(before), chosen) for chosen in self.high_of]
            answers += added(sides, own)
        answers *= self.scales
        return answers


def _few(block: Block) -> Boxes | None:
    """Boxes that are quicker summed one by one than from a table."""
    if isinstance(block, Kronecker) and block.rows == 1 and block.names and worth_boxing(block):
        return Boxes.stack([block])
    if not isinstance(block, Boxes) or not block.whole:
        return None
    return block if block.rows <= _BOXES + math.prod(block.shape) // _CELLS else None


def _ends(axes: Ints, cells: Ints) -> tuple[Ints, Ints]:
    """The different pairs of an attribute and a cell, and the number of each pair among them."""
    pairs = np.stack([axes.reshape(-1), cells.reshape(-1)])
    found, numbers = np.unique(pairs, axis=1, return_inverse=True)
    return found, numbers.reshape(axes.shape)


def _pairs(ends: Ints) -> Iterator[tuple[int, int]]:
    axes, cells = ends.tolist()
    yield from zip(axes, cells, strict=True)
