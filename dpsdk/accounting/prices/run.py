"""Prices of one run, in rationals: as pure ε, as ρ of zCDP, as a Rényi divergence, and as a leak.

docs/explanation/proofs/composition-zcdp.md holds the proofs.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
    check_guarantee,
    whole_of,
)
from dpsdk.accounting.numbers import (
    DOWN,
    LEAK_STEPS,
    STEPS,
    UP,
    exp_down,
    exp_up,
    fraction_down,
    fraction_up,
    ln_down,
    ln_up,
)
from dpsdk.accounting.prices.conversion import to_order
from dpsdk.typing import Real

__all__ = [
    "Prices",
    "bounded_range_rho",
    "leak",
    "prices_of",
    "pure_epsilon",
    "pure_rho",
    "renyi_divergence",
    "zcdp_rho",
]

_DEPTH, _SHORT = 24, 6
_BITS = 192
_LARGE = 10**6
"""From here on, and below 10^-42, the fraction would only cost time: ε and ε²/2 are as good."""

_SERIES, _NARROW = Fraction(1, 10), Fraction(1, 10**15)
_PROVEN = Fraction("4.7")
_DIVISORS = (42525, 4200, 405, 36, 2)
_MULTIPLE = math.lcm(*_DIVISORS)


class Prices(NamedTuple):
    """The prices of one run, its leak set aside, as numerators over denominators and grid steps.

    Steps are rounded up. The numbers may have common divisors.
    """

    epsilon: tuple[int, int] | None
    rho: tuple[int, int]
    leak: tuple[int, int]
    epsilon_steps: int | None
    rho_steps: int
    leak_steps: int


def _steps(ratio: tuple[int, int], steps: int = STEPS) -> int:
    return -(-ratio[0] * steps // ratio[1])


@lru_cache(4096)
def prices_of(guarantee: Guarantee) -> Prices:
    """All that compositions ask of one run; told by period, of the dearest period at most."""
    guarantee = whole_of(check_guarantee(guarantee))
    pure, leaks = (0, 1), (0, 1)
    if isinstance(guarantee, DiscreteLaplaceGuarantee):
        if guarantee.shift:
            pure = guarantee.shift * guarantee.scale.denominator, guarantee.scale.numerator
        rho = _pure_rho(*pure)
    elif isinstance(guarantee, DiscreteGaussianGuarantee):
        rho = guarantee.rho.as_integer_ratio()
        if not guarantee.free:
            return Prices(None, rho, leaks, None, _steps(rho), 0)
    elif isinstance(guarantee, PureGuarantee):
        pure = guarantee.epsilon.as_integer_ratio()
        rho = _pure_rho(*pure)
    elif isinstance(guarantee, BoundedRangeGuarantee):
        pure = guarantee.eta.as_integer_ratio()
        rho = bounded_range_rho(guarantee.eta)
    elif isinstance(guarantee, ApproximateGuarantee):
        pure, leaks = guarantee.epsilon.as_integer_ratio(), guarantee.delta.as_integer_ratio()
        rho = _pure_rho(*pure)
    else:
        raise TypeError(type(guarantee).__name__)
    return Prices(pure, rho, leaks, _steps(pure), _steps(rho), _steps(leaks, LEAK_STEPS))


def pure_epsilon(guarantee: Guarantee) -> Fraction | None:
    """The pure ε of a run once its leak is set aside; None where it has none, as a Gaussian."""
    epsilon = prices_of(guarantee).epsilon
    return None if epsilon is None else Fraction(*epsilon)


def leak(guarantee: Guarantee) -> Fraction:
    """The probability with which a run may tell everything: 0 but for (ε, δ) guarantees."""
    return Fraction(*prices_of(guarantee).leak)


def zcdp_rho(guarantee: Guarantee) -> Fraction:
    """An upper bound of the ρ of zCDP of a run, once its leak is set aside."""
    return Fraction(*prices_of(guarantee).rho)


def pure_rho(epsilon: Fraction) -> Fraction:
    """An upper bound of ε tanh(ε/2), the smallest ρ of every ε-DP run.

    Let A_n(x) be the sum over j of x^(2j) / ((2j)!! (2n+2j-1)!!). Then A_0 = cosh x and
    x A_1 = sinh x, and comparing powers gives A_n = (2n+1) A_(n+1) + x² A_(n+2). So the ratios
    q_n = A_n / A_(n+1) are positive for x > 0, with tanh x = x / q_0 and
    q_n = 2n+1 + x² / q_(n+1), which is Lambert's continued fraction. Putting the lower bound 2n+1
    for q_n makes q_(n-1) an upper bound, q_(n-2) a lower one, and so on; from an even n, q_0 comes
    out too small and tanh x too large. Beyond its reach tanh < 1 is the better bound.

    The q_n are kept as integers, rounded up for odd n and down for even n.
    """
    return Fraction(*_pure_rho(*epsilon.as_integer_ratio()))


def _pure_rho(above: int, below: int) -> tuple[int, int]:
    if above > _LARGE * below:
        return above, below
    square, divisor = above * above, below * below
    if above * _LARGE**7 < below:
        return square, 2 * divisor
    # x² = (ε/2)², with as many binary places as twice those of the q_n.
    scaled = (square << 2 * _BITS) // (4 * divisor)
    start = _SHORT if 10 * above < below else _DEPTH
    q = 2 * start + 1 << _BITS
    for n in range(start - 1, -1, -1):
        q = (2 * n + 1 << _BITS) + (scaled // q if n % 2 == 0 else -(-(scaled + 1) // q))
    # ε tanh(ε/2) = ε²/2 over q_0; and ε is the better bound where that is less.
    whole, part = square << _BITS, 2 * divisor * q
    return (whole, part) if whole * below < above * part else (above, below)


def bounded_range_rho(eta: Fraction) -> tuple[int, int]:
    """An upper bound of the ρ of η-bounded range, the smallest for η up to 4.7, as a ratio.

    x - 1 - ln x at x = η / (e^η - 1) is the divergence at the order 1 (Dong, Durfee and Rogers
    2020); that it is the worst of all orders is proven up to η = 4.7, in
    docs/explanation/proofs/composition-zcdp.md. It falls as x grows to 1, so a lower bound of x
    gives an upper bound of it. Small η take a series; large η take η²/8 (Cesar and Rogers 2021) or
    the pure bound.
    """
    if eta <= _SERIES:
        # It is ln(sinh w / w) + w coth w - 1 at w = η/2. Both series alternate, with falling terms
        # for w < π, as those are ζ(2k) (w/π)^(2k) times 1/k and 2.
        above, below = eta.numerator**2, 4 * eta.denominator**2
        if eta < _NARROW:
            return above, 2 * below
        rest, power = 0, 1
        for divisor in _DIVISORS:
            rest, power = above * (_MULTIPLE // divisor * power - rest), power * below
        return rest, _MULTIPLE * power
    cap = min(eta * eta / 8, pure_rho(eta))
    if eta > _PROVEN:
        return cap.as_integer_ratio()
    x = DOWN.divide(fraction_up(eta), UP.subtract(exp_up(fraction_up(eta)), 1))
    exact = Fraction(UP.subtract(UP.subtract(x, Decimal(1)), ln_down(x)))
    return min(cap, exact).as_integer_ratio()


def renyi_divergence(guarantee: Guarantee, order: Real) -> Fraction:
    """An upper bound of the Rényi divergence of one run at an order above 1, its leak set aside.

    Raises `UnsupportedGuarantee` if no theorem gives one; and `InvalidArgument` if the order is not
    above 1.

    Notes
    -----
    The smaller of order · ρ and, where the run is ε-DP, of that of randomised response:
    ε + [ln(1 + e^(-(2a-1)ε)) - ln(1 + e^(-ε))] / (a-1) at the order a.
    """
    return _divergence(guarantee, to_order(order))


@lru_cache(4096)
def _divergence(guarantee: Guarantee, order: Fraction) -> Fraction:
    concentrated = order * zcdp_rho(guarantee)
    epsilon = pure_epsilon(guarantee)
    if epsilon is None:
        return concentrated
    far = exp_up(fraction_down((2 * order - 1) * epsilon).copy_negate())
    near = exp_down(fraction_up(epsilon).copy_negate())
    # Never positive, so that it is divided by the larger bound of a - 1.
    saved = UP.subtract(ln_up(UP.add(1, far)), ln_down(DOWN.add(1, near)))
    saved = min(UP.divide(saved, fraction_up(order - 1)), Decimal(0))
    return min(concentrated, Fraction(UP.add(fraction_up(epsilon), saved)))
