"""Factors: weights along one attribute, the pieces that Kronecker blocks are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import Lasting, kept
from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.convolution import causal
from dpsdk.typing import Array, Floats, Ints

__all__ = [
    "Factor",
    "Groups",
    "Identity",
    "Prefix",
    "Range",
    "Residual",
    "Toeplitz",
    "Weights",
    "simplest",
    "to_weights",
]

MATRIX_LIMIT = 2**24
"""No factor is written out with more weights than this."""


def to_weights(weights: Array) -> Floats:
    """A float64 copy of finite weights that stays as it is: prices are worked out once."""
    try:
        result = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("weights", "an array of finite numbers", shown(weights)) from None
    if not np.isfinite(result).all():
        raise InvalidArgument("weights", "finite numbers only", "NaN or infinity among them")
    return kept(result)


def simplest(factor: Factor) -> Factor:
    """Groups of one cell each as these cells, and a group of all cells as their range."""
    if type(factor) is Groups and factor.width == 1:
        return Identity(factor.size)
    if type(factor) is Groups and factor.width == factor.size:
        return Range(factor.size, 0, factor.size)
    return factor


def half_up(weights: Floats) -> Floats:
    """Round to integers, halves upwards, so that equal shifts of the input move it equally."""
    rounded: Floats = np.floor(weights + 0.5)
    return rounded


_FACTOR_BYTES = 128


class Factor(Lasting, ABC):
    """Weights of `rows` functions on the `size` cells of one attribute."""

    __slots__ = ()
    size: int

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of functions."""

    @property
    def integral(self) -> bool:
        """Whether all weights are integers."""
        return True

    @property
    def nbytes(self) -> int:
        """Roughly how many bytes it takes."""
        return _FACTOR_BYTES

    @abstractmethod
    def extents(self) -> tuple[Floats, Floats]:
        """The smallest and the largest weight of each function; two arrays of length `rows`."""

    def limits(self) -> tuple[float, float]:
        """The smallest and the largest weight of all."""
        low, high = self.extents()
        return float(low.min()), float(high.max())

    @property
    def reach(self) -> float:
        """No sum of weights of one record exceeds this while the factor is applied; at least 1."""
        low, high = self.limits()
        return max(-low, high, 1.0)

    @abstractmethod
    def apply(self, table: Floats, axis: int) -> Floats:
        """Replace the axis of cells of a table by an axis of answers."""

    @abstractmethod
    def columns(self, codes: Ints) -> Floats:
        """The weights at the given cells, an array (rows, len(codes))."""

    @abstractmethod
    def row(self, number: int) -> Factor:
        """The factor of one function of this one."""

    def matrix(self) -> Floats:
        """All weights, an array (rows, size).

        Raises
        ------
        TooLarge
            If that is more than can reasonably be written out.
        """
        needed = self.rows * self.size
        if needed > MATRIX_LIMIT:
            advice = "use a range of labels, or a coarser attribute"
            raise TooLarge("a factor", needed, MATRIX_LIMIT, "weights", advice)
        return self.columns(np.arange(self.size))

    def column_norms(self, power: int) -> Floats:
        """The sum of |weight| ** power over the functions, for each cell."""
        result: Floats = (np.abs(self.matrix()) ** power).sum(axis=0)
        return result


@frozen
class Identity(Factor):
    """One function a cell: its indicator."""

    size: int

    @property
    def rows(self) -> int:
        return self.size

    def extents(self) -> tuple[Floats, Floats]:
        low, high = self.limits()
        return np.full(self.size, low), np.full(self.size, high)

    def limits(self) -> tuple[float, float]:
        return float(self.size == 1), 1.0

    def row(self, number: int) -> Range:
        return Range(self.size, number, number + 1)

    def apply(self, table: Floats, axis: int) -> Floats:
        del axis
        return table

    def columns(self, codes: Ints) -> Floats:
        result: Floats = (np.arange(self.size)[:, None] == codes).astype(np.float64)
        return result

    def column_norms(self, power: int) -> Floats:
        del power
        return np.ones(self.size)


