"""What an odometer shows: each charge, what is spent in all, and what is left."""

from __future__ import annotations

from fractions import Fraction

from attrs import frozen

from dpsdk.accounting.budget import Budget
from dpsdk.accounting.figures import figure, percentage
from dpsdk.accounting.guarantee import Guarantee

__all__ = ["Charge", "Remaining", "Spent"]


@frozen
class Charge:
    """One accepted run: its number, from 1, the caller's label, and what is proven of it."""

    number: int
    label: str
    guarantee: Guarantee


@frozen(repr=False)
class Spent:
    """What a session has spent.

    Parameters
    ----------
    fraction
        The share of the budget that is gone, from 0 to 1.
    epsilon
        The sum of the pure ε of all runs, if every run had one and none could leak; else None.
    rho
        The sum of the ρ of zCDP of all runs, leaks aside.
    delta
        The sum of the leaks.
    charges
        The number of runs.
    guarantee
        What the session keeps whatever is asked next. The other figures describe the runs so far;
        only this one holds when the moment of looking depends on the answers.
    of
        What `fraction` is a share of, where that is not the budget: a scope, or a part of a table.
    """

    fraction: float
    epsilon: Fraction | None
    rho: Fraction
    delta: Fraction
    charges: int
    guarantee: Budget
    of: str = ""

    def __str__(self) -> str:
        runs = "1 charge" if self.charges == 1 else f"{self.charges:,} charges"
        parts = [f"{percentage(self.fraction)} of {self.of or self.guarantee} in {runs}"]
        if self.epsilon is not None:
            parts.append(f"epsilon {figure(self.epsilon)}")
        parts.append(f"rho {figure(self.rho)}")
        if self.delta:
            parts.append(f"delta {figure(self.delta)}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Spent({self})"


@frozen(repr=False)
class Remaining:
    """What a session can still spend.

    Parameters
    ----------
    fraction
        The share of the budget that is left, from 0 to 1.
    epsilon
        The largest ε of one pure run that still fits.
    rho
        The largest ρ of one discrete Gaussian run that still fits.
    """

    fraction: float
    epsilon: Fraction
    rho: Fraction

    def __str__(self) -> str:
        return (
            f"{percentage(self.fraction)}, at most one run of epsilon {figure(self.epsilon)} "
            f"or of rho {figure(self.rho)}"
        )

    def __repr__(self) -> str:
        return f"Remaining({self})"
