"""What is measured for a workload of marginals, with which noise, and what follows of errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from attrs import field, frozen

from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, LinearForm
from dpsdk.forms.facts import replaces
from dpsdk.forms.residuals import Names, closure
from dpsdk.kernel import GaussianNoise, MeasureResiduals
from dpsdk.mechanisms.residual_planner.allocation import Problem, least_largest, least_sum
from dpsdk.typing import Floats

__all__ = ["NUMBER_LIMIT", "Objective", "ResidualPlan", "planned", "wanted_sets"]

Objective: TypeAlias = Literal["sum", "max"]

NUMBER_LIMIT = 2**25
"""No plan measures more numbers, 256 MiB, or twice that while they are measured."""

_SUBSET_LIMIT = 2**18

_FINE = 2**12
"""The noisiest residual is multiplied by this at the least, so that scales can be told apart."""

_LONGEST = 2.0**60
_WIDEST = 2.0**50


def wanted_sets(forms: Iterable[LinearForm]) -> tuple[list[Names], list[int]]:
    """The attributes of each table of a workload, each set once, and the set of each block.

    A function is read off the table of the attributes that it depends on.
    """
    found: dict[Names, int] = {}
    places: list[int] = []
    for form in forms:
        for block in form.blocks:
            names = tuple(sorted(block.names, key=form.domain.position))
            places.append(found.setdefault(names, len(found)))
    return list(found), places


def _check_small(sets: Sequence[Names], sizes: Mapping[str, int]) -> None:
    advice = "ask for fewer tables, or for tables of fewer attributes"
    for names in sets:
        # The residuals of all subsets of one table.
        numbers = math.prod([1 + sizes[name] for name in names])
        if numbers > NUMBER_LIMIT:
            raise TooLarge("ResidualPlanner", numbers, NUMBER_LIMIT, "numbers", advice)
    parts = sum([2 ** len(names) for names in sets])
    if parts > _SUBSET_LIMIT:
        raise TooLarge("ResidualPlanner", parts, _SUBSET_LIMIT, "parts of tables", advice)


@frozen(eq=False)
class ResidualPlan:
    """Which residuals are measured, and how finely. Public, and made of public numbers alone.

    Parameters
    ----------
    sets
        The attributes of each residual: all subsets of those of the tables that were asked for.
    scales
        What each is multiplied by; see `dpsdk.kernel.MeasureResiduals`.
    tables
        The attributes of the tables that were asked for.
    gap
        Of the objective "max": by how much the largest variance may be above the least there is,
        as a share; 0 for "sum". Under replace-one the least of what the sum of the costs allows.
    """

    sets: tuple[Names, ...]
    scales: tuple[int, ...]
    tables: tuple[Names, ...]
    gap: float
    sizes: tuple[tuple[str, int], ...] = field(repr=False)

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """How many numbers each residual has."""
        sizes = dict(self.sizes)
        return tuple([math.prod([sizes[name] for name in names]) for names in self.sets])

    @cached_property
    def known(self) -> frozenset[frozenset[str]]:
        """The sets, in whatever order of their attributes."""
        return frozenset(map(frozenset, self.sets))

    def copy(self) -> ResidualPlan:
        """The same in an object that is nobody else's."""
        return ResidualPlan(self.sets, self.scales, self.tables, self.gap, self.sizes)

    def request(self, noise: GaussianNoise) -> MeasureResiduals:
        """What is asked of the kernel, for all residuals at once."""
        return MeasureResiduals(self.sets, self.scales, noise)


def planned(
    sets: Sequence[Names], weights: Floats, objective: Objective, facts: Facts, rho: float
) -> ResidualPlan:
    """The plan for tables of such attributes.

    Raises
    ------
    TooLarge
        If its residuals have more than 2^25 numbers.
    """
    sizes = {name: facts.domain[name].size for names in sets for name in names}
    _check_small(sets, sizes)
    # Residuals of one shape lie side by side, so that they can be worked on at once.
    shaped = sorted(closure(sets), key=lambda names: (len(names), [sizes[n] for n in names]))
    numbers = sum([math.prod([sizes[name] for name in names]) for names in shaped])
    if numbers > NUMBER_LIMIT:
        advice = "ask for fewer tables, or for tables of fewer attributes"
        raise TooLarge("ResidualPlanner", numbers, NUMBER_LIMIT, "numbers", advice)
    replace = replaces(facts.neighbors)
    problem = Problem.of(sets, shaped, sizes, replace=replace, outside=bool(facts.outside))
    squares, gap = (
        (least_sum(problem, weights), 0.0)
        if objective == "sum"
        else least_largest(problem, weights)
    )
    deviations = np.sqrt(squares / rho) * facts.unit_rows
    cells = [math.prod([sizes[name] for name in names]) for names in shaped]
    scales = _scales(deviations, np.array(cells, dtype=np.float64), facts)
    ordered = tuple([(name, sizes[name]) for name in facts.domain.names if name in sizes])
    return ResidualPlan(tuple(shaped), scales, tuple(sets), gap, ordered)


def _scales(deviations: Floats, cells: Floats, facts: Facts) -> tuple[int, ...]:
    """Integers about inverse to the noise that each residual is to have, times its cells.

    All noise has one width, in units of 1 / scale: as fine as leaves integers within 64 bits.
    """
    paid = deviations > 0
    if not paid.any():
        return tuple([1] * len(deviations))
    widths = deviations[paid] * cells[paid]
    finest = float(deviations[paid].min())
    width = min(_FINE * float(widths.max()), _LONGEST / max(facts.row_limit, 1) * finest, _WIDEST)
    wanted = np.ones(len(deviations))
    wanted[paid] = np.maximum(np.rint(width / widths), 1.0)
    return tuple([int(scale) for scale in wanted])


def check_weights(weights: tuple[float, ...] | None, blocks: int) -> Floats:
    """One weight for each table, all the same if none are given.

    Raises
    ------
    InvalidArgument
        If there is another number of them.
    """
    if weights is None:
        return np.ones(blocks)
    if len(weights) != blocks:
        expected = f"one number for each of the {blocks:,} tables of the workload"
        raise InvalidArgument("weights", expected, f"{len(weights):,} numbers")
    return np.array(weights)
