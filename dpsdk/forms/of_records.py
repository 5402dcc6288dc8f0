"""Models over public records, each a cell of its own, where all cells are too many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Protocol, cast

import numpy as np
from typing_extensions import override

from dpsdk._records import field, frozen
from dpsdk.errors import TooLarge
from dpsdk.forms.blocks import numbered, tally
from dpsdk.forms.design import CELL_LIMIT, Axis, Design
from dpsdk.typing import Floats, Ints

__all__ = ["Listed", "RecordDesign", "design_of"]

_TABLE = 2**20
"""Two axes are tabulated on so many cells, at the most."""


class Listed(Protocol):
    """Public records with weights, such as those of a distribution that is `listed`."""

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        """Cell numbers along each named attribute, and the weight of each record."""
        ...


@frozen(init=False, eq=False)
class RecordDesign(Design):  # type: ignore[override]  # attrs types an init that is not there
    """The feature vectors of records, none of which is written out: their cells along each axis."""

    places: tuple[Ints, ...] = field(repr=False)

    def __init__(self, blocks: Sequence[Floats], places: Sequence[Ints]) -> None:
        object.__setattr__(self, "blocks", tuple(blocks))
        object.__setattr__(self, "places", tuple(places))

    @property
    @override
    def cells(self) -> int:
        return len(self.places[0])

    @override
    def check(self, labels: int) -> None:
        needed = self.cells * labels
        if needed > CELL_LIMIT:
            advice = "fit it on fewer records"
            raise TooLarge("a model", needed, CELL_LIMIT, "records and labels", advice)

    @override
    def seen(self, weights: Floats) -> list[Ints]:
        there = weights.sum(axis=0) > 0.0
        return [np.unique(place[there]) for place in self.places]

    @override
    def margins(self, theta: Floats) -> Floats:
        total, start = np.zeros(self.cells), 0
        for block, place in zip(self.blocks, self.places, strict=True):
            end = start + block.shape[1]
            total += (block @ theta[start:end]).take(place)
            start = end
        return total

    @override
    def gradient(self, slopes: Floats) -> Floats:
        pairs = zip(self.blocks, self.places, strict=True)
        return np.concatenate([tally(place, slopes, (len(one),)) @ one for one, place in pairs])

    @override
    def hessian(self, curvatures: Floats) -> Floats:
        result = np.empty((self.features, self.features))
        ends = np.cumsum([0, *[block.shape[1] for block in self.blocks]]).tolist()
        parts = [slice(start, end) for start, end in pairwise(ends)]
        axes = list(zip(parts, self.blocks, self.places, strict=True))
        for part, block, place in axes:
            sums = tally(place, curvatures, (len(block),))
            result[part, part] = (block * sums[:, None]).T @ block
        for (one, first, own), (two, second, other) in combinations(axes, 2):
            shape = len(first), len(second)
            if math.prod(shape) <= _TABLE:
                table = tally(own * shape[1] + other, curvatures, shape)
                cross = first.T @ table @ second
            else:
                cross = (first[own] * curvatures[:, None]).T @ second[other]
            result[one, two], result[two, one] = cross, cross.T
        return result


def design_of(
    tables: object, axes: Sequence[Axis], label: str, sizes: Sequence[int], blocks: Sequence[Floats]
) -> tuple[Design, Floats]:
    """A design of public records, and what each weighs, an array (labels, records).

    Records that have no label somewhere, or no weight, are left out; where there are no others, one
    of weight 0 is in it.

    Parameters
    ----------
    sizes
        How many labels each attribute of the axes has, and last the label itself.
    blocks
        The features along each axis.
    """
    if not getattr(tables, "listed", False):
        advice = "fit it on records, such as a mixture's synthesize() draws, or touch fewer ones"
        raise TooLarge("the attributes of a model", math.prod(sizes), CELL_LIMIT, "cells", advice)
    names = [name for axis in axes for name in axis.names]
    codes, weights = cast("Listed", tables).records((*names, label))
    there = weights != 0.0
    for code, size in zip(codes, sizes, strict=True):
        there &= code < size
    if not there.any():
        codes, weights = [np.zeros(1, dtype=np.int64) for _ in sizes], np.zeros(1)
        there = np.ones(1, dtype=np.bool_)
    own, weights = [code[there] for code in codes], weights[there]
    places: list[Ints] = []
    start = 0
    for axis in axes:
        end = start + len(axis.names)
        places.append(numbered(own[start:end], sizes[start:end], len(weights)))
        start = end
    design = RecordDesign(blocks, places)
    design.check(sizes[-1])
    table = np.zeros((sizes[-1], len(weights)))
    table[own[-1], np.arange(len(weights))] = weights
    return design, table
