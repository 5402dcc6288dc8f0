"""Draws made ahead for those who want one at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict

from dpsdk.noise.bits import Bits
from dpsdk.noise.sampler import KnownLaw, sample
from dpsdk.typing import Ints

__all__ = ["Pools"]

_POOLED = 128
_FIRST = 64
_GROWTH = 8
_LARGEST = 4096
_LAWS = 64


class _Pool:
    """Draws of one law; those before `position` were handed out."""

    __slots__ = ("born", "drawn", "position")

    def __init__(self, drawn: Ints, born: float) -> None:
        self.drawn = drawn
        self.position = 0
        self.born = born


class Pools:
    """A pool a law for fewer than 128 draws at a time; larger requests are drawn at once.

    A pool starts with 64 draws and grows eightfold each time it runs out, up to 4,096. The 64 laws
    used last have one. Each draw goes out once, whichever threads ask.

    Parameters
    ----------
    bits : Bits
        Where the draws come from.
    lifetime : float
        In seconds of the clock that `draw` is told; older pools are dropped, not used up.
    """

    __slots__ = ("_bits", "_holder", "_lifetime", "_lock", "_pools")

    def __init__(self, bits: Bits, lifetime: float) -> None:
        self._bits = bits
        self._lifetime = lifetime
        self._lock = threading.Lock()
        self._holder = 0
        self._pools: OrderedDict[KnownLaw, _Pool] = OrderedDict()

    def draw(self, law: KnownLaw, size: int, now: float) -> Ints:
        """`size` independent draws of a law, at the time `now`."""
        if size >= _POOLED:
            return sample(self._bits, law, size)
        # A finaliser or signal handler of the thread that is at a pool must neither wait for itself
        # nor take what that is about to hand out.
        if self._holder == threading.get_ident():
            return sample(self._bits, law, size)
        with self._lock:
            try:
                self._holder = threading.get_ident()
                return self._pooled(law, size, now)
            finally:
                self._holder = 0

    def _pooled(self, law: KnownLaw, size: int, now: float) -> Ints:
        pool = self._pools.get(law)
        if pool is None or now - pool.born > self._lifetime:
            pool = self._fill(law, max(size, _FIRST), now)
        elif pool.position + size > len(pool.drawn):
            pool = self._fill(law, min(_GROWTH * len(pool.drawn), _LARGEST), now)
        else:
            self._pools.move_to_end(law)
        start = pool.position
        pool.position = start + size
        # A view would keep the draws still to come within the caller's reach.
        return pool.drawn[start : pool.position].copy()

    def _fill(self, law: KnownLaw, size: int, now: float) -> _Pool:
        pool = _Pool(sample(self._bits, law, size), now)
        self._pools[law] = pool
        self._pools.move_to_end(law)
        if len(self._pools) > _LAWS:
            self._pools.popitem(last=False)
        return pool
