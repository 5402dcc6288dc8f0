"""Uniform multisets, sequences and orders, by exact integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dpsdk.noise import NoiseSource

__all__ = ["choose", "multiset", "sequence", "shuffled"]

T = TypeVar("T")


def choose(weights: Sequence[int], noise: NoiseSource) -> int:
    """A position, with a probability proportional to its weight; some weight is above zero."""
    left = noise.uniform_below(sum(weights))
    for position, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return position
    raise ArithmeticError("weights changed while one was chosen")


def multiset(cells: int, size: int, noise: NoiseSource) -> list[int]:
    """A uniform one among the multisets of so many of the numbers below `cells`, in order."""
    # A multiset is a set of as many numbers below cells + size - 1, the i-th moved by i; a set is
    # drawn by the algorithm F2 of Floyd (Bentley and Floyd 1987).
    taken: set[int] = set()
    for last in range(cells - 1, cells + size - 1):
        number = noise.uniform_below(last + 1)
        taken.add(last if number in taken else number)
    return [number - before for before, number in enumerate(sorted(taken))]


def sequence(cells: int, size: int, noise: NoiseSource) -> list[int]:
    """Independent uniform numbers below `cells`, as a multiset in order."""
    return sorted(noise.uniform_below(cells) for _ in range(size))


def shuffled(items: Sequence[T], noise: NoiseSource) -> list[T]:
    """The items in a uniform order (Fisher and Yates 1938, in Durstenfeld's form of 1964)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = noise.uniform_below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order
