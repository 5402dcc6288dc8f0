"""Whose a row is: the identifiers of a column, as numbers of persons; -1 is nobody's.

An identifier has one written form, and persons are told by it: a text is its own, an integer is
that of its digits. What has none is nobody's: a missing value, a truth value, a fraction.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from dpsdk.data.bounding import kept
from dpsdk.data.columns import Column, Kind
from dpsdk.data.matching import MISSING, Matcher
from dpsdk.data.texts import Number, TextFormat
from dpsdk.data.unit import PrivacyUnit
from dpsdk.data.values import plain
from dpsdk.typing import Ints

__all__ = ["WHITE_SPACE", "PersonMatcher", "kept_codes", "persons_of"]

WHITE_SPACE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
"""What `strip` drops, written out for engines that would drop less."""

_LONGEST = 10**50
"""Integers from here on are written in base 16, which takes no time however long they are."""

_READ = {Kind.INTEGER, Kind.TEXT, Kind.UNTYPED, Kind.NULL}


class Seen(dict[str | None, int]):
    """The persons of texts as they stand in a table, each worked out once. Private."""

    def __init__(self, *, strip: bool) -> None:
        super().__init__()
        self._strip = strip
        self.written: dict[str, int] = {}
        """The persons of written forms, in order of their numbers."""

    def __missing__(self, text: str | None) -> int:
        """None is a field that a line does not have."""
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
        self.seen: Seen = Seen(strip=texts.strip)

    @property
    def strips(self) -> bool:
        """Whether white space around identifiers is dropped."""
        return self._texts.strip

    @property
    def written(self) -> Sequence[str]:
        """The written form of each person that was met, in order of their numbers. Private."""
        return list(self.seen.written)

    def mismatch(self, kind: Kind | str) -> str | None:
        """What is wrong with a column of this kind, or None; asked before a value is read."""
        expected = self.refusal(kind)
        if expected is None:
            return None
        held = kind.value if isinstance(kind, Kind) else kind
        return f"column {self.name!r} holds {held}, which tell nobody apart; give {expected}"

    def refusal(self, kind: Kind | str) -> str | None:
        """What would tell persons apart instead of a column of this kind."""
        if kind in _READ:
            return None
        where = ", in a type for integers that may be null" if kind is Kind.FLOAT else ""
        return f"identifiers that are integers or texts{where}"

    def number(self, value: Number) -> int:
        """The person of a number. A float in a column of objects may be a whole number."""
        if not isinstance(value, int):
            if not value.is_finite() or value.adjusted() > 50 or value != value.to_integral_value():
                return -1
            value = int(value)
        return self.seen[str(value) if abs(value) < _LONGEST else hex(value)]

    def text(self, value: str) -> int:
        """The person of a text."""
        return self.seen[value]

    def values(self, items: Sequence[object]) -> Ints:
        """The persons of values of any class."""
        seen = self.seen
        persons = (seen[item] if type(item) is str else self._other(item) for item in items)
        return np.fromiter(persons, np.int64, len(items))

    def _other(self, item: object) -> int:
        value = str(item) if type(item) is _class_of_uuids() else plain(item)
        if value is None or isinstance(value, bool):
            return -1
        return self.seen[value] if isinstance(value, str) else self.number(value)


def _class_of_uuids() -> type | None:
    """The identifiers of the standard library that are neither integers nor texts, if any are."""
    return getattr(sys.modules.get("uuid"), "UUID", None)


def persons_of(matcher: PersonMatcher, column: Column) -> Ints:
    """The number of each row's person, -1 for nobody's."""
    if column.kind is Kind.NULL or not len(column.values):
        return np.full(len(column), -1, dtype=np.int64)
    if column.values.dtype.kind in "iu":
        distinct, places = np.unique(column.values, return_inverse=True)
        persons = matcher.values(distinct.tolist())[places]
    else:
        persons = matcher.values(cast("list[object]", column.values.tolist()))
    if column.places is not None:
        persons = persons[column.places]
    if column.missing is not None:
        persons[column.missing] = -1
    return persons


def kept_codes(
    codes: Mapping[str, Ints], matcher: PersonMatcher, persons: Ints, unit: PrivacyUnit
) -> dict[str, Ints]:
    """The cell numbers of the rows that are kept; of a row that lies outside, all are -1."""
    # All rows of a person that lie outside are in one cell.
    outside = np.any([code < 0 for code in codes.values()], axis=0)
    cells = {name: np.where(outside, -1, code) for name, code in codes.items()}
    stays = kept(persons, lambda: matcher.written, list(cells.values()), unit)
    return {name: cell[stays] for name, cell in cells.items()}
