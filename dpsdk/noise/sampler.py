"""From a law and a stream of bits to exact draws.

A few draws are made without a table; once a law has been drawn from thousands of times a table is
built for it. Which it is depends on numbers of draws and on nothing else, so that a seeded stream
gives the same draws whatever else the process did before. Tables are public and kept for reuse.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpsdk.noise import direct, gaussian, laplace
from dpsdk.noise.exponential import Exponentials
from dpsdk.noise.lattice import Lattice
from dpsdk.noise.laws import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpsdk.noise.table import Table
from dpsdk.typing import Ints

__all__ = ["TABLED", "sample"]

TABLED = 4096
"""From so many draws of a law on, those before included, a table is worth its time."""

_SAMPLERS = 128


def sample(source: Exponentials, law: NoiseLaw, size: int, *, before: int = 0) -> Ints:
    """`size` independent exact draws, each set to ±(2^62 - 1) if it lies beyond."""
    if not law.parameter:
        return np.zeros(size, dtype=np.int64)
    if before + size >= TABLED:
        return _sampler(law).draw(source.bits, size)
    return direct.draw(source, law, size)


@lru_cache(maxsize=_SAMPLERS)
def _sampler(law: NoiseLaw) -> Table | Lattice:
    if isinstance(law, DiscreteGaussian):
        return gaussian.sampler(law.variance)
    return laplace.sampler(law.parameter, two_sided=isinstance(law, DiscreteLaplace))
