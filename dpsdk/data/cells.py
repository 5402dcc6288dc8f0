"""Closed cells: public functions from the keys of a column to finitely many cells.

Each is a frozen public value; it is asked behind the wall once for each different key.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpsdk._checks import shown, to_fraction
from dpsdk._records import field, frozen
from dpsdk.data.keyed import LONGEST
from dpsdk.data.texts import Number, TextFormat, is_text
from dpsdk.domain.attributes import normal
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Ints, Real

__all__ = [
    "ROW_TOPS",
    "YEARS",
    "Cells",
    "KindCells",
    "ListedCells",
    "NumberCells",
    "number_of",
    "row_cells",
]

_PLAIN = TextFormat()

_FIRST, _LAST = -12, 13
"""Powers of ten that edges of numbers may begin and end at."""

_STEPS = (1, 2, 5)


def number_of(key: str, texts: TextFormat) -> Number | None:
    """Return the finite number that a key spells, in the table's way or as typed ones are spelt."""
    number = texts.number(key)
    if number is None:
        number = _PLAIN.number(key)
    if isinstance(number, Decimal) and not number.is_finite():
        return None
    return number


class Cells(ABC):
    """A public function from keys to cells, numbered from zero."""

    __slots__ = ()

    other: int = -1
    """The cell of values without a key; -1 where they have none."""
    missing: int = -1
    """The cell of missing values; -1 where they have none."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of cells."""

    @abstractmethod
    def of(self, keys: Sequence[str], texts: TextFormat) -> Ints:
        """Return the cell of each key, -1 for none. `texts` says how the table writes numbers."""


def _to_labels(values: Sequence[str]) -> tuple[str, ...]:
    expected = "different texts of at most 256 characters, as in ['ATL', 'ORD']"
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InvalidArgument("among", expected, shown(values))
    labels = tuple([normal(str.__str__(one)) if isinstance(one, str) else "" for one in values])
    if len(set(labels)) < len(labels) or any(
        not 0 < len(label) <= LONGEST or not is_text(label) for label in labels
    ):
        raise InvalidArgument("among", expected, shown(values))
    return labels


@frozen
class ListedCells(Cells):
    """One cell for each key of a public list."""

    labels: tuple[str, ...] = field(converter=_to_labels)

    @property
    def size(self) -> int:
        return len(self.labels)

    def of(self, keys: Sequence[str], texts: TextFormat) -> Ints:
        del texts
        places = {label: place for place, label in enumerate(self.labels)}
        return np.fromiter((places.get(key, -1) for key in keys), np.int64, len(keys))


def _to_smallest(value: Real) -> Fraction:
    number = to_fraction("smallest", value)
    powers = {Fraction(10) ** power for power in range(_FIRST, _LAST)}
    if number not in powers:
        raise InvalidArgument("smallest", "a power of ten from 1e-12 to 1e12", shown(value))
    return number


