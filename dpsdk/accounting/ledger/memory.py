"""The ledger that lives as long as its process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, SupportsIndex, final

from dpsdk._checks import to_name
from dpsdk._locks import ExclusiveLock
from dpsdk.accounting.ledger.base import Decide, Decision
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.changes import Changes
from dpsdk.accounting.ledger.charge import Charge
from dpsdk.errors import InvalidArgument, NotCopyable

__all__ = ["Memory", "MemoryLedger", "memory_of"]


class Memory:
    """What a ledger in memory holds, for the odometers on it alone: it is shown to nobody else.

    Safe for threads: decisions come one at a time. An interrupt finds a decision taken or not.
    """

    __slots__ = ("_lock", "_requests", "books", "changes", "rows")

    def __init__(self) -> None:
        self.books: Books = Books()
        """The books at this moment. To be looked at alone."""
        self.rows: list[Charge] = []
        """The charges as they are kept, and perhaps some behind them that never happened."""
        self._requests: dict[str, int] = {}
        self._lock = ExclusiveLock("an odometer")
        self.changes: Changes = Changes()
        """What waits for the next decision of any session."""

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        """Take a decision whole or not at all; see `Ledger`.

        Raises
        ------
        Closed
            In a forked process.
        Reentered
            From within a decision.
        """

        def work() -> Decision:
            before = self.books
            if request_id is not None:
                known = self._charged(request_id, before.runs)
                if known:
                    return Decision(before, known, repeated=True)
            decision = decide(before)
            charges = decision.charges
            if charges:
                # What an interrupt left behind the last charge never happened.
                del self.rows[before.runs :]
                self.rows.extend(charges)
                if request_id is not None:
                    self._requests[request_id] = before.runs
            self.books = decision.books
            return decision

        return self._lock.run(work)

    def _charged(self, request_id: str, count: int) -> tuple[Charge, ...]:
        """The charges of a request, if they happened."""
        start = self._requests.get(request_id)
        if start is None:
            return ()
        end = start
        # An interrupt may have left the number of a row that then became another request's.
        while end < count and self.rows[end].request_id == request_id:
            end += 1
        return tuple(self.rows[start:end])


@final
class MemoryLedger:
    """Remembers in memory; the default of sessions. Two that share one share a budget.

    Safe for threads: decisions come one at a time. An interrupt finds a decision taken or not. It
    cannot be copied or pickled, and takes nothing in a forked process, since either would spend the
    same budget twice.
    """

    __slots__ = ("__weakref__", "_answers", "_memory")

    def __init__(self) -> None:
        self._memory = Memory()
        self._answers: dict[str, bytes] = {}

    @property
    def durable(self) -> bool:
        """False, since nothing is left of it after its process."""
        return False

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        """Take a decision whole or not at all; see `Ledger`.

        Raises
        ------
        Closed
            In a forked process.
        Reentered
            From within a decision.
        """
        return self._memory.transact(decide, request_id)

    def read(self) -> Books:
        """The books at this moment. Never waits."""
        return self._memory.books

    def charges(self, since: int = 0) -> Sequence[Charge]:
        """The charges in order, without the first `since`."""
        return tuple(self._memory.rows[since : self._memory.books.runs])

    def store(self, request_id: str, answer: bytes) -> None:
        """Keep the answer to a request; see `Ledger`."""
        if not isinstance(answer, bytes):
            raise InvalidArgument("answer", "bytes", type(answer).__name__)
        name, own = to_name("request_id", request_id), bytes(answer)
        if self._answers.setdefault(name, own) != own:
            raise InvalidArgument("answer", "the one that is stored for the request", "another")

    def stored(self, request_id: str) -> bytes | None:
        """The answer that is stored for a request; None if there is none."""
        return self._answers.get(to_name("request_id", request_id))

    def __repr__(self) -> str:
        return f"MemoryLedger({self._memory.books.runs:,} charges)"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise NotCopyable("a ledger")


def memory_of(ledger: object) -> Memory | None:
    """What a ledger in memory holds; None for any other, also of a class below it."""
    if type(ledger) is not MemoryLedger:
        return None
    return ledger._memory  # pyright: ignore[reportPrivateUsage]  # of this module
