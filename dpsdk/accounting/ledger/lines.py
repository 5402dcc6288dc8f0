"""Lines: the sums of runs for some kinds of neighbours, all of which a run must fit.

While a table is divided into parts, each kind of neighbours has those of what it has seen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from dpsdk._records import evolve, frozen
from dpsdk.accounting.filters.composition import STATE, STEPS, Composition, State, covered, worst
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.prices.run import prices_of
from dpsdk.codec import FLAG, JSON, NATURAL, TEXT, Codebook, ListOf, Nested, OrNone, Plain, written
from dpsdk.errors import RecordError, TooLarge, WireError
from dpsdk.typing import Bools, Ints

__all__ = [
    "DIVISION",
    "LINE",
    "LINES",
    "LINE_LIMIT",
    "MOST_LINES",
    "Division",
    "Line",
    "Lines",
    "advance",
    "advance_all",
    "beyond",
    "check_division",
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


def advance(composition: Composition, line: Line, runs: Sequence[Guarantee]) -> Line | None:
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


def advance_all(composition: Composition, lines: Lines, runs: Sequence[Guarantee]) -> Lines | None:
    """All lines after some runs, or None where these do not fit one of them."""
    if len(lines) == 1:
        alone = advance(composition, lines[0], runs)
        return None if alone is None else (alone,)
    after: list[Line] = []
    for line in lines:
        one = advance(composition, line, runs)
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
        if any(beyond(other, line) for other in kept):
            continue
        kept = [other for other in kept if not beyond(line, other)]
        kept.append(line)
    return tuple(kept) if len(kept) <= LINE_LIMIT else _merged(kept, alike, LINE_LIMIT)


def beyond(line: Line, other: Line) -> bool:
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


_PART_LIMIT = 2**16
_MOVING_PART_LIMIT = 2**10
"""So many parts can be asked where rows move between them: each pair is a kind of its own."""

_NUMBER = re.compile(r"-1|0|[1-9][0-9]{0,5}")

_BUNDLE_LIMIT = 2**12
"""So many kinds that saw different runs are told apart; beyond them the nearest are merged."""


@frozen(eq=False)
class Division:
    """The spending of each kind of neighbours of a divided table; a value.

    Neighbours differ in one part; or, where rows move, in two: a kind is a part, or a pair. Parts
    that nobody has asked are alike, and so stand in one place, the first.
    """

    generation: int
    parts: int
    moves: bool
    places: Mapping[int, int]
    bundles: tuple[Lines, ...]
    kinds: Ints

    @classmethod
    def begin(cls, generation: int, parts: int, lines: Lines, *, moves: bool) -> Division:
        pairs = moves and parts > 1
        kinds = np.zeros((1, 1) if pairs else (1,), dtype=np.int64)
        return cls(generation, parts, pairs, {}, (lines,), kinds)

    def concerned(self, part: int | None) -> tuple[int, ...]:
        """The numbers of the bundles on which a run on a part counts, or on the whole table."""
        if part is None:
            return tuple(range(len(self.bundles)))
        seen = np.unique(self.kinds[self.places.get(part, 0)])
        return tuple(int(number) for number in seen if number >= 0)

    def asked(self, part: int) -> Division:
        """The same with a place of its own for a part."""
        if part in self.places:
            return self
        place = len(self.kinds)
        limit = _MOVING_PART_LIMIT if self.moves else _PART_LIMIT
        if place > limit:
            advice = "divide by an attribute of fewer labels, or ask fewer parts"
            raise TooLarge("the partition", place, limit, "parts that are asked", advice)
        unasked = self.parts - place
        places = {**self.places, part: place}
        if not self.moves:
            kinds = np.append(self.kinds, self.kinds[0])
            kinds[0] = kinds[0] if unasked else -1
            return evolve(self, places=places, kinds=kinds)
        kinds = np.full((place + 1, place + 1), -1, dtype=np.int64)
        kinds[:place, :place] = self.kinds
        kinds[place, :place] = kinds[:place, place] = self.kinds[0]
        if not unasked:
            kinds[0, :] = kinds[:, 0] = -1
        elif unasked == 1:
            kinds[0, 0] = -1
        return evolve(self, places=places, kinds=kinds)

    def charged(self, part: int | None, after: Mapping[int, Lines]) -> Division:
        """The same where bundles that a run concerned have become others."""
        if part is None:
            return evolve(self, bundles=tuple(after[i] for i in range(len(self.bundles))))
        known = {lines: number for number, lines in enumerate(self.bundles)}
        bundles = list(self.bundles)
        became = np.arange(-1, len(bundles))
        for number, lines in after.items():
            if lines not in known:
                known[lines] = len(bundles)
                bundles.append(lines)
            became[number + 1] = known[lines]
        place = self.places[part]
        kinds = self.kinds.copy()
        if self.moves:
            kinds[place, :] = kinds[:, place] = became[kinds[place] + 1]
        else:
            kinds[place] = became[kinds[place] + 1]
        return evolve(self, bundles=tuple(bundles), kinds=kinds)._without_idle()

    def _without_idle(self) -> Division:
        used = [int(number) for number in np.unique(self.kinds) if number >= 0]
        if len(used) == len(self.bundles):
            return self
        became = np.full(len(self.bundles) + 1, -1)
        became[np.array(used) + 1] = np.arange(len(used))
        bundles = tuple(self.bundles[number] for number in used)
        return evolve(self, bundles=bundles, kinds=became[self.kinds + 1])

    def narrowed(self, alike: Callable[[State], Hashable]) -> Division:
        """The same with fewer bundles, where there are too many: each then is of several kinds."""
        if len(self.bundles) <= _BUNDLE_LIMIT:
            return self
        order = sorted(range(len(self.bundles)), key=lambda i: self.bundles[i][0].rho)
        became = np.full(len(self.bundles) + 1, -1)
        bundles: list[Lines] = []
        for start in range(0, len(order), 2):
            pair = order[start : start + 2]
            for number in pair:
                became[number + 1] = len(bundles)
            bundles.append(essential((line for i in pair for line in self.bundles[i]), alike))
        return evolve(self, bundles=tuple(bundles), kinds=became[self.kinds + 1])


class _Places:
    """The parts that were asked, in the order of their places, as a list of their numbers."""

    _numbers = ListOf(NATURAL, most=_PART_LIMIT)

    def write(self, value: Mapping[int, int], path: str, codebook: Codebook, /) -> Plain:
        return self._numbers.write(sorted(value, key=value.__getitem__), path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Mapping[int, int]:
        numbers = self._numbers.read(plain, path, codebook)
        places = {number: place for place, number in enumerate(numbers, 1)}
        if len(places) != len(numbers):
            raise WireError(path, "numbers of different parts", "the same twice")
        return places

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._numbers.schema(codebook)


_ROW = 1 << 10
"""So many numbers are in one text, where kinds are parts."""


class _Kinds:
    """The bundle of each part, so many in a row; or of each pair of parts, a row for each part."""

    _rows = ListOf(TEXT, most=_MOVING_PART_LIMIT + 1)

    def write(self, value: Ints, path: str, codebook: Codebook, /) -> Plain:
        rows = [" ".join(map(str, row)) for row in _rows(value)]
        return self._rows.write(rows, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Sequence[Sequence[int]]:
        rows = [text.split(" ") for text in self._rows.read(plain, path, codebook)]
        if not all(_NUMBER.fullmatch(word) for row in rows for word in row):
            raise WireError(path, "numbers with a space between them", "others")
        return [[int(word) for word in row] for row in rows]

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._rows.schema(codebook)


def _rows(kinds: Ints) -> list[Sequence[int]]:
    if kinds.ndim == 2:
        return [row.tolist() for row in kinds]
    return [kinds[start : start + _ROW].tolist() for start in range(0, len(kinds), _ROW)]


def _nobody(division: Division) -> Bools:
    """For each kind, as it stands, whether there are no neighbours that differ in it."""
    asked = len(division.places)
    unasked = division.parts - asked
    gone = np.arange(asked + 1) < (not unasked)
    if not division.moves:
        return gone
    pairs = np.logical_or.outer(gone, gone) | np.eye(asked + 1, dtype=np.bool_)
    pairs[0, 0] = unasked < 2
    return pairs


def check_division(division: Division) -> None:
    """Raise `RecordError` where charges cannot have led to a division."""
    kinds, size, bundles = division.kinds, len(division.kinds), len(division.bundles)
    if not np.array_equal(kinds, kinds.T) or kinds.max() >= bundles:
        raise RecordError("Division.kinds", f"each one of {bundles} bundles", "others")
    if division.parts < 1 + division.moves or size - 1 > division.parts:
        raise RecordError("Division.parts", f"at least {size - 1}, and two where rows move", "less")
    if any(part >= division.parts for part in division.places):
        raise RecordError("Division.places", f"of {division.parts} parts", "of others")
    if not np.array_equal(kinds < 0, _nobody(division)):
        raise RecordError("Division.kinds", "a bundle wherever neighbours differ", "others")
    if not bundles or not all(division.bundles):
        raise RecordError("Division.bundles", "at least one, with a line in each", "others")


def _division(**read: object) -> Division:
    """The division of these fields, which is yet to be checked."""
    rows = cast("Sequence[Sequence[int]]", read["kinds"])
    kinds = np.array([number for row in rows for number in row], dtype=np.int64)
    division = Division(**{**read, "kinds": kinds})  # type: ignore[arg-type]  # as its fields read
    size = len(division.places) + 1
    shape = (size, size) if division.moves else (size,)
    if kinds.size != math.prod(shape):
        raise RecordError("Division.kinds", f"one for each of {size} places, or pair", "others")
    kinds = kinds.reshape(shape)
    if _rows(kinds) != list(rows):
        raise RecordError("Division.kinds", "in rows of their length", "in others")
    return evolve(division, kinds=kinds)


DIVISION = Nested[Division]("a division", Division)

written(
    "division",
    {
        "generation": NATURAL,
        "parts": NATURAL,
        "moves": FLAG,
        "places": _Places(),
        "bundles": ListOf(LINES, most=2 * _BUNDLE_LIMIT),
        "kinds": _Kinds(),
    },
    take=_division,
    public=False,
)(Division)
