"""Exact draws of discrete Laplace and geometric noise."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dpsdk.noise.interval import Bracket, exp_bracket, round_up
from dpsdk.noise.lattice import Lattice
from dpsdk.noise.table import LEAST_SCALE, Sign, Table, shift_for
from dpsdk.typing import Floats, Ints

__all__ = ["geometric_survival", "laplace_survival", "sampler"]


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


def sampler(scale: Fraction, *, two_sided: bool) -> Table | Lattice:
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