@frozen
class Groups(Factor):
    """One function for each run of `width` neighbouring cells, of which the last may be shorter."""

    size: int
    width: int

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.width <= self.size:
            expected = f"from 1 to the {self.size} cells that there are"
            raise InvalidArgument("width", expected, str(self.width))

    @property
    def rows(self) -> int:
        return -(-self.size // self.width)

    def extents(self) -> tuple[Floats, Floats]:
        low, high = self.limits()
        return np.full(self.rows, low), np.full(self.rows, high)

    def limits(self) -> tuple[float, float]:
        return float(self.width == self.size), 1.0

    def row(self, number: int) -> Range:
        start = number * self.width
        return Range(self.size, start, min(start + self.width, self.size))

    def apply(self, table: Floats, axis: int) -> Floats:
        starts = np.arange(0, self.size, self.width)
        result: Floats = np.add.reduceat(table, starts, axis=axis)
        return result

    def columns(self, codes: Ints) -> Floats:
        groups = codes // self.width
        result: Floats = (np.arange(self.rows)[:, None] == groups).astype(np.float64)
        return result

    def column_norms(self, power: int) -> Floats:
        del power
        return np.ones(self.size)


@frozen
class Prefix(Factor):
    """One function a cell: the indicator of this cell and all before it."""

    size: int

    @property
    def rows(self) -> int:
        return self.size

    def extents(self) -> tuple[Floats, Floats]:
        low = np.zeros(self.size)
        low[-1] = 1.0
        return low, np.ones(self.size)

    def row(self, number: int) -> Range:
        return Range(self.size, 0, number + 1)

    def apply(self, table: Floats, axis: int) -> Floats:
        result: Floats = np.cumsum(table, axis=axis)
        return result

    def columns(self, codes: Ints) -> Floats:
        result: Floats = (np.arange(self.size)[:, None] >= codes).astype(np.float64)
        return result

    def column_norms(self, power: int) -> Floats:
        del power
        return np.arange(self.size, 0, -1, dtype=np.float64)


@frozen
class Residual(Factor):
    """One function a cell: its count times the number of cells, less the count of all of them.

    The matrix is n I - J, of integers: n times the projection on what sums to zero. Of one cell
    nothing is left, and its function is zero.
    """

    size: int

    @property
    def rows(self) -> int:
        return self.size

    def extents(self) -> tuple[Floats, Floats]:
        low, high = self.limits()
        return np.full(self.size, low), np.full(self.size, high)

    def limits(self) -> tuple[float, float]:
        return (-1.0, self.size - 1.0) if self.size > 1 else (0.0, 0.0)

    @property
    def reach(self) -> float:
        # Counts are multiplied before their sum is taken off.
        return float(self.size)

    def row(self, number: int) -> Weights:
        return Weights(self._at(np.arange(number, number + 1), np.arange(self.size)))

    def apply(self, table: Floats, axis: int) -> Floats:
        result: Floats = table * float(self.size)
        result -= table.sum(axis=axis, keepdims=True)
        return result

    def columns(self, codes: Ints) -> Floats:
        return self._at(np.arange(self.size), codes)

    def _at(self, rows: Ints, codes: Ints) -> Floats:
        result: Floats = np.where(rows[:, None] == codes, self.size - 1.0, -1.0)
        return result if self.size > 1 else np.zeros_like(result)

    def column_norms(self, power: int) -> Floats:
        others = self.size - 1.0
        return np.full(self.size, others * (self.size if power == 2 else 2))


@frozen
class Range(Factor):
    """The indicator of the cells from `start` up to, not including, `stop`."""

    size: int
    start: int
    stop: int

    def __attrs_post_init__(self) -> None:
        # A slice would read a negative end from the back.
        if not 0 <= self.start <= self.stop <= self.size:
            expected = f"0 <= start <= stop <= {self.size}"
            raise InvalidArgument("start and stop", expected, f"{self.start} and {self.stop}")

    @property
    def rows(self) -> int:
        return 1

    def extents(self) -> tuple[Floats, Floats]:
        low, high = self.limits()
        return np.array([low]), np.array([high])

    def limits(self) -> tuple[float, float]:
        full = self.start <= 0 and self.stop >= self.size
        return float(full), float(self.start < self.stop)

    def row(self, number: int) -> Range:
        del number
        return self

    def apply(self, table: Floats, axis: int) -> Floats:
        index = (slice(None),) * axis + (slice(self.start, self.stop),)
        result: Floats = table[index].sum(axis=axis, keepdims=True)
        return result

    def columns(self, codes: Ints) -> Floats:
        inside = (codes >= self.start) & (codes < self.stop)
        return inside.astype(np.float64)[None, :]

    def column_norms(self, power: int) -> Floats:
        del power
        indicator: Floats = self.matrix()[0]
        return indicator


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
        return _FACTOR_BYTES + int(self.weights.nbytes)

    @property
    def integral(self) -> bool:
        return bool((self.weights == np.rint(self.weights)).all())

    def extents(self) -> tuple[Floats, Floats]:
        return self.weights.min(axis=1), self.weights.max(axis=1)

    def row(self, number: int) -> Weights:
        return Weights(self.weights[number : number + 1])

    def apply(self, table: Floats, axis: int) -> Floats:
        result: Floats = np.moveaxis(np.tensordot(self.weights, table, axes=(1, axis)), 0, axis)
        return result

    def columns(self, codes: Ints) -> Floats:
        return self.weights[:, codes]

    def matrix(self) -> Floats:
        return self.weights

    def times(self, scale: float) -> Weights:
        """The same, each so many times as large."""
        return Weights(self.weights * scale)

    def rounded(self, bits: int) -> tuple[Weights, float]:
        """The weights in units of 2**-bits, half-up, and the largest change, in the old unit."""
        rounded, change = _rounded(self.weights, bits)
        return Weights(rounded), change


@frozen
class Toeplitz(Factor):
    """One function a cell: weighted sums of this cell and all before it, by their distance.

    The cell itself weighs the first number of the line, the one before it the second, and so on:
    the matrix (cells, cells) is lower triangular, and its first column is the line. It is not
    written out, and evaluated in time that grows with the number of cells times its logarithm.

    Parameters
    ----------
    line
        As many finite numbers as there are cells.

    Notes
    -----
    Sums of integers within 2**53 are exact: docs/explanation/proofs/convolution.md.
    """

    line: Floats = field(converter=to_weights, eq=cmp_using(eq=np.array_equal), hash=False)

    def __attrs_post_init__(self) -> None:
        if self.line.ndim != 1 or not len(self.line):
            raise InvalidArgument("line", "a list of at least one number", shown(self.line.shape))

    @property
    def size(self) -> int:  # type: ignore[override]  # read-only here, a field elsewhere
        return len(self.line)

    @property
    def rows(self) -> int:
        return len(self.line)

    @property
    def nbytes(self) -> int:
        return _FACTOR_BYTES + int(self.line.nbytes)

    @property
    def integral(self) -> bool:
        return bool((self.line == np.rint(self.line)).all())

    def extents(self) -> tuple[Floats, Floats]:
        low, high = np.minimum.accumulate(self.line), np.maximum.accumulate(self.line)
        # All but the last function weigh some later cell by nothing.
        low[:-1], high[:-1] = np.minimum(low[:-1], 0.0), np.maximum(high[:-1], 0.0)
        return low, high

    def row(self, number: int) -> Weights:
        weights = np.zeros((1, self.size))
        weights[0, : number + 1] = self.line[number::-1]
        return Weights(weights)

    def apply(self, table: Floats, axis: int) -> Floats:
        moved = np.ascontiguousarray(np.moveaxis(table, axis, -1))
        result: Floats = np.moveaxis(causal(self.line, moved), -1, axis)
        return result

    def columns(self, codes: Ints) -> Floats:
        places = np.arange(self.size)[:, None] - codes
        result: Floats = np.where(places >= 0, self.line[np.maximum(places, 0)], 0.0)
        return result

    def column_norms(self, power: int) -> Floats:
        result: Floats = np.cumsum(np.abs(self.line) ** power)[::-1]
        return result

    def times(self, scale: float) -> Toeplitz:
        """The same, each so many times as large."""
        return Toeplitz(self.line * scale)

    def rounded(self, bits: int) -> tuple[Toeplitz, float]:
        """The weights in units of 2**-bits, half-up, and the largest change, in the old unit."""
        rounded, change = _rounded(self.line, bits)
        return Toeplitz(rounded), change


def _rounded(weights: Floats, bits: int) -> tuple[Floats, float]:
    rounded = half_up(weights * 2.0**bits)
    return rounded, float(np.abs(rounded * 2.0**-bits - weights).max())
