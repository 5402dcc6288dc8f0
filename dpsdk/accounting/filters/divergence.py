"""What a filter bounds of how much a whole session tells of one row, in nats."""

from __future__ import annotations

from fractions import Fraction

from dpsdk.accounting.filters.additive import (
    AdvancedComposition,
    BasicComposition,
    ZCDPComposition,
)
from dpsdk.accounting.filters.any_of import AnyOf
from dpsdk.accounting.filters.composition import (
    Composition,
    MembersComposition,
    State,
)
from dpsdk.accounting.filters.envelope import EnvelopeComposition
from dpsdk.accounting.filters.renyi import MixedComposition, RenyiComposition
from dpsdk.accounting.numbers import from_steps

__all__ = ["divergence_cap"]


def divergence_cap(composition: Composition, state: State) -> Fraction | None:
    """The largest Kullback-Leibler divergence, in nats, between all answers of two neighbours.

    It is read off limits alone, which were fixed before the first charge, and holds for a session
    that stops before anything leaks, and before a member is closed that is open in this state.
    None where no theorem gives one. docs/explanation/proofs/population.md has the proof.
    """
    kind = type(composition)  # of a class below one of these nothing is known
    if isinstance(composition, MembersComposition) and kind in {AnyOf, MixedComposition}:
        caps = [divergence_cap(member, part) for member, part in composition.open_members(state)]
        return min((cap for cap in caps if cap is not None), default=None)
    if kind is BasicComposition:  # a claim of a Gaussian run bounds no divergence
        return None if state.limit[1] else from_steps(state.limit[0]) ** 2 / 2
    if kind is EnvelopeComposition:
        return from_steps(state.limit[0]) / 2
    if kind in {ZCDPComposition, AdvancedComposition, RenyiComposition}:
        return from_steps(state.limit[0])
    return None
