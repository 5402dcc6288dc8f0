"""Matchers find the cell that a value falls into along an attribute; -1 is outside.

A value that is no label falls into the cell for missing or for other values, where there is one.

Matching never fails because of a value and never says which values it met. The rules are the same
by whichever door a table comes in:

- A float is the decimal that it prints as in its own width.
- A number from 2^53 on, in a column whose type follows from its rows, is the nearest float of 64
  bits, as it is beside a null.
- A text is a number where it spells one in strict decimals; numbers match by their exact value.
- A truth value is the text True or False to a `Categorical`, and no number.
- An empty text, nan and NaN are missing values, unless they are labels; so are null, and what the
  domain lists as missing, be it a text or the number that this text spells.
- Dates and times match a `Date`, which no number does; see `dpsdk.data.moments`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import numpy as np

from dpsdk.data.columns import Column, Kind, is_large
from dpsdk.data.moments import Moment, moment_of
from dpsdk.data.texts import (
    MISSING,
    Number,
    TextFormat,
    is_nan,
    is_nothing,
    is_text,
    nearest_float,
    plain,
)
from dpsdk.domain import Attribute
from dpsdk.typing import Array, Extra, Ints

__all__ = ["ANY", "MOMENTS", "NUMBERS", "Matcher", "Memo"]

ANY = {Kind.TEXT, Kind.UNTYPED, Kind.NULL}
"""Kinds of columns that may match every attribute."""
NUMBERS = {Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL}
MOMENTS = {Kind.DATE, Kind.NAIVE_TIME, Kind.ZONED_TIME}

_REMEMBERED = 2**16
_LONGEST_REMEMBERED = 64

K = TypeVar("K")


class Memo(dict[K, int], Generic[K]):
    """Cell numbers of values, each worked out once as long as not too many differ."""

    def __init__(self, number: Callable[[K], int]) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, value: K) -> int:
        code = self._number(value)
        if isinstance(value, str) and len(value) > _LONGEST_REMEMBERED:
            return code
        if len(self) >= _REMEMBERED:
            self.clear()
        self[value] = code
        return code


class Matcher(ABC):
    """Finds the cells of values along one attribute."""

    clips: bool = False
    """True if numbers beyond the bounds are moved to them."""
    far: bool = False
    """True if numbers from 2^53 on, of which floats do not hold all, lie in several cells."""
    reads_digits: bool = False
    """True if every text of digits is read as the integer that it spells."""

    def __init__(self, column: Attribute | str, texts: TextFormat) -> None:
        self.name: str = column if isinstance(column, str) else column.name
        self.size: int = 0 if isinstance(column, str) else column.size
        """The number of cells, those of missing and of other values among them."""
        self.known: int = 0 if isinstance(column, str) else column.known
        """The number of labels, whose cells come first."""
        self.texts: TextFormat = texts
        self.numbers: dict[Number, int] = {}
        """The cells of the numbers that are labels."""
        self.rounds: bool = False
        """True while a column is read whose integers could have become floats."""
        extras = () if isinstance(column, str) else column.extras
        cells = {extra: self.known + place for place, extra in enumerate(extras)}
        self.gap: int = cells.get(Extra.MISSING, -1)
        """The cell of what is missing."""
        self.rest: int = cells.get(Extra.OTHER, -1)
        """The cell of what is neither missing nor a label."""
        self.odd: int = self.rest
        """The same for what is not even a text, number or truth value."""
        self.broken: int = cells.get(Extra.OTHER, self.gap)
        """The cell of a row whose fields nobody can tell apart."""

    def mismatch(self, kind: Kind | str) -> str | None:
        """Return what is wrong with a column of this kind, before a value is read; or None."""
        expected = self.refusal(kind)
        if expected is None:
            return None
        held = kind.value if isinstance(kind, Kind) else kind
        return f"column {self.name!r} holds {held}, none of which can match; give {expected}"

    @abstractmethod
    def refusal(self, kind: Kind | str) -> str | None:
        """Return what would match instead of a column of this kind, or None if that can match."""

    def number(self, value: Number) -> int:
        """Return the cell of a number, which may be infinite but not NaN."""
        if self.rounds:
            value = nearest_float(value)
        if self.texts.absent and self.texts.is_absent(value, rounded=self.rounds):
            return self.gap
        return self._number(value)

    @abstractmethod
    def _number(self, value: Number) -> int:
        """Return the cell of a number as it is."""

    def boolean(self, *, value: bool) -> int:
        """Return the cell of a truth value."""
        return self.gap if self.texts.lists(str(value)) else self._boolean(value=value)

    def _boolean(self, *, value: bool) -> int:  # noqa: ARG002  # most attributes have none
        return self.rest

    def text(self, value: str) -> int:
        """Return the cell of a text."""
        if self.texts.lists(value):
            return self.gap
        cell = self._text(value)
        if cell is not None:
            return cell
        if not is_text(value):
            return self.odd
        return self.gap if (value.strip() if self.texts.strip else value) in MISSING else self.rest

    def _text(self, value: str) -> int | None:
        """Return the cell of a text; None if it says nothing to this attribute."""
        number = self.texts.number(value)
        return None if number is None or is_nan(number) else self.number(number)

    def reads(self, text: str) -> bool:
        """Return whether a text is a value of the attribute, and so can not stand for none."""
        cell = self._text(text)
        return cell is not None and cell != self.rest

    def moment(self, value: Moment) -> int:  # noqa: ARG002  # only dates read them
        """Return the cell of a day or time."""
        return self.odd

    def strange(self, item: object) -> int:
        """Return the cell of what is no text, number, truth value or moment."""
        return self.gap if is_nothing(item) else self.odd

    def memo(self) -> dict[str | None, int]:
        """Return a dictionary that works out the cells of texts; None is a lacking field."""
        return Memo[str | None](lambda text: self.gap if text is None else self.text(text))

    def encode(self, column: Column) -> Ints:
        """Return the cell numbers of a column's values."""
        self.rounds = column.guessed and (self.far or self.texts.far)
        # No warning of numpy's may depend on what it meets.
        with np.errstate(all="ignore"):
            codes = self._encode(column)
        if column.places is not None:
            codes = codes[column.places] if len(codes) else np.full(len(column), self.gap)
        if column.missing is not None:
            codes[column.missing] = self.gap
        return codes

    def _encode(self, column: Column) -> Ints:
        values = column.values
        if column.kind is Kind.NULL:
            return np.full(len(values), self.gap)
        if column.kind in MOMENTS:
            return self.moments(cast("Kind", column.kind), values)
        match values.dtype.kind:
            case "b":
                cells = [self.boolean(value=False), self.boolean(value=True)]
                return np.array(cells)[values.astype(np.intp)]
            case "i" | "u" | "f":
                return self.typed(values)
            case _:
                return self.objects(values)

    def typed(self, values: Array) -> Ints:
        """Return the cells of an array of integers or floats."""
        codes = self.floats(values) if values.dtype.kind == "f" else self.integers(values)
        if self.rounds and values.dtype.kind != "f" and (large := is_large(values)).any():
            codes[large] = self.floats(values[large].astype(np.float64))
        if self.texts.absent and (near := self.texts.nearly_absent(values)).any():
            codes[near] = self.distinct(values[near])
        return codes

    def moments(self, kind: Kind, seconds: Array) -> Ints:  # noqa: ARG002  # only dates read them
        """Return the cells of many days or times of one kind."""
        return np.full(len(seconds), self.odd)

    def integers(self, values: Array) -> Ints:
        """Return the cells of an array of integers."""
        return self.distinct(values)

    def floats(self, values: Array) -> Ints:
        """Return the cells of an array of floats."""
        return self.distinct(values)

    def distinct(self, values: Array) -> Ints:
        """Return the cells of an array of numbers, each distinct one looked at once."""
        distinct, places = np.unique(values, return_inverse=True)
        return self.objects(distinct)[places]

    def objects(self, values: Array) -> Ints:
        """Return the cells of values that are looked at one by one."""
        texts, numbers = self.memo(), Memo[Number](self.number)

        def cell(item: object) -> int:
            value = plain(item)
            if isinstance(value, str):
                return texts[value]
            if isinstance(value, bool):
                return self.boolean(value=value)
            if value is not None:
                return numbers[value]
            moment = moment_of(item)
            if moment is not None:
                return self.moment(moment)
            return self.strange(item)

        # The elements of an array of floats keep their width only as scalars of numpy.
        items = values if values.dtype.kind == "f" else cast("list[object]", values.tolist())
        if set(map(type, items)) == {str}:
            found = map(texts.__getitem__, cast("list[str]", items))
            return np.fromiter(found, np.int64, len(values))
        codes = (texts[item] if type(item) is str else cell(item) for item in items)
        return np.fromiter(codes, np.int64, len(values))
