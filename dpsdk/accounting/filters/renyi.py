"""Rényi filters: divergences of one order, fixed beforehand or picked by the budget, add up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from dpsdk._checks import whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.additive import (
    LEAK_SHARE,
    LEAKS,
    AdditiveComposition,
    begun,
    refuse_leaks,
    to_leak_share,
)
from dpsdk.accounting.filters.composition import (
    NEVER_OPEN,
    MembersComposition,
    Pairs,
    Runs,
    State,
    counted,
    is_open,
)
from dpsdk.accounting.guarantee import Guarantee, PureGuarantee
from dpsdk.accounting.numbers import (
    STEPS,
    UP,
    as_text,
    fraction_down,
    fraction_up,
    largest,
    ln_up,
    sqrt_down,
    sqrt_up,
    truncated,
)
from dpsdk.accounting.prices.conversion import renyi_start, to_order, zcdp_start
from dpsdk.accounting.prices.run import prices_of
from dpsdk.codec import AMOUNT, written
from dpsdk.errors import InvalidArgument

__all__ = ["MixedComposition", "RenyiComposition"]


_FAR = 700
_KEPT = Fraction(7, 8)
_ROUNDING = 2.0**-38
"""More than exp and log1p of any usual library are off, for values that are at most ln 2."""


@lru_cache(4096)
def _charged(guarantee: Guarantee, top: int, bottom: int) -> int:
    """The divergence as charged: with logarithms in floats, so above by next to nothing."""
    priced = prices_of(guarantee)
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


@written("composition.renyi", {"order": AMOUNT, **LEAKS})
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

    order: Fraction = field(converter=to_order, repr=whole_repr)
    leak_share: Fraction = field(default=Fraction(0), converter=to_leak_share, repr=whole_repr)

    def begin(self, budget: Budget) -> State:
        """The state in which nothing was charged.

        Raises `InvalidArgument` if this order certifies nothing for the budget, and names one that
        does.
        """
        limit, leaks = self.limits(budget)
        if not limit and (order := _useful_order(budget.epsilon, budget.delta - leaks)):
            expected = f"larger for {budget}, such as {order}"
            raise InvalidArgument("order", expected, as_text(self.order))
        return begun(self.title, budget, limit, leaks)

    def limit(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        return renyi_start(epsilon, delta, self.order)

    def cost(self, guarantee: Guarantee) -> tuple[int, int]:
        return _charged(guarantee, *self.order.as_integer_ratio()), self._leak(guarantee)

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
        """The rest, divided by the order."""
        return self._left(state) / self.order


_FILTERS = tuple(RenyiComposition(2**power, LEAK_SHARE) for power in range(1, 26))


@written("composition.mixed", LEAKS)
@frozen
class MixedComposition(MembersComposition):
    """A Rényi filter whose order the budget picks: for large pure runs beside Gaussian noise.

    The order is the least power of two at which the conversion to (ε, δ) takes at most an eighth of
    ε, about 1 + 8 ln(1/δ)/ε. At so high an order a pure run costs its ε at the most, as under basic
    composition, and less where it is small; a Gaussian run costs the order times its ρ.

    Parameters
    ----------
    leak_share
        The share of the budget's δ, in [0, 1), kept for the leaks of (ε, δ) runs; 0 refuses them.

    Notes
    -----
    A member of `default_composition`. The state has one part for each power of two, all but one of
    them never open, so that states of different budgets can be compared. The proof is that of
    `RenyiComposition`: the order is fixed before the first run;
    docs/explanation/proofs/composition-zcdp.md has it.
    """

    title: ClassVar[str] = "mixed composition"
    leak_share: Fraction = field(default=Fraction(0), converter=to_leak_share, repr=whole_repr)

    @property
    def members(self) -> tuple[RenyiComposition, ...]:
        return _FILTERS

    def begin(self, budget: Budget) -> State:
        leaks = budget.delta * self.leak_share
        parts: list[State | None] = [NEVER_OPEN] * len(_FILTERS)
        for place, member in enumerate(_FILTERS):
            limit = member.limit(budget.epsilon, budget.delta - leaks)
            if limit >= budget.epsilon * _KEPT or member is _FILTERS[-1]:
                parts[place] = begun(self.title, budget, limit, leaks)
                break
        return State((), (), tuple(parts))

    def priced(self, runs: Runs) -> tuple[Pairs, int]:
        priced = counted(runs)
        if not self.leak_share:
            for guarantee, _ in priced:
                if prices_of(guarantee).leak_steps:
                    refuse_leaks(self.title, guarantee)
        return priced, 0

    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        if guarantee.free:
            return state
        if not self.leak_share and prices_of(guarantee).leak_steps:
            refuse_leaks(self.title, guarantee)
        return self.after(state, [(guarantee, 1)], 0)

    def describe(self, state: State) -> tuple[str, ...]:
        return tuple(
            f"{self.order_title(state)}: {member.describe(part)[0].partition(': ')[2]}"
            for member, part in self.open_members(state)
        )

    def order_title(self, state: State) -> str:
        """The name of the filter, with the order that the budget picked."""
        orders = [f"{2**place}" for place, part in enumerate(state.parts, 1) if is_open(part)]
        return f"{self.title} at order {', '.join(orders)}"
