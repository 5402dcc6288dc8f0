"""The weights of past periods in a night's sum, and how sums of periods follow from the nights.

Theorem 3 of docs/explanation/proofs/running-sums.md: with c the coefficients of (1 - x)**-memory,
rounded and cut, night t measures the sum of c[t - s] times period s; the power series 1 / c gives
each period back.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpsdk.typing import Floats, Ints

__all__ = ["UNIT", "inverse", "of_nights", "weights"]

UNIT = 2**12
"""The largest weight, that of a night's own period; all weights are whole numbers."""

_DIRECT = 2**31
"""Of more products, Fourier's transform is quicker."""


@lru_cache(64)
def _weights(nights: int, memory: float) -> tuple[int, ...]:
    ratios = (np.arange(1, nights) - 1 + memory) / np.arange(1, nights)
    exact = np.concatenate([[1.0], np.cumprod(ratios)])
    return tuple([int(one) for one in np.floor(exact * UNIT + 0.5)])


def weights(nights: int, memory: float) -> tuple[int, ...]:
    """The weights of a period in its own night and in those that follow, in units of 1 / `UNIT`."""
    return _weights(nights, memory)


@lru_cache(16)
def _inverse(line: tuple[int, ...], count: int) -> Floats:
    later = np.array(line[1:], dtype=np.float64) / line[0]
    found = np.zeros(count)
    found[0] = 1.0
    for number in range(1, count):
        reach = min(number, len(later))
        past = found[number - reach : number][::-1]
        found[number] = -float(later[:reach] @ past)
    found.flags.writeable = False
    return found


def inverse(line: tuple[int, ...], count: int) -> Floats:
    """The first coefficients of the power series 1 / c, where c[0] counts as one."""
    padded = 1 << max(count - 1, 0).bit_length()  # so that a series that grows is found seldom
    return _inverse(line, padded)[:count]


def of_nights(line: tuple[int, ...], wanted: Floats) -> Floats:
    """The weights of the nights' sums in sums of periods, whose own weights are given.

    One row a sum, one column a period; a sum in whole units of the night's own period.
    """
    sums, count = wanted.shape
    series, backwards = inverse(line, count), wanted[:, ::-1]
    # Night t has the weights of the later periods p, each times 1/c at p - t.
    if sums * count**2 > _DIRECT:
        size = 2 * count
        product = np.fft.rfft(backwards, size) * np.fft.rfft(series, size)
        found: Floats = np.fft.irfft(product, size)[:, :count]
    else:
        found = np.array([np.convolve(row, series)[:count] for row in backwards])
    return found[:, ::-1]


def numbers_along(offset: int, units: int, count: int) -> Ints:
    """The period of each of so many units, the first of which lies `offset` after the origin."""
    return (offset + np.arange(count, dtype=np.int64)) // units
