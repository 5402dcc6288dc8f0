"""The distribution of most entropy that fits noisy answers: a batch learnt again and again.

All answers that were released are fitted at once: the loss is the sum of their squared residuals,
each over its variance, and the weights of the cells are moved against its gradient by
multiplicative steps (mirror descent with the entropy; Beck and Teboulle 2003). A step is a step of
multiplicative weights along a sum of functions; its length is found by trying, so that the loss
falls by at least half of what its slope promises. It is public post-processing: what was released
is used as often as it takes, and costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Dense, Kronecker
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.typing import Floats

__all__ = ["FIT_LIMIT", "EntropicFit"]

FIT_LIMIT = 2**24
"""No universe with more cells is fitted, since each step makes several arrays of its size."""

_WRITTEN_LIMIT = 2**24
"""The most weights that a block of other than plain marginals is written out in."""

_TRIES = 25
_GROWTH = 1.5
_CLOSE = 1e-9

Axes: TypeAlias = tuple[int, ...]


@frozen(eq=False)
class _Released:
    """Answers to a block, in shares, and what a squared residual of one is worth."""

    axes: Axes
    matrix: Floats | None = field(repr=False)
    values: Floats = field(repr=False)
    worth: float

    def residuals(self, table: Floats) -> Floats:
        """By how much the answers of a table exceed these."""
        now = table.reshape(-1) if self.matrix is None else self.matrix @ table.reshape(-1)
        return now - self.values

    def gradient(self, residuals: Floats, shape: Sequence[int]) -> Floats:
        """Of half the loss, on the cells of the axes."""
        back = residuals if self.matrix is None else residuals @ self.matrix
        return (self.worth * back).reshape(shape)


class EntropicFit:
    """A distribution on a dense universe that is fitted to released answers, in place.

    It starts from the uniform distribution, and starts anew from where it was whenever answers were
    added. Not safe for use by several threads at once.

    Parameters
    ----------
    domain
        The universe, of at most 2^24 cells.
    outside
        Whether there is a cell outside the domain, where every function is zero.

    Raises
    ------
    TooLarge
        If the universe has more cells.
    """

    __slots__ = ("_domain", "_loss", "_released", "_step", "_tilts", "outside")

    def __init__(self, domain: Domain, *, outside: bool = False) -> None:
        if domain.size > FIT_LIMIT:
            advice = "declare fewer attributes, or coarser ones"
            raise TooLarge("a fit", domain.size, FIT_LIMIT, "cells", advice)
        self._domain = domain
        self.outside: bool = outside
        self._tilts: Floats = np.zeros(domain.shape)
        """The logarithms of the weights. That of the cell outside stays 0."""
        self._released: tuple[_Released, ...] = ()
        self._step = 0.0
        self._loss = math.inf

    @property
    def loss(self) -> float:
        """Half the sum of squared residuals, each over its variance, after the last run."""
        return self._loss

    def copy(self) -> EntropicFit:
        """A fit of its own that stands where this one does."""
        twin = EntropicFit.__new__(EntropicFit)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def add(self, block: Kronecker | Dense, shares: Floats, deviation: float) -> None:
        """Take note of released answers.

        Parameters
        ----------
        block
            The functions, over attributes of the domain.
        shares
            Their noisy answers as shares of the rows, shape (rows,).
        deviation
            The standard deviation of each, in shares, above 0.

        Raises
        ------
        InvalidArgument
            If there is not one finite share a function, or the deviation is not above 0.
        TooLarge
            If the block is no plain marginal, and has more than 2^24 weights.
        """
        values = np.array(shares, dtype=np.float64)
        if values.shape != (block.rows,) or not np.isfinite(values).all():
            raise InvalidArgument("shares", f"{block.rows} finite numbers", shown(shares))
        if not 0 < deviation < math.inf:
            raise InvalidArgument("deviation", "a finite number above 0", shown(deviation))
        self.check(block)
        places = [self._domain.position(name) for name in block.names]
        axes = tuple(sorted(places))
        order = [places.index(axis) for axis in axes]
        matrix: Floats | None = None
        if _plain(block):
            sizes = [self._domain.shape[place] for place in places]
            values = values.reshape(sizes).transpose(order).reshape(-1)
        else:
            matrix = self._written(block, axes, order)
        self._released += (_Released(axes, matrix, values, deviation**-2),)

    @staticmethod
    def check(block: Kronecker | Dense) -> None:
        """Refuse a block that `add` would refuse, whatever its answers.

        Raises
        ------
        TooLarge
            If it is no plain marginal, and has more than 2^24 weights.
        """
        if _plain(block):
            return
        size = block.rows * math.prod(block.shape)
        if size > _WRITTEN_LIMIT:
            advice = "ask for plain marginals, or for functions of fewer attributes"
            raise TooLarge("a block", size, _WRITTEN_LIMIT, "weights", advice)

    def _written(self, block: Kronecker | Dense, axes: Axes, order: Sequence[int]) -> Floats:
        shape = [self._domain.shape[axis] for axis in axes]
        codes = np.unravel_index(np.arange(math.prod(shape)), shape) if shape else ()
        named = {
            axis: np.asarray(code, dtype=np.int64) for axis, code in zip(axes, codes, strict=True)
        }
        by_place = [named[axes[order.index(place)]] for place in range(len(axes))]
        columns = block.columns(by_place)
        return np.ascontiguousarray(
            np.broadcast_to(columns, (block.rows, max(1, math.prod(shape))))
        )

    def run(self, steps: int) -> int:
        """Move the distribution towards the released answers, by at most so many steps.

        Returns
        -------
        int
            How many steps were made; fewer where the loss hardly falls any more.
        """
        released = self._released
        if not released:
            self._loss = 0.0
            return 0
        tilts, scale = self._tilts, self._step or 1.0 / sum(one.worth for one in released)
        weights = self._weights(tilts)
        loss, slope = self._slope(weights)
        for made in range(steps):
            for _ in range(_TRIES):
                moved = tilts - scale * slope
                other = self._weights(moved)
                later, steeper = self._slope(other)
                promised = float(np.vdot(slope, weights) - np.vdot(slope, other))
                if later <= loss - 0.5 * promised:
                    break
                scale *= 0.5
            else:
                break  # floats do not show any way down
            done = loss - later < _CLOSE * max(loss, 1.0)
            tilts, weights, loss, slope = moved, other, later, steeper
            scale *= _GROWTH
            if done:
                steps = made + 1
                break
        self._tilts, self._step, self._loss = tilts, scale, loss
        return steps

    def gap(self) -> float:
        """How far the loss may be above the least that any distribution has, at the most.

        The loss is convex, so that its slope bounds it from below (Frank and Wolfe 1956): a
        distribution on one cell is nowhere better than along the slope. Costs a step.
        """
        if not self._released:
            return 0.0
        weights = self._weights(self._tilts)
        _, slope = self._slope(weights)
        least = float(slope.min())
        return max(
            0.0, float(np.vdot(slope, weights)) - (min(least, 0.0) if self.outside else least)
        )

    def weights(self) -> Floats:
        """The probabilities of the cells inside the domain, shaped like it."""
        return self._weights(self._tilts)

    def hypothesis(self) -> DenseHypothesis:
        """The distribution as it stands, as a hypothesis of its own."""
        weights = self.weights()
        mass = max(0.0, 1.0 - float(weights.sum())) if self.outside else None
        return DenseHypothesis.from_weights(self._domain, weights, mass)

    def _weights(self, tilts: Floats) -> Floats:
        top = float(tilts.max())
        top = max(top, 0.0) if self.outside else top
        weights: Floats = np.exp(tilts - top)
        weights /= float(weights.sum()) + (math.exp(-top) if self.outside else 0.0)
        return weights

    def _slope(self, weights: Floats) -> tuple[float, Floats]:
        """Half the loss, and its gradient on all cells."""
        tables = _Tables(weights)
        loss = 0.0
        for one in self._released:
            residuals = one.residuals(tables.table(one.axes))
            loss += 0.5 * one.worth * float(residuals @ residuals)
            tables.push(one.axes, one.gradient(residuals, tables.table(one.axes).shape))
        return loss, tables.gradient()


class _Tables:
    """Marginal tables, each summed from a smaller one where that pays, and gradients back."""

    def __init__(self, weights: Floats) -> None:
        self._whole: Axes = tuple(range(weights.ndim))
        self._shape = weights.shape
        self._kept = weights.size // 4
        self._tables: dict[Axes, Floats] = {self._whole: weights}
        self._parents: dict[Axes, Axes] = {}
        self._slopes: dict[Axes, Floats] = {}

    def table(self, axes: Axes) -> Floats:
        known = self._tables.get(axes)
        if known is None:
            known = self._sum(axes)
        return known

    def _sum(self, axes: Axes) -> Floats:
        missing = [axis for axis in self._whole if axis not in axes]
        extra = min(missing, key=lambda axis: self._shape[axis])
        parent = tuple(sorted((*axes, extra)))
        if math.prod(self._shape[axis] for axis in parent) > self._kept:
            parent = self._whole
        table = self.table(parent)
        gone = tuple(place for place, axis in enumerate(parent) if axis not in axes)
        summed = np.asarray(table.sum(axis=gone))
        self._tables[axes], self._parents[axes] = summed, parent
        return summed

    def push(self, axes: Axes, slope: Floats) -> None:
        """Add a gradient on a table."""
        known = self._slopes.get(axes)
        self._slopes[axes] = slope if known is None else known + slope

    def gradient(self) -> Floats:
        """The sum of all gradients on the cells, each table's handed to its parent first."""
        total: Floats = np.zeros(self._shape)
        for axes in sorted(self._slopes.keys() | self._parents.keys(), key=len):
            slope = self._slopes.get(axes)
            if slope is None:
                continue
            parent = self._parents.get(axes)
            if parent is None:
                total += slope
                continue
            spread = slope.reshape([self._shape[a] if a in axes else 1 for a in parent])
            if parent == self._whole:
                total += spread
            elif parent in self._slopes:
                self._slopes[parent] = self._slopes[parent] + spread
            else:
                self._slopes[parent] = np.broadcast_to(
                    spread, [self._shape[axis] for axis in parent]
                )
        return total


def _plain(block: Kronecker | Dense) -> TypeGuard[Kronecker]:
    """Whether it is a plain marginal: each cell of its attributes by itself."""
    # Partitions may be coarser, and then they have fewer functions than cells.
    return isinstance(block, Kronecker) and block.partition and block.rows == math.prod(block.shape)
