"""Places along an attribute and their squares, as a variance is made of."""

from __future__ import annotations

from operator import index

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms.canonical import Line, runs_of
from dpsdk.forms.factors import PAIR_LIMIT, Factor
from dpsdk.typing import Floats, Ints

__all__ = ["Squares", "squares"]

_LARGEST = 2**20
"""Squares of larger places, and sums of a few, could leave the exact floats."""


def squares(places: Ints, bound: int) -> Floats:
    """For places t from -K to K, with K even, the integers K t, t**2 - K**2 / 2 and 3 K**2 / 4.

    That is K**2 times u, u**2 - 1/2 and 3/4 of u = t / K.
    """
    whole = bound * bound
    rows = bound * places, places * places - whole // 2, np.full(len(places), 3 * whole // 4)
    return np.stack(rows).astype(np.float64)


@frozen
class Squares(Factor):
    """A place, its square and a count for a variance: K² times u, u² − ½ and ¾, with |u| ≤ 1.

    `width` neighbouring cells share a place. The first place is t = −K, the next ones are `step`
    higher each, none is above K, and u is t / K. So many cells are left out at the start as `skip`
    says. K is `bound`, and even, so that all weights are
    integers. With these three numbers a variance costs no more than a mean under Gaussian noise:
    docs/explanation/proofs/variance.md.

    >>> from dpsdk.forms import Squares
    >>> Squares(3, bound=2, step=2).matrix()
    array([[-4.,  0.,  4.],
           [ 2., -2.,  2.],
           [ 3.,  3.,  3.]])
    """

    size: int = field(converter=index)
    bound: int = field(converter=index)
    step: int = field(default=1, converter=index)
    width: int = field(default=1, converter=index)
    skip: int = field(default=0, converter=index)

    def __attrs_post_init__(self) -> None:
        if self.size < 1 or self.width < 1 or self.step < 0 or self.skip < 0:
            got = f"{self.size}, {self.width}, {self.step} and {self.skip}"
            raise InvalidArgument("size, width, step and skip", "none of them negative", got)
        if self.bound % 2 or not 2 <= self.bound <= _LARGEST:
            raise InvalidArgument("bound", f"even, from 2 to {_LARGEST}", str(self.bound))
        if self.step * self._last > 2 * self.bound:
            expected = f"at most {2 * self.bound} from the first place to the last"
            raise InvalidArgument("step", expected, str(self.step * self._last))

    @property
    def _first(self) -> int:
        return self.skip // self.width

    @property
    def _last(self) -> int:
        return (self.skip + self.size - 1) // self.width

    @property
    def _starts(self) -> Ints:
        """The first cell of each place."""
        starts = np.arange(self._first, self._last + 1) * self.width - self.skip
        return np.maximum(starts, 0)

    @property
    def rows(self) -> int:
        return 3

    @property
    def integral(self) -> bool:
        return True

    def columns(self, codes: Ints) -> Floats:
        places = (np.asarray(codes, dtype=np.int64) + self.skip) // self.width
        return squares(self.step * places - self.bound, self.bound)

    def extents(self) -> tuple[Floats, Floats]:
        # Squares are least in the middle, and largest at the first place.
        middle = min(max(self.bound // max(self.step, 1), self._first), self._last)
        few = np.array([self._first, middle, min(middle + 1, self._last), self._last])
        weights = squares(self.step * few - self.bound, self.bound)
        return weights.min(axis=1), weights.max(axis=1)

    def knots(self) -> Ints | None:
        if self.width == 1:
            return None
        starts = self._starts
        return np.unique(np.concatenate([starts, starts[1:] - 1, [self.size - 1]]))

    def largest_norms(self) -> tuple[float, float]:
        weights = self.columns(self._starts)
        return float(np.abs(weights).sum(axis=0).max()), float((weights**2).sum(axis=0).max())

    def products(self) -> tuple[float, float]:
        if self.size <= PAIR_LIMIT:
            return super().products()
        return -3 * self.bound**4 / 16, 29 * self.bound**4 / 16

    def moves(self, groups: int, *, replaced: bool) -> tuple[float, float, bool]:
        """How far one row moves the numbers of so many groups, and whether it does.

        The sum of the absolute moves, and of their squares.
        """
        norms = self.largest_norms()
        if not replaced:
            return *norms, True
        alone = 9 * self.bound**2 / 4
        attained = not self._first and self.step * self._last == 2 * self.bound
        if groups < 2:
            return alone, 4.0 * self.bound**4, attained and 3 * self.bound // 2 % self.step == 0
        return 2 * norms[0], 4.0 * self.bound**4, attained

    def part(self, start: int, stop: int) -> Squares:
        """The same functions of some neighbouring cells alone."""
        return Squares(stop - start, self.bound, self.step, self.width, self.skip + start)

    def coarsened(self, codes: Ints) -> tuple[Factor, Ints]:
        few = Squares(self._last - self._first + 1, self.bound, self.step, skip=self._first)
        return few, (codes + self.skip) // self.width - self._first

    def lines(self, axis: int) -> list[Line]:
        return self.lines_within(axis, self.size, 0)

    def lines_within(self, axis: int, size: int, first: int) -> list[Line]:
        starts = self._starts
        rows = self.columns(starts)
        return [runs_of(row, axis, size, starts + first, first + self.size) for row in rows]
