"""From the values of a column to cell numbers along its attribute; -1 is outside.

Encoding never fails because of a value and never says which values it met: a value that is
missing, malformed or beyond the declaration is outside, nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import ceil
from typing import Generic, TypeVar, cast

import numpy as np

from dpsdk.data.columns import Column, Kind
from dpsdk.data.matching import BinnedMatcher, DateMatcher, IntegerMatcher, Matcher
from dpsdk.data.moments import moment_of
from dpsdk.data.seen import LONGEST, WORD, Seen
from dpsdk.data.texts import Number
from dpsdk.data.values import plain, printed_decimal
from dpsdk.typing import Array, Ints

__all__ = ["Known", "encode", "first_float_from"]

_MOMENTS = (Kind.DATE, Kind.NAIVE_TIME, Kind.ZONED_TIME)
_REMEMBERED = 2**16
_LONGEST_REMEMBERED = 64
_TOGETHER = 2**16
_WIDE = 4
"""Bytes of a character in an array of texts."""
_NARROW = 255
"""The last character that fits into one byte."""

K = TypeVar("K")


class Known(dict[K, int], Generic[K]):
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


def encode(matcher: Matcher, column: Column) -> Ints:
    """Cell numbers of a column's values, -1 for those outside."""
    # No warning of numpy's may depend on what it meets.
    with np.errstate(all="ignore"):
        codes = _encoded(matcher, column)
    if column.places is not None:
        codes = codes[column.places] if len(codes) else np.full(len(column), -1, dtype=np.int64)
    if column.missing is not None:
        codes[column.missing] = -1
    return codes


def _encoded(matcher: Matcher, column: Column) -> Ints:
    values, kind = column.values, column.values.dtype.kind
    if column.kind is Kind.NULL:
        return _outside(values)
    if column.kind in _MOMENTS:
        if isinstance(matcher, DateMatcher):
            return matcher.moments(column.kind, values)
        return _outside(values)
    if kind == "b":
        return np.where(values, matcher.boolean(value=True), matcher.boolean(value=False)).astype(
            np.int64
        )
    if kind in "iu":
        if isinstance(matcher, IntegerMatcher):
            return _integers(matcher, values)
        if isinstance(matcher, BinnedMatcher):
            return _bins_of_integers(matcher, values)
    if kind == "f":
        if isinstance(matcher, IntegerMatcher):
            return _whole_floats(matcher, values)
        if isinstance(matcher, BinnedMatcher) and values.dtype.itemsize <= 8:
            return _bins_of_floats(matcher, values)
    if kind in "iuf":
        distinct, places = np.unique(values, return_inverse=True)
        return _one_by_one(matcher, distinct)[places]
    if kind == "U" and values.dtype.itemsize:
        return _texts(matcher, values)
    return _one_by_one(matcher, values)


def _outside(values: Array) -> Ints:
    return np.full(len(values), -1, dtype=np.int64)


