"""Privacy filters: their interface, their state, and how states of one filter compare.

A composition is a public, frozen value that decides which runs still fit into a budget. The runs
may be chosen adaptively, each with any parameters and after seeing every earlier answer. All its
methods are pure functions; an `Odometer` is what holds a state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self, TypeAlias, TypeGuard

from dpsdk._checks import shown
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.guarantee import Guarantee, whole_of
from dpsdk.accounting.prices.run import prices_of
from dpsdk.codec import (
    JSON,
    WHOLE,
    Checked,
    Codebook,
    ListOf,
    Nested,
    Plain,
    Recorded,
    from_record,
    to_record,
    written,
)
from dpsdk.errors import UnsupportedGuarantee, WireError

__all__ = [
    "COMPOSITION",
    "NEVER_OPEN",
    "STATE",
    "Composition",
    "MembersComposition",
    "Runs",
    "State",
    "counted",
    "covered",
    "exhausted",
    "is_open",
    "lessened",
    "paired",
    "pattern",
    "serves",
    "serving",
    "share_of",
    "worst",
]

Runs: TypeAlias = Iterable[Guarantee | tuple[Guarantee, int]]
"""Runs in their order, as what is proven of each, or of so many equal ones in succession."""

Pairs: TypeAlias = list[tuple[Guarantee, int]]
"""Runs that are not free, each with how many equal ones follow each other."""


def paired(runs: Runs) -> Pairs:
    """Those of the runs that are not free, each with how many equal ones follow each other."""
    pairs = [run if isinstance(run, tuple) else (run, 1) for run in runs]
    return [(run, count) for run, count in pairs if count and not run.free]


def counted(runs: Runs) -> Pairs:
    """Those of the runs that are not free, each with how many equal ones follow each other.

    A run that is told period by period counts as what it is at the most.
    """
    return [(whole_of(run), count) for run, count in paired(runs)]


class _Part:
    """The state of a member; "closed", or "never" for one that never was open."""

    def write(self, value: State | None, path: str, codebook: Codebook, /) -> Plain:
        if value is None:
            return "closed"
        return "never" if value == NEVER_OPEN else STATE.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> State | None:
        if type(plain) is str:
            if plain not in {"closed", "never"}:
                raise WireError(path, "a state, closed or never", shown(plain))
            return None if plain == "closed" else NEVER_OPEN
        return STATE.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [{"enum": ["closed", "never"]}, STATE.schema(codebook)]}


STEPS = Checked(WHOLE, lambda steps: steps >= 0, "an integer of at least 0")
"""An amount in steps of the grid, as a member of written forms."""


@written(
    "state",
    {
        "spent": ListOf(STEPS, most=16),
        "limit": ListOf(STEPS, most=16),
        "parts": ListOf(_Part(), most=64),
        "reach": STEPS,
    },
    wrong=lambda state: (
        "" if len(state.spent) == len(state.limit) else "as many axes spent as limited"
    ),
    public=False,
)
class State(NamedTuple):
    """How far a budget is spent, in steps of the grid; its size does not grow with the charges.

    Scopes and partitions compare states and lower their limits. So a state that is spent further on
    some axis, has a lower limit or fewer open parts must certify no more, and admit no more; and
    what a run adds to `spent` must not grow as the limit does.

    Parameters
    ----------
    spent
        What was charged on each axis of the composition, such as ρ and leaks.
    limit
        What may be charged on each axis.
    parts
        The states of the members of a composition that has any; None for a member that a run has
        closed, and `NEVER_OPEN` for one that the budget gave nothing to begin with.
    reach
        What a composition that has no one sum shows its `fraction` by, fixed at the beginning. It
        limits nothing, so that states are not compared by it, and nothing is taken off it.
    """

    spent: tuple[int, ...]
    limit: tuple[int, ...]
    parts: tuple[State | None, ...] = ()
    reach: int = 0

    def left(self, axis: int) -> int:
        """The rest of the limit on an axis."""
        return self.limit[axis] - self.spent[axis]

    def to_record(self) -> JSON:
        """The state as plain data; raises `RecordError` of more than 16 axes or 64 parts."""
        return to_record(self)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The state of a record; raises `RecordError` if it is none of a state."""
        return from_record(cls, record)


STATE = Nested[State]("a state", State)

NEVER_OPEN = State((), ())
"""Stands for a member of a composition that has accepted nothing and never will.

`is_open` tells such members by what they hold.
"""


def is_open(part: State | None) -> TypeGuard[State]:
    """True if a member of a composition may still accept runs."""
    return part is not None and bool(part.limit or part.parts)


