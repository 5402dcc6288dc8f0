"""Cell numbers of many short byte strings at once: each that was met before is looked up.

Byte strings come as words of eight bytes, filled up with zeros. A table of slots holds the words of
one byte string each and its cell number. An answer is taken from a slot only where all words are
equal, so that what else was met, and in which order, has no influence on any cell number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from dpsdk.typing import Array, Bools, Ints

__all__ = ["LONGEST", "WORD", "Seen", "Words", "words_of"]

Words: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint64]]"

WORD = 8
"""Bytes of a word."""

_FEW, _MANY = 8, 16
"""Bits of the number of a slot, where few strings are asked for at once, and where many are."""
_EMPTY = -2
_ODD = (
    0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
    0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB,
)  # fmt: skip
_FACTORS = np.array(_ODD, dtype=np.uint64)
_KEPT = np.array([2 ** (8 * length) - 1 for length in range(WORD + 1)], dtype=np.uint64)
"""Which bits of a word belong to a byte string of so many bytes."""

LONGEST = WORD * len(_ODD)
"""The most bytes of a string that is looked up."""


def words_of(buffer: Array, starts: Ints, lengths: Ints) -> list[Words]:
    """The words of parts of a buffer, in order.

    `buffer` holds bytes and at least `LONGEST` more than any part that begins in it. No part is
    longer than that, and none holds a zero.
    """
    # Every byte of the buffer begins a word.
    shape = (len(buffer) - WORD + 1,)
    every: Words = np.ndarray(shape, "<u8", buffer.data, strides=(1,))
    found: list[Words] = []
    most = int(lengths.max(initial=0))
    for done in range(0, max(most, 1), WORD):
        word = every[starts + done]
        word &= _KEPT[np.clip(lengths - done, 0, WORD)]
        found.append(word)
    return found


class Seen:
    """Cell numbers of byte strings, worked out once for most of those that are met often."""

    def __init__(self) -> None:
        self._make_room(_FEW)

    def _make_room(self, bits: int) -> None:
        """Forget all, and have another number of slots."""
        self._bits = bits
        self._codes: Ints = np.full(2**bits, _EMPTY, dtype=np.int64)
        self._owners: Ints = np.zeros(2**bits, dtype=np.int64)
        self._words: list[Words] = []

    def numbers(self, words: Sequence[Words], number: Callable[[Ints], Ints]) -> Ints:
        """The cell number of each byte string; `number` tells those at some places."""
        if self._bits < _MANY and len(words[0]) > 2**_FEW:
            self._make_room(_MANY)
        while len(self._words) < len(words):
            # Those that were met until now had fewer words, and so nothing but zeros in this one.
            self._words.append(np.zeros(2**self._bits, dtype=np.uint64))
        slots = _slots(words, self._bits)
        codes, known = self._found(words, slots)
        new = np.flatnonzero(~known)
        if new.size:
            # Of those that share a slot, one is kept, and others that are like it are found there.
            self._owners[slots[new]] = new
            kept = np.zeros(len(slots), dtype=bool)
            kept[self._owners[slots[new]]] = True
            first = np.flatnonzero(kept)
            self._keep(words, slots, first, number(first))
            codes[new], known[new] = self._found([word[new] for word in words], slots[new])
            rest = np.flatnonzero(~known)
            codes[rest] = number(rest)
        return codes

    def _found(self, words: Sequence[Words], slots: Ints) -> tuple[Ints, Bools]:
        codes = self._codes[slots]
        known = codes != _EMPTY
        for place, held in enumerate(self._words):
            # A shorter string has zeros where it has no word.
            known &= held[slots] == (words[place] if place < len(words) else 0)
        return codes, known

    def _keep(self, words: Sequence[Words], slots: Ints, kept: Ints, codes: Ints) -> None:
        taken = slots[kept]
        for place, held in enumerate(self._words):
            held[taken] = words[place][kept] if place < len(words) else 0
        self._codes[taken] = codes


def _slots(words: Sequence[Words], bits: int) -> Ints:
    # A word of zeros adds nothing, so that it does not matter how many follow a string.
    mixed: Words = words[0] * _FACTORS[0]
    for place, word in enumerate(words[1:], 1):
        mixed ^= word * _FACTORS[place]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _FACTORS[0]
    slots: Ints = (mixed >> np.uint64(64 - bits)).astype(np.int64)
    return slots
