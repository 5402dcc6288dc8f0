"""Equal runs of `measure` that are paid together: their noise, for a total of theirs."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from attrs import frozen

from dpsdk._checks import shown, to_positive
from dpsdk.accounting import Budget, Guarantee
from dpsdk.accounting.numbers.search import largest
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.forms import Facts
from dpsdk.forms.facts import replaces
from dpsdk.forms.linear import EXACT
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Noise, Terms
from dpsdk.mechanisms.convex.concentration import (
    Concentration,
    GaussianConcentration,
    LaplaceConcentration,
)
from dpsdk.mechanisms.convex.oracle import Total
from dpsdk.mechanisms.convex.theorems import Problem
from dpsdk.release import Cost

__all__ = ["Runs", "runs_within"]

_FINEST = 40
_SLACK = 1 + 2.0**-30
"""What the kernel's bounds of sensitivities exceed the longest differences by, and more."""


@frozen
class Runs:
    """So many runs of `measure` with one noise, to be paid before the first."""

    noise: Noise
    count: int

    @property
    def cost(self) -> Cost:
        """What pays for all of them, whatever is measured."""
        return Cost([(self.noise.cover, self.count)])

    def shared(self, count: int) -> Runs:
        """About as much for another number of runs, by what their ρ or ε add up to."""
        part = Fraction(self.count, count)
        if isinstance(self.noise, GaussianNoise):
            return Runs(GaussianNoise(self.noise.rho * part), count)
        return Runs(LaplaceNoise(self.noise.epsilon * part), count)

    def concentration(
        self, problem: Problem, facts: Facts, rows: float
    ) -> tuple[Concentration, float]:
        """Of the noise of an average gradient of so many rows, and how far rounding may move it.

        Noise follows the sensitivity of each gradient; these are bounds for all gradients that the
        constants allow.
        """
        step, count = self.step(problem, facts), max(rows, 1.0)
        differing = (2 if replaces(facts.neighbors) else 1) * facts.unit_rows
        root = math.sqrt(problem.dimension)
        # Roundings of two columns differ by a step an entry; and squares and sums are rounded up.
        grown = step * (facts.unit_rows * root + 1.0)
        bias = 0.5 * step * root * max(facts.row_limit, 1) / count
        if isinstance(self.noise, GaussianNoise):
            moved = differing * problem.lipschitz * _SLACK + grown
            deviation = moved / math.sqrt(2.0 * float(self.noise.rho))
            return GaussianConcentration(deviation / count), bias
        moved = differing * problem.sum_of_slopes * _SLACK
        moved += step * (facts.unit_rows * problem.dimension + 1.0)
        return LaplaceConcentration(moved / float(self.noise.epsilon) / count), bias

    def step(self, problem: Problem, facts: Facts) -> float:
        """No lattice of a gradient is coarser, in the unit of the loss."""
        # Weights are scaled so that the largest is from ½ to 1. One row moves an entry by 2 at the
        # most, and all rows together are to move it by a thousandth of the noise's scale.
        scale = self.noise.log_scale(2.0 * facts.unit_rows)
        rows = max(facts.row_limit, 1)
        wanted = max(1.0, min(math.log2(rows * 512) - scale, _FINEST))
        bits = max(0.0, min(wanted, math.log2(EXACT / rows) - 3.0))
        return 2.0 * problem.lipschitz * math.pow(2.0, -bits)


def runs_within(terms: Terms, total: Total, count: int) -> Runs:
    """The runs of a gradient's noise that cost no more than a total together, by their covers.

    Laplace noise for a pure ε, Gaussian noise for an (ε, δ) or a ρ. Under a composition that adds
    pairs of ε and δ each run gets its part of both.

    Raises
    ------
    InvalidArgument
        If nothing can be measured for so little.
    """
    noise = _noise(terms, total, count)
    if noise is None:
        expected = f"large enough that {count:,} runs fit by the composition of the session"
        raise InvalidArgument("epsilon and delta", expected, shown(total))
    return Runs(noise, count)


def _noise(terms: Terms, total: Total, count: int) -> Noise | None:
    if not isinstance(total, Budget):
        return GaussianNoise.covered(to_positive("rho", total) / count)
    if not total.delta:
        epsilon = _largest(terms, total, count, LaplaceNoise)
        return LaplaceNoise(epsilon) if epsilon else None
    try:
        rho = _largest(terms, total, count, GaussianNoise.covered)
    except UnsupportedGuarantee:
        return _claimed(terms, total, count)
    return GaussianNoise.covered(rho) if rho else None


def _claimed(terms: Terms, total: Budget, count: int) -> Noise | None:
    """Noise whose every run is worth its part of the ε and the δ."""
    delta = total.delta / count

    def made(epsilon: Fraction) -> GaussianNoise | None:
        rho = claim_rho(epsilon, delta)
        if not rho:
            return None
        whole = GaussianNoise.covered(rho)
        return GaussianNoise(whole.rho, (epsilon, delta))

    each, fits = total.epsilon / count, _fitting(terms, total, count)
    for epsilon in (each, each * (1 - Fraction(1, 10**9))):
        noise = made(epsilon)
        if noise is not None and fits(noise.cover):
            return noise
    return None


def _largest(
    terms: Terms, total: Budget, count: int, made: Callable[[Fraction], Noise]
) -> Fraction:
    fits = _fitting(terms, total, count)
    return largest(lambda amount: fits(made(amount).cover), total.epsilon / count)


def _fitting(terms: Terms, total: Budget, count: int) -> Callable[[Guarantee], bool]:
    """Whether so many runs of a guarantee cost no more than the total."""
    whole = terms.composition
    start = whole.begin(total)

    def fits(run: Guarantee) -> bool:
        times = whole.rounds(start, [(run, count)])
        return times is None or times >= 1

    return fits
