"""In how many ways records can be put into cells, and uniform draws of these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import TypeVar

from dpsdk._records import field, frozen
from dpsdk.noise import NoiseSource

__all__ = [
    "EMPTY",
    "NOTHING",
    "Bounded",
    "Ways",
    "choose",
    "combine",
    "free",
    "multiset",
    "shuffled",
    "split",
    "spread",
]

T = TypeVar("T")


def choose(weights: Sequence[int], noise: NoiseSource) -> int:
    """A position, with a probability proportional to its weight; some weight is above zero."""
    left = noise.uniform_below(sum(weights))
    for position, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return position
    raise ArithmeticError("weights changed while one was chosen")


def multiset(cells: int, size: int, noise: NoiseSource) -> list[int]:
    """A uniform one among the multisets of so many of the numbers below `cells`, in order."""
    # A multiset is a set of as many numbers below cells + size - 1, the i-th moved by i; a set is
    # drawn by the algorithm F2 of Floyd (Bentley and Floyd 1987).
    taken: set[int] = set()
    for last in range(cells - 1, cells + size - 1):
        number = noise.uniform_below(last + 1)
        taken.add(last if number in taken else number)
    return [number - before for before, number in enumerate(sorted(taken))]


def spread(cells: int, size: int, noise: NoiseSource, *, ordered: bool) -> list[int]:
    """A uniform way to put so many records anywhere into so many cells, in order."""
    if ordered:
        return sorted(noise.uniform_below(cells) for _ in range(size))
    return multiset(cells, size, noise) if size else []


def shuffled(items: Sequence[T], noise: NoiseSource) -> list[T]:
    """The items in a uniform order (Fisher and Yates 1938, in Durstenfeld's form of 1964)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = noise.uniform_below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order


@frozen
class Ways:
    """`counts[i]` ways for `low` + i records, and none for any other number.

    Unordered, a way is a multiset of cells. Ordered, it is a sequence of cells.
    """

    low: int
    counts: Sequence[int]

    @property
    def high(self) -> int:
        """The largest number of records; below `low` if there is none."""
        return self.low + len(self.counts) - 1

    def of(self, records: int) -> int:
        """The ways for so many records."""
        return self.counts[records - self.low] if self.low <= records <= self.high else 0


NOTHING = Ways(0, ())
"""No way for any number."""

EMPTY = Ways(0, (1,))
"""The one way to put no record into no cell."""


def free(cells: int, most: int, *, ordered: bool) -> Ways:
    """All ways to put up to `most` records into so many cells."""
    counts = [1]
    for records in range(1, most + 1 if cells else 1):
        if ordered:
            counts.append(counts[-1] * cells)
        else:
            counts.append(counts[-1] * (cells + records - 1) // records)
    return Ways(0, counts)


def combine(left: Ways, right: Ways, low: int, high: int, *, ordered: bool) -> Ways:
    """The ways for both groups of cells together, of `low` to `high` records."""
    first = max(low, left.low + right.low)
    last = min(high, left.high + right.high)
    if first > last or not left.counts or not right.counts:
        return NOTHING
    counts: list[int] = []
    backwards = right.counts[::-1]
    for records in range(first, last + 1):
        # Of the left, i records; of the right, records - i, which is at place shift + i - left.low
        # of the list backwards.
        shift = left.low + right.high - records
        start = max(0, -shift)
        ours, theirs = left.counts[start:], backwards[start + shift :]
        if ordered:
            orders = [math.comb(records, left.low + i) for i in range(start, len(left.counts))]
            ours = list(map(mul, ours, orders))
        counts.append(sum(map(mul, ours, theirs)))
    return Ways(first, counts)


def split(
    left: Ways, right: Ways, records: int, noise: NoiseSource, *, ordered: bool
) -> tuple[int, int]:
    """How many of the records go into either group, as in a uniform way for both together."""
    first = max(left.low, records - right.high)
    last = min(left.high, records - right.low)
    weights = [
        left.of(i) * right.of(records - i) * (math.comb(records, i) if ordered else 1)
        for i in range(first, last + 1)
    ]
    chosen = first + choose(weights, noise)
    return chosen, records - chosen


@frozen(eq=False)
class Bounded:
    """Ways to put up to `size` records into cells that take from `low` to `high` each."""

    low: int
    high: int
    size: int
    ordered: bool
    _known: dict[int, Ways] = field(init=False, factory=dict[int, Ways], repr=False)

    def ways(self, cells: int) -> Ways:
        """The ways for so many cells."""
        known = self._known.get(cells)
        if known is None:
            known = self._known[cells] = self._work_out(cells)
        return known

    @property
    def _free(self) -> bool:
        return self.low == 0 and self.high >= self.size

    def _work_out(self, cells: int) -> Ways:
        if cells == 0:
            return EMPTY
        if self.low > self.high or cells * self.low > self.size:
            return NOTHING
        if self._free:
            return free(cells, self.size, ordered=self.ordered)
        if cells == 1:
            return Ways(self.low, (1,) * (min(self.high, self.size) - self.low + 1))
        half = cells // 2
        both = self.ways(half), self.ways(cells - half)
        return combine(*both, 0, self.size, ordered=self.ordered)

    def sample(self, cells: int, records: int, noise: NoiseSource) -> list[int]:
        """The cells of a uniform way, one number below `cells` for each record, in order."""
        if records == 0:
            return []
        if cells == 1:
            return [0] * records
        if self._free:
            return spread(cells, records, noise, ordered=self.ordered)
        half = cells // 2
        both = self.ways(half), self.ways(cells - half)
        left, right = split(*both, records, noise, ordered=self.ordered)
        second = self.sample(cells - half, right, noise)
        return self.sample(half, left, noise) + [half + cell for cell in second]
