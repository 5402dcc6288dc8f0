"""The Rényi divergence of one run."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.numbers.rounding import (
    DOWN,
    UP,
    exp_down,
    exp_up,
    fraction_down,
    fraction_up,
    ln_down,
    ln_up,
)
from dpsdk.accounting.prices.conversion import to_order
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.typing import Real

__all__ = ["renyi_divergence"]


def renyi_divergence(guarantee: Guarantee, order: Real) -> Fraction:
    """An upper bound of the Rényi divergence of one run at an order above 1, its leak set aside.

    Raises
    ------
    UnsupportedGuarantee
        If no theorem gives one.
    InvalidArgument
        If the order is not above 1.

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
