"""From a law and a stream of bits to exact draws.

A few draws are made without a table; once a law has been drawn from thousands of times a table is
built for it. Which it is depends on numbers of draws and on nothing else, so that a seeded stream
gives the same draws whatever else the process did before. Tables are public and kept for reuse.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpsdk.noise import direct, gaussian, laplace
from dpsdk.noise.exponential import Exponentials
from dpsdk.noise.lattice import Lattice
from dpsdk.noise.laws import Kind, Plain
from dpsdk.noise.table import Table
from dpsdk.typing import Ints

__all__ = ["TABLED", "sample"]

TABLED = 4096
"""From so many draws of a law on, those before included, a table is worth its time."""

_SAMPLERS = 128


def sample(source: Exponentials, law: Plain, size: int, *, before: int = 0) -> Ints:
    """`size` independent exact draws, each set to ±(2^62 - 1) if it lies beyond."""
    if law[1] == 0:
        return np.zeros(size, dtype=np.int64)
    if before + size >= TABLED:
        return _sampler(*law).draw(source.bits, size)
    return direct.draw(source, law, size)


@lru_cache(maxsize=_SAMPLERS)
def _sampler(kind: Kind, numerator: int, denominator: int) -> Table | Lattice:
    parameter = Fraction(numerator, denominator)
    if kind == "gaussian":
        return gaussian.sampler(parameter)
    if kind == "laplace":
        return laplace.sampler(parameter, two_sided=True)
    if kind == "geometric":
        return laplace.sampler(parameter, two_sided=False)
    raise ValueError(kind)
