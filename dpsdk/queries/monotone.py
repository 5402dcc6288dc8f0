"""Shares that do not fall from one threshold to the next: which they are, and how they are made so.

Isotonic regression by pooling adjacent violators (Ayer, Brunk, Ewing, Reid and Silverman 1955).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsdk.domain import Domain
from dpsdk.queries.conjunction import Conjunction
from dpsdk.queries.order import up_to
from dpsdk.queries.threshold import Threshold
from dpsdk.typing import Floats, Ints

__all__ = ["ranked", "risen"]


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
        key = query.attribute, query.where
        found[0, place] = chains.setdefault(key, len(chains))
        found[1, place] = up_to(domain[query.attribute], query.threshold, str(query))
    return found[0], found[1]


def risen(numbers: Floats, chains: Ints, ranks: Ints) -> Floats:
    """The nearest numbers, by the sum of squares, that do not fall along any chain.

    Those of one rank of a chain become equal. What is NaN stays so, and plays no part.
    """
    result = numbers.copy()
    order = np.lexsort((ranks, chains))
    order = order[~np.isnan(numbers[order])]
    if not len(order):
        return result
    ends = np.flatnonzero(np.diff(chains[order])) + 1
    for chain in np.split(order, ends):
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


def _pooled(means: list[float], counts: list[int]) -> Floats:
    pools: list[tuple[float, int]] = []
    for mean, count in zip(means, counts, strict=True):
        level, weight = mean, count
        while pools and pools[-1][0] > level:
            before, many = pools.pop()
            # Between the two, whatever is rounded.
            joined = level + (before - level) * (many / (many + weight))
            level, weight = joined, many + weight
        pools.append((level, weight))
    return np.repeat([level for level, _ in pools], [weight for _, weight in pools])
