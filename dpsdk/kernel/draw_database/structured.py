"""Small databases for workloads of parts: thresholds, cells, or several of either at once.

They are drawn from weights exp(-rate·level), by counts of what lies at or below a level. The levels
are cut into segments. A segment is picked with the weight that it would have if all that lies at or
below its end were at its beginning; one of these is drawn uniformly, and kept if it is in the
segment, with the chance by which its own level makes it rarer. What is kept has the weight of its
level, whatever the segments are (docs/explanation/proofs/small-database.md). They decide how many
tries it takes, so floats may place them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.base import Aim, DrawTerms, Sampler, Work, estimate
from dpsdk.kernel.draw_database.bounds import Coverage, MarginalCoverage
from dpsdk.kernel.draw_database.cells import Cells, NearCells
from dpsdk.kernel.draw_database.thresholds import NearThresholds, Thresholds
from dpsdk.kernel.draw_database.ways import choose, shuffled
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["COUNTS", "Candidate", "Levels", "Part", "Structured", "attempt", "draw", "segmented"]

Candidate: TypeAlias = tuple[tuple[int, ...], ...]
"""For each part of a workload the atoms of the records, in order; those outside are left out."""

_TRIES = 6.0
"""Segments are cut until no more tries than this are to be expected, or cutting does not help."""

_FINE = 1.0
"""Segments along which weights fall by no more than exp(-_FINE) are not cut."""

_SHARE = 0.25
"""Once all that could be cut is less of the tries than this, nothing is cut any more."""


class Levels(ABC):
    """Candidates on integer levels from 0, counted by how many lie at or below a level."""

    __slots__ = ()

    @property
    @abstractmethod
    def worst(self) -> int:
        """No candidate is above this level."""

    @property
    @abstractmethod
    def guess(self) -> int:
        """About where the first candidates are, or below."""

    @abstractmethod
    def count(self, level: int) -> int:
        """The weight of the candidates at or below a level, from 0 to `worst`."""

    @abstractmethod
    def sample(self, level: int, noise: NoiseSource) -> Candidate:
        """One of the candidates at or below a level, with a probability as its base weight."""

    @abstractmethod
    def level(self, candidate: Candidate) -> int:
        """The level of a candidate."""


@frozen
class _Segment:
    """The levels above `below` up to `end`, and the counts at or below either."""

    below: int
    end: int
    under: int
    count: int

    def logs(self, rate: float) -> tuple[float, float]:
        """Logarithms of the weight it is picked with, and of one that it has at the least."""
        inside = self.count - self.under
        return _log(self.count) - rate * (self.below + 1), _log(inside) - rate * self.end


def _log(number: int) -> float:
    return math.log(number) if number > 0 else -math.inf


def draw(levels: Levels, rate: Fraction, noise: NoiseSource) -> Candidate:
    """One candidate, with a probability proportional to its base weight · exp(-rate · level)."""
    segments = segmented(levels, float(rate))
    while (candidate := attempt(levels, segments, rate, noise)) is None:
        pass
    return candidate


def attempt(
    levels: Levels, segments: Sequence[_Segment], rate: Fraction, noise: NoiseSource
) -> Candidate | None:
    """One try: a candidate, or None if what was proposed is not kept."""
    starts = [segment.below + 1 for segment in segments]
    counts = [segment.count for segment in segments]
    segment = segments[noise.pick(starts, rate, counts)]
    candidate = levels.sample(segment.end, noise)
    above = levels.level(candidate) - (segment.below + 1)
    return candidate if above >= 0 and noise.bernoulli_exp(rate * above) else None


def segmented(levels: Levels, rate: float) -> list[_Segment]:
    """Segments that hold all candidates, few and with few tries to expect."""
    done: list[_Segment] = []
    uncut: list[tuple[float, int, _Segment]] = []

    def add(segment: _Segment) -> None:
        length = segment.end - segment.below
        if segment.count == segment.under:
            return
        if length == 1 or (length - 1) * rate <= _FINE:
            done.append(segment)
        else:
            heappush(uncut, (-segment.logs(rate)[0], segment.below, segment))

    for segment in _upwards(levels, rate):
        add(segment)
    while _worth_cutting(done, [segment for _, _, segment in uncut], rate):
        _, _, segment = heappop(uncut)
        middle = (segment.below + segment.end) // 2
        count = levels.count(middle)
        add(_Segment(segment.below, middle, segment.under, count))
        add(_Segment(middle, segment.end, count, segment.count))
    return done + [segment for _, _, segment in uncut]


def _upwards(levels: Levels, rate: float) -> Iterator[_Segment]:
    """Segments from the first level on, until what remains weighs little, and the remainder."""
    total, worst = levels.count(levels.worst), levels.worst
    below, under, level, known = -1, 0, min(levels.guess, worst), -math.inf
    while level < worst and _log(total) - rate * (below + 1) > known:
        count = levels.count(level)
        segment = _Segment(below, level, under, count)
        yield segment
        known = max(known, segment.logs(rate)[1])
        below, under = level, count
        level = min(worst, level + max(level // 4, math.ceil(1 / max(rate, 1 / worst))))
    if below < worst:
        yield _Segment(below, worst, under, total)


def _worth_cutting(done: list[_Segment], uncut: list[_Segment], rate: float) -> bool:
    """True if many tries are to be expected, and not for the segments that are done."""
    logs = [segment.logs(rate) for segment in done + uncut]
    top = max((most for most, _ in logs), default=0.0)
    most = [math.exp(upper - top) for upper, _ in logs]
    least = math.fsum(math.exp(lower - top) for _, lower in logs)
    cuttable = math.fsum(most[len(done) :])
    return cuttable > _SHARE * math.fsum(most) and math.fsum(most) > _TRIES * least


COUNTS = 40
"""About how often the small databases up to some level are counted for one draw, at the most."""


Part: TypeAlias = Thresholds | Cells
"""Functions of the attributes `names`, 0 outside the domain, which do not tell `atoms` apart.

