"""The Rényi filter: divergences of one order, fixed beforehand, add up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import ClassVar

from attrs import field, frozen

from dpsdk.accounting.additive import AdditiveComposition, begun, refuse_leaks, to_leak_share
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.calibration import largest
from dpsdk.accounting.charges import figures, pure_epsilon, zcdp_rho
from dpsdk.accounting.composition import State
from dpsdk.accounting.conversion import renyi_start, to_order, zcdp_start
from dpsdk.accounting.directed import (
    DOWN,
    UP,
    exp_down,
    exp_up,
    fraction_down,
    fraction_up,
    ln_down,
    ln_up,
    sqrt_down,
    sqrt_up,
    truncated,
)
from dpsdk.accounting.figures import figure
from dpsdk.accounting.grid import STEPS
from dpsdk.accounting.guarantee import Guarantee, PureGuarantee
from dpsdk.accounting.remembered import remembered
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = ["RenyiComposition", "renyi_divergence"]


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


@remembered
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


_FAR = 700
_ROUNDING = 2.0**-38
"""More than exp and log1p of any usual library are off, for values that are at most ln 2."""


@remembered
def _charged(guarantee: Guarantee, top: int, bottom: int) -> int:
    """The divergence as charged: with logarithms in floats, so above by next to nothing.

    The order is `top` over `bottom`.
    """
    priced = figures(guarantee)
    above, below = priced.epsilon or (0, 0)
    rho, over = priced.rho
    divergence = -(-top * rho * STEPS // (bottom * over))
    if below:
        size = above / below if above < _FAR * below else float(_FAR)
        a = top / bottom if top < bottom << 60 else 2.0**60
        near, far = math.exp(-size), math.exp(-min((2.0 * a - 1.0) * size, _FAR))
        saved = min(math.log1p(far) - math.log1p(near) + _ROUNDING, 0.0)
        # Never positive, so that rounding up takes the smaller size.
        part, whole = saved.as_integer_ratio()
        least = -(-above * STEPS // below) - (-part * bottom * STEPS // (whole * (top - bottom)))
        divergence = min(divergence, least)
    return divergence


def _suggested(order: float, left: float) -> float:
    """About the ε at which the divergence of randomised response is what is left."""
    # It is at least ε - ln 2 / (order - 1).
    below, above = 0.0, left + 0.7 / (order - 1.0)
    for _ in range(80):
        middle = (below + above) / 2.0
        logs = math.log1p(math.exp(-(2.0 * order - 1.0) * middle)) - math.log1p(math.exp(-middle))
        concentrated = order * middle * math.tanh(middle / 2.0)
        reached = min(concentrated, middle + logs / (order - 1.0))
        below, above = (middle, above) if reached <= left else (below, middle)
    return below


def _useful_order(epsilon: Fraction, delta: Fraction) -> int | None:
    """About the order at which ρ-zCDP is converted best; None where none certifies anything."""
    if not (rho := zcdp_start(epsilon, delta)):
        return None
    log = ln_up(fraction_up(1 / delta))
    order = 1 + int(sqrt_up(UP.divide(log, fraction_down(rho))).to_integral_value(ROUND_CEILING))
    while not renyi_start(epsilon, delta, order):
        order *= 2
    return order


@frozen
class RenyiComposition(AdditiveComposition):
    """The divergences of one order add up; better than zCDP for few large runs of bounded loss.

    Parameters
    ----------
    order
        Above 1, and fixed before the first run: about 1 + √(ln(1/δ) / (expected sum of ρ)).
    leak_share
        The share of the budget's δ, in [0, 1), kept for the leaks of (ε, δ) runs; 0 refuses them.

    Notes
    -----
    Feldman and Zrnic (2021), Lécuyer (2021); the proof is that of
    docs/explanation/proofs/composition-zcdp.md at one order.
    """

    title: ClassVar[str] = "Rényi composition"
    axis: ClassVar[str] = "divergence"

    order: Fraction = field(converter=to_order)
    leak_share: Fraction = field(default=Fraction(0), converter=to_leak_share)

    def begin(self, budget: Budget) -> State:
        """The state in which nothing was charged.

        Raises
        ------
        InvalidArgument
            If this order certifies nothing for the budget; it names one that does.
        """
        limit, leaks = self.limits(budget)
        if not limit and (order := _useful_order(budget.epsilon, budget.delta - leaks)):
            expected = f"larger for {budget}, such as {order}"
            raise InvalidArgument("order", expected, figure(self.order))
        return begun(self.title, budget, limit, leaks)

    def limits(self, budget: Budget) -> tuple[Fraction, Fraction]:
        """The divergence that is certified for the budget, and the share of δ kept for leaks."""
        leaks = budget.delta * self.leak_share
        return renyi_start(budget.epsilon, budget.delta - leaks, self.order), leaks

    def cost(self, guarantee: Guarantee) -> tuple[int, int]:
        """The divergence and the leak of one run, in steps of their grids, rounded up."""
        priced = figures(guarantee)
        if priced.leak_steps and not self.leak_share:
            refuse_leaks(self.title, guarantee)
        return _charged(guarantee, *self.order.as_integer_ratio()), priced.leak_steps

    def largest_epsilon(self, state: State) -> Fraction:
        """The largest ε whose randomised response has at most the divergence that is left."""
        left, order = self._left(state), self.order

        def fits(epsilon: Fraction) -> bool:
            return self.charge(state, PureGuarantee(epsilon)) is not None

        # The divergence is at most ε and at most order · ε²/2.
        low = truncated(max(left, Fraction(sqrt_down(fraction_down(2 * left / order)))))
        if low <= 0 or not (left < 10**6 and order < 10**12):
            return largest(fits, low)
        for cut in (1e-13, 1e-11, 1e-9):
            epsilon = truncated(Fraction(_suggested(float(order), float(left)) * (1.0 - cut)))
            if epsilon > low and fits(epsilon):
                return epsilon
        return largest(fits, low)

    def largest_rho(self, state: State) -> Fraction:
        """What is left, divided by the order."""
        return self._left(state) / self.order
