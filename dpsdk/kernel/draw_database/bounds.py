"""How far off a small database may be, and how many records it should have."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown, to_beta, to_count, to_positive
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.kernel.draw_database.coverage import Coverage
from dpsdk.typing import Real

__all__ = [
    "LARGEST_SIZE",
    "DrawBound",
    "Family",
    "Planner",
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


def to_size(size: int) -> int:
    """A number of records."""
    number = to_count("size", size)
    if number > LARGEST_SIZE:
        raise InvalidArgument("size", f"from 1 to {LARGEST_SIZE:,}", shown(number))
    return number


def _to_atoms(atoms: int) -> int:
    return to_count("atoms", atoms, bits=None)


@frozen
class Family:
    """The small databases over which one draw is made, of whatever size, and what is proven.

    Parameters
    ----------
    coverage
        How closely they can follow any table.
    atoms
        Over how many kinds of records they are.
    ordered
        Whether each is weighed by the number of orders of its records.
    rounding
        By less than so many rows a score exceeds the largest error.
    grain
        Into how many parts scores divide a row.
    """

    coverage: Coverage
    atoms: int = field(converter=_to_atoms)
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
        failure, falls = to_beta(beta), to_positive("rate", rate)
        odds = self.log_candidates(size) + math.log1p(-failure) - math.log(failure)
        odds += abs(odds) * _RATE + _RATE
        # A draw is bad with odds of at most candidates · exp(-rate · t), where the least score is
        # t rows or more below all that are bad.
        steps = max(1, math.ceil(Fraction(odds) * self.grain / falls))
        return Fraction(steps - 1, self.grain)

    def error(self, size: int, rate: Fraction, rows: int, beta: float) -> Fraction:
        """How far a count of the table is from its share of the database scaled to it, in rows.

        Of all functions of the class at once, with probability 1 - beta, for every table of at most
        so many rows; in units of the widest function's range.
        """
        limit = to_count("rows", rows)
        least = math.ceil((limit * self.coverage.radius(size) + self.rounding) * self.grain) - 1
        return min(Fraction(limit), Fraction(least, self.grain) + self.excess(size, rate, beta))


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


def theorem_rows(
    alpha: Real, beta: float, epsilon: Real, *, functions: int, universe: int
) -> Fraction:
    """How many rows are enough for an error: Theorem 4.5 of Dwork and Roth (2014), corrected.

    With a database of ceil(2 ln(2k) / alpha²) records, k functions with values in [0, 1] have, with
    probability 1 - beta, all shares within alpha on a table of n rows, n public, once

        n >= (8 ln(2k) ln|X| / alpha² + 4 ln|X| + 4 ln(1/beta) + 2 epsilon) / (epsilon alpha).

    The size is a whole number here, all databases are counted in the range, and a score is a whole
    number of rows. `Planner.rows` of the sizes module needs fewer for most classes.
    """
    share, strength = _share(alpha), to_positive("epsilon", epsilon)
    squares, rest = _theorem(beta, strength, functions, universe)
    return (squares / share**2 + rest) / (strength * share)


def theorem_alpha(
    rows: int, beta: float, epsilon: Real, *, functions: int, universe: int
) -> Fraction:
    """The error that a number of rows allows: `theorem_rows` solved for alpha."""
    strength, number = to_positive("epsilon", epsilon), to_count("rows", rows)
    squares, rest = _theorem(beta, strength, functions, universe)
    low, high = 0, 1 << 40
    while (high - low) << 20 > high:
        middle = (low + high) // 2
        share = Fraction(middle, 1 << 40)
        if middle and squares / share**2 + rest <= number * strength * share:
            high = middle
        else:
            low = middle
    return Fraction(high, 1 << 40)


def _theorem(
    beta: float, epsilon: Fraction, functions: int, universe: int
) -> tuple[Fraction, Fraction]:
    """The dividends of alpha cubed and of alpha in Theorem 4.5."""
    cells = math.log(to_count("universe", universe, bits=None))
    spread = math.log(2 * to_count("functions", functions, bits=None))
    slack = 1 + Fraction(1, 1 << 40)
    rest = Fraction(4 * cells) - Fraction(4 * math.log(to_beta(beta)))
    return Fraction(8 * spread * cells) * slack, rest * slack + 2 * epsilon


def _share(alpha: Real) -> Fraction:
    share = to_positive("alpha", alpha)
    if share > 1:
        raise InvalidArgument("alpha", "a share above 0, and at most 1", str(float(share)))
    return share


_GOOD_ENOUGH = Fraction(1, 1000)


def size_for(alpha: Real, coverage: Coverage) -> int:
    """The fewest records with which some database is within alpha of every table.

    For thresholds that is ceil(1 / 2 alpha), for intervals ceil(1 / alpha), and for any k functions
    at most ceil(ln(2k) / 2 alpha²): Lemma 4.3 of Dwork and Roth (2014) with a whole number, and
    without its condition on k. How far the database that is drawn may be off comes on top.
    """
    share = to_positive("alpha", alpha)
    expected = "a share of the rows, at most 1, for which at most 2^20 records are enough"
    if share > 1 or coverage.radius(LARGEST_SIZE) > share:
        raise InvalidArgument("alpha", expected, shown(alpha))
    low, high = 0, LARGEST_SIZE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if coverage.radius(middle) <= share else (middle, high)
    return high


@frozen
class Planner:
    """Find the best sizes for one family of databases, a strength and a confidence.

    Parameters
    ----------
    family
        The databases, and what is proven of them.
    rate
        By how much the logarithm of a weight falls for each row of its score: epsilon / 2, and
        less where a person has several rows.
    beta
        The chance of a larger error, strictly between 0 and 1.
    most
        No more records than this.
    """

    family: Family
    rate: Fraction
    beta: float
    most: int = LARGEST_SIZE

    def __attrs_post_init__(self) -> None:
        to_beta(self.beta)
        if not 1 <= to_count("most", self.most) <= LARGEST_SIZE:
            raise InvalidArgument("most", f"from 1 to {LARGEST_SIZE:,}", shown(self.most))
        to_positive("rate", self.rate)

    def size(self, rows: int) -> int:
        """The size with the least error on tables of a public number of rows.

        The error that is proven is within a thousandth, and a row, of the least one of all sizes.
        """
        number = to_count("rows", rows)
        family, limit = self.family, Fraction(number)

        def error(low: int, high: int) -> Fraction:
            return limit * family.coverage.radius(high) + self._excess(low)

        return _least(error, self.most)

    def alpha(self, rows: int) -> Fraction:
        """The error that results of a public number of rows at the best size, as a share."""
        size = self.size(rows)
        return Fraction(self.family.error(size, self.rate, rows, self.beta), rows)

    def rows(self, alpha: Real) -> int:
        """How many rows are enough, at the best size, for no share to be off by more than alpha."""
        share = to_positive("alpha", alpha)
        coverage = self.family.coverage
        if coverage.radius(self.most) >= share:
            expected = "a share for which some size within the limit leaves room"
            raise InvalidArgument("alpha", expected, shown(alpha))

        def needed(low: int, high: int) -> Fraction:
            room = share - coverage.radius(high)
            # Where nothing leaves room, no finite number of rows is enough.
            return self._excess(low) / max(room, Fraction(1, 1 << 62))

        size = _least(needed, self.most)
        return max(1, math.ceil(self._excess(size) / (share - coverage.radius(size))))

    def _excess(self, size: int) -> Fraction:
        """In rows: by less than so much the score drawn exceeds what coverage says."""
        return self.family.excess(size, self.rate, self.beta) + self.family.rounding


def _least(cost: Callable[[int, int], Fraction], most: int) -> int:
    """A whole number of almost the least cost(x, x), from 1 to `most`."""
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
