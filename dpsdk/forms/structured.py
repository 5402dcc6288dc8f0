"""Moves of forms of simple structure, by propositions of their own and without a search.

They are in docs/explanation/proofs/sensitivity.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk.forms.blocks import Block, Kronecker
from dpsdk.forms.convolution import correlated, fits
from dpsdk.forms.factors import Factor, Groups, Identity, Prefix, Range, Toeplitz
from dpsdk.forms.linear import EXACT
from dpsdk.forms.move import Move, by_rows, pair_bound
from dpsdk.forms.search import PAIR_LIMIT, WEIGHT_LIMIT

__all__ = ["marginals", "masked_marginal", "product", "shifts"]


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
    labelled = [factor for factor in block.factors if isinstance(factor, Identity | Groups)]
    condition = [factor for factor in block.factors if not isinstance(factor, Identity | Groups)]
    if math.prod(factor.rows for factor in labelled) < 2:
        return None
    if any(factor.rows > 1 or float(factor.extents()[0][0]) < 0 for factor in condition):
        return None
    weight = block.scale * math.prod(float(factor.extents()[1][0]) for factor in condition)
    if weight < 0:
        return None
    moved = 2 if replace else 1
    return Move(moved * weight, moved * weight**2, weight, exact=True)


def shifts(block: Block, *, replace: bool, outside: bool) -> Move | None:
    """Weights by distance on one attribute; None for other blocks, and small ones of any signs.

    Columns are one line, shifted. Two of them are the farther apart the more of them there is, so
    the worst pair has the first column in it, and one more for each shift: proposition 12.
    """
    match block:
        case Kronecker(_, (Toeplitz(line),), scale) if len(line) > 1:
            pass
        case _:
            return None
    falls = bool((line >= 0).all() and (line[1:] <= line[:-1]).all())
    whole = bool((line == np.rint(line)).all() and scale.is_integer())
    if not (falls and whole) and len(line) <= PAIR_LIMIT:
        return None
    top = by_rows([block], replace=replace, outside=outside).maximum
    sums, squares = (np.cumsum(np.abs(line) ** power) for power in (1, 2))
    l1, l2 = float(sums[-1]), float(squares[-1])
    if not replace:
        return Move(l1 * abs(scale), l2 * scale**2, top, exact=True)
    near, exact = sums[-2::-1], True
    if falls:
        # What a shift leaves, and what it lowers; each column has less than the one before.
        moves = 2 * sums[:-1] + near - sums[-1]
        l1 = float(max(moves.max(), l1 if outside else 0.0))
    else:
        l1, exact = l1 + float(near[0]), False
    if whole and fits(line, line):
        distances = squares[-1] + squares[-2::-1] - 2 * correlated(line)[1:]
        l2 = float(max(distances.max(), l2 if outside else 0.0))
    else:
        signed = bool((line < 0).any())
        l2, exact = pair_bound(squares[-1:], squares[-2:-1], 2, signed=signed), False
    return Move(l1 * abs(scale), l2 * scale**2, top, exact=exact)


def product(block: Kronecker, top: float, *, replace: bool, outside: bool) -> Move:
    """One Kronecker block, by the norms of the columns of its factors and their products."""
    scale = abs(block.scale)
    l1, l2 = scale, scale * scale
    low = high = 1.0
    for factor in block.factors:
        first, own = _largest_norms(factor)
        l1, l2 = l1 * first, l2 * own
        ends = _inner_products(factor, own)
        corners = [a * b for a in (low, high) for b in ends]
        low, high = min(corners), max(corners)
    if not replace:
        return Move(l1, l2, top, exact=True)
    # What floats round off in sums of both signs is small beside the norms, not beside the result.
    terms = sum(factor.rows + 8 for factor in block.factors)
    slack = 0.0 if block.integral and terms * l2 < EXACT / 16 else terms * l2 * 2.0**-50
    apart = 2 * l2 - 2 * scale * scale * low + slack
    return Move(2 * l1, max(apart, l2 if outside else 0.0), top, exact=False)


def _largest_norms(factor: Factor) -> tuple[float, float]:
    """The largest sum of absolute weights of a column, and of squares."""
    if isinstance(factor, Identity | Groups):
        return 1.0, 1.0
    if isinstance(factor, Range | Prefix):
        largest = float(factor.rows) if isinstance(factor, Prefix) else factor.limits()[1]
        return largest, largest
    return float(factor.column_norms(1).max()), float(factor.column_norms(2).max())


def _inner_products(factor: Factor, largest: float) -> tuple[float, float]:
    """The least and the largest scalar product of two columns, or bounds of them."""
    if isinstance(factor, Identity | Groups):
        return float(factor.rows == 1), 1.0
    if factor.size <= PAIR_LIMIT and factor.rows * factor.size <= WEIGHT_LIMIT:
        weights = factor.matrix()
        products = weights.T @ weights
        return float(products.min()), float(products.max())
    return (0.0 if factor.limits()[0] >= 0 else -largest), largest