class Composition(Recorded, ABC):
    """A privacy filter: as long as every run was accepted, the session keeps its budget.

    Members are frozen values that compare equal when they decide alike. All that prices a run
    raises `UnsupportedGuarantee` where no theorem does.
    """

    __slots__ = ()

    uses_delta: ClassVar[bool] = True
    """True if the theorem behind the filter itself spends δ, leaks aside."""

    @property
    def concurrent(self) -> bool:
        """True if interactive runs may stay open and interleave with others.

        False unless a composition says, with a proof, that it may.
        """
        return False

    @abstractmethod
    def begin(self, budget: Budget) -> State:
        """The state in which nothing was charged."""

    @abstractmethod
    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        """The state after one more run, or None where the run does not fit."""

    def charge_all(self, state: State, runs: Runs) -> State | None:
        """The state after all of these runs, one after the other, or None where they do not fit.

        Takes one step a run unless a composition knows better.
        """
        for guarantee, times in counted(runs):
            for _ in range(times):
                after = self.charge(state, guarantee)
                if after is None:
                    return None
                state = after
        return state

    @abstractmethod
    def capacity(self, state: State, guarantee: Guarantee) -> int | None:
        """How many such runs still fit, one after the other; None where they are free."""

    def rounds(self, state: State, runs: Runs) -> int | None:
        """How many times all of these runs fit, one after the other; None where all are free.

        Takes one step a run unless a composition knows better.
        """
        priced = counted(runs)
        if not priced:
            return None
        if len(priced) == 1:
            guarantee, times = priced[0]
            fits = self.capacity(state, guarantee)
            return None if fits is None else fits // times
        count, after = 0, self.charge_all(state, priced)
        while after is not None:
            count, after = count + 1, self.charge_all(after, priced)
        return count

    @abstractmethod
    def fraction(self, state: State) -> float:
        """The share of the budget that is spent, from 0 to 1."""

    @abstractmethod
    def leaked(self, state: State) -> Fraction:
        """The δ that accepted runs have spent as leaks."""

    @abstractmethod
    def largest_epsilon(self, state: State) -> Fraction:
        """The largest ε, rounded down, of one pure run that still fits; 0 where none does."""

    @abstractmethod
    def largest_rho(self, state: State) -> Fraction:
        """The largest ρ, rounded down, of one discrete Gaussian run that fits; 0 if none does."""

    @abstractmethod
    def describe(self, state: State) -> tuple[str, ...]:
        """Describe the spending, in one short text for each member still open."""


_ANY_BUDGET = Budget(1000, "0.5")
"""A budget like any other: prices of guarantees do not depend on it."""

COMPOSITION = Nested[Composition]("a composition", Composition)
"""A composition of any kind, as a member of written forms."""


class MembersComposition(Composition):
    """Accepts a run while some member, each with a part of the state, has accepted all of them."""

    __slots__ = ()

    leak_share: Fraction

    @property
    @abstractmethod
    def members(self) -> Sequence[Composition]:
        """The compositions, in the order of the parts of a state."""

    @property
    def concurrent(self) -> bool:
        return all(member.concurrent for member in self.members)

    @abstractmethod
    def priced(self, runs: Runs) -> tuple[Pairs, int]:
        """The runs as members price them, and the leaks that are set aside, in steps."""

    def _check_priced(self, state: State, runs: Pairs, error: UnsupportedGuarantee) -> None:
        """Raise the error of a member if none, open or closed, has a price for one of the runs."""
        pairs = zip(self.members, state.parts, strict=True)
        begun = [member for member, part in pairs if part is None or is_open(part)]
        for guarantee, _ in runs:
            # Basic composition prices leaks, but has no δ here: a share for them is missing.
            leaking = prices_of(guarantee).leak_steps and not self.leak_share
            if leaking or not any(_prices(member, guarantee) for member in begun):
                raise error

    def after(self, state: State, runs: Pairs, leaks: int) -> State | None:
        """The state after runs that `priced` gave, or None where no open member accepts all."""
        spent = state.spent
        if leaks:
            spent = (spent[0] + leaks,)
            if spent > state.limit:
                return None
        if not runs:
            return state._replace(spent=spent)
        alone = runs[0][0] if len(runs) == 1 and runs[0][1] == 1 else None
        accepted = False
        parts: list[State | None] = []
        unpriced: UnsupportedGuarantee | None = None
        for member, part in zip(self.members, state.parts, strict=True):
            after = part
            if part is not None and (part.limit or part.parts):  # open
                try:
                    if alone is None:
                        after = member.charge_all(part, runs)
                    else:
                        after = member.charge(part, alone)
                    accepted = accepted or after is not None
                except UnsupportedGuarantee as error:
                    after, unpriced = None, error
            parts.append(after)
        if accepted:
            return state._replace(spent=spent, parts=tuple(parts))
        if unpriced is not None:
            self._check_priced(state, runs, unpriced)
        return None

    def charge_all(self, state: State, runs: Runs) -> State | None:
        """The state after all of these runs, or None where no open member accepts all of them.

        A member that a run has closed takes no later one, so that each is asked for all at once.
        """
        return self.after(state, *self.priced(runs))

    def capacity(self, state: State, guarantee: Guarantee) -> int | None:
        return self.rounds(state, (guarantee,))

    def rounds(self, state: State, runs: Runs) -> int | None:
        priced, leaks = self.priced(runs)
        most = state.left(0) // leaks if leaks else None
        if not priced:
            return most
        # Whatever was accepted so far, some one member has accepted all of it.
        fits = 0
        unpriced: UnsupportedGuarantee | None = None
        for member, part in self.open_members(state):
            try:
                count = member.rounds(part, priced)
            except UnsupportedGuarantee as error:
                unpriced = error
            else:
                if count is None:
                    return most
                fits = max(fits, count)
        if unpriced is not None and not fits:
            self._check_priced(state, priced, unpriced)
        return fits if most is None else min(fits, most)

    def fraction(self, state: State) -> float:
        """Return the share that the open member has spent that has spent the least of its own.

        That member accepts the most further runs, so a run that takes a tenth fits ten times. One
        large run may not fit although much is left: `largest_epsilon` tells.
        """
        return min(
            (member.fraction(part) for member, part in self.open_members(state)), default=1.0
        )

    def leaked(self, state: State) -> Fraction:
        leaks = (member.leaked(part) for member, part in self.open_members(state))
        return max(leaks, default=Fraction(0))

    def largest_epsilon(self, state: State) -> Fraction:
        sizes = (member.largest_epsilon(part) for member, part in self.open_members(state))
        return max(sizes, default=Fraction(0))

    def largest_rho(self, state: State) -> Fraction:
        sizes = (member.largest_rho(part) for member, part in self.open_members(state))
        return max(sizes, default=Fraction(0))

    def describe(self, state: State) -> tuple[str, ...]:
        pairs = self.open_members(state)
        return tuple([text for member, part in pairs for text in member.describe(part)])

    def open_members(self, state: State) -> list[tuple[Composition, State]]:
        """The members that may still accept runs, each with its part of the state."""
        pairs = zip(self.members, state.parts, strict=True)
        return [(member, part) for member, part in pairs if is_open(part)]


