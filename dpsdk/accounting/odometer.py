"""The one place where spending changes: it refuses what does not fit and reports what was spent."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from threading import Lock
from typing import NamedTuple, NoReturn, SupportsIndex

from attrs import frozen

from dpsdk._checks import to_probability
from dpsdk.accounting.anytime import Anytime
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.charges import leak, pure_epsilon, zcdp_rho
from dpsdk.accounting.composition import Composition, State
from dpsdk.accounting.conversion import zcdp_epsilon
from dpsdk.accounting.figures import figure, percentage
from dpsdk.accounting.grid import ceil_steps, from_steps
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.plan import plan
from dpsdk.accounting.readings import Readings
from dpsdk.errors import BudgetExceeded, Closed, NotCopyable
from dpsdk.typing import Real

__all__ = ["Charge", "Odometer", "Remaining", "Spent"]


@frozen
class Charge:
    """One accepted run: its number, from 1, the caller's label, and what is proven of it."""

    number: int
    label: str
    guarantee: Guarantee


@frozen(repr=False)
class Spent:
    """What a session has spent.

    Parameters
    ----------
    fraction
        The share of the budget that is gone, from 0 to 1.
    epsilon
        The sum of the pure ε of all runs, if every run had one and none could leak; else None.
    rho
        The sum of the ρ of zCDP of all runs, leaks aside.
    delta
        The sum of the leaks.
    charges
        The number of runs.
    guarantee
        What the session keeps whatever is asked next. The other figures describe the runs so far;
        only this one holds when the moment of looking depends on the answers.
    """

    fraction: float
    epsilon: Fraction | None
    rho: Fraction
    delta: Fraction
    charges: int
    guarantee: Budget

    def __str__(self) -> str:
        runs = "1 charge" if self.charges == 1 else f"{self.charges:,} charges"
        parts = [f"{percentage(self.fraction)} of {self.guarantee} in {runs}"]
        if self.epsilon is not None:
            parts.append(f"epsilon {figure(self.epsilon)}")
        parts.append(f"rho {figure(self.rho)}")
        if self.delta:
            parts.append(f"delta {figure(self.delta)}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Spent({self})"


@frozen(repr=False)
class Remaining:
    """What a session can still spend.

    Parameters
    ----------
    fraction
        The share of the budget that is left, from 0 to 1.
    epsilon
        The largest ε of one pure run that still fits.
    rho
        The largest ρ of one discrete Gaussian run that still fits.
    """

    fraction: float
    epsilon: Fraction
    rho: Fraction

    def __str__(self) -> str:
        return (
            f"{percentage(self.fraction)}, at most one run of epsilon {figure(self.epsilon)} "
            f"or of rho {figure(self.rho)}"
        )

    def __repr__(self) -> str:
        return f"Remaining({self})"


@lru_cache(maxsize=4096)
def _reading(guarantee: Guarantee) -> tuple[int | None, int]:
    """The pure ε, where the run has one without a leak, and the ρ; in steps, rounded up."""
    pure = None if leak(guarantee) else pure_epsilon(guarantee)
    return None if pure is None else ceil_steps(pure), ceil_steps(zcdp_rho(guarantee))


class _Books(NamedTuple):
    """One moment of an odometer, replaced as a whole so that readers need no lock."""

    state: State
    epsilon: int | None
    rho: int
    charges: int


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
        A bound to report beside it, fixed before the first run. It enforces nothing.
    """

    def __init__(
        self, budget: Budget, composition: Composition, anytime: Anytime | None = None
    ) -> None:
        self._budget = budget
        self._composition = composition
        self._anytime = anytime
        self._books = _Books(composition.begin(budget), epsilon=0, rho=0, charges=0)
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
        return self._books.state

    @property
    def entries(self) -> tuple[Charge, ...]:
        """All charges so far, in order."""
        return tuple(self._entries)

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        books = self._books
        return Spent(
            fraction=self._composition.fraction(books.state),
            epsilon=None if books.epsilon is None else from_steps(books.epsilon),
            rho=from_steps(books.rho),
            delta=self._composition.leaked(books.state),
            charges=books.charges,
            guarantee=self._budget,
        )

    @property
    def remaining(self) -> Remaining:
        """What can still be spent."""
        state = self._books.state
        return Remaining(
            fraction=1.0 - self._composition.fraction(state),
            epsilon=self._composition.largest_epsilon(state),
            rho=self._composition.largest_rho(state),
        )

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
        rho = from_steps(books.rho)
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
        return self._composition.capacity(self._books.state, guarantee)

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

    def _take(self, guarantees: tuple[Guarantee, ...], label: str) -> int:
        if os.getpid() != self._process:
            raise Closed("an odometer in a forked process")
        with self._lock:
            state, epsilon, rho, charges = self._books
            for guarantee in guarantees:
                after = self._composition.charge(state, guarantee)
                if after is None:
                    raise self._refusal(guarantees)
                pure, concentrated = _reading(guarantee)
                epsilon = None if epsilon is None or pure is None else epsilon + pure
                rho += concentrated
                state = after
            entries = [
                Charge(number, label, guarantee)
                for number, guarantee in enumerate(guarantees, start=charges + 1)
            ]
            # The sum before the list: an interrupt in between must not leave a run uncounted.
            self._books = _Books(state, epsilon, rho, charges + len(entries))
            self._entries.extend(entries)
            return charges + len(entries)

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
