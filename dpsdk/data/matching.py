"""Which cell a value falls into along an attribute; -1 is outside.

Values arrive as exact built-ins: a text, a truth value, or a number with its exact value. The
rules, the same by whichever door a table comes in:

- A float is the decimal that it prints as in its own width.
- A text is a number where it spells one in strict decimals; numbers match by their exact value.
- A truth value is the text True or False to a `Categorical`, and no number.
- An empty text, nan and NaN are missing values, unless they are labels.
- Dates and times match a `Date`, which no number does; see `dpsdk.data.moments`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from decimal import Decimal

import numpy as np

from dpsdk.data.columns import Kind
from dpsdk.data.moments import Moment, read_moment
from dpsdk.data.texts import Number, TextFormat, is_canonical, is_nan, is_number, is_text
from dpsdk.domain import Attribute, Binned, Boolean, Categorical, Date, Integer
from dpsdk.domain.calendar import DAY, UNITS
from dpsdk.domain.spelling import normal
from dpsdk.domain.zones import Offsets
from dpsdk.domain.zones import offsets as offsets_of
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Bools, Ints

__all__ = ["MISSING", "BinnedMatcher", "DateMatcher", "IntegerMatcher", "Matcher", "matcher_of"]

_ANY = {Kind.TEXT, Kind.UNTYPED, Kind.NULL}
MISSING = {"", "nan", "NaN"}
_NUMBERS = {Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL}


class Matcher(ABC):
    """Finds the cells of values along one attribute."""

    def __init__(self, name: str, size: int, texts: TextFormat) -> None:
        self.name: str = name
        self.size: int = size
        self.numbers: dict[Number, int] = {}
        """The cells of the numbers that are labels."""
        self.rest: int = -1
        """The cell of what is neither missing nor a label."""
        self.clips: bool = False
        """Whether numbers beyond the bounds are moved to them."""
        self._texts = texts

    def mismatch(self, kind: Kind | str) -> str | None:
        """What is wrong with a column of this kind, or None; asked before a value is read."""
        expected = self.refusal(kind)
        if expected is None:
            return None
        held = kind.value if isinstance(kind, Kind) else kind
        return f"column {self.name!r} holds {held}, none of which can match; give {expected}"

    @abstractmethod
    def refusal(self, kind: Kind | str) -> str | None:
        """What would match instead of a column of this kind, or None if that can match."""

    @abstractmethod
    def number(self, value: Number) -> int:
        """The cell of a number, which may be infinite but not NaN."""

    def boolean(self, *, value: bool) -> int:  # noqa: ARG002  # the rule of those that read none
        """The cell of a truth value."""
        return -1

    def text(self, value: str) -> int:
        """The cell of a text."""
        number = self._texts.number(value)
        return -1 if number is None or is_nan(number) else self.number(number)


class _NumericMatcher(Matcher):
    def __init__(self, name: str, size: int, texts: TextFormat, *, clip: bool) -> None:
        super().__init__(name, size, texts)
        self.clips = clip
        self.reads_points: bool = texts.decimal == "."

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in _ANY or kind in _NUMBERS:
            return None
        expected = "integers, floats, decimals, or texts that spell numbers"
        return f"{expected}, or declare a Boolean" if kind is Kind.BOOLEAN else expected


class IntegerMatcher(_NumericMatcher):
    """Along integers: whole numbers, however they are spelt."""

    def __init__(self, attribute: Integer, texts: TextFormat, *, clip: bool) -> None:
        super().__init__(attribute.name, attribute.size, texts, clip=clip)
        self.low: int = attribute.low
        self.high: int = attribute.high

    def number(self, value: Number) -> int:
        if value < self.low:
            return 0 if self.clips else -1
        if value > self.high:
            return self.size - 1 if self.clips else -1
        # Within the bounds, so turning it into an int is no work.
        whole = int(value)
        return whole - self.low if whole == value else -1


class BinnedMatcher(_NumericMatcher):
    """Along bins: numbers of any kind, against edges that are the decimals they print as."""

    def __init__(self, attribute: Binned, texts: TextFormat, *, clip: bool) -> None:
        super().__init__(attribute.name, attribute.size, texts, clip=clip)
        self.exact: tuple[Decimal, ...] = tuple(Decimal(repr(edge)) for edge in attribute.edges)

    def number(self, value: Number) -> int:
        cell = bisect_right(self.exact, value) - 1
        if cell == self.size and value == self.exact[-1]:
            return cell - 1
        if self.clips:
            return min(max(cell, 0), self.size - 1)
        return cell if cell < self.size else -1

    def cells(self, reached: Ints, end: Bools | None) -> Ints:
        """The cells of numbers, by how many edges each reaches, and which of them are the last."""
        codes = reached.astype(np.int64) - 1
        if end is not None:
            codes[end] = self.size - 1
        if self.clips:
            return np.clip(codes, 0, self.size - 1)
        codes[codes >= self.size] = -1
        return codes


class BooleanMatcher(Matcher):
    """Along False and True: truth values, and the texts that the attribute lists."""

    def __init__(self, attribute: Boolean, texts: TextFormat) -> None:
        super().__init__(attribute.name, attribute.size, texts)
        self._words = {normal(word): int(cell) for word, cell in attribute.readings.items()}
        numbers, self._odd = _numbers_among(self._words)
        self.numbers: dict[Number, int] = numbers

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in _ANY or kind is Kind.BOOLEAN:
            return None
        if kind in _NUMBERS and self.numbers and self._odd is None:
            return None
        numbers = ", or list the numbers in true= and false=" if kind in _NUMBERS else ""
        return f"booleans, or texts among {_some(list(self._words))}{numbers}"

    def boolean(self, *, value: bool) -> int:
        return int(value)

    def number(self, value: Number) -> int:
        return self.numbers.get(value, -1)

    def text(self, value: str) -> int:
        found = _looked_up(self._words, value, self._texts)
        return super().text(value) if found is None else found


class CategoricalMatcher(Matcher):
    """Along labels: texts by their spelling, numbers by their value."""

    def __init__(self, attribute: Categorical, texts: TextFormat) -> None:
        super().__init__(attribute.name, attribute.size, texts)
        self._labels = {normal(str(label)): number for number, label in enumerate(attribute.values)}
        self.rest: int = -1 if attribute.other is None else attribute.index(attribute.other)
        numbers, self._odd = _numbers_among(self._labels)
        self.numbers: dict[Number, int] = numbers

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in _ANY or (kind in _NUMBERS and self.numbers and self._odd is None):
            return None
        if kind is Kind.BOOLEAN and not {"True", "False"}.isdisjoint(self._labels):
            return None
        expected = f"texts such as {_some(list(self._labels))}"
        if kind is Kind.BOOLEAN:
            return f"{expected}, or declare a Boolean"
        if self._odd is not None and kind in _NUMBERS:
            return f"{expected}: the label {self._odd!r} is a text that no number prints as"
        return expected

    def boolean(self, *, value: bool) -> int:
        return self._labels.get(str(value), self.rest)

    def number(self, value: Number) -> int:
        return self.numbers.get(value, self.rest)

    def text(self, value: str) -> int:
        found = _looked_up(self._labels, value, self._texts)
        if found is not None:
            return found
        if not is_text(value) or (value.strip() if self._texts.strip else value) in MISSING:
            return -1
        number = self._texts.number(value) if self.numbers else None
        return self.rest if number is None else self.number(number)


_ERA = 2**25
"""A little more than a year, in seconds."""


class DateMatcher(Matcher):
    """Along days, weeks, months or hours: by the calendar and the clock on the wall."""

    def __init__(self, attribute: Date, texts: TextFormat, *, clip: bool) -> None:
        super().__init__(attribute.name, attribute.size, texts)
        self.clips: bool = clip
        self.unit: str = attribute.unit
        self.zone: str | None = attribute.zone
        self._calendar = UNITS[attribute.unit]
        self.first: int = attribute.first
        self.walls: tuple[int, int] = attribute.walls
        self._offsets: Offsets | None = None

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in _ANY or kind is Kind.NAIVE_TIME:
            return None
        if kind is Kind.DATE:
            return "times" if self.unit == "hour" else None
        if kind is Kind.ZONED_TIME:
            place = "or declare a zone to read them in, such as zone='UTC'"
            return f"times without a zone, {place}" if self.zone is None else None
        return "dates, times, or texts that spell them as 2024-03-31 or 2024-03-31T23:59"

    def number(self, value: Number) -> int:  # noqa: ARG002  # no number is a date
        return -1

    def text(self, value: str) -> int:
        moment = read_moment(value.strip() if self._texts.strip else value)
        return -1 if moment is None else self.moment(moment)

    def moment(self, value: Moment) -> int:
        """The cell of a day or time."""
        if self.refusal(value.kind) is not None:
            return -1
        wall = value.seconds
        if value.kind is Kind.ZONED_TIME:
            wall += self.offsets.at(wall)
        if wall < self.walls[0]:
            return 0 if self.clips else -1
        if wall >= self.walls[1]:
            return self.size - 1 if self.clips else -1
        return self._calendar.number(wall) - self.first

    def moments(self, kind: Kind | str, seconds: Ints) -> Ints:
        """The cells of many days or times of one kind, which is not refused."""
        wall = seconds
        if kind is Kind.ZONED_TIME:
            known = self.offsets
            places = np.searchsorted(np.array(known.changes, np.int64), seconds, side="right")
            wall = seconds + np.array(known.seconds, np.int64)[places]
        inside = np.clip(wall, self.walls[0], self.walls[1] - 1)
        codes = self._calendar.numbers(inside) - self.first
        codes[wall < self.walls[0]] = 0 if self.clips else -1
        codes[wall >= self.walls[1]] = self.size - 1 if self.clips else -1
        return codes

    def boundaries(self) -> list[int]:
        """When each unit begins, and the last one ends, on the wall."""
        return [self._calendar.start(self.first + cell) for cell in range(self.size + 1)]

    @property
    def offsets(self) -> Offsets:
        """Those of the declared zone, as far as the cells go."""
        known = self._offsets
        if known is None:
            # Nowhere is a clock farther from UTC than two days. Round ends are asked for by many.
            start, stop = (self.walls[0] - 2 * DAY) // _ERA, (self.walls[1] + 2 * DAY) // _ERA + 1
            known = self._offsets = offsets_of(self.zone or "UTC", start * _ERA, stop * _ERA)
        return known


def _looked_up(words: dict[str, int], text: str, texts: TextFormat) -> int | None:
    found = words.get(normal(text))
    return words.get(normal(text.strip())) if found is None and texts.strip else found


def _numbers_among(words: dict[str, int]) -> tuple[dict[Number, int], str | None]:
    """The words that a number prints as, and one that only looks like such a word, if there is.

    Among "08", "09" and "10", a column of integers would find one label of three.
    """
    odd = next((word for word in words if is_number(word) and not is_canonical(word)), None)
    return {Decimal(word): cell for word, cell in words.items() if is_canonical(word)}, odd


def _some(words: list[str]) -> str:
    names = ", ".join(repr(word) for word in words[:8])
    return f"{names}, ..." if len(words) > 8 else names


def matcher_of(attribute: Attribute, texts: TextFormat, *, clip: bool) -> Matcher:
    """What finds the cells of an attribute.

    `clip` moves numbers beyond the bounds of a numeric attribute to the nearest cell; what is not
    a number stays outside.

    Raises
    ------
    InvalidArgument
        If the attribute is of a class of another author, whose methods would see values.
    """
    match attribute:
        case Integer():
            return IntegerMatcher(attribute, texts, clip=clip)
        case Binned():
            return BinnedMatcher(attribute, texts, clip=clip)
        case Date():
            return DateMatcher(attribute, texts, clip=clip)
        case Boolean():
            return BooleanMatcher(attribute, texts)
        case Categorical():
            return CategoricalMatcher(attribute, texts)
        case _:
            expected = "made of Boolean, Categorical, Integer, Binned and Date"
            raise InvalidArgument("domain", expected, type(attribute).__name__)
