"""Gaussian differential privacy: the (ε, δ) of a unit Gaussian shifted by μ, and back.

All bounds are in decimals that are rounded to the safe side;
docs/explanation/proofs/composition-envelope.md derives them.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from dpsdk._checks import to_positive, to_probability
from dpsdk.accounting.numbers import (
    DOWN,
    UP,
    exp_down,
    exp_up,
    float_up,
    fraction_down,
    fraction_up,
    sqrt_down,
    sqrt_up,
    to_nonnegative,
)
from dpsdk.accounting.prices.conversion import zcdp_epsilon, zcdp_start
from dpsdk.typing import Real

__all__ = [
    "HALF_PI_UP",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_start",
    "mills",
    "randomised_response_mu_squared",
]

_PI_DOWN = Decimal(
    "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348"
)
_PI_UP = DOWN.add(_PI_DOWN, Decimal("1e-88"))
_ROOT_DOWN = sqrt_down(DOWN.multiply(2, _PI_DOWN))
_ROOT_UP = sqrt_up(UP.multiply(2, _PI_UP))

HALF_PI_UP = Fraction("1.570796326794896619231321692")
"""Above π/2."""

_HALF = Decimal("0.5")
_SERIES_LIMIT = 12
_LEVELS = 300
_RELATIVE = Decimal("1e125")
_SHRINK = tuple(
    # Not by the context that an application has set for itself.
    DOWN.subtract(1, Decimal(text))
    for text in ("1e-20", "1e-16", "1e-12", "1e-9", "1e-6", "1e-3")
)
_CONVERGED = Decimal("1e-22")


def mills(t: Decimal) -> tuple[Decimal, Decimal]:
    """Bounds of Mills' ratio Φ(-t)/φ(t).

    Up to t = 12 by Φ(-t)/φ(t) = √(π/2) e^(t²/2) - the sum of t^(2k+1)/(2k+1)!!, stopped where a
    term is at most half the one before, so that the rest is at most the last term. Beyond by
    Laplace's continued fraction: with I_n the integral of (x-t)^n φ(x)/n! above t, integration by
    parts gives I_(n-1) = t I_n + (n+1) I_(n+1), so that q_n = I_(n-1)/I_n is t + (n+1)/q_(n+1),
    lies above t, and the ratio is 1/q_0.
    """
    if t > _SERIES_LIMIT:
        low, high = t, UP.add(t, UP.divide(_LEVELS + 1, t))
        for n in range(_LEVELS - 1, -1, -1):
            low, high = DOWN.add(t, DOWN.divide(n + 1, high)), UP.add(t, UP.divide(n + 1, low))
        return DOWN.divide(1, high), UP.divide(1, low)
    size = t.copy_abs()
    square_down, square_up = DOWN.multiply(t, t), UP.multiply(t, t)
    term_down = term_up = sum_down = sum_up = size
    odd = 3
    while UP.multiply(term_up, _RELATIVE) > sum_up or UP.multiply(2, square_up) > odd:
        term_down = DOWN.divide(DOWN.multiply(term_down, square_down), odd)
        term_up = UP.divide(UP.multiply(term_up, square_up), odd)
        sum_down, sum_up = DOWN.add(sum_down, term_down), UP.add(sum_up, term_up)
        odd += 2
    sum_up = UP.add(sum_up, term_up)
    peak_down = DOWN.multiply(
        DOWN.multiply(_HALF, _ROOT_DOWN), exp_down(DOWN.multiply(_HALF, square_down))
    )
    peak_up = UP.multiply(UP.multiply(_HALF, _ROOT_UP), exp_up(UP.multiply(_HALF, square_up)))
    if t >= 0:
        return DOWN.subtract(peak_down, sum_up), UP.subtract(peak_up, sum_down)
    return DOWN.add(peak_down, sum_down), UP.add(peak_up, sum_up)


def _density_up(low: Decimal, high: Decimal) -> Decimal:
    """An upper bound of φ between two points."""
    nearest = low if low > 0 else high if high < 0 else Decimal(0)
    half_square = DOWN.multiply(_HALF, DOWN.multiply(nearest, nearest))
    return UP.divide(exp_up(half_square.copy_negate()), _ROOT_DOWN)


def _density_down(low: Decimal, high: Decimal) -> Decimal:
    """A lower bound of φ between two points."""
    furthest = max(low.copy_abs(), high.copy_abs())
    half_square = UP.multiply(_HALF, UP.multiply(furthest, furthest))
    return DOWN.divide(exp_down(half_square.copy_negate()), _ROOT_UP)


def _delta_up(epsilon: Decimal, mu: Decimal) -> tuple[Decimal, Decimal]:
    """An upper bound of δ at ε, and its slope in μ, which is φ(A)."""
    low = DOWN.subtract(DOWN.divide(epsilon, mu), UP.multiply(_HALF, mu))
    high = UP.subtract(UP.divide(epsilon, mu), DOWN.multiply(_HALF, mu))
    far = UP.add(UP.divide(epsilon, mu), UP.multiply(_HALF, mu))
    slope = _density_up(low, high)
    if high < -_SERIES_LIMIT:
        # δ is then close to 1: what it lacks is φ(A) (M(-A) + M(B)).
        tail = DOWN.add(mills(low.copy_negate())[0], mills(far)[0])
        return UP.subtract(1, DOWN.multiply(_density_down(low, high), tail)), slope
    delta = UP.multiply(slope, UP.subtract(mills(low)[1], mills(far)[0]))
    return min(delta, Decimal(1)), slope


def gdp_start(epsilon: Real, delta: Real) -> Fraction:
    """The largest μ² such that μ-GDP is certified to give (ε, δ), rounded down; 0 at δ = 0.

    ε is at least 0, δ in [0, 1); `InvalidArgument` names what is out of range.
    """
    bound = to_nonnegative("epsilon", epsilon)
    return _gdp_start(bound, to_probability("delta", delta, zero=True))


@lru_cache(4096)
def _gdp_start(epsilon: Fraction, delta: Fraction) -> Fraction:
    rho = zcdp_start(epsilon, delta)
    if not rho:
        return Fraction(0)
    # A Gaussian of this μ has that ρ, so the search starts where (ε, δ) already holds. Newton's
    # steps in ln μ only suggest a figure; what is returned was checked.
    start = sqrt_down(fraction_down(2 * rho))
    target, goal = fraction_down(epsilon), fraction_down(delta)
    log_goal, mu = DOWN.ln(goal), start
    for _ in range(40):
        reached, slope = _delta_up(target, mu)
        gap = DOWN.subtract(log_goal, DOWN.ln(reached))
        step = DOWN.divide(DOWN.multiply(gap, reached), DOWN.multiply(slope, mu))
        mu = max(start, DOWN.multiply(mu, DOWN.exp(min(step, Decimal(1)))))
        if step.copy_abs() < _CONVERGED:
            break
    for factor in _SHRINK:
        shrunk = DOWN.multiply(mu, factor)
        if shrunk > start and _delta_up(target, shrunk)[0] <= goal:
            return Fraction(DOWN.multiply(shrunk, shrunk))
    return 2 * rho


def gdp_delta(mu: Real, epsilon: Real) -> float:
    """The δ of μ-Gaussian differential privacy at ε, rounded up.

    μ, the distance of the two Gaussians in standard deviations, is positive, and ε at least 0;
    `InvalidArgument` names what is out of range.
    """
    distance = to_positive("mu", mu)
    bound = to_nonnegative("epsilon", epsilon)
    return min(1.0, float_up(_delta_up(fraction_down(bound), fraction_up(distance))[0]))


def gdp_epsilon(mu: Real, delta: Real) -> float:
    """The smallest ε, to nine digits and rounded up, of μ-Gaussian differential privacy at δ.

    μ, the distance of the two Gaussians in standard deviations, is positive, and δ strictly between
    0 and 1; `InvalidArgument` names what is out of range.
    """
    distance, allowed = fraction_up(to_positive("mu", mu)), to_probability("delta", delta)
    goal = fraction_down(allowed)
    if _delta_up(Decimal(0), distance)[0] <= goal:
        return 0.0
    low, high = 0.0, zcdp_epsilon(Fraction(UP.multiply(distance, distance)) / 2, allowed)
    while high - low > 1e-10 * high and high < math.inf:
        if not low:
            middle = high * 1e-16
        elif high > 4.0 * low:
            middle = math.sqrt(low) * math.sqrt(high)
        else:
            middle = low + (high - low) / 2.0
        if not middle:
            break
        if _delta_up(DOWN.plus(Decimal(middle)), distance)[0] <= goal:
            high = middle
        else:
            low = middle
    return high


@lru_cache(4096)
def randomised_response_mu_squared(epsilon: Fraction) -> Fraction:
    """An upper bound of the smallest μ² such that every ε-DP run is μ-GDP.

    μ = -2 Φ⁻¹(1/(1+e^ε)), where the curve of μ-GDP meets the corner of randomised response. Since
    Φ(-z) ≤ e^(-z²/2)/2, never more than μ² = 8ε. And since the log-odds of Φ are convex in z > 0,
    with slope 4φ(0) at 0, never more than μ² = (π/2) ε², which is close for small ε.
    """
    largest = min(8 * epsilon, HALF_PI_UP * epsilon * epsilon)
    if not epsilon or not Fraction(1, 10**9) < epsilon < 600:
        return largest
    corner = DOWN.divide(1, UP.add(1, exp_up(fraction_up(epsilon))))
    guess = Decimal(repr(-NormalDist().inv_cdf(float(corner))))
    for excess in ("1e-14", "1e-12", "1e-9", "1e-6"):
        z = UP.multiply(guess, UP.add(1, Decimal(excess)))
        if UP.multiply(mills(z)[1], _density_up(z, z)) <= corner:
            return min(largest, Fraction(UP.multiply(4, UP.multiply(z, z))))
    return largest
