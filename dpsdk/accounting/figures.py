"""Figures for people from the lines of books."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.declared.runs import declare
from dpsdk.accounting.filters.composition import Composition
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.ledger.lines import Line
from dpsdk.accounting.numbers import LEAK_STEPS, float_up, fraction_up, from_steps
from dpsdk.accounting.prices.conversion import zcdp_epsilon
from dpsdk.accounting.prices.run import prices_of
from dpsdk.accounting.spent import Readings, Spent

__all__ = ["readings_of", "spent_of"]


def spent_of(
    composition: Composition, lines: Sequence[Line], charges: int, guarantee: Budget, of: str
) -> Spent:
    """Sum up the spending in so many charges: of several lines the largest of each figure."""
    sizes = [line.epsilon for line in lines]
    known = [size for size in sizes if size is not None]
    states = [line.state for line in lines]
    return Spent(
        fraction=max(map(composition.fraction, states)),
        epsilon=from_steps(max(known)) if len(known) == len(sizes) else None,
        rho=from_steps(max(line.rho for line in lines)),
        delta=max(map(composition.leaked, states)),
        charges=charges,
        guarantee=guarantee,
        of=of,
    )


def readings_of(
    line: Line,
    runs: Sequence[Guarantee],
    always: Budget,
    bound: Anytime | None,
    level: Fraction,
) -> Readings:
    """Read the cost of runs, which amount to a line, at one δ; see `Readings`."""
    rho = from_steps(line.rho)
    leaks = from_steps(sum(prices_of(run).leak_steps for run in runs), LEAK_STEPS)
    summed = zcdp_epsilon(rho, level - leaks) if leaks < level else math.inf
    known = declare(runs).epsilon(level)
    # What the session keeps in any case bounds what a figure at no smaller δ may say.
    cap = float_up(fraction_up(always.epsilon))
    if level >= always.delta:
        summed, known = min(summed, cap), min(known, cap)
    anytime = None
    if bound is not None and not leaks:
        anytime = bound.epsilon(rho)
        anytime = min(anytime, cap) if bound.delta >= always.delta else anytime
    return Readings(level, always, anytime, summed, known)
