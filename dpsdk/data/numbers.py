"""Matchers of attributes whose cells are numbers: integers, and bins between edges."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from math import ceil

import numpy as np

from dpsdk.data.columns import SAFE, Kind
from dpsdk.data.matcher import ANY, NUMBERS, Matcher
from dpsdk.data.texts import Number, TextFormat, printed_decimal
from dpsdk.domain import Binned, Integer
from dpsdk.typing import Array, Bools, Ints

__all__ = ["BinnedMatcher", "IntegerMatcher", "first_float_from"]


class _NumericMatcher(Matcher):
    reads_digits = True

    def __init__(self, attribute: Integer | Binned, texts: TextFormat, *, clip: bool) -> None:
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


def first_float_from(edge: Decimal, kind: type[np.floating]) -> np.floating:
    """Return the smallest float of a type that prints as at least the edge, perhaps infinity."""
    found = kind(float(edge))
    while printed_decimal(found) < edge:
        found = np.nextafter(found, kind(np.inf))
    while printed_decimal(below := np.nextafter(found, kind(-np.inf))) >= edge:
        found = below
    return found
