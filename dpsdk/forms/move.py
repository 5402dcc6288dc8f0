"""How far one row can move the answers of a form, while it is put together in floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpsdk._records import frozen
from dpsdk.forms.facts import Facts
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from dpsdk.forms.blocks import Block

__all__ = ["Move", "by_rows", "of_functions", "one_function", "pair_bound"]


@frozen(cache_hash=True)
class Move:
    """The sum of the absolute moves, of their squares, and the largest; see `Sensitivity`."""

    l1: float
    l2: float
    maximum: float
    exact: bool

    def least(self, other: Move) -> Move:
        """The better of two upper bounds, exact where an exact one is the better."""
        l1, l2 = min(self.l1, other.l1), min(self.l2, other.l2)
        exact = any(move.exact and move.l1 <= l1 and move.l2 <= l2 for move in (self, other))
        return Move(l1, l2, min(self.maximum, other.maximum), exact)


def of_functions(low: Floats, high: Floats, facts: Facts) -> Floats:
    """How far one row moves each function, from its smallest and largest weight."""
    if facts.outside:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    return np.asarray(high - low if facts.replaced else np.maximum(np.abs(low), np.abs(high)))


def one_function(low: float, high: float, facts: Facts) -> Move:
    """One function, from its smallest to its largest weight: proposition 2, exact."""
    if facts.outside:
        low, high = min(low, 0.0), max(high, 0.0)
    move = high - low if facts.replaced else max(abs(low), abs(high))
    return Move(move, move * move, move, exact=True)


def by_rows(blocks: Sequence[Block], facts: Facts) -> Move:
    """Every function at its own worst: an upper bound, and exact for the maximum."""
    moves = [of_functions(*block.extents(), facts) for block in blocks]
    l1, l2 = sum(float(own.sum()) for own in moves), sum(float((own**2).sum()) for own in moves)
    return Move(l1, l2, max(float(own.max()) for own in moves), exact=False)


def pair_bound(first: Floats, second: Floats, power: int, *, signed: bool) -> float:
    """Bound the difference of a column of norm `first` and one of norm `second`."""
    a, b = float(first.max()), float(second.max())
    if power == 2 and signed:
        return (math.sqrt(a) + math.sqrt(b)) ** 2 * (1 + 1e-12)
    return a + b
