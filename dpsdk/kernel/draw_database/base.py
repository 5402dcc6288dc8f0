"""Parts that the samplers of small databases have in common.

A small database y is a table of `size` records. Of a private table of n rows, outside ones
included, and of 0/1 functions f, let F and G be how many rows of the table and of y have f = 1. The
score of y is

    s(y) = ceil(max over f of |F - n·G / size|),

in rows, and y comes out with a probability proportional to base(y)·exp(-rate·s(y)), exactly
(docs/explanation/proofs/small-database.md). One row more, or another one in its place, changes
every score by one at the most.

Cells that no function tells apart are one *atom*: small databases are drawn over atoms, and each
record then takes a uniform cell of its atom, which costs nothing. Where rows of the table may lie
outside the domain, so may records of y: the outside is a cell more, on which every function is 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.forms import Facts
from dpsdk.kernel.draw_database.bounds import Coverage, DrawBound, Family
from dpsdk.kernel.draw_database.dimension import Dimension
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["Aim", "DrawTerms", "Effort", "Sampler", "Work", "estimate"]

_LOG2_E = math.nextafter(math.log2(math.e), 2.0)

_MOST_BITS = 2**18
"""Numbers of small databases are not longer than this, so that they can be picked by."""


@frozen
class DrawTerms:
    """All that is public about one draw, besides the functions."""

    size: int
    """The number of records. Never chosen from a private n."""
    epsilon: Fraction
    setting: Facts
    declared: Dimension | None = None
    """What is known of the functions. No weight and no price depends on it."""


@frozen
class Work:
    """Estimated time and memory of a draw, from public facts alone."""

    seconds: float
    bytes: int


class Sampler(ABC):
    """An exact sampler for one kind of workload on the terms of one draw, of public facts only."""

    __slots__ = ()

    kind: str
    """The kind of workload in a word or two, such as thresholds or cells."""

    terms: DrawTerms

    ordered: bool = False
    """True if base(y) counts the orders of its records (a table drawn record by record), so that
    all together weigh atoms ** size. Otherwise every multiset of atoms weighs one."""

    rounding: Fraction = Fraction(1)
    """By less than so many rows a score exceeds the largest error, for being whole."""

    unit: Fraction = Fraction(1)
    """How many rows a whole score stands for, which is the widest function's range."""

    bias: float = 0.0
    """The error that rounding of weights may add to each row, in the unit of the form."""

    grain: int = 1
    """Into how many parts a row is divided, of which scores are multiples."""

    @property
    def rate(self) -> Fraction:
        """By how much the logarithm of a weight falls for each row of its score."""
        return self.terms.epsilon / (2 * self.terms.setting.unit_rows)

    @property
    @abstractmethod
    def atoms(self) -> int:
        """The number of atoms, the classes of cells that no function tells apart."""

    @property
    @abstractmethod
    def coverage(self) -> Coverage:
        """The proven coverage of the scored functions, which may be more than are asked."""

    @abstractmethod
    def _work(self) -> Work:
        """Estimate the time and memory of a draw."""

    @abstractmethod
    def draw(self, histogram: Counts, noise: NoiseSource) -> Ints:
        """The records of one small database, drawn for this table.

        Time and errors in here are private: callers must hide both.
        """

    @property
    def candidates(self) -> int:
        """The weight of all small databases together, each of which weighs at least one."""
        size = self.terms.size
        return self.atoms**size if self.ordered else math.comb(self.atoms + size - 1, size)

    @property
    def log2_candidates(self) -> float:
        """The binary logarithm of `candidates`, rounded up; quick for any size."""
        return self.family.log_candidates(self.terms.size) * _LOG2_E

    @property
    def family(self) -> Family:
        """The databases that are drawn from, of whatever size, and what is proven of them."""
        return Family(self.coverage, self.atoms, self.ordered, self.rounding, self.grain)

    @property
    def bound(self) -> DrawBound:
        """How far a count may be from its share of the database, scaled to the largest table."""
        rows = max(1, self.terms.setting.row_limit)
        return DrawBound(self.family, self.terms.size, self.rate, rows, self.unit, self.bias)

    def work(self) -> Work:
        """The work of a draw; without end where there are too many databases to count."""
        if self.family.log_candidates(self.terms.size) < _MOST_BITS / 2:
            return self._work()
        return Work(math.inf, _MOST_BITS)


@frozen
class Aim:
    """The aim of small databases, in numbers: a private table of so many rows."""

    rows: int
    size: int
    ordered: bool

    def least(self, count: int, level: int) -> int:
        """The fewest records that come within `level` rows of a count; maybe below 0."""
        return -(self.size * (level - count) // self.rows) if self.rows else 0

    def most(self, count: int, level: int) -> int:
        """The most records that come within `level` rows of a count; maybe more than there are."""
        return self.size * (count + level) // self.rows if self.rows else self.size

    def score(self, gap: int) -> int:
        """The rows, rounded up, of a gap |size·F - rows·G|."""
        return -(-gap // self.size)


_STEP, _PRODUCT, _BIT = 2e-5, 1e-7, 1e-10
"""Seconds, on a machine of 2024, for a step of a count, for a product, and for each of its bits."""


class Effort(NamedTuple):
    """The effort of counting once: steps, products of large integers, and integers to keep."""

    steps: int
    products: int
    numbers: int


def estimate(efforts: Iterable[Effort], times: int, bits: int, *, ordered: bool) -> Work:
    """The work of so many counts, in integers of so many bits."""
    steps, products, numbers = map(sum, zip(*efforts, strict=True))
    product = (_PRODUCT + bits * _BIT) * (2 if ordered else 1)
    seconds = times * (steps * _STEP + products * product)
    return Work(seconds, 2 * numbers * (64 + bits // 8))
