"""The Rényi filter: divergences of one order, fixed beforehand, add up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from attrs import field, frozen

from dpsdk._checks import shown, to_fraction
from dpsdk.accounting.additive import AdditiveComposition, to_leak_share
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.calibration import largest
from dpsdk.accounting.charges import leak, pure_epsilon, zcdp_rho
from dpsdk.accounting.composition import State
from dpsdk.accounting.conversion import renyi_start
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
    truncated,
)
from dpsdk.accounting.grid import LEAK_STEPS, ceil_steps
from dpsdk.accounting.guarantee import Guarantee, PureGuarantee
from dpsdk.accounting.remembered import remembered
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = ["RenyiComposition", "renyi_divergence"]


def _order(value: Real) -> Fraction:
    order = to_fraction("order", value, "a finite number above 1")
    if order <= 1:
        raise InvalidArgument("order", "a finite number above 1", shown(value))
    return order


@remembered
def renyi_divergence(guarantee: Guarantee, order: Fraction) -> Fraction:
    """An upper bound of the Rényi divergence of one run at an order above 1, its leak set aside.

    Raises
    ------
    UnsupportedGuarantee
        If no theorem gives one.

    Notes
    -----
    The smaller of order · ρ and, where the run is ε-DP, of that of randomised response:
    ε + [ln(1 + e^(-(2a-1)ε)) - ln(1 + e^(-ε))] / (a-1) at the order a.
    """
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


@remembered
def _cost(guarantee: Guarantee, order: Fraction) -> tuple[int, int]:
    divergence = ceil_steps(renyi_divergence(guarantee, order))
    return divergence, ceil_steps(leak(guarantee), LEAK_STEPS)


@frozen
class RenyiComposition(AdditiveComposition):
    """The divergences of one order add up; better than zCDP for few large runs of bounded loss.

    Parameters
    ----------
    order
        Above 1, and fixed before the first run: about 1 + √(ln(1/δ) / (expected sum of ρ)).
    leak_share
        The share of the budget's δ, in [0, 1), kept for the leaks of (ε, δ) runs.

    Notes
    -----
    Feldman and Zrnic (2021), Lécuyer (2021); the proof is that of
    docs/explanation/proofs/composition-zcdp.md at one order.
    """

    title: ClassVar[str] = "Rényi composition"
    axis: ClassVar[str] = "divergence"

    order: Fraction = field(converter=_order)
    leak_share: Fraction = field(default=Fraction(0), converter=to_leak_share)

    def limits(self, budget: Budget) -> tuple[Fraction, Fraction]:
        """The divergence that is certified for the budget, and the share of δ kept for leaks."""
        leaks = budget.delta * self.leak_share
        return renyi_start(budget.epsilon, budget.delta - leaks, self.order), leaks

    def cost(self, guarantee: Guarantee) -> tuple[int, int]:
        """The divergence and the leak of one run, in steps of their grids, rounded up."""
        return _cost(guarantee, self.order)

    def largest_epsilon(self, state: State) -> Fraction:
        """The largest ε whose randomised response has at most the divergence that is left."""
        left = self._left(state)
        # The divergence is at most ε and at most order · ε²/2.
        root = Fraction(sqrt_down(fraction_down(2 * left / self.order)))
        low = truncated(max(left, root))

        def fits(epsilon: Fraction) -> bool:
            return self.charge(state, PureGuarantee(epsilon)) is not None

        return largest(fits, low)

    def largest_rho(self, state: State) -> Fraction:
        """What is left, divided by the order."""
        return self._left(state) / self.order
