"""Statements: what an account shows of its ledger, and how it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import chain

from dpsdk._checks import to_probability
from dpsdk.accounting.balance import Balance
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.figures import readings_of, spent_of
from dpsdk.accounting.filters.composition import Composition, Runs, State, counted, lessened, serves
from dpsdk.accounting.filters.reserves import (
    Reserves,
    gaussian_of,
    larger_epsilons,
    largest_epsilons,
    largest_rhos,
    rounds_with_reserves,
)
from dpsdk.accounting.guarantee import Guarantee, PureGuarantee, check_guarantee
from dpsdk.accounting.ledger.books import Books, Misfit, concerned, held_by_others
from dpsdk.accounting.ledger.charge import SESSION, Charge, Payer
from dpsdk.accounting.ledger.lines import Line, worst_line
from dpsdk.accounting.ledger.session_ledger import SessionLedger
from dpsdk.accounting.refusals import refusal
from dpsdk.accounting.spent import Readings, Remaining, Spent, without_runs
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, UnsupportedGuarantee
from dpsdk.typing import Real

__all__ = ["Statement"]


class Statement:
    """The figures of an odometer. All come from the ledger, and so include every session."""

    _ledger: SessionLedger
    _budget: Budget
    _composition: Composition
    _anytime: Anytime | None
    _payer: Payer
    _session: int

    scope: str = ""
    """The name of the scope that it pays for; empty for a session itself."""

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return self._budget

    @property
    def composition(self) -> Composition:
        """The filter that decides what fits."""
        return self._composition

    @property
    def state(self) -> State:
        """The filter's state at this moment; where there are several, one as far as each."""
        return self._line(self._ledger.read()).state

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges so far, in order."""
        return tuple(self._charges(self._ledger.read()))

    @property
    def count(self) -> int:
        """The number of all charges."""
        return self._ledger.read().runs

    @property
    def session(self) -> int:
        """The number of this session on its ledger, counted from 1 in the order of opening."""
        return self._session

    @property
    def durable(self) -> bool:
        """True if its ledger outlives the process."""
        return self._ledger.durable

    @property
    def spent(self) -> Spent:
        """The spending so far.

        It may be read after closing. In a forked process, a ledger in memory is as it was then.
        """
        return self._spent(self._ledger.read())

    @property
    def remaining(self) -> Remaining:
        """The rest of the budget, less the reserves of scopes.

        No run fits where the scope, or the part of a table, is closed, or in a forked process.
        """
        return self._open_remaining(self._ledger.read())

    @property
    def balance(self) -> Balance:
        """The rest of the budget at this moment, to plan with."""
        states = dict.fromkeys(self._binding(self._ledger.read()))
        return Balance(self.composition, self.budget, tuple(states))

    def readings(self, delta: Real) -> Readings:
        """Read the cost of the runs so far in several ways, each with its condition.

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
        runs = [charge.guarantee for charge in self._charges(books)]
        return readings_of(self._line(books), runs, self.budget, self._anytime, level)

    def affords(self, guarantee: Guarantee) -> int | None:
        """How many more such runs fit, one after the other; None where they are free.

        Raises
        ------
        UnsupportedGuarantee
            If the composition has no theorem that prices the guarantee.
        Closed
            If the scope, or the part of a table, is closed, or in a forked process.
        """
        return self.affords_all((guarantee,))

    def affords_all(self, runs: Runs) -> int | None:
        """How many times all of these runs fit, one after the other; None where all are free.

        Exact as long as nobody else is charged or reserves anything. While a scope has a reserve,
        a composition of another author may accept more than that.

        Raises
        ------
        UnsupportedGuarantee
            If the composition has no theorem that prices one of the guarantees.
        Closed
            If the scope, or the part of a table, is closed, or in a forked process.
        """
        priced = tuple((check_guarantee(run), count) for run, count in counted(runs))
        books = self._ledger.read()
        self._check_open(books)
        return self._rounds(books, priced)

    def check_open(self) -> None:
        """Refuse where nothing is charged. The ledger is read only of what others may close.

        Raises
        ------
        Closed
            If the scope, or the part of a table, is closed, or in a forked process.
        """
        self._ledger.check()
        if self._payer != SESSION:
            self._check(self._ledger.read())

    def charged_for(self, question: int, since: int = 0) -> tuple[Charge, ...]:
        """The charges of one question of this session, of all those after the first `since`."""
        return tuple(self._ledger.charged(self._session, question, since))

    def cost_of(self, question: int, since: int = 0) -> tuple[Guarantee, ...]:
        """The charges of one question of this session, after the first `since` charges."""
        return tuple([charge.guarantee for charge in self.charged_for(question, since)])

    def ledger_charges(self) -> tuple[Charge, ...]:
        """The charges of all sessions, scopes and parts on the ledger, in order."""
        return tuple(self._ledger.charges())

    @property
    def since(self) -> int:
        """A number of charges that the ledger had at some moment before now; at no cost."""
        return self._ledger.since

    def _check(self, books: Books) -> None:
        """Refuse where the payer is closed. The budget as a whole never is."""

    def _check_open(self, books: Books) -> None:
        """Refuse where nothing is charged: what is closed, and a forked process."""
        self._ledger.check()
        self._check(books)

    def _open_remaining(self, books: Books) -> Remaining:
        """The rest of the budget; nothing where nothing can be charged."""
        try:
            self._check_open(books)
        except Closed:
            return without_runs(self._remaining(books))
        return self._remaining(books)

    def _states(self, books: Books) -> Sequence[State]:
        """The states by which the whole session decides, with what others hold taken off."""
        reserves = held_by_others(books, self._payer)
        lines = dict.fromkeys(chain.from_iterable(concerned(books, self._payer)))
        return tuple(dict.fromkeys(lessened(line.state, reserves) for line in lines))

    def _binding(self, books: Books) -> Sequence[State]:
        """The states that whatever is charged here must fit, with those of caps."""
        return self._states(books)

    def _line(self, books: Books) -> Line:
        return worst_line(tuple(chain.from_iterable(concerned(books, self._payer))))

    def _charges(self, books: Books) -> Sequence[Charge]:
        """All charges that the books have counted, with guarantees that nobody may be handed."""
        charges = self._ledger.charges()[: books.runs]
        if len(charges) < books.runs:
            got = f"one with {len(charges):,} charges of {books.runs:,}"
            raise InvalidArgument("ledger", "one that keeps what it takes", got)
        return charges

    def _reserves(self, books: Books) -> Reserves:
        """The reserves that charges here must leave."""
        accounts = books.accounts
        mine = [accounts[one] for one in self._payer.accounts if one in accounts]
        own = next((one.line.state for one in mine if one.reserve), None)
        return Reserves(tuple(held_by_others(books, self._payer)), own)

    def _lines(self, books: Books) -> Sequence[State]:
        """How far each line is spent that a charge here counts on."""
        lines = chain.from_iterable(concerned(books, self._payer))
        return tuple(dict.fromkeys(line.state for line in lines))

    def _caps(self, books: Books) -> Sequence[State]:
        """How far the caps are spent that a charge here must fit."""
        del books
        return ()

    def _rounds(self, books: Books, runs: tuple[tuple[Guarantee, int], ...]) -> int | None:
        composition, reserves = self._composition, self._reserves(books)
        caps = (composition.rounds(state, runs) for state in self._caps(books))
        lines = (
            rounds_with_reserves(composition, one, runs, reserves) for one in self._lines(books)
        )
        fewest: int | None = None
        for count in chain(caps, lines):  # in the order in which a charge would be refused
            if count is not None:
                fewest = count if fewest is None else min(count, fewest)
            if fewest == 0:
                break
        return fewest

    def _largest(self, books: Books) -> tuple[Fraction, Fraction]:
        """The largest ε of one pure run that fits, and the largest ρ of a discrete Gaussian."""
        composition, reserves, caps = self._composition, self._reserves(books), self._caps(books)
        states = (*caps, *self._lines(books))
        epsilons, rhos = composition.largest_epsilon, composition.largest_rho
        if not reserves.held:
            return min(map(epsilons, states)), min(map(rhos, states))
        lines = sorted(self._lines(books), key=epsilons)
        sizes = {*map(epsilons, caps)}.union(
            *(largest_epsilons(composition, state, reserves) for state in lines)
        )
        widths = {*map(rhos, caps)}.union(
            *(largest_rhos(composition, state, reserves) for state in lines)
        )
        epsilon = self._first(books, lines, sizes, PureGuarantee)
        if not caps or epsilon < min(map(epsilons, caps)):
            larger = (larger_epsilons(composition, state, reserves, epsilon) for state in lines)
            sizes = sizes.union(*larger)
            epsilon = self._first(books, lines, {x for x in sizes if x >= epsilon}, PureGuarantee)
        return epsilon, self._first(books, sorted(lines, key=rhos), widths, gaussian_of)

    def _first(
        self,
        books: Books,
        tightest: Iterable[State],
        sizes: Iterable[Fraction],
        run: Callable[[Fraction], Guarantee],
    ) -> Fraction:
        """The largest of some sizes for which a run fits; 0 if there is none."""
        composition, reserves, caps = self._composition, self._reserves(books), self._caps(books)
        lines = list(tightest)
        for size in sorted(sizes, reverse=True):
            if size <= 0:
                break
            asked = run(size)
            with suppress(UnsupportedGuarantee):
                held = reserves.after(composition, asked)
                if held is None or any(composition.charge(cap, asked) is None for cap in caps):
                    continue
                for place, line in enumerate(lines):
                    after = composition.charge(line, asked)
                    if after is None or not serves(after, held):
                        # The next size most likely fails here too: one look is enough then.
                        lines.insert(0, lines.pop(place))
                        break
                else:
                    return size
        return Fraction(0)

    def _spent(self, books: Books) -> Spent:
        lines = tuple(chain.from_iterable(concerned(books, self._payer)))
        return self._summed(lines, books.runs, "")

    def _summed(self, lines: Sequence[Line], charges: int, of: str) -> Spent:
        return spent_of(self._composition, lines, charges, self.budget, of)

    def _remaining(self, books: Books) -> Remaining:
        spent = max(map(self._composition.fraction, self._lines(books)))
        return Remaining(1.0 - spent, *self._largest(books))

    def _refusal(self, misfit: Misfit, books: Books, runs: Runs) -> BudgetExceeded:
        spent, remaining = self._spent(books), self._remaining(books)
        return refusal(
            self._composition,
            self._states(books),
            runs,
            spent,
            remaining,
            reserved=misfit.reserved,
        )
