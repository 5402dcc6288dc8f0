"""Theorems 3.8 and 4.6 of Ullman (2015) in numbers: what Figure 3 promises, and what it takes.

All constants are those of the figure, corrected where they are wrong, and every condition is that
of an exact tail. docs/explanation/proofs/convex-pmw.md has the proof.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsdk._records import frozen
from dpsdk.accounting.prices.conversion import zcdp_start
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import GaussianNoise, Terms, Watching
from dpsdk.mechanisms.convex.descent import NoisyDescent
from dpsdk.mechanisms.convex.descent_bounds import Descent, Problem, Runs
from dpsdk.mechanisms.convex.noise import Concentration
from dpsdk.mechanisms.numeric_sparse import equal_share, split_pure, split_watch
from dpsdk.mechanisms.theorems import fewest_rows

__all__ = ["Figure", "Promise", "figure", "least_alpha", "least_rows", "printed_rows"]

_SOLVER = Fraction(1, 100)
"""This part of α is for solvers on the hypothesis, and as much for roundings of a gap."""

_WATCH, _GRADIENT, _ORACLE = Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)
"""The parts of a round, in ρ."""

_FLOATS = 2.0**-50
"""A bound of the error of the gradient of a ridge in floats, as a part of its length."""

_STEPS = 60


@frozen
class Promise:
    """A promised error, and the constants of the models that it is promised for."""

    epsilon: Fraction
    delta: Fraction
    beta: float
    """The probability that some answer is farther off."""
    queries: int
    problem: Problem
    oracle: NoisyDescent
    potential: float
    """The largest relative entropy of a table from the first hypothesis."""

    @property
    def scale(self) -> float:
        """S, which |⟨θ − θ′, ∇ℓ_x(θ)⟩| does not exceed for any record and any two models."""
        return self.problem.lipschitz * self.problem.diameter


@frozen
class Figure:
    """How Figure 3 spends and decides, for an error alpha that it keeps."""

    alpha: float
    """The promised error, in the unit of the average loss."""
    updates: int
    """T = 64 S² K / α², rounded up, with K the potential, ln|X| from the uniform start."""
    step: float
    """η = √(K / T) / S: the factor 1 / S is missing in print."""
    threshold: float
    """Of the gap of a model: three quarters of α."""
    solver: float
    """By how much θ̂ may exceed the hypothesis's minimum."""
    unit: float
    """The sensitivity of the gap of a record that is counted on, 2 S."""
    learning: float
    """By how much the noise of a measured gradient may lessen what an update gains."""
    watching: Watching
    noise: GaussianNoise
    """Of a measured gradient."""
    concentration: Concentration
    bias: float
    """The promised bound of noise and rounding of an average gradient."""
    oracle: Fraction
    """The price of an answer of A′, in ρ."""
    runs: Runs
    descent: Descent
    """The descent that A′ is, planned for the constants of all models, so that its bound holds."""


def figure(alpha: float, promise: Promise, terms: Terms) -> Figure | None:
    """The constants for an error, if it is kept; None if some noise may be too large for it."""
    facts = terms.facts
    rows, scale = max(facts.rows or 1, 1), promise.scale
    if not (alpha > 0.0 and scale > 0.0):
        return None
    ratio = scale / alpha
    wanted = 64 * ratio * ratio * promise.potential
    if not wanted < math.inf:  # nor is it NaN
        return None
    updates = max(1, math.ceil(wanted))
    each = equal_share(zcdp_start(promise.epsilon, promise.delta), updates)
    try:
        watching = split_watch(split_pure(each * _WATCH))
        noise = GaussianNoise(equal_share(each * _GRADIENT))
        watching.price(terms)
        concentration, bias = Runs(noise, 1).concentration(promise.problem, facts, rows)
        unit, part = 2 * scale, promise.beta / 6
        below = watching.below(part, facts, updates) * unit / rows
        above = watching.above(part, facts, promise.queries) * unit / rows
        share = equal_share(each * _ORACLE)
        runs, descent = promise.oracle.planned(promise.problem, terms, share)
        t = math.log(3 * updates * concentration.events / promise.beta)
        length = math.sqrt(concentration.mean_square(t, 1, promise.problem.dimension)) + bias
        learning = _lost(length, promise.problem)
        own = descent.error(promise.beta / (3 * updates))
    except (InvalidArgument, ArithmeticError):
        return None
    one, solver = promise.problem, float(_SOLVER) * alpha
    slack = 2 * solver + _FLOATS * one.ridge * one.farthest * one.diameter
    if not (max(below + slack, above + slack, learning + slack) <= alpha / 4 and own <= alpha):
        return None
    return Figure(
        alpha,
        updates,
        math.sqrt(promise.potential / updates) / scale,
        0.75 * alpha,
        solver,
        unit,
        learning,
        watching,
        noise,
        concentration,
        bias,
        share,
        runs,
        descent,
    )


def _lost(length: float, problem: Problem) -> float:
    """How much less an update gains for noise of this length; a square where a ridge bends."""
    lost = length * problem.diameter
    return min(lost, length**2 / (2.0 * problem.ridge)) if problem.ridge else lost


def least_alpha(promise: Promise, terms: Terms) -> float | None:
    """The least error that Figure 3 keeps, to a thousandth; None if none below S."""
    high = promise.scale
    if figure(high, promise, terms) is None:
        return None
    low = high * 2.0**-40
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        if figure(middle, promise, terms) is None:
            low = middle
        else:
            high = middle
        if high <= low * 1.001:
            break
    return high


def least_rows(alpha: float, promise: Promise, terms: Terms) -> int | None:
    """The least number of rows at which an error is kept, to a thousandth; None below 2^50."""
    return fewest_rows(lambda over: figure(alpha, promise, over) is not None, terms)


def printed_rows(alpha: float, promise: Promise) -> float:
    """4096 S² √(K ln(4/δ)) ln(8kT/β) / (εα²): Theorem 3.8 with what its print leaves out."""
    scale = promise.scale / alpha
    updates = 64 * scale * scale * promise.potential
    root = math.sqrt(promise.potential * math.log(4 / float(promise.delta)))
    logs = math.log(8 * promise.queries * max(updates, 1.0) / promise.beta)
    return 4096 * scale * scale * root * logs / float(promise.epsilon)
