"""A ledger as the odometers of one session use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from weakref import finalize

from dpsdk._locks import SharedLock
from dpsdk.accounting.ledger.base import Decide, Decision, Ledger, ask
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.charge import Charge
from dpsdk.accounting.ledger.memory import Change, Changes, Holder, MemoryLedger
from dpsdk.errors import Closed, Reentered

if TYPE_CHECKING:
    from dpsdk.accounting.ledger.stored import Mark

__all__ = ["Clock", "SessionLedger", "system_clock", "time_of"]

Clock: TypeAlias = Callable[[], datetime | None]
"""Says what time it is, in a time zone; None where nobody knows. Nothing is decided by it."""


system_clock: Clock = partial(datetime.now, UTC)
"""The time of the operating system, in UTC. It may jump, also backwards."""


def time_of(clock: Clock) -> datetime | None:
    """The time of a clock in UTC; None where it fails, or names no zone.

    A charge that could not be dated is one all the same.
    """
    try:
        now = clock()
        if now is None or now.tzinfo is UTC:
            return now
        return None if now.utcoffset() is None else now.astimezone(UTC)
    except Exception:  # noqa: BLE001  # clocks can be set to years that no date has
        return None


class SessionLedger:
    """A ledger, changes that wait for when objects are gone, and what this session was charged.

    Ledgers know nothing of objects. Where one is durable, what a scope or a partition did to the
    books stays until it is closed, also if nobody holds the object any more.
    """

    def __init__(self, ledger: Ledger, clock: Clock = system_clock) -> None:
        self._ledger = ledger
        self.clock: Clock = clock
        """Says the time that is written down, and never decides anything."""
        self.durable: bool = bool(ask(ledger, lambda ledger: ledger.durable))
        """True if the ledger outlives the process."""
        self._memory = ledger if type(ledger) is MemoryLedger else None
        # Sessions that share a ledger in memory share what waits for it.
        self._changes = Changes() if self._memory is None else self._memory.changes
        self._lock = SharedLock("an odometer")
        self._marks: dict[int, Mark] = {}
        self._own: dict[int, list[Charge]] = {}
        self._lost = False
        self._since = 0

    @property
    def since(self) -> int:
        """How many charges there were at some moment before now; at no cost."""
        return self._since if self._memory is None else self._memory.read().runs

    def check(self) -> None:
        self._lock.check()

    def read(self) -> Books:
        """The books at this moment. Never waits for a decision."""
        # What waits is read first: then it is in one of the two, and twice does no harm.
        waiting = self._changes.waiting
        if self._memory is not None:
            return self._changes.made(self._memory.read(), waiting)
        return self._changes.made(ask(self._ledger, lambda ledger: ledger.read()), waiting)

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        """Take a decision, and with it all changes that wait.

        Raises `Closed` in a forked process, and `Reentered` from within a decision.
        """
        if self._memory is not None and not self._changes.pending:
            return self._memory.transact(decide, request_id)
        return self._lock.run(lambda: self._take(decide, request_id))

    def _take(self, decide: Decide, request_id: str | None) -> Decision:
        waiting, raised = self._changes.waiting, list[BaseException]()

        def decided(books: Books) -> Decision:
            try:
                return decide(self._changes.made(books, waiting))
            except BaseException as error:
                raised.append(error)
                raise

        if self._memory is not None:
            taken = self._memory.transact(decided, request_id)
        else:
            try:
                taken = ask(
                    self._ledger, lambda ledger: ledger.transact(decided, request_id), raised
                )
                if not taken.repeated:
                    for charge in taken.charges:
                        self._own.setdefault(charge.question, []).append(charge)
            except BaseException:
                # It may be charged all the same, as where an interrupt came behind that.
                self._lost |= not raised
                raise
        if waiting and not taken.repeated:
            self._changes.done(waiting)
        self._since = taken.books.runs
        return taken

    def later(self, change: Change) -> None:
        """Have a change in the books from now on; in a durable ledger at once, if that can be.

        In memory it never waits, so that finalisers may call it.
        """
        self._changes.pending.append(change)
        if self.durable:
            # Within a decision, or in a forked process, it has to wait for the next one.
            with suppress(Closed, Reentered):
                self.transact(Decision)

    def when_gone(self, owner: object, change: Change) -> None:
        """Have a change in the books once nobody holds an object any more, if these end with it."""
        if not self.durable:
            self._changes.when_gone(owner, change)

    def hold(self, number: int, change: Change) -> Holder:
        """Hold an account that is to be opened; once nobody does any more, there is a change."""
        holder = Holder()
        self.when_gone(holder, change)
        self._changes.holders[number] = holder
        return holder

    def holder(self, number: int) -> Holder | None:
        """The holder of an account; None ends it only where it is in memory."""
        return self._changes.holders.get(number)

    def mark_partition(self, generation: int, owner: object | None) -> bool:
        """Mark the one partition as this session's, until it is released or its owner is gone.

        False while a session that is alive has one open, in the same process or in another.
        """
        if not self.durable:
            return True
        from dpsdk.accounting.ledger.stored import StoredLedger  # noqa: PLC0415  # files alone

        if isinstance(self._ledger, StoredLedger):
            mark = self._ledger.mark_partition()
            if mark is None:
                return False
            self._marks[generation] = mark
            try:
                finalize(self if owner is None else owner, _release, self._marks, generation)
            except TypeError:  # of what nothing can tell when it is gone
                finalize(self, _release, self._marks, generation)
        return True

    def release_partition(self, generation: int) -> None:
        """Let other sessions open a partition."""
        _release(self._marks, generation)

    def store(self, request_id: str, answer: bytes) -> None:
        ask(self._ledger, lambda ledger: ledger.store(request_id, answer))

    def stored(self, request_id: str) -> bytes | None:
        return ask(self._ledger, lambda ledger: ledger.stored(request_id))

    def charges(self, since: int = 0) -> Sequence[Charge]:
        if self._memory is not None:
            return self._memory.charges(since)
        return ask(self._ledger, lambda ledger: ledger.charges(since))

    def charged(self, session: int, question: int, since: int) -> list[Charge]:
        """The charges of a question of this session, after the first `since` charges of all."""
        if self._memory is None and not self._lost:
            return list(self._own.get(question, ()))
        return [
            charge
            for charge in self.charges(since)
            if charge.question == question and charge.session == session
        ]


def _release(marks: dict[int, Mark], generation: int) -> None:
    mark = marks.pop(generation, None)
    if mark is not None:
        mark.close()
