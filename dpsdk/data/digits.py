"""Plain decimals in bytes, read many at once: "17", "-3", "0.25".

A sign, digits, and at most one point among them. Other spellings of numbers are left to those who
read texts one by one, and so are longer ones. The value is exact: whole numbers and how many of
their digits are decimals.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil

import numpy as np
from attrs import frozen

from dpsdk.data.matching import BinnedMatcher, IntegerMatcher, Matcher
from dpsdk.data.seen import words_of
from dpsdk.typing import Array, Bools, Ints

__all__ = ["Decimals", "cells_of", "read_decimals"]

_MINUS, _POINT, _ZERO = 45, 46, 48
_DIGITS = 18
"""So many digits fit into 64 bits."""
_LONGEST = _DIGITS + 2
"""With a sign and a point."""
_TENS = np.array([10**decimals for decimals in range(_DIGITS + 1)], dtype=np.int64)
_FAR = 2**62
"""Beyond all numbers of so many digits."""


@frozen(eq=False, repr=False)
class Decimals:
    """Numbers of which each is a whole number over a power of ten. Private: has no repr."""

    whole: Ints
    decimals: Ints
    plain: Bools
    """Which of them were read at all; of others, nothing else means anything."""


def read_decimals(buffer: Array, starts: Ints, lengths: Ints) -> Decimals:
    """The numbers that parts of a buffer spell, of which each is as `words_of` needs it."""
    short = np.where(lengths <= _LONGEST, lengths, 0)
    words = np.stack(words_of(buffer, starts, short), axis=1)
    # One row for the first character of all parts, and so on; a zero is behind the last one.
    characters = np.ascontiguousarray(words.view(np.uint8).T)
    negative = characters[0] == _MINUS
    plain = np.ones(len(starts), dtype=bool)
    whole = np.zeros(len(starts), dtype=np.int64)
    digits, points, decimals = (np.zeros(len(starts), dtype=np.uint8) for _ in range(3))
    for place, character in enumerate(characters[:_LONGEST]):
        digit = character - np.uint8(_ZERO)
        is_digit, is_point = digit < 10, character == _POINT
        fits = is_digit | is_point | (character == 0)
        plain &= fits if place else fits | negative
        decimals += is_digit & (points > 0)
        points += is_point
        digits += is_digit
        # Of more digits than fit nothing is said, so it does no harm that these are cut off.
        whole = np.where(is_digit, whole * 10 + digit, whole)
    plain &= (points <= 1) & (digits > 0) & (digits <= _DIGITS)
    exact = np.minimum(decimals, _DIGITS).astype(np.int64)
    return Decimals(np.where(negative, -whole, whole), exact, plain)


def cells_of(matcher: Matcher) -> Callable[[Decimals], Ints] | None:
    """What finds the cells of plain decimals, -1 outside; None if a matcher does not read these."""
    if isinstance(matcher, IntegerMatcher) and matcher.reads_points:
        return _Integers(matcher) if max(-matcher.low, matcher.high) < _FAR else None
    return _Bins(matcher) if isinstance(matcher, BinnedMatcher) and matcher.reads_points else None


class _Integers:
    def __init__(self, matcher: IntegerMatcher) -> None:
        self._matcher = matcher

    def __call__(self, given: Decimals) -> Ints:
        matcher, tens = self._matcher, _TENS[given.decimals]
        below = given.whole // tens
        above = below + (below * tens != given.whole)
        codes = np.where(below == above, below - matcher.low, -1)
        codes[below < matcher.low] = 0 if matcher.clips else -1
        codes[above > matcher.high] = matcher.size - 1 if matcher.clips else -1
        return codes


class _Bins:
    def __init__(self, matcher: BinnedMatcher) -> None:
        self._matcher = matcher
        self._edges = [Fraction(edge) for edge in matcher.exact]
        self._scaled: dict[int, tuple[Ints, int | None]] = {}

    def __call__(self, given: Decimals) -> Ints:
        codes = np.empty(len(given.whole), dtype=np.int64)
        for decimals in np.unique(given.decimals).tolist():
            chosen = given.decimals == decimals
            whole, (starts, end) = given.whole[chosen], self._starts(decimals)
            reached = np.searchsorted(starts, whole, side="right")
            codes[chosen] = self._matcher.cells(reached, None if end is None else whole == end)
        return codes

    def _starts(self, decimals: int) -> tuple[Ints, int | None]:
        """The first whole number from each edge on, and the last edge, if it is one of these."""
        if decimals not in self._scaled:
            scaled = [edge * 10**decimals for edge in self._edges]
            starts = [min(max(ceil(edge), -_FAR), _FAR) for edge in scaled]
            end = starts[-1] if starts[-1] == scaled[-1] else None
            self._scaled[decimals] = np.array(starts, dtype=np.int64), end
        return self._scaled[decimals]
