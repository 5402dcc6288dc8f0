"""Noise that repeats, for tests: the very samplers of production over a seeded stream."""

from __future__ import annotations

import hashlib
import math
import os
import weakref
from itertools import count

from typing_extensions import override

from dpsdk._checks import to_integer
from dpsdk.noise.laws import NoiseLaw
from dpsdk.noise.pool import Pools
from dpsdk.noise.sampler import known
from dpsdk.noise.source import NoiseSource, to_size
from dpsdk.typing import Ints

__all__ = ["SeededNoise", "seeded"]


class SeededNoise(NoiseSource):
    """Deterministic noise that hides nothing, since whoever knows the seed can subtract it.

    The stream is SHAKE-256 of the seed and of a counter of requests. Threads may share a source;
    which of them gets which draws then depends on their order.
    """

    __slots__ = ("_blocks", "_key", "_pools")

    def __init__(self, seed: int) -> None:
        self._key = b"dpsdk noise for tests\0%d\0" % to_integer("seed", seed)
        self._blocks = count()
        self._pools = Pools(self._bits, math.inf)
        _sources.add(self)

    @property
    @override
    def private(self) -> bool:
        """Always false."""
        return False

    @override
    def _bits(self, count: int) -> bytes:
        block = next(self._blocks)  # one step, also among threads
        return hashlib.shake_256(self._key + b"%d" % block).digest(count)

    @override
    def draw(self, law: NoiseLaw, size: int) -> Ints:
        """Independent draws of a law; see NoiseSource."""
        return self._pools.draw(known(law), to_size(size), 0.0)

    @staticmethod
    def _start_all_over() -> None:
        # A thread that the child does not have may hold the lock of a pool.
        for source in list(_sources):
            source._pools = Pools(source._bits, math.inf)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_start_all_over)


_sources: weakref.WeakSet[SeededNoise] = weakref.WeakSet()


def seeded(seed: int) -> SeededNoise:
    """A source of noise that gives the same draws in the same order for the same seed.

    Parameters
    ----------
    seed : int
        Any integer.

    Returns
    -------
    SeededNoise
        Not private: sessions mark every release made with it, and refuse it a durable ledger.

    Raises
    ------
    InvalidArgument
        If the seed is not an integer.
    """
    return SeededNoise(seed)
