"""All intervals of one ordered attribute, counted by windows of the gaps of running counts.

The error of an interval is a difference of two gaps of running counts, so the largest error is the
distance from the least gap to the greatest, which both may be 0 before the first cell. A small
database has an error of at most t if all its gaps lie in a window of length t that begins where the
least of them is; for each beginning these are counted, less those that keep away from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TypeAlias, cast

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.base import Aim, DrawTerms, Work
from dpsdk.kernel.draw_database.bounds import Coverage, IntervalCoverage
from dpsdk.kernel.draw_database.structured import COUNTS, Candidate, Levels, Structured
from dpsdk.kernel.draw_database.thresholds import Axis, Chain, Course, Thresholds
from dpsdk.kernel.draw_database.ways import Ways, choose, multiset
from dpsdk.noise import NoiseSource

__all__ = ["Intervals"]

_GRAIN = 4
"""The parts of a row to which least and greatest gaps are rounded under add-remove."""


class Intervals(Structured):
    """The sampler for ranges of an attribute: near in all intervals of the pieces of an axis.

    The score is not the largest error itself, but ceil(g·max) - floor(g·min) in parts 1/g of a row,
    for the greatest and the least gap. Where a row is exchanged, all gaps move one way, by at most
    a row, and so does the score with g = 1. Where one comes or goes, gaps move both ways, by a row
    in all, and rounding may add a part; then g is 4, and the rate is less by the factor 4/5. For
    small databases of up to 4 records, g is their size, and nothing is rounded.
    """

    @classmethod
    def of(
        cls, names: tuple[str, ...], shape: tuple[int, ...], terms: DrawTerms, axis: Axis
    ) -> Intervals:
        """The sampler for the pieces of an axis."""
        return cls("intervals", names, shape, terms, (Thresholds(axis),), whole=True)

    @property
    def grain(self) -> int:  # type: ignore[override]  # derived here, a constant elsewhere
        return 1 if self.terms.setting.replaced else min(self.terms.size, _GRAIN)

    @property
    def rate(self) -> Fraction:
        grain = self.grain
        rounded = not self.terms.setting.replaced and grain < self.terms.size
        moved = grain * self.terms.setting.unit_rows + rounded
        return self.terms.epsilon * grain / (2 * moved)

    @property
    def rounding(self) -> Fraction:  # type: ignore[override]  # derived here, a constant elsewhere
        return Fraction(2, self.grain)

    @property
    def coverage(self) -> Coverage:
        return IntervalCoverage()

    def _work(self) -> Work:
        setting = self.terms.setting
        rows = setting.row_limit if setting.rows is None else setting.rows
        # Each count goes through as many windows, the most of which are soon found empty.
        windows = self.grain * (self._highest(rows) + 1) * COUNTS // 2
        once, bits = self._count_work(windows), math.ceil(self.log2_candidates)
        return Work(once.seconds, once.bytes + windows * (200 + bits // 8))

    def levels(self, histogram: Counts) -> Levels:
        aim = Aim(histogram.rows, self.terms.size, ordered=False)
        course = Course.of(cast("Thresholds", self.parts[0]).axis, histogram, aim)
        return _Near(course, self.grain, self.candidates, self.outside)


_Window: TypeAlias = tuple[int, int, int]
"""Bounds on size·F - rows·G, the first to the last; the second keeps away from the first."""


@frozen(eq=False)
class _Near(Levels):
    """Small databases by their score, in parts of a row."""

    course: Course
    grain: int
    candidates: int
    outside: bool
    _known: dict[tuple[int, int], int] = field(init=False, factory=dict[tuple[int, int], int])

    @property
    def worst(self) -> int:
        # The error of an interval is at most all rows, and rounding adds less than two parts.
        return self.grain * self.course.aim.rows + 1

    @property
    def guess(self) -> int:
        return self.grain * self.course.aim.rows // (2 * self.course.aim.size)

    def _windows(self, level: int) -> Iterator[_Window]:
        size, grain = self.course.aim.size, self.grain
        for start in range(-level, 1):
            below, inner = -(-size * start // grain), -(-size * (start + 1) // grain)
            yield below, inner, size * (start + level) // grain

    def _totals(self, below: int, above: int) -> range:
        """The numbers of records in the domain that keep the gap at the end within bounds."""
        rows, size = self.course.aim.rows, self.course.aim.size
        least, most = 0 if self.outside else size, size
        if rows:
            gap = size * int(self.course.counts[-1])
            least = max(least, -((above - gap) // rows))
            most = min(most, (gap - below) // rows)
        return range(least, most + 1)

    def _within(self, below: int, above: int) -> int:
        """How many small databases keep all their gaps within bounds."""
        if below > 0 or above < 0:
            return 0
        known = self._known.get((below, above))
        if known is None:
            ways = self.course.chain(below, above).ways
            known = sum(map(ways.of, self._totals(below, above)))
            self._known[below, above] = known
        return known

    def _touching(self, window: _Window) -> int:
        below, inner, above = window
        wide = self._within(below, above)
        return wide - self._within(inner, above) if wide else 0

    def count(self, level: int) -> int:
        if level >= self.worst:
            return self.candidates
        return sum(map(self._touching, self._windows(level)))

    def sample(self, level: int, noise: NoiseSource) -> Candidate:
        course = self.course
        if level >= self.worst:
            found = multiset(course.atoms + self.outside, course.aim.size, noise)
            return (tuple(atom for atom in found if atom < course.atoms),)
        windows = list(self._windows(level))
        below, inner, above = windows[choose(list(map(self._touching, windows)), noise)]
        checks = np.union1d(course.checks(below, above), course.checks(inner, above))
        wide = course.chain(below, above, checks)
        if inner > 0:
            # The gap before the first cell is in the first part already.
            totals = self._totals(below, above)
            records = totals[choose([wide.ways.of(n) for n in totals], noise)]
            return (tuple(wide.sample(records, noise)),)
        narrow = course.chain(inner, above, checks)
        totals, within = self._totals(below, above), self._totals(inner, above)
        return (tuple(_draw_touching(wide, narrow, totals, within, noise)),)

    def level(self, candidate: Candidate) -> int:
        low, high = self.course.extremes(candidate[0], last=True)
        size, grain = self.course.aim.size, self.grain
        return -(-grain * high // size) - grain * low // size


def _draw_touching(
    wide: Chain, narrow: Chain, totals: range, inner: range, noise: NoiseSource
) -> list[int]:
    """A uniform one of those in the wide chain that are not in the narrow one, too."""
    counts = [wide.ways.of(n) - (narrow.ways.of(n) if n in inner else 0) for n in totals]
    records = totals[choose(counts, noise)]
    number = len(wide.steps)
    if records not in inner:
        return wide.sample(records, noise)
    found: list[int] = []
    # Backwards, until a gap is met in the first part; what lies before it is free.
    while records <= narrow.steps[number - 1].high:
        number -= 1
        before = _less(wide.tables[number], narrow.tables[number])
        records, moved = wide.step_back(number, before, records, noise)
        found += moved
    return sorted(found + wide.sample(records, noise, number))


def _less(wide: Ways, narrow: Ways) -> Ways:
    if not narrow.counts:
        return wide
    return Ways(wide.low, [count - narrow.of(wide.low + i) for i, count in enumerate(wide.counts)])
