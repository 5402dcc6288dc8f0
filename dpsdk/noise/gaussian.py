"""Exact draws of discrete Gaussian noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsdk.noise.interval import Bracket, exp_bracket, round_up
from dpsdk.noise.lattice import Lattice
from dpsdk.noise.table import Sign, Table, shift_for
from dpsdk.typing import Floats, Ints

__all__ = ["gaussian_survival", "half_gaussian_survival", "sampler"]


def gaussian_survival(variance: Fraction, precision: int) -> list[Bracket]:
    """Brackets of P(|Z| > k) for the law on all integers, for k = 0, 1, 2, ..."""
    tails = _weight_tails(variance, precision)
    one = 1 << precision
    low, high = tails[0]
    # All integers weigh 1 + 2 T(0), and |z| > k weighs 2 T(k), with T(k) the weight beyond k.
    return _shares(tails, precision, (one + 2 * low, one + 2 * high), 2)


def half_gaussian_survival(variance: Fraction, precision: int) -> list[Bracket]:
    """Brackets of P(K > k) for P(k) proportional to exp(-k² / (2 variance)) on 0, 1, 2, ..."""
    tails = _weight_tails(variance, precision)
    one = 1 << precision
    low, high = tails[0]
    return _shares(tails, precision, (one + low, one + high), 1)


def _shares(tails: list[Bracket], precision: int, total: Bracket, sides: int) -> list[Bracket]:
    least, most = total
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


def sampler(variance: Fraction) -> Table | Lattice:
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
        table=Table(lambda p: half_gaussian_survival(coarse, p), Sign.FOLD),
        shift=shift,
        base=1 if slope >= 0 else 256,
        slope=max(0, slope),
        exponents=exponents,
        exact=lambda cell, offset: offset * ((cell << shift + 1) + offset) / (2 * variance),
    )
