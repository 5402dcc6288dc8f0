"""The pair of cells that are the farthest apart, searched for where that takes little work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk.forms.blocks import Block
from dpsdk.forms.diameter import Columns, by_signs, diameter, few_signs
from dpsdk.forms.factors import PAIR_LIMIT, WEIGHT_LIMIT
from dpsdk.forms.move import Move, pair_bound
from dpsdk.typing import Floats

__all__ = ["search"]

_WORK_LIMIT = 2**32
"""The most multiplications that such a search makes."""

LOOK_LIMIT = 2**24
"""The most weights that such a search looks at one by one, where they are multiplied out."""

WRITTEN_LIMIT = 2**26
"""The same for those that are written out already."""

_QUICK = 2**22
"""Looking at so many weights is quicker than comparing the heaviest columns with each other."""

_NARROW = 2**6
_FEW = 2**2
_PRODUCT = 2**18
"""Longer products are shared out to threads, which on busy machines wait for each other."""


def search(
    blocks: Sequence[Block],
    sizes: dict[str, int],
    known: Move,
    powers: tuple[int, ...],
    *,
    replace: bool,
    outside: bool,
) -> Move:
    """Compare the heaviest columns with each other; bound what lighter ones can do.

    In the powers of the norms that are sought, or in all where that costs nothing. Of another norm
    the move is what is known already, and its largest entry is.
    """
    names = tuple(sizes)
    shape = tuple(sizes.values())
    # Squares of 0/1 weights are the weights, so one search serves both norms.
    binary = _binary(blocks)
    sought = (1,) if binary else powers
    norms = [_joint_norms(blocks, names, shape, power) for power in sought]
    if not replace:
        found = [(float(norm.max()), True) for norm in norms]
        return _move(sought, found, known, binary=binary)
    signed = any(block.limits()[0] < 0 for block in blocks)
    rows = sum(block.rows for block in blocks)
    width = min(WEIGHT_LIMIT // max(rows, 1), PAIR_LIMIT, math.isqrt(_WORK_LIMIT // max(rows, 1)))
    columns = Columns(blocks, names, shape)
    found = [
        _farthest(columns, norm, width, power, signed=signed, outside=outside)
        for power, norm in zip(sought, norms, strict=True)
    ]
    return _move(sought, found, known, binary=binary)


def _move(
    powers: tuple[int, ...], found: Sequence[tuple[float, bool]], known: Move, *, binary: bool
) -> Move:
    l1 = found[0][0] if 1 in powers else known.l1
    l2 = found[-1][0] if binary or 2 in powers else known.l2
    return Move(l1, l2, known.maximum, exact=all(exact for _, exact in found))


def _joint_norms(
    blocks: Sequence[Block], names: tuple[str, ...], shape: tuple[int, ...], power: int
) -> Floats:
    total = np.zeros(shape)
    for block in blocks:
        order = sorted(range(len(block.names)), key=lambda axis: names.index(block.names[axis]))
        axes = [names.index(block.names[axis]) for axis in order]
        spread = [size if axis in axes else 1 for axis, size in enumerate(shape)]
        total += block.column_norms(power).transpose(order).reshape(spread)
    return total.reshape(-1)


def _farthest(
    columns: Columns, norms: Floats, width: int, power: int, *, signed: bool, outside: bool
) -> tuple[float, bool]:
    """The largest distance of two columns, or a bound of it; and whether it is attained."""
    square = power == 2 or _binary(columns.blocks)
    if not square and width > 1:
        width = min(width, max(2, round((WEIGHT_LIMIT * 16 / columns.rows) ** 0.5)))
    size = columns.rows * columns.cells
    if not square and columns.cells <= width and few_signs(columns, columns.cells // 2):
        return max(float(norms.max()) if outside else 0.0, by_signs(columns)), True
    looks = columns.cells > width and size <= (WRITTEN_LIMIT if columns.written else LOOK_LIMIT)
    first = looks and (columns.written or size <= _QUICK)
    found = (math.inf, False)
    least = float(norms.max()) if outside else 0.0
    if first:
        found = diameter(columns, norms, least, squared=square)
    if not found[1]:
        pair = _worst_pair(columns, norms, width, power, signed=signed, outside=outside)
        found = _better(found, pair)
    if looks and not first and not found[1]:
        found = _better(found, diameter(columns, norms, least, squared=square))
    return found


def _better(one: tuple[float, bool], other: tuple[float, bool]) -> tuple[float, bool]:
    """Of two bounds the one that is attained, or else the lower one."""
    return min(one, other, key=lambda found: (not found[1], found[0]))


def _worst_pair(
    columns: Columns, norms: Floats, width: int, power: int, *, signed: bool, outside: bool
) -> tuple[float, bool]:
    """The largest distance of two heavy columns, or what lighter ones can do."""
    binary = _binary(columns.blocks)
    if width < 2:
        return pair_bound(norms, norms, power, signed=signed), False
    if len(norms) <= width:
        heaviest, lighter = np.arange(len(norms)), norms[:0]
    else:
        order = np.argsort(-norms, kind="stable")
        heaviest, lighter = order[:width], norms[order[width:]]
    heavy = columns.at(heaviest)
    best = float(norms.max()) if outside else 0.0
    if power == 2 or binary:
        # |a - b|**2 = |a|**2 + |b|**2 - 2 a.b, and for 0/1 columns the same sum is the L1 norm.
        # Seen from one of the columns, no norm exceeds the distance that is sought, so that what
        # floats round off is small beside it, however much the columns have in common.
        heavy -= heavy[:, :1].copy()
        best = max(best, _longest(heavy))
    else:
        for number in range(heavy.shape[1] - 1):
            distances = np.abs(heavy[:, number + 1 :] - heavy[:, number : number + 1]).sum(axis=0)
            best = max(best, float(distances.max()))
    if not len(lighter):
        return best, True
    beyond = pair_bound(norms, lighter, power, signed=signed)
    return max(best, beyond), best >= beyond


def _longest(columns: Floats) -> float:
    """The largest squared distance of two columns."""
    own, width = np.einsum("ij,ij->j", columns, columns), columns.shape[1]
    step = _PRODUCT // max(columns.size, 1)
    if width <= _NARROW or step < _FEW:
        return float((own[:, None] + own - 2 * _products(columns)).max())
    best = 0.0
    for start in range(0, width, step):
        # Each pair once, and few at a time: what is not kept need not leave the processor.
        part = (-2.0 * columns[:, start : start + step].T) @ columns[:, start:]
        part += own[start : start + step, None]
        part += own[start:]
        best = max(best, float(part.max()))
    return best


def _products(columns: Floats) -> Floats:
    """The products of all pairs of columns."""
    width = columns.shape[1]
    if width > _NARROW:
        return columns.T @ columns
    products, step = np.zeros((width, width)), _PRODUCT // width**2
    for start in range(0, len(columns), step):
        part = columns[start : start + step]
        products += part.T @ part
    return products


def _binary(blocks: Sequence[Block]) -> bool:
    return all(
        block.integral and block.limits()[0] >= 0 and block.limits()[1] <= 1 for block in blocks
    )
