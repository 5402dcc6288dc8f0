"""Factors: weights along one attribute, the pieces that Kronecker blocks are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import shown
from dpsdk._records import cmp_using, field, frozen
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.canonical import Line, line_of, runs_of
from dpsdk.forms.facts import Facts
from dpsdk.forms.move import Move
from dpsdk.typing import Array, Floats, Ints

__all__ = [
    "Factor",
    "Functions",
    "Weights",
    "half_up",
    "is_own",
    "owned",
    "rounded_half_up",
    "to_weights",
]

MATRIX_LIMIT = 2**24
"""No factor is written out with more weights than this."""

FACTOR_BYTES = 128

PAIR_LIMIT = 2**11
"""The most cells whose columns are all compared with each other."""

WEIGHT_LIMIT = 2**22
"""The most weights that are written out to compare columns."""


def to_weights(weights: Array) -> Floats:
    """A float64 copy of finite weights that stays as it is: prices are worked out once."""
    try:
        result = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("weights", "an array of finite numbers", shown(weights)) from None
    if not np.isfinite(result).all():
        raise InvalidArgument("weights", "finite numbers only", "NaN or infinity among them")
    return frozen_copy(result)


def half_up(weights: Floats) -> Floats:
    """Round to integers, halves upwards, so that equal shifts of the input move it equally."""
    return np.asarray(np.floor(weights + 0.5))


def rounded_half_up(weights: Floats, bits: int) -> tuple[Floats, float]:
    """Weights in units of 2**-bits, half-up, and the largest change, in the old unit."""
    rounded = half_up(weights * 2.0**bits)
    return rounded, float(np.abs(rounded * 2.0**-bits - weights).max())


class Functions(Lasting, ABC):
    """Linear functions of cells: what is asked of factors and of blocks alike."""

    __slots__ = ()

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of functions."""

    @property
    def partition(self) -> bool:
        """True if each cell counts once, in exactly one function, as in a plain marginal."""
        return False

    @property
    def counting(self) -> bool:
        """True if each function is a multiple of the indicator of ranges of cells; 1 in factors."""
        return False

    @abstractmethod
    def extents(self) -> tuple[Floats, Floats]:
        """The smallest and the largest weight of each function; two arrays of length `rows`."""

    def limits(self) -> tuple[float, float]:
        """The smallest and the largest weight of all."""
        low, high = self.extents()
        return float(low.min()), float(high.max())


