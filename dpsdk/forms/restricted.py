"""How far a form moves where neighbours differ in one period of time alone.

A row of a period, or all rows of a person there, move the answers no farther than the same form
would whose weights outside the period are nought: proposition 2 of
docs/explanation/proofs/periods.md. For rows that are added or removed, that is the sum of the
weights' sizes at one of its cells, for which each block has a profile along the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpsdk.forms.blocks import Block, Kronecker
from dpsdk.forms.boxes import Boxes
from dpsdk.forms.factors import MATRIX_LIMIT
from dpsdk.forms.facts import Facts, times_of
from dpsdk.forms.linear import LinearForm
from dpsdk.forms.move import Move
from dpsdk.forms.sensitivity import Sensitivity, of_move
from dpsdk.typing import Floats, Ints

__all__ = ["by_period"]

_WRITTEN = 2**22
"""Blocks of no product are written out, cell by cell, where they have no more cells."""

_CELLS = 2**20
"""Of longer times, no profile is made: each period counts as the whole."""


def by_period(
    form: LinearForm, facts: Facts, whole: Sensitivity
) -> Iterator[tuple[int, int, Sensitivity]]:
    """Ranges of numbers of periods, in order, and how far neighbours in one of them can be moved.

    Periods in which no weight differs from nought are left out.

    Parameters
    ----------
    form
        With integer weights, as it is read: what was rounded apart from its other factors would
        say too little.
    facts
        Those of a table with periods, whose `unit_rows` are of a person and a period.
    whole
        How far neighbours in any period can be moved, which is a bound in each.
    """
    periods, attribute = times_of(facts)
    first, last = periods.range(attribute)
    if attribute.size > _CELLS or all(
        periods.attribute not in block.names for block in form.blocks
    ):
        yield first, last, whole
        return
    starts = np.array(periods.starts(attribute), dtype=np.int64)
    sums = [_summed(form, periods.attribute, power, starts) for power in (1, 2)]
    known: dict[tuple[float, float], Sensitivity] = {}
    begun, before = first, (sums[0][0], sums[1][0])
    for number, pair in enumerate(zip(*sums, strict=True), first):
        if pair != before:
            yield from _part(form, facts, whole, (begun, number - 1), before, known)
            begun, before = number, pair
    yield from _part(form, facts, whole, (begun, last), before, known)


def _part(
    form: LinearForm,
    facts: Facts,
    whole: Sensitivity,
    numbers: tuple[int, int],
    pair: tuple[float, float],
    known: dict[tuple[float, float], Sensitivity],
) -> Iterator[tuple[int, int, Sensitivity]]:
    if not pair[0]:
        return
    if pair not in known:
        known[pair] = whole
        if all(map(math.isfinite, pair)):
            move = of_move(Move(*pair, pair[0], exact=False), form, facts)
            l1, squared = min(move.l1, whole.l1), min(move.l2_squared, whole.l2_squared)
            known[pair] = Sensitivity(l1, squared, min(move.l1, whole.maximum), exact=False)
    yield *numbers, known[pair]


def _summed(form: LinearForm, name: str, power: int, starts: Ints) -> Floats:
    """For each period the largest sum over the functions of |weight| ** power, or more."""
    total = np.zeros(len(starts))
    for block in form.blocks:
        profile = _profile(block, name, power)
        total += profile if isinstance(profile, float) else np.maximum.reduceat(profile, starts)
    return total


def _profile(block: Block, name: str, power: int) -> Floats | float:
    """The largest such sum at the cells of each time; one number where all may have it.

    It is infinite where it would take too long to find.
    """
    if name not in block.names:
        return _largest(block, power)
    axis = block.names.index(name)
    if isinstance(block, Kronecker):
        beside = [one.largest_norms() for place, one in enumerate(block.factors) if place != axis]
        most = abs(block.scale) ** power * math.prod([norms[power - 1] for norms in beside])
        return np.asarray(block.factors[axis].column_norms(power) * most)
    if _is_small(block):
        norms = block.column_norms(power)
        others = tuple([place for place in range(norms.ndim) if place != axis])
        return np.asarray(norms.max(axis=others))
    return _largest(block, power)


def _largest(block: Block, power: int) -> float:
    """The largest such sum at any cell, or more."""
    if isinstance(block, Kronecker):
        norms = [one.largest_norms()[power - 1] for one in block.factors]
        return float(abs(block.scale) ** power * math.prod(norms))
    return float(block.column_norms(power).max()) if _is_small(block) else math.inf


def _is_small(block: Block) -> bool:
    cells = math.prod(block.shape)
    # Of boxes, corners tell.
    return cells <= _WRITTEN and (isinstance(block, Boxes) or cells * block.rows <= MATRIX_LIMIT)
