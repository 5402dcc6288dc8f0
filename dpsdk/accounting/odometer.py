"""The one place where spending changes: it refuses what does not fit and reports what was spent."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from threading import Lock
from typing import NamedTuple, NoReturn, SupportsIndex

from dpsdk._checks import shown, to_integer, to_probability
from dpsdk.accounting.anytime import Anytime
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.charges import figures, leak
from dpsdk.accounting.composition import Composition, State
from dpsdk.accounting.conversion import zcdp_epsilon
from dpsdk.accounting.grid import from_steps
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.plan import plan
from dpsdk.accounting.readings import Readings
from dpsdk.accounting.spent import Charge, Remaining, Spent
from dpsdk.accounting.states import lessened, worst
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, NotCopyable
from dpsdk.typing import Real

__all__ = ["Charge", "Odometer", "Remaining", "Spent"]


def _reading(guarantee: Guarantee) -> tuple[int | None, int]:
    """The pure ε, where the run has one without a leak, and the ρ; in steps, rounded up."""
    priced = figures(guarantee)
    return None if priced.leak_steps else priced.epsilon_steps, priced.rho_steps


class Line(NamedTuple):
    """What runs amount to for one kind of neighbours: a filter's state, and sums to report."""

    state: State
    epsilon: int | None
    rho: int


class Books(NamedTuple):
    """One moment of an odometer, replaced as a whole so that readers need no lock."""

    lines: tuple[Line, ...]
    charges: int


def worst_line(lines: Sequence[Line]) -> Line:
    """A line that is at least as far spent as each of these."""
    if len(lines) == 1:
        return lines[0]
    sizes = [line.epsilon for line in lines]
    known = [size for size in sizes if size is not None]
    return Line(
        worst([line.state for line in lines]),
        max(known) if len(known) == len(sizes) else None,
        max(line.rho for line in lines),
    )


Decision = list[tuple["Odometer", tuple[Line, ...]]]
"""The new lines of every odometer that a charge concerns, the outermost first."""


