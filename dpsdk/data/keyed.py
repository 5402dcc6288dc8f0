"""Columns that nobody has described, by their keys: private, and the public facts beside them.

A key is the canonical text of a value: NFC, stripped if asked, and of a number its digits, so that
39, 39.0 and Decimal("39") are one. It is a function of the value alone. Whatever type the other
rows gave a column plays no part, and so numbers from 2^53 on, which some types cannot hold, have no
key unless they are texts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias, cast
from zlib import crc32

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.columns import SAFE, Column, Kind
from dpsdk.data.matcher import Matcher
from dpsdk.data.moments import Moment
from dpsdk.data.persons import PRIME, PersonMatcher, kept
from dpsdk.data.texts import MISSING, Number, TextFormat, is_text
from dpsdk.data.unit import PrivacyUnit
from dpsdk.domain.attributes import normal
from dpsdk.forms.facts import Neighbors
from dpsdk.typing import Array, Bools, Ints

__all__ = [
    "LONGEST",
    "KeyColumn",
    "KeyReader",
    "KeyedRows",
    "Persons",
    "UndeclaredFacts",
    "identifiers",
]

LONGEST = 256
"""Characters of a key; longer texts have none."""

_OTHER, _MISSING = -1, -2
"""The codes of values without a key."""

_WORTH_A_LOOK = 4 * LONGEST
"""No text of so many characters has a normal form that is short enough."""

_FEW = 2**16
"""Among so many different values a search is quicker than to sort all with their places."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class UndeclaredFacts:
    """The public facts about a table that nobody has described.

    Parameters
    ----------
    columns
        The names of the columns that can be asked about, in order.
    neighbors
        The neighbour relation under which it is protected.
    rows
        The number of rows where that is public, else None.
    row_limit
        No table has more rows or, with a `person`, more persons.
    person
        The column that tells persons apart; None where each row is somebody's own.
    strip
        Whether the persons' identifiers were read without the white space around them.
    missing_texts
        The texts that are missing values, beside the empty one, nan and NaN.
    """

    columns: tuple[str, ...]
    neighbors: Neighbors
    rows: int | None
    row_limit: int
    person: str | None = None
    strip: bool = False
    missing_texts: tuple[str, ...] = ()

    @property
    def replaced(self) -> bool:
        """True if neighbours exchange rows. Otherwise one of them has more."""
        return self.neighbors is Neighbors.REPLACE_ONE

    @property
    def unit(self) -> str:
        """The unit of privacy, whose presence no release gives away."""
        if self.person is None:
            return "a person, who has one row"
        return f"a person by {self.person!r}, who may have any number of rows"


class _Codes(dict[str | None, int]):
    """The codes of texts; new keys get the next one."""

    def __init__(self, canonical: Callable[[str], str | int]) -> None:
        super().__init__({None: _MISSING})
        self._canonical = canonical
        self.keys_in_order: list[str] = []

    def __missing__(self, text: str | None) -> int:
        assert text is not None  # noqa: S101  # it is there from the start
        key = self._canonical(text)
        code = key if isinstance(key, int) else self.get(key)
        if code is None:
            code = len(self.keys_in_order)
            self.keys_in_order.append(cast("str", key))
            self[cast("str", key)] = code
        if len(text) <= LONGEST:
            self[text] = code
        return code


