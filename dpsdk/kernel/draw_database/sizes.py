"""How many records a small database should have, and what follows from it: all public."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction

from attrs import frozen

from dpsdk._checks import shown, to_beta, to_count, to_positive
from dpsdk.errors import InvalidArgument
from dpsdk.kernel.draw_database.bounds import LARGEST_SIZE, Family
from dpsdk.kernel.draw_database.coverage import Coverage
from dpsdk.typing import Real

__all__ = ["LARGEST_SIZE", "Planner", "size_for"]

_GOOD_ENOUGH = Fraction(1, 1000)


def size_for(alpha: Real, coverage: Coverage) -> int:
    """The fewest records with which some database is within alpha of every table.

    For thresholds that is ceil(1 / 2 alpha), for intervals ceil(1 / alpha), and for any k functions
    at most ceil(ln(2k) / 2 alpha²): Lemma 4.3 of Dwork and Roth (2014) with a whole number, and
    without its condition on k. How far the database that is drawn may be off comes on top.

    Parameters
    ----------
    alpha : int, Fraction, Decimal, str or float
        The covering radius wanted, as a share of the rows, from above 0 to 1.
    coverage : Coverage
        What is proven of the class of functions.

    Raises
    ------
    InvalidArgument
        If alpha is out of range, or so small that more than 2^20 records would be needed.
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
    """What sizes are best for, for one family of databases, a strength and a confidence.

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
        """How many rows are enough, at the best size, for no share to be off by more than alpha.

        Raises
        ------
        InvalidArgument
            If alpha is not above 0, or so small that no size within the limit covers that well.
        """
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
    """A whole number of almost the least cost(x, x), from 1 to `most`.

    `cost(low, high)` must not exceed the cost of anything between the two.
    """
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
