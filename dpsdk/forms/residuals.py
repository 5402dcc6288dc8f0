"""Residuals: what the marginals of a table say beyond their own margins.

Let n be the sizes of the attributes of a set T, m_T the marginal on them, and P_T the Kronecker
product of the projections I - J/n on what sums to zero along each of them. The residual of T is
r_T = P_T m_T; that of no attributes is the count of all rows. A marginal is the sum, over the
subsets T of its set S, of r_T spread evenly over the cells of S - T; and residuals of different
sets have nothing in common (Xiao, He and Kifer 2023). N_T r_T, with N_T the number of cells of T,
is made of integers: it is what the factors `Residual` of dpsdk.forms measure.

How far one row moves integers N_T r_T is proven in docs/explanation/proofs/residuals.md. Sizes are
public, and so is all that is computed here from sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from operator import index

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.forms.canonical import Line, line_of
from dpsdk.forms.factors import Factor, Weights
from dpsdk.typing import Floats, Ints

__all__ = [
    "Moves",
    "Names",
    "Residual",
    "centred",
    "closure",
    "composed",
    "decomposed",
    "moves",
    "subsets",
]

Names = tuple[str, ...]

ATTRIBUTES_LIMIT = 20
"""The labels in which two rows may agree are tried in all combinations for so many attributes."""

_EXACT = 2**53


@frozen
class Residual(Factor):
    """One function a cell: its count times the number of cells, less the count of all of them.

    The matrix is n I - J, of integers: n times the projection on what sums to zero. Of one cell
    nothing is left, and its function is zero.
    """

    size: int = field(converter=index)

    @property
    def rows(self) -> int:
        return self.size

    @property
    def integral(self) -> bool:
        return True

    def extents(self) -> tuple[Floats, Floats]:
        low, high = self.limits()
        return np.full(self.size, low), np.full(self.size, high)

    def limits(self) -> tuple[float, float]:
        return (-1.0, self.size - 1.0) if self.size > 1 else (0.0, 0.0)

    @property
    def reach(self) -> float:
        # Counts are multiplied before their sum is taken off.
        return float(self.size)

    def row(self, number: int) -> Weights:
        return Weights(self._at(np.arange(number, number + 1), np.arange(self.size)))

    def apply(self, table: Floats, axis: int) -> Floats:
        result: Floats = table * float(self.size)
        result -= table.sum(axis=axis, keepdims=True)
        return result

    def adjoint(self, table: Floats, axis: int) -> Floats:
        return self.apply(table, axis)

    def columns(self, codes: Ints) -> Floats:
        return self._at(np.arange(self.size), codes)

    def _at(self, rows: Ints, codes: Ints) -> Floats:
        result: Floats = np.where(rows[:, None] == codes, self.size - 1.0, -1.0)
        return result if self.size > 1 else np.zeros_like(result)

    def column_norms(self, power: int) -> Floats:
        others = self.size - 1.0
        return np.full(self.size, others * (self.size if power == 2 else 2))

    def row_norms(self, power: int) -> Floats:
        if not power:
            return np.full(self.size, float(self.size if self.size > 1 else 0))
        return self.column_norms(power)

    def deviations(self) -> tuple[Floats, Floats, Floats, Floats]:
        others = np.array([self.size - 1.0])
        return np.zeros(1), others * self.size, others, np.array([self.size * (self.size > 1.0)])

    def classes(self) -> Ints | None:
        return None if self.size > 1 else np.zeros(1, dtype=np.int64)

    def lines(self, axis: int) -> list[Line]:
        cells = np.arange(self.size)
        return [line_of(self._at(cells[cell : cell + 1], cells)[0], axis) for cell in cells]


def subsets(names: Names) -> list[Names]:
    """All subsets of a set of attributes, the smaller ones first."""
    return [part for size in range(len(names) + 1) for part in combinations(names, size)]


def closure(sets: Iterable[Names]) -> list[Names]:
    """The sets and all their subsets, each once: the smaller ones first, else as they come."""
    found = dict.fromkeys(part for names in sets for part in subsets(names))
    return sorted(found, key=len)


def centred(values: Floats, axes: int) -> Floats:
    """The projection of a table on what sums to zero along each of its last axes."""
    result = values
    for axis in range(-axes, 0):
        result = result - result.mean(axis=axis, keepdims=True)
    return result


def decomposed(table: Floats, axes: int) -> list[Floats]:
    """The residuals of a marginal along the last `axes` axes of a table, the others a batch.

    One for each subset, in binary order: number k has the axis i, counted from 0, where bit
    `axes` - 1 - i of k is set. Each has the axes of the batch, and those of its own attributes.
    """
    parts = [table]
    for axis in range(axes):
        # The axes to come are all there; the one in hand is the first of them.
        place = axis - axes
        parts = [
            part
            for whole in parts
            for part in (whole.sum(axis=place), whole - whole.mean(axis=place, keepdims=True))
        ]
    return parts


def composed(parts: Sequence[Floats], shape: Sequence[int]) -> Floats:
    """The marginal of such a shape from its residuals, as `decomposed` gives them: its inverse."""
    left = list(parts)
    for done, size in enumerate(reversed(shape)):
        left = [
            own + np.expand_dims(rest, -1 - done) / size
            for rest, own in zip(left[::2], left[1::2], strict=True)
        ]
    return left[0]


@frozen
class Moves:
    """How far one row moves integer residuals: the largest squared length, and single move."""

    squared: int
    maximum: int
    exact: bool
    """True if they are attained."""


def moves(
    sets: Sequence[Names],
    scales: Sequence[int],
    sizes: Mapping[str, int],
    *,
    replace: bool,
    outside: bool,
) -> Moves:
    """How far one row moves residuals scale · N_T r_T of sets T, measured together.

    A row that is added moves N_T r_T by an integer vector of squared length Π n (n - 1), whatever
    row it is. Rows that differ in the attributes D move it by twice Π n (n - 1) less the product of
    n (n - 1) over T - D and of -n over T ∩ D. The largest sum over all D is found by trying all of
    them, for up to 20 attributes of several cells; beyond, each set counts as if D were the one
    attribute of it that has the fewest cells, which is its worst. Sets may repeat.
    """
    alone = [
        (scale, [sizes[name] for name in names]) for scale, names in zip(scales, sets, strict=True)
    ]
    added = sum(scale**2 * _added(shape) for scale, shape in alone)
    most = max((abs(scale) * _entry(shape) for scale, shape in alone), default=0)
    if not replace:
        return Moves(added, most, exact=True)
    exchanged = max((abs(scale) * _exchanged_entry(shape) for scale, shape in alone), default=0)
    bound = sum(scale**2 * _exchanged(shape) for scale, shape in alone)
    live = [place for place, (scale, shape) in enumerate(alone) if scale and _exchanged(shape)]
    names = sorted({name for place in live for name in sets[place] if sizes[name] > 1})
    exact = True
    if len({frozenset(sets[place]) for place in live}) > 1:
        if len(names) > ATTRIBUTES_LIMIT:
            # All of it together, and each row outside instead of inside, are bounded by the sum.
            total = sum(scale**2 for scale, shape in alone if not shape)
            return Moves(bound + total * outside, max(exchanged, most * outside), exact=False)
        worst = _worst([sets[p] for p in live], [scales[p] for p in live], names, sizes)
        exact = worst <= bound
        bound = min(bound, worst)
    if outside:
        bound, exchanged = max(bound, added), max(exchanged, most)
    return Moves(bound, exchanged, exact)


def _added(shape: Sequence[int]) -> int:
    return math.prod(size * (size - 1) for size in shape)


def _entry(shape: Sequence[int]) -> int:
    return math.prod(size - 1 for size in shape)


def _exchanged(shape: Sequence[int]) -> int:
    """The squared length where rows differ in the attribute of the fewest cells."""
    if not shape or 1 in shape:
        return 0
    least = min(shape)
    return 2 * least**2 * (_added(shape) // (least * (least - 1)))


def _exchanged_entry(shape: Sequence[int]) -> int:
    if not shape or 1 in shape:
        return 0
    least = min(shape)
    return least * (_entry(shape) // (least - 1))


def _worst(
    sets: Sequence[Names], scales: Sequence[int], names: Sequence[str], sizes: Mapping[str, int]
) -> int:
    """The largest squared length over all sets of attributes in which two rows may differ."""
    places = {name: place for place, name in enumerate(names)}
    whole = sum(
        scale**2 * _added([sizes[name] for name in own])
        for scale, own in zip(scales, sets, strict=True)
    )
    corners: Floats = np.zeros((2,) * len(names))
    for scale, own in zip(scales, sets, strict=True):
        cell = [0] * len(names)
        for name in own:
            cell[places[name]] = 1
        corners[tuple(cell)] += float(scale**2)
    for place, name in enumerate(names):
        size = sizes[name]
        without, within = np.moveaxis(corners, place, 0)
        corners = np.stack(
            [without + (size * (size - 1)) * within, without - size * within], axis=place
        )
    # All labels in common is no move; the sum is the largest number on the way.
    least = float(np.min(corners.reshape(-1)[1:]))
    if 2 * whole < _EXACT:
        return 2 * (whole - int(least))
    # Each number is rounded twice an attribute and once a set, and none is larger than the sum.
    slack = whole * (3 * len(names) + len(sets) + 4) // _EXACT + 1
    return 2 * (whole - math.floor(least) + slack)
