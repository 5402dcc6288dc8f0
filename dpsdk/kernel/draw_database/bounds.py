"""How closely small databases can follow a table, how far off one may be, and how large to draw it.

A covering radius at a size m is a number r such that for every table of rows, of whatever number,
some database of m records has all functions of a class within r of their shares of the table. It is
a share of the widest function's range, proven for every table, and so public
(docs/explanation/proofs/small-database.md, "Accuracy").
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown, to_beta, to_count, to_positive, to_within
from dpsdk._records import evolve, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.kernel.draw_database.dimension import (
    MOST_SIDES,
    Dimension,
    Side,
    by_dimension,
    by_lines,
    by_strips,
    dimension_of,
)
from dpsdk.typing import Real

__all__ = [
    "LARGEST_SIZE",
    "AnyCoverage",
    "CellCoverage",
    "Coverage",
    "DrawBound",
    "Family",
    "IntervalCoverage",
    "MarginalCoverage",
    "ThresholdCoverage",
    "size_for",
    "theorem_alpha",
    "theorem_rows",
    "to_size",
]

LARGEST_SIZE = 2**20
"""No small database has more records."""

_RATE = 2.0**-46
"""A relative error that rounding stays far below."""

_LARGE = 2**1000
_LEAST = Fraction(1, 1 << 40)
_GOOD_ENOUGH = Fraction(1, 1000)


def to_size(size: int) -> int:
    """A number of records."""
    return to_within("size", size, 1, LARGEST_SIZE, f"an integer from 1 to {LARGEST_SIZE:,}")


def _above(number: float) -> Fraction:
    """A fraction just above what a few rounded operations on floats came to."""
    return Fraction(math.nextafter(number * (1.0 + 2.0**-48), math.inf))


class Coverage(ABC):
    """The proven covering radii of one class of functions."""

    __slots__ = ()

    def radius(self, size: int) -> Fraction:
        """A covering radius of databases of so many records; it never grows with the size."""
        return min(Fraction(1), self._radius(size))

    def assumed(self, size: int) -> Dimension | None:
        """What was declared, and the radius at a size rests on; most rest on nothing."""
        del size
        return None

    @abstractmethod
    def _radius(self, size: int) -> Fraction:
        """The bound itself, which may be larger than 1."""


@frozen
class ThresholdCoverage(Coverage):
    """Thresholds of one attribute: a distribution function is rounded to multiples of 1/m."""

    def _radius(self, size: int) -> Fraction:
        return Fraction(1, 2 * size)


@frozen
class IntervalCoverage(Coverage):
    """Intervals of one attribute: differences of two thresholds, rounded apart by less than 1/m."""

    def _radius(self, size: int) -> Fraction:
        return Fraction(1, size)


@frozen
class CellCoverage(Coverage):
    """Disjoint cells, with what lies in none: largest remainders miss none by more."""

    cells: int

    def _radius(self, size: int) -> Fraction:
        return Fraction(self.cells - 1, self.cells * size)


@frozen
class MarginalCoverage(Coverage):
    """Several attributes, each with functions of it alone: columns can be put together at will.

    Rows outside the domain are outside for each attribute: thresholds agree about their number
    where they are rounded alike, and cells can follow, within 1/m.
    """

    parts: tuple[Coverage, ...]
    outside: bool = False

    def _radius(self, size: int) -> Fraction:
        if self.outside and any(isinstance(part, CellCoverage) for part in self.parts):
            return Fraction(1, size)
        return max((part.radius(size) for part in self.parts), default=Fraction(0))


@frozen
class AnyCoverage(Coverage):
    """Any functions that are neither constant nor equal, nor complements, over so many atoms.

    Those that are products of indicators have `sides`; others may have a dimension that somebody
    knows.
    """

    functions: int
    atoms: int
    sides: tuple[Side, ...] | None = None
    declared: Dimension | None = None

    def assumed(self, size: int) -> Dimension | None:
        """The dimension that was declared, if the radius at a size rests on it."""
        if self.declared is None or evolve(self, declared=None).radius(size) <= self.radius(size):
            return None
        return self.declared

    def _radius(self, size: int) -> Fraction:
        if not self.functions or self.atoms == 1:
            return Fraction(0)
        # By Caratheodory, a table is like one on so many atoms.
        support = min(self.atoms, self.functions + 1)
        spread = math.log(2 * self.functions) / 2
        radii = [
            Fraction((support // 2) * ((support + 1) // 2), support * size),
            _above(math.sqrt(spread / size)),
            _above(math.sqrt(spread * support) / size),
        ]
        dimensions = [] if self.declared is None else [self.declared.value]
        if self.sides and len(self.sides) > 1:  # those of one attribute have classes of their own
            dimensions.append(dimension_of(self.sides))
            if any(side.ends for side in self.sides):
                radii.append(by_lines(self.sides, size))
            if len(self.sides) <= MOST_SIDES and all(side.ends for side in self.sides):
                radii.append(_above(by_strips(self.sides, self.functions, size)))
        if dimensions:
            radii.append(_above(by_dimension(min(dimensions), size)))
        return min(radii)


@frozen
class Family:
    """The small databases over which one draw is made, of whatever size, and what is proven.

    They are over so many kinds of records; `ordered` ones are weighed by the orders of theirs. A
    score exceeds the largest error by less than `rounding` rows, and divides a row into `grain`.
    """

    coverage: Coverage
    atoms: int
    ordered: bool = False
    rounding: Fraction = Fraction(1)
    grain: int = 1

    def log_candidates(self, size: int) -> float:
        """The logarithm of the weight of all databases of a size together, rounded up.

        That is ln C(atoms + size - 1, size), or size · ln(atoms) where they are ordered.
        """
        atoms, records = self.atoms, to_size(size)
        if self.ordered:
            exact = records * math.log(atoms)
        else:
            # C(a + m - 1, m) is the product of 1 + b/i for i up to the lesser of m and a - 1, of
            # which b is the other. All logarithms are positive, so that sums keep their digits.
            few, many = sorted((records, atoms - 1))
            places = np.arange(1, few + 1, dtype=np.float64)
            if many < _LARGE:
                exact = float(np.log1p(float(many) / places).sum())
            else:
                exact = float((math.log(many) - np.log(places)).sum())
        return math.nextafter(exact * (1.0 + _RATE), math.inf)

    def excess(self, size: int, rate: Fraction, beta: float) -> Fraction:
        """How far the score drawn exceeds the least one, at the most, with probability 1 - beta."""
        failure = to_beta(beta)
        odds = self.log_candidates(size) + math.log1p(-failure) - math.log(failure)
        odds += abs(odds) * _RATE + _RATE
        # A draw is bad with odds of at most candidates · exp(-rate · t), where the least score is
        # t rows or more below all that are bad.
        steps = max(1, math.ceil(Fraction(odds) * self.grain / rate))
        return Fraction(steps - 1, self.grain)

    def error(self, size: int, rate: Fraction, rows: int, beta: float) -> Fraction:
        """How far a count of the table is from its share of the database scaled to it, in rows.

        Of all functions of the class at once, with probability 1 - beta, for every table of at most
        so many rows; in units of the widest function's range.
        """
        least = math.ceil((rows * self.coverage.radius(size) + self.rounding) * self.grain) - 1
        return min(Fraction(rows), Fraction(least, self.grain) + self.excess(size, rate, beta))

    def best_size(self, rate: Fraction, rows: int, beta: float, most: int = LARGEST_SIZE) -> int:
        """The size up to `most` with the least error on tables of a public number of rows.

        The error that is proven is within a thousandth, and a row, of the least one of all sizes.
        """

        def cost(low: int, high: int) -> Fraction:
            """A bound on the error of all sizes in a range."""
            excess = self.excess(low, rate, beta) + self.rounding
            return rows * self.coverage.radius(high) + excess

        best, found = most, cost(most, most)
        waiting = [(cost(1, most), 1, most)]
        while waiting:
            bound, low, high = heapq.heappop(waiting)
            if bound >= found * (1 - _GOOD_ENOUGH):
                break
            middle = (low + high) // 2
            here = cost(middle, middle)
            if here < found:
                best, found = middle, here
            for start, stop in ((low, middle - 1), (middle + 1, high)):
                if start <= stop:
                    heapq.heappush(waiting, (cost(start, stop), start, stop))
        return best


@frozen
class DrawBound:
    """How far off counts may be that are read off one small database: public, for every table.

    Parameters
    ----------
    family
        The databases that it is drawn from.
    size
        How many records it has.
    rate
        By how much the logarithm of a weight falls for each row of its score.
    rows
        How many rows the table has at the most.
    unit
        The range of the widest function.
    bias
        What rounding of weights may add to the error of each row.
    """

    family: Family
    size: int
    rate: Fraction
    rows: int
    unit: Fraction = Fraction(1)
    bias: float = 0.0

    @property
    def assumed(self) -> Dimension | None:
        """The dimension that was declared, if the bound rests on it."""
        return self.family.coverage.assumed(self.size)

    def error(self, beta: float) -> Fraction:
        """With probability 1 - beta no function of the class is farther off, in rows.

        Raises
        ------
        InvalidArgument
            If beta is not strictly between 0 and 1.
        """
        steps = self.family.error(self.size, self.rate, self.rows, beta)
        # Both the table's answer and the database's, scaled, may be off by the bias.
        return steps * self.unit + Fraction(2 * self.rows * self.bias)


def size_for(alpha: Real, coverage: Coverage) -> int:
    """The fewest records with which some database is within alpha of every table.

    For thresholds that is ceil(1 / 2 alpha), for intervals ceil(1 / alpha), and for any k functions
    at most ceil(ln(2k) / 2 alpha²): Lemma 4.3 of Dwork and Roth (2014) with a whole number, and
    without its condition on k. How far the database that is drawn may be off comes on top.
    """
    share = to_positive("alpha", alpha)
    if share > 1 or coverage.radius(LARGEST_SIZE) > share:
        expected = "a share of the rows, at most 1, for which at most 2^20 records are enough"
        raise InvalidArgument("alpha", expected, shown(alpha))
    low, high = 0, LARGEST_SIZE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if coverage.radius(middle) <= share else (middle, high)
    return high


def theorem_rows(
    alpha: Real,
    beta: float,
    epsilon: Real,
    *,
    universe: int,
    functions: int | None = None,
    dimension: int | None = None,
) -> Fraction:
    """How many rows are enough for an error: Theorems 4.5 and 4.9 of Dwork and Roth (2014).

    With a database of ceil(2 ln(2k) / alpha²) records, k functions with values in [0, 1] have, with
    probability 1 - beta, all shares within alpha on a table of n rows, n public, once

        n >= (8 ln(2k) ln|X| / alpha² + 4 ln|X| + 4 ln(1/beta) + 2 epsilon) / (epsilon alpha).

    The size is a whole number here, all databases are counted in the range, and a score is a whole
    number of rows. Functions of a dimension of Vapnik and Chervonenkis, of whatever number, have
    them with m records that some database needs to be within alpha / 2 of every table, once

        n >= (4 m ln|X| + 4 ln(1/beta) + 2 epsilon) / (epsilon alpha).

    Where both numbers are given, the fewer rows count.

    Raises
    ------
    InvalidArgument
        If a number is out of range, or neither `functions` nor `dimension` is given.
    """
    share, strength = to_positive("alpha", alpha), to_positive("epsilon", epsilon)
    if share > 1:
        raise InvalidArgument("alpha", "a share above 0, and at most 1", str(float(share)))
    if functions is None and dimension is None:
        raise InvalidArgument("functions", "given, or a dimension", "neither")
    cells = math.log(to_count("universe", universe, bits=None))
    failure = Fraction(4 * math.log(to_beta(beta)))
    slack = 1 + Fraction(1, 1 << 40)
    work: list[Fraction] = []
    if functions is not None:
        spread = math.log(2 * to_count("functions", functions, bits=None))
        rest = Fraction(4 * cells) - failure
        work.append(Fraction(8 * spread * cells) * slack / share**2 + rest * slack)
    if dimension is not None:
        if share < _LEAST:
            raise InvalidArgument("alpha", "at least 2^-40 for a dimension", shown(alpha))
        size = _covering(share / 2, Dimension(dimension, "as given").value)
        work.append((size * Fraction(4 * cells) - failure) * slack)
    return (min(work) + 2 * strength) / (strength * share)


def _covering(share: Fraction, dimension: int) -> int:
    """The fewest records with which functions of a dimension are within a share of every table."""

    def covers(size: int) -> bool:
        return _above(by_dimension(dimension, size)) <= share

    high = 1
    while not covers(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if covers(middle) else (middle, high)
    return high


def theorem_alpha(
    rows: int,
    beta: float,
    epsilon: Real,
    *,
    universe: int,
    functions: int | None = None,
    dimension: int | None = None,
) -> Fraction:
    """The error that a number of rows allows: `theorem_rows` solved for alpha."""
    number = to_count("rows", rows)

    def needed(share: Fraction) -> Fraction:
        return theorem_rows(
            share, beta, epsilon, universe=universe, functions=functions, dimension=dimension
        )

    needed(Fraction(1))  # so that wrong arguments are told
    low, high = 0, 1 << 40
    while (high - low) << 20 > high:
        middle = (low + high) // 2
        if middle and needed(Fraction(middle, 1 << 40)) <= number:
            high = middle
        else:
            low = middle
    return Fraction(high, 1 << 40)
