"""An exact draw from weights exp(-rate·level), from counts of what lies at or below a level.

The levels are cut into segments. A segment is picked with the weight that it would have if all
that lies at or below its end were at its beginning; one of these is drawn uniformly, and kept if it
is in the segment, with the chance by which its own level makes it rarer. What is kept has the
weight of its level, whatever the segments are (docs/explanation/proofs/small-database.md). They
decide how many tries it takes, so floats may place them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import TypeAlias

from dpsdk._records import frozen
from dpsdk.noise import NoiseSource

__all__ = ["Candidate", "Levels", "attempt", "draw", "segmented"]

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
