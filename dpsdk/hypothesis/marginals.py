"""Answers of many functions by few passes: chained marginal tables, slices, matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dpsdk._identity_map import IdentityMap
from dpsdk.forms import Block, Boxes, Dense, Kronecker, LinearForm
from dpsdk.forms.boxes import Products
from dpsdk.hypothesis.cells import Cells
from dpsdk.hypothesis.layout import function_of
from dpsdk.typing import Floats, Ints

__all__ = ["Axes", "Chain", "Marginals", "parent_of", "summed"]


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


_DOT = 2**13
"""Longer dot products are shared out to threads, which on busy machines wait for each other."""

_BOX_COST = 2**12
"""The cost of summing one box by itself, in cells."""

_KEPT_CELLS = 2**22
_STACKED_WEIGHTS = 2**22

Parts: TypeAlias = tuple[tuple[Block, "slice | Ints", bool], ...]
"""Blocks, the places of their answers, and whether they are answered from a marginal table."""

_known: IdentityMap[Parts] = IdentityMap(most=2**10, most_bytes=2**28)


class Marginals:
    """Sums of the weights of cells over attributes, kept until the weights change."""

    __slots__ = ("_axes", "_kept", "_shape", "_tables")

    def __init__(self, names: tuple[str, ...], shape: tuple[int, ...]) -> None:
        self._axes = {name: axis for axis, name in enumerate(names)}
        self._shape = shape
        self._kept = _kept(math.prod(shape))
        self._tables: dict[tuple[int, ...], Floats] = {}

    def forget(self) -> None:
        """The weights have changed."""
        self._tables.clear()

    def table(self, names: tuple[str, ...], cells: Cells) -> Floats:
        """Sums of weights on the cells of the named attributes; only to be read."""
        axes = [self._axes[name] for name in names]
        order = sorted(axes)
        table = self._table(tuple(order), cells)
        return table.transpose([order.index(axis) for axis in axes])

    def evaluate(self, form: LinearForm, cells: Cells) -> Floats:
        """Every function of a form, summed over weighted cells."""
        if len(form.blocks) == 1:
            block: Block = form.blocks[0]
            if isinstance(block, Kronecker) and block.rows == 1 and not self._tables:
                function = function_of(form)
                if function.chosen is None and function.weights is None:
                    return np.array([function.height * cells.mass(function.boxes)])
            return np.array(self._answer(block, cells))
        parts = _known.get(form)
        if parts is None:
            parts = _parts_of(form, self._shape)
            _known.keep(form, parts, sum([256 + block.nbytes for block, _, _ in parts]))
        answers = np.empty(form.rows)
        for block, places, tabled in parts:
            if tabled:
                answers[places] = block.answer(self.table(block.names, cells))
            else:
                answers[places] = self._answer(block, cells)
        return answers

    def _answer(self, block: Block, cells: Cells) -> Floats:
        axes = tuple(self._axes[name] for name in block.names)
        if isinstance(block, Kronecker) and any(f.span is not None for f in block.factors):
            return self._cut(block, axes, cells)
        if isinstance(block, Dense) and axes == tuple(range(len(self._shape))):
            return _dense(block, cells)
        if isinstance(block, Boxes):
            return self._boxes(block, cells)
        return block.answer(self.table(block.names, cells))

    def _boxes(self, block: Boxes, cells: Cells) -> Floats:
        """Boxes from running sums over their table, or each by its own cells where that is less."""
        size, own = math.prod(self._shape), math.prod(block.shape)
        touched = float(block.cells.sum()) * (size // own)
        if touched + block.rows * _BOX_COST <= size * (1 + len(block.shape)):
            rows = map(block.row, range(block.rows))
            return np.concatenate([self._answer(row, cells) for row in rows])
        answers = block.answer(self.table(block.names, cells))
        # Differences of sums may be off by what floats round off of the sums, beyond the possible.
        low, high = block.extents()
        inside = cells.total - cells.outside
        return np.clip(answers, low * inside, high * inside, out=answers)

    def _cut(self, block: Kronecker, axes: tuple[int, ...], cells: Cells) -> Floats:
        """A block with ranges: only the cells in all of its ranges matter."""
        known = self._tables.get(axes)
        if known is not None:
            return block.answer(known)
        box = [slice(None)] * len(self._shape)
        for axis, factor in zip(axes, block.factors, strict=True):
            box[axis] = factor.span or box[axis]
        kept = [place for place, factor in enumerate(block.factors) if factor.span is None]
        left = [axes[place] for place in kept]
        gone = tuple(axis for axis in range(len(self._shape)) if axis not in left)
        summed = cells.sum(tuple(box), gone).reshape([self._shape[axis] for axis in left])
        names = tuple(block.names[place] for place in kept)
        factors = tuple(block.factors[place] for place in kept)
        return Kronecker(names, factors, block.scale).answer(summed)

    def _table(self, axes: tuple[int, ...], cells: Cells) -> Floats:
        table = self._tables.get(axes)
        if table is not None:
            return table
        whole = tuple(range(len(self._shape)))
        if axes == whole:
            return cells.sum((slice(None),) * len(whole), ())
        parent = parent_of(axes, self._shape, self._kept)
        if parent == whole:
            table = self._nearest(axes, cells)
        else:
            table = summed(self._table(parent, cells), parent, axes)
        table.flags.writeable = False
        if table.size <= self._kept:
            self._tables[axes] = table
        return table

    def _nearest(self, axes: tuple[int, ...], cells: Cells) -> Floats:
        """Sum up the smallest table that there is, or the weights themselves."""
        wider = [known for known in self._tables if set(axes) <= set(known)]
        if wider:
            best = min(wider, key=lambda known: self._tables[known].size)
            return summed(self._tables[best], best, axes)
        every = tuple(range(len(self._shape)))
        if not cells.logs and len(axes) == len(every) - 1:
            return summed(cells.array, every, axes)
        gone = tuple(axis for axis in every if axis not in axes)
        total: Floats = cells.sum((slice(None),) * len(every), gone)
        return total.reshape([self._shape[axis] for axis in axes])


def _dense(block: Dense, cells: Cells) -> Floats:
    """Functions written out over all attributes."""
    flat = cells.array.reshape(-1)
    cuts = [slice(start, start + _DOT) for start in range(0, flat.size, _DOT)]
    if cells.logs:
        parts = [block.weights[:, cut] @ cells.weights(flat[cut]) for cut in cuts]
        return np.asarray(sum(parts, np.zeros(block.rows)))
    if block.rows > 1:
        return np.asarray(block.weights @ flat)
    line = block.weights[0]
    return np.array([math.fsum(float(line[cut].dot(flat[cut])) for cut in cuts)])


def _kept(size: int) -> int:
    """How large a table may be that is kept beside a universe of so many cells."""
    return min(_KEPT_CELLS, size // _KEPT_SHARE)


def _parts_of(form: LinearForm, shape: tuple[int, ...]) -> Parts:
    """The blocks to evaluate: alike ones together, unless each touches so few cells by itself."""
    size = math.prod(shape)
    steps: list[tuple[Block, slice | Ints, bool]] = []
    alike: dict[tuple[str, ...], list[tuple[Kronecker, int]]] = {}
    start = 0
    for block in form.blocks:
        if isinstance(block, Kronecker) and block.rows == 1 and block.names:
            alike.setdefault(block.names, []).append((block, start))
        else:
            steps.append((block, slice(start, start + block.rows), False))
        start += block.rows
    for members in alike.values():
        blocks = [block for block, _ in members]
        table = math.prod(blocks[0].shape)
        touched = sum(map(_touched, blocks)) * (size // table)
        few = len(members) == 1 or touched <= size + len(members) * table
        if few or len(members) * sum(blocks[0].shape) > _STACKED_WEIGHTS:
            tabled = not few and table <= _kept(size)
            steps += [(block, slice(place, place + 1), tabled) for block, place in members]
        else:
            places = np.array([place for _, place in members], dtype=np.int64)
            steps.append((Products.stack(blocks), places, True))
    return tuple(steps)


def _touched(block: Kronecker) -> int:
    """How many cells of its own attributes a function is summed over."""
    return math.prod(
        factor.size if (span := factor.span) is None else span.stop - span.start
        for factor in block.factors
    )
