"""What a process keeps beside a ledger: whose turn it is, and changes for when objects are gone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from weakref import finalize

from dpsdk._locks import SharedLock
from dpsdk.accounting.ledger.base import Decide, Decision, Ledger, asking
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.chained import Chained, Mark
from dpsdk.accounting.ledger.changes import Change, Changes, Holder
from dpsdk.accounting.ledger.charge import Charge
from dpsdk.accounting.ledger.clock import Clock, system_clock, told
from dpsdk.accounting.ledger.memory import memory_of
from dpsdk.errors import Closed, Reentered

__all__ = ["Keeper"]


class Keeper:
    """A ledger as the odometers of one session use it.

    Ledgers know nothing of objects. Where one is durable, what a scope or a partition did to the
    books stays until it is closed, also if nobody holds the object any more.

    Parameters
    ----------
    ledger
        What remembers.
    clock
        Says when something is charged.
    """

    __slots__ = ("_changes", "_clock", "_durable", "_last", "_ledger", "_lock", "_marks", "_memory")

    def __init__(self, ledger: Ledger, clock: Clock = system_clock) -> None:
        self._ledger = ledger
        self._clock = clock
        with asking(ledger):
            self._durable = bool(ledger.durable)
        # Any other ledger is asked by the protocol alone.
        self._memory = memory_of(ledger)
        # Sessions that share a ledger in memory share what waits for it.
        self._changes = Changes() if self._memory is None else self._memory.changes
        self._lock = SharedLock("an odometer")
        self._last = 0
        self._marks: dict[int, Mark] = {}

    @property
    def durable(self) -> bool:
        """Whether the ledger outlives the process."""
        return self._durable

    def now(self) -> datetime | None:
        """What time it is, to be written down and never to decide by."""
        return told(self._clock)

    def check(self) -> None:
        """Refuse a forked process, where nothing is charged.

        Raises
        ------
        Closed
            In a forked process.
        """
        self._lock.check()

    def read(self) -> Books:
        """The books at this moment. Never waits for a decision."""
        # What waits is read first: then it is in one of the two, and twice does no harm.
        waiting = self._changes.waiting()
        memory = self._memory
        if memory is None:
            with asking(self._ledger):
                books = self._ledger.read()
        else:
            books = memory.books
        return self._changes.made(books, waiting)

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        """Take a decision, and with it all changes that wait.

        Raises
        ------
        Closed
            In a forked process.
        Reentered
            From within a decision.
        """
        memory = self._memory
        if memory is not None and not self._changes.pending:
            return memory.transact(decide, request_id)
        return self._lock.run(lambda: self._take(decide, request_id))

    def _take(self, decide: Decide, request_id: str | None) -> Decision:
        memory, waiting, raised = self._memory, self._changes.waiting(), list[OSError]()

        def all_of_it(books: Books) -> Decision:
            try:
                return decide(self._changes.made(books, waiting))
            except OSError as error:
                raised.append(error)
                raise

        if memory is not None:
            taken = memory.transact(all_of_it, request_id)
        else:
            with asking(self._ledger, raised):
                taken = self._ledger.transact(all_of_it, request_id)
        if waiting and not taken.repeated:
            self._changes.done(waiting)
        self._last = taken.books.runs
        return taken

    def later(self, change: Change) -> None:
        """Have a change in the books from now on; in a durable ledger at once, if that can be.

        In memory it never waits, so that finalisers may call it.
        """
        self._changes.later(change)
        if self._durable:
            # Within a decision, or in a forked process, it has to wait for the next one.
            with suppress(Closed, Reentered):
                self.transact(Decision)

    def when_gone(self, owner: object, change: Change) -> None:
        """Have a change in the books once nobody holds an object any more, if these end with it."""
        if not self._durable:
            self._changes.when_gone(owner, change)

    def hold(self, number: int, change: Change) -> Holder:
        """Hold an account that is to be opened; once nobody does any more, there is a change."""
        holder = Holder()
        self.when_gone(holder, change)
        self._changes.holders[number] = holder
        return holder

    def holder(self, number: int) -> Holder | None:
        """Who holds an account; None if nobody does, which ends it only where it is in memory."""
        return self._changes.holders.get(number)

    def mark_partition(self, generation: int, owner: object | None) -> bool:
        """Mark the one partition as this session's, until it is released or its owner is gone.

        False while a session that is alive has one open, in the same process or in another.
        """
        if isinstance(self._ledger, Chained):
            mark = self._ledger.mark_partition()
            if mark is None:
                return False
            self._marks[generation] = mark
            if owner is not None:
                finalize(owner, _release, self._marks, generation).atexit = False
        return True

    def release_partition(self, generation: int) -> None:
        """Let other sessions open a partition."""
        _release(self._marks, generation)

    def store(self, request_id: str, answer: bytes) -> None:
        """Keep the answer to a request; see `Ledger`."""
        with asking(self._ledger):
            self._ledger.store(request_id, answer)

    def stored(self, request_id: str) -> bytes | None:
        """The answer that is stored for a request; None if there is none."""
        with asking(self._ledger):
            return self._ledger.stored(request_id)

    @property
    def since(self) -> int:
        """How many charges there were at some moment before now."""
        return self._last if self._memory is None else self._memory.books.runs

    def charges(self, since: int = 0) -> Sequence[Charge]:
        """The charges without the first `since`."""
        memory = self._memory
        if memory is not None:
            return memory.rows[since : memory.books.runs]
        with asking(self._ledger):
            return self._ledger.charges(since)


def _release(marks: dict[int, Mark], generation: int) -> None:
    mark = marks.pop(generation, None)
    if mark is not None:
        mark.close()
