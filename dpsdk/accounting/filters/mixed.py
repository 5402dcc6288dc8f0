"""The filter between basic composition and the envelope: large pure runs beside Gaussian noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from dpsdk._checks import whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.additive import LEAK_SHARE, LEAKS, begun, refuse_leaks, to_leak_share
from dpsdk.accounting.filters.composition import (
    NEVER_OPEN,
    Composition,
    Runs,
    State,
    counted,
)
from dpsdk.accounting.filters.renyi import RenyiComposition
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.prices.conversion import renyi_start
from dpsdk.accounting.prices.run import prices_of
from dpsdk.codec import written

__all__ = ["MixedComposition"]

_ORDERS: Sequence[int] = tuple(2**power for power in range(1, 26))
_FILTERS = tuple(RenyiComposition(order, LEAK_SHARE) for order in _ORDERS)
_KEPT = Fraction(7, 8)


@written("composition.mixed", LEAKS)
@frozen
class MixedComposition(Composition):
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
    def concurrent(self) -> bool:
        """True, as for a Rényi filter of any fixed order."""
        return True

    def begin(self, budget: Budget) -> State:
        leaks = budget.delta * self.leak_share
        parts: list[State | None] = [NEVER_OPEN] * len(_ORDERS)
        limit = Fraction(0)
        for place, order in enumerate(_ORDERS):
            limit = renyi_start(budget.epsilon, budget.delta - leaks, order)
            if limit >= budget.epsilon * _KEPT or order == _ORDERS[-1]:
                parts[place] = begun(self.title, budget, limit, leaks)
                break
        return State((), (), tuple(parts))

    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        if guarantee.free:
            return state
        if not self.leak_share:
            self._check(guarantee)
        place, part = self._place(state)
        return _with(state, place, _FILTERS[place].charge(part, guarantee))

    def charge_all(self, state: State, runs: Runs) -> State | None:
        priced = counted(runs)
        for guarantee, _ in priced:
            self._check(guarantee)
        place, part = self._place(state)
        if not priced:
            return state
        return _with(state, place, _FILTERS[place].charge_all(part, priced))

    def capacity(self, state: State, guarantee: Guarantee) -> int | None:
        return self.rounds(state, (guarantee,))

    def rounds(self, state: State, runs: Runs) -> int | None:
        priced = counted(runs)
        for guarantee, _ in priced:
            self._check(guarantee)
        place, part = self._place(state)
        return _FILTERS[place].rounds(part, priced)

    def _check(self, guarantee: Guarantee) -> None:
        if not self.leak_share and prices_of(guarantee).leak_steps:
            refuse_leaks(self.title, guarantee)

    def fraction(self, state: State) -> float:
        """The share of the divergence, or of the leaks, that is spent, from 0 to 1."""
        place, part = self._place(state)
        return _FILTERS[place].fraction(part)

    def leaked(self, state: State) -> Fraction:
        place, part = self._place(state)
        return _FILTERS[place].leaked(part)

    def largest_epsilon(self, state: State) -> Fraction:
        """The largest ε of one pure run that takes all that is left."""
        place, part = self._place(state)
        return _FILTERS[place].largest_epsilon(part)

    def largest_rho(self, state: State) -> Fraction:
        """The rest, divided by the order."""
        place, part = self._place(state)
        return _FILTERS[place].largest_rho(part)

    def describe(self, state: State) -> tuple[str, ...]:
        place, part = self._place(state)
        (text,) = _FILTERS[place].describe(part)
        _, _, rest = text.partition(": ")
        return (f"{self.title} at order {_ORDERS[place]}: {rest}",)

    @staticmethod
    def in_use(state: State) -> tuple[RenyiComposition, State]:
        """The Rényi filter of the order that the budget picked, and its state."""
        place, part = MixedComposition._place(state)
        return _FILTERS[place], part

    @staticmethod
    def _place(state: State) -> tuple[int, State]:
        """The order in use, and its state; a state that has none open admits nothing."""
        for place, part in enumerate(state.parts):
            if part is not None and part.limit:
                return place, part
        return 0, State((0, 0), (0, 0))


def _with(state: State, place: int, part: State | None) -> State | None:
    """The state with another part in use; None where that is none."""
    if part is None:
        return None
    return State((), (), (*state.parts[:place], part, *state.parts[place + 1 :]))
