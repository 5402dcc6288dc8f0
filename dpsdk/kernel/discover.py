"""The primitive `discover`: noisy counts of closed cells, and of the keys that enough people have.

Theorem (docs/explanation/proofs/discover.md). Of each person, t <= width different cells or keys of
a column get an integer weight w_t with t·w_t² <= W² (with Laplace noise t·w_t <= W). Sums in closed
cells are released with discrete noise; those of keys too, but only where they reach T. The least T
with t·P[Z >= T - w_t] <= leak/d for all t, over d columns of keys, makes the run one of that noise
and an independent (0, leak)-DP run, so that both guarantees are charged, together or not at all.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import cast

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import shown, to_flag, to_fraction, to_within
from dpsdk._records import cmp_using, evolve, field, frozen
from dpsdk.accounting import ApproximateGuarantee, Guarantee
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.data.cells import ROW_TOPS, Cells, row_cells
from dpsdk.data.keyed import LONGEST, KeyColumn, KeyedRows, UndeclaredFacts
from dpsdk.domain.attributes import normal
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.errors.given import near
from dpsdk.forms import Sensitivity
from dpsdk.kernel.measure import LaplaceNoise, Noise, calibrated, check_noise, widening_bits
from dpsdk.noise import NoiseLaw, NoiseSource
from dpsdk.typing import Bools, Floats, Ints, Real

__all__ = ["Discover", "DiscoverPricing", "Discovered", "Search", "threshold_for"]

_BITS = 20
"""Weights that are shared out are in steps of 2**-20 of a person."""

_MOST_WIDTH = 2**10
_MOST_COLUMNS = 2**12

_SLACK = 1 + Fraction(1, 2**20)
"""Tails are floats with a relative error below 2**-40; this is a million times as much."""

_LEAST_LEAK, _MOST_LEAK = Fraction(1, 10**280), Fraction(1, 10)
"""Tails of less would be beyond the floats; more would be within a deviation of the noise, where a
tail is no upper bound."""

_SATURATION = 2**62 - 1 - 2**53
"""As for `measure`: sums stay within 2**53, and noise within 2**62 - 1."""

_OWN_CELLS = "dpsdk.data."

_BLOCK = 2**20
"""So many draws are made at a time."""


def _to_keys(value: bool) -> bool:  # noqa: FBT001  # a converter
    return to_flag("keys", value)


def _to_known(value: Iterable[str]) -> frozenset[str]:
    keys = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [None]
    if not all(isinstance(key, str) for key in keys):
        raise InvalidArgument("known", "texts, as in ['ATL', 'ORD']", shown(value))
    return frozenset(normal(str.__str__(key)) for key in cast("list[str]", keys))


def _to_cells(value: Cells | None) -> Cells | None:
    # They are shown every key of a column, so those of another author are none.
    if value is not None and not type(value).__module__.startswith(_OWN_CELLS):
        raise InvalidArgument("cells", "closed cells of dpsdk", shown(type(value).__name__))
    return value


@frozen
class Search:
    """The search in one column: which closed cells are counted, and whether keys are looked for.

    Parameters
    ----------
    column
        The name of the column; None for the number of rows of each person, whose cells are those
        of `ROW_TOPS`.
    cells
        Closed cells of its keys.
    keys
        Whether keys are looked for.
    known
        Public keys that are not looked for; rows with them count in closed cells alone.
    longest
        Keys of more characters are not looked for.
    """

    column: str | None
    cells: Cells | None = field(default=None, converter=_to_cells)
    keys: bool = field(default=False, converter=_to_keys)
    known: frozenset[str] = field(default=frozenset(), converter=_to_known)
    longest: int = LONGEST

    @property
    def size(self) -> int:
        """The number of its closed cells."""
        if self.column is None:
            return len(ROW_TOPS)
        return 0 if self.cells is None else self.cells.size

    @property
    def parts(self) -> int:
        """How many vectors one person moves: that of the cells, and that of the keys."""
        return (self.size > 0) + self.keys


def _to_searches(value: Iterable[Search]) -> tuple[Search, ...]:
    searches = tuple(value)
    if not all(type(one) is Search and one.parts for one in searches) or not searches:
        raise InvalidArgument("searches", "searches for cells or keys", shown(searches))
    if len(searches) > _MOST_COLUMNS:
        advice = "search some columns at a time"
        raise TooLarge("a search", len(searches), _MOST_COLUMNS, "columns", advice)
    return searches


def _to_width(value: int) -> int:
    expected = f"an integer from 1 to {_MOST_WIDTH}"
    return to_within("width", value, 1, _MOST_WIDTH, expected)


def _to_leak(value: Real | None) -> Fraction | None:
    if value is None:
        return None
    leak = to_fraction("leak", value)
    if not _LEAST_LEAK <= leak <= _MOST_LEAK:
        expected = "a number from 1e-280 to 0.1, as a share of the budget's delta"
        raise InvalidArgument("leak", expected, shown(value))
    return leak


@frozen(eq=False)
class Discover:
    """Noisy counts of closed cells and of frequent keys, of several columns at once.

    Parameters
    ----------
    searches
        What is searched in each column.
    noise
        `GaussianNoise(rho)` or `LaplaceNoise(epsilon)`: what all noisy counts together cost.
    leak
        The probability with which a key of one person alone may show, over all columns; positive
        where keys are looked for, and left out elsewhere.
    width
        Of each person as many different keys of a column count, the keys' weights shared out; 1
        where no column tells persons apart.
    distinct
        Whether as many *different* keys of a person are kept; else as many rows, so that frequent
        ones are kept as often as they occur.
    """

    searches: tuple[Search, ...] = field(converter=_to_searches)
    noise: Noise
    leak: Fraction | None = field(default=None, converter=_to_leak)
    width: int = field(default=1, converter=_to_width)
    distinct: bool = True

    def price(self, facts: UndeclaredFacts, /) -> DiscoverPricing:
        """Price the search. Public, spends nothing.

        Raises
        ------
        InvalidArgument
            If a column is not there, a leak is missing or too many, or the width has no meaning.
        TooLarge
            If sums of weights could leave the integers that floats hold.
        """
        check_noise(self.noise)
        for search in self.searches:
            _check_column(search.column, facts)
        if self.width > 1 and facts.person is None:
            expected = "1 where no column tells persons apart: each row has one key"
            raise InvalidArgument("width", expected, f"{self.width}")
        columns = sum(search.keys for search in self.searches)
        if (self.leak is None) == bool(columns):
            expected = "given where keys are looked for, and only there"
            raise InvalidArgument("leak", expected, shown(self.leak))
        parts = sum(search.parts for search in self.searches)
        twice = 2 if facts.replaced else 1
        bits = _BITS if self.width > 1 else 0
        if not isinstance(self.noise, LaplaceNoise):
            bits = max(bits, widening_bits(self.noise, Fraction(parts * twice)))
        whole = 1 << bits
        if whole * facts.row_limit >= 2**53:
            advice = "declare a smaller max_rows"
            raise TooLarge("a search", facts.row_limit, 2**53 // whole - 1, "rows", advice)
        # What is lost may be anything that what comes may be, as both have no negative weight.
        move = Sensitivity(
            Fraction(twice * parts * whole),
            Fraction(twice * parts * whole**2),
            Fraction(whole),
            exact=False,
        )
        law, guarantee = calibrated(self.noise, move)
        weights = _weights(self.noise, whole, self.width)
        guarantees: tuple[Guarantee, ...] = (guarantee,)
        threshold = 0
        if self.leak is not None:
            guarantees = (guarantee, ApproximateGuarantee(0, self.leak))
            threshold = threshold_for(law, weights, self.leak / columns)
        return DiscoverPricing(self, law, guarantees, bits, threshold, weights)


def _weights(noise: Noise, whole: int, width: int) -> tuple[int, ...]:
    """The weight of each of t different cells, from t = 1 on."""
    if isinstance(noise, LaplaceNoise):
        return tuple([whole // count for count in range(1, width + 1)])
    return tuple([math.isqrt(whole * whole // count) for count in range(1, width + 1)])


def threshold_for(law: NoiseLaw, weights: tuple[int, ...], leak: Fraction) -> int:
    """The least T with t·P[Z >= T - w_t] at most `leak` for the weight w_t of each t."""
    levels = enumerate(weights, start=1)
    return max([weight + _reach(law, leak / count) for count, weight in levels])


def _reach(law: NoiseLaw, level: Fraction) -> int:
    """The least x of at least 1 with P[Z >= x] at most a level, its tail rounded up."""

    def passes(x: int) -> bool:
        return Fraction(law.tail(x - 1)) / 2 * _SLACK <= level

    high = 1
    while not passes(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _check_column(column: str | None, facts: UndeclaredFacts) -> None:
    if column is None:
        if facts.person is None:
            expected = "a column that tells persons apart, where their rows are counted"
            raise InvalidArgument("unit", expected, "None")
        return
    if column in facts.columns:
        return
    if column == facts.person:
        expected = "another column than that of the persons, whose identifiers are not shown"
        raise InvalidArgument("column", expected, shown(column))
    hint = near(column, facts.columns)
    expected = "one of the table's columns" + (f", perhaps {hint!r}" if hint else "")
    raise InvalidArgument("column", expected, shown(column))


_SAME = cmp_using(eq=np.array_equal)


@frozen
class Discovered(Lasting):
    """What a search found in one column: public, since it was paid for.

    Parameters
    ----------
    cells
        The noisy count of each closed cell, in rows or persons.
    keys
        The keys that were found, in order of their characters.
    counts
        The noisy count of each.
    """

    cells: Floats = field(converter=frozen_copy, eq=_SAME, hash=False)
    keys: tuple[str, ...]
    counts: Floats = field(converter=frozen_copy, eq=_SAME, hash=False)


@frozen(eq=False)
class DiscoverPricing(Lasting):
    """The search that `discover` would make, all public: the noise, the threshold, the guarantees.

    `law` is that of the noise of each count, in steps of 2**-`bits` of a row or person; a key is
    shown if its noisy sum of weights reaches `threshold`, in such steps. `weights` has that of each
    of t different keys of a person, from t = 1 on.
    """

    request: Discover
    law: NoiseLaw
    guarantees: tuple[Guarantee, ...]
    bits: int
    threshold: int
    weights: tuple[int, ...]

    @property
    def step(self) -> float:
        """One step, in rows or persons."""
        return 2.0**-self.bits

    @property
    def accuracy(self) -> NoiseAccuracy:
        """How far off the counts of all closed cells may be, in rows or persons."""
        entries = sum(search.size for search in self.request.searches)
        return NoiseAccuracy(self.law, max(entries, 1), self.step, 0.0)

    @property
    def passing(self) -> float:
        """A key of as many persons, who have no other, is shown half of the time."""
        return self.threshold * self.step

    def pass_mark(self, beta: float, cells: int) -> float:
        """The count that no cell without a row reaches, of so many, with probability 1 - beta."""
        return _reach(self.law, Fraction(beta) / cells) * self.step

    def knowing(self, keys: Iterable[str]) -> DiscoverPricing:
        """The same search where more keys are public; it costs what this one does."""
        known = frozenset(keys)
        searches = [evolve(one, known=one.known | known) for one in self.request.searches]
        return evolve(self, request=evolve(self.request, searches=searches))

    def run(self, noise: NoiseSource, opened: Callable[[], KeyedRows], /) -> tuple[Discovered, ...]:
        """Draw the noise of closed cells, read, and draw that of the keys that are there.

        Keys are in the order of their characters. How many are drawn for follows from the table;
        that no draw is spent on absent ones is what the leak is for.
        """
        drawn = [self._draw(noise, search.size) for search in self.request.searches]
        rows = opened()
        found: list[Discovered] = []
        for search, own in zip(self.request.searches, drawn, strict=True):
            closed, column, sums = self.weigh(rows, search)
            present = np.flatnonzero(sums)
            noisy = sums[present] + self._draw(noise, len(present))
            passed = noisy >= self.threshold
            places: Sequence[int] = present[passed].tolist()
            keys = tuple([column.keys[place] for place in places]) if column is not None else ()
            found.append(Discovered(self._settle(closed + own), keys, self._settle(noisy[passed])))
        return tuple(found)

    def weigh(self, rows: KeyedRows, search: Search) -> tuple[Ints, KeyColumn | None, Ints]:
        """Return the sums of weights of the closed cells and, by place, of the keys. Private."""
        weights = np.array([0, *self.weights], dtype=np.int64)
        nothing = np.zeros(0, dtype=np.int64)
        if search.column is None:
            persons = rows.persons
            each = nothing if persons is None else row_cells(persons.rows_of_each())
            return np.bincount(each, minlength=search.size) * weights[1], None, nothing
        column = rows.columns[search.column]
        cells = _cells(search, column, rows)
        open_keys = _open_keys(search, column)
        width, distinct = self.request.width, self.request.distinct
        kept = rows.chosen(column, (cells >= 0) | open_keys, width, distinct=distinct)
        codes = column.codes[kept]
        closed = nothing
        if search.size:
            closed = rows.weighed(kept, cells[codes + 2], search.size, weights)
        if not search.keys:
            return closed, column, nothing
        keys = np.where(open_keys[codes + 2], codes, -1)
        return closed, column, rows.weighed(kept, keys, len(column.keys), weights)

    def _draw(self, noise: NoiseSource, size: int) -> Ints:
        blocks = [min(_BLOCK, size - start) for start in range(0, size, _BLOCK)]
        drawn = [noise.draw(self.law, block) for block in blocks]
        return np.concatenate([np.zeros(0, dtype=np.int64), *drawn])

    def _settle(self, noisy: Ints) -> Floats:
        values: Floats = np.clip(noisy, -_SATURATION, _SATURATION).astype(np.float64) * self.step
        return values


def _cells(search: Search, column: KeyColumn, rows: KeyedRows) -> Ints:
    """The closed cell of each code + 2, -1 for none."""
    cells = np.full(len(column.keys) + 2, -1, dtype=np.int64)
    if search.cells is not None:
        cells[0], cells[1] = search.cells.missing, search.cells.other
        cells[2:] = search.cells.of(column.keys, rows.texts)
    return cells


def _open_keys(search: Search, column: KeyColumn) -> Bools:
    """Which codes + 2 are of keys that are looked for."""
    keys = column.keys
    wanted = np.full(len(keys) + 2, search.keys)
    wanted[:2] = False
    if not search.keys:
        return wanted
    if search.longest < LONGEST:
        wanted[2:] = np.fromiter((len(key) <= search.longest for key in keys), np.bool_, len(keys))
    for key in search.known:
        place = bisect_left(keys, key)
        if place < len(keys) and keys[place] == key:
            wanted[place + 2] = False
    return wanted
