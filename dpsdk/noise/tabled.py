"""Laws as tables, or on lattices where they are too wide: survival functions, and what draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dpsdk.noise.bits import Bracket, exp_bracket, round_up
from dpsdk.noise.lattice import Lattice
from dpsdk.noise.table import LEAST_SCALE, Sign, Table, shift_for
from dpsdk.typing import Floats, Ints

__all__ = [
    "gaussian_sampler",
    "gaussian_survival",
    "geometric_survival",
    "half_gaussian_survival",
    "laplace_sampler",
    "laplace_survival",
]


def geometric_survival(scale: Fraction, precision: int) -> Iterator[Bracket]:
    """Brackets of q^(k+1), q = exp(-1 / scale), for k = 0, 1, 2, ...

    This is P(K > k) for P(k) proportional to q^k.
    """
    ratio = exp_bracket(1 / scale, precision)
    return _powers(ratio, ratio, precision)


def laplace_survival(scale: Fraction, precision: int) -> Iterator[Bracket]:
    """Brackets of 2 q^(k+1) / (1 + q): P(|Z| > k) for the two-sided law."""
    one = 1 << precision
    ratio = low, high = exp_bracket(1 / scale, precision)
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
        if two_sided:
            return Table(lambda p: laplace_survival(scale, p), Sign.MIRROR)
        return Table(lambda p: geometric_survival(scale, p), Sign.NONE)
    coarse = scale / (1 << shift)
    inverse = float(1 / scale)

    def exponents(cell: Ints, offset: Ints) -> Floats:  # noqa: ARG001
        return offset.astype(np.float64) * inverse

    sign = Sign.FOLD if two_sided else Sign.NONE
    return Lattice(
        table=Table(lambda p: geometric_survival(coarse, p), sign),
        shift=shift,
        # The exponent is at most 1 / coarse in every cell.
        base=-(-256 // LEAST_SCALE),
        slope=62,
        exponents=exponents,
        exact=lambda cell, offset: offset / scale,  # noqa: ARG005
    )


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
        table=Table(lambda p: half_gaussian_survival(coarse, p), Sign.FOLD),
        shift=shift,
        base=1 if slope >= 0 else 256,
        slope=max(0, slope),
        exponents=exponents,
        exact=lambda cell, offset: offset * ((cell << shift + 1) + offset) / (2 * variance),
    )
