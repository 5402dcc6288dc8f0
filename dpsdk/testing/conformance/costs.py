"""Budgets of a kit, and charges held against quotes and budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpsdk.accounting import (
    AnyOf,
    ApproximateGuarantee,
    BasicComposition,
    Budget,
    Composition,
    DiscreteGaussianGuarantee,
    Guarantee,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
)
from dpsdk.accounting.prices.run import leak
from dpsdk.release import Cost
from dpsdk.session import Session

__all__ = ["AMPLE", "ANY", "TINY", "charges", "combined", "fits", "least", "odometer", "within"]

AMPLE = Budget(epsilon=10**6, delta="0.1")
"""Whatever a mechanism asks for."""

TINY = Budget(epsilon=Fraction(1, 10**15))
"""A budget too small for any mechanism that pays at all."""

ANY: Composition = AnyOf((BasicComposition(), ZCDPComposition()))
"""Takes every guarantee of the package."""


def charges(session: Session) -> tuple[Guarantee, ...]:
    """The runs that a session was charged for, in their order, by its books."""
    return tuple(run for receipt in session.history for run in receipt.cost.guarantees)


def within(charged: Cost, quoted: Cost) -> str:
    """Say which part of a charge is above a quote, in words; empty where nothing is."""
    if charged.rho > quoted.rho:
        return f"ρ {float(charged.rho):.6g} where {float(quoted.rho):.6g} was quoted"
    spent, leaked = charged.epsilon, sum(leak(run) * count for run, count in charged.runs)
    told = sum(leak(run) * count for run, count in quoted.runs)
    if leaked > told:
        return f"δ {float(leaked):.6g} where {float(told):.6g} was quoted"
    if quoted.epsilon is None:
        return ""
    if spent is None:
        return f"{charged}, which has no ε, where ε {float(quoted.epsilon):.6g} was quoted"
    if spent > quoted.epsilon:
        return f"ε {float(spent):.6g} where {float(quoted.epsilon):.6g} was quoted"
    return ""


def odometer() -> Odometer:
    """One that takes whatever is asked."""
    return Odometer(AMPLE, ANY)


def fits(runs: Sequence[Guarantee], budget: Budget, composition: Composition) -> bool:
    """True if all of these runs fit a budget."""
    times = Odometer(budget, composition).affords_all(tuple(runs))
    return times is None or times >= 1


def least(runs: Sequence[Guarantee], composition: Composition = ANY) -> Budget | None:
    """About the smallest budget that all of these runs fit, None where one is free."""
    delta = "0.01"
    low, high = math.log2(1e-12), math.log2(1e6)
    if fits(runs, Budget(2.0**low, delta), composition):
        return None
    while high - low > 1e-4:
        middle = (low + high) / 2
        if fits(runs, Budget(2.0**middle, delta), composition):
            high = middle
        else:
            low = middle
    return Budget(2.0**high, delta)


def combined(runs: Sequence[Guarantee]) -> Guarantee | None:
    """One guarantee for all of these runs together, None where no theorem here gives one."""
    cost = Cost(tuple(runs))
    leaked = sum((leak(run) * count for run, count in cost.runs), Fraction(0))
    if cost.epsilon is not None:
        return ApproximateGuarantee(cost.epsilon, leaked) if leaked else PureGuarantee(cost.epsilon)
    if leaked or not cost.rho:
        return None
    # A claim of zCDP in terms of the law that has it: one step at variance 1 / (2 rho).
    return DiscreteGaussianGuarantee(1 / (2 * cost.rho), 1, 1)
