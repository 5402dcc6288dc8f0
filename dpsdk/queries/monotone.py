"""Numbers that do not fall: isotonic regression by pooling adjacent violators.

Ayer, Brunk, Ewing, Reid and Silverman (1955).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.queries.conjunction import Conjunction
from dpsdk.queries.order import up_to
from dpsdk.queries.threshold import Threshold
from dpsdk.typing import Array, Floats, Ints

__all__ = ["isotonic", "ranked", "risen"]

_HUGE = 2.0**900
"""Sums of smaller numbers are finite."""


def isotonic(values: Array | Sequence[float]) -> Floats:
    """The nearest numbers, by the sum of squares, that do not fall (Ayer and others 1955).

    Free, for noisy thresholds in their order. No number is farther from a truth that does not fall
    than the farthest of `values` is, so `release.error` of all thresholds holds for the result.

    Parameters
    ----------
    values
        Finite numbers, shape (m,) as the result has.

    >>> from dpsdk.queries import isotonic
    >>> isotonic([0.1, 0.3, 0.2, 0.9]).tolist()
    [0.1, 0.25, 0.25, 0.9]
    """
    try:
        # NumPy would drop the imaginary parts of an array, with no more than a warning.
        array = None if np.iscomplexobj(values) else np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None or array.ndim != 1 or not np.isfinite(array).all():
        raise InvalidArgument("values", "a row of finite numbers", shown(values))
    # Sums of numbers near the largest float would be infinite.
    unit = 2.0**64 if np.abs(array).max(initial=0.0) > _HUGE else 1.0
    return _pooled((array / unit).tolist(), [1] * len(array)) * unit


def _pooled(means: list[float], counts: list[int]) -> Floats:
    pools: list[tuple[float, int]] = []
    for mean, count in zip(means, counts, strict=True):
        level, weight = mean, count
        while pools and pools[-1][0] > level:
            before, many = pools.pop()
            # Between the two, whatever is rounded.
            level += (before - level) * (many / (many + weight))
            weight += many
        pools.append((level, weight))
    levels = np.array([level for level, _ in pools], dtype=np.float64)
    return np.repeat(levels, [weight for _, weight in pools])


def ranked(queries: Sequence[object], domain: Domain) -> tuple[Ints, Ints] | None:
    """The chain that each threshold is in, and how many cells lie at or below it.

    Thresholds of one attribute under one condition are a chain: the counts of rows do not fall.
    None where there are other queries among them.
    """
    chains: dict[object, int] = {}
    found = np.empty((2, len(queries)), dtype=np.int64)
    for place, query in enumerate(queries):
        # A subclass may ask anything, or say of itself that it equals another.
        if type(query) is not Threshold or type(query.where) not in (Conjunction, type(None)):
            return None
        if query.known:  # of which each has a denominator of its own
            return None
        key = query.attribute, query.where
        found[0, place] = chains.setdefault(key, len(chains))
        found[1, place] = up_to(domain[query.attribute], query.threshold, query)
    return found[0], found[1]


def risen(numbers: Floats, chains: Ints, ranks: Ints) -> Floats:
    """The nearest numbers, by the sum of squares, that do not fall along any chain.

    Those of one rank of a chain become equal. What is NaN stays so, and plays no part.
    """
    result = numbers.copy()
    order = np.lexsort((ranks, chains))
    order = order[~np.isnan(numbers[order])]
    for chain in np.split(order, np.flatnonzero(np.diff(chains[order])) + 1):
        if not len(chain):
            continue
        starts = np.flatnonzero(np.diff(ranks[chain], prepend=ranks[chain[0]] - 1))
        counts = np.diff(starts, append=len(chain))
        own = numbers[chain]
        # Between the least and the largest, whatever is rounded: so equal numbers stay as they are.
        means = np.clip(
            np.add.reduceat(own, starts) / counts,
            np.minimum.reduceat(own, starts),
            np.maximum.reduceat(own, starts),
        )
        result[chain] = _pooled(means.tolist(), counts.tolist())
    return result
