"""Noise that repeats, for tests: the very samplers of production over a seeded stream."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
from typing_extensions import override

from dpsdk._checks import to_integer
from dpsdk.noise.laws import NoiseLaw, check_law
from dpsdk.noise.source import NoiseSource, Pools, to_size
from dpsdk.typing import Ints

__all__ = ["SeededNoise", "seeded"]


class SeededNoise(NoiseSource):
    """Deterministic noise that hides nothing, since anyone with the seed can subtract it.

    The stream is SHAKE-256 of the seed and of a counter of requests. Threads may share a source;
    which of them gets which draws then depends on their order.
    """

    __slots__ = ("_counter", "_generators", "_key", "_pools", "_public_key")

    def __init__(self, seed: int) -> None:
        number = to_integer("seed", seed)
        self._key = b"dpsdk noise for tests\0%d\0" % number
        self._public_key = b"dpsdk public randomness for tests\0%d\0" % number
        self._counter = itertools.count()
        self._generators = itertools.count()
        self._pools = Pools(self._bits, math.inf)

    @property
    @override
    def private(self) -> bool:
        """Always false."""
        return False

    @override
    def _bits(self, count: int) -> bytes:
        # One step, which neither a thread nor a finaliser can divide.
        block = next(self._counter)
        return hashlib.shake_256(self._key + b"%d" % block).digest(count)

    @override
    def draw(self, law: NoiseLaw, size: int) -> Ints:
        """Independent draws of a law; see NoiseSource."""
        check_law(law)
        return self._pools.draw(law, to_size(size), 0.0)

    @override
    def public_generator(self) -> np.random.Generator:
        """The next generator of this seed; see NoiseSource.

        The same for the same version of numpy, whatever noise was drawn before.
        """
        number = next(self._generators)
        digest = hashlib.shake_256(self._public_key + b"%d" % number).digest(32)
        return np.random.default_rng(int.from_bytes(digest, "little"))


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
