"""Exact coins of probability exp(-x): one by one, and vectorised.

One by one they are Algorithm 1 of Canonne, Kamath and Steinke (2020). Vectorised, the coin is
[W < exp(-x)] for a uniform W read forty bits deep and compared with a float bracket of exp(-x);
where the bracket cannot tell, more bits and sharper brackets are taken until it can.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpsdk._arrays import frozen_copy
from dpsdk.noise.bits import Bits, uniform_below
from dpsdk.noise.interval import exp_bracket
from dpsdk.typing import Bools, Floats, Ints

__all__ = ["HEAD_BITS", "bernoulli_exp", "bernoulli_exp_array", "below_exp", "finish_coins"]

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
