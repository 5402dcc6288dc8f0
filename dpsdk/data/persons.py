"""Persons: whose each row is, and which rows of a person are kept.

An identifier is a text, and an integer is that of its digits. What has no identifier is nobody's:
a missing value, a truth value, a fraction; and a number that may be any of several, as a float from
2^53 on is, and an integer that would have become such a float beside a null.

At most so many rows of a person are kept, by a rule that looks at that person alone; where budgets
are of periods, at those of one period alone. Every row gets
a key, made of whose it is, its cell in the full domain, and which of the person's rows in that cell
it is. The rows of the smallest keys are kept. Keys are integers of arithmetic modulo a prime that
every engine does exactly (`dpsdk.data.engine.rows`), so that the same rows are kept everywhere.

A key is (x + 1 + s + t)^5 modulo P = 2^31 - 1, where x comes from the cell, s from the identifier
and t from the repetition. Fifth powers permute the residues, since 5 does not divide P - 1; and s
makes the order of two cells another for each person, so that no cell is kept more often than
another over many persons.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import count
from typing import NamedTuple, cast

import numpy as np

from dpsdk.data.columns import SAFE, Column, Kind, is_large
from dpsdk.data.matcher import ANY, Matcher
from dpsdk.data.texts import MISSING, Number, TextFormat, plain
from dpsdk.data.unit import PrivacyUnit
from dpsdk.typing import Array, Bools, Ints

__all__ = [
    "ALPHABET",
    "BITS",
    "CELL_FACTOR",
    "FIRST",
    "LAST",
    "LENGTHS",
    "PERSON_FACTOR",
    "PRIME",
    "REPEAT_FACTOR",
    "WHITE_SPACE",
    "PersonMatcher",
    "PeriodCells",
    "count_persons",
    "kept",
    "kept_codes",
    "salts_of",
]

PRIME = 2**31 - 1
"""Products of two residues stay below 2^62, so that no engine's integers overflow."""

CELL_FACTOR = 1_583_458_089
PERSON_FACTOR = 784_588_716
REPEAT_FACTOR = 950_706_376
"""Public multipliers, of no meaning but to spread what is small over all residues."""

FIRST, LAST = 8, 4
"""So many characters at the ends of an identifier enter the order of that person's rows."""

BITS = 3
"""So many bits of the code of each of these."""

ALPHABET = "".join(map(chr, range(0x21, 0x7F)))
"""The characters whose codes enter; all others count as 0."""

LENGTHS = 64
"""The length of an identifier enters modulo this."""


WHITE_SPACE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
"""The characters that `strip` drops, written out for engines that would drop less."""

_CHUNK = 2**16

_SMALL = 4
"""Bytes of integers that all stay what they are as floats."""

_HUGE = 2**17
"""Bits of integers whose digits would take long to write."""


class _Stripped(dict[str | None, int]):
    """The persons of texts with white space around them."""

    def __init__(self, numbers: dict[str | None, int]) -> None:
        super().__init__()
        self._numbers = numbers

    def __missing__(self, text: str | None) -> int:
        person = self[text] = self._numbers[None if text is None else text.strip()]
        return person


