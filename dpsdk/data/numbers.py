"""Matchers of attributes whose cells are numbers: integers, bins between edges, and grids."""

from __future__ import annotations

from bisect import bisect_right
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import ceil, floor

import numpy as np

from dpsdk.data.columns import SAFE, Kind
from dpsdk.data.matcher import ANY, NUMBERS, Matcher
from dpsdk.data.texts import Number, TextFormat, is_nan, printed_decimal
from dpsdk.domain import Binned, Integer
from dpsdk.domain import Number as Grid
from dpsdk.typing import Array, Bools, Floats, Ints

__all__ = ["BinnedMatcher", "GridMatcher", "IntegerMatcher", "first_float_from"]


class _NumericMatcher(Matcher):
    reads_digits = True

    def __init__(
        self, attribute: Integer | Binned | Grid, texts: TextFormat, *, clip: bool
    ) -> None:
        super().__init__(attribute, texts)
        self.clips = clip

    def refusal(self, kind: Kind | str) -> str | None:
        if kind in ANY or kind in NUMBERS:
            return None
        expected = "integers, floats, decimals, or texts that spell numbers"
        return f"{expected}, or declare a Boolean" if kind is Kind.BOOLEAN else expected


class IntegerMatcher(_NumericMatcher):
    """Along integers: whole numbers, however they are spelt."""

    def __init__(self, attribute: Integer, texts: TextFormat, *, clip: bool) -> None:
        super().__init__(attribute, texts, clip=clip)
        self.low: int = attribute.low
        self.high: int = attribute.high
        self.far: bool = not -SAFE < self.low <= self.high < SAFE

    def _number(self, value: Number) -> int:
        if value < self.low:
            return 0 if self.clips else self.rest
        if value > self.high:
            return self.known - 1 if self.clips else self.rest
        # Within the bounds, so turning it into an int is no work.
        whole = int(value)
        return whole - self.low if whole == value else self.rest

    def integers(self, values: Array) -> Ints:
        info = np.iinfo(values.dtype)
        low, high = max(self.low, info.min), min(self.high, info.max)
        if low > high:
            # The whole type lies on one side of the bounds.
            return np.full(len(values), self._number(info.max))
        wide = values.astype(np.uint64 if info.min == 0 else np.int64, copy=False)
        # Modulo 2^64, what is below the bounds is farther above the lower one than the upper one.
        steps = wide.view(np.uint64) - np.uint64(low % 2**64)
        codes = steps.view(np.int64)
        outside = steps > np.uint64(high - low)
        if low > self.low:
            codes += low - self.low
        if self.rest < 0:
            # All bits are set in -1.
            bits = outside.view(np.int8)
            codes |= np.negative(bits, out=bits)
        else:
            codes[outside] = self.rest
        if self.clips:
            kind = values.dtype.type
            codes[values < kind(low)] = self._number(self.low - 1)
            codes[values > kind(high)] = self._number(self.high + 1)
        return codes

    def floats(self, values: Array) -> Ints:
        # Below this size, a whole float prints all its digits; above, as few as tell it apart.
        exact = min(2.0 ** (np.finfo(values.dtype).nmant + 1), 2.0**53)
        plain = np.abs(values) < exact
        codes = np.full(len(values), self.rest)
        whole = plain & (values == np.rint(values))
        codes[whole] = self.integers(values[whole].astype(np.int64))
        if self.clips:
            # A fraction beyond the bounds is moved to them, one between them stays outside.
            rest = plain & ~whole
            moved = np.full(int(rest.sum()), self.rest)
            beyond = np.floor(values[rest]).astype(np.int64)
            moved[beyond < self.low] = 0
            moved[beyond >= self.high] = self.known - 1
            codes[rest] = moved
        missing = np.isnan(values)
        codes[missing] = self.gap
        large = ~plain & ~missing
        codes[large] = self.objects(values[large])
        return codes


