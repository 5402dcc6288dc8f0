"""Exact draws by inverting a survival function that is only known in brackets.

A draw compares a uniform U, read bit by bit, with the survival function G(k) = P(K > k) of a law
on 0, 1, 2, ...: K is the number of k with U < G(k). Fifteen bits index a guide that answers most
draws; the others take 48 bits more and a binary search; and where even 63 bits fall on the unit
that holds some G(k), bits and sharper brackets are added until they part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpsdk._arrays import frozen_integers
from dpsdk.noise.bits import Bits, Bracket, words
from dpsdk.typing import Ints

__all__ = ["BLOCK", "LEAST_SCALE", "LIMIT", "Sign", "Survival", "Table", "shift_for"]

LIMIT = (1 << 62) - 1
"""No draw exceeds this in absolute value; larger ones are set to it, which is post-processing."""

Survival: TypeAlias = Callable[[int], Iterable[Bracket]]
"""From a precision p to brackets of 2^p · P(K > k), for k = 0, 1, 2, ..., neither end increasing.

It may end once the upper end is below 2^64; what follows is at most that.
"""

BLOCK = 1 << 16
"""Draws made at a time, so that what passes between two steps stays in the processor's cache."""

_GUIDE_BITS = 15
_WORD_BITS = 63
_MORE = 64
_REST_BITS = _WORD_BITS - _GUIDE_BITS
_WORD_MASK = (1 << _WORD_BITS) - 1
_REST_MASK = (1 << _REST_BITS) - 1
_UNRESOLVED = np.iinfo(np.int64).min


LEAST_SCALE = 64
"""Laws too wide for a table go on a lattice, whose table has a scale from this to twice this."""


def shift_for(scale_floor: int) -> int:
    """The m that brings a scale, given rounded down, to a table: 0 where it is one already."""
    return max(0, scale_floor.bit_length() - LEAST_SCALE.bit_length())


class Sign(Enum):
    """The effect of the sixteenth bit on K."""

    NONE = "K either way"
    MIRROR = "K or -K"
    FOLD = "K or -K-1"

    def apply(self, k: Ints, negative: npt.NDArray[np.bool_]) -> Ints:
        """K with the sign where `negative` says so."""
        other = {Sign.NONE: k, Sign.MIRROR: -k, Sign.FOLD: ~k}[self]
        return np.where(negative, other, k)


class Table:
    """One law, ready to be drawn from: immutable, public, shared by threads and forks.

    Takes a millisecond or two to build: for laws of which thousands of draws are wanted.
    """

    __slots__ = ("_guide", "_high", "_low", "_sign", "_survival")

    def __init__(self, survival: Survival, sign: Sign) -> None:
        low: list[int] = []
        high: list[int] = []
        for below, above in survival(_WORD_BITS + _MORE):
            low.append(below >> _MORE)
            high.append(above >> _MORE)
            if high[-1] == 0:
                break
        else:
            raise ArithmeticError("the survival function ended above the unit of a word")
        self._survival = survival
        self._sign = sign
        self._low = frozen_integers(np.array(low[::-1], dtype=np.int64))
        self._high = frozen_integers(np.array(high[::-1], dtype=np.int64))
        self._guide = frozen_integers(self._build_guide())

    def _build_guide(self) -> Ints:
        """For each sign and fifteen bits of U the draw, where these alone decide it."""
        first = np.arange(1 << _GUIDE_BITS, dtype=np.int64) << _REST_BITS
        most = self._at_most(first)
        known = most == self._at_least(first + _REST_MASK)
        negative = np.array([[False], [True]])
        return np.where(known, self._sign.apply(most, negative), _UNRESOLVED).ravel()

    def _at_least(self, word: Ints) -> Ints:
        """How many k surely have U < G(k), when the first 63 bits of U are `word`."""
        return len(self._low) - np.searchsorted(self._low, word, side="right")

    def _at_most(self, word: Ints) -> Ints:
        """How many k possibly have U < G(k)."""
        return len(self._high) - np.searchsorted(self._high, word, side="left")

    def draw(self, bits: Bits, size: int) -> Ints:
        """`size` independent draws."""
        drawn = np.empty(size, dtype=np.int64)
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            drawn[start:stop] = self._guided(bits, stop - start)
        return drawn

    def _guided(self, bits: Bits, size: int) -> Ints:
        index = np.frombuffer(bits(2 * size), dtype="<u2")
        drawn: Ints = self._guide[index]
        pending = np.flatnonzero(drawn == _UNRESOLVED)
        if pending.size:
            cell = index[pending].astype(np.int64)
            word = (cell << _REST_BITS | words(bits, len(cell)) & _REST_MASK) & _WORD_MASK
            drawn[pending] = self._sign.apply(self._count(bits, word), cell >> _GUIDE_BITS != 0)
        return drawn

    def _count(self, bits: Bits, word: Ints) -> Ints:
        """K for a U whose first 63 bits are `word`."""
        k = self._at_least(word)
        for i in np.flatnonzero(k != self._at_most(word)):
            k[i] = min(LIMIT, self._resolve(bits, int(word[i]), _WORD_BITS))
        return k

    def _resolve(self, bits: Bits, word: int, length: int) -> int:
        """K for a U whose first `length` bits are `word`, from as many more as it takes."""
        while True:
            word = word << _MORE | int.from_bytes(bits(_MORE // 8), "little")
            length += _MORE
            for k, (low, high) in enumerate(self._survival(length + _MORE)):
                if word << _MORE >= high:
                    return k
                if (word + 1) << _MORE > low:
                    break
