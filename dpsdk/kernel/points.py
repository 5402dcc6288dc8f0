"""Scores of `select` for a quantile: every value of an attribute is an option.

Theorem (docs/explanation/proofs/select-points.md). For q = a/b, and M rows that count, the value x
has the integer score -max(0, aM - b·#(rows at or below x), b·#(rows below x) - aM). A row that
comes or goes moves every score by max(a, b - a) at the most, one that is replaced by b. Values
between two neighbouring ones of the table have one score, so that a run of them is one option of
that multiplicity, within which the choice is uniform. Values with many rows are no worse for it,
unlike with the score -|#(rows at or below x) - qM| of Smith (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsdk._arrays import Lasting
from dpsdk._records import field, frozen
from dpsdk.accounting import BoundedRangeGuarantee, Guarantee
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Crossing, Facts
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

if TYPE_CHECKING:
    from dpsdk.kernel.select import ShortfallAccuracy

__all__ = ["PointPricing", "price_points"]

_FARTHEST = 2**60
"""Scores stay below so many steps."""

_FINEST = 2**7
"""Even of one step a row so many are counted, so that rows are exact in float64."""

_OPTIONS = 2**26
"""So many options are chosen from at the most, which is what exact choices take."""


def price_points(
    crossing: Crossing, epsilon: Fraction, facts: Facts, accuracy: type[ShortfallAccuracy]
) -> PointPricing:
    """Price the choice of a value by public facts alone: never by how many values there are."""
    if crossing.domain is not facts.domain and crossing.domain != facts.domain:
        raise InvalidArgument("gaps", "over the domain of the table", "another domain")
    denominator, rows = crossing.q.denominator, max(facts.row_limit, 1)
    if not max(denominator, _FINEST) * rows < _FARTHEST:
        expected = f"a share whose denominator times {rows:,} rows is below 2^60"
        raise InvalidArgument("q", expected, f"a denominator of {denominator:.3g}")
    runs = 2 * min(rows, crossing.cells) + 1
    if runs > _OPTIONS:
        what, advice = "a choice among values", "declare fewer rows by max_rows=, or a longer step"
        raise TooLarge(what, runs, _OPTIONS, "options", advice)
    move = _move(crossing.q, facts)
    scale = float(2 * move / (denominator * epsilon))
    return PointPricing(
        BoundedRangeGuarantee(epsilon),
        accuracy(scale, crossing.cells, 0.0),
        crossing,
        epsilon / (2 * move),
    )


def _move(q: Fraction, facts: Facts) -> int:
    """By how much a person moves a score at the most."""
    above, below = q.numerator, q.denominator - q.numerator
    row = above + below if facts.replaced else max(above, below)
    return row * facts.unit_rows


@frozen(eq=False)
class PointPricing(Lasting):
    """The price of the choice of a value, and how far from the best it may be; all public."""

    guarantee: Guarantee
    accuracy: ShortfallAccuracy
    _crossing: Crossing = field(repr=False)
    _rate: Fraction = field(repr=False)
    """The exponent of a step of score: ε over twice what a person moves a score by."""

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> int:
        """Read, score and choose. How long it takes tells how many different values there are."""
        values, counts = _counted(self._crossing, opened())
        starts, lengths, levels = runs_of(values, counts, self._crossing.q, self._crossing.cells)
        chosen = noise.pick(levels, self._rate, lengths)
        return int(starts[chosen]) + noise.uniform_below(int(lengths[chosen]))


def _counted(crossing: Crossing, counts: Counts) -> tuple[Ints, Ints]:
    """The different values of the rows that count, in order, and the number of rows of each."""
    where = crossing.where
    names = tuple(dict.fromkeys([crossing.attribute, *where.names]))
    codes, weights = counts.records(names)
    known = dict(zip(names, codes, strict=True))
    cells = known[crossing.attribute]
    inside = (where.columns([known[name] for name in where.names])[0] > 0) & (
        cells < crossing.cells
    )
    values, places = np.unique(cells[inside], return_inverse=True)
    rows = np.bincount(places.reshape(-1), weights[inside], minlength=len(values))
    return values.astype(np.int64), rows.astype(np.int64)


def runs_of(values: Ints, counts: Ints, q: Fraction, cells: int) -> tuple[Ints, Ints, Ints]:
    """The runs of cells with one score: first cells, numbers of cells, and scores below zero.

    Of each value, and of the cells before, between and behind the values, which may be none.
    """
    starts: Ints = np.empty(2 * len(values) + 1, dtype=np.int64)
    starts[0], starts[1::2], starts[2::2] = 0, values, values + 1
    lengths = np.diff(starts, append=cells)
    up_to: Ints = np.concatenate([[0], np.cumsum(counts)])
    # A value's rows lie at it and not below; between two values both counts are the same.
    at_or_below, below = np.repeat(up_to, 2)[1:], np.repeat(up_to, 2)[:-1]
    above, steps = q.numerator * int(up_to[-1]), q.denominator
    levels = np.maximum(0, np.maximum(above - steps * at_or_below, steps * below - above))
    return starts, lengths, levels
