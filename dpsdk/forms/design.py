"""Feature vectors: their coordinates, and the sums over all cells that a model's fit needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpsdk._arrays import ByNumbers, Lasting, frozen_copy
from dpsdk._checks import shown, to_count, to_name
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.factors import to_weights
from dpsdk.typing import Array, Floats, Ints

if TYPE_CHECKING:
    from dpsdk.forms.sets import ConvexSet

__all__ = [
    "Axis",
    "Coordinates",
    "Design",
    "axes_of",
    "block_of",
    "check_cells",
    "largest_norm",
    "longest",
]

CELL_LIMIT = 10**6
"""No model is fitted on more cells than this, labels counted."""

WEIGHT_LIMIT = 2**25
"""No design is written out with more numbers than this, 256 MiB of them."""


def _to_names(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InvalidArgument("names", "a sequence of names", shown(values))
    return tuple([to_name("names", value) for value in values])


@frozen
class Coordinates(Lasting):
    """Some coordinates of a feature vector, as numbers on the labels of some attributes.

    Parameters
    ----------
    names
        The attributes that they depend on, distinct; none for constants such as an intercept.
    values
        Finite, one axis for the coordinates and one for each name, as long as it has labels.
    """

    names: tuple[str, ...] = field(converter=_to_names)
    values: Floats = field(converter=to_weights, eq=ByNumbers)

    def __attrs_post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise InvalidArgument("names", "distinct", shown(self.names))
        if self.values.ndim != 1 + len(self.names) or not self.values.size:
            expected = "an array with an axis for the coordinates and one for each name"
            raise InvalidArgument("values", expected, f"shape {self.values.shape}")

    @property
    def width(self) -> int:
        """How many coordinates there are."""
        return len(self.values)

    def times(self, scale: float) -> Coordinates:
        """The same, each so many times as large."""
        return Coordinates(self.names, self.values * scale)

    def spread(self, names: Sequence[str]) -> Floats:
        """The numbers with an axis for each of some names in their order, of length 1 where idle.

        The names of the coordinates are among them.
        """
        left = [name for name in names if name in self.names]
        moved = self.values.transpose([0, *(1 + self.names.index(name) for name in left)])
        sizes = dict(zip(left, moved.shape[1:], strict=True))
        return moved.reshape(len(moved), *[sizes.get(name, 1) for name in names])


@frozen
class Axis:
    """Coordinates, by their places, that share attributes: one axis of a design."""

    names: tuple[str, ...]
    members: tuple[int, ...]


def axes_of(coordinates: Sequence[Coordinates]) -> list[Axis]:
    """Coordinates by the attributes that they share, directly or by way of others."""
    axes: list[Axis] = []
    for place, one in enumerate(coordinates):
        names, members = dict.fromkeys(one.names), [place]
        for axis in [axis for axis in axes if names.keys() & set(axis.names)]:
            axes.remove(axis)
            names = dict.fromkeys(axis.names) | names
            members = [*axis.members, *members]
        axes.append(Axis(tuple(names), tuple(sorted(members))))
    return axes


def block_of(axis: Axis, coordinates: Sequence[Coordinates]) -> Floats:
    """The feature vectors along one axis, an array (cells, coordinates)."""
    spread = [coordinates[place].spread(axis.names) for place in axis.members]
    shape = np.broadcast_shapes(*[part.shape[1:] for part in spread])
    wide = [np.broadcast_to(part, (len(part), *shape)) for part in spread]
    return np.asarray(np.concatenate(wide).reshape(-1, math.prod(shape)).T)


def longest(coordinates: Sequence[Coordinates]) -> float:
    """The largest Euclidean length of a feature vector of any record of the domain."""
    total = 0.0
    for axis in axes_of(coordinates):
        parts = [np.square(coordinates[place].spread(axis.names)) for place in axis.members]
        squares: Floats = sum([part.sum(axis=0) for part in parts], np.zeros(()))
        total += float(squares.max())
    return math.sqrt(total)


def largest_norm(blocks: Iterable[Floats]) -> float:
    """The largest Euclidean length of a row of each block, put one after the other."""
    return math.sqrt(sum(float(np.square(one).sum(axis=1).max()) for one in blocks))


def check_cells(names: Iterable[str], domain: Domain) -> None:
    """Refuse what depends on too many cells, before anything of that size is made."""
    cells = math.prod([domain[name].size for name in set(names)])
    if cells > CELL_LIMIT:
        advice = "use fewer attributes in one model, or coarser ones"
        raise TooLarge("a model", cells, CELL_LIMIT, "cells", advice)


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

    def __init__(self, blocks: Sequence[Array], *, labels: int = 1) -> None:
        own = tuple([_to_block(block) for block in blocks])
        if not own:
            raise InvalidArgument("blocks", "at least one block", "none")
        Design.require([block.shape for block in own], labels=labels)
        object.__setattr__(self, "blocks", own)

    @staticmethod
    def require(shapes: Sequence[tuple[int, ...]], *, labels: int = 1) -> int:
        """How many numbers a design of blocks of these shapes keeps, without building it."""
        cells = to_count("labels", labels) * math.prod(cells for cells, _ in shapes)
        if cells > CELL_LIMIT:
            advice = "touch fewer attributes, or coarser ones"
            raise TooLarge("a model", cells, CELL_LIMIT, "cells", advice)
        needed = _needed(shapes, _cut(shapes))
        if needed > WEIGHT_LIMIT:
            advice = "use fewer features, or coarser attributes"
            raise TooLarge("the features of a model", needed, WEIGHT_LIMIT, "numbers", advice)
        return needed

    def check(self, labels: int) -> None:
        """Refuse more labels than there is room for."""
        Design.require([block.shape for block in self.blocks], labels=labels)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each axis."""
        return tuple([len(block) for block in self.blocks])

    @property
    def cells(self) -> int:
        """The number of cells, each with one feature vector."""
        return math.prod(self.shape)

    @cached_property
    def features(self) -> int:
        """The number of features, and so of coefficients."""
        return sum([int(block.shape[1]) for block in self.blocks])

    @cached_property
    def norm(self) -> float:
        """The largest Euclidean length of a feature vector."""
        return largest_norm(self.blocks)

    @cached_property
    def _halves(self) -> tuple[Floats, Floats]:
        """The feature vectors of the first blocks and of the others, one row for each cell."""
        cut = _cut([block.shape for block in self.blocks])
        return _spread(self.blocks[:cut]), _spread(self.blocks[cut:])

    def reach(self, over: ConvexSet) -> tuple[float, float]:
        """The smallest and the largest margin of any cell and any coefficients of a set."""
        over.require(self.features)
        return over.reach(self.blocks)

    def seen(self, weights: Floats) -> list[Ints]:
        """The cells along each axis of some weight, of an array (labels, cells)."""
        there = weights.sum(axis=0).reshape(self.shape) > 0.0
        axes = range(there.ndim)
        return [
            np.flatnonzero(there.any(axis=tuple([other for other in axes if other != axis])))
            for axis in axes
        ]

    def rows(self) -> Floats:
        """All feature vectors, at most 2^25 numbers, written out: an array (cells, features)."""
        needed = self.cells * self.features
        if needed > WEIGHT_LIMIT:
            advice = "touch fewer attributes"
            raise TooLarge("a written design", needed, WEIGHT_LIMIT, "numbers", advice)
        return _spread(self.blocks)

    def margins(self, theta: Floats) -> Floats:
        """⟨θ, x⟩ of every cell, flat."""
        first, second = self._halves
        cut = first.shape[1]
        return np.add.outer(first @ theta[:cut], second @ theta[cut:]).reshape(-1)

    def gradient(self, slopes: Floats) -> Floats:
        """Σ slope·x over all cells, of one number a cell: an array of `features` numbers."""
        first, second = self._halves
        table = slopes.reshape(len(first), len(second))
        return np.concatenate([table.sum(axis=1) @ first, table.sum(axis=0) @ second])

    def hessian(self, curvatures: Floats) -> Floats:
        """Σ curvature·x xᵀ over all cells, of one number a cell."""
        first, second = self._halves
        table, cut = curvatures.reshape(len(first), len(second)), first.shape[1]
        result = np.empty((self.features, self.features))
        result[:cut, :cut] = (first * table.sum(axis=1)[:, None]).T @ first
        result[cut:, cut:] = (second * table.sum(axis=0)[:, None]).T @ second
        # The half with more cells last, since the first product is the one that costs.
        cross = (first.T @ table) @ second
        result[:cut, cut:], result[cut:, :cut] = cross, cross.T
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
    return frozen_copy(array)


def _cut(shapes: Sequence[tuple[int, ...]]) -> int:
    """After how many blocks to cut them in two, so that both halves together are smallest."""
    return min(range(1, len(shapes) + 1), key=lambda cut: _needed(shapes, cut))


def _needed(shapes: Sequence[tuple[int, ...]], cut: int) -> int:
    return sum(
        math.prod(cells for cells, _ in half) * (1 + sum(features for _, features in half))
        for half in (shapes[:cut], shapes[cut:])
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
