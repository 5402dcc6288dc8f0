"""Convolutions along one axis, exact where all numbers are integers whose sums floats hold.

A Fourier transform in floats rounds off. So integers are cut into digits, so small that all that
may be rounded off in the product of two lines of digits is proven to stay below an eighth; products
are then rounded to the integers that they are (docs/explanation/proofs/convolution.md).
"""

from __future__ import annotations

import math

import numpy as np

from dpsdk.typing import Floats, Ints

__all__ = ["causal", "correlated", "fits"]

EXACT = 2.0**53

_UNIT = 16 * 2.0**-53
"""More than one step of a Fourier transform by halves rounds off, relatively: 7 units are proven
for accurate roots of unity, and the rest is left to spare."""

_MOST_DIGIT = 16

_CHUNK = 2**22
"""About so many numbers are transformed at a time."""


def fits(line: Floats, table: Floats) -> bool:
    """Whether all are integers and no sum of their products leaves those that floats hold."""
    if not (line == np.rint(line)).all() or not (table == np.rint(table)).all():
        return False
    sums = np.abs(table).sum(axis=-1).max(initial=0.0)
    return bool(sums * max(1.0, float(np.abs(line).max())) < EXACT)


def causal(line: Floats, table: Floats) -> Floats:
    """For each i the sum of line[i - j] * table[..., j] over all j <= i, along the last axis.

    Exact if `fits`. Elsewhere off by a few units of the last place of the product of the roots of
    the sums of squares.

    Raises
    ------
    ArithmeticError
        If a product of integers was no integer, which is proven not to happen.
    """
    rows = table.reshape(-1, len(line))
    whole = fits(line, rows)
    points = 2 ** math.ceil(math.log2(2 * len(line)))
    step = max(1, _CHUNK // points)
    product = _exact if whole else _rounded
    parts = [product(line, rows[i : i + step], points) for i in range(0, len(rows), step)]
    return np.concatenate(parts).reshape(table.shape)


def correlated(line: Floats) -> Floats:
    """For each shift the sum of line[k] * line[k + shift], exact as `causal` is."""
    result: Floats = causal(np.ascontiguousarray(line[::-1]), line)[::-1]
    return result


def _rounded(line: Floats, rows: Floats, points: int) -> Floats:
    product = np.fft.rfft(line, points) * np.fft.rfft(rows, points)
    result: Floats = np.fft.irfft(product, points)[:, : len(line)]
    return result


def _exact(line: Floats, rows: Floats, points: int) -> Floats:
    largest = max(1.0, float(np.abs(line).max()))
    # How many digits there are depends on the line alone, so that time does not tell of a table.
    room, bits = math.log2(EXACT / largest), _digit_bits(points, largest)
    ours = _digits(line.astype(np.int64), bits, _many(math.log2(largest), bits))
    theirs = _digits(rows.astype(np.int64), bits, _many(room, bits))
    ours_there = [np.fft.rfft(digit, points) for digit in ours]
    theirs_there = [np.fft.rfft(digit, points) for digit in theirs]
    total = np.zeros(rows.shape, dtype=np.int64)
    for place in range(len(ours) + len(theirs) - 1):
        product = np.zeros((len(rows), points // 2 + 1), dtype=np.complex128)
        for number, one in enumerate(ours_there):
            if 0 <= place - number < len(theirs):
                product += one * theirs_there[place - number]
        found = np.fft.irfft(product, points)[:, : len(line)]
        near = np.rint(found)
        if not (np.abs(found - near) < 0.25).all():
            message = "a product of integers was no integer"
            raise ArithmeticError(message)
        # Sums wrap around at 2**64 on the way, and end within 2**53.
        total += near.astype(np.int64) << (place * bits)
    return total.astype(np.float64)


def _many(log: float, bits: int) -> int:
    """How many digits hold integers of so many bits, and their sign."""
    return max(1, math.ceil((log + 2) / bits))


def _digit_bits(points: int, largest: float) -> int:
    """How many bits digits have, so that less than an eighth is rounded off."""
    for bits in range(_MOST_DIGIT, 1, -1):
        pairs = _many(math.log2(largest), bits)
        steps = 3 * math.log2(points) + 4
        if _UNIT * steps * pairs * (points / 2) * 4.0 ** (bits - 1) < 1 / 8:
            return bits
    message = "no digit is small enough for so many cells"
    raise ArithmeticError(message)


def _digits(values: Ints, bits: int, many: int) -> list[Floats]:
    """Digits from -2**(bits - 1) up to below 2**(bits - 1), the lowest first."""
    half = 1 << (bits - 1)
    found: list[Floats] = []
    for _ in range(many):
        digit = ((values + half) & (2 * half - 1)) - half
        found.append(digit.astype(np.float64))
        values = (values - digit) >> bits
    return found
