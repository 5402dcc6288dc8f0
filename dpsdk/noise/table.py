"""Exact draws by inverting a survival function that is only known in brackets.

A draw compares a uniform U, read bit by bit, with the survival function G(k) = P(K > k) of a law
on 0, 1, 2, ...: K is the number of k with U < G(k). Fifteen bits index a guide that answers most
draws; the others take 48 bits more and a binary search; and where even 63 bits fall on the unit
that holds some G(k), bits and sharper brackets are added until they part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpsdk._arrays import frozen_integers
from dpsdk._records import frozen
from dpsdk.noise.bits import HEAD_BITS, Bits, Bracket, exp_bracket, finish_coins, round_up, words
from dpsdk.typing import Floats, Ints

__all__ = [
    "BLOCK",
    "LEAST_SCALE",
    "LIMIT",
    "Lattice",
    "Sign",
    "Survival",
    "Table",
    "gaussian_sampler",
    "gaussian_survival",
    "laplace_sampler",
    "laplace_survival",
    "shift_for",
]

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


@frozen(eq=False)
class Lattice:
    """A law too wide for a table: a coarse V from a table, m uniform bits U below it, and a coin.

    The draw is 2^m V + U. For negative V the distance from the origin is counted from the other end
    of the cell, so that V and U name every integer exactly once and no zero has to be rejected.

    Cell M holds the integers at distances 2^m M + offset from the origin, on either side of it. The
    law makes such an integer less likely than the start of its cell by a factor exp(-exponent).
    """

    table: Table
    """Draws V, which is M or -M-1, by the weight of the starts of the cells."""

    shift: int
    """m, at most 53, so that floats hold every offset exactly."""

    base: int
    slope: int
    """The exponent anywhere in cell M is at most (base + floor(M / 2^slope)) / 256."""

    exponents: Callable[[Ints, Ints], Floats]
    """From cells and offsets to exponents, off by a relative 2^-50 at most."""

    exact: Callable[[int, int], Fraction]
    """The true exponent of one cell and offset."""

    def draw(self, bits: Bits, size: int) -> Ints:
        """`size` independent draws."""
        drawn = np.empty(size, dtype=np.int64)
        wanted = np.arange(size)
        while wanted.size:
            refused: list[Ints] = []
            for start in range(0, wanted.size, BLOCK):
                places = wanted[start : start + BLOCK]
                drawn[places], positions = self._propose(bits, places.size)
                refused.append(places[positions])
            wanted = np.concatenate(refused)
        return drawn

    def _propose(self, bits: Bits, size: int) -> tuple[Ints, Ints]:
        """Candidates, and the positions of those that the coin refused."""
        coarse = self.table.draw(bits, size)
        width, dtype = (32, "<u4") if self.shift + HEAD_BITS <= 32 else (64, "<u8")
        raw = np.frombuffer(bits(size * width // 8), dtype=dtype)
        head = (raw >> (width - HEAD_BITS)).astype(np.int64)
        fine = (raw & ((1 << self.shift) - 1)).astype(np.int64)

        cell = coarse ^ (coarse >> 63)
        # exp(-x) >= 1 - x, so that a first byte below 256 - 256 x settles the coin.
        doubtful = np.flatnonzero((cell >> self.slope) + head >= (1 << HEAD_BITS) - self.base)
        fine_there, cell_there = fine[doubtful], cell[doubtful]
        offset = np.where(coarse[doubtful] < 0, (1 << self.shift) - fine_there, fine_there)
        kept = finish_coins(
            bits,
            head[doubtful].astype(np.uint8),
            self.exponents(cell_there, offset),
            lambda i: self.exact(int(cell_there[i]), int(offset[i])),
        )
        return self._join(coarse, fine), doubtful[~kept]

    def _join(self, coarse: Ints, fine: Ints) -> Ints:
        joined = (coarse << self.shift) + fine
        room = LIMIT >> self.shift
        if coarse.max() > room or coarse.min() < -room:
            joined[coarse > room] = LIMIT
            joined[coarse < -room - 1] = -LIMIT
            np.maximum(joined, -LIMIT, out=joined)
        return joined


def laplace_survival(scale: Fraction, precision: int, sides: int = 2) -> Iterator[Bracket]:
    """Brackets of P(|Z| > k) for the two-sided law, for k = 0, 1, 2, ...: 2 q^(k+1) / (1 + q).

    On one side, of P(K > k) for P(k) proportional to q^k: q^(k+1). There q = exp(-1 / scale).
    """
    one = 1 << precision
    first = ratio = low, high = exp_bracket(1 / scale, precision)
    if sides == 2:
        # 2q / (1 + q) grows with q.
        first = (2 * low << precision) // (one + low), -(-(2 * high << precision) // (one + high))
    return _powers(first, ratio, precision)


def _powers(first: Bracket, ratio: Bracket, precision: int) -> Iterator[Bracket]:
    """`first`, times the ratio again and again, until rounding up keeps it from falling."""
    below, above = ratio
    low, high = first
    while True:
        yield low, high
        last = high
        low, high = low * below >> precision, round_up(high * above, precision)
        if high == last:
            return


def laplace_sampler(scale: Fraction, *, two_sided: bool) -> Table | Lattice:
    """The table or lattice of one scale."""
    shift = shift_for(int(scale))
    if shift == 0:
        sides = 1 + two_sided
        sign = Sign.MIRROR if two_sided else Sign.NONE
        return Table(lambda p: laplace_survival(scale, p, sides), sign)
    coarse = scale / (1 << shift)
    inverse = float(1 / scale)

    def exponents(cell: Ints, offset: Ints) -> Floats:  # noqa: ARG001
        return offset.astype(np.float64) * inverse

    sign = Sign.FOLD if two_sided else Sign.NONE
    return Lattice(
        table=Table(lambda p: laplace_survival(coarse, p, sides=1), sign),
        shift=shift,
        # The exponent is at most 1 / coarse in every cell.
        base=-(-256 // LEAST_SCALE),
        slope=62,
        exponents=exponents,
        exact=lambda cell, offset: offset / scale,  # noqa: ARG005
    )


def gaussian_survival(variance: Fraction, precision: int, sides: int = 2) -> list[Bracket]:
    """Brackets of P(|Z| > k) for the law on all integers, for k = 0, 1, 2, ...

    On one side, of P(K > k) for P(k) proportional to exp(-k² / (2 variance)) on 0, 1, 2, ...
    """
    tails = _weight_tails(variance, precision)
    # All integers weigh 1 + sides · T(0), and |z| > k weighs sides · T(k), the weight beyond k.
    least, most = ((1 << precision) + sides * end for end in tails[0])
    return [
        ((sides * low << precision) // most, -(-(sides * high << precision) // least))
        for low, high in tails
    ]


def _weight_tails(variance: Fraction, precision: int) -> list[Bracket]:
    """Brackets of T(k) = sum of exp(-z² / (2 variance)) over z > k, for k = 0, 1, 2, ..."""
    below, above = exp_bracket(1 / (2 * variance), precision)
    below_square, above_square = below * below >> precision, round_up(above * above, precision)
    # The weight of z + 1 is that of z times g^(2z+1), with g = exp(-1 / (2 variance)).
    low = high = 1 << precision
    step_low, step_high = below, above
    weights: list[Bracket] = []
    while True:
        last = high
        low, high = low * step_low >> precision, round_up(high * step_high, precision)
        step_low = step_low * below_square >> precision
        step_high = round_up(step_high * above_square, precision)
        weights.append((low, high))
        if high == last or high <= 1:
            break
    # The ratios fall, so that a geometric series bounds all that follows.
    tail_low, tail_high = 0, -(-high * step_high // ((1 << precision) - step_high))
    tails = [(tail_low, tail_high)]
    for low, high in reversed(weights):
        tail_low, tail_high = tail_low + low, tail_high + high
        tails.append((tail_low, tail_high))
    return tails[::-1]


def gaussian_sampler(variance: Fraction) -> Table | Lattice:
    """The table or lattice of one variance."""
    shift = shift_for(math.isqrt(int(variance)))
    if shift == 0:
        return Table(lambda p: gaussian_survival(variance, p), Sign.MIRROR)
    coarse = variance / (1 << 2 * shift)
    inverse = float(1 / (2 * variance))
    pitch = float(1 << shift + 1)

    def exponents(cell: Ints, offset: Ints) -> Floats:
        fine = offset.astype(np.float64)
        return fine * (cell * pitch + fine) * inverse

    # The exponent is at most (M + 1/2) / coarse in cell M.
    slope = (int(coarse) >> 8).bit_length() - 1
    return Lattice(
        table=Table(lambda p: gaussian_survival(coarse, p, sides=1), Sign.FOLD),
        shift=shift,
        base=1 if slope >= 0 else 256,
        slope=max(0, slope),
        exponents=exponents,
        exact=lambda cell, offset: offset * ((cell << shift + 1) + offset) / (2 * variance),
    )
