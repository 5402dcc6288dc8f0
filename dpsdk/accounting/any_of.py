"""Several filters at once: a run fits while any of them still certifies the whole session."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.accounting.additive import BasicComposition
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.composition import Composition, State
from dpsdk.accounting.envelope import EnvelopeComposition
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.typing import Real

__all__ = ["AnyOf", "default_composition"]


def _members(value: tuple[Composition, ...]) -> tuple[Composition, ...]:
    members = tuple(value)
    if not members or not all(isinstance(member, Composition) for member in members):
        raise InvalidArgument("members", "at least one composition", shown(value))
    return members


@frozen
class AnyOf(Composition):
    """Accepts a run while at least one member has certified every run so far, this one included.

    A member that an accepted run overflows, or that cannot price it, is closed for the rest of
    the session. A refused request changes nothing.

    Parameters
    ----------
    members
        Each is begun with the budget's ε. The budget's δ is shared out evenly between the members
        whose theorem spends it; the others, as basic composition, get none and so accept no leaks.

    Notes
    -----
    If member j keeps (ε, δ_j), the whole keeps (ε, the sum of δ_j);
    docs/explanation/proofs/composition-or.md has the proof and its conditions.
    """

    members: tuple[Composition, ...] = field(converter=_members)

    @property
    def concurrent(self) -> bool:
        """Whether every member allows interactive runs to interleave."""
        return all(member.concurrent for member in self.members)

    def begin(self, budget: Budget) -> State:
        """The state in which nothing was charged."""
        users = sum(member.uses_delta for member in self.members)
        share = budget.delta / max(users, 1)
        parts: list[State | None] = []
        for member in self.members:
            delta = share if member.uses_delta else Fraction(0)
            part = member.begin(Budget(budget.epsilon, delta))
            parts.append(None if member.fraction(part) >= 1.0 else part)
        return State((), (), tuple(parts))

    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        """The state after one more run, or None where no open member accepts it."""
        parts: list[State | None] = []
        accepted = overflowed = False
        unpriced: UnsupportedGuarantee | None = None
        for member, part in zip(self.members, state.parts, strict=True):
            after: State | None = None
            if part is not None:
                try:
                    after = member.charge(part, guarantee)
                except UnsupportedGuarantee as error:
                    unpriced = error
                else:
                    accepted = accepted or after is not None
                    overflowed = overflowed or after is None
            parts.append(after)
        if accepted:
            return State((), (), tuple(parts))
        if unpriced is not None and not overflowed:
            raise unpriced
        return None

    def capacity(self, state: State, guarantee: Guarantee) -> int | None:
        """How many such runs still fit, one after the other; None where they are free."""
        if guarantee.free:
            return None
        best = -1
        unpriced: UnsupportedGuarantee | None = None
        for member, part in self._open(state):
            try:
                fits = member.capacity(part, guarantee)
            except UnsupportedGuarantee as error:
                unpriced = error
            else:
                if fits is None:
                    return None
                best = max(best, fits)
        if best < 0 and unpriced is not None:
            raise unpriced
        return max(best, 0)

    def fraction(self, state: State) -> float:
        """The share that is spent of the open member that has most left."""
        return min((member.fraction(part) for member, part in self._open(state)), default=1.0)

    def leaked(self, state: State) -> Fraction:
        """The δ that accepted runs have spent as leaks."""
        leaks = (member.leaked(part) for member, part in self._open(state))
        return max(leaks, default=Fraction(0))

    def largest_epsilon(self, state: State) -> Fraction:
        """The largest ε of one pure run that some open member accepts."""
        sizes = (member.largest_epsilon(part) for member, part in self._open(state))
        return max(sizes, default=Fraction(0))

    def largest_rho(self, state: State) -> Fraction:
        """The largest ρ of one discrete Gaussian run that some open member accepts."""
        sizes = (member.largest_rho(part) for member, part in self._open(state))
        return max(sizes, default=Fraction(0))

    def describe(self, state: State) -> tuple[str, ...]:
        """What is spent of what, one short text for each open member."""
        return tuple(text for member, part in self._open(state) for text in member.describe(part))

    def _open(self, state: State) -> list[tuple[Composition, State]]:
        pairs = zip(self.members, state.parts, strict=True)
        return [(member, part) for member, part in pairs if part is not None]


def default_composition(leak_share: Real = 0) -> AnyOf:
    """Basic or envelope composition, whichever lasts longer, at no cost over either.

    Basic composition serves few large runs and spends no δ; the envelope serves many small ones
    and Gaussian noise.

    Parameters
    ----------
    leak_share
        The share of δ, in [0, 1), kept for the leaks of (ε, δ) runs.
    """
    return AnyOf((BasicComposition(), EnvelopeComposition(leak_share)))
