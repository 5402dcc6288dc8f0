"""How states of one composition compare: the worst of several, a share of one, what others hold.

These rely on what `State` promises: less spent and more open members admit whatever more spent and
fewer open members do, and the charge of a run does not grow with what is left.
docs/explanation/proofs/scopes.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsdk.accounting.filters.composition import State, is_open

__all__ = ["covered", "lessened", "pattern", "share_of", "serves", "serving", "worst"]


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
    return first._replace(spent=spent, parts=tuple(parts))


def covered(state: State, by: State) -> bool:
    """True if a state is no further spent than another of the same limits, in every member.

    Then it admits whatever the other does.
    """
    if any(mine > theirs for mine, theirs in zip(state.spent, by.spent, strict=True)):
        return False
    return all(
        not is_open(theirs) or (is_open(mine) and covered(mine, theirs))
        for mine, theirs in zip(state.parts, by.parts, strict=True)
    )


def pattern(state: State) -> tuple[object, ...]:
    """The members that are open, as truth values."""
    return tuple(pattern(part) if is_open(part) else None for part in state.parts)


def share_of(state: State, share: Fraction) -> State:
    """A fresh state with a share of every limit, in the members that are open."""
    limit = tuple(limit * share.numerator // share.denominator for limit in state.limit)
    parts = tuple(None if part is None else share_of(part, share) for part in state.parts)
    reach = state.reach * share.numerator // share.denominator
    return State((0,) * len(limit), limit, parts, reach)


def serves(state: State, held: Sequence[State]) -> bool:
    """True if all that others hold can still be spent: of several members, in one and the same."""
    for axis, (spent, limit) in enumerate(zip(state.spent, state.limit, strict=True)):
        if sum(other.limit[axis] - other.spent[axis] for other in held) > limit - spent:
            return False
    if not state.parts:
        return True
    return any(_member_serves(state, held, place) for place in range(len(state.parts)))


def _member_serves(state: State, held: Sequence[State], place: int) -> bool:
    part = state.parts[place]
    if not is_open(part):
        return False
    theirs = [other.parts[place] for other in held]
    return all(map(is_open, theirs)) and serves(part, [other for other in theirs if is_open(other)])


def serving(asked: State, states: Sequence[State], held: Sequence[State]) -> State:
    """The request in those members alone in which one state can serve all that is held.

    `held` includes what is asked.
    """
    parts: list[State | None] = []
    for place, part in enumerate(asked.parts):
        able = [state for state in states if _member_serves(state, held, place)]
        if not is_open(part):
            parts.append(part)
        elif not able:
            parts.append(None)
        else:
            inner = [member for state in able if is_open(member := state.parts[place])]
            theirs = [member for other in held if is_open(member := other.parts[place])]
            parts.append(serving(part, inner, theirs))
    return asked._replace(parts=tuple(parts))


def lessened(state: State, held: Sequence[State]) -> State:
    """The state as others may use it: what is held taken off, and only members that can serve it.

    Whatever it admits leaves a member, of several, in which all that is held can still be spent.
    """
    if not held:
        return state
    limit = tuple(
        max(spent, limit - sum(other.limit[axis] - other.spent[axis] for other in held))
        for axis, (spent, limit) in enumerate(zip(state.spent, state.limit, strict=True))
    )
    parts: list[State | None] = []
    for place, part in enumerate(state.parts):
        if not is_open(part):
            parts.append(part)
        elif not _member_serves(state, held, place):
            parts.append(None)
        else:
            theirs = [member for other in held if is_open(member := other.parts[place])]
            parts.append(lessened(part, theirs))
    return state._replace(limit=limit, parts=tuple(parts))
