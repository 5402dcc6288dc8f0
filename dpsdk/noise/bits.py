"""Ideal bits, proven brackets of exp(-x), and the exact uniforms and coins made of them.

Every sampler is driven by one callable, from a number of bytes to that many random bytes. The
operating system's generator, a seeded stream and the scripted streams of tests all fit.

Coins of probability exp(-x) are, one by one, Algorithm 1 of Canonne, Kamath and Steinke (2020).
Vectorised, the coin is [W < exp(-x)] for a uniform W read forty bits deep and compared with a float
bracket of exp(-x); where the bracket cannot tell, more bits and sharper brackets are taken until it
can.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpsdk._arrays import frozen_copy
from dpsdk.typing import Bools, Floats, Ints

__all__ = [
    "HEAD_BITS",
    "Bits",
    "Bracket",
    "bernoulli_exp",
    "bernoulli_exp_array",
    "below_exp",
    "exp_bracket",
    "finish_coins",
    "round_up",
    "uniform_below",
    "words",
]

Bits: TypeAlias = Callable[[int], bytes]
"""Takes a number of bytes and returns that many, uniform and independent of all others."""


def uniform_below(bits: Bits, n: int) -> int:
    """A uniform integer in 0 .. n-1: as many bits as n - 1 has, again until they are below n."""
    length = (n - 1).bit_length()
    if length == 0:
        return 0
    count = (length + 7) // 8
    surplus = 8 * count - length
    while True:
        value = int.from_bytes(bits(count), "little") >> surplus
        if value < n:
            return value


def words(bits: Bits, size: int) -> Ints:
    """`size` uniform words of 64 bits, as signed integers."""
    return np.frombuffer(bits(8 * size), dtype="<i8").astype(np.int64, copy=False)


Bracket: TypeAlias = tuple[int, int]
"""Integers (low, high) around a real number, in units of 2^-precision."""


def round_up(numerator: int, shift: int) -> int:
    """The least integer not below numerator / 2^shift."""
    return -(-numerator >> shift)


def exp_bracket(x: Fraction, precision: int) -> Bracket:
    """Integers with low <= 2^precision · exp(-x) <= high, a few units apart at most, for x >= 0.

    The alternating Taylor series on x / 2^h <= 1/2, then h squarings rounded outwards.
    """
    if x == 0:
        return 1 << precision, 1 << precision
    if x >= precision:
        return 0, 1
    halvings = max(0, (x.numerator // x.denominator + 1).bit_length() + 1)
    guard = halvings + 16 + precision.bit_length()
    working = precision + guard
    step = (x.numerator << working) // (x.denominator << halvings)
    low, high = _series(step, working)
    for _ in range(halvings):
        low, high = low * low >> working, round_up(high * high, working)
    return low >> guard, min(1 << precision, round_up(high, guard))


def _series(step: int, precision: int) -> Bracket:
    """A bracket of exp(-y) for each y between `step` and `step` + 1 units, and at most a half."""
    # Each term is below its true value by less than two units, since the step is at most a half.
    term = total = 1 << precision
    order = 0
    while term:
        order += 1
        term = term * step // (order << precision)
        total += -term if order % 2 else term
    # Two units a term, two for the terms never summed, one for rounding the step.
    slack = 2 * order + 4
    return max(0, total - slack), total + slack


HEAD_BITS = 8
"""Bits of W that a caller of `finish_coins` has drawn already."""

_MORE = 64
_ONE = Fraction(1)
_COIN_BITS = HEAD_BITS + 32
_UNIT = 2.0**-_COIN_BITS
# The float below errs by a relative 2^-42 at most; docs/explanation/proofs/noise.md adds it up.
_LOWER, _UPPER = 1.0 - 2.0**-40, 1.0 + 2.0**-40
_WHOLE = 64


def bernoulli_exp(bits: Bits, x: Fraction) -> bool:
    """True with probability exp(-x), for x >= 0. Its running time depends on the outcome."""
    whole = x.numerator // x.denominator
    for _ in range(whole):
        if not _bernoulli_exp_unit(bits, _ONE):
            return False
    return _bernoulli_exp_unit(bits, x - whole)


def _bernoulli_exp_unit(bits: Bits, x: Fraction) -> bool:
    """The alternating series for 0 <= x <= 1 (von Neumann's trick)."""
    numerator, denominator = x.numerator, x.denominator
    k = 1
    while uniform_below(bits, denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def below_exp(bits: Bits, x: Fraction, word: int, length: int) -> bool:
    """True if W < exp(-x), for a uniform W whose first `length` bits are those of `word`."""
    while True:
        low, high = exp_bracket(x, length + _MORE)
        if (word + 1) << _MORE <= low:
            return True
        if word << _MORE >= high:
            return False
        word = word << _MORE | int.from_bytes(bits(_MORE // 8), "little")
        length += _MORE


def _rounded_exp(x: Fraction) -> float:
    low, _ = exp_bracket(x, 192)
    return float(Fraction(low, 1 << 192))


_EXP_WHOLE = frozen_copy(np.array([_rounded_exp(Fraction(i)) for i in range(_WHOLE)]))
_EXP_PART = frozen_copy(np.array([_rounded_exp(Fraction(i, 64)) for i in range(64)]))


def _exp(x: Floats) -> Floats:
    """exp(-x) for 0 <= x < 64 from sums and products only, so that IEEE 754 bounds its error."""
    whole = np.floor(x)
    fraction = x - whole
    part = np.floor(fraction * 64.0)
    rest = fraction - part / 64.0
    series = 1.0 - rest * (
        1.0 - rest / 2.0 * (1.0 - rest / 3.0 * (1.0 - rest / 4.0 * (1.0 - rest / 5.0)))
    )
    value: Floats = _EXP_WHOLE[whole.astype(np.intp)] * _EXP_PART[part.astype(np.intp)] * series
    return value


def finish_coins(
    bits: Bits, heads: npt.NDArray[np.uint8], x: Floats, exact: Callable[[int], Fraction]
) -> Bools:
    """True if W < exp(-x), entry by entry, for uniforms W whose first eight bits are `heads`.

    `x` may be off by a relative 2^-50; `exact(i)` is the true exponent of entry i, asked for only
    where the floats cannot tell (less than once in 10^11 entries).
    """
    rest = np.frombuffer(bits(4 * len(heads)), dtype="<u4")
    word = heads.astype(np.int64) << 32 | rest.astype(np.int64)
    start = word * _UNIT
    small = x < _WHOLE
    value = _exp(np.where(small, x, _WHOLE - 1.0))
    heads_up: Bools = np.logical_and(start + _UNIT <= value * _LOWER, small)
    # Where x >= 64, the bracket is 0 .. exp(-63): W is at or above it unless its word is 0.
    tails_up = start >= value * _UPPER
    for i in np.flatnonzero(~(heads_up | tails_up)):
        heads_up[i] = below_exp(bits, exact(int(i)), int(word[i]), _COIN_BITS)
    return heads_up


def bernoulli_exp_array(bits: Bits, numerators: Ints, denominator: int) -> Bools:
    """Independent coins, the i-th of probability exp(-numerators[i] / denominator)."""
    heads = np.frombuffer(bits(len(numerators)), dtype=np.uint8)
    x = numerators.astype(np.float64) / float(denominator)
    return finish_coins(bits, heads, x, lambda i: Fraction(int(numerators[i]), denominator))