class KeyReader(Matcher):
    """Numbers the keys of one column in the order in which they are met, until `column` sorts them.

    A reader of values that fail nothing: what cannot be read is a value without a key.
    """

    def __init__(self, name: str, texts: TextFormat, missing: frozenset[str]) -> None:
        super().__init__(name, texts)
        self.size = 2**62
        self.gap = _MISSING
        self._missing = missing
        self._codes = _Codes(self._canonical)

    def refusal(self, kind: Kind | str) -> str | None:
        del kind
        return None

    def memo(self) -> dict[str | None, int]:
        return self._codes

    def text(self, value: str) -> int:
        return self._codes[value]

    def boolean(self, *, value: bool) -> int:
        return self._codes[str(value)]

    def _number(self, value: Number) -> int:
        if not -SAFE < value < SAFE:  # infinities as well
            return _OTHER
        if isinstance(value, Decimal):
            digits = value.as_tuple()
            if len(digits.digits) > LONGEST or cast("int", digits.exponent) < -LONGEST:
                return _OTHER
            text = f"{value:f}"
            if "." in text:
                text = text.rstrip("0").rstrip(".")
            return self._codes["0" if text in {"-0", ""} else text]
        return self._codes[str(value)]

    def _canonical(self, text: str) -> str | int:
        if self.texts.strip:
            text = text.strip()
        if len(text) > _WORTH_A_LOOK or not is_text(text):
            return _OTHER
        key = normal(text)
        if key in MISSING or key in self._missing:
            return _MISSING
        return key if len(key) <= LONGEST else _OTHER

    def _encode(self, column: Column) -> Ints:
        if isinstance(column.kind, str):  # lists, bytes, durations
            return np.full(len(column), self.odd)
        if column.values.dtype.kind == "b" and column.kind is not Kind.NULL:
            return self.distinct(column.values)
        return super()._encode(column)

    def distinct(self, values: Array) -> Ints:
        distinct, places = _distinct(values)
        codes = self._whole(distinct) if distinct.dtype.kind in "iu" else self.objects(distinct)
        return codes[places]

    def _whole(self, values: Array) -> Ints:
        """Return the codes of different whole numbers."""
        near = (values > -SAFE) & (values < SAFE)
        texts, known = list(map(str, cast("list[int]", values[near].tolist()))), self._codes
        codes = np.full(len(values), _OTHER)
        if known.keys_in_order or not self._missing.isdisjoint(texts):
            codes[near] = [known[text] for text in texts]
            return codes
        # All are new keys, as they print.
        known.keys_in_order.extend(texts)
        known.update(zip(texts, range(len(texts)), strict=True))
        codes[near] = np.arange(len(texts))
        return codes

    def strange(self, item: object) -> int:
        known = getattr(sys.modules.get("uuid"), "UUID", None)
        return self._codes[str(item)] if type(item) is known else super().strange(item)

    def moments(self, kind: Kind, seconds: Array) -> Ints:
        distinct, places = _distinct(seconds)
        codes = [self.moment(Moment(kind, int(one))) for one in distinct]
        return np.array(codes, dtype=np.int64)[places]

    def moment(self, value: Moment) -> int:
        try:
            moment = _EPOCH + timedelta(seconds=value.seconds)
        except OverflowError:
            return _OTHER
        day, clock = f"{moment:%Y-%m-%d}".zfill(10), f"{moment:%H:%M:%S}"
        zoned = value.kind is Kind.ZONED_TIME
        # A day that became a time beside others is still that day.
        if not zoned and clock == "00:00:00":
            return self._codes[day]
        return self._codes[f"{day}T{clock}{'Z' if zoned else ''}"]

    def column(self, codes: Ints) -> KeyColumn:
        """Return the column of some codes, its keys sorted by their characters."""
        known = self._codes.keys_in_order
        order = np.array(sorted(range(len(known)), key=known.__getitem__), dtype=np.int64)
        places = np.empty(len(known) + 2, dtype=np.int64)
        places[order] = np.arange(len(known))
        places[len(known)], places[len(known) + 1] = _MISSING, _OTHER  # of -2 and -1
        smallest: type[np.signedinteger] = np.int32 if len(known) < 2**31 else np.int64
        narrow: Ints = places.astype(smallest)[codes]
        return KeyColumn([known[place] for place in order], narrow)