def _texts(matcher: Matcher, values: Array) -> Ints:
    """Cell numbers of texts of at most so many characters, each of which is read once."""
    seen, parts = Seen(), list[Ints]()
    for start in range(0, len(values), _TOGETHER):
        given = values[start : start + _TOGETHER]
        length = given.dtype.itemsize // _WIDE
        characters = given.astype(f"=U{length}").view(np.uint32).reshape(len(given), length)
        # Characters of one byte fill words; texts of others, and long ones, are read by themselves.
        kept = min(length, LONGEST)
        narrow = characters[:, :kept].astype(np.uint8)
        odd = (characters[:, :kept] > _NARROW).any(axis=1) | characters[:, kept:].any(axis=1)
        held = np.zeros((len(given), -(-kept // WORD) * WORD), dtype=np.uint8)
        held[:, :kept] = narrow
        words = list(np.ascontiguousarray(held.view(np.uint64).T))
        codes = np.empty(len(given), dtype=np.int64)
        plain, rest = np.flatnonzero(~odd), np.flatnonzero(odd)

        def read(places: Ints, given: Array = given, plain: Ints = plain) -> Ints:
            return _one_by_one(matcher, given[plain[places]])

        codes[plain] = seen.numbers([word[plain] for word in words], read)
        codes[rest] = _one_by_one(matcher, given[rest])
        parts.append(codes)
    return np.concatenate([*parts, np.zeros(0, dtype=np.int64)])


def _integers(matcher: IntegerMatcher, values: Array) -> Ints:
    info = np.iinfo(values.dtype)
    low, high = max(matcher.low, info.min), min(matcher.high, info.max)
    if low > high:
        # The whole type lies on one side of the bounds.
        return np.full(len(values), matcher.number(info.max), dtype=np.int64)
    wide = values.astype(np.uint64 if info.min == 0 else np.int64).view(np.uint64)
    # Modulo 2^64, what is below the bounds is farther above the lower one than the upper one is.
    steps = wide - np.uint64(low % 2**64)
    codes = steps.astype(np.int64) + (low - matcher.low)
    codes[steps > np.uint64(high - low)] = -1
    if matcher.clips:
        kind = values.dtype.type
        codes[values < kind(low)] = matcher.number(matcher.low - 1)
        codes[values > kind(high)] = matcher.number(matcher.high + 1)
    return codes


def _whole_floats(matcher: IntegerMatcher, values: Array) -> Ints:
    # Below this size, a whole float prints all its digits; above, as few as tell it from others.
    exact = min(2.0 ** (np.finfo(values.dtype).nmant + 1), 2.0**53)
    plain = np.abs(values) < exact
    codes = np.full(len(values), -1, dtype=np.int64)
    whole = plain & (values == np.rint(values))
    codes[whole] = _integers(matcher, values[whole].astype(np.int64))
    if matcher.clips:
        # A fraction beyond the bounds is moved to them, one between them stays outside.
        rest = plain & ~whole
        moved = np.full(int(rest.sum()), -1, dtype=np.int64)
        beyond = np.floor(values[rest]).astype(np.int64)
        moved[beyond < matcher.low] = 0
        moved[beyond >= matcher.high] = matcher.size - 1
        codes[rest] = moved
    large = ~plain & ~np.isnan(values)
    codes[large] = _one_by_one(matcher, values[large])
    return codes


def _bins_of_integers(matcher: BinnedMatcher, values: Array) -> Ints:
    info = np.iinfo(values.dtype)
    # An integer is at or above an edge where it is so for the next integer up.
    starts = [ceil(edge) for edge in matcher.exact]
    last = starts[-1] if starts[-1] == matcher.exact[-1] else None
    reached = np.array([max(s, info.min) for s in starts if s <= info.max], dtype=values.dtype)
    end = None if last is None or not info.min <= last <= info.max else values == reached[-1]
    return matcher.cells(np.searchsorted(reached, values, side="right"), end)


def _bins_of_floats(matcher: BinnedMatcher, values: Array) -> Ints:
    kind = values.dtype.type
    reached = np.array([first_float_from(edge, kind) for edge in matcher.exact], dtype=values.dtype)
    end = values == reached[-1] if printed_decimal(reached[-1]) == matcher.exact[-1] else None
    codes = matcher.cells(np.searchsorted(reached, values, side="right"), end)
    codes[np.isnan(values)] = -1
    return codes


def first_float_from(edge: Decimal, kind: type[np.floating]) -> np.floating:
    """The smallest float of a type that prints as at least the edge; infinity may be the only."""
    found = kind(float(edge))
    while printed_decimal(found) < edge:
        found = np.nextafter(found, kind(np.inf))
    while printed_decimal(below := np.nextafter(found, kind(-np.inf))) >= edge:
        found = below
    return found


def _one_by_one(matcher: Matcher, values: Array) -> Ints:
    texts = Known(matcher.text)
    # Equal numbers are the same to a matcher, of whichever class they are.
    numbers = Known[Number](matcher.number)
    dated = matcher if isinstance(matcher, DateMatcher) else None

    def number(item: object) -> int:
        value = plain(item)
        if isinstance(value, str):
            return texts[value]
        if isinstance(value, bool):
            return matcher.boolean(value=value)
        if value is not None:
            return numbers[value]
        moment = moment_of(item) if dated is not None else None
        return -1 if dated is None or moment is None else dated.moment(moment)

    # The elements of an array of floats keep their width only as scalars of numpy.
    items = values if values.dtype.kind == "f" else cast("list[object]", values.tolist())
    if set(map(type, items)) == {str}:
        found = map(texts.__getitem__, cast("list[str]", items))
        return np.fromiter(found, np.int64, len(values))
    codes = (texts[item] if type(item) is str else number(item) for item in items)
    return np.fromiter(codes, np.int64, len(values))
