"""Moves of forms of simple structure, by propositions of their own and without a search.

They are in docs/explanation/proofs/sensitivity.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpsdk.forms.blocks import Block, Kronecker
from dpsdk.forms.linear import EXACT
from dpsdk.forms.move import Move

__all__ = ["marginals", "masked_marginal", "product"]


def marginals(blocks: Sequence[Block], *, replace: bool, outside: bool) -> Move:
    """Each counts a record once; two records without a common label move all of them twice.

    The first and the last cell of every attribute are such, also where labels are grouped.
    """
    if not replace:
        count = float(len(blocks))
        return Move(count, count, 1.0, exact=True)
    split = sum(1 for block in blocks if block.rows > 1)
    # Either two such records, or, seen from the outside cell, one count in every marginal.
    moved = float(max(2 * split, len(blocks) if outside else 0))
    return Move(moved, moved, 1.0 if moved else 0.0, exact=True)


def masked_marginal(block: Block, *, replace: bool) -> Move | None:
    """A marginal of the rows that meet a condition, which may weigh them; None for other blocks.

    Two records that both meet it under different labels move two entries by the largest weight,
    which is more than any pair moves that involves the outside cell.
    """
    if not isinstance(block, Kronecker):
        return None
    labelled = [factor for factor in block.factors if factor.partition]
    condition = [factor for factor in block.factors if not factor.partition]
    if math.prod(factor.rows for factor in labelled) < 2:
        return None
    if any(factor.rows > 1 or float(factor.extents()[0][0]) < 0 for factor in condition):
        return None
    weight = block.scale * math.prod(float(factor.extents()[1][0]) for factor in condition)
    if weight < 0:
        return None
    moved = 2 if replace else 1
    return Move(moved * weight, moved * weight**2, weight, exact=True)


def product(block: Kronecker, top: float, *, replace: bool, outside: bool) -> Move:
    """One Kronecker block, by the norms of the columns of its factors and their products."""
    scale = abs(block.scale)
    l1, l2 = scale, scale * scale
    low = high = 1.0
    for factor in block.factors:
        first, own = factor.largest_norms()
        l1, l2 = l1 * first, l2 * own
        ends = factor.products()
        corners = [a * b for a in (low, high) for b in ends]
        low, high = min(corners), max(corners)
    if not replace:
        return Move(l1, l2, top, exact=True)
    # What floats round off in sums of both signs is small beside the norms, not beside the result.
    terms = sum(factor.rows + 8 for factor in block.factors)
    slack = 0.0 if block.integral and terms * l2 < EXACT / 16 else terms * l2 * 2.0**-50
    apart = 2 * l2 - 2 * scale * scale * low + slack
    return Move(2 * l1, max(apart, l2 if outside else 0.0), top, exact=False)
