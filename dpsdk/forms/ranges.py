"""Factors that count ranges of cells: each cell, prefixes, one range, groups, or any ranges."""

from __future__ import annotations

from abc import abstractmethod
from operator import index

import numpy as np

from dpsdk._arrays import frozen_integers
from dpsdk._checks import shown
from dpsdk._records import cmp_using, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms.canonical import Line, interval_line
from dpsdk.forms.factors import FACTOR_BYTES, Factor
from dpsdk.typing import Array, Floats, Ints

__all__ = [
    "Cuts",
    "Groups",
    "Identity",
    "Indicators",
    "Prefix",
    "Range",
    "Ranges",
    "running",
    "to_ends",
]


def to_ends(values: Array) -> Ints:
    """A copy of integers, as 64 bits with a sign."""
    given = np.array(values)
    if given.dtype.kind not in "iu":
        raise InvalidArgument("starts and stops", "arrays of integers", f"{given.dtype}")
    # Larger integers come out negative, and are refused as such.
    result = given.astype(np.int64)
    return frozen_integers(result)


def running(table: Floats, axis: int) -> Floats:
    """Sums of all cells before each along an axis, and of all at the end."""
    shape = [size + (place == axis) for place, size in enumerate(table.shape)]
    sums = np.zeros(shape)
    np.cumsum(table, axis=axis, out=sums[(*(slice(None),) * axis, slice(1, None))])
    return sums


class Indicators(Factor):
    """Functions that are one on a range of cells each, and zero elsewhere."""

    __slots__ = ()

    @property
    def counting(self) -> bool:
        return True

    @property
    @abstractmethod
    def ranges(self) -> tuple[Ints, Ints]:
        """The first cell of each range, and the first cell behind it."""

    @property
    def integral(self) -> bool:
        return True

    def extents(self) -> tuple[Floats, Floats]:
        starts, stops = self.ranges
        return (stops - starts == self.size).astype(np.float64), (starts < stops).astype(np.float64)

    def apply(self, table: Floats, axis: int) -> Floats:
        starts, stops = self.ranges
        below = running(table, axis)
        return np.asarray(below.take(stops, axis=axis) - below.take(starts, axis=axis))

    def adjoint(self, table: Floats, axis: int) -> Floats:
        starts, stops = self.ranges
        numbers = np.moveaxis(table, axis, 0)
        changes = np.zeros((self.size + 1, *numbers.shape[1:]))
        np.add.at(changes, starts, numbers)
        np.subtract.at(changes, stops, numbers)
        return np.asarray(np.moveaxis(np.cumsum(changes[:-1], axis=0), 0, axis))

    def columns(self, codes: Ints) -> Floats:
        starts, stops = self.ranges
        inside = (starts[:, None] <= codes) & (codes < stops[:, None])
        return inside.astype(np.float64)

    def column_norms(self, power: int) -> Floats:
        del power
        return self.adjoint(np.ones(self.rows), 0)

    def row_norms(self, power: int) -> Floats:
        del power
        starts, stops = self.ranges
        return (stops - starts).astype(np.float64)

    def deviations(self) -> tuple[Floats, Floats, Floats, Floats]:
        size, lengths = float(self.size), self.row_norms(1)
        if (lengths == lengths[0]).all():
            lengths = lengths[:1]
        mean, inside = lengths / size, (lengths > 0) & (lengths < size)
        peaks = np.where(inside, np.maximum(mean, 1 - mean), 0.0)
        return mean, lengths * (size - lengths) / size, peaks, np.where(inside, size, 0.0)

    def largest_norms(self) -> tuple[float, float]:
        if self.partition:
            return 1.0, 1.0
        # Ranges begun less ranges ended, from end to end.
        starts, stops = (ends[self.row_norms(1) > 0] for ends in self.ranges)
        places = np.concatenate([stops, starts])
        changes = np.repeat([-1, 1], len(starts))[np.argsort(places, kind="stable")]
        deepest = float(np.cumsum(changes).max(initial=0))
        return deepest, deepest

    def products(self) -> tuple[float, float]:
        return (float(self.rows == 1), 1.0) if self.partition else super().products()

    def row(self, number: int) -> Factor:
        starts, stops = self.ranges
        return Range(self.size, int(starts[number]), int(stops[number]))

    def classes(self) -> Ints | None:
        cuts = np.zeros(self.size, dtype=np.int64)
        ends = np.concatenate(self.ranges)
        cuts[ends[ends < self.size]] = 1
        cuts[0] = 0
        classes = np.cumsum(cuts)
        return None if self.size > 1 and classes[-1] == self.size - 1 else classes

    def knots(self) -> Ints | None:
        if self.rows >= self.size:
            return None
        # On both sides of each end.
        ends = np.concatenate(self.ranges)
        cells = np.unique(np.concatenate([ends, ends - 1, [0, self.size - 1]]))
        cells = cells[(cells >= 0) & (cells < self.size)]
        return None if len(cells) == self.size else cells

    def at(self, cells: Ints) -> Factor:
        return Ranges(len(cells), *(np.searchsorted(cells, ends) for ends in self.ranges))

    def lines(self, axis: int) -> list[Line]:
        starts, stops = self.ranges
        return [
            interval_line(axis, self.size, start, stop)
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        ]


