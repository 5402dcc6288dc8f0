"""The largest distance of two columns, told by how far columns are from a point between them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from dpsdk._records import define, frozen
from dpsdk.forms.blocks import Block, Dense
from dpsdk.typing import Bools, Floats, Ints

__all__ = ["Columns", "by_signs", "central_distances", "diameter", "few_signs"]

PRODUCT_LIMIT = 2**31
"""The most multiplications of a search for the largest Euclidean distance."""

DIFFERENCE_LIMIT = 2**27
"""The most differences of two weights of a search for the largest sum of them."""

SIGN_LIMIT = 2**28
"""The most multiplications by which sums with all signs are worked out."""

KEPT_LIMIT = 2**23
"""The most weights of far columns that are held at once."""

_CHUNK = 2**17
_SAMPLE = 2**9
_FIRST = 2**6
_BATCH = 2**6
_ROUNDS = 2**4
_PRODUCT = 2**18
"""Longer products are shared out to threads, which on busy machines wait for each other."""

_CALL = 2**13
"""The cost of a comparison beside its arithmetic, in the same unit."""

_ROUNDS_OF_MEANS = 2**6
_FEWEST = 2**2
_STEP = 2**8
"""The cost of looking at a number in turns of a mean, beside a multiplication of two arrays."""

_ROUNDED = 1 + 1e-12
"""More than two roots, a sum and a square round off."""

Reach: TypeAlias = Callable[[Floats | float, float], Floats]
"""A bound of the difference of two columns, by how far each is from some point."""


@frozen(eq=False)
class Columns:
    """The columns of blocks, for all cells of attributes that span few of them."""

    blocks: Sequence[Block]
    names: tuple[str, ...]
    shape: tuple[int, ...]

    @cached_property
    def rows(self) -> int:
        """The number of functions."""
        return sum([block.rows for block in self.blocks])

    @cached_property
    def cells(self) -> int:
        """The number of columns."""
        return int(np.prod(self.shape, dtype=np.int64))

    @cached_property
    def integral(self) -> bool:
        """True if all weights are integers."""
        return all(block.integral for block in self.blocks)

    @property
    def written(self) -> bool:
        """True if they are an array already."""
        return len(self.blocks) == 1 and type(self.blocks[0]) is Dense

    def at(self, cells: Ints) -> Floats:
        """The columns of some cells, an array of their own."""
        places = np.unravel_index(cells, self.shape) if self.shape else ()
        codes = dict(zip(self.names, places, strict=True))
        pieces = [block.columns([codes[name] for name in block.names]) for block in self.blocks]
        # A block without attributes has one column for all cells.
        wide = [np.broadcast_to(piece, (len(piece), len(cells))) for piece in pieces]
        # Of a single block they are already an array of their own.
        alone = len(pieces) == 1 and pieces[0].shape == wide[0].shape
        return pieces[0] if alone else np.concatenate(wide)

    def parts(self) -> Iterator[tuple[slice, Floats]]:
        """All columns, some at a time; to be read only."""
        step = max(1, _CHUNK // max(self.rows, 1))
        only = self.blocks[0]
        for start in range(0, self.cells, step):
            some = slice(start, min(start + step, self.cells))
            if isinstance(only, Dense) and self.written:
                yield some, only.weights[:, some]
            else:
                yield some, self.at(np.arange(some.start, some.stop))

    @cached_property
    def binary(self) -> bool:
        """True if all weights are zeros and ones."""
        return all(
            block.integral and block.limits()[0] >= 0 and block.limits()[1] <= 1
            for block in self.blocks
        )

    @cached_property
    def quick(self) -> bool:
        """True if blocks that are not written out count zeros and ones by themselves."""
        return self.binary and not self.written

    def joined(self, tables: Sequence[Floats]) -> Floats:
        """The sum of a table of each block, over all cells."""
        total = np.zeros(self.shape)
        for block, table in zip(self.blocks, tables, strict=True):
            axes = [self.names.index(name) for name in block.names]
            spread = [size if axis in axes else 1 for axis, size in enumerate(self.shape)]
            total += table.transpose(np.argsort(axes)).reshape(spread)
        return total.reshape(-1)

    def weighted(self, numbers: Floats) -> Floats:
        """For each column the sum of its weights, each times a number."""
        if self.quick:
            # Each is an integer over a power of two, so that sums are exact.
            cuts = np.cumsum([block.rows for block in self.blocks])[:-1]
            parts = zip(self.blocks, np.split(numbers, cuts), strict=True)
            return self.joined([block.adjoint(part) for block, part in parts])
        return np.concatenate([numbers @ part for _, part in self.parts()])

    def answers(self, shares: Floats) -> Floats:
        """For each function the sum of its weights, each times the share of its cell."""
        table = shares.reshape(self.shape)
        parts: list[Floats] = []
        for block in self.blocks:
            axes = [self.names.index(name) for name in block.names]
            others = tuple([axis for axis in range(table.ndim) if axis not in axes])
            own = table.sum(axis=others).transpose(np.argsort(np.argsort(axes)))
            parts.append(block.answer(own))
        return np.concatenate(parts)

    @cached_property
    def some(self) -> Ints:
        """A few cells, evenly spread."""
        return np.arange(0, self.cells, max(1, self.cells // _SAMPLE))

    @cached_property
    def sides(self) -> Bools:
        """For each column one of two sides, such as the sign of its slope for a gradient."""
        # The function that weighs most says it, as the one of a constant feature does.
        sizes = np.abs(self.at(self.some)).sum(axis=1)
        direction = (sizes / max(float(sizes.max()), 1e-300)) ** 4
        return np.asarray(self.weighted(direction) >= 0.0)

    @cached_property
    def corners(self) -> list[tuple[Floats, Floats]]:
        """The least and the largest weights of each function, on the one side and on the other."""
        low = np.full((2, self.rows), np.inf)
        high = -low
        for some, part in self.parts():
            for side in (0, 1):
                own = part[:, self.sides[some] == bool(side)]
                low[side] = np.minimum(low[side], own.min(axis=1, initial=np.inf))
                high[side] = np.maximum(high[side], own.max(axis=1, initial=-np.inf))
        return list(zip(low, high, strict=True))


def diameter(
    columns: Columns, norms: Floats, least: float, work: int, *, squared: bool
) -> tuple[float, bool]:
    """The largest sum of differences of two columns, or a bound; and whether it is attained.

    `norms` has of each column the sum of its weights, in absolute value, or squared as differences
    then are. `least` is known to be attained, such as by the column of a record outside the domain.
    `work` bounds multiplications and differences.
    """
    if not squared and few_signs(columns):
        return max(least, by_signs(columns)), True
    return _Search(columns, 2 if squared else 1, norms, least, work).run()


def central_distances(columns: Columns, norms: Floats, work: int) -> Floats | None:
    """How far each column of zeros and ones is from a point that is not very far from any.

    The sums of absolute differences, rounded up; None for other columns, and where a point takes
    more steps than are allowed. It is a mean of corners of a cube: each is the nearest to a mean of
    columns, in which those count the more that were the farther from the corners so far.
    """
    steps = _STEP * (columns.cells + sum([block.steps for block in columns.blocks]))
    rounds = min(_ROUNDS_OF_MEANS, work // steps)
    if not columns.quick or rounds < _FEWEST:
        return None
    found, total = norms, np.zeros(columns.cells, dtype=np.int64)
    for number in range(1, rounds + 1):
        far = max(int(total.max()), 1)
        levels = (far - total) * (14 + math.isqrt(36 * number)) // far
        shares = np.floor(np.ldexp(1.0, np.maximum(24 - levels, -1)))
        corner = (2.0 * columns.answers(shares) > shares.sum()).astype(np.float64)
        total += (norms - 2.0 * columns.weighted(corner) + corner.sum()).astype(np.int64)
        if total.max() < number * found.max():
            found = total / number * _ROUNDED
    return found


def few_signs(columns: Columns, most: float = math.inf) -> bool:
    """True if there are no more ways to sign the functions than so many, and than are tried."""
    signs = 1 << min(columns.rows - 1, 62)
    return signs <= most and signs * columns.rows * columns.cells <= SIGN_LIMIT


def by_signs(columns: Columns) -> float:
    """A sum of absolute values is the largest of the sums with signs."""
    signs = np.ones((1, columns.rows))
    for row in range(1, columns.rows):
        signs = np.repeat(signs, 2, axis=0)
        signs[1::2, row] = -1.0
    first = columns.at(np.zeros(1, dtype=np.int64))
    low = high = np.zeros(len(signs))
    for some, part in columns.parts():
        del some
        sums = signs @ (part - first)
        low, high = np.minimum(low, sums.min(axis=1)), np.maximum(high, sums.max(axis=1))
    return float((high - low).max())


def _sums(one: Floats | float, other: float) -> Floats:
    """By the triangle inequality, or in one corner by squares, whose product is not negative."""
    return np.asarray(np.add(one, other))


def _squares(one: Floats | float, other: float) -> Floats:
    """The triangle inequality for squared distances."""
    roots = np.sqrt(one) + np.sqrt(other)
    # The first is exact where the two are equal, as they often are.
    return np.asarray(np.minimum(2.0 * (one + other), roots * roots * _ROUNDED))


@frozen(eq=False)
class _View:
    """A point from which columns are seen, and what that says of two of them."""

    point: Floats
    reach: Reach
    widest: float
    """The bound from the farthest of a few columns."""


@frozen(eq=False)
class _Task:
    """Columns of two lists to compare, or of one with each other, and how far each is."""

    lists: Sequence[Ints]
    keys: Floats
    reach: Reach

    @cached_property
    def ends(self) -> list[float]:
        """How far the farthest of each list is."""
        return [float(self.keys[cells].max()) for cells in self.lists]

    @property
    def most(self) -> float:
        """A bound of the difference of two of them."""
        return float(self.reach(self.ends[0], self.ends[-1]))


@define(eq=False)
class _Search:
    columns: Columns
    power: int
    norms: Floats
    best: float
    left: int

    def __attrs_post_init__(self) -> None:
        self.left = min(self.left, PRODUCT_LIMIT if self.power == 2 else DIFFERENCE_LIMIT)

    def run(self) -> tuple[float, bool]:
        sides = self.columns.sides
        halves = np.flatnonzero(~sides), np.flatnonzero(sides)
        few = [self._few(half) for half in halves]
        across = self._centre(few)
        within = [self._within(few[0], 0), self._within(few[1], 1)]
        far, near = self._seen(across, across), self._seen(*within)
        tasks = [_Task([*halves], far, across.reach)]
        tasks += [
            _Task([half], near, view.reach) for half, view in zip(halves, within, strict=True)
        ]
        tasks = [task for task in tasks if all(map(len, task.lists))]
        # First what is likely to be far apart: it tells what the rest has to exceed.
        for task in tasks:
            tops = [_top(cells, task.keys[cells], _FIRST) for cells in task.lists]
            one, *_, other = self._written(
                [
                    tops[0],
                    np.append(tops[-1], task.lists[-1][:: max(1, len(task.lists[-1]) // _SAMPLE)]),
                ]
            )
            self._compare(one, other)
        bound = max(
            self._compared(task) for task in sorted(tasks, key=lambda task: task.most, reverse=True)
        )
        return max(self.best, bound), bound <= self.best

    def _seen(self, one: _View, other: _View) -> Floats:
        """How far each column is from the point of its side."""
        columns, keys = self.columns, np.empty(self.columns.cells)
        both = np.stack([one.point, other.point], axis=1)
        for some, part in columns.parts():
            if one is other:
                keys[some] = self._sizes(part - one.point[:, None])
            else:
                keys[some] = self._sizes(part - both[:, columns.sides[some].astype(np.int64)])
        return keys

    def _sizes(self, differences: Floats) -> Floats:
        if self.power == 2:
            return np.asarray(np.einsum("ij,ij->j", differences, differences))
        return np.asarray(np.abs(differences, out=differences).sum(axis=0))

    def _few(self, half: Ints) -> Floats:
        """Columns of one side that tell where a point should be: the longest, and some others."""
        if not len(half):
            return np.zeros((self.columns.rows, 0))
        evenly = half[:: max(1, len(half) // _SAMPLE)]
        return self.columns.at(np.unique(np.append(evenly, _top(half, self.norms[half], _FIRST))))

    def _centre(self, few: Sequence[Floats]) -> _View:
        """A point between columns, on the lattice of these, from which none is very far."""
        reach = _squares if self.power == 2 else _sums
        together = np.concatenate(few, axis=1)

        def seen(point: Floats) -> _View:
            point = np.rint(point) if self.columns.integral else point
            far = [float(self._sizes(each - point[:, None]).max(initial=0.0)) for each in few]
            return _View(point, reach, float(reach(far[0], far[-1])))

        best = seen(np.zeros(self.columns.rows))
        if not together.size:
            return best
        low, high = together.min(axis=1), together.max(axis=1)
        for start in (0.5 * (low + high), np.median(together, axis=1)):
            best = min(best, seen(start), key=lambda view: view.widest)
        point = best.point
        for step in range(1, _ROUNDS):
            # Towards the farthest again and again, ever less (Badoiu and Clarkson 2003).
            far = together[:, int(self._sizes(together - point[:, None]).argmax())]
            if self.power == 2:
                point = point + (far - point) / (step + 1)
            else:
                point = point + np.clip(
                    far - point, -0.5 * (high - low) / step, 0.5 * (high - low) / step
                )
            best = min(best, seen(point), key=lambda view: view.widest)
        return best

    def _within(self, few: Floats, side: int) -> _View:
        centre = self._centre([few])
        if centre.widest <= self.best:
            return centre
        low, high = self.columns.corners[side]
        return min(
            centre,
            self._corner(few, low, high),
            self._corner(few, high, low),
            key=lambda view: view.widest,
        )

    def _corner(self, few: Floats, start: Floats, end: Floats) -> _View:
        """A corner of all columns of a side that is near to the farthest of some."""
        point, sizes = start.copy(), self._sizes(few - start[:, None])
        for row in np.flatnonzero(start != end):
            before, after = (np.abs(few[row] - side[row]) ** self.power for side in (start, end))
            moved = sizes - before + after
            if moved.max() < sizes.max():
                point[row], sizes = end[row], moved
        return _View(point, _sums, 2.0 * float(sizes.max()))

    def _compared(self, task: _Task) -> float:
        """Compare columns of two lists, or of one with each other, from the farthest on."""
        lists, keys, reach, ends = task.lists, task.keys, task.reach, task.ends
        beyond = 0.0
        kept: list[Ints] = []
        room = max(1, KEPT_LIMIT // self.columns.rows)
        for cells, end in zip(lists, reversed(ends), strict=True):
            far = cells[reach(keys[cells], end) > self.best]
            if len(far) > room:
                far = _top(far, keys[far], room + 1)
            far = far[np.argsort(-keys[far], kind="stable")]
            if len(far) > room:
                beyond = max(beyond, float(reach(keys[far[room]], end)))
                far = far[:room]
            if not len(far):
                return beyond
            kept.append(far)
        columns = self._written(kept)
        found = [_distinct(each, keys[far]) for each, far in zip(columns, kept, strict=True)]
        swept = self._swept([each for each, _ in found], [level for _, level in found], reach)
        return max(beyond, swept)

    def _written(self, lists: Sequence[Ints]) -> list[Floats]:
        """Columns of some cells; for squares seen from one of them, with their own under them."""
        columns = [self.columns.at(cells) for cells in lists]
        if self.power == 1:
            return columns
        # Seen from one of them, none is longer than what is sought: proposition 8.
        here = columns[0][:, :1].copy()
        seen = [each - here for each in columns]
        return [np.concatenate([each, self._sizes(each)[None, :]]) for each in seen]

    def _swept(self, kept: Sequence[Floats], levels: Sequence[Floats], reach: Reach) -> float:
        starts = [0] * len(kept)
        while all(start < len(level) for start, level in zip(starts, levels, strict=True)):
            ends = [float(level[start]) for start, level in zip(starts, levels, strict=True)]
            rest = float(reach(ends[0], ends[-1]))
            if rest <= self.best:
                return 0.0
            # Up to where those of a list could be far from the next of the other.
            stops = [
                bisect_left(level, True, start, key=lambda far: bool(reach(far, end) <= self.best))
                for level, start, end in zip(levels, starts, reversed(ends), strict=True)
            ]
            many = [stop - start for start, stop in zip(starts, stops, strict=True)]
            turn = int(np.argmin(many))
            there = len(kept) - 1 - turn
            width = min(_BATCH, len(levels[turn]) - starts[turn])
            self.left -= width * many[there] * self.columns.rows
            self.left -= _CALL * (2**4 if self.power == 2 else width)
            if self.left < 0:
                return rest
            pivots = kept[turn][:, starts[turn] : starts[turn] + width]
            self._compare(pivots, kept[there][:, starts[there] : stops[there]])
            starts[turn] += width
        return 0.0

    def _compare(self, one: Floats, other: Floats) -> None:
        """Learn of all distances of a column of the one and a column of the other."""
        if self.power == 1:
            for column in one.T:
                found = np.abs(other - column[:, None]).sum(axis=0).max(initial=0.0)
                self.best = max(self.best, float(found))
            return
        # |a - b|**2 = |a|**2 + |b|**2 - 2 a.b.
        left, own = -2.0 * one[:-1].T, one[-1][:, None]
        step = max(1, _PRODUCT // left.size)
        for start in range(0, other.shape[1], step):
            part = left @ other[:-1, start : start + step]
            part += own
            part += other[-1, start : start + step]
            self.best = max(self.best, float(part.max()))


def _top(cells: Ints, keys: Floats, count: int) -> Ints:
    if len(cells) <= count:
        return cells
    return cells[np.argpartition(-keys, count - 1)[:count]]


def _distinct(columns: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """One of equal columns, where there are many; in the same order."""
    mixed = np.sqrt(np.arange(2.0, len(columns) + 2)) @ columns
    if len(np.unique(mixed)) > 0.75 * len(mixed):
        return columns, levels
    order = np.argsort(mixed, kind="stable")
    there = columns[:, order]
    same = (there[:, 1:] == there[:, :-1]).all(axis=0)
    kept = np.sort(order[np.append(True, ~same)])
    return columns[:, kept], levels[kept]
