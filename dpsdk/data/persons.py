"""Persons: whose each row is, and which rows of a person are kept.

An identifier is a text, and an integer is that of its digits. What has no identifier is nobody's:
a missing value, a truth value, a fraction.

At most so many rows of a person are kept, by a rule that looks at that person alone. Every row gets
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
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import cast

import numpy as np

from dpsdk.data.columns import Column, Kind
from dpsdk.data.matcher import ANY, Matcher
from dpsdk.data.texts import MISSING, Number, TextFormat, plain
from dpsdk.data.unit import PrivacyUnit
from dpsdk.typing import Bools, Ints

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
"""What `strip` drops, written out for engines that would drop less."""

_HUGE = 2**17
"""Bits of integers whose digits would take long to write."""


class _Persons(dict[str | None, int]):
    """The persons of texts as they stand in a table, each worked out once. Private."""

    def __init__(self, *, strip: bool) -> None:
        super().__init__()
        self._strip = strip
        self.written: dict[str, int] = {}
        """The persons of written forms, in order of their numbers."""

    def __missing__(self, text: str | None) -> int:
        """Number a new person; None is a field that a line does not have."""
        written = text.strip() if text is not None and self._strip else text
        if written is None or written in MISSING:
            person = -1
        else:
            person = self.written.setdefault(written, len(self.written))
        self[text] = person
        return person


class PersonMatcher(Matcher):
    """Numbers persons in the order in which they are met, which no result may depend on."""

    def __init__(self, column: str, texts: TextFormat) -> None:
        super().__init__(column, 2**62, texts)
        self._persons = _Persons(strip=texts.strip)

    @property
    def written(self) -> Sequence[str]:
        """The written form of each person that was met, in order of their numbers. Private."""
        return list(self._persons.written)

    def memo(self) -> dict[str | None, int]:
        return self._persons

    def mismatch(self, kind: Kind | str) -> str | None:
        expected = self.refusal(kind)
        if expected is None:
            return None
        held = kind.value if isinstance(kind, Kind) else kind
        return f"column {self.name!r} holds {held}, which tell nobody apart; give {expected}"

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in ANY or kind is Kind.INTEGER:
            return None
        where = ", in a type for integers that may be null" if kind is Kind.FLOAT else ""
        return f"identifiers that are integers or texts{where}"

    def number(self, value: Number) -> int:
        """Return the person of a number. A float in a column of objects may be a whole number."""
        if not isinstance(value, int):
            if not value.is_finite() or value.adjusted() > 50 or value != value.to_integral_value():
                return -1
            value = int(value)
        if value.bit_length() > _HUGE:
            # No text begins with half a surrogate pair.
            return self._persons[f"\ud800{value:x}"]
        # Unlike an int, a Decimal is written however long it is.
        return self._persons[str(Decimal(value))]

    def text(self, value: str) -> int:
        return self._persons[value]

    def encode(self, column: Column) -> Ints:
        """Return the number of each row's person, -1 for nobody's."""
        values = column.values
        if column.kind is Kind.NULL or not len(values):
            return np.full(len(column), -1)
        if values.dtype.kind in "iu":
            distinct, places = np.unique(values, return_inverse=True)
            texts = map(str, distinct.tolist())
            persons = np.fromiter(map(self.text, texts), np.int64, len(distinct))[places]
        else:
            persons = self._of_items(cast("list[object]", values.tolist()))
        if column.places is not None:
            persons = persons[column.places]
        if column.missing is not None:
            persons[column.missing] = -1
        return persons

    def _of_items(self, items: Sequence[object]) -> Ints:
        known = self._persons
        found = (known[item] if type(item) is str else self._other(item) for item in items)
        return np.fromiter(found, np.int64, len(items))

    def _other(self, item: object) -> int:
        # Identifiers of the standard library that are neither integers nor texts.
        known = getattr(sys.modules.get("uuid"), "UUID", None)
        value = str(item) if type(item) is known else plain(item)
        if value is None or isinstance(value, bool):
            return -1
        return self.text(value) if isinstance(value, str) else self.number(value)


def kept_codes(
    codes: Mapping[str, Ints], matcher: PersonMatcher, persons: Ints, unit: PrivacyUnit
) -> dict[str, Ints]:
    """Return the cell numbers of the rows that are kept; of a row outside, all are -1."""
    # All rows of a person that lie outside are in one cell.
    outside = np.any([code < 0 for code in codes.values()], axis=0)
    cells = {name: np.where(outside, -1, code) for name, code in codes.items()}
    stays = kept(persons, lambda: matcher.written, list(cells.values()), unit)
    return {name: cell[stays] for name, cell in cells.items()}


def salts_of(written: Sequence[str]) -> Ints:
    """Return numbers of identifiers, which decide in which order the rows of each are taken.

    Several may share a number: it need not tell them apart, only differ for most.
    """
    numbers = np.array([len(text) % LENGTHS for text in written], dtype=np.int64)
    ends = [text[:FIRST].ljust(FIRST, "\0") + text[-LAST:].rjust(LAST, "\0") for text in written]
    codes = np.array(ends, dtype=f"U{FIRST + LAST}").view(np.uint32).reshape(len(ends), -1)
    known = (codes >= ord(ALPHABET[0])) & (codes <= ord(ALPHABET[-1]))
    for digits in np.where(known, codes & (2**BITS - 1), 0).T:
        numbers = numbers << BITS | digits
    return numbers % PRIME


def kept(
    persons: Ints, written: Callable[[], Sequence[str]], codes: Sequence[Ints], unit: PrivacyUnit
) -> Bools:
    """Return which rows stay, of a table whose persons and cells are known.

    Parameters
    ----------
    persons
        The number of each row's person, from 0 on; -1 for rows of nobody, which do not stay.
    written
        Gives the identifiers of all persons, in order of their numbers.
    codes
        The cell of each row along each attribute; all of them -1 where it lies outside.
    unit
        How many rows, and whether cells count once.
    """
    stays = persons >= 0
    if not stays.any():
        return stays
    counts = np.bincount(persons[stays])
    # Nobody with so few rows can lose one, so there is nothing to choose.
    many = counts > (1 if unit.distinct else unit.max_rows)
    rows = np.flatnonzero(stays)
    rows = rows[many[persons[rows]]]
    if len(rows):
        names = written()
        salts = np.zeros(len(many), dtype=np.int64)
        salts[many] = salts_of([names[person] for person in np.flatnonzero(many).tolist()])
        stays[rows] = False
        stays[rows[_first(persons[rows], salts, [code[rows] for code in codes], unit)]] = True
    return stays


def _first(persons: Ints, salts: Ints, codes: Sequence[Ints], unit: PrivacyUnit) -> Ints:
    """Places of the rows with the smallest keys of each person."""
    order = _order([persons, *codes])
    repeat = _place_in_run([persons[order], *(code[order] for code in codes)])
    if unit.distinct:
        order, repeat = order[repeat == 1], repeat[repeat == 1]
    key = _keys(salts[persons[order]], [code[order] for code in codes], repeat)
    # Keys that are alike, which are few, go by the cell.
    order = order[_order([persons[order], key, *(code[order] for code in codes), repeat])]
    return order[_place_in_run([persons[order]]) <= unit.max_rows]


def _order(columns: Sequence[Ints]) -> Ints:
    """What sorts rows by the columns, the first one first. Values are -1 or more."""
    # The fewest columns that hold the same: one sort is much faster than several.
    packed: list[Ints] = []
    room = 0
    for column in columns:
        size = int(column.max()) + 2
        if room * size < 2**63 and packed:
            packed[-1], room = packed[-1] * size + (column + 1), room * size
        else:
            packed.append(column + 1)
            room = size
    return np.argsort(packed[0]) if len(packed) == 1 else np.lexsort(packed[::-1])


def _place_in_run(columns: Sequence[Ints]) -> Ints:
    """The place of each row among the adjacent rows that are equal to it, from 1 on."""
    places = np.arange(len(columns[0]), dtype=np.int64)
    begins = np.ones(len(places), dtype=bool)
    begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return places - np.maximum.accumulate(np.where(begins, places, 0)) + 1


def _keys(salts: Ints, codes: Sequence[Ints], repeat: Ints) -> Ints:
    key = np.ones(len(repeat), dtype=np.int64)
    for code in codes:
        key = (key * CELL_FACTOR + (code + 1) % PRIME) % PRIME
    key = (key + salts * PERSON_FACTOR % PRIME + repeat * REPEAT_FACTOR % PRIME) % PRIME
    square = key * key % PRIME
    return square * square % PRIME * key % PRIME
