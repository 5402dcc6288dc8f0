"""From a law and a stream of bits to exact draws.

How fine the tables are depends on the number of draws and on nothing else, so that a seeded stream
gives the same draws whatever else the process did before. Tables are public and kept for reuse.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument
from dpsdk.noise import gaussian, laplace
from dpsdk.noise.bits import Bits
from dpsdk.noise.lattice import Lattice
from dpsdk.noise.laws import DiscreteGaussian, DiscreteLaplace, Geometric, NoiseLaw
from dpsdk.noise.table import Fineness, Table
from dpsdk.typing import Ints

__all__ = ["FEW", "KnownLaw", "known", "sample"]

FEW = 1024
"""Fewer draws than this are made with coarse tables, which a new law costs a tenth of fine ones."""

_SAMPLERS = 128

KnownLaw: TypeAlias = DiscreteLaplace | DiscreteGaussian | Geometric


def known(law: NoiseLaw) -> KnownLaw:
    """The law, where it is one that there is an exact sampler for."""
    if isinstance(law, DiscreteLaplace | DiscreteGaussian | Geometric):
        return law
    raise InvalidArgument("law", "a DiscreteLaplace, DiscreteGaussian or Geometric law", shown(law))


def sample(bits: Bits, law: KnownLaw, size: int) -> Ints:
    """`size` independent exact draws, each set to ±(2^62 - 1) if it lies beyond."""
    if (law.variance if isinstance(law, DiscreteGaussian) else law.scale) == 0:
        return np.zeros(size, dtype=np.int64)
    return _sampler(law, Fineness.COARSE if size < FEW else Fineness.FINE).draw(bits, size)


@lru_cache(maxsize=_SAMPLERS)
def _sampler(law: KnownLaw, fineness: Fineness) -> Table | Lattice:
    if isinstance(law, DiscreteGaussian):
        return gaussian.sampler(law.variance, fineness)
    return laplace.sampler(law.scale, fineness, two_sided=isinstance(law, DiscreteLaplace))
