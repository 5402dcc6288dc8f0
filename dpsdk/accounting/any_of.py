"""Several filters at once: a run fits while any of them still certifies the whole session."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.accounting.additive import BasicComposition
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.composition import NEVER_OPEN, Composition, Runs, State, counted
from dpsdk.accounting.envelope import EnvelopeComposition
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.typing import Real

__all__ = ["AnyOf", "default_composition"]

_ANY_BUDGET = Budget(1, "0.5")
"""Whether a composition prices a guarantee does not depend on the budget."""


def _members(value: tuple[Composition, ...]) -> tuple[Composition, ...]:
    members = tuple(value)
    if not members or not all(isinstance(member, Composition) for member in members):
        raise InvalidArgument("members", "at least one composition", shown(value))
    return members


@frozen
class AnyOf(Composition):
    """Accepts a run while at least one member has certified every run so far, this one included.

    A member that an accepted run overflows, or that cannot price it, is closed for the rest of
    the session. A refused request changes nothing. A run that no member prices is unsupported; one
    that only a closed member prices does not fit any more.

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
            parts.append(NEVER_OPEN if member.fraction(part) >= 1.0 else part)
        return State((), (), tuple(parts))

    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        """The state after one more run, or None where no open member accepts it."""
        if guarantee.free:
            return state
        parts: list[State | None] = []
        accepted = False
        unpriced: UnsupportedGuarantee | None = None
        for member, part in zip(self.members, state.parts, strict=True):
            after = part
            if part is not None and part != NEVER_OPEN:
                try:
                    after = member.charge(part, guarantee)
                except UnsupportedGuarantee as error:
                    after, unpriced = None, error
                else:
                    accepted = accepted or after is not None
            parts.append(after)
        if accepted:
            return State((), (), tuple(parts))
        if unpriced is not None and not self._priced(state, guarantee):
            raise unpriced
        return None

    def capacity(self, state: State, guarantee: Guarantee) -> int | None:
        """How many such runs still fit, one after the other; None where they are free."""
        return self.rounds(state, (guarantee,))

    def rounds(self, state: State, runs: Runs) -> int | None:
        """How many times all of these runs fit, one after the other; None where all are free."""
        priced = counted(runs)
        if not priced:
            return None
        # Whatever was accepted so far, some one member has accepted all of it.
        counts: list[int] = []
        unpriced: UnsupportedGuarantee | None = None
        for member, part in self._open(state):
            try:
                count = member.rounds(part, priced)
            except UnsupportedGuarantee as error:
                unpriced = error
            else:
                if count is None:
                    return None
                counts.append(count)
        if unpriced is not None and not counts:
            for guarantee, _ in priced:
                if not self._priced(state, guarantee):
                    raise unpriced
        return max(counts, default=0)

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
        return [(member, part) for member, part in pairs if part is not None and part != NEVER_OPEN]

    def _priced(self, state: State, guarantee: Guarantee) -> bool:
        """Whether some member, open or closed, has a theorem that prices the run."""
        pairs = zip(self.members, state.parts, strict=True)
        return any(part != NEVER_OPEN and _prices(member, guarantee) for member, part in pairs)


def _prices(member: Composition, guarantee: Guarantee) -> bool:
    try:
        member.charge(member.begin(_ANY_BUDGET), guarantee)
    except UnsupportedGuarantee:
        return False
    return True


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
