"""Timelines: the sums of runs for each period of time, as a step function.

Neighbours that differ in one period are a kind of their own, and each kind has a line. Periods are
numbered without end in both directions, so that those to come exist already; as most were told the
same, a timeline has as many steps as runs ended in different places.
docs/explanation/proofs/periods.md has the theorem.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from dpsdk._checks import shown
from dpsdk.accounting.filters.composition import Pairs, pattern
from dpsdk.accounting.guarantee import Guarantee, GuaranteeByPeriod
from dpsdk.accounting.ledger.lines import LINE, Line, worst_line
from dpsdk.codec import INTEGER, ListOf, Nested, written
from dpsdk.errors import InvalidArgument, RecordError, TooLarge

__all__ = [
    "DISTINCT_LIMIT",
    "EVER",
    "STEP_LIMIT",
    "TIMELINE",
    "Piece",
    "Range",
    "Timeline",
    "check_range",
    "check_timeline",
    "merged",
    "shares_of",
]

DISTINCT_LIMIT = 2**12
"""So many different lines are kept; beyond them neighbouring steps are merged."""

STEP_LIMIT = 2**15
"""So many steps are kept, however few lines there are."""

Range: TypeAlias = tuple[int, int]
"""Numbers of periods from the first to the last, which is of them."""

EVER: Range = (-(1 << 62), 1 << 62)
"""All periods that have a number."""

Piece: TypeAlias = tuple[int, int, Line]
"""A range of periods and their line."""


@written(
    "timeline",
    {
        "starts": ListOf(INTEGER, most=STEP_LIMIT),
        "lines": ListOf(LINE, least=1, most=STEP_LIMIT + 1),
    },
    public=False,
)
class Timeline(NamedTuple):
    """The line of every period.

    Parameters
    ----------
    starts
        The numbers of the periods with which steps begin, but for the first step, which has no
        beginning.
    lines
        The line of each step. The last one has no end.
    """

    starts: tuple[int, ...]
    lines: tuple[Line, ...]

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> Timeline:
        """The timeline of ranges that follow each other, of which the first and last are endless.

        Neighbours of one line are joined.
        """
        kept = [pieces[0]]
        kept += [two for one, two in pairwise(pieces) if one[2] != two[2]]
        return cls(tuple([low for low, *_ in kept[1:]]), tuple([line for *_, line in kept]))

    def line(self, period: int) -> Line:
        """The line of a period."""
        return self.lines[bisect_right(self.starts, period)]

    def lines_in(self, first: int, last: int) -> tuple[Line, ...]:
        """The lines of the periods of a range, in their order."""
        starts = self.starts
        return self.lines[bisect_right(starts, first) : bisect_right(starts, last) + 1]

    def cuts(self, first: int, last: int) -> tuple[int, ...]:
        """The periods of a range, but for the first, with which steps begin."""
        return self.starts[bisect_right(self.starts, first) : bisect_right(self.starts, last)]

    def steps(self, first: int, last: int) -> Iterator[Piece]:
        """The steps of a range."""
        cuts = (first, *self.cuts(first, last), last + 1)
        for (low, after), line in zip(pairwise(cuts), self.lines_in(first, last), strict=True):
            yield low, after - 1, line

    def replaced(self, pieces: Sequence[Piece]) -> Timeline:
        """The same where the periods of some ranges, in order, have other lines."""
        if not pieces:
            return self
        low, high = pieces[0][0], pieces[-1][1]
        before = bisect_right(self.starts, low - 1)
        starts, lines = [*self.starts[:before]], [*self.lines[: before + 1]]

        def put(start: int, line: Line) -> None:
            if line != lines[-1]:
                starts.append(start)
                lines.append(line)

        reached = low
        for first, last, line in pieces:
            if first > reached:
                for start, _, old in self.steps(reached, first - 1):
                    put(start, old)
            put(first, line)
            reached = last + 1
        after = bisect_right(self.starts, high + 1)
        put(high + 1, self.lines[after])
        return Timeline((*starts, *self.starts[after:]), (*lines, *self.lines[after + 1 :]))


TIMELINE = Nested[Timeline]("a timeline", Timeline)


def check_range(periods: Range) -> Range:
    """A range of periods that all have a number; raises `InvalidArgument` if it is none."""
    first, last = periods
    if type(first) is not int or type(last) is not int or not EVER[0] < first <= last < EVER[1] - 1:
        expected = "the numbers of a first and a last period, in order"
        raise InvalidArgument("periods", expected, shown(periods))
    return first, last


def check_timeline(timeline: Timeline) -> None:
    """Raise `RecordError` where charges cannot have led to a timeline."""
    starts, lines = timeline
    if len(lines) != len(starts) + 1 or not all(one < two for one, two in pairwise(starts)):
        raise RecordError("Timeline.starts", "in order, one less than lines", "others")
    if any(one == two for one, two in pairwise(lines)):
        raise RecordError("Timeline.lines", "other than those of the steps beside", "equal ones")
    if starts and not EVER[0] < starts[0] <= starts[-1] < EVER[1]:
        raise RecordError("Timeline.starts", "numbers of periods", "others")


def shares_of(runs: Pairs, periods: Range) -> list[tuple[int, int, Pairs]]:
    """The ranges of periods that are told by some runs on a desk, each with what it is told.

    Raises `InvalidArgument` if a run is told to touch a period that is not of the desk.
    """
    cuts: set[int] = set()
    parts: list[tuple[Sequence[tuple[int, int, Guarantee]], int]] = []
    for run, times in runs:
        if isinstance(run, GuaranteeByPeriod):
            if run.parts and not periods[0] <= run.parts[0][0] <= run.parts[-1][1] <= periods[1]:
                raise InvalidArgument("guarantee", f"of the periods {periods}", shown(run))
            parts.append((run.parts, times))
        else:
            parts.append((((*periods, run),), times))
    if len(parts) == 1:
        touched, times = parts[0]
        return [(first, last, [(run, times)]) for first, last, run in touched]
    for touched, _ in parts:
        for first, last, _ in touched:
            cuts.update((first, last + 1))
    shares = [(low, after - 1, Pairs()) for low, after in pairwise(sorted(cuts))]
    for touched, times in parts:
        place = 0
        for first, last, run in touched:
            while shares[place][0] < first:
                place += 1
            while place < len(shares) and shares[place][1] <= last:
                shares[place][2].append((run, times))
                place += 1
    return [share for share in shares if share[2]]


def merged(timeline: Timeline, serves: Callable[[int, int, Line], bool] | None = None) -> Timeline:
    """The same with fewer steps, where there are too many: the oldest are merged first.

    Merged are neighbours with the same open members, into a line that `serves` all that is set
    aside in their periods. The first and the last step, which have no end, stay as they are. Raises
    `TooLarge` where there still are too many.
    """
    starts, lines = timeline
    if len(lines) <= DISTINCT_LIMIT:
        return timeline
    counts = Counter(lines)
    if len(counts) <= DISTINCT_LIMIT and len(lines) <= STEP_LIMIT:
        return timeline
    # With room for as many again as an eighth, so that not every charge has to look at all.
    distinct, steps = DISTINCT_LIMIT - DISTINCT_LIMIT // 8, STEP_LIMIT - STEP_LIMIT // 8
    left = len(lines)
    inner: list[tuple[int, Line]] = []
    for start, end, line in zip(starts, starts[1:], lines[1:-1], strict=False):
        if inner and (len(counts) > distinct or left > steps):
            begun, beside = inner[-1]
            worse = worst_line((beside, line))
            if pattern(beside.state) == pattern(line.state) and (
                serves is None or serves(begun, end - 1, worse)
            ):
                counts[worse] += 1
                for gone in (beside, line):
                    counts[gone] -= 1
                    if not counts[gone]:
                        del counts[gone]
                counts = +counts if not counts[beside] or not counts[line] else counts
                inner[-1] = begun, worse
                left -= 1
                continue
        inner.append((start, line))
    if len(counts) > DISTINCT_LIMIT or left > STEP_LIMIT:
        advice = "ask about ranges of time that end alike"
        raise TooLarge("the timeline", len(counts), DISTINCT_LIMIT, "different periods", advice)
    ends = (EVER[0], lines[0]), (starts[-1], lines[-1])
    return Timeline.of([(start, start, line) for start, line in (ends[0], *inner, ends[1])])
