"""Tables of sums over attributes, each summed from the smallest one that has what it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dpsdk.typing import Floats

__all__ = ["Axes", "Chain", "parent_of", "summed"]

Axes: TypeAlias = tuple[int, ...]
"""The axes of a table, rising."""

_KEPT_SHARE = 4
_SHORT = 64
"""Sums of fewer numbers that lie side by side are quicker without numpy's own loop for each."""


def parent_of(axes: Axes, shape: tuple[int, ...], most: float = math.inf) -> Axes:
    """The axes of the table from which a smaller one is summed."""
    whole = tuple(range(len(shape)))
    missing = [axis for axis in whole if axis not in axes]
    if len(missing) < 2:  # one more is all of them
        return whole
    extra = min(missing, key=lambda axis: shape[axis])
    wider = tuple(sorted((*axes, extra)))
    size = math.prod(shape[axis] for axis in wider)
    return wider if size <= min(most, math.prod(shape) // _KEPT_SHARE) else whole


def summed(table: Floats, axes: Axes, kept: Axes) -> Floats:
    """A table on some axes, summed over those that are not kept."""
    left = list(axes)
    result = table
    for axis in reversed(axes):
        if axis in kept:
            continue
        place, shape = left.index(axis), result.shape
        before, after = math.prod(shape[:place]), math.prod(shape[place + 1 :])
        folded = result.reshape(before, shape[place], after)
        if after == 1 and shape[place] >= _SHORT:
            line: Floats = folded.sum(axis=1)
        else:
            line = np.einsum("ijk->ik", folded)
        result = line.reshape(shape[:place] + shape[place + 1 :])
        left.remove(axis)
    return result


class Chain:
    """How certain tables of a universe are summed up, and what is put on them handed back."""

    __slots__ = ("_parents", "_shape", "_whole")

    def __init__(self, shape: tuple[int, ...], wanted: Sequence[Axes]) -> None:
        self._shape = shape
        self._whole = tuple(range(len(shape)))
        parents: dict[Axes, Axes] = {}
        for axes in wanted:
            table = axes
            while table != self._whole and table not in parents:
                parents[table] = table = parent_of(table, shape)
        order = sorted(parents, key=len, reverse=True)
        self._parents = {axes: parents[axes] for axes in order}

    def tables(self, weights: Floats) -> dict[Axes, Floats]:
        """Every table, shaped like its axes; those in between as well."""
        tables = {self._whole: weights}
        for axes, parent in self._parents.items():
            tables[axes] = summed(tables[parent], parent, axes)
        return tables

    def spread(self, slopes: dict[Axes, Floats]) -> Floats:
        """For each cell of the universe the sum of what is on the cells of tables that it is in."""
        known = dict(slopes)
        for axes in reversed(self._parents):
            slope = known.pop(axes, None)
            if slope is None:
                continue
            parent = self._parents[axes]
            shape = [self._shape[axis] for axis in parent]
            spread = slope.reshape([self._shape[a] if a in axes else 1 for a in parent])
            there = known.get(parent)
            known[parent] = np.broadcast_to(spread, shape) if there is None else there + spread
        total = known.get(self._whole)
        return np.zeros(self._shape) if total is None else np.array(total)
