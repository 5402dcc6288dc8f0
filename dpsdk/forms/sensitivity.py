"""How far the rows of one person can move the answers of a linear form.

Notation: W has a row for each function and a column W_x for each cell x of the domain; the cell
outside the domain, where there is one, has the zero column. Under add-remove neighbours one row
moves the answers by one column; under replace-one by the difference of two; and k rows of one
person move them k times as far, where all of them are alike. The largest move of one row is
exact for plain marginals, for a single block of simple structure, and wherever the touched
attributes span at most 2**20 cells, or corners, within a public limit of work. Elsewhere, since
the problem is NP-hard in general, it is a proven upper bound
(docs/explanation/proofs/sensitivity.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import evolve, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms.blocks import Block, Kronecker
from dpsdk.forms.boxes import Boxes
from dpsdk.forms.factors import PAIR_LIMIT, Factor
from dpsdk.forms.facts import Facts
from dpsdk.forms.linear import EXACT, LinearForm
from dpsdk.forms.move import Move, by_rows, one_function, pair_bound
from dpsdk.forms.ramp import Ramp, Within
from dpsdk.forms.ranges import Identity
from dpsdk.forms.residuals import Residual, moves
from dpsdk.forms.search import LOOK_STEPS, WORK_LIMIT, search
from dpsdk.forms.slopes import Slopes, move_of
from dpsdk.forms.squares import Squares
from dpsdk.typing import Ints

__all__ = ["Sensitivity", "of_one_function", "sensitivity"]

_POWERS = (1, 2)

SPAN_LIMIT = 2**20
"""Touched attributes that span more cells are bounded, not searched."""

WHOLE_LIMIT = SPAN_LIMIT
"""Of attributes that span more cells, only knots are searched."""

_NO_KNOTS = np.zeros(0, dtype=np.int64)

_FEW = 2**10
_CELLS_OF_A_BOX = 2**6
"""Shadows of boxes span no more cells than so many for each box, or `_FEW`."""

_APART = 2**6
"""So many sets of attributes are also looked at one by one, where a search was not exact."""

_SMALL_SPAN = 2**10
"""The sum of absolute moves of residuals is searched over so many cells, and bounded beyond."""

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


def sensitivity(form: LinearForm, facts: Facts, *, power: int | None = None) -> Sensitivity:
    """The sensitivities of a form under the facts' neighbour relation.

    Parameters
    ----------
    power
        Which figure is worth a search, 1 for `l1` and 2 for `l2_squared`; both, by default. The
        other one is an upper bound as well, but may be a loose one, which `exact` is not about.

    Raises
    ------
    InvalidArgument
        If products of weights are so large that floats might not hold the result, or the power is
        none of these.
    """
    if power is not None and power not in _POWERS:
        raise InvalidArgument("power", "1, 2 or None", shown(power))
    powers = _POWERS if power is None else (power,)
    if not form.reach < _REACH_LIMIT:
        expected = f"so small that no product of them exceeds {_REACH_LIMIT:.0e}"
        raise InvalidArgument("weights", expected, f"up to {form.reach:.3g}")
    if form.rows == 1:
        move = one_function(*form.blocks[0].limits(), facts)
    elif (known := _residuals(form, powers, facts)) is not None:
        return _of_unit(known, facts)
    else:
        move = _stack([block for block, _ in form.groups], powers, WORK_LIMIT, facts)
    return of_move(move, form, facts)


def of_move(move: Move, form: LinearForm, facts: Facts) -> Sensitivity:
    """The sensitivities of a form one row of which moves it so far, as floats work it out."""
    attributes, largest = len(form.domain.names), form.largest
    one = _rounded_up(move, form.rows, attributes, largest, integral=form.integral)
    return _of_unit(one, facts)


@lru_cache(1024)
def of_one_function(low: float, high: float, facts: Facts) -> Sensitivity:
    """The sensitivities of one function with integer weights, from the smallest to the largest."""
    move = one_function(low, high, facts)
    one = _rounded_up(move, 1, 1, max(abs(low), abs(high)), integral=True)
    return _of_unit(one, facts)


def _of_unit(one: Sensitivity, facts: Facts) -> Sensitivity:
    """Bound the effect of all rows of one person by that of one row: proposition 11 of the note."""
    moved = one.times(facts.unit_rows)
    # A person cannot have more rows than the table, and may have none that are alike.
    alike = facts.unit_rows == 1 or not facts.distinct
    attained = one.exact and alike and facts.unit_rows <= max(facts.row_limit, 1)
    return moved if attained == one.exact else evolve(moved, exact=False)


def _rounded_up(
    move: Move, rows: int, attributes: int, largest: float, *, integral: bool
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


def _stack(blocks: Sequence[Block], powers: tuple[int, ...], work: int, facts: Facts) -> Move:
    if all(block.partition for block in blocks) or all(map(_of_labels, blocks)):
        return _marginals(blocks, facts)
    gradients = [block for block in blocks if isinstance(block, Slopes)]
    if len(gradients) == len(blocks):
        return move_of(gradients, facts)
    only = blocks[0] if len(blocks) == 1 else None
    if only is not None:
        move = _masked_marginal(only, facts) or _variances(only, facts) or only.move(facts)
        if move is not None:
            return move
    bound = by_rows(blocks, facts)
    if isinstance(only, Kronecker):
        bound = _product(only, bound.maximum, facts).least(bound)
    sizes = _sizes(blocks)
    if math.prod(sizes.values()) > WHOLE_LIMIT or any(map(_rises, blocks)):
        blocks = _at_knots(blocks)
        sizes, only = _sizes(blocks), blocks[0] if only is not None else None
        if isinstance(only, Kronecker):
            bound = _product(only, bound.maximum, facts).least(bound)
    if math.prod(sizes.values()) <= SPAN_LIMIT:
        bound = search(blocks, sizes, bound, powers, work, facts).least(bound)
        clusters = list(_by_names(blocks).values())
        if bound.exact or not 1 < len(clusters) <= _APART:
            return bound
    elif only is not None:
        return _in_shadow(only, bound, facts) if isinstance(only, Boxes) else bound
    else:
        clusters = _clusters(blocks, work // LOOK_STEPS // len(_by_names(blocks)))
    # Clusters each at their worst, or what else is known.
    parts = [_stack(cluster, powers, work // len(clusters), facts) for cluster in clusters]
    l1, l2 = sum(part.l1 for part in parts), sum(part.l2 for part in parts)
    return Move(l1, l2, bound.maximum, exact=False).least(bound)


def _sizes(blocks: Sequence[Block]) -> dict[str, int]:
    return {
        name: size for block in blocks for name, size in zip(block.names, block.shape, strict=True)
    }


def _rises(block: Block) -> bool:
    """True if it has weights that no form had as long as all cells were searched."""
    return isinstance(block, Kronecker) and any(
        isinstance(factor.inner if isinstance(factor, Within) else factor, Ramp | Squares)
        for factor in block.factors
    )


def _at_knots(blocks: Sequence[Block]) -> list[Block]:
    """The same functions of the cells alone that are knots along every attribute.

    From one knot to the next all functions of all blocks run straight, so that no cell between two
    moves them farther: proposition 17 of the note.
    """
    knots = _knots(blocks)
    return [block.at([knots[name] for name in block.names]) for block in blocks]


def _knots(blocks: Sequence[Block]) -> dict[str, Ints | None]:
    knots: dict[str, Ints | None] = {}
    sloped = set[str]()
    for block in blocks:
        for axis, name in enumerate(block.names):
            own, other = block.knots(axis), knots.get(name, _NO_KNOTS)
            knots[name] = None if own is None or other is None else np.union1d(own, other)
            if isinstance(block, Kronecker) and not block.factors[axis].counting:
                sloped.add(name)
    # Cells from an end of a range to the next all weigh alike, so that the first stands for them.
    return {
        name: own if own is None or name in sloped else own[(own == 0) | np.isin(own - 1, own)]
        for name, own in knots.items()
    }


def _by_names(blocks: Sequence[Block]) -> dict[tuple[str, ...], list[Block]]:
    groups: dict[tuple[str, ...], list[Block]] = {}
    for block in blocks:
        groups.setdefault(block.names, []).append(block)
    return groups


def _residuals(form: LinearForm, powers: tuple[int, ...], facts: Facts) -> Sensitivity | None:
    """Integer multiples of residuals, and of the count of all rows; None for other forms."""
    scales: list[int] = []
    for block in form.blocks:
        if not isinstance(block, Kronecker) or not block.scale.is_integer():
            return None
        if any(not isinstance(factor, Residual) for factor in block.factors):
            return None
        scales.append(int(block.scale))
    sets = [block.names for block in form.blocks]
    sizes = {name: form.domain[name].size for name in form.names}
    found = moves(sets, scales, sizes, replace=facts.replaced, outside=facts.outside)
    # A column of n I - J has the absolute sum 2 (n - 1), and two of them differ by 2 n.
    shapes = [[sizes[name] for name in names] for names in sets]
    columns = [
        abs(scale) * math.prod(2 * (size - 1) for size in shape)
        for scale, shape in zip(scales, shapes, strict=True)
    ]
    l1 = sum(columns)
    exact = found.exact
    if facts.replaced:
        # Twice the sum is a bound, and what is asked for decides whether it has to be exact.
        l1 = 2 * sum(column for column, shape in zip(columns, shapes, strict=True) if shape)
        alone = len(shapes) == 1 and len(shapes[0]) == 1 and shapes[0][0] > 1
        if alone:
            l1 = abs(scales[0]) * 2 * shapes[0][0]
        elif facts.outside:
            l1 = max(l1, sum(columns))
        exact = exact and (alone or not l1 or 1 not in powers)
        if not exact and 1 in powers and math.prod(sizes.values()) <= _SMALL_SPAN:
            searched = _stack([block for block, _ in form.groups], (1,), WORK_LIMIT, facts)
            l1, exact = min(l1, math.ceil(searched.l1)), found.exact and searched.exact
    return Sensitivity(Fraction(l1), Fraction(found.squared), Fraction(found.maximum), exact)


def _in_shadow(boxes: Boxes, bound: Move, facts: Facts) -> Move:
    """Bound boxes by few attributes: a cell is in no more of them than its shadow in shadows."""
    # Where boxes are few, more cells would take long and hardly tell more of them apart.
    shadow = boxes.shadow(min(SPAN_LIMIT, max(_FEW, _CELLS_OF_A_BOX * boxes.rows)))
    if shadow is None:
        return bound
    norms, signed = [shadow.column_norms(power) for power in _POWERS], shadow.limits()[0] < 0
    l1, l2 = (
        pair_bound(norm, norm, power, signed=signed) if facts.replaced else float(norm.max())
        for power, norm in zip(_POWERS, norms, strict=True)
    )
    return Move(l1, l2, bound.maximum, exact=False).least(bound)


def _clusters(blocks: Sequence[Block], span: int) -> list[list[Block]]:
    """Greedily put blocks together whose attributes span few cells jointly."""
    span = min(span, SPAN_LIMIT)
    clusters: list[tuple[dict[str, int], list[Block]]] = []
    for block in sorted(blocks, key=lambda block: -math.prod(block.shape)):
        own = dict(zip(block.names, block.shape, strict=True))
        for sizes, members in clusters:
            joint = sizes | own
            if math.prod(joint.values()) <= span:
                sizes.update(own)
                members.append(block)
                break
        else:
            clusters.append((own, [block]))
    return [members for _, members in clusters]


def _of_labels(block: Block) -> bool:
    """True of marginals of cells or of labels alone, which the first two labels tell apart."""
    if block.rows == 1:
        return block.partition
    return (
        isinstance(block, Kronecker)
        and block.scale == 1.0
        and all(isinstance(one, Identity) or _labelled(one) for one in block.factors)
    )


def _labelled(factor: Factor) -> bool:
    """True of the first cells one by one, of which there are two or more."""
    inner = factor.inner if isinstance(factor, Within) and not factor.first else None
    return isinstance(inner, Identity) and inner.rows > 1


def _marginals(blocks: Sequence[Block], facts: Facts) -> Move:
    """Each counts a record once; two records without a common label move all of them twice.

    The first and the last cell of every attribute are such, also where labels are grouped; the
    first two where extra cells are left out.
    """
    if not facts.replaced:
        count = float(len(blocks))
        return Move(count, count, 1.0, exact=True)
    split = sum(1 for block in blocks if block.rows > 1)
    # Either two such records, or, seen from the outside cell, one count in every marginal.
    moved = float(max(2 * split, len(blocks) if facts.outside else 0))
    return Move(moved, moved, 1.0 if moved else 0.0, exact=True)


def _masked_marginal(block: Block, facts: Facts) -> Move | None:
    """A marginal of the rows that meet a condition, which may weigh them; None for other blocks.

    Two records that both meet it under different labels move two entries by the largest weight,
    which is more than any pair moves that involves the outside cell.
    """
    if not isinstance(block, Kronecker):
        return None
    labelled = [one for one in block.factors if one.partition or _labelled(one)]
    condition = [one for one in block.factors if not (one.partition or _labelled(one))]
    if math.prod(factor.rows for factor in labelled) < 2:
        return None
    if any(factor.rows > 1 or float(factor.extents()[0][0]) < 0 for factor in condition):
        return None
    weight = block.scale * math.prod(float(factor.extents()[1][0]) for factor in condition)
    if weight < 0:
        return None
    moved = 2 if facts.replaced else 1
    return Move(moved * weight, moved * weight**2, weight, exact=True)


def _variances(block: Block, facts: Facts) -> Move | None:
    """The numbers of a variance, in each group of the rows that meet a condition.

    By the theorem of docs/explanation/proofs/variance.md; None for other blocks, and for few places
    that do not attain it, which are searched.
    """
    if not isinstance(block, Kronecker):
        return None
    inner = [factor.inner if isinstance(factor, Within) else factor for factor in block.factors]
    found = [factor for factor in inner if isinstance(factor, Squares)]
    labelled = [factor for factor in block.factors if factor.partition]
    others = [f for f, own in zip(block.factors, inner, strict=True) if own not in found]
    condition = [factor for factor in others if not factor.partition]
    if len(found) != 1 or any(f.rows > 1 or f.limits()[0] < 0 for f in condition):
        return None
    groups = math.prod(factor.rows for factor in labelled)
    l1, l2, attained = found[0].moves(groups, replaced=facts.replaced)
    if not attained and found[0].size <= PAIR_LIMIT:
        return None
    weight = abs(block.scale) * math.prod(factor.limits()[1] for factor in condition)
    top = by_rows([block], facts).maximum
    return Move(l1 * weight, l2 * weight**2, top, exact=attained)


def _product(block: Kronecker, top: float, facts: Facts) -> Move:
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
    if not facts.replaced:
        return Move(l1, l2, top, exact=True)
    # What floats round off in sums of both signs is small beside the norms, not beside the result.
    terms = sum(factor.rows + 8 for factor in block.factors)
    slack = 0.0 if block.integral and terms * l2 < EXACT / 16 else terms * l2 * 2.0**-50
    apart = 2 * l2 - 2 * scale * scale * low + slack
    return Move(2 * l1, max(apart, l2 if facts.outside else 0.0), top, exact=False)