One of the atoms is `spare` if all functions are 0 on it. `profile` has the numbers of a private
table that a part sees: the `ways` to put records into atoms with an error of at most so many rows,
a uniform `sample` of these, in order, and the `score` of records in atoms, in rows and rounded up.
`effort` is that of counting once, where running counts may differ by so many records, and `fill` a
uniform cell of an atom, one number for each name.
"""


@frozen(eq=False)
class Structured(Sampler):
    """The sampler for parts that share no attribute.

    Several parts are drawn over sequences of records, where they are independent given a bound on
    the error; a single one over multisets. `whole` says whether all records together are asked for,
    which only matters where rows may lie outside.
    """

    kind: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    terms: DrawTerms
    parts: tuple[Part, ...]
    whole: bool

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # derived here, a constant elsewhere
        return len(self.parts) > 1

    @property
    def outside(self) -> bool:
        """True if an atom stands for the outside, because no other one has all functions at 0."""
        spare = all(part.spare for part in self.parts) and not self.whole
        return self.terms.setting.outside and not spare

    @property
    def atoms(self) -> int:
        return math.prod(part.atoms for part in self.parts) + self.outside

    @property
    def coverage(self) -> Coverage:
        if len(self.parts) == 1 and not self.whole:
            return self.parts[0].coverage(self.atoms)
        parts = tuple(part.coverage(part.atoms) for part in self.parts)
        return MarginalCoverage(parts, self.outside)

    def _work(self) -> Work:
        return self._count_work(COUNTS)

    def _count_work(self, times: int) -> Work:
        """The work of counting so often."""
        setting, size = self.terms.setting, self.terms.size
        # By how many records running counts may differ, from public facts.
        rows, width = setting.row_limit, size + 1
        if setting.rows is not None:
            rows = setting.rows
            width = min(size, 2 * size * self._highest(rows) // max(rows, 1) + 1) + 1
        aim = Aim(rows, size, self.ordered)
        efforts = [part.effort(aim, width) for part in self.parts]
        return estimate(efforts, times, math.ceil(self.log2_candidates), ordered=self.ordered)

    def _highest(self, rows: int) -> int:
        """About the highest level, in rows, that has to be counted for a table of so many rows."""
        spread = math.log(2) * self.log2_candidates / float(self.rate)
        return math.ceil(min(float(rows), 1.25 * (rows / self.terms.size + spread)))

    def draw(self, histogram: Counts, noise: NoiseSource) -> Ints:
        found = draw(self.levels(histogram), self.rate / self.grain, noise)
        return self._records(found, noise)

    def levels(self, histogram: Counts) -> Levels:
        """The small databases by their score for a private table, in parts of a row."""
        aim = Aim(histogram.rows, self.terms.size, self.ordered)
        profiles = tuple([part.profile(histogram, aim) for part in self.parts])
        inside = int(histogram.records(())[1].sum()) if self.whole else None
        return _Near(aim, profiles, self.outside, inside)

    def _records(self, found: Candidate, noise: NoiseSource) -> Ints:
        """Records with a uniform cell of their atoms, in a uniform order if of several parts."""
        drawn = np.full((self.terms.size, len(self.names)), -1, dtype=np.int64)
        inside = len(found[0])
        places = {name: place for place, name in enumerate(self.names)}
        for part, atoms in zip(self.parts, found, strict=True):
            own = [places.pop(name) for name in part.names]
            for row, atom in enumerate(shuffled(atoms, noise) if self.ordered else atoms):
                drawn[row, own] = part.fill(atom, noise)
        for name, place in places.items():
            cells = self.shape[self.names.index(name)]
            drawn[:inside, place] = [noise.uniform_below(cells) for _ in range(inside)]
        return drawn[np.lexsort(drawn.T[::-1])]


@frozen(eq=False)
class _Near(Levels):
    """Small databases by their score."""

    aim: Aim
    profiles: tuple[NearThresholds | NearCells, ...]
    outside: bool
    inside: int | None
    """How many rows lie in the domain, where that is asked for."""

    @property
    def worst(self) -> int:
        # Neither count is above the number of rows.
        return self.aim.rows

    @property
    def guess(self) -> int:
        return self.aim.rows // (2 * self.aim.size)

    def _weights(self, level: int) -> list[int]:
        """For each number of records in the domain the weight of the candidates."""
        aim = self.aim
        low, high = 0 if self.outside else aim.size, aim.size
        if self.inside is not None:
            low = max(low, aim.least(self.inside, level))
            high = min(high, aim.most(self.inside, level))
        weights = [0] * (aim.size + 1)
        ways = [profile.ways(level) for profile in self.profiles] if low <= high else []
        for records in range(low, high + 1):
            weight = math.comb(aim.size, records) if aim.ordered else 1
            weights[records] = weight * math.prod(way.of(records) for way in ways)
        return weights

    def count(self, level: int) -> int:
        return sum(self._weights(level))

    def sample(self, level: int, noise: NoiseSource) -> Candidate:
        records = choose(self._weights(level), noise)
        return tuple(tuple(profile.sample(level, records, noise)) for profile in self.profiles)

    def level(self, candidate: Candidate) -> int:
        scores = [
            profile.score(atoms) for profile, atoms in zip(self.profiles, candidate, strict=True)
        ]
        if self.inside is not None:
            gap = self.aim.size * self.inside - self.aim.rows * len(candidate[0])
            scores.append(self.aim.score(abs(gap)))
        return max(scores)
