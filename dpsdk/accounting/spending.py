"""What the books of a ledger say of one payer's spending, and whether runs would fit."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Self

from dpsdk._checks import to_probability
from dpsdk._records import evolve
from dpsdk.accounting.balance import Balance
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.filters.composition import Composition, Pairs, Runs, State, lessened, paired
from dpsdk.accounting.filters.reserves import Reserves, Room
from dpsdk.accounting.guarantee import Guarantee, check_guarantee
from dpsdk.accounting.ledger.bookkeeping import Refusal, charge_books
from dpsdk.accounting.ledger.books import (
    Account,
    Books,
    lines_of,
    reserved_by_others,
    steps_of,
    usable_states,
    views_of,
)
from dpsdk.accounting.ledger.charge import SESSION, Charge, Payer
from dpsdk.accounting.ledger.lines import Line, worst_line
from dpsdk.accounting.ledger.session_ledger import SessionLedger
from dpsdk.accounting.ledger.timeline import Range, check_range, shares_of
from dpsdk.accounting.refusals import of_periods, refusal, unpriced
from dpsdk.accounting.spent import (
    Readings,
    Remaining,
    Spent,
    least_of,
    readings_of,
    spent_of,
    told_in,
    without_runs,
)
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, UnsupportedGuarantee
from dpsdk.typing import Real

__all__ = ["Spending"]

_LISTED = 2**12
"""So many equal runs are tried one by one where all together are too many."""


class Spending:
    """What an odometer tells: all of it comes from the ledger, and none of it changes anything."""

    scope: str = ""
    """The name of the scope that it pays for; empty for a session itself."""

    _ledger: SessionLedger
    _budget: Budget
    _composition: Composition
    _anytime: Anytime | None
    _begun: State
    _payer: Payer
    _session: int

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
    def since(self) -> int:
        """A number of charges that the ledger had at some moment before now; at no cost."""
        return self._ledger.since

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
        books = self._ledger.read()
        remaining = self._remaining(books)
        return remaining if self._is_open(books) else without_runs(remaining)

    @property
    def balance(self) -> Balance:
        """The rest of the budget at this moment, to plan with."""
        states: dict[State, None] = {}
        for view in views_of(self._ledger.read(), self._payer):
            for account in self._accounts(view):
                states.update(dict.fromkeys(usable_states(view, account)))
            states.update(dict.fromkeys(self._states(view)))
        return Balance(self.composition, self.budget, tuple(states))

    def readings(self, delta: Real) -> Readings:
        """Read the cost of the runs so far in several ways, each with its condition.

        Raises `InvalidArgument` unless `delta`, that of the figures that hold at one level, is
        strictly between 0 and 1.
        """
        level = to_probability("delta", delta)
        books = self._ledger.read()
        charges = self._charges(books)
        runs = [[charge.guarantee for charge in charges]]
        if books.timeline is not None:
            firsts = [first for first, *_ in steps_of(books, self._payer)]
            runs = [told_in(charges, first) for first in firsts]
        return readings_of(self._line(books), runs, self.budget, self._anytime, level)

    def affords(self, guarantee: Guarantee) -> int | None:
        """How many more such runs fit, one after the other; None where they are free.

        Raises as `check_all` does, but for `BudgetExceeded`.
        """
        return self.affords_all((guarantee,))

    def affords_all(self, runs: Runs) -> int | None:
        """How many times all of these runs fit, one after the other; None where all are free.

        Exact as long as nobody else is charged or reserves anything. While a scope has a reserve,
        a composition of another author may accept more than that. Raises as `affords` does.
        """
        priced = [(check_guarantee(run), times) for run, times in paired(runs)]
        books = self._ledger.read()
        self._check_open(books)
        return self._rounds(books, priced)

    def periods(
        self, first: int | None = None, last: int | None = None
    ) -> tuple[tuple[int, int, Spent, Remaining], ...]:
        """The spending and the rest of each period, in ranges of those that were told the same.

        Parameters
        ----------
        first, last
            The numbers of the periods to tell of; those of the desk, where they are left out.

        Returns
        -------
        tuple of tuple
            For each range in order its first and last number, what one of its periods has spent,
            and what it has left.
        """
        desk = self._desk()
        low, high = check_range(
            (desk[0] if first is None else first, desk[1] if last is None else last)
        )
        books = self._ledger.read()
        charges, told = self._charges(books), list[tuple[int, int, Spent, Remaining]]()
        for begun, end, view in steps_of(books, self._payer._replace(periods=(low, high))):
            spent = evolve(self._spent(view), charges=len(told_in(charges, begun)), of="")
            told.append((begun, end, spent, self._remaining(view)))
        return tuple(told)

    @property
    def desk(self) -> Range | None:
        """The numbers of the first and the last period that pay; None of a table without."""
        return self._payer.periods

    def between(self, first: int, last: int) -> Self:
        """The same for some periods alone: charges count on these, and what is told is of these.

        Raises `InvalidArgument` if they are not of its own periods.
        """
        low, high = check_range((first, last))
        desk = self._desk()
        if not desk[0] <= low <= high <= desk[1]:
            raise InvalidArgument("periods", f"from {desk[0]} to {desk[1]}", f"{low} to {high}")
        view = object.__new__(type(self))
        vars(view).update(vars(self))
        view._payer = self._payer._replace(periods=(low, high))
        return view

    def check_open(self) -> None:
        """Raise `Closed` where nothing is charged: a scope or part that is closed, or a fork.

        The ledger is read only of what others may close.
        """
        self._ledger.check()
        if self._payer._replace(periods=None) != SESSION:
            self._check(self._ledger.read())

    def charged_for(self, question: int, since: int = 0) -> tuple[Charge, ...]:
        """The charges of one question of this session, of all those after the first `since`."""
        return tuple(self._ledger.charged(self._session, question, since))

    def cost_of(self, question: int, since: int = 0) -> tuple[Guarantee, ...]:
        """The guarantees that were charged for one question, as `charged_for` finds them."""
        return tuple([charge.guarantee for charge in self.charged_for(question, since)])

    def ledger_charges(self) -> tuple[Charge, ...]:
        """The charges of all sessions, scopes and parts on the ledger, in order."""
        return tuple(self._ledger.charges())

    def check_all(self, runs: Runs) -> None:
        """Refuse runs that do not fit together, as `charge_all` would. Charges nothing.

        What others are charged meanwhile may have them refused all the same, when they are.
        Raises `BudgetExceeded`, `UnsupportedGuarantee` and `Closed`, as `charge_all` does.
        """
        priced = [(check_guarantee(run), times) for run, times in paired(runs)]
        books = self._ledger.read()
        self._check_open(books)
        try:
            if self._rounds(books, priced) != 0:
                return
        except UnsupportedGuarantee as error:
            raise unpriced(error, self._budget, priced) from None
        # So many show which limit does not fit; and some that a reserve seems to keep off may fit.
        listed = tuple(run for run, times in priced for _ in range(min(times, _LISTED)))
        after = charge_books(self._composition, books, self._payer, listed)
        if isinstance(after, Refusal):
            raise self._refusal(after, books, priced)
        if sum(times for _, times in priced) > len(listed):
            raise self._refusal(Refusal(None), books, priced)

    def _check(self, books: Books) -> None:
        """Refuse where the payer is closed. The budget as a whole never is."""

    def _check_open(self, books: Books) -> None:
        """Refuse where nothing is charged: what is closed, and a forked process."""
        self._ledger.check()
        self._check(books)

    def _is_open(self, books: Books) -> bool:
        try:
            self._check_open(books)
        except Closed:
            return False
        return True

    def _desk(self) -> Range:
        """The periods that pay; raises `InvalidArgument` where the table has none."""
        if self._payer.periods is None:
            raise InvalidArgument("odometer", "that of a table with periods", "one without")
        return self._payer.periods

    def _shares(self, books: Books, runs: Pairs) -> list[tuple[int, int, Books, Pairs]]:
        """What the runs tell the periods of each range, with the books of these periods."""
        payer = self._payer
        if books.timeline is None:
            return [(0, 0, books, runs)]
        return [
            (low, high, view, share)
            for first, last, share in shares_of(runs, self._desk())
            for low, high, view in steps_of(books, payer._replace(periods=(first, last)))
        ]

    def _rounds(self, books: Books, runs: Pairs) -> int | None:
        """How many times all of these runs fit, one after the other; None where all are free."""
        known: dict[Hashable, int | None] = {}
        for *_, view, share in self._shares(books, runs):
            key = view.lines, tuple(view.accounts.values()), tuple(share)
            if key not in known:
                known[key] = self._room(view).rounds(share)
        return min((count for count in known.values() if count is not None), default=None)

    def _accounts(self, books: Books) -> list[Account]:
        """The accounts of the scopes that pay, the innermost first."""
        del books
        return []

    def _line(self, books: Books) -> Line:
        """What all runs amount to, for the neighbours that have seen the most."""
        return worst_line(lines_of(books, self._payer))

    def _charges(self, books: Books) -> Sequence[Charge]:
        charges = self._ledger.charges()[: books.runs]
        if len(charges) < books.runs:
            got = f"one with {len(charges):,} charges of {books.runs:,}"
            raise InvalidArgument("ledger", "one that keeps what it takes", got)
        return charges

    def _states(self, books: Books) -> Sequence[State]:
        """The states by which the whole session decides, with what others hold taken off."""
        reserves = reserved_by_others(books, self._payer)
        lines = dict.fromkeys(lines_of(books, self._payer))
        return tuple(dict.fromkeys(lessened(line.state, reserves) for line in lines))

    def _room(self, books: Books) -> Room:
        accounts = self._accounts(books)
        own = next((account.line.state for account in accounts if account.reserve), None)
        reserves = Reserves(tuple(reserved_by_others(books, self._payer)), own)
        lines = tuple(dict.fromkeys(line.state for line in lines_of(books, self._payer)))
        caps = tuple(account.line.state for account in accounts)
        return Room(self._composition, caps, lines, reserves)

    def _spent(self, books: Books) -> Spent:
        desk = self._payer.periods
        of = "" if desk is None or desk[0] == desk[1] else "the budget of the most spent period"
        return self._summed(lines_of(books, self._payer), books.runs, of)

    def _summed(self, lines: Sequence[Line], charges: int, of: str = "") -> Spent:
        return spent_of(self._composition, lines, charges, self.budget, of)

    def _remaining(self, books: Books) -> Remaining:
        return least_of([self._remaining_in(view) for view in views_of(books, self._payer)])

    def _remaining_in(self, books: Books) -> Remaining:
        room = self._room(books)
        spent = max(map(self._composition.fraction, room.lines))
        return Remaining(1.0 - spent, *room.largest())

    def _refusal(self, why: Refusal, books: Books, runs: Runs) -> BudgetExceeded:
        """The refusal of runs; of those by period, as the first period tells it that refuses."""
        if why.period is None:
            return self._refusal_in(why, books, runs)
        plain = self._payer._replace(periods=None)
        error: BudgetExceeded | None = None
        refusing: list[Range] = []
        for low, high, view, share in self._shares(books, paired(runs)):
            asked = [run for run, times in share for _ in range(min(times, _LISTED))]
            after = charge_books(self._composition, view, plain, asked)
            if not isinstance(after, Refusal):
                if len(asked) == sum(times for _, times in share) or self._room(view).rounds(share):
                    continue
                after = Refusal(None)
            refusing.append((low, high))
            error = error or self._refusal_in(after, view, share)
        return of_periods(error or self._refusal_in(why, books, runs), refusing, self._desk())

    def _refusal_in(self, why: Refusal, books: Books, runs: Runs) -> BudgetExceeded:
        return refusal(
            self._composition,
            self._states(books),
            runs,
            self._spent(books),
            self._remaining(books),
            reserved=why.reserved,
        )
