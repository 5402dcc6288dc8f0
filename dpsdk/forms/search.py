"""The pair of cells that are the farthest apart, searched for where that takes little work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk.forms.blocks import Block
from dpsdk.forms.diameter import Columns, by_signs, central_distances, diameter, few_signs
from dpsdk.forms.factors import PAIR_LIMIT, WEIGHT_LIMIT
from dpsdk.forms.facts import Facts
from dpsdk.forms.move import Move, pair_bound
from dpsdk.typing import Array, Floats, Ints

__all__ = ["search"]

WORK_LIMIT = 2**29
"""The most steps of a search for all blocks together: a multiplication, or a look at a weight that
is written out already, is one. Work on arrays that are there anyway is bounded by these alone."""

LOOK_STEPS = 2**6
"""The cost of writing out a weight and looking at it some times."""

_LOOKS = 2**22
"""The cost of looking at columns beside their weights."""

_WRITTEN_WORK = 2**32
"""Blocks that are written out already, such as gradients, are worth so many steps."""

WRITTEN_LIMIT = 2**26
"""The most weights that are looked at one by one where they are written out already."""

_NARROW = 2**8
_FEW = 2**2
_PRODUCT = 2**18
"""Longer products are shared out to threads, which on busy machines wait for each other."""


def search(
    blocks: Sequence[Block],
    sizes: dict[str, int],
    known: Move,
    powers: tuple[int, ...],
    work: int,
    facts: Facts,
) -> Move:
    """Compare the heaviest columns with each other; bound what lighter ones can do.

    That is done in so many steps, and in the powers of the norms that are sought, or in all where
    it costs nothing. Of another norm the move is what is known already, and its largest entry is.
    """
    columns = Columns(blocks, tuple(sizes), tuple(sizes.values()))
    # Squares of 0/1 weights are the weights, so one search serves both norms.
    sought = (1,) if columns.binary else powers
    norms = [columns.joined([block.column_norms(power) for block in blocks]) for power in sought]
    if not facts.replaced:
        found = [(float(norm.max()), True) for norm in norms]
    else:
        if columns.written:
            work = max(work, _WRITTEN_WORK)
        signed = any(block.limits()[0] < 0 for block in blocks)
        found = [
            _farthest(columns, norm, power, work, signed=signed, outside=facts.outside)
            for power, norm in zip(sought, norms, strict=True)
        ]
    l1 = found[0][0] if 1 in sought else known.l1
    l2 = found[-1][0] if columns.binary or 2 in sought else known.l2
    return Move(l1, l2, known.maximum, exact=all(exact for _, exact in found))


def _farthest(
    columns: Columns, norms: Floats, power: int, work: int, *, signed: bool, outside: bool
) -> tuple[float, bool]:
    """The largest distance of two columns, or a bound of it; and whether it is attained."""
    rows, square = max(columns.rows, 1), power == 2 or columns.binary
    width = min(WEIGHT_LIMIT // rows, PAIR_LIMIT, math.isqrt(work // rows))
    if not square and width > 1:
        width = min(width, max(2, round((WEIGHT_LIMIT * 16 / columns.rows) ** 0.5)))
    size, least = columns.rows * columns.cells, float(norms.max()) if outside else 0.0
    if not square and columns.cells <= width and few_signs(columns, columns.cells // 2):
        return max(least, by_signs(columns)), True
    looks = size <= WRITTEN_LIMIT if columns.written else LOOK_STEPS * size + _LOOKS <= work
    found = (math.inf, False)
    if columns.cells > width:
        if (distances := central_distances(columns, norms, work // 2)) is not None:
            norms = distances
        elif looks:
            found = diameter(columns, norms, least, work, squared=square)
    if not found[1]:
        pair = _worst_pair(columns, norms, width, power, least, signed=signed)
        # The one that is attained, or else the lower one.
        found = min(found, pair, key=lambda bound: (not bound[1], bound[0]))
    return found


def _worst_pair(
    columns: Columns, norms: Floats, width: int, power: int, least: float, *, signed: bool
) -> tuple[float, bool]:
    """The largest distance of two heavy columns, or what lighter ones can do."""
    if width < 2:
        # Seen from a point, a column may be farther from that of the outside than from all others.
        return max(least, pair_bound(norms, norms, power, signed=signed)), False
    if len(norms) <= width:
        heaviest, lighter = np.arange(len(norms)), norms[:0]
    else:
        heaviest, lighter = _split(norms, width)
    heavy = columns.at(heaviest)
    best = least
    if power == 2 or columns.binary:
        # |a - b|**2 = |a|**2 + |b|**2 - 2 a.b, and for 0/1 columns the same sum is the L1 norm.
        # Seen from one of the columns, no norm exceeds the distance that is sought, so that what
        # floats round off is small beside it, however much the columns have in common.
        heavy -= heavy[:, :1].copy()
        # So few zeros and ones that half the digits hold their sums.
        best = max(best, _longest(heavy.astype(np.float32) if columns.binary else heavy))
    else:
        for number in range(heavy.shape[1] - 1):
            distances = np.abs(heavy[:, number + 1 :] - heavy[:, number : number + 1]).sum(axis=0)
            best = max(best, float(distances.max()))
    if not len(lighter):
        return best, True
    beyond = pair_bound(norms, lighter, power, signed=signed)
    beyond = float(math.floor(beyond)) if columns.binary else beyond
    return max(best, beyond), best >= beyond


def _split(norms: Floats, width: int) -> tuple[Ints, Floats]:
    """The places of the largest norms, of equal ones the first, and the other norms."""
    least = np.partition(norms, len(norms) - width)[len(norms) - width]
    above = np.flatnonzero(norms > least)
    equal = np.flatnonzero(norms == least)[: width - len(above)]
    places = np.sort(np.concatenate([above, equal]))
    return places[np.argsort(-norms[places], kind="stable")], np.delete(norms, places)


def _longest(columns: Array) -> float:
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


def _products(columns: Array) -> Array:
    """The products of all pairs of columns."""
    width = columns.shape[1]
    if width > _NARROW:
        return columns.T @ columns
    products, step = np.zeros((width, width)), _PRODUCT // width**2
    for start in range(0, len(columns), step):
        part = columns[start : start + step]
        products += part.T @ part
    return products
