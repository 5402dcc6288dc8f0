"""From zero-concentrated differential privacy to (ε, δ) and back.

Sources: Bun and Steinke (2016), Proposition 1.3; Canonne, Kamath and Steinke (2020), Corollary 13,
with Asoodeh et al. (2020); docs/explanation/proofs/composition-zcdp.md derives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from dpsdk._checks import shown, to_fraction, to_probability
from dpsdk.accounting.numbers import (
    DOWN,
    UP,
    exp_up,
    float_up,
    floor_steps,
    fraction_down,
    fraction_up,
    from_steps,
    ln_down,
    ln_up,
    sqrt_up,
    to_nonnegative,
)
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = [
    "bun_steinke_epsilon",
    "bun_steinke_start",
    "gaussian_claim",
    "renyi_start",
    "to_order",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_start",
]

_LARGEST = Fraction(10) ** 300
"""Beyond this a float search is out of range; a smaller epsilon only makes the answer smaller."""

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def _best_excess(gain: Callable[[float], float]) -> Decimal:
    """Find an order above 1 where the gain is near its largest; return the excess over 1."""
    best = max((0.5 * node for node in range(-60, 221)), key=gain)
    low, high = best - 0.5, best + 0.5
    for _ in range(40):
        width = _GOLDEN * (high - low)
        if gain(high - width) >= gain(low + width):
            high = low + width
        else:
            low = high - width
    return Decimal(repr(math.exp(0.5 * (low + high))))


def _order_term(excess: float, log_excess: float) -> float:
    return (1.0 + excess) * math.log1p(1.0 / excess) + log_excess


def _order_term_down(excess: Decimal) -> Decimal:
    order = DOWN.add(1, excess)
    return DOWN.add(DOWN.multiply(order, ln_down(DOWN.divide(order, excess))), ln_down(excess))


def _checked(epsilon: Real, delta: Real) -> tuple[Fraction, Fraction]:
    return to_nonnegative("epsilon", epsilon), to_probability("delta", delta, zero=True)


def zcdp_start(epsilon: Real, delta: Real) -> Fraction:
    """The largest ρ such that ρ-zCDP is certified to give (ε, δ), rounded down.

    At every order a > 1, ρ-zCDP gives (ε, δ) as soon as
    ρ ≤ [ε + (ln δ + a ln(a/(a-1)) + ln(a-1)) / (a-1)] / a.

    The answer is 0 where nothing is certified, as at δ = 0. ε is at least 0, δ in [0, 1);
    `InvalidArgument` names what is out of range.
    """
    return _zcdp_start(*_checked(epsilon, delta))


@lru_cache(4096)
def _zcdp_start(epsilon: Fraction, delta: Fraction) -> Fraction:
    if not delta:
        return Fraction(0)
    epsilon = min(epsilon, _LARGEST)
    log_delta_down = ln_down(fraction_down(delta))
    target, log_delta = float(epsilon), float(log_delta_down)

    def gain(log_excess: float) -> float:
        excess = math.exp(log_excess)
        term = log_delta + _order_term(excess, log_excess)
        return (target + term / excess) / (1.0 + excess)

    excess = _best_excess(gain)
    term = DOWN.add(log_delta_down, _order_term_down(excess))
    slope = DOWN.add(fraction_down(epsilon), DOWN.divide(term, excess))
    rho = DOWN.divide(slope, UP.add(1, excess))
    # On the grid, so that a filter with this limit takes one run of just this size.
    return max(Fraction(0), from_steps(floor_steps(Fraction(rho))))


def zcdp_epsilon(rho: Real, delta: Real) -> float:
    """The smallest ε, rounded up, such that ρ-zCDP is certified to give (ε, δ).

    ρ is at least 0, δ strictly between 0 and 1; `InvalidArgument` names what is out of range.
    """
    spent, allowed = to_nonnegative("rho", rho), to_probability("delta", delta)
    if not spent:
        return 0.0
    log_delta_down = ln_down(fraction_down(allowed))
    rate, log_delta = float(min(spent, _LARGEST)), float(log_delta_down)

    def gain(log_excess: float) -> float:
        excess = math.exp(log_excess)
        term = log_delta + _order_term(excess, log_excess)
        return term / excess - (1.0 + excess) * rate

    excess = _best_excess(gain)
    term = DOWN.add(log_delta_down, _order_term_down(excess))
    loss = UP.multiply(UP.add(1, excess), fraction_up(spent))
    return max(0.0, float_up(UP.subtract(loss, DOWN.divide(term, excess))))


def zcdp_delta(rho: Real, epsilon: Real) -> float:
    """The smallest δ, rounded up and at most 1, such that ρ-zCDP is certified to give (ε, δ).

    ρ and ε are at least 0; `InvalidArgument` names what is out of range.
    """
    spent, bound = to_nonnegative("rho", rho), to_nonnegative("epsilon", epsilon)
    if not spent:
        return 0.0
    rate, target = float(min(spent, _LARGEST)), float(min(bound, _LARGEST))

    def gain(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return _order_term(excess, log_excess) - excess * ((1.0 + excess) * rate - target)

    excess = _best_excess(gain)
    slope = UP.subtract(UP.multiply(UP.add(1, excess), fraction_up(spent)), fraction_down(bound))
    exponent = UP.subtract(UP.multiply(excess, slope), _order_term_down(excess))
    return min(1.0, float_up(exp_up(exponent))) if exponent < 0 else 1.0


def to_order(value: Real) -> Fraction:
    """An order of Rényi divergence: above 1."""
    expected = "a finite number above 1"
    order = to_fraction("order", value, expected)
    if order <= 1:
        raise InvalidArgument("order", expected, shown(value))
    return order


def renyi_start(epsilon: Real, delta: Real, order: Real) -> Fraction:
    """The largest Rényi divergence of one order that is certified to give (ε, δ), rounded down.

    It is ε + [ln δ + a ln(a/(a-1)) + ln(a-1)] / (a-1) at the order a; 0 where that is not positive.
    ε is at least 0, δ in [0, 1), the order above 1; `InvalidArgument` names what is out of range.
    """
    return _renyi_start(
        *_checked(epsilon, delta),
        to_order(order),
    )


@lru_cache(4096)
def _renyi_start(epsilon: Fraction, delta: Fraction, order: Fraction) -> Fraction:
    if not delta:
        return Fraction(0)
    low, high = fraction_down(order - 1), fraction_up(order - 1)
    log_ratio = ln_down(DOWN.add(1, DOWN.divide(1, high)))
    term = DOWN.add(DOWN.multiply(DOWN.add(1, low), log_ratio), ln_down(low))
    term = DOWN.add(term, ln_down(fraction_down(delta)))
    limit = DOWN.add(fraction_down(epsilon), DOWN.divide(term, low if term < 0 else high))
    return max(Fraction(0), Fraction(limit))


def bun_steinke_start(epsilon: Real, delta: Real) -> Fraction:
    """The largest ρ with ρ + 2 √(ρ ln(1/δ)) ≤ ε, rounded down; 0 at δ = 0.

    With ρ = e²/2 a run this is W/2 + √(2 W ln(1/δ)) ≤ ε for W the sum of e² (Dwork, Rothblum and
    Vadhan 2010; fully adaptive: Whitehouse, Ramdas, Rogers and Wu 2023).

    ε is at least 0, δ in [0, 1); `InvalidArgument` names what is out of range.
    """
    return _bun_steinke_start(*_checked(epsilon, delta))


@lru_cache(4096)
def _bun_steinke_start(epsilon: Fraction, delta: Fraction) -> Fraction:
    if not delta or not epsilon:
        return Fraction(0)
    log = ln_up(UP.divide(1, fraction_down(delta)))
    target = fraction_down(epsilon)
    # The root of ρ is √(L + ε) - √L = ε / (√(L + ε) + √L), without a difference.
    roots = UP.add(sqrt_up(UP.add(log, fraction_up(epsilon))), sqrt_up(log))
    root = DOWN.divide(target, roots)
    return Fraction(DOWN.multiply(root, root))


def bun_steinke_epsilon(rho: Real, delta: Real) -> float:
    """ρ + 2 √(ρ ln(1/δ)), rounded up: the ε of ρ-zCDP by the simplest conversion.

    ρ is at least 0, δ strictly between 0 and 1; `InvalidArgument` names what is out of range.
    """
    spent, allowed = fraction_up(to_nonnegative("rho", rho)), to_probability("delta", delta)
    log = ln_up(UP.divide(1, fraction_down(allowed)))
    return float_up(UP.add(spent, UP.multiply(2, sqrt_up(UP.multiply(spent, log)))))


def gaussian_claim(rho: Real, delta: Real) -> tuple[Fraction, Fraction]:
    """A proven (ε, δ) for a Gaussian run of ρ, as `DiscreteGaussianGuarantee` takes it.

    ε is rounded up. ρ is at least 0, δ, which the claim may spend, strictly between 0 and 1;
    `InvalidArgument` names what is out of range.
    """
    return Fraction(zcdp_epsilon(rho, delta)), to_probability("delta", delta)
