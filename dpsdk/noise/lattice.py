"""Laws too wide for a table: a coarse draw V from a table, m uniform bits U below it, and a coin.

The draw is 2^m V + U. For negative V the distance from the origin is counted from the other end of
the cell, so that V and U name every integer exactly once and no zero has to be rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpsdk._records import frozen
from dpsdk.noise.bits import HEAD_BITS, Bits, finish_coins
from dpsdk.noise.table import BLOCK, LIMIT, Table
from dpsdk.typing import Floats, Ints

__all__ = ["Lattice"]


@frozen(eq=False)
class Lattice:
    """A law of wide scale, ready to be drawn from.

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
