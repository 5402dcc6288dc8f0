"""Charges held against quotes and budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpsdk.accounting import (
    ApproximateGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    Guarantee,
    Odometer,
    PureGuarantee,
)
from dpsdk.accounting.prices.run import leak
from dpsdk.release import Cost
from dpsdk.session import Session
from dpsdk.testing.audit.programs import AMPLE, ANY

__all__ = ["TINY", "charges", "combined", "fits", "least", "odometer", "paid", "within"]

TINY = Budget(epsilon=Fraction(1, 10**15))
"""A budget too small for any mechanism that pays at all."""


def charges(session: Session) -> tuple[Guarantee, ...]:
    """Return the runs that a session was charged for, in their order, by its books."""
    return tuple(run for receipt in session.history for run in receipt.cost.guarantees)


def paid(runs: Sequence[Guarantee]) -> list[Guarantee]:
    """Return those of some runs that are not free."""
    return [run for run in runs if not run.free]


def _leaked(cost: Cost) -> Fraction:
    return sum((leak(run) * count for run, count in cost.runs), Fraction(0))


def within(charged: Cost, quoted: Cost) -> str:
    """Say which part of a charge is above a quote, in words; empty where nothing is."""
    for name, spent, told in (
        ("ρ", charged.rho, quoted.rho),
        ("δ", _leaked(charged), _leaked(quoted)),
        ("ε", charged.epsilon, quoted.epsilon),
    ):
        if told is None:
            continue
        if spent is None:
            return f"{charged}, which has no {name}, where {name} {float(told):.6g} was quoted"
        if spent > told:
            return f"{name} {float(spent):.6g} where {float(told):.6g} was quoted"
    return ""


def odometer() -> Odometer:
    """Return one that takes whatever is asked."""
    return Odometer(AMPLE, ANY)


def fits(runs: Sequence[Guarantee], budget: Budget) -> bool:
    """True if all of these runs fit a budget."""
    times = Odometer(budget, ANY).affords_all(tuple(runs))
    return times is None or times >= 1


def least(runs: Sequence[Guarantee]) -> Budget | None:
    """Return about the smallest budget that all of these runs fit, None where one is free."""
    delta = "0.01"
    low, high = math.log2(1e-12), math.log2(1e6)
    if fits(runs, Budget(2.0**low, delta)):
        return None
    while high - low > 1e-4:
        middle = (low + high) / 2
        if fits(runs, Budget(2.0**middle, delta)):
            high = middle
        else:
            low = middle
    return Budget(2.0**high, delta)


def combined(runs: Sequence[Guarantee]) -> Guarantee | None:
    """Return one guarantee for all of these runs, None where no theorem here gives one."""
    cost = Cost(tuple(runs))
    leaked = _leaked(cost)
    if cost.epsilon is not None:
        return ApproximateGuarantee(cost.epsilon, leaked) if leaked else PureGuarantee(cost.epsilon)
    if leaked or not cost.rho:
        return None
    # A claim of zCDP in terms of the law that has it: one step at variance 1 / (2 rho).
    return DiscreteGaussianGuarantee(1 / (2 * cost.rho), 1, 1)
