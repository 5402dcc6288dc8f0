"""Several filters at once: a run fits while any of them still certifies the whole session."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpsdk._checks import shown, whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.additive import LEAK_SHARE, LEAKS, BasicComposition, to_leak_share
from dpsdk.accounting.filters.composition import (
    COMPOSITION,
    NEVER_OPEN,
    Composition,
    Runs,
    State,
    counted,
    is_open,
)
from dpsdk.accounting.filters.envelope import EnvelopeComposition
from dpsdk.accounting.filters.mixed import MixedComposition
from dpsdk.accounting.guarantee import ApproximateGuarantee, Guarantee, PureGuarantee
from dpsdk.accounting.numbers import LEAK_STEPS, as_text, floor_steps, from_steps, to_nonnegative
from dpsdk.accounting.prices.run import prices_of
from dpsdk.codec import AMOUNT, ListOf, Member, OrNone, written
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.typing import Real

__all__ = ["AnyOf", "default_composition", "leakless"]

_ANY_BUDGET = Budget(1000, "0.5")
"""A budget like any other: prices of guarantees do not depend on it."""


def _members(value: tuple[Composition, ...]) -> tuple[Composition, ...]:
    members = tuple(value)
    if not members or not all(isinstance(member, Composition) for member in members):
        raise InvalidArgument("members", "at least one composition", shown(value))
    return members


def _weights(value: Iterable[Real] | None) -> tuple[Fraction, ...] | None:
    if value is None:
        return None
    expected = "finite numbers, at least 0"
    return tuple(to_nonnegative("weights", weight, expected) for weight in value)


def leakless(guarantee: Guarantee) -> Guarantee:
    """A run once its leak is set aside; of an unknown class, as it is."""
    if type(guarantee) is ApproximateGuarantee:  # of a class below it nothing is known
        return PureGuarantee(guarantee.epsilon)
    return guarantee


@written(
    "composition.any-of",
    {
        "members": ListOf(COMPOSITION, least=1, most=100),
        "weights": Member(OrNone(ListOf(AMOUNT, most=100)), None),
        **LEAKS,
    },
)
@frozen
class AnyOf(Composition):
    """Accepts a run while at least one member has certified every run so far, this one included.

    A member that an accepted run overflows, or that cannot price it, is closed for the rest of
    the session. A refused request changes nothing. A run that no member prices is unsupported; one
    that only a closed member prices does not fit any more.

    Parameters
    ----------
    members
        Each is begun with the budget's ε and a share of its δ. Members whose theorem spends no δ,
        as basic composition, get none.
    weights
        How the δ is shared out between the members whose theorem spends it: in proportion to these
        numbers, one for each member. Evenly where left out.
    leak_share
        The share of δ, in [0, 1), kept for the leaks of (ε, δ) runs of the whole session. All
        members then price such runs as pure ones. At 0, the members handle leaks themselves, each
        out of its own share of δ.

    Raises
    ------
    InvalidArgument
        If there is no member, or not one weight for each that is at least 0.

    Notes
    -----
    The state has one axis of its own, for leaks. Its `reach` is the largest ε that fitted at the
    beginning.

    If member j keeps (ε, δ_j), the whole keeps (ε, the sum of δ_j and of what is kept for leaks);
    docs/explanation/proofs/composition-or.md has the proof and its conditions.
    """

    members: tuple[Composition, ...] = field(converter=_members)
    weights: tuple[Fraction, ...] | None = field(default=None, converter=_weights, repr=whole_repr)
    leak_share: Fraction = field(default=Fraction(0), converter=to_leak_share, repr=whole_repr)

    def __attrs_post_init__(self) -> None:
        weights = self.weights
        if weights is None:
            return
        spenders = [
            weight
            for weight, member in zip(weights, self.members, strict=False)
            if member.uses_delta
        ]
        if len(weights) != len(self.members) or (spenders and not any(spenders)):
            expected = "one number for each member, not all of them 0"
            raise InvalidArgument("weights", expected, ", ".join(map(as_text, weights)))

    @property
    def concurrent(self) -> bool:
        """True if every member allows interactive runs to interleave."""
        return all(member.concurrent for member in self.members)

    def begin(self, budget: Budget) -> State:
        """The state in which nothing was charged.

        Raises
        ------
        InvalidArgument
            If the budget leaves no member anything to charge.
        """
        leaks = budget.delta * self.leak_share
        weights = self.weights or (Fraction(1),) * len(self.members)
        spent = [
            weight if member.uses_delta else Fraction(0)
            for weight, member in zip(weights, self.members, strict=True)
        ]
        rest = (budget.delta - leaks) / (sum(spent) or 1)
        parts: list[State | None] = []
        refused: InvalidArgument | None = None
        for member, weight in zip(self.members, spent, strict=True):
            part = NEVER_OPEN
            try:
                part = member.begin(Budget(budget.epsilon, rest * weight))
            except InvalidArgument as error:
                refused = error
            parts.append(part)
        if refused is not None and not any(map(is_open, parts)):
            raise refused
        state = State((0,), (floor_steps(leaks, LEAK_STEPS),), tuple(parts))
        return state._replace(reach=floor_steps(self.largest_epsilon(state)))

    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        if guarantee.free:
            return state
        leaks = state.spent[0]
        if self.leak_share:
            leaks += prices_of(guarantee).leak_steps
            if leaks > state.limit[0]:
                return None
            if type(guarantee) is ApproximateGuarantee:
                guarantee = leakless(guarantee)
        parts: list[State | None] = []
        accepted = guarantee.free
        unpriced: UnsupportedGuarantee | None = None
        for member, part in zip(self.members, state.parts, strict=True):
            after = part
            if part is not None and (part.limit or part.parts):  # open
                try:
                    after = member.charge(part, guarantee)
                except UnsupportedGuarantee as error:
                    after, unpriced = None, error
                else:
                    accepted = accepted or after is not None
            parts.append(after)
        if accepted:
            return state._replace(spent=(leaks,), parts=tuple(parts))
        if unpriced is not None:
            self._refuse_unpriced(state, ((guarantee, 1),), unpriced)
        return None

    def charge_all(self, state: State, runs: Runs) -> State | None:
        """The state after all of these runs, or None where no open member accepts all of them.

        A member that a run has closed takes no later one, so that each is asked for all at once.
        """
        priced = counted(runs)
        if not priced:
            return state
        leaks = state.spent[0]
        if self.leak_share:
            leaks += sum(prices_of(run).leak_steps * times for run, times in priced)
            if leaks > state.limit[0]:
                return None
            priced = counted((leakless(run), times) for run, times in priced)
        parts: list[State | None] = []
        unpriced: UnsupportedGuarantee | None = None
        for member, part in zip(self.members, state.parts, strict=True):
            after = part
            if is_open(part):
                try:
                    after = member.charge_all(part, priced)
                except UnsupportedGuarantee as error:
                    after, unpriced = None, error
            parts.append(after)
        if not priced or any(map(is_open, parts)):
            return state._replace(spent=(leaks,), parts=tuple(parts))
        if unpriced is not None:
            self._refuse_unpriced(state, priced, unpriced)
        return None

    def capacity(self, state: State, guarantee: Guarantee) -> int | None:
        return self.rounds(state, (guarantee,))

    def rounds(self, state: State, runs: Runs) -> int | None:
        priced = counted(runs)
        if not priced:
            return None
        most: int | None = None
        if self.leak_share:
            leaks = sum(prices_of(run).leak_steps * times for run, times in priced)
            most = (state.limit[0] - state.spent[0]) // leaks if leaks else None
            priced = counted((leakless(run), times) for run, times in priced)
            if not priced:
                return most
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
                    return most
                counts.append(count)
        fits = max(counts, default=0)
        if unpriced is not None and not fits:
            self._refuse_unpriced(state, priced, unpriced)
        return fits if most is None else min(fits, most)

    def fraction(self, state: State) -> float:
        """Return the share that the open member has spent that has spent the least of its own.

        That member accepts the most further runs, so a run that takes a tenth fits ten times. One
        large run may not fit although much is left: `largest_epsilon` tells.
        """
        return min((member.fraction(part) for member, part in self._open(state)), default=1.0)

    def leaked(self, state: State) -> Fraction:
        leaks = (member.leaked(part) for member, part in self._open(state))
        own = from_steps(state.spent[0], LEAK_STEPS)
        return max(leaks, default=Fraction(0)) + own

    def largest_epsilon(self, state: State) -> Fraction:
        sizes = (member.largest_epsilon(part) for member, part in self._open(state))
        return max(sizes, default=Fraction(0))

    def largest_rho(self, state: State) -> Fraction:
        sizes = (member.largest_rho(part) for member, part in self._open(state))
        return max(sizes, default=Fraction(0))

    def describe(self, state: State) -> tuple[str, ...]:
        texts = [text for member, part in self._open(state) for text in member.describe(part)]
        if state.spent[0]:
            limit = from_steps(state.limit[0], LEAK_STEPS)
            texts.append(f"leaks: delta {as_text(self.leaked(state))} of {as_text(limit)}")
        return tuple(texts)

    def _open(self, state: State) -> list[tuple[Composition, State]]:
        pairs = zip(self.members, state.parts, strict=True)
        return [(member, part) for member, part in pairs if is_open(part)]

    def _refuse_unpriced(
        self, state: State, runs: Iterable[tuple[Guarantee, int]], error: UnsupportedGuarantee
    ) -> None:
        """Raise the error of a member if no member prices one of the runs."""
        for guarantee, _ in runs:
            # Basic composition prices leaks, but has no δ here: a share for them is missing.
            leaking = prices_of(guarantee).leak_steps and not self.leak_share
            if leaking or not self._priced(state, guarantee):
                raise error

    def _priced(self, state: State, guarantee: Guarantee) -> bool:
        """True if some member, open or closed, has a theorem that prices the run."""
        pairs = zip(self.members, state.parts, strict=True)
        return any(
            (part is None or is_open(part)) and _prices(member, guarantee) for member, part in pairs
        )


def _prices(member: Composition, guarantee: Guarantee) -> bool:
    try:
        member.charge(member.begin(_ANY_BUDGET), guarantee)
    except UnsupportedGuarantee:
        return False
    return True


def default_composition(leak_share: Real = LEAK_SHARE) -> AnyOf:
    """Basic, envelope or mixed composition, whichever lasts longest.

    Basic composition serves large pure runs and spends no δ; the envelope serves many small ones
    and Gaussian noise, and has nearly all of the δ; mixed composition serves large pure runs where
    Gaussian noise comes in between.

    Parameters
    ----------
    leak_share
        The share of δ, in [0, 1), kept for the leaks of (ε, δ) runs; 0 refuses them.
    """
    members = (BasicComposition(), EnvelopeComposition(0), MixedComposition(0))
    return AnyOf(members, weights=(0, 997, 3), leak_share=leak_share)