class PersonMatcher(Matcher):
    """Numbers persons in the order in which they are met, which no result may depend on."""

    def __init__(self, column: str, texts: TextFormat) -> None:
        super().__init__(column, texts)
        # None is a field that a line does not have. New texts get the next number.
        nobody: dict[str | None, int] = dict.fromkeys([None, *MISSING], -1)
        self._numbers: defaultdict[str | None, int] = defaultdict(count().__next__, nobody)
        self._memo: dict[str | None, int] = (
            _Stripped(self._numbers) if texts.strip else self._numbers
        )
        self._distinct: Ints | None = None
        """The identifiers, where a column of integers holds them."""

    def written(self, persons: Ints) -> list[str]:
        """Return the written forms of some persons. Private."""
        if self._distinct is not None:
            return list(map(str, self._distinct[persons].tolist()))
        forms, places = list(self._numbers)[1 + len(MISSING) :], cast("list[int]", persons.tolist())
        return [str(forms[place]) for place in places]

    def memo(self) -> dict[str | None, int]:
        return self._memo

    def mismatch(self, kind: Kind | str) -> str | None:
        expected = self.refusal(kind)
        if expected is None:
            return None
        held = kind.value if isinstance(kind, Kind) else kind
        return f"column {self.name!r} holds {held}, which tell nobody apart; give {expected}"

    def refusal(self, kind: Kind | str) -> str | None:
        # A float may be an integer that became one beside a null.
        if kind in ANY or kind in {Kind.INTEGER, Kind.FLOAT}:
            return None
        return "identifiers that are integers or texts"

    def _number(self, value: Number) -> int:
        """Return the person of a number. A float in a column of objects may be a whole number."""
        if not isinstance(value, int):
            if not value.is_finite() or value.adjusted() > 50 or value != value.to_integral_value():
                return -1
            value = int(value)
        if value.bit_length() > _HUGE:
            # No text begins with half a surrogate pair.
            return self._memo[f"\ud800{value:x}"]
        # Unlike an int, a Decimal is written however long it is.
        return self._memo[str(Decimal(value))]

    def text(self, value: str) -> int:
        return self._memo[value]

    def encode(self, column: Column) -> Ints:
        """Return the number of each row's person, -1 for nobody's."""
        values = column.values
        if column.kind is Kind.NULL or not len(values):
            return np.full(len(column), -1)
        if values.dtype.kind in "iuf":
            persons = self._of_numbers(values, guessed=column.guessed)
        else:
            persons = self._of_items(cast("list[object]", values.tolist()), guessed=column.guessed)
        if column.places is not None:
            persons = persons[column.places]
        if column.missing is not None:
            persons[column.missing] = -1
        return persons

    def _of_numbers(self, values: Array, *, guessed: bool) -> Ints:
        floats = values.dtype.kind == "f"
        nobody = np.zeros(len(values), dtype=bool)
        if floats or (guessed and values.dtype.itemsize > _SMALL):
            nobody = is_large(values)
        if floats:
            nobody |= values != np.rint(values)
            values = np.where(nobody, 0, values).astype(np.int64)
        self._distinct, persons = np.unique(values, return_inverse=True)
        persons[nobody] = -1
        return persons

    def _of_items(self, items: Sequence[object], *, guessed: bool) -> Ints:
        known = self._memo
        if set(map(type, items)) == {str}:
            return np.fromiter(
                map(known.__getitem__, cast("list[str]", items)), np.int64, len(items)
            )
        found = (
            known[item] if type(item) is str else self._other(item, guessed=guessed)
            for item in items
        )  # fmt: skip
        return np.fromiter(found, np.int64, len(items))

    def _other(self, item: object, *, guessed: bool) -> int:
        # Identifiers of the standard library that are neither integers nor texts.
        known = getattr(sys.modules.get("uuid"), "UUID", None)
        value = str(item) if type(item) is known else plain(item)
        if value is None or isinstance(value, bool):
            return -1
        if isinstance(value, str):
            return self.text(value)
        if isinstance(item, float | np.floating) or (guessed and isinstance(value, int)):
            return self.number(value) if -SAFE < value < SAFE else -1
        return self.number(value)


def count_persons(persons: Ints) -> int:
    """Return how many persons there are. Of each of them, some row is kept."""
    # One place more, for nobody.
    return int(np.count_nonzero(np.bincount(persons + 1, minlength=1)[1:]))


class PeriodCells(NamedTuple):
    """The periods of cells along an attribute: (cell + shift) // units, numbered from 0 on."""

    name: str
    shift: int
    units: int


def kept_codes(
    codes: Mapping[str, Ints],
    matcher: PersonMatcher,
    persons: Ints,
    unit: PrivacyUnit,
    periods: PeriodCells | None = None,
) -> dict[str, Ints]:
    """Return the cell numbers of the rows that are kept; of a row outside, all become -1.

    With periods, rows outside are of none, and go first; then each person is bounded in each period
    by itself, so that no period decides which rows of another stay.
    """
    # All rows of a person that lie outside are in one cell.
    outside = np.zeros(len(persons), dtype=bool)
    for code in codes.values():
        outside |= code < 0
    for code in codes.values():
        np.copyto(code, -1, where=outside)
    written: Callable[[Ints], Sequence[str]] = matcher.written
    if periods is not None:
        persons = np.where(outside, -1, persons)
        when = (codes[periods.name] + periods.shift) // periods.units
        there = np.flatnonzero(persons >= 0)
        pairs = np.stack([persons[there], when[there]])
        distinct, numbers = np.unique(pairs, axis=1, return_inverse=True)
        persons[there] = numbers.reshape(-1)
        whose = distinct[0]
        written = partial(_written_of, matcher, whose)
    stays = np.flatnonzero(kept(persons, written, list(codes.values()), unit))
    return {name: code.take(stays) for name, code in codes.items()}


