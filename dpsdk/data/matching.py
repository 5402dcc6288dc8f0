"""Matchers of attributes whose cells are labels or dates, and the matcher of each attribute."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

import numpy as np

from dpsdk.data.columns import SAFE, Kind
from dpsdk.data.matcher import ANY, NUMBERS, Matcher
from dpsdk.data.moments import Moment
from dpsdk.data.numbers import BinnedMatcher, GridMatcher, IntegerMatcher
from dpsdk.data.texts import (
    Number,
    TextFormat,
    is_canonical,
    is_number,
    nearest_float,
)
from dpsdk.domain import Attribute, Binned, Boolean, Categorical, Date, Integer
from dpsdk.domain import Number as Grid
from dpsdk.domain.attributes import normal
from dpsdk.domain.calendar import DAY, UNITS
from dpsdk.domain.zones import Offsets
from dpsdk.domain.zones import offsets as offsets_of
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Array, Ints

__all__ = ["DateMatcher", "make_matcher", "require_known"]


class _LabelMatcher(Matcher):
    """Along labels: texts by their spelling, numbers by their value."""

    def __init__(
        self, attribute: Boolean | Categorical, texts: TextFormat, labels: dict[str, int]
    ) -> None:
        super().__init__(attribute, texts)
        self._labels = {normal(label): cell for label, cell in labels.items()}
        self.numbers: dict[Number, int] = {
            Decimal(label): cell for label, cell in self._labels.items() if is_canonical(label)
        }
        self.far: bool = any(not -SAFE < number < SAFE for number in self.numbers)
        rounded = [nearest_float(number) for number in self.numbers]
        # A float that might be any of several labels is none.
        self._rounded: dict[Number, int] = {
            number: cell
            for number, cell in zip(rounded, self.numbers.values(), strict=True)
            if not self.far or rounded.count(number) == 1
        }
        # Among "08", "09" and "10", a column of integers would find one label of three.
        self._odd = next(
            (one for one in self._labels if is_number(one) and not is_canonical(one)), None
        )

    def reads_numbers(self) -> bool:
        """Return whether labels are numbers, and all of those as numbers print."""
        return bool(self.numbers) and self._odd is None

    def _number(self, value: Number) -> int:
        return (self._rounded if self.rounds else self.numbers).get(value, self.rest)

    def label(self, text: str) -> int | None:
        """Return the cell of a text that is a label."""
        found = self._labels.get(normal(text))
        if found is None and self.texts.strip:
            return self._labels.get(normal(text.strip()))
        return found

    def some(self) -> str:
        """Return the first labels as a refusal lists them."""
        names = ", ".join(repr(label) for label in list(self._labels)[:8])
        return f"{names}, ..." if len(self._labels) > 8 else names


class BooleanMatcher(_LabelMatcher):
    """Along False and True: truth values, and the texts that the attribute lists."""

    def __init__(self, attribute: Boolean, texts: TextFormat) -> None:
        words = {word: int(cell) for word, cell in attribute.readings.items()}
        super().__init__(attribute, texts, words)

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in ANY or kind is Kind.BOOLEAN or (kind in NUMBERS and self.reads_numbers()):
            return None
        numbers = ", or list the numbers in true= and false=" if kind in NUMBERS else ""
        return f"booleans, or texts among {self.some()}{numbers}"

    def _boolean(self, *, value: bool) -> int:
        return int(value)

    def _text(self, value: str) -> int | None:
        found = self.label(value)
        return super()._text(value) if found is None else found


class CategoricalMatcher(_LabelMatcher):
    """Along declared labels, with another cell for the rest where there is one."""

    def __init__(self, attribute: Categorical, texts: TextFormat) -> None:
        labels = {str(label): cell for cell, label in enumerate(attribute.values)}
        super().__init__(attribute, texts, labels)
        if attribute.other is not None:
            self.rest: int = attribute.index(attribute.other)
        if attribute.missing:
            # Then no row lies outside because of this attribute.
            self.odd: int = self.rest

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in ANY or (kind in NUMBERS and self.reads_numbers()):
            return None
        if kind is Kind.BOOLEAN and not {"True", "False"}.isdisjoint(self._labels):
            return None
        expected = f"texts such as {self.some()}"
        if kind is Kind.BOOLEAN:
            return f"{expected}, or declare a Boolean"
        if self._odd is not None and kind in NUMBERS:
            return f"{expected}: the label {self._odd!r} is a text that no number prints as"
        return expected

    def _boolean(self, *, value: bool) -> int:
        return self._labels.get(str(value), self.rest)

    def _text(self, value: str) -> int | None:
        found = self.label(value)
        if found is None and (self.numbers or self.texts.absent):
            return super()._text(value)
        return found


_ERA = 2**25
"""A little more than a year, in seconds."""


class DateMatcher(Matcher):
    """Along days, weeks, months or hours: by the calendar and the clock on the wall."""

    def __init__(self, attribute: Date, texts: TextFormat, *, clip: bool) -> None:
        super().__init__(attribute, texts)
        self.clips = clip
        self.unit: str = attribute.unit
        self.zone: str | None = attribute.zone
        self._calendar = UNITS[attribute.unit]
        self.first: int = attribute.first
        self.walls: tuple[int, int] = attribute.walls
        self._offsets: Offsets | None = None
        self._read = texts.moments(attribute.name)

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in ANY or kind is Kind.NAIVE_TIME:
            return None
        if kind is Kind.DATE:
            return "times" if self.unit == "hour" else None
        if kind is Kind.ZONED_TIME:
            place = "or declare a zone to read them in, such as zone='UTC'"
            return f"times without a zone, {place}" if self.zone is None else None
        return "dates, times, or texts that spell them as 2024-03-31 or 2024-03-31T23:59"

    def _number(self, value: Number) -> int:  # noqa: ARG002  # no number is a date
        return self.rest

    def _text(self, value: str) -> int | None:
        moment = self._read(value.strip() if self.texts.strip else value)
        if moment is not None:
            return self.moment(moment)
        return super()._text(value) if self.texts.absent else None

    def reads(self, text: str) -> bool:
        return self._read(text) is not None

    def moment(self, value: Moment) -> int:
        if self.refusal(value.kind) is not None:
            return self.rest
        wall = value.seconds
        if value.kind is Kind.ZONED_TIME:
            wall += self.offsets.at(wall)
        if wall < self.walls[0]:
            return 0 if self.clips else self.rest
        if wall >= self.walls[1]:
            return self.known - 1 if self.clips else self.rest
        return self._calendar.number(wall) - self.first

    def moments(self, kind: Kind, seconds: Array) -> Ints:
        wall: Ints = seconds
        if kind is Kind.ZONED_TIME:
            known = self.offsets
            places = np.searchsorted(np.array(known.changes, np.int64), seconds, side="right")
            wall = seconds + np.array(known.seconds, np.int64)[places]
        inside = np.clip(wall, self.walls[0], self.walls[1] - 1)
        codes = self._calendar.numbers(inside) - self.first
        codes[wall < self.walls[0]] = 0 if self.clips else self.rest
        codes[wall >= self.walls[1]] = self.known - 1 if self.clips else self.rest
        return codes

    def boundaries(self) -> list[int]:
        """Return when each unit begins, and the last one ends, on the wall."""
        return [self._calendar.start(self.first + cell) for cell in range(self.known + 1)]

    @property
    def offsets(self) -> Offsets:
        """Those of the declared zone, as far as the cells go."""
        known = self._offsets
        if known is None:
            # Nowhere is a clock farther from UTC than two days. Round ends are asked for by many.
            start, stop = (self.walls[0] - 2 * DAY) // _ERA, (self.walls[1] + 2 * DAY) // _ERA + 1
            known = self._offsets = offsets_of(self.zone or "UTC", start * _ERA, stop * _ERA)
        return known


def make_matcher(attribute: Attribute, texts: TextFormat, *, clip: bool) -> Matcher:
    """Return what finds the cells of an attribute.

    `clip` moves numbers, dates and times beyond the bounds to the nearest label; what is neither
    stays outside, or in the cells of missing and of other values. A `Number` says that of itself.
    """
    require_known(attribute)
    match attribute:
        case Integer():
            return IntegerMatcher(attribute, texts, clip=clip)
        case Binned():
            return BinnedMatcher(attribute, texts, clip=clip)
        case Grid():
            return GridMatcher(attribute, texts)
        case Date():
            return DateMatcher(attribute, texts, clip=clip)
        case Boolean():
            return BooleanMatcher(attribute, texts)
        case _:
            return CategoricalMatcher(cast("Categorical", attribute), texts)


def require_known(attribute: Attribute) -> None:
    """Check that an attribute is of a class of this package."""
    kind = type(attribute)
    if kind not in (Boolean, Categorical, Integer, Binned, Date, Grid):
        expected = "made of Boolean, Categorical, Integer, Binned, Number and Date"
        raise InvalidArgument("domain", expected, f"an attribute of class {kind.__name__}")