class BinnedMatcher(_NumericMatcher):
    """Along bins: numbers of any kind, against edges that are the decimals they print as."""

    def __init__(self, attribute: Binned, texts: TextFormat, *, clip: bool) -> None:
        super().__init__(attribute, texts, clip=clip)
        self.exact: tuple[Decimal, ...] = tuple(Decimal(repr(edge)) for edge in attribute.edges)
        self.far: bool = not -SAFE < self.exact[0] <= self.exact[-1] < SAFE

    def _number(self, value: Number) -> int:
        cell = bisect_right(self.exact, value) - 1
        if cell == self.known and value == self.exact[-1]:
            return cell - 1
        if self.clips:
            return min(max(cell, 0), self.known - 1)
        return cell if 0 <= cell < self.known else self.rest

    def integers(self, values: Array) -> Ints:
        info = np.iinfo(values.dtype)
        # An integer is at or above an edge where it is so for the next integer up.
        starts = [ceil(edge) for edge in self.exact]
        last = starts[-1] if starts[-1] == self.exact[-1] else None
        edges = np.array([max(s, info.min) for s in starts if s <= info.max], dtype=values.dtype)
        end = None if last is None or not info.min <= last <= info.max else values == edges[-1]
        return self._cells(np.searchsorted(edges, values, side="right"), end)

    def floats(self, values: Array) -> Ints:
        if values.dtype.itemsize > np.dtype(np.float64).itemsize:
            return self.distinct(values)
        kind = values.dtype.type
        edges = np.array([first_float_from(edge, kind) for edge in self.exact], dtype=values.dtype)
        end = values == edges[-1] if printed_decimal(edges[-1]) == self.exact[-1] else None
        codes = self._cells(np.searchsorted(edges, values, side="right"), end)
        codes[np.isnan(values)] = self.gap
        return codes

    def _cells(self, reached: Ints, end: Bools | None) -> Ints:
        """Return cells by how many edges each number reaches, and which are the last edge."""
        codes = reached.astype(np.int64) - 1
        if end is not None:
            codes[end] = self.known - 1
        if self.clips:
            return np.clip(codes, 0, self.known - 1)
        if self.rest >= 0:
            codes[codes < 0] = self.rest
        codes[codes >= self.known] = self.rest
        return codes


