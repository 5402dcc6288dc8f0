"""The one place where spending changes: it refuses what does not fit and reports what was spent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import count
from typing import NoReturn, SupportsIndex

from dpsdk._checks import shown, to_integer, to_name
from dpsdk._records import shows_half_made
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.filters.any_of import default_composition
from dpsdk.accounting.filters.composition import Composition
from dpsdk.accounting.guarantee import Guarantee, check_guarantee
from dpsdk.accounting.ledger.base import Decision, Ledger, binding_of, ledger_of
from dpsdk.accounting.ledger.binding import Dataset, check_same, check_written
from dpsdk.accounting.ledger.bookkeeping import (
    Refusal,
    begin_books,
    charge_books,
    divide_books,
    merge_books,
)
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.charge import SESSION, Charge, Payer
from dpsdk.accounting.ledger.memory import MemoryLedger
from dpsdk.accounting.ledger.session_ledger import Clock, SessionLedger, system_clock, time_of
from dpsdk.accounting.ledger.timeline import Range, check_range
from dpsdk.accounting.refusals import unpriced
from dpsdk.accounting.spending import Spending
from dpsdk.accounting.spent import Asked, Witness
from dpsdk.errors import (
    AlreadyCharged,
    InvalidArgument,
    LedgerConflict,
    NotCopyable,
    UnsupportedGuarantee,
)

__all__ = ["Odometer"]

_NUMBERS_BITS = 32

NO_DATASET = Dataset()
"""The dataset of an odometer without a table."""


@shows_half_made
class Odometer(Spending):
    """Enforces one budget over all runs of a session; a ledger remembers them.

    Safe for threads: each charge is checked and taken in one step. It cannot be copied or pickled,
    and refuses charges in a forked process, since either would spend the same budget twice. All
    that it shows comes from the ledger, and so tells of every session on it.

    Parameters
    ----------
    budget
        What may be spent.
    composition
        The filter that decides what fits. Left out: that of the ledger, or the default.
    anytime
        A bound for `readings` to report, fixed before the first run. It enforces nothing. Left out:
        that of the ledger, if it has any.
    ledger
        What remembers; by default a `MemoryLedger` of its own. One that was opened before goes on
        where it stands. Of one with the books of several tables, those of `dataset`.
    dataset
        What is protected. A ledger is bound to it, as to budget, composition and bound.
    clock
        Says when something is charged, for people to read. Nothing is decided by it.
    periods
        Of a table with periods of time, the numbers of the first and the last that it has. The
        budget is one of each, and what is charged is charged to all of these, or to those that a
        guarantee tells. What is spent, and what remains, is that of the period that is worst off.

    Raises
    ------
    LedgerConflict
        If the ledger is bound to something else.
    InvalidArgument
        If the budget leaves the composition nothing to charge, or a durable ledger could not write
        the composition.
    """

    def __init__(
        self,
        budget: Budget,
        composition: Composition | None = None,
        anytime: Anytime | None = None,
        *,
        ledger: Ledger | None = None,
        dataset: Dataset = NO_DATASET,
        clock: Clock = system_clock,
        periods: Range | None = None,
    ) -> None:
        if (periods is None) is bool(dataset.periods):
            expected = "those of the table, if and only if it has periods"
            raise InvalidArgument("periods", expected, shown(periods))
        desk = None if periods is None else check_range(periods)
        kept = MemoryLedger() if ledger is None else ledger_of(ledger, dataset.name)
        self._ledger = SessionLedger(kept, clock)
        if self._ledger.durable and composition is not None:
            check_written(composition)

        def decide(books: Books) -> Decision:
            if books.binding is None:
                chosen = default_composition() if composition is None else composition
                return Decision(begin_books(dataset, budget, chosen, anytime))
            check_same(books.binding, dataset, budget, composition, anytime)
            return Decision(books._replace(sessions=books.sessions + 1))

        books = self._ledger.transact(decide).books
        binding = binding_of(books)
        self._budget = binding.budget
        self._composition = binding.composition
        self._anytime = binding.anytime
        self._begun = binding.start
        self._payer: Payer = SESSION._replace(periods=desk)
        self._session = books.sessions
        # No other session on the ledger has numbers that begin like these.
        self._numbers = count((books.sessions << _NUMBERS_BITS) + 1)

    def charge(
        self,
        guarantee: Guarantee,
        label: str | Asked,
        witness: Witness | None = None,
        *,
        request_id: str | None = None,
    ) -> int:
        """Charge one run before it happens, and give its number; as `charge_all`."""
        return self.charge_all((guarantee,), label, witness, request_id=request_id)[0]

    def charge_all(
        self,
        guarantees: Iterable[Guarantee],
        label: str | Asked,
        witness: Witness | None = None,
        *,
        request_id: str | None = None,
    ) -> tuple[int, ...]:
        """Charge several runs before they happen, all of them or none; there is no refund.

        Raises `BudgetExceeded` if they do not fit: nothing has changed, and smaller runs may still
        fit; `UnsupportedGuarantee` if the composition has no theorem that prices one of them;
        `AlreadyCharged` if the request was charged before: nothing may run for it again; and
        `Closed` if the scope, or the part of a table, is closed, or in a forked process.

        Parameters
        ----------
        guarantees
            What is proven of each run, in the order of charging.
        label
            What the runs are for; public.
        witness
            Called with the books before and after, once they are charged.
        request_id
            Names the request that the runs are for, to charge it once however often it is tried. A
            request that was refused was not charged.

        Returns
        -------
        tuple of int
            The numbers of the charges, counted from 1.
        """
        runs = tuple(map(check_guarantee, guarantees))
        if not runs:
            return ()
        of: str | None
        if isinstance(label, Asked):
            query, mechanism, question, _, of = label
        else:
            query, mechanism, question, of = str.__add__("", label), "", 0, None
        request = None if request_id is None else to_name("request_id", request_id)
        named = request or of or ""
        scope = self.scope
        composition, payer, session = self._composition, self._payer, self._session
        seen: tuple[Books, Books] | None = None

        def decide(books: Books) -> Decision:
            nonlocal seen
            self._check(books)
            after = charge_books(composition, books, payer, runs)
            if isinstance(after, Refusal):
                raise _Refused(after, books)
            seen = books, after
            number = books.runs
            now = time_of(self._ledger.clock)
            charges: list[Charge] = []
            for run in runs:
                number += 1
                told = query, run, mechanism, question, session, payer, named, scope, now
                charges.append(Charge(number, *told))
            return Decision(after, charges)

        try:
            taken = self._ledger.transact(decide, request)
        except UnsupportedGuarantee as error:
            raise unpriced(error, self._budget, runs) from None
        except _Refused as refused:
            why, books = refused.why, refused.books
        else:
            if taken.repeated:
                raise AlreadyCharged(named, tuple(charge.number for charge in taken.charges))
            if witness is not None and seen is not None:
                witness(*seen)
            last = taken.charges[-1].number
            return tuple(range(last - len(runs) + 1, last + 1))
        raise self._refusal(why, books, runs)

    def store(self, request_id: str, answer: bytes) -> None:
        """Keep the answer to a request in the ledger; see `Ledger.store`."""
        self._ledger.store(request_id, answer)

    def stored(self, request_id: str) -> bytes | None:
        """The answer that the ledger has stored for a request; None if there is none."""
        return self._ledger.stored(request_id)

    def generation(self) -> int:
        """A number for a division to come."""
        return next(self._numbers)

    def divide(
        self, generation: int, parts: int, *, moves: bool, owner: object | None = None
    ) -> None:
        """Keep apart what each kind of neighbours sees of so many parts, until `merge`.

        Everybody starts from what is spent so far. A charge then counts for all, but for charges
        through a `PartOdometer`, which count for neighbours that differ in its part. In a durable
        ledger a division ends that a session has left open which is gone.

        Raises `InvalidArgument` if a division is open already, or the number is not a positive
        integer; and `LedgerConflict` if another session that is alive has one open.

        Parameters
        ----------
        generation
            A number for the division, from `generation`.
        parts
            How many parts there are, at least 1.
        moves
            Whether a row may move from one part to another, so that neighbours may differ in two.
        owner
            Once nobody holds this object any more, the division is over as well, if the ledger is
            in memory.
        """
        size = to_integer("parts", parts, "a positive integer")
        if size < 1:
            raise InvalidArgument("parts", "a positive integer", shown(parts))

        marked = self._ledger.mark_partition(generation, owner)

        def decide(books: Books) -> Decision:
            found = books.division
            if found is None or found.generation >> _NUMBERS_BITS != self._session:
                if not marked:
                    holder = "another" if found is None else f"{found.generation >> _NUMBERS_BITS}"
                    bound = f"of session {holder}, which has it open"
                    raise LedgerConflict("partition", bound, f"one of session {self._session}")
                if found is not None and self._ledger.durable:
                    # Its opener is gone, and may have read the table in another way.
                    books = merge_books(books, found.generation)
            after = divide_books(books, generation, size, moves=moves)
            if after is None:
                expected = "undivided: one partition of a table at a time"
                raise InvalidArgument("odometer", expected, "one with a partition open")
            return Decision(after)

        if owner is not None:
            self._ledger.when_gone(owner, partial(merge_books, generation=generation))
        try:
            self._ledger.transact(decide)
        except BaseException:
            self._ledger.release_partition(generation)
            raise

    def merge(self, generation: int) -> None:
        """End a division, if it is the open one, and keep what its kinds of neighbours saw.

        It does not wait where the ledger is in memory, and a second time it does nothing.
        """
        self._ledger.later(partial(merge_books, generation=generation))
        self._ledger.release_partition(generation)

    def __repr__(self) -> str:
        return f"Odometer({self.spent})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise NotCopyable("an odometer")


class _Refused(Exception):
    def __init__(self, why: Refusal, books: Books) -> None:
        super().__init__()
        self.why = why
        self.books = books
