"""Balances: what an account could still spend at one moment, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain

from dpsdk._records import evolve, field, frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.additive import BasicComposition
from dpsdk.accounting.filters.composition import Composition, Runs, State, counted, is_open
from dpsdk.accounting.numbers import LEAK_STEPS, from_steps
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee

__all__ = ["Balance"]


def _states(value: Sequence[State]) -> tuple[State, ...]:
    return tuple(value)


@frozen(repr=False)
class Balance:
    """The budget that was left when somebody looked. Public, and it changes no more.

    While a scope has a reserve, limits are lowered by what that sets aside, which in the Gaussian
    envelope prices runs too high: what fits here is accepted, and a little more may be.

    Parameters
    ----------
    composition
        How costs add up.
    budget
        What may be spent in all.
    states
        How far the account is spent: for each kind of neighbours, and under each cap that holds for
        it. Runs must fit all of them.
    caps
        Further caps, each with the rules by which runs must fit it.
    most
        No more than this share of what is left may be taken.
    """

    composition: Composition
    budget: Budget
    _states: tuple[State, ...] = field(converter=_states, alias="states")
    _caps: tuple[tuple[Composition, State], ...] = field(default=(), alias="caps")
    _most: Fraction = field(default=Fraction(1), alias="most")

    def at_most(self, share: Fraction) -> Balance:
        return evolve(self, most=min(share, self._most))

    def capped(self, budget: Budget) -> Balance:
        """The same under one more cap: that by itself, what is spent stays within a budget.

        By the rules of the account, as a scope of that cap would be; or, where these have no
        theorem for such a budget, as for one of δ = 0, as a sum of pairs (ε, δ).
        """
        try:
            cap = self.composition, self.composition.begin(budget)
        except InvalidArgument:
            basic = BasicComposition()
            cap = basic, basic.begin(budget)
        return evolve(self, caps=(*self._caps, cap))

    def fits(self, runs: Runs) -> bool:
        """True if all of these runs fit, one after the other; False where no theorem prices one."""
        try:
            return self.share(runs) is not None
        except UnsupportedGuarantee:
            return False

    def share(self, runs: Runs) -> Fraction | None:
        """The share of what is left that these runs would take.

        0 where they are free, and at most 1. It is what the share that a session shows as left
        goes down by: runs that take a share of 1/k fit about k times.
        """
        priced = counted(runs)
        largest = Fraction(0)
        if not priced:
            return largest
        fits = True
        for composition, state in self._all():  # asked of all, since one may be unsupported
            after = composition.charge_all(state, priced)
            if after is None:
                fits = False
            elif fits:
                largest = max(largest, _taken(state, after))
        return largest if fits and largest <= self._most else None

    @property
    def leak(self) -> Fraction:
        """The sum of the leaks of (ε, δ) runs that may still be charged, of what is kept for them.

        It is the last axis of every composition with a share for leaks; 0 where there is none.
        """
        left = [state.limit[-1] - state.spent[-1] for _, state in self._all()]
        return from_steps(max(min(left), 0), LEAK_STEPS)

    def _all(self) -> Sequence[tuple[Composition, State]]:
        own = ((self.composition, state) for state in self._states)
        return tuple(chain(own, self._caps))

    def __repr__(self) -> str:
        spent = max(map(self.composition.fraction, self._states), default=0.0)
        return f"Balance({1 - spent:.1%} of {self.budget})"


def _taken(before: State, after: State) -> Fraction:
    """Return the share of what was left that runs took, on the axis that they took most of."""
    axes = zip(before.spent, before.limit, after.spent, strict=True)
    largest = max(
        (Fraction(then - now, limit - now) for now, limit, then in axes if then > now),
        default=Fraction(0),
    )
    if not before.parts:
        return largest
    spent, later = _spent(before), _spent(after)
    return max(largest, (later - spent) / (1 - spent)) if later > spent else largest


def _spent(state: State) -> Fraction:
    """Return the share that is spent, exactly as `Composition.fraction` defines it."""
    if state.parts:
        return min([_spent(part) for part in state.parts if is_open(part)], default=Fraction(1))
    return Fraction(state.spent[0], state.limit[0]) if state.limit[0] else Fraction(1)
