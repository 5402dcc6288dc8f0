"""Noisy residuals made possible ones: every table of the plan non-negative, and all of one piece.

Nearest residuals by a weighted sum of squares whose tables have no negative cell: its dual is
maximised by accelerated projected ascent, as Mullins et al. (2024) do for residuals. Wider
residuals are trusted less, by a quarter for each attribute, as they do, since non-negativity
otherwise moves the total and the narrow tables. What is left negative is raised by moving all
tables towards even ones, which keeps them of one piece. All of it is post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from dpsdk._records import define
from dpsdk.errors import TooLarge
from dpsdk.forms.residuals import Names, composed, decomposed
from dpsdk.mechanisms.residual_planner.residuals import ResidualPlan, Residuals
from dpsdk.typing import Floats, Ints

__all__ = ["check_fits", "possible"]

CELL_LIMIT = 2**22
"""Of tables of more cells than this in all a fit would take minutes."""

_STEPS = 300
_CLOSE = 1e-3
"""Ascent stops where moving so far towards even tables leaves no cell negative."""

_LOOKED = 10
_TRUST = 4.0


@define(eq=False)
class _Tables:
    """All tables of one shape: where their residuals are, and what holds their cells up."""

    shape: tuple[int, ...]
    parts: list[Ints]
    """For each subset of their axes, in binary order, the places of the residuals' numbers."""
    spread: list[float]
    """How many cells of the table share one number of that residual."""
    step: Floats
    raised: Floats
    momentum: Floats

    def gathered(self, values: Floats) -> Floats:
        """The tables of residuals."""
        return composed([values[places] for places in self.parts], self.shape)

    def add_to(self, push: Floats) -> None:
        """Add the force on each residual, where the tables are pushed by the momentum."""
        parts = decomposed(self.momentum, len(self.shape))
        for places, spread, part in zip(self.parts, self.spread, parts, strict=True):
            np.add.at(push, places, part / spread)


def check_fits(plan: ResidualPlan) -> None:
    """Refuse a plan whose tables are too large to be made possible ones."""
    sizes = dict(plan.sizes)
    cells = sum([math.prod([sizes[name] for name in names]) for names in plan.tables])
    if cells > CELL_LIMIT:
        advice = "leave nonnegative=True out, or ask for fewer tables"
        raise TooLarge("tables without negative cells", cells, CELL_LIMIT, "cells", advice)


def possible(residuals: Residuals, *, exact_total: bool, most: float) -> Residuals:
    """The residuals of tables without a negative cell, near to noisy ones."""
    plan, noisy = residuals.plan, residuals.values
    weights = np.repeat([_TRUST ** len(names) for names in plan.sets], plan.cells)
    if exact_total:
        weights[0] = 0.0  # the residual of no attributes comes first
    groups = _tables(plan, weights)
    values, pace = noisy.copy(), 1.0
    for turn in range(_STEPS):
        faster = (1 + math.sqrt(1 + 4 * pace * pace)) / 2
        for group in groups:
            raised = np.maximum(group.momentum - group.step * group.gathered(values), 0.0)
            group.momentum = raised + (pace - 1) / faster * (raised - group.raised)
            group.raised = raised
        pace = faster
        push = np.zeros(len(noisy))
        for group in groups:
            group.add_to(push)
        values = noisy + weights * push
        if turn % _LOOKED == _LOOKED - 1 and _short(groups, values) <= _CLOSE:
            break
    return Residuals(plan, _raised(groups, values, most))


def _tables(plan: ResidualPlan, weights: Floats) -> list[_Tables]:
    """The tables that were asked for, by shape."""
    sizes = dict(plan.sizes)
    first: dict[Names, int] = dict(
        zip(plan.sets, itertools.accumulate(plan.cells[:-1], initial=0), strict=True)
    )
    wanted = _ordered([names for names in plan.tables if names], sizes)
    over: dict[Names, int] = dict.fromkeys(plan.sets, 0)
    for names in wanted:
        for part in _subsets(names):
            over[part] += 1
    groups: list[_Tables] = []
    shaped = sorted(wanted, key=lambda names: [sizes[name] for name in names])
    for key, members in itertools.groupby(shaped, key=lambda n: tuple([sizes[x] for x in n])):
        sets = list(members)
        cells = math.prod(key)
        parts, spread = list[Ints](), list[float]()
        bound = np.zeros(len(sets))
        for number, kept in enumerate(itertools.product((False, True), repeat=len(key))):
            shape = tuple(itertools.compress(key, kept))
            own = math.prod(shape)
            starts = np.array([first[_subsets(names)[number]] for names in sets])
            places = starts[:, None] + np.arange(own)
            parts.append(places.reshape(len(sets), *shape))
            spread.append(cells / own)
            counts = np.array([over[_subsets(names)[number]] for names in sets])
            bound += weights[starts] * counts * own / cells
        step = (1 / bound).reshape(-1, *[1] * len(key))
        start = np.zeros((len(sets), *key))
        groups.append(_Tables(key, parts, spread, step, start, start))
    return groups


def _ordered(sets: Sequence[Names], sizes: dict[str, int]) -> list[Names]:
    order = {name: place for place, name in enumerate(sizes)}
    return [tuple(sorted(names, key=order.__getitem__)) for names in sets]


def _subsets(names: Names) -> list[Names]:
    """All subsets, in binary order."""
    return [
        tuple(itertools.compress(names, kept))
        for kept in itertools.product((False, True), repeat=len(names))
    ]


def _short(groups: Sequence[_Tables], values: Floats) -> float:
    """The least share of even tables that leaves no cell negative."""
    total, share = float(values[0]), 0.0
    if total <= 0:
        return 1.0
    for group in groups:
        even = total / math.prod(group.shape)
        lowest = min(float(group.gathered(values).min()), 0.0)
        share = max(share, lowest / (lowest - even))
    return share


def _raised(groups: Sequence[_Tables], values: Floats, most: float) -> Floats:
    total = min(max(float(values[0]), 0.0), most)
    share = _short(groups, values)
    if share >= 1.0 or not total:
        result = np.zeros(len(values))
    else:
        # A little more, for what floats round off where tables are put together.
        result = values * ((1 - min(1.0, share * (1 + 1e-9) + 1e-12)) * total / float(values[0]))
    result[0] = total
    return result
