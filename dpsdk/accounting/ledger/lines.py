"""Lines: the sums of runs for some kinds of neighbours, all of which a run must fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from dpsdk.accounting.filters.composition import STATE, STEPS, Composition, State, covered, worst
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.prices.run import prices_of
from dpsdk.codec import ListOf, Nested, OrNone, written

__all__ = [
    "LINE",
    "LINE_LIMIT",
    "LINES",
    "MOST_LINES",
    "Line",
    "Lines",
    "advanced",
    "all_advanced",
    "essential",
    "worst_line",
]

LINE_LIMIT = 16
"""So many lines are kept after a partition; beyond them the nearest are merged."""

_COMPARED = 512
"""Of more lines than that the nearest are merged before all are compared."""


@written("line", {"state": STATE, "epsilon": OrNone(STEPS), "rho": STEPS}, public=False)
class Line(NamedTuple):
    """The sum of runs: a filter's state, and sums to report."""

    state: State
    epsilon: int | None = 0
    rho: int = 0


Lines: TypeAlias = tuple[Line, ...]
"""The lines of one session for different neighbours. A run must fit all of them."""

MOST_LINES = 256
"""More than `LINE_LIMIT`, as lines with other open members are not merged."""

LINE = Nested[Line]("a line", Line)
LINES = ListOf(LINE, most=MOST_LINES)


def advanced(composition: Composition, line: Line, runs: Sequence[Guarantee]) -> Line | None:
    """The line after some runs, or None where they do not fit."""
    state, epsilon, rho = line
    for guarantee in runs:
        after = composition.charge(state, guarantee)
        if after is None:
            return None
        priced = prices_of(guarantee)
        pure = priced.epsilon_steps
        # A sum of pure ε is shown where every run has one, and none a leak beside it.
        epsilon = None if epsilon is None or pure is None or priced.leak_steps else epsilon + pure
        rho += priced.rho_steps
        state = after
    return Line(state, epsilon, rho)


def all_advanced(composition: Composition, lines: Lines, runs: Sequence[Guarantee]) -> Lines | None:
    """All lines after some runs, or None where these do not fit one of them."""
    if len(lines) == 1:
        alone = advanced(composition, lines[0], runs)
        return None if alone is None else (alone,)
    after: list[Line] = []
    for line in lines:
        one = advanced(composition, line, runs)
        if one is None:
            return None
        after.append(one)
    return tuple(after)


def worst_line(lines: Sequence[Line]) -> Line:
    """A line that is at least as far spent as each of these."""
    if len(lines) == 1:
        return lines[0]
    sizes = [line.epsilon for line in lines]
    known = [size for size in sizes if size is not None]
    return Line(
        worst([line.state for line in lines]),
        max(known) if len(known) == len(sizes) else None,
        max(line.rho for line in lines),
    )


def essential(lines: Iterable[Line], alike: Callable[[State], Hashable]) -> Lines:
    """The lines that decide: one for many equal ones, and none that another is further spent than.

    If more than `LINE_LIMIT` are left, those that are `alike` are merged, the nearest first.
    """
    distinct = list(dict.fromkeys(lines))
    if len(distinct) > _COMPARED:
        distinct = list(_merged(distinct, alike, _COMPARED))
    kept: list[Line] = []
    for line in distinct:
        if any(_beyond(other, line) for other in kept):
            continue
        kept = [other for other in kept if not _beyond(line, other)]
        kept.append(line)
    return tuple(kept) if len(kept) <= LINE_LIMIT else _merged(kept, alike, LINE_LIMIT)


def _beyond(line: Line, other: Line) -> bool:
    """True if a line is at least as far spent as another."""
    sizes = line.epsilon is None or (other.epsilon is not None and other.epsilon <= line.epsilon)
    return sizes and other.rho <= line.rho and covered(other.state, line.state)


def _merged(lines: Sequence[Line], alike: Callable[[State], Hashable], limit: int) -> Lines:
    groups: dict[Hashable, list[Line]] = {}
    for line in lines:
        groups.setdefault(alike(line.state), []).append(line)
    # Only alike lines are merged, since one that is open where another is closed would be lost.
    room = max(limit - len(groups), 0)
    total = len(lines)
    merged: list[Line] = []
    for group in groups.values():
        count = 1 + room * len(group) // total
        ordered = sorted(group, key=lambda line: (line.rho, _spent(line.state)))
        size = -(-len(ordered) // count)
        merged += [worst_line(ordered[i : i + size]) for i in range(0, len(ordered), size)]
    return tuple(merged)


def _spent(state: State) -> tuple[object, ...]:
    return state.spent, tuple(() if part is None else _spent(part) for part in state.parts)
