"""The cost of runs that are all fixed beforehand: sharper than a filter, and no filter.

Everything here takes the list of guarantees as declared before the first answer was seen. Stopping
early is fine; choosing a later run, or its parameters, by earlier answers is not, and a `Plan` is
therefore no `Composition`. docs/explanation/proofs/composition-plan.md has the theorems.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown, to_fraction, to_integer, to_positive, to_probability
from dpsdk.accounting.charges import leak, pure_epsilon, zcdp_rho
from dpsdk.accounting.conversion import zcdp_epsilon
from dpsdk.accounting.directed import float_up, fraction_up
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = ["Plan", "advanced_epsilon", "heterogeneous_epsilon", "optimal_epsilon", "plan"]

Form = Literal["loose", "middle", "tight"]

_LOOSE_LIMIT = Fraction("1.2564")
"""e^x - 1 ≤ 2x holds up to x = 1.25643..."""

_SLACK = 1.0 + 1e-12
"""Covers the rounding of the few float operations of a closed form."""


def _count(value: int) -> int:
    count = to_integer("count", value, "a positive integer")
    if count < 1:
        raise InvalidArgument("count", "a positive integer", shown(value))
    return count


def advanced_epsilon(epsilon: Real, count: int, delta: Real, form: Form = "tight") -> float:
    """The ε of `count` runs of pure ε by advanced composition.

    √(2 T ln(1/δ)) ε plus 2 T ε² (loose), T ε (e^ε - 1) (middle) or T ε tanh(ε/2) (tight).

    Parameters
    ----------
    epsilon
        The pure ε of each run, positive; at most 1.2564 in the loose form, which is false beyond.
    count
        The number of runs T, fixed beforehand.
    delta
        Strictly between 0 and 1; leaks of the runs come on top.
    form
        Which of the three.

    Raises
    ------
    InvalidArgument
        Names the parameter that is out of range.

    Notes
    -----
    Dwork, Rothblum and Vadhan (2010); the tight form by Kairouz, Oh and Viswanath (2015).
    """
    size, runs, allowed = to_positive("epsilon", epsilon), _count(count), float(_open(delta))
    each = float(size)
    if form == "loose":
        if size > _LOOSE_LIMIT:
            raise InvalidArgument("epsilon", "at most 1.2564 in the loose form", shown(epsilon))
        mean = 2.0 * each
    elif form == "middle":
        mean = math.expm1(each)
    else:
        mean = math.tanh(each / 2.0)
    return (math.sqrt(-2.0 * runs * math.log(allowed)) * each + runs * each * mean) * _SLACK


def _open(delta: Real) -> Fraction:
    return to_probability("delta", delta)


def heterogeneous_epsilon(epsilons: Iterable[Real], delta: Real) -> float:
    """The ε of runs of different pure ε by the heterogeneous theorem.

    With S the sum of ε tanh(ε/2) and W the sum of ε², the least of the sum of ε,
    S + √(2 W ln(e + √W/δ)) and S + √(2 W ln(1/δ)).

    Parameters
    ----------
    epsilons
        The pure ε of each run, all fixed beforehand, none negative.
    delta
        Strictly between 0 and 1; leaks of the runs come on top.

    Raises
    ------
    InvalidArgument
        Names the parameter that is out of range.

    Notes
    -----
    Kairouz, Oh and Viswanath (2015), Theorem 3.5.
    """
    allowed = float(_open(delta))
    sizes: list[float] = []
    for value in epsilons:
        size = to_fraction("epsilons", value, "finite numbers, at least 0")
        if size < 0:
            raise InvalidArgument("epsilons", "finite numbers, at least 0", shown(value))
        sizes.append(float(size))
    total = math.fsum(sizes)
    mean = math.fsum(size * math.tanh(size / 2.0) for size in sizes)
    squares = math.fsum(size * size for size in sizes)
    mixed = mean + math.sqrt(2.0 * squares * math.log(math.e + math.sqrt(squares) / allowed))
    tail = mean + math.sqrt(-2.0 * squares * math.log(allowed))
    return min(total, mixed, tail) * _SLACK


def _optimal_delta(epsilon: float, each: float, count: int) -> float:
    """The δ at ε of `count` randomised responses, exact but for float rounding."""
    # Only a loss above ε counts, so only so many flips against it.
    most = math.ceil((count - epsilon / each) / 2.0)
    if most <= 0:
        return 0.0
    flips = np.arange(most, dtype=np.float64)
    loss = (count - 2.0 * flips) * each
    choices = np.concatenate(([0.0], np.cumsum(np.log((count - flips[:-1]) / flips[1:]))))
    mass = choices - flips * each - count * math.log1p(math.exp(-each))
    weight = -np.expm1(np.minimum(epsilon - loss, 0.0))
    top = float(mass.max())
    return math.exp(top) * float(np.sum(np.exp(mass - top) * weight))


def optimal_epsilon(epsilon: Real, count: int, delta: Real, *, leak_each: Real = 0) -> float:
    """The smallest ε of `count` runs of the same (ε, leak): no theorem can give less.

    Parameters
    ----------
    epsilon
        The pure ε of each run, positive.
    count
        The number of runs, fixed beforehand.
    delta
        Strictly between 0 and 1, the leaks included.
    leak_each
        The δ of each run.

    Returns
    -------
    float
        To nine digits and rounded up; infinity where the leaks alone exceed δ.

    Raises
    ------
    InvalidArgument
        Names the parameter that is out of range.

    Notes
    -----
    Kairouz, Oh and Viswanath (2015), Theorem 3.3; takes time in proportion to the count.
    """
    each, runs = float(to_positive("epsilon", epsilon)), _count(count)
    allowed, leaks = _open(delta), to_probability("leak_each", leak_each, zero=True)
    kept = math.exp(runs * math.log1p(-float(leaks)))
    goal = (float(allowed) - (1.0 - kept if kept < 0.5 else -math.expm1(math.log(kept)))) / kept
    # Log-binomials of n runs carry a relative error of some n times the rounding unit.
    goal *= 1.0 - 1e-12 * (1.0 + runs * 1e-3)
    if goal <= 0.0:
        return math.inf
    low, high = 0.0, runs * each
    if _optimal_delta(0.0, each, runs) <= goal:
        return 0.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        if _optimal_delta(middle, each, runs) <= goal:
            high = middle
        else:
            low = middle
    return high


def _runs(value: Mapping[Guarantee, int]) -> tuple[tuple[Guarantee, int], ...]:
    return tuple(value.items())


@frozen
class Plan:
    """Runs that were all declared before the first of them, with how often each occurs.

    Not a `Composition`: what it says holds only if no run was chosen by earlier answers.
    """

    runs: tuple[tuple[Guarantee, int], ...] = field(converter=_runs)

    def bounds(self, delta: Real) -> dict[str, float]:
        """Every theorem's ε at this δ, by its name; those that do not apply are left out.

        Parameters
        ----------
        delta
            Strictly between 0 and 1, leaks included.

        Raises
        ------
        UnsupportedGuarantee
            If no theorem prices one of the runs.
        """
        leaks = sum((leak(run) * count for run, count in self.runs), Fraction(0))
        left = _open(delta) - leaks
        pure = [(pure_epsilon(run), count) for run, count in self.runs]
        sizes = [(size, count) for size, count in pure if size is not None]
        found: dict[str, float] = {}
        if left < 0:
            return found
        if len(sizes) == len(pure):
            total = sum((size * count for size, count in sizes), Fraction(0))
            found["basic"] = float_up(fraction_up(total))
        if left == 0:
            return found
        rho = sum((zcdp_rho(run) * count for run, count in self.runs), Fraction(0))
        found["zCDP"] = zcdp_epsilon(rho, left)
        if len(sizes) == len(pure):
            each = [size for size, count in sizes for _ in range(count)]
            found["heterogeneous"] = heterogeneous_epsilon(each, left)
            if len(set(each)) == 1 and each[0]:
                found["optimal"] = optimal_epsilon(each[0], len(each), left)
        return found

    def epsilon(self, delta: Real) -> float:
        """The least of `bounds`, or infinity where the leaks alone exceed δ."""
        return min(self.bounds(delta).values(), default=math.inf)


def plan(runs: Iterable[Guarantee]) -> Plan:
    """Declare runs before the first of them.

    Parameters
    ----------
    runs
        What is proven of each; the order does not matter.
    """
    counts: dict[Guarantee, int] = {}
    for run in runs:
        counts[run] = counts.get(run, 0) + 1
    return Plan(counts)