@frozen
class NumberCells(Cells):
    """Numbers by size: 0, then from `smallest` on the steps 1, 2 and 5 of each power of ten.

    Cell 0 is of numbers nearer to 0 than `smallest`. Then come those at or above each edge and
    below the next, up to 1e13, and then the same below zero. Larger numbers have no cell.
    """

    smallest: Fraction = field(default=Fraction(1, 1000), converter=_to_smallest)

    @cached_property
    def edges(self) -> tuple[Fraction, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The edges above zero."""
        edges: list[Fraction] = []
        power = self.smallest
        while power < 10**_LAST:
            edges += [power * step for step in _STEPS]
            power *= 10
        return (*edges, power)

    @property
    def size(self) -> int:
        return 2 * len(self.edges) - 1

    def bounds(self, cell: int) -> tuple[Fraction, Fraction]:
        """Return the edges of a cell."""
        edges, above = self.edges, len(self.edges) - 1
        if cell == 0:
            return Fraction(0), Fraction(0)
        if cell <= above:
            return edges[cell - 1], edges[cell]
        return -edges[cell - above], -edges[cell - above - 1]

    def of(self, keys: Sequence[str], texts: TextFormat) -> Ints:
        return self.of_numbers([number_of(key, texts) for key in keys])

    def of_numbers(self, numbers: Sequence[Number | None]) -> Ints:
        """Return the cell of each number, -1 for none."""
        above = len(self.edges) - 1
        if self.smallest >= 1 and set(map(type, numbers)) == {int}:
            # All at once, unless one is too large for that.
            with suppress(OverflowError):
                values = np.array(numbers, dtype=np.int64)
                tops = np.array([int(edge) for edge in self.edges])
                places = np.searchsorted(tops, np.abs(values), side="right")
                signed = np.where((places > 0) & (values < 0), places + above, places)
                beyond = (places > above) | (values == np.iinfo(np.int64).min)
                return np.where(beyond, -1, signed)
        edges = [Decimal(edge.numerator) / edge.denominator for edge in self.edges]

        def cell(number: Number | None) -> int:
            if number is None:
                return -1
            # Not by abs, which rounds.
            size = abs(number) if isinstance(number, int) else number.copy_abs()
            place = bisect_right(edges, size)
            if place > above:
                return -1
            return place + above if place and number < 0 else place

        return np.fromiter(map(cell, numbers), np.int64, len(numbers))


YEARS = range(1900, 2100)
"""Years of dates that are told from other texts."""

_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?", re.ASCII)


def _year_of(key: str) -> int | None:
    """Return the year of a key that begins with a day as ISO 8601 has it."""
    found = _DAY.fullmatch(key)
    if found is None:
        return None
    year, month, day = map(int, found.groups())
    try:
        return date(year, month, day).year
    except ValueError:
        return None


@frozen
class KindCells(Cells):
    """What kind of value a key is: missing, other, a text, a number by its size, a date by year.

    Cell 0 is of missing values, 1 of what has no key, 2 of texts. Then come whole numbers, as
    `NumberCells` has them from 1 on, then other numbers, as it has them from a thousandth on, and
    then the years of dates. A number is whole by its value, however it is written.
    """

    missing = 0
    other = 1
    text: ClassVar[int] = 2

    @cached_property
    def whole(self) -> NumberCells:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The cells of whole numbers."""
        return NumberCells(1)

    @cached_property
    def parts(self) -> NumberCells:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The cells of other numbers."""
        return NumberCells(Fraction(1, 1000))

    @property
    def spans(self) -> tuple[slice, slice, slice]:
        """Where the cells of whole numbers, of other numbers and of years are."""
        first, second = 3 + self.whole.size, 3 + self.whole.size + self.parts.size
        return slice(3, first), slice(first, second), slice(second, second + len(YEARS))

    @property
    def size(self) -> int:
        return 3 + self.whole.size + self.parts.size + len(YEARS)

    def of(self, keys: Sequence[str], texts: TextFormat) -> Ints:
        whole, parts, years = self.spans
        numbers = [number_of(key, texts) for key in keys]
        cells = np.full(len(keys), self.text, dtype=np.int64)
        for span, kind in ((whole, self.whole), (parts, self.parts)):
            places = [
                place
                for place, number in enumerate(numbers)
                if number is not None
                and (isinstance(number, int) or number == number.to_integral_value())
                == (kind is self.whole)
            ]
            own = kind.of_numbers([numbers[place] for place in places])
            cells[places] = np.where(own < 0, self.text, own + span.start)
        for place, key in enumerate(keys):
            year = None if numbers[place] is not None else _year_of(key)
            if year is not None and year in YEARS:
                cells[place] = years.start + YEARS.index(year)
        return cells


ROW_TOPS: tuple[int, ...] = (
    *(1, 2, 3, 5, 7),
    *[top * 10**power for power in range(5) for top in (10, 15, 20, 30, 50, 70)],
    10**6,
)
"""Numbers of rows of a person, in steps that people read."""


def row_cells(counts: Ints) -> Ints:
    """Return the place of the first top that is at least so many rows; the last where none is."""
    places = np.searchsorted(np.array(ROW_TOPS), counts)
    return np.minimum(places, len(ROW_TOPS) - 1)
