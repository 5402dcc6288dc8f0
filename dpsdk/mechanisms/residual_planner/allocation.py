"""How noise is divided among residuals so that marginals have the least variance.

The variance of a cell of the marginal on S is the sum over the subsets T of S of
σ_T² p_T / n_(S-T)², with n_(S-T) the number of cells of the attributes that T leaves out; and T
costs a_T / (2 σ_T²), where a_T is p_T under add-remove. docs/explanation/proofs/residuals.md has
the proofs. All of it is public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from dpsdk.forms.residuals import Names, subsets
from dpsdk.typing import Floats, Ints

__all__ = ["GAP", "Problem", "least_largest", "least_sum"]

GAP = 1e-3
"""The largest variance is at most so much above what is proven to be the least there is."""

_STEPS = 2000


@frozen(eq=False)
class Problem:
    """Which marginals are wanted, which residuals they are made of, and what these cost.

    Parameters
    ----------
    prices
        a_T of each residual; 0 where it is free, and known exactly.
    weights
        p_T of each residual; 0 where an attribute has one cell.
    marginals, residuals, shares
        Triples: marginal number i has residual number j in it, spread over cells, and its square
        share is 1 / n_(S-T)².
    """

    prices: Floats
    weights: Floats
    marginals: Ints
    residuals: Ints
    shares: Floats
    count: int
    """How many marginals there are."""

    @classmethod
    def of(
        cls,
        wanted: Sequence[Names],
        measured: Sequence[Names],
        sizes: Mapping[str, int],
        *,
        replace: bool,
        outside: bool,
    ) -> Problem:
        """That of sets of attributes; `measured` has all subsets of the wanted ones."""
        places = {names: place for place, names in enumerate(measured)}
        weights = np.array([_projection(names, sizes) for names in measured])
        prices = weights.copy()
        if replace:
            for place, names in enumerate(measured):
                # Two rows that differ in one attribute only, that of the fewest cells.
                least = min([sizes[name] for name in names], default=0)
                prices[place] *= 2 / (1 - 1 / least) if least > 1 else float(outside and not names)
        rows: list[int] = []
        columns: list[int] = []
        shares: list[float] = []
        for row, names in enumerate(wanted):
            cells = math.prod([sizes[name] for name in names])
            for part in subsets(names):
                rows.append(row)
                columns.append(places[part])
                shares.append((math.prod([sizes[name] for name in part]) / cells) ** 2)
        marginals, residuals = np.array(rows), np.array(columns)
        return cls(prices, weights, marginals, residuals, np.array(shares), len(wanted))

    def variances(self, squares: Floats) -> Floats:
        """The variance of a cell of each marginal, from σ² of each residual."""
        terms = (squares * self.weights)[self.residuals] * self.shares
        return np.bincount(self.marginals, terms, self.count).astype(np.float64, copy=False)

    def pressures(self, costs: Floats) -> Floats:
        """For each residual the sum of the costs of marginals that it is in, by square share."""
        terms = costs[self.marginals] * self.shares
        found = np.bincount(self.residuals, terms, len(self.prices))
        return found.astype(np.float64, copy=False)


def _projection(names: Names, sizes: Mapping[str, int]) -> float:
    return math.prod([1 - 1 / sizes[name] for name in names])


def least_sum(problem: Problem, costs: Floats) -> Floats:
    """σ² for which the sum of costs times variances is least, at a ρ of 1 by the sum of prices.

    By Cauchy's inequality σ_T² is as √(a_T / (p_T C_T)), with C_T the pressure of T. Zero where a
    residual is free.
    """
    pressed = problem.pressures(costs)
    paid = (problem.prices > 0) & (pressed > 0)
    squares = np.zeros(len(pressed))
    squares[paid] = np.sqrt(problem.prices[paid] / (problem.weights[paid] * pressed[paid]))
    spent = float((problem.prices[paid] / squares[paid]).sum()) / 2
    return squares * spent


def least_largest(problem: Problem, weights: Floats) -> tuple[Floats, float]:
    """σ² for which the largest weight times variance is least, and the gap that is proven of it.

    The least sum is concave in the costs, and at costs that add up to one no larger than the least
    largest value. Its slope is the variances, so costs are multiplied by their squares: such a step
    never lowers it. Stops where the largest value is within `GAP` of it.
    """
    costs = np.full(problem.count, 1 / problem.count)
    best, gap, floor = least_sum(problem, costs * weights), math.inf, 0.0
    top = math.inf
    for _ in range(_STEPS):
        squares = least_sum(problem, costs * weights)
        values = problem.variances(squares) * weights
        floor = max(floor, float(costs @ values))
        largest = float(values.max())
        if largest < top:
            best, top = squares, largest
        gap = top / floor - 1 if floor else 0.0
        if gap <= GAP:
            break
        costs = np.maximum(costs * (values / largest) ** 2, 1e-30)
        costs /= costs.sum()
    return best, gap
