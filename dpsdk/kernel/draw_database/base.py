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
from collections.abc import Sequence
from fractions import Fraction

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.forms import Facts
from dpsdk.kernel.draw_database.bounds import Family
from dpsdk.kernel.draw_database.coverage import Coverage
from dpsdk.kernel.draw_database.ways import Ways
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["Aim", "DrawTerms", "Effort", "Part", "Profile", "Sampler", "Work"]

_LOG2_E = math.nextafter(math.log2(math.e), 2.0)


@frozen
class DrawTerms:
    """All that is public about one draw, besides the functions, in plain numbers.

    Parameters
    ----------
    size
        The number of records of the small database, at least 1. Never chosen from a private n.
    epsilon
        What the draw costs: it is epsilon-DP.
    setting
        The public facts of the table: its relation, in how many rows neighbours differ, and its
        number of rows where that is public.
    """

    size: int
    epsilon: Fraction
    setting: Facts


@frozen
class Work:
    """Estimated time and memory of a draw, from public facts alone."""

    seconds: float
    bytes: int


class Sampler(ABC):
    """An exact sampler for one kind of workload over one domain, on the terms of one draw.

    It is made of public facts only, and says, before anything is charged, what the draw would take.
    Holding one draws nothing; `draw` keeps nothing, and each call draws anew.
    """

    __slots__ = ()

    kind: str
    """The kind of workload in a word or two, such as thresholds or cells."""

    terms: DrawTerms

    ordered: bool = False
    """True if base(y) counts the orders of its records (a table drawn record by record), so that
    all together weigh atoms ** size. Otherwise every multiset of atoms weighs one."""

    @property
    def rate(self) -> Fraction:
        """By how much the logarithm of a weight falls for each row of its score."""
        return self.terms.epsilon / (2 * self.terms.setting.unit_rows)

    @property
    def rounding(self) -> Fraction:
        """By less than so many rows a score exceeds the largest error, for being whole."""
        return Fraction(1)

    @property
    def unit(self) -> Fraction:
        """How many rows a whole score stands for, which is the widest function's range."""
        return Fraction(1)

    @property
    def grain(self) -> int:
        """Into how many parts a row is divided, of which scores are multiples."""
        return 1

    @property
    @abstractmethod
    def atoms(self) -> int:
        """The number of atoms, the classes of cells that no function tells apart."""

    @property
    def candidates(self) -> int:
        """The weight of all small databases together, each of which weighs at least one.

        This is what an error bound may use: with probability 1 - beta, the score is at most
        ln(candidates / beta) / rate above the least one.
        """
        size = self.terms.size
        return self.atoms**size if self.ordered else math.comb(self.atoms + size - 1, size)

    @property
    def log2_candidates(self) -> float:
        """The binary logarithm of `candidates`, rounded up; quick for any size."""
        return self.family.log_candidates(self.terms.size) * _LOG2_E

    @property
    @abstractmethod
    def coverage(self) -> Coverage:
        """The proven coverage of the scored functions, which may be more than are asked."""

    @property
    def family(self) -> Family:
        """The databases that are drawn from, of whatever size, and what is proven of them."""
        return Family(self.coverage, self.atoms, self.ordered, self.rounding, self.grain)

    @abstractmethod
    def work(self) -> Work:
        """Estimate the time and memory of a draw."""

    @abstractmethod
    def draw(self, histogram: Counts, noise: NoiseSource) -> Ints:
        """The records of one small database, drawn for this table.

        Time and errors in here are private: callers must hide both.
        """


_STEP, _PRODUCT, _BIT = 2e-5, 1e-7, 1e-10
"""Seconds, on a machine of 2024, for a step of a count, for a product, and for each of its bits."""


_LONGEST = 1 << 24
"""Weights of more bits cannot be picked by."""


@frozen
class Effort:
    """The effort of counting once: steps, products of large integers, and integers to keep."""

    steps: int
    products: int
    numbers: int

    def work(self, times: int, bits: int, *, ordered: bool) -> Work:
        """The work of so many counts, in integers of so many bits."""
        if bits > _LONGEST:
            return Work(math.inf, 2 * self.numbers * (64 + bits // 8))
        product = (_PRODUCT + bits * _BIT) * (2 if ordered else 1)
        seconds = times * (self.steps * _STEP + self.products * product)
        return Work(seconds, 2 * self.numbers * (64 + bits // 8))


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


class Profile(ABC):
    """A private table as a part sees it, and the small databases near it."""

    __slots__ = ()

    @abstractmethod
    def ways(self, level: int) -> Ways:
        """The ways to put records into atoms with an error of at most `level` rows."""

    @abstractmethod
    def sample(self, level: int, records: int, noise: NoiseSource) -> list[int]:
        """The atoms, in order, of a uniform one of these ways for so many records."""

    @abstractmethod
    def score(self, atoms: Sequence[int]) -> int:
        """The error, in rows and rounded up, of records in these atoms, all others being outside.

        Atoms are in order.
        """


class Part(ABC):
    """Functions of the attributes `names`, which are 0 outside the domain."""

    __slots__ = ()

    names: tuple[str, ...]

    @property
    @abstractmethod
    def atoms(self) -> int:
        """The number of atoms among the cells of these attributes."""

    @property
    @abstractmethod
    def spare(self) -> bool:
        """True if all functions are 0 on one of the atoms."""

    @abstractmethod
    def coverage(self, atoms: int) -> Coverage:
        """The proven coverage of these functions, over so many atoms."""

    @abstractmethod
    def profile(self, histogram: Counts, aim: Aim) -> Profile:
        """The numbers of a private table that this part sees."""

    @abstractmethod
    def fill(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        """A uniform cell of an atom, one number for each name."""

    @abstractmethod
    def effort(self, aim: Aim, width: int) -> Effort:
        """The effort of counting once, where running counts may differ by `width` records."""