def _distinct(values: Array) -> tuple[Array, Ints]:
    """Return the different values in order, and the place of each; near numbers are not sorted."""
    if values.dtype.kind == "b":
        distinct, places = _distinct(values.view(np.uint8))
        return distinct.astype(np.bool_), places
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high < 2**63 and high - low < 2**62:
            steps: Ints = values.astype(np.int64) - low
            # As of days in seconds.
            step = 1 if high - low < len(values) else int(np.gcd.reduce(steps))
            if (high - low) // step < len(values):
                steps //= step
                there = np.zeros((high - low) // step + 1, dtype=np.bool_)
                there[steps] = True
                return np.flatnonzero(there) * step + low, (np.cumsum(there) - 1)[steps]
    distinct = np.unique(values)
    if len(distinct) < _FEW:
        return distinct, np.searchsorted(distinct, values)
    distinct, places = np.unique(values, return_inverse=True)
    return distinct, places


class KeyColumn:
    """The keys of a column in order, and the code of each row's: its place, -1 other, -2 missing.

    Private: has no repr.
    """

    __slots__ = ("_hashes", "codes", "keys")

    def __init__(self, keys: list[str], codes: Ints) -> None:
        self.keys: list[str] = keys
        self.codes: Ints = codes
        self._hashes: Ints | None = None

    @property
    def cells(self) -> Ints:
        """Numbers by code + 2 that order rows of a person: of the text, and to break ties by it.

        Modulo the prime they are a public hash of the text alone; among themselves they are in the
        order of texts.
        """
        if self._hashes is None:
            sums = (crc32(key.encode()) % PRIME for key in self.keys)
            hashes = np.fromiter(sums, np.int64, len(self.keys))
            self._hashes = np.concatenate([[3, 5], hashes]) + PRIME * np.arange(2 + len(hashes))
        return self._hashes


@frozen(eq=False, repr=False)
class Persons:
    """Whose each row is, -1 where nobody's, and what writes identifiers. Private."""

    numbers: Ints
    written: Callable[[Ints], Sequence[str]]

    def rows_of_each(self) -> Ints:
        """Return the number of rows of every person, in no order that means anything."""
        known = self.numbers[self.numbers >= 0]
        counts = np.bincount(known)
        return counts[counts > 0]


Weights: TypeAlias = Ints
"""The weight of each of t different cells of a person, by t; that of 0 is not used."""


@frozen(eq=False, repr=False)
class KeyedRows:
    """The rows of a table by the keys of each column. Private."""

    columns: dict[str, KeyColumn]
    texts: TextFormat
    persons: Persons | None = None

    def chosen(self, column: KeyColumn, eligible: Bools, most: int, *, distinct: bool) -> Ints:
        """Return the places of the rows that are kept of each person, among those eligible by code.

        `eligible` is by code + 2. With a column of persons at most `most` rows of each are kept, by
        that person's own keys and identifier; without one, every row is somebody's own.
        """
        rows = np.flatnonzero(eligible[column.codes + 2])
        whose = self.persons
        if whose is None:
            return rows
        rows = rows[whose.numbers[rows] >= 0]
        if not len(rows):
            return rows
        unit = PrivacyUnit("person", max_rows=most, distinct=distinct)
        cells = column.cells[column.codes[rows] + 2]
        return rows[kept(whose.numbers[rows], whose.written, [cells], unit)]

    def weighed(self, rows: Ints, cells: Ints, size: int, weights: Weights) -> Ints:
        """Return the sum of weights in each cell, for the cells of some rows, -1 where none.

        A person with t different cells among these rows has the weight of t in each.
        """
        inside = cells >= 0
        rows, cells = rows[inside], cells[inside].astype(np.int64)
        if self.persons is None:
            alone: Ints = np.bincount(cells, minlength=size) * weights[1]
            return alone
        pairs = self.persons.numbers[rows] * max(size, 1) + cells
        pairs.sort()
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        whose, cells = np.divmod(pairs, max(size, 1))
        own = weights[np.bincount(whose)[whose]]
        sums: Ints = np.bincount(cells, weights=own, minlength=size).astype(np.int64)
        return sums


def identifiers(matcher: PersonMatcher, column: Column) -> Ints:
    """Return whose each row is; of values that tell nobody apart, nobody's."""
    kind = column.kind
    if kind is Kind.DECIMAL or matcher.refusal(kind) is None:
        return matcher.encode(column)
    return np.full(len(column), -1)