_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""No product of two decimals is rounded."""
_WORDS = 2**62
"""Whole numbers up to this stay below 2^63 when a little is added."""
_SLACK = 2.0**-49
"""Places are wrong by less than this share: three roundings of the value, and three of sums."""
_FAR = 2.0**900
_CHUNK = 2**16


class GridMatcher(_NumericMatcher):
    """Along numbers on a grid: the nearest one, halves upwards, by the exact value.

    Of an exact grid it is the number itself; between two of them there is the rest.

    With the step p / q in lowest terms, q times a value lies at p times its place on the grid, and
    is a whole number for every integer.
    """

    def __init__(self, attribute: Grid, texts: TextFormat) -> None:
        # Its bounds are its own matter, whatever is moved to those of other attributes.
        super().__init__(attribute, texts, clip=attribute.outside == "clip")
        low, high = attribute.low, attribute.high
        self.far: bool = not -SAFE < low <= high < SAFE
        self.exact: bool = attribute.exact
        self._step: tuple[int, int] = attribute.step.as_integer_ratio()
        self._start: int = attribute.start
        self._around: tuple[int, int] = floor(low), ceil(high)
        self.within: tuple[int, int] = ceil(low), floor(high)
        """The first and the last integer within the bounds, if there are any."""
        self.below: int = 0 if self.clips else self.rest
        """The cell of numbers below the bounds."""
        self.above: int = self.known - 1 if self.clips else self.rest
        """The cell of numbers above the bounds."""
        extents = [low, high, 1 / attribute.step, Fraction(self._start)]
        plain = all(abs(extent) < _FAR for extent in extents)
        self._floats: tuple[float, float, float] | None = (
            (float(low), float(high), float(1 / attribute.step)) if plain else None
        )

    @property
    def terms(self) -> tuple[int, int, int] | None:
        """Whole numbers a, b, c: the cell of the n-th integer within the bounds is (a n + b) // c.

        None where there is no such integer, or a number on the way may need more than 64 bits, or
        integers may lie between two numbers of an exact grid.
        """
        p, q = self._step
        first, last = self.within
        if first > last or max(self.known * p, q) > _WORDS or (self.exact and p > 1):
            return None
        return q, first * q - self._start * p + p // 2, p

    def reads(self, text: str) -> bool:
        number = self.texts.number(text)
        if number is None or is_nan(number):
            return False
        place = self._place(number)
        return place is not None and 0 <= place < self.known

    def _place(self, value: Number) -> int | None:
        """Return the cell of a number; -1 below the bounds, and one more than the last above.

        None where it is between two numbers of an exact grid.
        """
        p, q = self._step
        first, last = self._around
        # Before anything is made of its digits, which may be many.
        if not first <= value <= last:
            return -1 if value < first else self.known
        ends = self._start * p, (self._start + self.known - 1) * p
        scaled = value * q if isinstance(value, int) else _EXACT.multiply(value, Decimal(q))
        if not ends[0] <= scaled <= ends[1]:
            return -1 if scaled < ends[0] else self.known
        double = scaled * 2 if isinstance(scaled, int) else _EXACT.multiply(scaled, Decimal(2))
        # Half of a whole number is reached by the value where its whole part reaches it.
        twice = double if isinstance(double, int) else int(double.to_integral_value(ROUND_FLOOR))
        if self.exact and (twice != double or twice % (2 * p)):
            return None
        return (twice + p) // (2 * p) - self._start

    def _number(self, value: Number) -> int:
        place = self._place(value)
        if place is None:
            return self.rest
        return self.below if place < 0 else self.above if place >= self.known else place

    def integers(self, values: Array) -> Ints:
        info, terms = np.iinfo(values.dtype), self.terms
        first, last = self.within
        low, high = max(first, info.min), min(last, info.max)
        if terms is None or low > high:
            return self.distinct(values)
        kind, (times, plus, parts) = values.dtype.type, terms
        wide = np.clip(values, kind(low), kind(high))
        wide = wide.astype(np.uint64 if info.min == 0 else np.int64, copy=False)
        # Modulo 2^64, as the bounds may lie apart by more than 63 bits tell.
        codes: Ints = (wide.view(np.uint64) - np.uint64(low % 2**64)).view(np.int64)
        codes *= times
        codes += plus + (low - first) * times
        if parts > 1:
            codes //= parts
        if first > info.min:
            codes[values < kind(low)] = self.below
        if last < info.max:
            codes[values > kind(high)] = self.above
        return codes

    def floats(self, values: Array) -> Ints:
        if self._floats is None or values.dtype.itemsize > np.dtype(np.float64).itemsize:
            return self.distinct(values)
        if self.exact:
            # Of this size, a float of any width prints all its digits where it is whole.
            whole = (np.abs(values) < 2.0 ** (np.finfo(values.dtype).nmant + 1)) & (
                values == np.rint(values)
            )
            codes: Ints = np.empty(len(values), np.int64)
            codes[whole] = self.integers(values[whole].astype(np.int64))
            codes[~whole] = self.distinct(values[~whole])
            return codes
        if values.dtype.itemsize < np.dtype(np.float64).itemsize:
            distinct, places = np.unique(values, return_inverse=True)
            return self.floats(_doubles(distinct))[places]
        low, high, scale = self._floats
        place = np.clip(values, low, high)
        place *= scale
        place += 0.5 - self._start
        cells = np.floor(place)
        place -= cells
        # Where the place may be that of the next cell, the decimal decides that is printed.
        slack = (np.abs(cells) + (abs(self._start) + 1)) * _SLACK
        near = (place < slack) | (place > 1 - slack)
        codes = cells.astype(np.int64)
        np.clip(codes, 0, self.known - 1, out=codes)
        if not self.clips:
            codes[(values < low) | (values > high)] = self.rest
            edge = max(abs(low), abs(high)) * _SLACK
            near |= (np.abs(values - low) <= edge) | (np.abs(values - high) <= edge)
        codes[np.isnan(values)] = self.gap
        codes[near] = self.distinct(values[near])
        return codes


def _doubles(values: Array) -> Floats:
    """Return the float of 64 bits next to the decimal that each narrower float prints as."""
    parts = [values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK)]
    doubles = [part.astype(np.str_).astype(np.float64) for part in parts]
    return np.concatenate([np.zeros(0), *doubles])


def first_float_from(edge: Decimal, kind: type[np.floating]) -> np.floating:
    """Return the smallest float of a type that prints as at least the edge, perhaps infinity."""
    found = kind(float(edge))
    while printed_decimal(found) < edge:
        found = np.nextafter(found, kind(np.inf))
    while printed_decimal(below := np.nextafter(found, kind(-np.inf))) >= edge:
        found = below
    return found
