"""Weights that rise evenly along an attribute, and factors on some of the cells of one."""

from __future__ import annotations

from operator import index

import numpy as np

from dpsdk._records import evolve, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms.canonical import Line, interval_line, ramp_line, runs_of
from dpsdk.forms.factors import FACTOR_BYTES, MATRIX_LIMIT, Factor, is_own, owned
from dpsdk.forms.facts import Facts
from dpsdk.forms.move import Move
from dpsdk.forms.ranges import Range, Ranges
from dpsdk.typing import Floats, Ints

__all__ = ["Ramp", "Within"]

_EXACT = 2**53


@frozen
class Ramp(Factor):
    """One function: `start` on the first cell, and `step` more on each cell than on the one before.

    The weights are integers below 2**53, which floats hold. They are never written out for a form
    that is answered from records, so an attribute may have any number of cells.

    >>> from dpsdk.forms import Ramp
    >>> Ramp(5, start=-4, step=2).matrix()
    array([[-4., -2.,  0.,  2.,  4.]])
    """

    size: int = field(converter=index)
    start: int = field(converter=index)
    step: int = field(converter=index)

    def __attrs_post_init__(self) -> None:
        if self.size < 1:
            raise InvalidArgument("size", "at least one cell", str(self.size))
        largest = max(abs(self.start), abs(self._last), abs(self.step))
        if largest >= _EXACT:
            expected = "such that all weights are below 2**53, as floats hold these"
            raise InvalidArgument("start and step", expected, f"up to {largest}")

    @property
    def _last(self) -> int:
        return self.start + self.step * (self.size - 1)

    @property
    def rows(self) -> int:
        return 1

    @property
    def integral(self) -> bool:
        return True

    def columns(self, codes: Ints) -> Floats:
        weights = np.asarray(codes, dtype=np.int64) * self.step + self.start
        return weights.astype(np.float64)[None, :]

    def limits(self) -> tuple[float, float]:
        return float(min(self.start, self._last)), float(max(self.start, self._last))

    def extents(self) -> tuple[Floats, Floats]:
        low, high = self.limits()
        return np.array([low]), np.array([high])

    def knots(self) -> Ints:
        return np.array([0, self.size - 1])

    def largest_norms(self) -> tuple[float, float]:
        largest = max(map(abs, self.limits()))
        return largest, largest * largest

    def products(self) -> tuple[float, float]:
        low, high = self.limits()
        ends = (low * low, low * high, high * high)
        return min(ends), max(ends)

    def row(self, number: int) -> Ramp:
        del number
        return self

    def classes(self) -> None:
        return None

    def times(self, scale: float) -> Factor:
        whole = int(scale) if float(scale).is_integer() else 0
        ends = self.start, self._last, self.step
        if whole and all(abs(end * whole) < _EXACT for end in ends):
            return Ramp(self.size, self.start * whole, self.step * whole)
        return super().times(scale)

    def rounded(self, bits: int) -> tuple[Factor, float]:
        return self.times(2.0**bits), 0.0

    def lines(self, axis: int) -> list[Line]:
        return self.lines_within(axis, self.size, 0)

    def lines_within(self, axis: int, size: int, first: int) -> list[Line]:
        start, last, stop = self.start, self._last, first + self.size
        # Cells at the ends that weigh nothing say nothing.
        if self.size > 1 and start == 0:
            start, first = start + self.step, first + 1
        if stop - first > 1 and last == 0:
            stop -= 1
        if stop - first > MATRIX_LIMIT:
            return [ramp_line(axis, size, range(first, stop), start, self.step)]
        weights = np.arange(stop - first) * self.step + start
        cells = np.arange(first, stop)
        return [runs_of(weights.astype(np.float64), axis, size, cells, stop)]

    def part(self, start: int, stop: int) -> Ramp:
        """The same function of some neighbouring cells alone."""
        return Ramp(stop - start, self.start + self.step * start, self.step)


def _to_inner(inner: Factor) -> Factor:
    return inner if is_own(type(inner)) else owned(inner)


