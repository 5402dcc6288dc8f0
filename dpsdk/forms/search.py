"""The pair of cells that are the farthest apart, searched for where that takes little work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk.forms.blocks import Block
from dpsdk.forms.move import Move, by_rows, pair_bound
from dpsdk.typing import Floats

__all__ = ["PAIR_LIMIT", "WEIGHT_LIMIT", "search"]

WEIGHT_LIMIT = 2**22
"""The most weights that a search for the worst pair of cells writes out."""

PAIR_LIMIT = 2**11
"""The most cells that a search for the worst pair compares with each other."""

_WORK_LIMIT = 2**32
"""The most multiplications that such a search makes."""

_NARROW = 2**6
_PRODUCT = 2**18
"""Longer products are shared out to threads, which on busy machines wait for each other."""


def search(blocks: Sequence[Block], sizes: dict[str, int], *, replace: bool, outside: bool) -> Move:
    """Compare the heaviest columns with each other; bound what lighter ones can do."""
    names = tuple(sizes)
    shape = tuple(sizes.values())
    # Squares of 0/1 weights are the weights, so one search serves both norms.
    powers = (1,) if _binary(blocks) else (1, 2)
    norms = [_joint_norms(blocks, names, shape, power) for power in powers]
    top = by_rows(blocks, replace=replace, outside=outside).maximum
    if not replace:
        return Move(float(norms[0].max()), float(norms[-1].max()), top, exact=True)
    signed = any(block.limits()[0] < 0 for block in blocks)
    rows = sum(block.rows for block in blocks)
    width = min(WEIGHT_LIMIT // max(rows, 1), PAIR_LIMIT, math.isqrt(_WORK_LIMIT // max(rows, 1)))
    found = [
        _worst_pair(blocks, names, shape, norm, width, power, signed=signed, outside=outside)
        for power, norm in zip(powers, norms, strict=True)
    ]
    return Move(found[0][0], found[-1][0], top, exact=all(exact for _, exact in found))


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


def _worst_pair(
    blocks: Sequence[Block],
    names: tuple[str, ...],
    shape: tuple[int, ...],
    norms: Floats,
    width: int,
    power: int,
    *,
    signed: bool,
    outside: bool,
) -> tuple[float, bool]:
    """The largest distance of two columns, or a bound of it; and whether it is attained."""
    if width < 2:
        return pair_bound(norms, norms, power, signed=signed), False
    if power == 1 and not _binary(blocks):
        width = min(width, max(2, round((WEIGHT_LIMIT * 16 / sum(b.rows for b in blocks)) ** 0.5)))
    if len(norms) <= width:
        heaviest, lighter = np.arange(len(norms)), norms[:0]
    else:
        order = np.argsort(-norms, kind="stable")
        heaviest, lighter = order[:width], norms[order[width:]]
    cells = np.unravel_index(heaviest, shape) if shape else ()
    codes = dict(zip(names, cells, strict=True))
    pieces = [block.columns([codes[name] for name in block.names]) for block in blocks]
    # A block without attributes has one column for all cells.
    wide = [np.broadcast_to(p, (len(p), len(heaviest))) for p in pieces]
    # Of a single block they are already an array of their own.
    alone = len(pieces) == 1 and pieces[0].shape == wide[0].shape
    columns = pieces[0] if alone else np.concatenate(wide)
    best = float(norms.max()) if outside else 0.0
    if power == 2 or _binary(blocks):
        # |a - b|**2 = |a|**2 + |b|**2 - 2 a.b, and for 0/1 columns the same sum is the L1 norm.
        # Seen from one of the columns, no norm exceeds the distance that is sought, so that what
        # floats round off is small beside it, however much the columns have in common.
        columns -= columns[:, :1].copy()
        own = np.einsum("ij,ij->j", columns, columns)
        best = max(best, float((own[:, None] + own[None, :] - 2 * _products(columns)).max()))
    else:
        for number in range(columns.shape[1] - 1):
            distances = np.abs(columns[:, number + 1 :] - columns[:, number : number + 1]).sum(
                axis=0
            )
            best = max(best, float(distances.max()))
    if not len(lighter):
        return best, True
    beyond = pair_bound(norms, lighter, power, signed=signed)
    return max(best, beyond), best >= beyond


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