def _written_of(matcher: PersonMatcher, whose: Ints, pairs: Ints) -> Sequence[str]:
    """The identifiers of pairs of a person and a period."""
    return matcher.written(whose[pairs])


def salts_of(written: Sequence[str]) -> Ints:
    """Return numbers of identifiers, which decide in which order the rows of each are taken.

    Several may share a number: it need not tell them apart, only differ for most.
    """
    parts = [_salts(written[start : start + _CHUNK]) for start in range(0, len(written), _CHUNK)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _salts(written: Sequence[str]) -> Ints:
    lengths = np.fromiter(map(len, written), np.int64, len(written))
    numbers, width = lengths % LENGTHS, max(int(lengths.max()), FIRST)
    if width > LENGTHS:
        # Few are as long.
        width = FIRST + LAST
        written = [one if len(one) <= width else one[:FIRST] + one[-LAST:] for one in written]
        lengths = np.minimum(lengths, width)
    codes = np.array(written, dtype=f"U{width}").view(np.uint32).reshape(len(written), width)
    rows = np.arange(len(written))
    for place in [*range(FIRST), *range(-LAST, 0)]:
        at = lengths + place
        code = codes[:, place] if place >= 0 else codes[rows, np.maximum(at, 0)]
        known = (code >= ord(ALPHABET[0])) & (code <= ord(ALPHABET[-1])) & (at >= 0)
        numbers = numbers << BITS | np.where(known, code & (2**BITS - 1), 0)
    return numbers % PRIME


def kept(
    persons: Ints,
    written: Callable[[Ints], Sequence[str]],
    codes: Sequence[Ints],
    unit: PrivacyUnit,
) -> Bools:
    """Return which rows stay; those of nobody, whose person is -1, do not."""
    stays = persons >= 0
    if not stays.any():
        return stays
    # One place more, for nobody.
    counts = np.bincount(persons + 1)
    counts[0] = 0
    # Nobody with so few rows can lose one, so there is nothing to choose.
    many = counts > (1 if unit.distinct else unit.max_rows)
    rows = np.flatnonzero(many[persons + 1])
    if len(rows):
        salts, chosen = np.zeros(len(many), dtype=np.int64), np.flatnonzero(many)
        salts[chosen] = salts_of(written(chosen - 1))
        stays[rows] = False
        codes = [code.take(rows) for code in codes]
        stays[rows[_first(persons[rows], salts[1:], codes, unit)]] = True
    return stays


def _first(persons: Ints, salts: Ints, codes: Sequence[Ints], unit: PrivacyUnit) -> Ints:
    """Return places of the rows with the smallest keys of each person."""
    packed = _packed([persons, *codes])
    order = np.argsort(packed[0]) if len(packed) == 1 else np.lexsort(packed[::-1])
    repeat = _place_in_run([column[order] for column in packed])
    base = (_cell_part(codes) + salts[persons] * PERSON_FACTOR) % PRIME
    if unit.distinct:
        order, repeat = order[repeat == 1], repeat[repeat == 1]
    key = _fifth_power((base[order] + repeat * REPEAT_FACTOR) % PRIME)
    whose = persons[order]
    # Keys that are alike, which are few, go by the cell, as all rows do already.
    smallest = np.argsort(whose << 31 | key, kind="stable")
    return order[smallest[_place_in_run([whose]) <= unit.max_rows]]


def _packed(columns: Sequence[Ints]) -> list[Ints]:
    """Return the fewest columns that sort rows alike: one sort is much faster than several."""
    packed: list[Ints] = []
    room = 0
    for column in columns:
        # Values are -1 or more.
        size = int(column.max()) + 2
        if packed and room * size < 2**63:
            packed[-1] = packed[-1] * size
            packed[-1] += column
            packed[-1] += 1
            room *= size
        else:
            packed.append(column + 1)
            room = size
    return packed


def _place_in_run(columns: Sequence[Ints]) -> Ints:
    """Return the place of each row among the adjacent rows that are equal to it, from 1 on."""
    begins = np.ones(len(columns[0]), dtype=bool)
    begins[1:] = False
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(begins))
    return np.arange(1, len(begins) + 1) - np.repeat(starts, lengths)


def _cell_part(codes: Sequence[Ints]) -> Ints:
    key = np.ones(len(codes[0]), dtype=np.int64)
    for code in codes:
        key *= CELL_FACTOR
        key += (code + 1) % PRIME
        key %= PRIME
    return key


def _fifth_power(number: Ints) -> Ints:
    square = number * number % PRIME
    return square * square % PRIME * number % PRIME
