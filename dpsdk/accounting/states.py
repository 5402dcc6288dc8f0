"""How states of one composition compare: the worst of several, a share of one, what others hold.

These rely on what `State` promises: less spent and more open members admit whatever more spent and
fewer open members do, and the charge of a run does not grow with what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeGuard

from attrs import evolve

from dpsdk.accounting.composition import NEVER_OPEN, State

__all__ = ["holds", "lessened", "portion", "worst"]


def _open(part: State | None) -> TypeGuard[State]:
    return part is not None and part != NEVER_OPEN


def worst(states: Sequence[State]) -> State:
    """A state that admits nothing that one of these, with the same limits, does not."""
    first = states[0]
    if all(state is first for state in states):
        return first
    parts: list[State | None] = []
    for members in zip(*(state.parts for state in states), strict=True):
        open_ones = [member for member in members if member is not None]
        parts.append(worst(open_ones) if len(open_ones) == len(members) else None)
    spent = tuple(max(axis) for axis in zip(*(state.spent for state in states), strict=True))
    return evolve(first, spent=spent, parts=tuple(parts))


def portion(state: State, share: Fraction) -> State:
    """A fresh state with a share of every limit, in the members that are open."""
    limit = tuple(limit * share.numerator // share.denominator for limit in state.limit)
    parts = tuple(None if part is None else portion(part, share) for part in state.parts)
    return State((0,) * len(limit), limit, parts)


def lessened(state: State, held: Sequence[State]) -> State:
    """The state with what others may still spend taken off its limits."""
    if not held:
        return state
    limit = tuple(
        max(spent, limit - sum(other.limit[axis] - other.spent[axis] for other in held))
        for axis, (spent, limit) in enumerate(zip(state.spent, state.limit, strict=True))
    )
    parts = tuple(
        None
        if part is None
        else lessened(part, [h for other in held if _open(h := other.parts[place])])
        for place, part in enumerate(state.parts)
    )
    return State(state.spent, limit, parts)


def holds(state: State, asked: State) -> State | None:
    """What is asked, in those members alone that have as much left; None where none has."""
    if any(
        asked.limit[axis] - asked.spent[axis] > limit - spent
        for axis, (spent, limit) in enumerate(zip(state.spent, state.limit, strict=True))
    ):
        return None
    parts = tuple(
        member if member == NEVER_OPEN else holds(part, member) if _open(part) and member else None
        for part, member in zip(state.parts, asked.parts, strict=True)
    )
    if parts and not any(map(_open, parts)):
        return None
    return evolve(asked, parts=parts)