def _prices(member: Composition, guarantee: Guarantee) -> bool:
    try:
        member.charge(member.begin(_ANY_BUDGET), guarantee)
    except UnsupportedGuarantee:
        return False
    return True


# Comparisons rely on what `State` promises: less spent and more open members admit whatever more
# spent and fewer open members do, and the charge of a run does not grow with what is left.
# docs/explanation/proofs/scopes.md has the proofs.


def worst(states: Sequence[State]) -> State:
    """A state that admits nothing that one of these, with the same limits, does not."""
    first = states[0]
    if all(state is first for state in states):
        return first
    parts: list[State | None] = []
    for members in zip(*(state.parts for state in states), strict=True):
        there = [member for member in members if member is not None]
        parts.append(worst(there) if len(there) == len(members) else None)
    spent = tuple(map(max, zip(*(state.spent for state in states), strict=True)))
    return first._replace(spent=spent, parts=tuple(parts))


def covered(state: State, by: State) -> bool:
    """True if a state is no further spent than another of the same limits, in every member.

    Then it admits whatever the other does.
    """
    return all(mine <= theirs for mine, theirs in zip(state.spent, by.spent, strict=True)) and all(
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


def exhausted(state: State) -> State:
    """The state in which nothing is left, and no member is open."""
    parts = tuple(None if is_open(part) else part for part in state.parts)
    return state._replace(spent=state.limit, parts=parts)


def _open_parts(states: Sequence[State], place: int) -> list[State]:
    return [part for state in states if is_open(part := state.parts[place])]


def serves(state: State, held: Sequence[State]) -> bool:
    """True if all that others hold can still be spent: of several members, in one and the same."""
    for axis in range(len(state.limit)):
        if sum(other.left(axis) for other in held) > state.left(axis):
            return False
    places = range(len(state.parts))
    return not state.parts or any(_member_serves(state, held, place) for place in places)


def _member_serves(state: State, held: Sequence[State], place: int) -> bool:
    part, theirs = state.parts[place], _open_parts(held, place)
    return is_open(part) and len(theirs) == len(held) and serves(part, theirs)


def serving(asked: State, states: Sequence[State], held: Sequence[State]) -> State:
    """The request in those members alone in which one state can serve all that is held.

    `held` includes what is asked.
    """
    parts: list[State | None] = []
    for place, part in enumerate(asked.parts):
        able = [state for state in states if _member_serves(state, held, place)]
        if is_open(part):
            inner, theirs = _open_parts(able, place), _open_parts(held, place)
            parts.append(serving(part, inner, theirs) if able else None)
        else:
            parts.append(part)
    return asked._replace(parts=tuple(parts))


def lessened(state: State, held: Sequence[State]) -> State:
    """The state as others may use it: what is held taken off, and only members that can serve it.

    Whatever it admits leaves a member, of several, in which all that is held can still be spent.
    """
    if not held:
        return state
    limit = tuple(
        max(spent, limit - sum(other.left(axis) for other in held))
        for axis, (spent, limit) in enumerate(zip(state.spent, state.limit, strict=True))
    )
    parts: list[State | None] = []
    for place, part in enumerate(state.parts):
        if is_open(part):
            able = _member_serves(state, held, place)
            parts.append(lessened(part, _open_parts(held, place)) if able else None)
        else:
            parts.append(part)
    return state._replace(limit=limit, parts=tuple(parts))
