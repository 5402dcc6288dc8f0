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
from dpsdk.accounting.filters.composition import Composition, Runs, counted
from dpsdk.accounting.guarantee import Guarantee, check_guarantee
from dpsdk.accounting.ledger.base import Decision, Ledger, binding_of, ledger_of
from dpsdk.accounting.ledger.binding import Dataset, check_same, check_written
from dpsdk.accounting.ledger.books import (
    Books,
    Misfit,
    begun,
    charged,
    divided,
    undivided,
)
from dpsdk.accounting.ledger.charge import SESSION, Charge
from dpsdk.accounting.ledger.memory import MemoryLedger
from dpsdk.accounting.ledger.session_ledger import Clock, SessionLedger, system_clock
from dpsdk.accounting.payment import Witness
from dpsdk.accounting.spent import Asked
from dpsdk.accounting.statement import Statement
from dpsdk.errors import (
    AlreadyCharged,
    InvalidArgument,
    LedgerConflict,
    NotCopyable,
)

__all__ = ["Odometer"]

_NUMBERS_BITS = 32

_LISTED = 2**12
"""So many equal runs are tried one by one where all together are too many."""

NO_DATASET = Dataset()
"""The dataset of an odometer without a table."""


@shows_half_made
class Odometer(Statement):
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
    ) -> None:
        cap, filtering, bound = budget, composition, anytime
        kept = MemoryLedger() if ledger is None else ledger_of(ledger, dataset.name)
        self._ledger = SessionLedger(kept, clock)
        if self._ledger.durable and filtering is not None:
            check_written(filtering)

        def decide(books: Books) -> Decision:
            if books.binding is None:
                chosen = default_composition() if filtering is None else filtering
                return Decision(begun(dataset, cap, chosen, bound))
            check_same(books.binding, dataset, cap, filtering, bound)
            return Decision(books._replace(sessions=books.sessions + 1))

        books = self._ledger.transact(decide).books
        binding = binding_of(books)
        self._budget = binding.budget
        self._composition = binding.composition
        self._anytime = binding.anytime
        self._begun = binding.start
        self._payer = SESSION
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
        """Charge one run before it happens; there is no refund.

        Parameters
        ----------
        guarantee
            What is proven of the run.
        label
            What the run is for; public.
        witness
            Called with the books before and after, once it is charged.
        request_id
            Names the request that the run is for, to charge it once however often it is tried. A
            request that was refused was not charged.

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
        AlreadyCharged
            If the request was charged before. Nothing may run for it again.
        Closed
            If the scope, or the part of a table, is closed, or in a forked process.
        """
        return self._take((check_guarantee(guarantee),), label, request_id, witness)

    def charge_all(
        self,
        guarantees: Iterable[Guarantee],
        label: str | Asked,
        witness: Witness | None = None,
        *,
        request_id: str | None = None,
    ) -> tuple[int, ...]:
        """Charge several runs at once, all of them or none.

        Parameters
        ----------
        guarantees
            What is proven of each run, in the order of charging.
        label
            What the runs are for; public.
        witness, request_id
            As for `charge`.

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
        AlreadyCharged
            If the request was charged before. Nothing may run for it again.
        Closed
            If the scope, or the part of a table, is closed, or in a forked process.
        """
        runs = tuple(map(check_guarantee, guarantees))
        if not runs:
            return ()
        last = self._take(runs, label, request_id, witness)
        return tuple(range(last - len(runs) + 1, last + 1))

    def check_all(self, runs: Runs) -> None:
        """Refuse runs that do not fit together, as `charge_all` would. Charges nothing.

        What others are charged meanwhile may have them refused all the same, when they are.

        Raises
        ------
        BudgetExceeded
            If they do not fit together.
        UnsupportedGuarantee
            If the composition has no theorem that prices one of them.
        Closed
            If the scope, or the part of a table, is closed, or in a forked process.
        """
        priced = tuple((check_guarantee(run), count) for run, count in counted(runs))
        books = self._ledger.read()
        self._check_open(books)
        if self._rounds(books, priced) != 0:
            return
        # So many show which limit does not fit; and some that a reserve seems to keep off may fit.
        listed = tuple(run for run, count in priced for _ in range(min(count, _LISTED)))
        after = charged(self._composition, books, self._payer, listed)
        if isinstance(after, Misfit):
            raise self._refusal(after, books, priced)
        if sum(count for _, count in priced) > len(listed):
            raise self._refusal(Misfit(None), books, priced)

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

        Raises
        ------
        InvalidArgument
            If a division is open already, or the number is not a positive integer.
        LedgerConflict
            If another session that is alive has one open.
        """
        size = to_integer("parts", parts, "a positive integer")
        if size < 1:
            raise InvalidArgument("parts", "a positive integer", shown(parts))

        marked = self._ledger.mark_partition(generation, owner)

        def decide(books: Books) -> Decision:
            found = books.division
            if found is None or not self._made(found.generation):
                if not marked:
                    holder = "another" if found is None else f"{found.generation >> _NUMBERS_BITS}"
                    bound = f"of session {holder}, which has it open"
                    raise LedgerConflict("partition", bound, f"one of session {self._session}")
                if found is not None and self._ledger.durable:
                    # Its opener is gone, and may have read the table in another way.
                    books = undivided(books, found.generation)
            after = divided(books, generation, size, moves=moves)
            if after is None:
                expected = "undivided: one partition of a table at a time"
                raise InvalidArgument("odometer", expected, "one with a partition open")
            return Decision(after)

        if owner is not None:
            self._ledger.when_gone(owner, partial(undivided, generation=generation))
        try:
            self._ledger.transact(decide)
        except BaseException:
            self._ledger.release_partition(generation)
            raise

    def _made(self, number: int) -> bool:
        """True if a number is one of this session."""
        return number >> _NUMBERS_BITS == self._session

    def merge(self, generation: int) -> None:
        """End a division, if it is the open one, and keep what its kinds of neighbours saw.

        It does not wait where the ledger is in memory, and a second time it does nothing.
        """
        self._ledger.later(partial(undivided, generation=generation))
        self._ledger.release_partition(generation)

    def _take(
        self,
        runs: tuple[Guarantee, ...],
        label: str | Asked,
        request_id: str | None,
        witness: Witness | None,
    ) -> int:
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
            after = charged(composition, books, payer, runs)
            if isinstance(after, Misfit):
                raise _Refused(after, books)
            seen = books, after
            number = books.runs
            now = self._ledger.now()
            charges: list[Charge] = []
            for run in runs:
                number += 1
                told = query, run, mechanism, question, session, payer, named, scope, now
                charges.append(Charge(number, *told))
            return Decision(after, charges)

        try:
            taken = self._ledger.transact(decide, request)
        except _Refused as refused:
            misfit, books = refused.misfit, refused.books
        else:
            if taken.repeated:
                raise AlreadyCharged(named, tuple(charge.number for charge in taken.charges))
            if witness is not None and seen is not None:
                witness(*seen)
            return taken.charges[-1].number
        raise self._refusal(misfit, books, runs)

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
