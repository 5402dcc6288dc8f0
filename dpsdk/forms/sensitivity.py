"""How far the rows of one person can move the answers of a linear form.

Notation: W has a row for each function and a column W_x for each cell x of the domain; the cell
outside the domain, where there is one, has the zero column. Under add-remove neighbours one row
moves the answers by one column; under replace-one by the difference of two; and k rows of one
person move them k times as far, where all of them are alike. The largest move of one row is
exact for plain marginals, for a single block of simple structure, and wherever the touched
attributes span at most 2**20 cells within a public limit of work. Elsewhere, since the problem
is NP-hard in general, it is a proven upper bound (docs/explanation/proofs/sensitivity.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from attrs import evolve, frozen

from dpsdk.errors import InvalidArgument
from dpsdk.forms.blocks import Block, Kronecker
from dpsdk.forms.boxes import Boxes
from dpsdk.forms.convolution import correlated, fits
from dpsdk.forms.factors import Factor, Groups, Identity, Prefix, Range, Residual, Toeplitz
from dpsdk.forms.facts import Facts, Setting
from dpsdk.forms.linear import EXACT, LinearForm
from dpsdk.forms.residuals import moves
from dpsdk.typing import Floats

__all__ = ["Sensitivity", "of_one_function", "sensitivity"]

SPAN_LIMIT = 2**20
"""Touched attributes that span more cells are bounded, not searched."""

_FEW = 2**10
_CELLS_OF_A_BOX = 2**6
"""Shadows of boxes span no more cells than so many for each box, or `_FEW`."""

_WEIGHT_LIMIT = 2**22
"""The most weights that a search for the worst pair of cells writes out."""

_PAIR_LIMIT = 2**11
"""The most cells that a search for the worst pair compares with each other."""

_APART = 2**6
"""So many sets of attributes are also looked at one by one, where a search was not exact."""

_WORK_LIMIT = 2**32
"""The most multiplications that such a search makes."""

_SMALL_SPAN = 2**10
"""The sum of absolute moves of residuals is searched over so many cells, and bounded beyond."""

_NARROW = 2**6
_PRODUCT = 2**18
"""Longer products are shared out to threads, which on busy machines wait for each other."""

_REACH_LIMIT = 2.0**480
"""Larger products of weights are refused: squares of them, added up, could leave the floats."""


@frozen(cache_hash=True)
class Sensitivity:
    """The largest move of the answers between neighbours, in the unit of the weights.

    `l1` is the sum of the absolute moves, `l2_squared` the sum of their squares, `maximum` the
    largest single move. `exact` tells whether these are attained; otherwise they are upper bounds.
    """

    l1: Fraction
    l2_squared: Fraction
    maximum: Fraction
    exact: bool

    def times(self, factor: int) -> Sensitivity:
        """The sensitivity where all moves are so many times as large."""
        if factor == 1:
            return self
        return Sensitivity(
            self.l1 * factor, self.l2_squared * factor**2, self.maximum * factor, self.exact
        )


@frozen(cache_hash=True)
class _Move:
    """The same in floats, while it is put together."""

    l1: float
    l2: float
    maximum: float
    exact: bool

    def least(self, other: _Move) -> _Move:
        """The better of two upper bounds, exact where an exact one is the better."""
        l1, l2 = min(self.l1, other.l1), min(self.l2, other.l2)
        exact = any(move.exact and move.l1 <= l1 and move.l2 <= l2 for move in (self, other))
        return _Move(l1, l2, min(self.maximum, other.maximum), exact)


def sensitivity(form: LinearForm, facts: Facts | Setting) -> Sensitivity:
    """The sensitivities of a form under the facts' neighbour relation.

    Raises
    ------
    InvalidArgument
        If products of weights are so large that floats might not hold the result.
    """
    setting = facts if isinstance(facts, Setting) else Setting.of(facts)
    if not form.reach < _REACH_LIMIT:
        expected = f"so small that no product of them exceeds {_REACH_LIMIT:.0e}"
        raise InvalidArgument("weights", expected, f"up to {form.reach:.3g}")
    replace, outside = setting.replaced, setting.outside
    if form.rows == 1:
        move = _one_function(*form.blocks[0].limits(), replace=replace, outside=outside)
    elif (known := _residuals(form, replace=replace, outside=outside)) is not None:
        return _of_unit(known, setting)
    else:
        blocks = [block for block, _ in form.groups]
        move = _stack(blocks, replace=replace, outside=outside)
    return _of_unit(_certified(move, form), setting)


def of_one_function(low: float, high: float, setting: Setting) -> Sensitivity:
    """The sensitivities of one function with integer weights, from the smallest to the largest."""
    move = _one_function(low, high, replace=setting.replaced, outside=setting.outside)
    one = _rounded_up(move, 1, 1, max(abs(low), abs(high)), integral=True)
    return _of_unit(one, setting)


def _of_unit(one: Sensitivity, setting: Setting) -> Sensitivity:
    """What all rows of one person can do, from what one row can: proposition 11 of the note."""
    moved = one.times(setting.unit_rows)
    # A person cannot have more rows than the table.
    attained = one.exact and setting.unit_rows <= max(setting.row_limit, 1)
    return moved if attained == one.exact else evolve(moved, exact=False)


def _certified(move: _Move, form: LinearForm) -> Sensitivity:
    attributes = len(form.domain.names)
    return _rounded_up(move, form.rows, attributes, form.largest, integral=form.integral)


def _rounded_up(
    move: _Move, rows: int, attributes: int, largest: float, *, integral: bool
) -> Sensitivity:
    l1, l2, top = Fraction(move.l1), Fraction(move.l2), Fraction(move.maximum)
    # Differences of two columns reach twice the largest weight, sums of two norms twice that.
    if integral and 16 * rows * max(largest, largest**2) < EXACT:
        return Sensitivity(l1, l2, top, move.exact)
    # What floats may round off: proposition 10 of docs/explanation/proofs/sensitivity.md.
    slack = 1 + Fraction(4 * (rows + attributes + 16), 2**53)
    l1, l2, top = l1 * slack, l2 * slack, top * slack
    if integral:
        l1, l2, top = (Fraction(math.ceil(value)) for value in (l1, l2, top))
    return Sensitivity(l1, l2, top, move.exact)


def _one_function(low: float, high: float, *, replace: bool, outside: bool) -> _Move:
    if outside:
        low, high = min(low, 0.0), max(high, 0.0)
    move = high - low if replace else max(abs(low), abs(high))
    return _Move(move, move * move, move, exact=True)


def _by_rows(blocks: Sequence[Block], *, replace: bool, outside: bool) -> _Move:
    """Every function at its own worst: an upper bound, and exact for the maximum."""
    l1 = l2 = top = 0.0
    for block in blocks:
        low, high = block.extents()
        if outside:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        moves = high - low if replace else np.maximum(np.abs(low), np.abs(high))
        l1, l2 = l1 + float(moves.sum()), l2 + float((moves**2).sum())
        top = max(top, float(moves.max()))
    return _Move(l1, l2, top, exact=False)


def _stack(blocks: Sequence[Block], *, replace: bool, outside: bool) -> _Move:
    if all(isinstance(block, Kronecker) and block.partition for block in blocks):
        return _marginals(blocks, replace=replace, outside=outside)
    if len(blocks) == 1 and (move := _masked_marginal(blocks[0], replace=replace)) is not None:
        return move
    if len(blocks) == 1 and (move := _shifts(blocks[0], replace=replace, outside=outside)):
        return move
    bound = _by_rows(blocks, replace=replace, outside=outside)
    sizes = {
        name: size for block in blocks for name, size in zip(block.names, block.shape, strict=True)
    }
    only = blocks[0] if len(blocks) == 1 else None
    if isinstance(only, Kronecker):
        bound = _product(only, bound.maximum, replace=replace, outside=outside).least(bound)
    if math.prod(sizes.values()) <= SPAN_LIMIT:
        found = _search(blocks, sizes, replace=replace, outside=outside).least(bound)
        apart = _by_names(blocks)
        if found.exact or not 1 < len(apart) <= _APART:
            return found
        return _together(apart, found, replace=replace, outside=outside)
    if only is not None:
        shadow = _shadow(only)
        if shadow is None:
            return bound
        return _in_shadow(shadow, bound.maximum, replace=replace).least(bound)
    clusters = _clusters(blocks)
    return _together(clusters, bound, replace=replace, outside=outside)


def _together(
    clusters: Sequence[Sequence[Block]], bound: _Move, *, replace: bool, outside: bool
) -> _Move:
    """Clusters each at their worst, or what else is known."""
    parts = [_stack(cluster, replace=replace, outside=outside) for cluster in clusters]
    l1, l2 = sum(part.l1 for part in parts), sum(part.l2 for part in parts)
    return _Move(l1, l2, bound.maximum, exact=False).least(bound)


def _by_names(blocks: Sequence[Block]) -> list[list[Block]]:
    groups: dict[tuple[str, ...], list[Block]] = {}
    for block in blocks:
        groups.setdefault(block.names, []).append(block)
    return list(groups.values())


def _product(block: Kronecker, top: float, *, replace: bool, outside: bool) -> _Move:
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
        return _Move(l1, l2, top, exact=True)
    # What floats round off in sums of both signs is small beside the norms, not beside the result.
    terms = sum(factor.rows + 8 for factor in block.factors)
    slack = 0.0 if block.integral and terms * l2 < EXACT / 16 else terms * l2 * 2.0**-50
    apart = 2 * l2 - 2 * scale * scale * low + slack
    return _Move(2 * l1, max(apart, l2 if outside else 0.0), top, exact=False)


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
    if factor.size <= _PAIR_LIMIT and factor.rows * factor.size <= _WEIGHT_LIMIT:
        weights = factor.matrix()
        products = weights.T @ weights
        return float(products.min()), float(products.max())
    return (0.0 if factor.limits()[0] >= 0 else -largest), largest


def _marginals(blocks: Sequence[Block], *, replace: bool, outside: bool) -> _Move:
    """Each counts a record once; two records without a common label move all of them twice.

    The first and the last cell of every attribute are such, also where labels are grouped.
    """
    if not replace:
        count = float(len(blocks))
        return _Move(count, count, 1.0, exact=True)
    split = sum(1 for block in blocks if block.rows > 1)
    # Either two such records, or, seen from the outside cell, one count in every marginal.
    moved = float(max(2 * split, len(blocks) if outside else 0))
    return _Move(moved, moved, 1.0 if moved else 0.0, exact=True)


def _residuals(form: LinearForm, *, replace: bool, outside: bool) -> Sensitivity | None:
    """Integer multiples of residuals, and of the count of all rows; None for other forms."""
    scales: list[int] = []
    for block in form.blocks:
        if not isinstance(block, Kronecker) or not block.scale.is_integer():
            return None
        if any(type(factor) is not Residual for factor in block.factors):
            return None
        scales.append(int(block.scale))
    sets = [block.names for block in form.blocks]
    sizes = {name: form.domain[name].size for name in form.names}
    found = moves(sets, scales, sizes, replace=replace, outside=outside)
    # A column of n I - J has the absolute sum 2 (n - 1), and two of them differ by 2 n.
    shapes = [[sizes[name] for name in names] for names in sets]
    columns = [
        abs(scale) * math.prod(2 * (size - 1) for size in shape)
        for scale, shape in zip(scales, shapes, strict=True)
    ]
    l1 = sum(columns)
    exact = found.exact
    if replace:
        l1 = 2 * sum(column for column, shape in zip(columns, shapes, strict=True) if shape)
        alone = len(shapes) == 1 and len(shapes[0]) == 1 and shapes[0][0] > 1
        if alone:
            l1 = abs(scales[0]) * 2 * shapes[0][0]
        elif outside:
            l1 = max(l1, sum(columns))
        exact = exact and (alone or not l1)
        if not exact and math.prod(sizes.values()) <= _SMALL_SPAN:
            groups = [block for block, _ in form.groups]
            searched = _stack(groups, replace=replace, outside=outside)
            l1, exact = min(l1, math.ceil(searched.l1)), found.exact and searched.exact
    return Sensitivity(Fraction(l1), Fraction(found.squared), Fraction(found.maximum), exact)


def _masked_marginal(block: Block, *, replace: bool) -> _Move | None:
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
    return _Move(moved * weight, moved * weight**2, weight, exact=True)


def _shifts(block: Block, *, replace: bool, outside: bool) -> _Move | None:
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
    if not (falls and whole) and len(line) <= _PAIR_LIMIT:
        return None
    top = _by_rows([block], replace=replace, outside=outside).maximum
    sums, squares = (np.cumsum(np.abs(line) ** power) for power in (1, 2))
    l1, l2 = float(sums[-1]), float(squares[-1])
    if not replace:
        return _Move(l1 * abs(scale), l2 * scale**2, top, exact=True)
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
        l2, exact = _pair_bound(squares[-1:], squares[-2:-1], 2, signed=signed), False
    return _Move(l1 * abs(scale), l2 * scale**2, top, exact=exact)


def _shadow(block: Block) -> Boxes | None:
    """What bounds a block by few of its attributes; None if nothing does."""
    if not isinstance(block, Boxes):
        return None
    # Where boxes are few, more cells would take long and hardly tell more of them apart.
    return block.shadow(min(SPAN_LIMIT, max(_FEW, _CELLS_OF_A_BOX * block.rows)))


def _in_shadow(shadow: Boxes, top: float, *, replace: bool) -> _Move:
    """A bound by few attributes: a cell is in no more boxes than its shadow is in shadows."""
    norms = [shadow.column_norms(power) for power in (1, 2)]
    if not replace:
        return _Move(float(norms[0].max()), float(norms[1].max()), top, exact=False)
    signed = shadow.limits()[0] < 0
    l1 = _pair_bound(norms[0], norms[0], 1, signed=signed)
    return _Move(l1, _pair_bound(norms[1], norms[1], 2, signed=signed), top, exact=False)


def _clusters(blocks: Sequence[Block]) -> list[list[Block]]:
    """Greedily put blocks together whose attributes span few cells jointly."""
    clusters: list[tuple[dict[str, int], list[Block]]] = []
    for block in sorted(blocks, key=lambda block: -math.prod(block.shape)):
        own = dict(zip(block.names, block.shape, strict=True))
        for sizes, members in clusters:
            joint = sizes | own
            if math.prod(joint.values()) <= SPAN_LIMIT:
                sizes.update(own)
                members.append(block)
                break
        else:
            clusters.append((own, [block]))
    return [members for _, members in clusters]


def _search(
    blocks: Sequence[Block], sizes: dict[str, int], *, replace: bool, outside: bool
) -> _Move:
    """Compare the heaviest columns with each other; bound what lighter ones can do."""
    names = tuple(sizes)
    shape = tuple(sizes.values())
    # Squares of 0/1 weights are the weights, so one search serves both norms.
    powers = (1,) if _binary(blocks) else (1, 2)
    norms = [_joint_norms(blocks, names, shape, power) for power in powers]
    top = _by_rows(blocks, replace=replace, outside=outside).maximum
    if not replace:
        return _Move(float(norms[0].max()), float(norms[-1].max()), top, exact=True)
    signed = any(block.limits()[0] < 0 for block in blocks)
    rows = sum(block.rows for block in blocks)
    width = min(_WEIGHT_LIMIT // max(rows, 1), _PAIR_LIMIT, math.isqrt(_WORK_LIMIT // max(rows, 1)))
    found = [
        _worst_pair(blocks, names, shape, norm, width, power, signed=signed, outside=outside)
        for power, norm in zip(powers, norms, strict=True)
    ]
    return _Move(found[0][0], found[-1][0], top, exact=all(exact for _, exact in found))


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
        return _pair_bound(norms, norms, power, signed=signed), False
    if power == 1 and not _binary(blocks):
        width = min(width, max(2, round((_WEIGHT_LIMIT * 16 / sum(b.rows for b in blocks)) ** 0.5)))
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
    beyond = _pair_bound(norms, lighter, power, signed=signed)
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


def _pair_bound(first: Floats, second: Floats, power: int, *, signed: bool) -> float:
    """What a column of norm `first` and one of norm `second` can differ by at the most."""
    a, b = float(first.max()), float(second.max())
    if power == 2 and signed:
        return (math.sqrt(a) + math.sqrt(b)) ** 2 * (1 + 1e-12)
    return a + b