@frozen
class Ranges(Indicators):
    """One function for each of some ranges of cells, from `starts` up to, not including, `stops`.

    A range may be empty.
    """

    size: int = field(converter=index)
    starts: Ints = field(converter=to_ends, eq=cmp_using(eq=np.array_equal), hash=False)
    stops: Ints = field(converter=to_ends, eq=cmp_using(eq=np.array_equal), hash=False)

    def __attrs_post_init__(self) -> None:
        if self.starts.ndim != 1 or self.starts.shape != self.stops.shape or not len(self.starts):
            got = f"shapes {self.starts.shape} and {self.stops.shape}"
            raise InvalidArgument("starts and stops", "one of each for each range", got)
        inside = self.starts.min() >= 0 and self.stops.max() <= self.size
        if not inside or (self.starts > self.stops).any():
            raise InvalidArgument(
                "starts and stops", f"0 <= start <= stop <= {self.size}", "others"
            )

    @property
    def rows(self) -> int:
        return len(self.starts)

    @property
    def nbytes(self) -> int:
        return FACTOR_BYTES + int(self.starts.nbytes + self.stops.nbytes)

    @property
    def ranges(self) -> tuple[Ints, Ints]:
        return self.starts, self.stops

    @property
    def partition(self) -> bool:
        ends = np.append(self.starts, self.size)
        return bool(
            ends[0] == 0 and (self.starts < self.stops).all() and (ends[1:] == self.stops).all()
        )

    @property
    def span(self) -> slice | None:
        return slice(int(self.starts[0]), int(self.stops[0])) if self.rows == 1 else None

    def simplified(self) -> Factor:
        return self.row(0).simplified() if self.rows == 1 else self

    def coarsened(self, codes: Ints) -> tuple[Factor, Ints]:
        ends = np.unique(np.concatenate([self.starts, self.stops, [0]]))
        if len(ends) >= self.size:
            return self, codes
        starts, stops = np.searchsorted(ends, self.starts), np.searchsorted(ends, self.stops)
        return Ranges(len(ends), starts, stops), np.searchsorted(ends, codes, side="right") - 1


@frozen
class Identity(Indicators):
    """One function a cell: its indicator."""

    size: int = field(converter=index)

    @property
    def rows(self) -> int:
        return self.size

    @property
    def ranges(self) -> tuple[Ints, Ints]:
        starts = np.arange(self.size)
        return starts, starts + 1

    @property
    def partition(self) -> bool:
        return True

    def apply(self, table: Floats, axis: int) -> Floats:
        del axis
        return table

    def adjoint(self, table: Floats, axis: int) -> Floats:
        del axis
        return table

    def row(self, number: int) -> Range:
        return Range(self.size, number, number + 1)


class _Runs(Indicators):
    """One function for each of the runs of neighbouring cells into which all cells are cut."""

    __slots__ = ()

    @property
    def partition(self) -> bool:
        return True

    def apply(self, table: Floats, axis: int) -> Floats:
        return np.asarray(np.add.reduceat(table, self.ranges[0], axis=axis))

    def simplified(self) -> Factor:
        if self.rows == self.size:
            return Identity(self.size)
        return Range(self.size, 0, self.size) if self.rows == 1 else self

    def coarsened(self, codes: Ints) -> tuple[Factor, Ints]:
        # Of a large attribute there may be few groups, and too many cells for a table.
        return Identity(self.rows), np.searchsorted(self.ranges[0], codes, side="right") - 1


