"""The one place where spending changes: it refuses what does not fit and reports what was spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import NoReturn, SupportsIndex

from dpsdk._checks import shown, to_integer, to_probability
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.copies import book_copy, client_copy
from dpsdk.accounting.declared.anytime import Anytime, own_anytime
from dpsdk.accounting.declared.runs import declare
from dpsdk.accounting.filters.comparison import lessened, own_state
from dpsdk.accounting.filters.composition import Composition, Runs, State, counted
from dpsdk.accounting.filters.copies import client_composition, own_budget, own_composition
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.ledger.books import (
    SESSION,
    Books,
    Misfit,
    charged,
    concerned,
    divided,
    held_by_others,
    undivided,
)
from dpsdk.accounting.ledger.lines import Line, worst_line
from dpsdk.accounting.ledger.memory import Ledger, Paid
from dpsdk.accounting.numbers.rounding import float_up, fraction_up
from dpsdk.accounting.numbers.steps import from_steps
from dpsdk.accounting.prices.conversion import zcdp_epsilon
from dpsdk.accounting.prices.run import leak
from dpsdk.accounting.refusals import refusal
from dpsdk.accounting.spent import Asked, Charge, Readings, Remaining, Spent
from dpsdk.errors import BudgetExceeded, InvalidArgument, NotCopyable
from dpsdk.typing import Real

__all__ = ["Charge", "Odometer", "Remaining", "Spent", "charge_of"]


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
        self._budget = own_budget(budget)
        self._composition = own_composition(composition)
        self._anytime = None if anytime is None else own_anytime(anytime)
        self._begun = self._composition.begin(self._budget)
        self._ledger = Ledger(Books((Line(self._begun),), None, {}, charges=0))
        self._payer = SESSION

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return own_budget(self._budget)

    @property
    def composition(self) -> Composition:
        """The filter that decides what fits."""
        return client_composition(self._composition)

    @property
    def state(self) -> State:
        """The filter's state at this moment; where there are several, one as far as each."""
        return own_state(self._line(self._ledger.read()).state)

    @property
    def entries(self) -> tuple[Charge, ...]:
        """All charges so far, in order."""
        return self._entries(self._ledger.read())

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        return self._spent(self._ledger.read())

    @property
    def remaining(self) -> Remaining:
        """What can still be spent, leaving to scopes what they reserved."""
        return self._remaining(self._ledger.read())

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
        books = self._ledger.read()
        rho = from_steps(self._line(books).rho)
        runs = [charge.guarantee for charge in self._entries(books)]
        leaks = sum((leak(run) for run in runs), Fraction(0))
        always = self.budget
        summed = zcdp_epsilon(rho, level - leaks) if leaks < level else math.inf
        known = declare(runs).epsilon(level)
        # What the session keeps in any case bounds what a figure at no smaller δ may say.
        cap = float_up(fraction_up(always.epsilon))
        if level >= always.delta:
            summed, known = min(summed, cap), min(known, cap)
        bound, anytime = self._anytime, None
        if bound is not None and not leaks:
            anytime = bound.epsilon(rho)
            anytime = min(anytime, cap) if bound.delta >= always.delta else anytime
        return Readings(level, always, anytime, summed, known)

    def affords(self, guarantee: Guarantee) -> int | None:
        """How many more such runs fit, one after the other; None where they are free.

        Raises
        ------
        UnsupportedGuarantee
            If the composition has no theorem that prices the guarantee.
        """
        return self.affords_all((guarantee,))

    def affords_all(self, runs: Runs) -> int | None:
        """How many times all of these runs fit, one after the other; None where all are free.

        Exact, but where a scope has reserved something: then at least so many fit.

        Raises
        ------
        UnsupportedGuarantee
            If the composition has no theorem that prices one of the guarantees.
        """
        priced = tuple((book_copy(run), count) for run, count in counted(runs))
        return self._rounds(self._ledger.read(), priced)

    def charge(self, guarantee: Guarantee, label: str | Asked) -> int:
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
        Closed
            If the scope, or the part of a table, is closed, or in a forked process.
        """
        return self._take((book_copy(guarantee),), label)

    def charge_all(self, guarantees: Iterable[Guarantee], label: str | Asked) -> tuple[int, ...]:
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
        Closed
            If the scope, or the part of a table, is closed, or in a forked process.
        """
        runs = tuple(map(book_copy, guarantees))
        if not runs:
            return ()
        last = self._take(runs, label)
        return tuple(range(last - len(runs) + 1, last + 1))

    def charged_for(self, question: int, since: int = 0) -> tuple[Charge, ...]:
        """The charges of one question, of those after the first `since`."""
        return tuple(
            charge_of(number, paid)
            for number, paid in enumerate(self._ledger.paid(since), since + 1)
            if paid.asked.number == question
        )

    def cost_of(self, question: int, since: int = 0) -> tuple[Guarantee, ...]:
        """What was charged for one question, of the charges after the first `since`."""
        return tuple(
            client_copy(paid.guarantee)
            for paid in self._ledger.paid(since)
            if paid.asked.number == question
        )

    @property
    def charges(self) -> int:
        """The number of all charges of the session."""
        return self._ledger.count

    def generation(self) -> int:
        """A number for a division to come."""
        return self._ledger.number()

    def divide(
        self, generation: int, parts: int, *, moves: bool, owner: object | None = None
    ) -> None:
        """Keep apart what each kind of neighbours sees of so many parts, until `merge`.

        Everybody starts from what is spent so far. A charge then counts for all, but for charges
        through a `PartOdometer`, which count for neighbours that differ in its part.

        Parameters
        ----------
        generation
            The number of the division, from `generation`.
        parts
            How many parts there are, at least 1.
        moves
            Whether a row may move from one part to another, so that neighbours may differ in two.
        owner
            Once nobody holds this object any more, the division is over as well.

        Raises
        ------
        InvalidArgument
            If a division is open already, or the number is not a positive integer.
        """
        count = to_integer("parts", parts, "a positive integer")
        if count < 1:
            raise InvalidArgument("parts", "a positive integer", shown(parts))

        def decide(books: Books) -> Books:
            after = divided(books, generation, count, moves=moves)
            if after is None:
                expected = "undivided: one partition of a table at a time"
                raise InvalidArgument("odometer", expected, "one with a partition open")
            return after

        if owner is not None:
            self._ledger.when_gone(owner, partial(undivided, generation=generation))
        self._ledger.transact(decide)

    def merge(self, generation: int) -> None:
        """End a division, if it is the open one, and keep what its kinds of neighbours saw.

        It never waits, and a second time it does nothing.
        """
        self._ledger.later(partial(undivided, generation=generation))

    def _take(self, runs: tuple[Guarantee, ...], label: str | Asked) -> int:
        asked = Asked(*label) if isinstance(label, Asked) else Asked(str.__add__("", label))

        def decide(books: Books) -> Books:
            self._check(books)
            after = charged(self._composition, books, self._payer, runs)
            if isinstance(after, Misfit):
                raise _Refused(after, books)
            return after

        paid = [Paid(asked, run, self._payer) for run in runs]
        try:
            return self._ledger.transact(decide, paid).charges
        except _Refused as refused:
            misfit, books = refused.misfit, refused.books
        raise self._refusal(misfit, books, runs)

    def _check(self, books: Books) -> None:
        """Refuse where the payer is closed. The budget as a whole never is."""

    def _states(self, books: Books) -> Sequence[State]:
        """The states by which the whole session decides, with what others hold taken off."""
        aside = held_by_others(books, self._payer)
        lines = dict.fromkeys(chain.from_iterable(concerned(books, self._payer)))
        return tuple(dict.fromkeys(lessened(line.state, aside) for line in lines))

    def _line(self, books: Books) -> Line:
        return worst_line(tuple(chain.from_iterable(concerned(books, self._payer))))

    def _entries(self, books: Books) -> tuple[Charge, ...]:
        runs = self._ledger.paid()[: books.charges]
        return tuple(charge_of(number, paid) for number, paid in enumerate(runs, 1))

    def _rounds(self, books: Books, runs: tuple[tuple[Guarantee, int], ...]) -> int | None:
        counts = [self._composition.rounds(state, runs) for state in self._states(books)]
        return min((count for count in counts if count is not None), default=None)

    def _spent(self, books: Books) -> Spent:
        lines = tuple(chain.from_iterable(concerned(books, self._payer)))
        return self._summed(lines, books.charges, "")

    def _summed(self, lines: Sequence[Line], charges: int, of: str) -> Spent:
        sizes = [line.epsilon for line in lines]
        known = [size for size in sizes if size is not None]
        states = [line.state for line in lines]
        return Spent(
            fraction=max(map(self._composition.fraction, states)),
            epsilon=from_steps(max(known)) if len(known) == len(sizes) else None,
            rho=from_steps(max(line.rho for line in lines)),
            delta=max(map(self._composition.leaked, states)),
            charges=charges,
            guarantee=self.budget,
            of=of,
        )

    def _remaining(self, books: Books) -> Remaining:
        states = self._states(books)
        lines = chain.from_iterable(concerned(books, self._payer))
        return Remaining(
            fraction=1.0 - max(self._composition.fraction(line.state) for line in lines),
            epsilon=min(map(self._composition.largest_epsilon, states)),
            rho=min(map(self._composition.largest_rho, states)),
        )

    def _refusal(self, misfit: Misfit, books: Books, runs: tuple[Guarantee, ...]) -> BudgetExceeded:
        spent, remaining = self._spent(books), self._remaining(books)
        return refusal(
            self._composition,
            self._states(books),
            runs,
            spent,
            remaining,
            reserved=misfit.reserved,
        )

    def __repr__(self) -> str:
        return f"Odometer({self.spent})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise NotCopyable("an odometer")


class _Refused(Exception):
    """Ends a decision that does not fit."""

    def __init__(self, misfit: Misfit, books: Books) -> None:
        super().__init__()
        self.misfit = misfit
        self.books = books


def charge_of(number: int, paid: Paid) -> Charge:
    """A charge to hand out."""
    asked, guarantee = paid.asked, client_copy(paid.guarantee)
    return Charge(number, asked.query, guarantee, asked.mechanism, asked.number)
