"""Standard exponential variables, read bit by bit: what a draw without a table is made of.

One is known by its word, the integer X with X <= 2^55 E < X + 1, which has the geometric law of
scale 2^55, whatever law is drawn from it in the end. Where 55 bits do not decide, more are drawn
from the law that they have given those before.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from dpsdk.noise.bits import Bits, bernoulli_exp
from dpsdk.noise.lattice import Lattice
from dpsdk.noise.table import LIMIT, Table
from dpsdk.noise.tabled import laplace_sampler
from dpsdk.typing import Ints

__all__ = ["PRECISION", "Exponentials"]

PRECISION = 55
"""Bits of E behind the point that a word has."""

_MORE = 64
_UP = 62
_BLOCK = 64
_GROWTH = 8
_MOST = 64
"""Blocks made ahead at the most, after one and then eight."""


@cache
def _of_words() -> Table | Lattice:
    return laplace_sampler(Fraction(1 << PRECISION), two_sided=False)


class Exponentials:
    """A stream of independent standard exponentials, made ahead; each is given out once.

    Needs no lock: words and blocks of them leave their list in the same step in which they are
    taken, whichever thread, interrupt or finaliser comes between. Tests have words of fewer bits.
    """

    __slots__ = ("_ahead", "_blocks", "_words", "bits", "precision")

    def __init__(self, bits: Bits, precision: int = PRECISION) -> None:
        self.bits: Bits = bits
        self.precision: int = precision
        self._words: list[int] = []
        self._blocks: list[Ints] = []
        self._ahead = 1

    def word(self) -> int:
        """The word of an exponential that nothing else has seen."""
        while True:
            try:
                word = self._words.pop()
            except IndexError:
                self._words.extend(self._block().tolist())
            else:
                return word if word < LIMIT else LIMIT + self.word()

    def words(self, count: int) -> Ints:
        """That many words, each set to 2^62 - 1 if it is at or beyond that."""
        if count > _MOST * _BLOCK:
            return _of_words().draw(self.bits, count)
        taken = np.concatenate([self._block() for _ in range(-(-count // _BLOCK))])
        self._words.extend(taken[count:].tolist())
        return taken[:count]

    def unbounded(self, word: int) -> int:
        """The word that one of `words` stands for: beyond the bound the law begins afresh."""
        return word if word < LIMIT else LIMIT + self.word()

    def floor(self, word: int, numerator: int, denominator: int) -> int:
        """The integer below E · numerator / denominator, for the E of an unbounded word."""
        precision = self.precision
        unit = denominator << precision
        # Quotients moved up to one length take one time, which so says nothing of them.
        whole, rest = divmod(word * numerator + (unit << _UP), unit)
        while rest + numerator > unit:
            word = self._longer(word, precision)
            precision += _MORE
            unit <<= _MORE
            whole, rest = divmod(word * numerator + (unit << _UP), unit)
        return whole - (1 << _UP)

    def reaches(self, word: int, numerator: int, denominator: int) -> bool:
        """True if E >= numerator / denominator, for the E of an unbounded word."""
        precision = self.precision
        while True:
            level = numerator << precision
            if word * denominator >= level:
                return True
            if (word + 1) * denominator <= level:
                return False
            word = self._longer(word, precision)
            precision += _MORE

    def _longer(self, word: int, precision: int) -> int:
        """The word, with 64 more bits of the same E behind it."""
        while True:
            more = int.from_bytes(self.bits(_MORE // 8), "little")
            # Given the bits before, those behind have a density that falls as exp does.
            if bernoulli_exp(self.bits, Fraction(more, 1 << (precision + _MORE))):
                return word << _MORE | more

    def _block(self) -> Ints:
        while True:
            try:
                return self._blocks.pop()
            except IndexError:
                ahead = self._ahead
                self._ahead = min(_GROWTH * ahead, _MOST)
                made = _of_words().draw(self.bits, ahead * _BLOCK)
                self._blocks.extend(list(made.reshape(ahead, _BLOCK)))
