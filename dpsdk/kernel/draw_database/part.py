"""Parts of a workload: functions of the same few attributes, with a structure that can be counted.

A part is public. Of one private table it makes a profile, which counts the small databases that
come near it in all functions of the part.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from attrs import frozen

from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.base import Work
from dpsdk.kernel.draw_database.ways import Ways
from dpsdk.noise import NoiseSource

__all__ = ["Aim", "Effort", "Part", "Profile"]

_STEP, _PRODUCT, _BIT = 2e-5, 1e-7, 1e-10
"""Seconds, on a machine of 2024, for a step of a count, for a product, and for each of its bits."""


_LONGEST = 1 << 24
"""Weights of more bits cannot be picked by."""


@frozen
class Effort:
    """What it takes to count once: steps, products of large integers, and integers to keep."""

    steps: int
    products: int
    numbers: int

    def work(self, times: int, bits: int, *, ordered: bool) -> Work:
        """What so many counts take, in integers of so many bits."""
        if bits > _LONGEST:
            return Work(math.inf, 2 * self.numbers * (64 + bits // 8))
        product = (_PRODUCT + bits * _BIT) * (2 if ordered else 1)
        seconds = times * (self.steps * _STEP + self.products * product)
        return Work(seconds, 2 * self.numbers * (64 + bits // 8))


@frozen
class Aim:
    """What small databases are compared with, in numbers: a private table of so many rows."""

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
        """Whether all functions are 0 on one of the atoms."""

    @abstractmethod
    def profile(self, histogram: Counts, aim: Aim) -> Profile:
        """What this part sees of a private table."""

    @abstractmethod
    def fill(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        """A uniform cell of an atom, one number for each name."""

    @abstractmethod
    def effort(self, aim: Aim, width: int) -> Effort:
        """What it takes to count once, where running counts may differ by `width` records."""
