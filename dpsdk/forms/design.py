"""Features of every cell of a universe, and the sums over cells that a model's fit needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import field, frozen

from dpsdk._arrays import Lasting, kept
from dpsdk._checks import shown, to_count
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.typing import Array, Floats

if TYPE_CHECKING:
    from dpsdk.forms.sets import ConvexSet

__all__ = ["Design"]

CELL_LIMIT = 10**6
"""No model is fitted on more cells than this, labels counted."""

WEIGHT_LIMIT = 2**25
"""No design is written out with more numbers than this, 256 MiB of them."""


@frozen(eq=False)
class _Half(Lasting):
    """The features of one half of the blocks, one row for each cell of these."""

    rows: Floats = field(converter=kept, repr=False)
    start: int
    """The first coefficient of this half."""

    @property
    def cells(self) -> int:
        return len(self.rows)

    @property
    def end(self) -> int:
        width: int = self.rows.shape[1]
        return self.start + width


@frozen(init=False, eq=False)
class Design(Lasting):
    """The feature vector of every cell of a product of attributes, without it being written out.

    The cells are those of a product of axes, in C order: the last axis varies fastest. Each axis
    has a block of features, and the feature vector of a cell is the row of every block at the
    cell's place on that axis, put one after the other. So a one-hot attribute is the identity, a
    numeric one a column, an interaction one block on the product of its attributes, and any
    features at all are a single block. A model's margins are sums over the axes, its gradient comes
    from sums over all axes but one, and its Hessian from sums over all but two.

    Parameters
    ----------
    blocks
        Each an array (cells of the axis, features of the axis) of finite numbers. They are copied.
    labels
        How many labels each cell is to have. It counts for the limit only.

    Raises
    ------
    InvalidArgument
        If a block is no such array.
    TooLarge
        If cells times labels are more than 10^6, or if working with the design would take more
        than 2^25 numbers. `Design.require` tells from the shapes alone.

    >>> import numpy as np
    >>> from dpsdk.forms import Design
    >>> design = Design([np.eye(3), [[0.0, 1.0], [0.5, 1.0]]])
    >>> design.cells, design.features, design.rows()[3].tolist()
    (6, 5, [0.0, 1.0, 0.0, 0.5, 1.0])
    """

    blocks: tuple[Floats, ...] = field(repr=False)
    shape: tuple[int, ...]
    """The number of cells along each axis."""
    features: int
    """The number of features, and so of coefficients."""
    norm: float
    """The largest Euclidean length of a feature vector."""
    _halves: tuple[_Half, _Half] = field(repr=False)

    def __init__(self, blocks: Sequence[Array], *, labels: int = 1) -> None:
        kept = [_to_block(block) for block in blocks]
        if not kept:
            raise InvalidArgument("blocks", "at least one block", "none")
        Design.require([(len(block), block.shape[1]) for block in kept], labels=labels)
        longest = sum(float(np.square(block).sum(axis=1).max()) for block in kept)
        cut = _cut([(len(block), block.shape[1]) for block in kept])
        object.__setattr__(self, "blocks", tuple(kept))
        object.__setattr__(self, "shape", tuple(len(block) for block in kept))
        object.__setattr__(self, "features", sum(block.shape[1] for block in kept))
        object.__setattr__(self, "norm", math.sqrt(longest))
        first = _Half(_spread(kept[:cut]), 0)
        object.__setattr__(self, "_halves", (first, _Half(_spread(kept[cut:]), first.end)))

    @staticmethod
    def require(shapes: Sequence[tuple[int, int]], *, labels: int = 1) -> int:
        """How many numbers a design of blocks of these shapes keeps, without building it.

        Raises
        ------
        TooLarge
            If that is too many, or the cells times labels are.
        """
        cells = to_count("labels", labels) * math.prod(cells for cells, _ in shapes)
        if cells > CELL_LIMIT:
            advice = "touch fewer attributes, or coarser ones"
            raise TooLarge("a model", cells, CELL_LIMIT, "cells", advice)
        needed = _needed(shapes, _cut(shapes))
        if needed > WEIGHT_LIMIT:
            advice = "use fewer features, or coarser attributes"
            raise TooLarge("the features of a model", needed, WEIGHT_LIMIT, "numbers", advice)
        return needed

    @property
    def cells(self) -> int:
        """The number of cells, each with one feature vector."""
        return math.prod(self.shape)

    def reach(self, over: ConvexSet) -> tuple[float, float]:
        """The smallest and the largest margin of any cell and any coefficients of a set."""
        over.require(self.features)
        return over.reach(self.blocks)

    def rows(self) -> Floats:
        """All feature vectors, written out: an array (cells, features).

        Raises
        ------
        TooLarge
            If these are more than 2^25 numbers.
        """
        needed = self.cells * self.features
        if needed > WEIGHT_LIMIT:
            advice = "touch fewer attributes"
            raise TooLarge("a written design", needed, WEIGHT_LIMIT, "numbers", advice)
        return _spread(self.blocks)

    def margins(self, theta: Floats) -> Floats:
        """⟨θ, x⟩ of every cell, flat."""
        first, second = self._halves
        one = first.rows @ theta[: first.end]
        other = second.rows @ theta[first.end :]
        return np.add.outer(one, other).reshape(-1)

    def gradient(self, slopes: Floats) -> Floats:
        """Σ slope·x over all cells, of one number a cell: an array of `features` numbers."""
        first, second = self._halves
        table = slopes.reshape(first.cells, second.cells)
        return np.concatenate([table.sum(axis=1) @ first.rows, table.sum(axis=0) @ second.rows])

    def hessian(self, curvatures: Floats) -> Floats:
        """Σ curvature·x xᵀ over all cells, of one number a cell."""
        first, second = self._halves
        table = curvatures.reshape(first.cells, second.cells)
        result = np.empty((self.features, self.features))
        cut = first.end
        for half, sums in ((first, table.sum(axis=1)), (second, table.sum(axis=0))):
            result[half.start : half.end, half.start : half.end] = _weighted(half.rows, sums)
        # The half with more cells last, since the first product is the one that costs.
        cross = (first.rows.T @ table) @ second.rows
        result[:cut, cut:] = cross
        result[cut:, :cut] = cross.T
        return result

    def joined(self, weights: Floats) -> tuple[Design, Floats]:
        """The design with equal rows of a block made one, and weights (labels, cells) added up.

        Models of the one and of the other are the same, and the joined one is smaller.
        """
        table = weights.reshape(-1, *self.shape)
        blocks: list[Floats] = []
        for axis, block in enumerate(self.blocks):
            distinct, places = np.unique(block, axis=0, return_inverse=True)
            if len(distinct) == len(block):
                blocks.append(block)
                continue
            order = np.argsort(places.reshape(-1), kind="stable")
            starts = np.searchsorted(places.reshape(-1)[order], np.arange(len(distinct)))
            table = np.add.reduceat(np.take(table, order, axis=axis + 1), starts, axis=axis + 1)
            blocks.append(distinct)
        if all(len(one) == len(other) for one, other in zip(blocks, self.blocks, strict=True)):
            return self, weights
        return Design(blocks), np.ascontiguousarray(table.reshape(len(weights), -1))


def _to_block(block: Array) -> Floats:
    expected = "arrays (cells, features) of finite numbers, with at least one cell"
    try:
        array = np.array(block, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidArgument("blocks", expected, shown(block)) from None
    if array.ndim != 2 or not len(array):
        raise InvalidArgument("blocks", expected, f"an array of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidArgument("blocks", expected, "NaN or infinity among them")
    return kept(array)


def _cut(shapes: Sequence[tuple[int, int]]) -> int:
    """After how many blocks to cut them in two, so that both halves together are smallest."""
    return min(range(1, len(shapes) + 1), key=lambda cut: _needed(shapes, cut))


def _needed(shapes: Sequence[tuple[int, int]], cut: int) -> int:
    halves = (shapes[:cut], shapes[cut:])
    return sum(
        math.prod(cells for cells, _ in half) * (1 + sum(features for _, features in half))
        for half in halves
    )


def _spread(blocks: Sequence[Floats]) -> Floats:
    """The feature vectors of a product of blocks, one row a cell."""
    shape = [len(block) for block in blocks]
    parts: list[Floats] = []
    for axis, block in enumerate(blocks):
        places = [len(block) if place == axis else 1 for place in range(len(shape))]
        width = block.shape[1]
        parts.append(np.broadcast_to(block.reshape([*places, width]), (*shape, width)))
    if not parts:
        return np.zeros((1, 0))
    return np.concatenate(parts, axis=-1).reshape(math.prod(shape), -1)


def _weighted(rows: Floats, weights: Floats) -> Floats:
    product: Floats = (rows * weights[:, None]).T @ rows
    return product
