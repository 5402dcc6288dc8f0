"""Draws made ahead for those who ask for a few at a time."""

from __future__ import annotations

import numpy as np

from dpsdk._records import define, field
from dpsdk.noise.bits import Bits
from dpsdk.noise.exponential import Exponentials
from dpsdk.noise.laws import NoiseLaw
from dpsdk.noise.sampler import TABLED, sample
from dpsdk.typing import Ints

__all__ = ["Pools"]

_POOLED = 128
_UNPOOLED = 0
"""Stands for all larger requests, whose draws are only counted."""

_GROWTH = 8
_LARGEST = 4096
_LARGEST_UNTABLED = 1024
"""Few enough that a law has been drawn from thousands of times before it gets a table."""

_KEPT = 64
_NONE = np.empty(0, dtype=np.int64)


@define(eq=False)
class _Pool:
    """Draws of one law, to be given out in parts of one size, each part once."""

    drawn: Ints = field(repr=False)
    parts: list[int]
    """The places in `drawn` of the parts that were not given out yet."""
    born: float
    ahead: int
    """How many parts were made at once."""
    made: int
    """Draws of this law and in this size, those of earlier pools included."""


class Pools:
    """A pool for each law that is asked for again, below 128 draws at a time.

    Requests of up to 1, 2, 4, ..., 128 draws have one each. The first is drawn as it comes. Each
    time that a pool runs out it grows eightfold, up to 1,024 draws, or 4,096 once the law has a
    table; where 64 are kept and another begins, all others are dropped; older ones than `lifetime`
    seconds are dropped, too. Needs no lock: a part is given out by one operation on a list, which
    no other thread, interrupt or finaliser can divide, and a new pool replaces another in one
    assignment.
    """

    __slots__ = ("_bits", "_born", "_exponentials", "_lifetime", "_pools")

    def __init__(self, bits: Bits, lifetime: float) -> None:
        self._bits = bits
        self._lifetime = lifetime
        self._exponentials = Exponentials(bits)
        self._born = 0.0
        self._pools: dict[tuple[NoiseLaw, int], _Pool] = {}

    def draw(self, law: NoiseLaw, size: int, now: float) -> Ints:
        """`size` independent draws of a law, at the time `now`."""
        part = 1 << (size - 1).bit_length() if size < _POOLED else _UNPOOLED
        pool = self._pools.get((law, part))
        if pool is not None and now - pool.born <= self._lifetime:
            try:
                start = pool.parts.pop()
            except IndexError:
                pass
            else:
                # A view would keep the draws still to come within the caller's reach.
                return pool.drawn[start : start + size].copy()
        made, ahead = 0, 1
        if pool is not None:
            made = pool.made
            if part != _UNPOOLED and now - pool.born <= self._lifetime:
                room = _LARGEST if made >= TABLED else _LARGEST_UNTABLED
                ahead = min(_GROWTH * pool.ahead, room // part)
        count = size if ahead == 1 else ahead * part
        drawn = sample(self._source(now), law, count, before=made)
        parts = [place * part for place in range(1, ahead)]
        kept = _Pool(drawn if parts else _NONE, parts, now, ahead, made + count)
        if pool is None and len(self._pools) >= _KEPT:
            self._pools = {(law, part): kept}
        else:
            self._pools[law, part] = kept
        return drawn[:size].copy() if parts else drawn

    def _source(self, now: float) -> Exponentials:
        if now - self._born > self._lifetime:
            self._exponentials = Exponentials(self._bits)
            self._born = now
        return self._exponentials
