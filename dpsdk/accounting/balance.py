"""Balances: what an account could still spend at one moment, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from attrs import field, frozen

from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.composition import Composition, Runs, State, counted
from dpsdk.errors import UnsupportedGuarantee

__all__ = ["Balance"]


def _states(value: Sequence[State]) -> tuple[State, ...]:
    return tuple(value)


@frozen(repr=False)
class Balance:
    """What could still be spent when somebody looked. Public, and it changes no more.

    Parameters
    ----------
    composition
        How costs add up.
    budget
        What may be spent in all.
    """

    composition: Composition
    budget: Budget
    _states: tuple[State, ...] = field(converter=_states, alias="states")

    def fits(self, runs: Runs) -> bool:
        """Whether all of these runs fit, one after the other; False where no theorem prices one."""
        try:
            rounds = [self.composition.rounds(state, counted(runs)) for state in self._states]
        except UnsupportedGuarantee:
            return False
        return all(count is None or count >= 1 for count in rounds)

    def share(self, runs: Runs) -> Fraction | None:
        """The share of what is left that these runs would take; None if they do not fit."""
        largest = Fraction(0)
        for state in self._states:
            after: State | None = state
            for run, count in counted(runs):
                for _ in range(count):
                    after = None if after is None else self.composition.charge(after, run)
            if after is None:
                return None
            before = Fraction(self.composition.fraction(state))
            left = 1 - before
            taken = Fraction(self.composition.fraction(after)) - before
            largest = max(largest, taken / left if left > 0 else Fraction(1))
        return largest

    def __repr__(self) -> str:
        spent = max(map(self.composition.fraction, self._states), default=0.0)
        return f"Balance({1 - spent:.1%} of {self.budget})"
