"""The interface of privacy filters, and their state.

A composition is a public, frozen value that decides which runs still fit into a budget. The runs
may be chosen adaptively, each with any parameters and after seeing every earlier answer. All its
methods are pure functions; an `Odometer` is what holds a state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self, TypeAlias, TypeGuard

from dpsdk._checks import shown
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.codec import (
    JSON,
    WHOLE,
    Checked,
    Codebook,
    ListOf,
    Nested,
    Plain,
    from_record,
    to_record,
    written,
)
from dpsdk.errors import WireError

__all__ = [
    "COMPOSITION",
    "NEVER_OPEN",
    "STATE",
    "Composition",
    "Runs",
    "State",
    "counted",
    "is_open",
]

Runs: TypeAlias = Iterable[Guarantee | tuple[Guarantee, int]]
"""Runs in their order, as what is proven of each, or of so many equal ones in succession."""


def counted(runs: Runs) -> list[tuple[Guarantee, int]]:
    """Those of the runs that are not free, each with how many equal ones follow each other."""
    pairs = [run if isinstance(run, tuple) else (run, 1) for run in runs]
    return [(run, count) for run, count in pairs if count and not run.free]


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

    def to_record(self) -> JSON:
        """The state as plain data, for a ledger to write.

        Raises
        ------
        RecordError
            If it has more than 16 axes or 64 parts.
        """
        return to_record(self)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The state of a record.

        Raises
        ------
        RecordError
            If it is no record of a state.
        """
        return from_record(cls, record)


STATE = Nested[State]("a state", State)

NEVER_OPEN = State((), ())
"""Stands for a member of a composition that has accepted nothing and never will.

`is_open` tells such members by what they hold.
"""


def is_open(part: State | None) -> TypeGuard[State]:
    """True if a member of a composition may still accept runs."""
    return part is not None and bool(part.limit or part.parts)


class Composition(ABC):
    """A privacy filter: as long as every run was accepted, the session keeps its budget.

    Members are frozen values that compare equal when they decide alike.
    """

    __slots__ = ()

    uses_delta: ClassVar[bool] = True
    """True if the theorem behind the filter itself spends δ, leaks aside."""

    def to_record(self) -> JSON:
        """The composition as plain data, for a ledger to write.

        Raises
        ------
        RecordError
            If its class, or that of a member, is none of the package: no reader could know what
            it decides.
        """
        return to_record(self)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The composition of a record.

        Raises
        ------
        RecordError
            If it is no record of such a composition.
        """
        return from_record(cls, record)

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
        """The state after one more run, or None where the run does not fit.

        Raises
        ------
        UnsupportedGuarantee
            If no theorem prices the guarantee here.
        """

    def charge_all(self, state: State, runs: Runs) -> State | None:
        """The state after all of these runs, one after the other, or None where they do not fit.

        Takes one step a run unless a composition knows better.

        Raises
        ------
        UnsupportedGuarantee
            If no theorem prices one of the runs here.
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
        """How many such runs still fit, one after the other; None where they are free.

        Raises
        ------
        UnsupportedGuarantee
            If no theorem prices the guarantee here.
        """

    def rounds(self, state: State, runs: Runs) -> int | None:
        """How many times all of these runs fit, one after the other; None where all are free.

        Takes one step a round unless a composition knows better.

        Raises
        ------
        UnsupportedGuarantee
            If no theorem prices one of the runs here.
        """
        priced = counted(runs)
        if not priced:
            return None
        if len(priced) == 1:
            guarantee, times = priced[0]
            fits = self.capacity(state, guarantee)
            return None if fits is None else fits // times
        count = 0
        while True:
            for guarantee, times in priced:
                for _ in range(times):
                    after = self.charge(state, guarantee)
                    if after is None:
                        return count
                    state = after
            count += 1

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


COMPOSITION = Nested[Composition]("a composition", Composition)
"""A composition of any kind, as a member of written forms."""
