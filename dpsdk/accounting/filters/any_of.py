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
    MembersComposition,
    Pairs,
    Runs,
    State,
    counted,
    is_open,
)
from dpsdk.accounting.filters.envelope import EnvelopeComposition
from dpsdk.accounting.filters.renyi import MixedComposition
from dpsdk.accounting.guarantee import ApproximateGuarantee, Guarantee, PureGuarantee
from dpsdk.accounting.numbers import LEAK_STEPS, as_text, floor_steps, from_steps, to_nonnegative
from dpsdk.accounting.prices.run import prices_of
from dpsdk.codec import AMOUNT, ListOf, Member, OrNone, written
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = ["AnyOf", "default_composition", "leakless"]


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
class AnyOf(MembersComposition):
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

    def begin(self, budget: Budget) -> State:
        """The state in which nothing was charged.

        Raises `InvalidArgument` if the budget leaves no member anything to charge.
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

    def priced(self, runs: Runs) -> tuple[Pairs, int]:
        priced = counted(runs)
        if not self.leak_share:
            return priced, 0
        leaks = sum(prices_of(run).leak_steps * times for run, times in priced)
        return counted((leakless(run), times) for run, times in priced), leaks

    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        if guarantee.free:
            return state
        if self.leak_share and type(guarantee) is ApproximateGuarantee:
            return self.after(state, *self.priced((guarantee,)))
        return self.after(state, [(guarantee, 1)], 0)

    def leaked(self, state: State) -> Fraction:
        return super().leaked(state) + from_steps(state.spent[0], LEAK_STEPS)

    def describe(self, state: State) -> tuple[str, ...]:
        texts = super().describe(state)
        if not state.spent[0]:
            return texts
        limit = from_steps(state.limit[0], LEAK_STEPS)
        return *texts, f"leaks: delta {as_text(self.leaked(state))} of {as_text(limit)}"


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