class Odometer:
    """Enforces one budget over all runs of a session, and remembers them.

    Safe for threads: each charge is checked and taken in one step. It cannot be copied or pickled,
    and refuses charges in a forked process, since either would spend the same budget twice.

    Parameters
    ----------
    budget
        What may be spent.
    composition
        The filter that decides what fits.
    anytime
        A bound for `readings` to report, fixed before the first run. It enforces nothing.
    """

    def __init__(
        self, budget: Budget, composition: Composition, anytime: Anytime | None = None
    ) -> None:
        self._budget = budget
        self._composition = composition
        self._anytime = anytime
        self._books = Books((Line(composition.begin(budget), epsilon=0, rho=0),), charges=0)
        self._divided = False
        self._reserves: tuple[Odometer, ...] = ()
        self._entries: list[Charge] = []
        self._process = os.getpid()
        self._lock = Lock()

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return self._budget

    @property
    def composition(self) -> Composition:
        """The filter that decides what fits."""
        return self._composition

    @property
    def state(self) -> State:
        """The filter's state at this moment."""
        return self._worst(None).state

    @property
    def entries(self) -> tuple[Charge, ...]:
        """All charges so far, in order."""
        return tuple(self._entries)

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        return self._spent(self._worst(None), self._books.charges)

    @property
    def remaining(self) -> Remaining:
        """What can still be spent, leaving to scopes what they reserved."""
        return self._remaining(None, None)

    def readings(self, delta: Real) -> Readings:
        """What the runs so far cost, read in several ways, each with its condition.

        Parameters
        ----------
        delta
            Strictly between 0 and 1: the δ of the figures that hold at one level.

        Raises
        ------
        InvalidArgument
            If `delta` is out of range.
        """
        level = to_probability("delta", delta)
        books = self._books
        rho = from_steps(worst_line(books.lines).rho)
        runs = [entry.guarantee for entry in self._entries[: books.charges]]
        leaks = sum((leak(run) for run in runs), Fraction(0))
        anytime = None if leaks or self._anytime is None else self._anytime.epsilon(rho)
        return Readings(
            delta=level,
            always=self._budget,
            anytime=anytime,
            level=zcdp_epsilon(rho, level - leaks) if leaks < level else math.inf,
            planned=plan(runs).epsilon(level),
        )

    def affords(self, guarantee: Guarantee) -> int | None:
        """How many more such runs fit, one after the other; None where they are free.

        Raises
        ------
        UnsupportedGuarantee
            If the composition has no theorem that prices the guarantee.
        """
        return self.affords_all((guarantee,))

    def affords_all(self, guarantees: Iterable[Guarantee]) -> int | None:
        """How many times all of these runs fit, one after the other; None where all are free.

        Exact, but where a scope has reserved something: then at least so many fit.

        Raises
        ------
        UnsupportedGuarantee
            If the composition has no theorem that prices one of the guarantees.
        """
        return self._rounds(tuple(guarantees), None, None)

    def charge(self, guarantee: Guarantee, label: str) -> int:
        """Charge one run before it happens; there is no refund.

        Parameters
        ----------
        guarantee
            What is proven of the run.
        label
            What the run is for; public.

        Returns
        -------
        int
            The number of the charge, counted from 1.

        Raises
        ------
        BudgetExceeded
            If it does not fit. Nothing has changed, and a smaller run may still fit.
        UnsupportedGuarantee
            If the composition has no theorem that prices the guarantee.
        """
        return self._take((guarantee,), label)

    def charge_all(self, guarantees: Iterable[Guarantee], label: str) -> tuple[int, ...]:
        """Charge several runs at once, all of them or none.

        Parameters
        ----------
        guarantees
            What is proven of each run, in the order of charging.
        label
            What the runs are for; public.

        Returns
        -------
        tuple of int
            The numbers of the charges.

        Raises
        ------
        BudgetExceeded
            If they do not fit together. Nothing has changed.
        UnsupportedGuarantee
            If the composition has no theorem that prices one of them.
        """
        runs = tuple(guarantees)
        last = self._take(runs, label)
        return tuple(range(last - len(runs) + 1, last + 1))

    def divide(self, kinds: int) -> None:
        """Keep separate lines for so many kinds of neighbours, until `merge`.

        Every line starts from what is spent so far. A charge then counts on all lines, but for
        charges through a `PartOdometer`, which count on some.

        Raises
        ------
        InvalidArgument
            If the lines are divided already, or the number is not a positive integer.
        """
        count = to_integer("kinds", kinds, "a positive integer")
        if count < 1:
            raise InvalidArgument("kinds", "a positive integer", shown(kinds))
        with self._lock:
            if self._divided:
                expected = "undivided: one partition of a table at a time"
                raise InvalidArgument("odometer", expected, "one with a partition open")
            self._divided = True
            self._books = Books(self._books.lines * count, self._books.charges)

    def merge(self) -> None:
        """Go on with one line, at least as far spent as each."""
        with self._lock:
            self._books = Books((worst_line(self._books.lines),), self._books.charges)
            self._divided = False

    def _take(self, guarantees: tuple[Guarantee, ...], label: str) -> int:
        if os.getpid() != self._process:
            raise Closed("an odometer in a forked process")
        with self._lock:
            numbers = [
                odometer._commit(lines, guarantees, label)  # of this class
                for odometer, lines in self._decide(guarantees, None, None)
            ]
        return numbers[0]

    def _decide(
        self,
        guarantees: tuple[Guarantee, ...],
        among: frozenset[int] | None,
        holder: Odometer | None,
    ) -> Decision:
        """What a charge would change, on some lines or on all; changes nothing.

        `holder` is the scope that asks, whose own reserve it may use.
        """
        held = self._held(holder)
        lines = self._books.lines
        if len(lines) == 1:
            only = self._advanced(lines[0], guarantees, held)
            if only is None:
                raise self._refusal(guarantees)
            return [(self, (only,))]
        asked = range(len(lines)) if among is None else among
        # Most lines are alike, so that few have to be worked out.
        after = {line: self._advanced(line, guarantees, held) for line in {lines[i] for i in asked}}
        changed: list[Line] = []
        for place, line in enumerate(lines):
            new = after[line] if place in asked else line
            if new is None:
                raise self._refusal(guarantees)
            changed.append(new)
        return [(self, tuple(changed))]

    def _advanced(
        self, line: Line, guarantees: tuple[Guarantee, ...], held: Sequence[State]
    ) -> Line | None:
        state, epsilon, rho = line
        for guarantee in guarantees:
            if held and self._composition.charge(lessened(state, held), guarantee) is None:
                return None
            after = self._composition.charge(state, guarantee)
            if after is None:
                return None
            pure, concentrated = _reading(guarantee)
            epsilon = None if epsilon is None or pure is None else epsilon + pure
            rho += concentrated
            state = after
        return Line(state, epsilon, rho)

    def _commit(
        self, lines: tuple[Line, ...], guarantees: tuple[Guarantee, ...], label: str
    ) -> int:
        charges = self._books.charges
        entries = [
            Charge(number, label, guarantee)
            for number, guarantee in enumerate(guarantees, start=charges + 1)
        ]
        # The sum before the list: an interrupt in between must not leave a run uncounted.
        self._books = Books(lines, charges + len(entries))
        self._entries.extend(entries)
        return charges + len(entries)

    def _held(self, holder: Odometer | None) -> list[State]:
        return [odometer.state for odometer in self._reserves if odometer is not holder]

    def _lines(self, among: frozenset[int] | None) -> list[Line]:
        # Lines may have been merged meanwhile; then the one that is left is the worst.
        lines = self._books.lines
        return [line for place, line in enumerate(lines) if among is None or place in among] or [
            worst_line(lines)
        ]

    def _worst(self, among: frozenset[int] | None) -> Line:
        return worst_line(self._lines(among))

    def _left(self, among: frozenset[int] | None, holder: Odometer | None) -> list[State]:
        held = self._held(holder)
        return [lessened(state, held) for state in {line.state for line in self._lines(among)}]

    def _rounds(
        self,
        guarantees: tuple[Guarantee, ...],
        among: frozenset[int] | None,
        holder: Odometer | None,
    ) -> int | None:
        counts = [
            self._composition.rounds(state, guarantees) for state in self._left(among, holder)
        ]
        return min((count for count in counts if count is not None), default=None)

    def _spent(self, line: Line, charges: int, of: str = "") -> Spent:
        return Spent(
            fraction=self._composition.fraction(line.state),
            epsilon=None if line.epsilon is None else from_steps(line.epsilon),
            rho=from_steps(line.rho),
            delta=self._composition.leaked(line.state),
            charges=charges,
            guarantee=self._budget,
            of=of,
        )

    def _remaining(self, among: frozenset[int] | None, holder: Odometer | None) -> Remaining:
        states = self._left(among, holder)
        return Remaining(
            fraction=1.0 - self._composition.fraction(self._worst(among).state),
            epsilon=min(self._composition.largest_epsilon(state) for state in states),
            rho=min(self._composition.largest_rho(state) for state in states),
        )

    def _refusal(self, guarantees: tuple[Guarantee, ...]) -> BudgetExceeded:
        first = guarantees[0]
        if len(guarantees) == 1:
            asked = str(first)
        elif all(guarantee == first for guarantee in guarantees):
            asked = f"{len(guarantees):,} runs of {first}"
        else:
            asked = f"{len(guarantees):,} runs together, the first of {first}"
        return BudgetExceeded(asked, str(self.spent), str(self.remaining))

    def __repr__(self) -> str:
        return f"Odometer({self.spent})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise NotCopyable("an odometer")