@frozen
class Groups(_Runs):
    """One function for each run of `width` neighbouring cells, of which the last may be shorter."""

    size: int = field(converter=index)
    width: int = field(converter=index)

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.width <= self.size:
            expected = f"from 1 to the {self.size} cells that there are"
            raise InvalidArgument("width", expected, str(self.width))

    @property
    def rows(self) -> int:
        return -(-self.size // self.width)

    @property
    def ranges(self) -> tuple[Ints, Ints]:
        starts = np.arange(0, self.size, self.width)
        return starts, np.minimum(starts + self.width, self.size)

    def coarsened(self, codes: Ints) -> tuple[Factor, Ints]:
        return Identity(self.rows), codes // self.width


@frozen
class Cuts(_Runs):
    """One function for each run of neighbouring cells that begins at one of `starts`.

    The first of these is nought, and each is above the one before.

    >>> from dpsdk.forms import Cuts
    >>> Cuts(5, [0, 1, 3]).matrix()
    array([[1., 0., 0., 0., 0.],
           [0., 1., 1., 0., 0.],
           [0., 0., 0., 1., 1.]])
    """

    size: int = field(converter=index)
    starts: Ints = field(converter=to_ends, eq=cmp_using(eq=np.array_equal), hash=False)

    def __attrs_post_init__(self) -> None:
        starts = self.starts
        rising = starts.ndim == 1 and len(starts) and starts[0] == 0 and starts[-1] < self.size
        if not rising or (starts[1:] <= starts[:-1]).any():
            expected = f"rising cell numbers, from 0 to below {self.size}"
            raise InvalidArgument("starts", expected, shown(starts.tolist()))

    @property
    def rows(self) -> int:
        return len(self.starts)

    @property
    def nbytes(self) -> int:
        return FACTOR_BYTES + int(self.starts.nbytes)

    @property
    def ranges(self) -> tuple[Ints, Ints]:
        return self.starts, np.append(self.starts[1:], self.size)


@frozen
class Prefix(Indicators):
    """One function a cell: the indicator of this cell and all before it."""

    size: int = field(converter=index)

    @property
    def rows(self) -> int:
        return self.size

    @property
    def ranges(self) -> tuple[Ints, Ints]:
        return np.zeros(self.size, dtype=np.int64), np.arange(1, self.size + 1)

    def apply(self, table: Floats, axis: int) -> Floats:
        return np.asarray(np.cumsum(table, axis=axis))

    def adjoint(self, table: Floats, axis: int) -> Floats:
        return np.asarray(np.flip(np.cumsum(np.flip(table, axis), axis=axis), axis))

    def row(self, number: int) -> Range:
        return Range(self.size, 0, number + 1)


@frozen
class Range(Indicators):
    """The indicator of the cells from `start` up to, not including, `stop`."""

    size: int = field(converter=index)
    start: int = field(converter=index)
    stop: int = field(converter=index)

    def __attrs_post_init__(self) -> None:
        # A slice would read a negative end from the back.
        if not 0 <= self.start <= self.stop <= self.size:
            expected = f"0 <= start <= stop <= {self.size}"
            raise InvalidArgument("start and stop", expected, f"{self.start} and {self.stop}")

    @property
    def rows(self) -> int:
        return 1

    @property
    def ranges(self) -> tuple[Ints, Ints]:
        return np.array([self.start]), np.array([self.stop])

    @property
    def span(self) -> slice:
        return slice(self.start, self.stop)

    def limits(self) -> tuple[float, float]:
        return float(self.stop - self.start == self.size), float(self.start < self.stop)

    def apply(self, table: Floats, axis: int) -> Floats:
        index = (*(slice(None),) * axis, self.span)
        return np.asarray(table[index].sum(axis=axis, keepdims=True))

    def row(self, number: int) -> Range:
        del number
        return self

    def lines(self, axis: int) -> list[Line]:
        return [interval_line(axis, self.size, self.start, self.stop)]
