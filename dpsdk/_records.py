"""Records: public values as plain data, written one way and read back strictly.

A record is a dict of texts: each field is a text, a list or another record, and `tag` says of which
kind it is and of which version. So any format of nested dicts, lists and texts can hold it, JSON
among them. The compatibility law is that what a tag means never changes: whatever is written
differently one day gets a new tag, and old ones stay readable. Numbers are exact, and spelled in
one way only, so that equal values have equal records. A reader refuses unknown tags, fields that
are missing and fields that are too many; it is quick for anything that is handed to it, and looks
kinds up in a closed table, so that nothing is imported or called by a name that a record holds.
docs/reference/records.md has the law and the tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import gcd
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from dpsdk._checks import shown
from dpsdk.errors import DpsdkError, RecordError

__all__ = [
    "FLAG",
    "FRACTION",
    "INTEGER",
    "NATURAL",
    "TAGS",
    "TEXT",
    "Field",
    "Kinds",
    "Listed",
    "Optional",
    "Record",
    "Single",
    "as_record",
    "from_record",
]

T = TypeVar("T")
R = TypeVar("R")

Record: TypeAlias = dict[str, object]
"""A tag, and fields that are texts, lists or records."""

_BITS = 1 << 17
"""Larger integers are not written: nothing that is public here has as many bits."""

_PLAIN_BITS = 1 << 12
"""Larger integers are written in hexadecimal digits, which take no time to read."""

_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")
_HEX = re.compile(r"-?0x[1-9a-f][0-9a-f]*")
_LONGEST_TEXT = 1 << 16
_DEEPEST = 32
_TAG = "tag"


class Field(Protocol[T]):
    """How one field is written and read."""

    def write(self, value: T, where: str) -> object:
        """The plain form of a value.

        Raises
        ------
        RecordError
            If it has none.
        """
        ...

    def read(self, plain: object, where: str) -> T:
        """The value of a plain form.

        Raises
        ------
        RecordError
            If the plain form is not one that `write` gives.
        """
        ...


def _text(plain: object, where: str, expected: str, longest: int = _LONGEST_TEXT) -> str:
    if type(plain) is not str:
        raise RecordError(where, expected, type(plain).__name__)
    if len(plain) > longest:
        raise RecordError(where, f"of at most {longest:,} characters", f"one of {len(plain):,}")
    return plain


class _Integer:
    """An integer in decimal digits, or, from 2^4096 on, in hexadecimal ones after 0x."""

    def __init__(self, least: int | None) -> None:
        self._least = least
        self._expected = "an integer in digits" + ("" if least is None else f", at least {least}")

    def write(self, value: int, where: str) -> str:
        bits = value.bit_length()
        if bits > _BITS:
            raise RecordError(where, f"an integer below 2^{_BITS}", f"one of {bits:,} bits")
        return str(value) if bits <= _PLAIN_BITS else hex(value)

    def read(self, plain: object, where: str) -> int:
        text = _text(plain, where, self._expected)
        number: int | None = None
        if _DECIMAL.fullmatch(text) and len(text) <= _PLAIN_BITS // 3:
            number = int(text)
        elif _HEX.fullmatch(text):
            number = int(text, 16)
        # Of several spellings only the one that is written is read.
        if number is None or self.write(number, where) != text:
            raise RecordError(where, self._expected, shown(text))
        if self._least is not None and number < self._least:
            raise RecordError(where, self._expected, shown(text))
        return number


INTEGER = _Integer(None)
NATURAL = _Integer(0)


class _Fraction:
    """A fraction in lowest terms, as 3/10, or an integer."""

    def write(self, value: Fraction, where: str) -> str:
        above = INTEGER.write(value.numerator, where)
        if value.denominator == 1:
            return above
        return f"{above}/{INTEGER.write(value.denominator, where)}"

    def read(self, plain: object, where: str) -> Fraction:
        expected = "a fraction in lowest terms, as 3/10"
        text = _text(plain, where, expected, 2 * _LONGEST_TEXT)
        first, slash, second = text.partition("/")
        above = INTEGER.read(first, where)
        if not slash:
            return Fraction(above)
        below = INTEGER.read(second, where)
        if below < 2 or gcd(above, below) != 1:
            raise RecordError(where, expected, shown(text))
        return Fraction(above, below)


FRACTION = _Fraction()


class _Text:
    """A text that UTF-8 can hold."""

    def write(self, value: str, where: str) -> str:
        return self.read(value, where)

    def read(self, plain: object, where: str) -> str:
        text = _text(plain, where, "a text")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise RecordError(where, "a text that UTF-8 can hold", shown(text)) from None
        return text


TEXT = _Text()


class _Flag:
    """A truth value, as yes or no."""

    def write(self, value: bool, where: str) -> str:  # noqa: ARG002, FBT001  # as of every field
        return "yes" if value else "no"

    def read(self, plain: object, where: str) -> bool:
        text = _text(plain, where, "yes or no")
        if text not in {"yes", "no"}:
            raise RecordError(where, "yes or no", shown(text))
        return text == "yes"


FLAG = _Flag()


class Listed(Generic[T]):
    """A list of at most so many items, which becomes a tuple.

    Parameters
    ----------
    item
        How each is written.
    most
        So many at the most.
    """

    def __init__(self, item: Field[T], most: int) -> None:
        self._item = item
        self._most = most

    def write(self, value: tuple[T, ...], where: str) -> list[object]:
        if len(value) > self._most:
            raise RecordError(where, f"at most {self._most:,} items", f"{len(value):,} items")
        return [self._item.write(one, f"{where}[{place}]") for place, one in enumerate(value)]

    def read(self, plain: object, where: str) -> tuple[T, ...]:
        if type(plain) is not list:
            raise RecordError(where, "a list", type(plain).__name__)
        items = cast("list[object]", plain)
        if len(items) > self._most:
            raise RecordError(where, f"at most {self._most:,} items", f"{len(items):,} items")
        return tuple(self._item.read(one, f"{where}[{i}]") for i, one in enumerate(items))


class Optional(Generic[T]):
    """A value or None, as a list of one item or of none."""

    def __init__(self, item: Field[T]) -> None:
        self._items = Listed(item, 1)

    def write(self, value: T | None, where: str) -> list[object]:
        return self._items.write(() if value is None else (value,), where)

    def read(self, plain: object, where: str) -> T | None:
        items = self._items.read(plain, where)
        return items[0] if items else None


TAGS: dict[str, tuple[str, ...]] = {}
"""Every tag of the package, with its fields, so that no two are alike. Nothing is read by it."""


class _Kind(Generic[T]):
    """A class of values, the tag of their records, and how each field is written."""

    def __init__(
        self,
        tag: str,
        made: type[T],
        fields: Mapping[str, Field[object]],
        take: Callable[[Mapping[str, object]], T],
    ) -> None:
        self.tag = tag
        self.made = made
        self.fields = fields
        self.take = take


class Kinds(Generic[T]):
    """The classes of values that one place of a record may hold, each with its tag.

    Parameters
    ----------
    what
        What they are called together, for errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._by_class: dict[type, _Kind[T]] = {}
        self._by_tag: dict[str, _Kind[T]] = {}

    def add(
        self,
        made: type[T],
        tag: str,
        fields: Mapping[str, object],
        take: Callable[[Mapping[str, object]], T] | None = None,
    ) -> None:
        """Register a class. Nothing but the package itself may: a tag is a promise for good.

        Parameters
        ----------
        made
            The class; those below it are not written.
        tag
            Says the kind and its version, as "budget.1". It never comes to mean anything else.
        fields
            For each field of the class, a `Field`.
        take
            What makes a value of the fields; the class itself unless given.
        """
        if made in self._by_class:
            raise ValueError(tag)
        self._by_class[made] = self.read_also(made, tag, fields, take)

    def read_also(
        self,
        made: type[T],
        tag: str,
        fields: Mapping[str, object],
        take: Callable[[Mapping[str, object]], T] | None = None,
    ) -> _Kind[T]:
        """Register a tag that is read and not written any more. Arguments as for `add`."""
        kinds = cast("Mapping[str, Field[object]]", fields)
        kind: _Kind[T] = _Kind(tag, made, kinds, take or (lambda read: made(**read)))
        if tag in TAGS or _TAG in kinds:
            raise ValueError(tag)
        self._by_tag[tag] = kind
        TAGS[tag] = tuple(kinds)
        return kind

    def write(self, value: T, where: str) -> Record:
        """The record of a value.

        Raises
        ------
        RecordError
            If its class is none of those registered here, or it is too large.
        """
        kind = self._by_class.get(type(value))
        if kind is None:
            raise RecordError(where, f"{self._what} of the package", type(value).__name__)
        record: Record = {_TAG: kind.tag}
        for name, field in kind.fields.items():
            record[name] = field.write(getattr(value, name), f"{where}.{name}")
        return record

    def read(self, plain: object, where: str) -> T:
        """The value of a record.

        Raises
        ------
        RecordError
            If it is no record of this place, down to its last field.
        """
        if type(plain) is not dict:
            raise RecordError(where, f"a record of {self._what}", type(plain).__name__)
        record = cast("dict[object, object]", plain)
        if where.count(".") > _DEEPEST:
            raise RecordError(where, f"records at most {_DEEPEST} deep", "one that is deeper")
        tag = record.get(_TAG)
        kind = self._by_tag.get(tag) if type(tag) is str else None
        if kind is None:
            known = ", ".join(self._by_tag)
            raise RecordError(f"{where}.{_TAG}", f"one of {known}", shown(tag))
        for name in record:
            if name != _TAG and (type(name) is not str or name not in kind.fields):
                raise RecordError(where, f"the fields of {tag} alone", f"also {shown(name)}")
        for name in kind.fields:
            if name not in record:
                raise RecordError(where, f"all fields of {tag}", f"none called {name}")
        read = {
            name: field.read(record[name], f"{where}.{name}") for name, field in kind.fields.items()
        }
        try:
            return kind.take(read)
        except RecordError:
            raise
        except (DpsdkError, ValueError, TypeError) as error:
            raise RecordError(where, f"what makes a {tag}", str(error)) from None


class Single(Kinds[T]):
    """One class of values by itself."""

    def __init__(
        self,
        made: type[T],
        tag: str,
        fields: Mapping[str, object],
        take: Callable[[Mapping[str, object]], T] | None = None,
    ) -> None:
        super().__init__(tag)
        self.add(made, tag, fields, take)


def as_record(kinds: Kinds[T], value: T) -> Record:
    """The record of a value that stands by itself."""
    return kinds.write(value, type(value).__name__)


def from_record(kinds: Kinds[T], kind: type[R], record: object) -> R:
    """The value of a record that stands by itself, if it is of a class.

    Raises
    ------
    RecordError
        If it is no record of these kinds, or its value is of another class.
    """
    value: object = kinds.read(record, kind.__name__)
    if not isinstance(value, kind):
        raise RecordError(kind.__name__, f"a record of {kind.__name__}", type(value).__name__)
    return value
