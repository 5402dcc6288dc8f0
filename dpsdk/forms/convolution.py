"""Convolutions along one attribute, exact where all numbers are integers whose sums floats hold.

A Fourier transform in floats rounds off. So integers are cut into digits, so small that all that
may be rounded off in the product of two lines of digits is proven to stay below an eighth; products
are then rounded to the integers that they are (docs/explanation/proofs/convolution.md).
"""

from __future__ import annotations

import math

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import cmp_using, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms.factors import (
    FACTOR_BYTES,
    PAIR_LIMIT,
    Factor,
    Weights,
    rounded_half_up,
    to_weights,
)
from dpsdk.forms.facts import Facts
from dpsdk.forms.move import Move, of_functions, pair_bound
from dpsdk.typing import Floats, Ints

__all__ = ["Toeplitz", "causal", "correlated", "fits"]

EXACT = 2.0**53

_UNIT = 16 * 2.0**-53
"""More than one step of a Fourier transform by halves rounds off, relatively: 7 units are proven
for accurate roots of unity, and the rest is left to spare."""

_MOST_DIGIT = 16

_CHUNK = 2**22
"""About so many numbers are transformed at a time."""


_LOST = 2.0**-50
"""More than sums of numbers in floats lose for each of these, relatively."""


def fits(line: Floats, table: Floats) -> bool:
    """True if all are integers and no sum of their products leaves those that floats hold."""
    if not (line == np.rint(line)).all() or not (table == np.rint(table)).all():
        return False
    sums = np.abs(table).sum(axis=-1).max(initial=0.0)
    return bool(sums * max(1.0, float(np.abs(line).max())) < EXACT)


def causal(line: Floats, table: Floats) -> Floats:
    """For each i the sum of line[i - j] * table[..., j] over all j <= i, along the last axis.

    Exact if `fits`. Elsewhere off by a few units of the last place of the product of the roots of
    the sums of squares.
    """
    rows = table.reshape(-1, len(line))
    points = 2 ** math.ceil(math.log2(2 * len(line)))
    step = max(1, _CHUNK // points)
    product = _exact if fits(line, rows) else _rounded
    parts = [product(line, rows[i : i + step], points) for i in range(0, len(rows), step)]
    return np.concatenate(parts).reshape(table.shape)


def correlated(line: Floats) -> Floats:
    """For each shift the sum of line[k] * line[k + shift], exact as `causal` is."""
    return np.asarray(causal(np.ascontiguousarray(line[::-1]), line)[::-1])


def _rounded(line: Floats, rows: Floats, points: int) -> Floats:
    product = np.fft.rfft(line, points) * np.fft.rfft(rows, points)
    return np.asarray(np.fft.irfft(product, points)[:, : len(line)])


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


@frozen
class Toeplitz(Factor):
    """One function a cell: weighted sums of this cell and all before it, by their distance.

    The cell itself weighs the first number of the line, the one before it the second, and so on:
    the matrix (cells, cells) is lower triangular, and its first column is the line. It is not
    written out, and evaluated in time that grows with the number of cells times its logarithm.
    Sums of integers within 2**53 are exact: docs/explanation/proofs/convolution.md.
    """

    line: Floats = field(converter=to_weights, eq=cmp_using(eq=np.array_equal), hash=False)

    def __attrs_post_init__(self) -> None:
        if self.line.ndim != 1 or not len(self.line):
            raise InvalidArgument("line", "a list of at least one number", shown(self.line.shape))

    @property
    def size(self) -> int:  # type: ignore[override]  # read-only here, a field elsewhere
        return len(self.line)

    @property
    def rows(self) -> int:
        return len(self.line)

    @property
    def nbytes(self) -> int:
        return FACTOR_BYTES + int(self.line.nbytes)

    @property
    def integral(self) -> bool:
        return bool((self.line == np.rint(self.line)).all())

    def extents(self) -> tuple[Floats, Floats]:
        low, high = np.minimum.accumulate(self.line), np.maximum.accumulate(self.line)
        # All but the last function weigh some later cell by nothing.
        low[:-1], high[:-1] = np.minimum(low[:-1], 0.0), np.maximum(high[:-1], 0.0)
        return low, high

    def row(self, number: int) -> Weights:
        weights = np.zeros((1, self.size))
        weights[0, : number + 1] = self.line[number::-1]
        return Weights(weights)

    def apply(self, table: Floats, axis: int) -> Floats:
        moved = np.ascontiguousarray(np.moveaxis(table, axis, -1))
        return np.asarray(np.moveaxis(causal(self.line, moved), -1, axis))

    def adjoint(self, table: Floats, axis: int) -> Floats:
        return np.flip(self.apply(np.flip(table, axis), axis), axis)

    def columns(self, codes: Ints) -> Floats:
        places = np.arange(self.size)[:, None] - codes
        return np.asarray(np.where(places >= 0, self.line[np.maximum(places, 0)], 0.0))

    def column_norms(self, power: int) -> Floats:
        return self.row_norms(power)[::-1]

    def row_norms(self, power: int) -> Floats:
        sizes = np.abs(self.line) ** power if power else self.line != 0
        return np.asarray(np.cumsum(sizes, dtype=np.float64))

    def deviations(self) -> tuple[Floats, Floats, Floats, Floats]:
        mean, squares = np.cumsum(self.line) / self.size, self.row_norms(2)
        # What floats round off is added.
        own = np.maximum(squares - self.size * mean**2, 0.0) + _LOST * self.size * squares
        low, high = self.extents()
        peaks: Floats = np.maximum(high - mean, mean - low)
        return np.abs(mean), own, peaks, np.full(self.size, float(self.size))

    def classes(self) -> Ints | None:
        return None

    def times(self, scale: float) -> Toeplitz:
        return Toeplitz(self.line * scale)

    def rounded(self, bits: int) -> tuple[Toeplitz, float]:
        rounded, change = rounded_half_up(self.line, bits)
        return Toeplitz(rounded), change

    def move(self, scale: float, facts: Facts) -> Move | None:
        """Columns are one line, shifted; None for small ones of any signs, which are searched.

        Two of them are the farther apart the more of them there is, so the worst pair has the first
        column in it, and one more for each shift: proposition 12 of the note on sensitivity.
        """
        line = self.line
        falls = bool((line >= 0).all() and (line[1:] <= line[:-1]).all())
        whole = bool(self.integral and scale.is_integer())
        if len(line) < 2 or (not (falls and whole) and len(line) <= PAIR_LIMIT):
            return None
        low, high = np.sort([ends * scale for ends in self.extents()], axis=0)
        top = float(of_functions(low, high, facts).max())
        sums, squares = self.row_norms(1), self.row_norms(2)
        l1, l2 = float(sums[-1]), float(squares[-1])
        if not facts.replaced:
            return Move(l1 * abs(scale), l2 * scale**2, top, exact=True)
        near, exact = sums[-2::-1], True
        if falls:
            # What a shift leaves, and what it lowers; each column has less than the one before.
            moves = 2 * sums[:-1] + near - sums[-1]
            l1 = float(max(moves.max(), l1 if facts.outside else 0.0))
        else:
            l1, exact = l1 + float(near[0]), False
        if whole and fits(line, line):
            distances = squares[-1] + squares[-2::-1] - 2 * correlated(line)[1:]
            l2 = float(max(distances.max(), l2 if facts.outside else 0.0))
        else:
            signed = bool((line < 0).any())
            l2, exact = pair_bound(squares[-1:], squares[-2:-1], 2, signed=signed), False
        return Move(l1 * abs(scale), l2 * scale**2, top, exact=exact)