@frozen
class Within(Factor):
    """The functions of another factor on some neighbouring cells, and zero on all others.

    `inner` weighs its own cells from cell `first` on, of `size` cells in all. By default these are
    the first ones, as the labels of an attribute are that has cells of its own for other and for
    missing values.

    >>> from dpsdk.forms import Identity, Within
    >>> Within(Identity(2), 4).matrix()
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.]])
    """

    inner: Factor = field(converter=_to_inner)
    size: int = field(converter=index)
    first: int = field(default=0, converter=index)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.first <= self.size - self.inner.size:
            expected = f"cells from 0 to {self.size}, for the {self.inner.size} of the inner factor"
            raise InvalidArgument("first and size", expected, f"{self.first} and {self.size}")

    @property
    def _stop(self) -> int:
        return self.first + self.inner.size

    @property
    def _whole(self) -> bool:
        return self.inner.size == self.size

    @property
    def rows(self) -> int:
        return self.inner.rows

    @property
    def nbytes(self) -> int:
        return FACTOR_BYTES + self.inner.nbytes

    @property
    def partition(self) -> bool:
        return self._whole and self.inner.partition

    @property
    def counting(self) -> bool:
        return self.inner.counting

    @property
    def integral(self) -> bool:
        return self.inner.integral

    @property
    def ranges(self) -> tuple[Ints, Ints] | None:
        if (ends := self.inner.ranges) is None:
            return None
        return ends[0] + self.first, ends[1] + self.first

    @property
    def span(self) -> slice | None:
        if (span := self.inner.span) is None:
            return None
        return slice(span.start + self.first, span.stop + self.first)

    def columns(self, codes: Ints) -> Floats:
        inside = (codes >= self.first) & (codes < self._stop)
        weights = np.zeros((self.rows, len(codes)))
        weights[:, inside] = self.inner.columns(codes[inside] - self.first)
        return weights

    def limits(self) -> tuple[float, float]:
        low, high = self.inner.limits()
        return (low, high) if self._whole else (min(low, 0.0), max(high, 0.0))

    def extents(self) -> tuple[Floats, Floats]:
        low, high = self.inner.extents()
        return (low, high) if self._whole else (np.minimum(low, 0.0), np.maximum(high, 0.0))

    @property
    def reach(self) -> float:
        return self.inner.reach

    def knots(self) -> Ints | None:
        inner = self.inner.knots()
        if inner is None and self.inner.size > MATRIX_LIMIT:
            return None
        own = np.arange(self.inner.size) if inner is None else inner
        cells = np.append(own + self.first, [0, self.first - 1, self._stop, self.size - 1])
        return np.unique(cells[(cells >= 0) & (cells < self.size)])

    def at(self, cells: Ints) -> Factor:
        if (ends := self.ranges) is None:
            return super().at(cells)
        return Ranges(self.size, *ends).at(cells)

    def apply(self, table: Floats, axis: int) -> Floats:
        return self.inner.apply(table[self._cells(axis)], axis)

    def adjoint(self, table: Floats, axis: int) -> Floats:
        own = self.inner.adjoint(table, axis)
        result = np.zeros([*own.shape[:axis], self.size, *own.shape[axis + 1 :]])
        result[self._cells(axis)] = own
        return result

    def _cells(self, axis: int) -> tuple[slice, ...]:
        return (*(slice(None),) * axis, slice(self.first, self._stop))

    def column_norms(self, power: int) -> Floats:
        norms = np.zeros(self.size)
        norms[self.first : self._stop] = self.inner.column_norms(power)
        return norms

    def row_norms(self, power: int) -> Floats:
        return self.inner.row_norms(power)

    def deviations(self) -> tuple[Floats, Floats, Floats, Floats]:
        if (ends := self.ranges) is not None:
            return Ranges(self.size, *ends).deviations()
        return super().deviations()

    def largest_norms(self) -> tuple[float, float]:
        return self.inner.largest_norms()

    def products(self) -> tuple[float, float]:
        low, high = self.inner.products()
        return (low, high) if self._whole else (min(low, 0.0), max(high, 0.0))

    def move(self, scale: float, facts: Facts) -> Move | None:
        # The cells beside the inner ones are columns of zeros, as that of the cell outside is.
        return self.inner.move(scale, facts if self._whole else evolve(facts, outside=True))

    def row(self, number: int) -> Factor:
        return Within(self.inner.row(number), self.size, self.first).simplified()

    def simplified(self) -> Factor:
        if self._whole:
            return self.inner.simplified()
        if (span := self.span) is not None:
            return Range(self.size, span.start, span.stop)
        return self

    def coarsened(self, codes: Ints) -> tuple[Factor, Ints]:
        # One cell more, for all those that weigh nothing.
        inside = (codes >= self.first) & (codes < self._stop)
        inner, own = self.inner.coarsened(np.clip(codes - self.first, 0, self.inner.size - 1))
        return Within(inner, inner.size + 1), np.where(inside, own, inner.size)

    def classes(self) -> Ints | None:
        own = self.inner.classes()
        own = np.arange(self.inner.size) if own is None else own
        classes = np.full(self.size, int(own.max()) + 1)
        classes[self.first : self._stop] = own
        return classes

    def times(self, scale: float) -> Factor:
        return Within(self.inner.times(scale), self.size, self.first)

    def rounded(self, bits: int) -> tuple[Factor, float]:
        inner, change = self.inner.rounded(bits)
        return Within(inner, self.size, self.first), change

    def lines(self, axis: int) -> list[Line]:
        if (ends := self.ranges) is not None:
            pairs = zip(ends[0].tolist(), ends[1].tolist(), strict=True)
            return [interval_line(axis, self.size, start, stop) for start, stop in pairs]
        return self.inner.lines_within(axis, self.size, self.first)