class Factor(Functions):
    """Weights of `rows` functions on the `size` cells of one attribute.

    A subclass writes `size`, `rows` and `columns`; all other methods have defaults that follow from
    these. Privacy rests on its exact weights, so what a subclass of another author overwrites plays
    no part in a price or an answer.
    """

    __slots__ = ()
    size: int

    @abstractmethod
    def columns(self, codes: Ints) -> Floats:
        """The weights at the given cells, an array (rows, len(codes))."""

    def matrix(self) -> Floats:
        """All weights, an array (rows, size); `TooLarge` if these are more than 2^24."""
        needed = self.rows * self.size
        if needed > MATRIX_LIMIT:
            advice = "use a range of labels, or a coarser attribute"
            raise TooLarge("a factor", needed, MATRIX_LIMIT, "weights", advice)
        return self.columns(np.arange(self.size))

    @property
    def nbytes(self) -> int:
        """Roughly how many bytes it takes."""
        return FACTOR_BYTES

    @property
    def ranges(self) -> tuple[Ints, Ints] | None:
        """The first cell of each function's range, and the first cell behind it, if `counting`."""
        return None

    @property
    def span(self) -> slice | None:
        """The cells that a single function counts, where they are a range; None otherwise."""
        return None

    @property
    def integral(self) -> bool:
        """True if all weights are integers."""
        weights = self.matrix()
        return bool((weights == np.rint(weights)).all())

    def extents(self) -> tuple[Floats, Floats]:
        weights = self.matrix()
        return weights.min(axis=1), weights.max(axis=1)

    @property
    def reach(self) -> float:
        """No sum of weights of one record exceeds this while the factor is applied; at least 1."""
        low, high = self.limits()
        return max(-low, high, 1.0)

    def apply(self, table: Floats, axis: int) -> Floats:
        """Replace the axis of cells of a table by an axis of answers."""
        return _times(self.matrix(), table, axis)

    def adjoint(self, table: Floats, axis: int) -> Floats:
        """Replace an axis of functions of a table by one of cells: the transpose of `apply`."""
        return _times(self.matrix().T, table, axis)

    def column_norms(self, power: int) -> Floats:
        """The sum of |weight| ** power over the functions, for each cell."""
        return np.asarray((np.abs(self.matrix()) ** power).sum(axis=0))

    def row_norms(self, power: int) -> Floats:
        """The sum of |weight| ** power over the cells, for each function; of power 0 their number.

        Only weights other than zero count.
        """
        weights = self.matrix()
        if power == 2:
            return np.asarray(np.einsum("rn,rn->r", weights, weights))
        return np.asarray(
            (np.abs(weights) if power else weights != 0).sum(axis=1, dtype=np.float64)
        )

    def deviations(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The absolute mean of the weights of each function, and how far they are from their mean.

        The sum of the squares of these deviations, the largest, and how many are not zero. Arrays
        of length `rows`, or of one where all functions are alike.
        """
        weights = self.matrix()
        mean = weights.mean(axis=1)
        beside = weights - mean[:, None]
        squares: Floats = np.einsum("rs,rs->r", beside, beside)
        counts = (beside != 0).sum(axis=1).astype(np.float64)
        return np.abs(mean), squares, np.abs(beside).max(axis=1), counts

    def largest_norms(self) -> tuple[float, float]:
        """The largest sum of absolute weights of a column, and of squares."""
        return float(self.column_norms(1).max()), float(self.column_norms(2).max())

    def products(self) -> tuple[float, float]:
        """The least and the largest scalar product of two columns, or bounds of them."""
        if self.size <= PAIR_LIMIT and self.rows * self.size <= WEIGHT_LIMIT:
            weights = self.matrix()
            gram = weights.T @ weights
            return float(gram.min()), float(gram.max())
        largest = self.largest_norms()[1]
        return (0.0 if self.limits()[0] >= 0 else -largest), largest

    def move(self, scale: float, facts: Facts) -> Move | None:
        """How far one row moves the answers of this factor alone, where a theorem says it."""
        del scale, facts
        return None

    def knots(self) -> Ints | None:
        """Cells between which each function is a straight line, with the first and the last one.

        In order; None for all cells.
        """
        return None

    def at(self, cells: Ints) -> Factor:
        """The same functions of some cells alone, given in order."""
        return Weights(self.columns(cells))

    def row(self, number: int) -> Factor:
        """The factor of one function of this one."""
        return Weights(self.matrix()[number : number + 1])

    def simplified(self) -> Factor:
        """An equal factor of the simplest class."""
        return self

    def coarsened(self, codes: Ints) -> tuple[Factor, Ints]:
        """A factor of fewer cells, where it tells not all apart, and cell numbers among these."""
        return self, codes

    def classes(self) -> Ints | None:
        """A number for each cell, the same where all functions weigh alike; None if all differ."""
        if self.rows >= self.size:
            return None
        return np.unique(self.matrix(), axis=1, return_inverse=True)[1].reshape(-1)

    def times(self, scale: float) -> Factor:
        """The same, each weight so many times as large."""
        return Weights(self.matrix() * scale)

    def rounded(self, bits: int) -> tuple[Factor, float]:
        """The weights in units of 2**-bits, half-up, and the largest change, in the old unit."""
        rounded, change = rounded_half_up(self.matrix(), bits)
        return Weights(rounded), change

    def lines(self, axis: int) -> list[Line]:
        """The canonical text of each function, on the attribute of that place in a domain."""
        return [line_of(row, axis) for row in self.matrix()]

    def lines_within(self, axis: int, size: int, first: int) -> list[Line]:
        """The same of functions that weigh so from a cell on, of so many cells, and zero beside."""
        stop = first + self.size
        cells = np.arange(first, stop)
        return [runs_of(row, axis, size, cells, stop) for row in self.matrix()]


@frozen
class Weights(Factor):
    """Any weights, an array (rows, size)."""

    weights: Floats = field(converter=to_weights, eq=cmp_using(eq=np.array_equal), hash=False)

    def __attrs_post_init__(self) -> None:
        if self.weights.ndim != 2 or 0 in self.weights.shape:
            expected = "an array of shape (functions, cells)"
            raise InvalidArgument("weights", expected, f"shape {self.weights.shape}")

    @property
    def size(self) -> int:  # type: ignore[override]  # read-only here, a field elsewhere
        return int(self.weights.shape[1])

    @property
    def rows(self) -> int:
        return int(self.weights.shape[0])

    @property
    def nbytes(self) -> int:
        return FACTOR_BYTES + int(self.weights.nbytes)

    def columns(self, codes: Ints) -> Floats:
        return self.weights[:, codes]

    def matrix(self) -> Floats:
        return self.weights


def _times(matrix: Floats, table: Floats, axis: int) -> Floats:
    return np.asarray(np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis))


@cache
def is_own(kind: type) -> bool:
    """True if a class is one of this package, whose extremes are proven."""
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def owned(factor: Factor) -> Factor:
    """A factor of another author by its exact weights, at most 2^24, as prices rest on them."""
    if not isinstance(factor, Factor):
        raise InvalidArgument("factors", "factors of dpsdk.forms", shown(factor))
    shape = factor.rows, factor.size
    weights = Weights(Factor.matrix(factor))
    if weights.weights.shape != shape:
        expected = f"weights of shape {shape}, as its size says"
        raise InvalidArgument("factors", expected, f"shape {weights.weights.shape}")
    return weights
