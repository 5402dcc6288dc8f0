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

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database import coverage
from dpsdk.kernel.draw_database.base import Aim, DrawTerms, Sampler, Work
from dpsdk.kernel.draw_database.coverage import Coverage
from dpsdk.kernel.draw_database.levels import Levels, draw
from dpsdk.kernel.draw_database.structured import COUNTS, extent, highest, records
from dpsdk.kernel.draw_database.thresholds import Axis, Chain, Course, Thresholds, course
from dpsdk.kernel.draw_database.ways import NOTHING, Ways, choose, free, multiset, split
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["Intervals"]

_GRAIN = 4
"""The parts of a row to which least and greatest gaps are rounded under add-remove."""


@frozen(eq=False)
class Intervals(Sampler):
    """The sampler for ranges of an attribute: near in all intervals of the pieces of an axis.

    The score is not the largest error itself, but ceil(g·max) - floor(g·min) in parts 1/g of a row,
    for the greatest and the least gap. Where a row is exchanged, all gaps move one way, by at most
    a row, and so does the score with g = 1. Where one comes or goes, gaps move both ways, by a row
    in all, and rounding may add a part; then g is 4, and the rate is less by the factor 4/5. For
    small databases of up to 4 records, g is their size, and nothing is rounded.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    terms: DrawTerms
    axis: Axis
    kind: str = field(init=False, default="intervals")

    @property
    def grain(self) -> int:
        return 1 if self.terms.setting.replaced else min(self.terms.size, _GRAIN)

    @property
    def rate(self) -> Fraction:
        grain = self.grain
        rounded = not self.terms.setting.replaced and grain < self.terms.size
        moved = grain * self.terms.setting.unit_rows + rounded
        return self.terms.epsilon * grain / (2 * moved)

    @property
    def rounding(self) -> Fraction:
        return Fraction(2, self.grain)

    @property
    def atoms(self) -> int:
        return self.axis.pieces + self.terms.setting.outside

    @property
    def coverage(self) -> Coverage:
        return coverage.Intervals()

    def work(self) -> Work:
        rows, width = extent(self)
        # Each count goes through as many windows, the most of which are soon found empty.
        windows = self.grain * (highest(self, rows) + 1) * COUNTS // 2
        part, aim = Thresholds(self.axis), Aim(rows, self.terms.size, ordered=False)
        bits = math.ceil(self.log2_candidates)
        once = part.effort(aim, width).work(windows, bits, ordered=False)
        return Work(once.seconds, once.bytes + windows * (200 + bits // 8))

    def draw(self, histogram: Counts, noise: NoiseSource) -> Ints:
        found = draw(self.levels(histogram), self.rate / self.grain, noise)
        part = Thresholds(self.axis)
        return records(self.names, self.shape, (part,), (found,), self.terms.size, noise)

    def levels(self, histogram: Counts) -> Near:
        """The small databases by their score for a private table, in parts of a row."""
        aim = Aim(histogram.rows, self.terms.size, ordered=False)
        along = course(self.axis, histogram, aim)
        return Near(along, aim, self.grain, self.candidates, self.terms.setting.outside)


@frozen
class _Window:
    """Bounds on size·F - rows·G: `below` to `above`; `inner` keeps away from `below`."""

    below: int
    inner: int
    above: int


@frozen(eq=False)
class Near(Levels[tuple[int, ...]]):
    """Small databases by their score, in parts of a row. A candidate is a list of atoms in order.

    Where records may lie outside, the list may be shorter than the small database.
    """

    course: Course
    aim: Aim
    grain: int
    candidates: int
    outside: bool
    _known: dict[tuple[int, int], int] = field(init=False, factory=dict[tuple[int, int], int])

    @property
    def worst(self) -> int:  # type: ignore[override]  # derived here, a field elsewhere
        # The error of an interval is at most all rows, and rounding adds less than two parts.
        return self.grain * self.aim.rows + 1

    @property
    def guess(self) -> int:  # type: ignore[override]  # derived here, a field elsewhere
        return self.grain * self.aim.rows // (2 * self.aim.size)

    def _windows(self, level: int) -> Iterator[_Window]:
        size, grain = self.aim.size, self.grain
        for start in range(-level, 1):
            below, inner = -(-size * start // grain), -(-size * (start + 1) // grain)
            yield _Window(below, inner, size * (start + level) // grain)

    def _gap(self, records: int) -> int:
        """The gap at the end, for so many records in the domain."""
        return self.aim.size * int(self.course.counts[-1]) - self.aim.rows * records

    def _totals(self, below: int, above: int) -> range:
        """The numbers of records in the domain that keep the gap at the end within bounds."""
        rows, size = self.aim.rows, self.aim.size
        most = size
        least = 0 if self.outside else size
        if rows:
            least = max(least, -((above - self._gap(0)) // rows))
            most = min(most, (self._gap(0) - below) // rows)
        return range(least, most + 1)

    def _within(self, below: int, above: int) -> int:
        """How many small databases keep all their gaps within bounds."""
        if below > 0 or above < 0:
            return 0
        known = self._known.get((below, above))
        if known is None:
            chain = self._chain(self.course.checks(below, above), below, above)
            known = sum(chain.ways.of(records) for records in self._totals(below, above))
            self._known[below, above] = known
        return known

    def _chain(self, checks: Ints, below: int, above: int) -> Chain:
        return Chain.along(self.course.steps(checks, below, above), ordered=False)

    def _touching(self, window: _Window) -> int:
        wide = self._within(window.below, window.above)
        return wide - self._within(window.inner, window.above) if wide else 0

    def count(self, level: int) -> int:
        if level >= self.worst:
            return self.candidates
        return sum(map(self._touching, self._windows(level)))

    def sample(self, level: int, noise: NoiseSource) -> tuple[int, ...]:
        if level >= self.worst:
            found = multiset(self.course.atoms + self.outside, self.aim.size, noise)
            return tuple(atom for atom in found if atom < self.course.atoms)
        windows = list(self._windows(level))
        window = windows[choose(list(map(self._touching, windows)), noise)]
        below, inner, above = window.below, window.inner, window.above
        checks = np.union1d(self.course.checks(below, above), self.course.checks(inner, above))
        wide = self._chain(checks, below, above)
        if inner > 0:
            # The gap before the first cell is in the first part already.
            totals = self._totals(below, above)
            records = totals[choose([wide.ways.of(n) for n in totals], noise)]
            return tuple(wide.sample(records, noise))
        narrow = self._chain(checks, inner, above)
        return tuple(self._draw_touching(window, wide, narrow, noise))

    def _draw_touching(
        self, window: _Window, wide: Chain, narrow: Chain, noise: NoiseSource
    ) -> list[int]:
        """A uniform one of those in the wide chain that are not in the narrow one, too."""
        totals = self._totals(window.below, window.above)
        inner = self._totals(window.inner, window.above)
        counts = [wide.ways.of(n) - (narrow.ways.of(n) if n in inner else 0) for n in totals]
        records = totals[choose(counts, noise)]
        number = len(wide.steps)
        if records not in inner:
            return wide.sample(records, noise)
        found: list[int] = []
        # Backwards, until a gap is met in the first part; what lies before it is free.
        while records <= narrow.steps[number - 1].high:
            number -= 1
            step = wide.steps[number]
            start = sum(step.atoms for step in wide.steps[:number])
            before = _less(wide.tables[number], narrow.tables[number])
            more = free(step.atoms, records - before.low, ordered=False)
            records, moved = split(before, more, records, noise, ordered=False)
            found += [start + atom for atom in multiset(step.atoms, moved, noise)] if moved else []
        return sorted(found + wide.unwind(number, records, noise))

    def level(self, candidate: tuple[int, ...]) -> int:
        low, high = self.course.extremes(candidate, last=True)
        size, grain = self.aim.size, self.grain
        return -(-grain * high // size) - grain * low // size


def _less(wide: Ways, narrow: Ways) -> Ways:
    if narrow is NOTHING or not narrow.counts:
        return wide
    counts = [count - narrow.of(wide.low + i) for i, count in enumerate(wide.counts)]
    return Ways(wide.low, counts)
