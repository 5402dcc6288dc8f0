"""Ideal bits, and the exact uniforms made of them.

Every sampler is driven by one callable, from a number of bytes to that many random bytes. The
operating system's generator, a seeded stream and the scripted streams of tests all fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from dpsdk.typing import Ints

__all__ = ["Bits", "uniform_below", "words"]

Bits: TypeAlias = Callable[[int], bytes]
"""Takes a number of bytes and returns that many, uniform and independent of all others."""


def uniform_below(bits: Bits, n: int) -> int:
    """A uniform integer in 0 .. n-1: as many bits as n - 1 has, again until they are below n."""
    length = (n - 1).bit_length()
    if length == 0:
        return 0
    count = (length + 7) // 8
    surplus = 8 * count - length
    while True:
        value = int.from_bytes(bits(count), "little") >> surplus
        if value < n:
            return value


def words(bits: Bits, size: int) -> Ints:
    """`size` uniform words of 64 bits, as signed integers."""
    return np.frombuffer(bits(8 * size), dtype="<i8").astype(np.int64, copy=False)
