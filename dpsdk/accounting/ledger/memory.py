"""The ledger that lives as long as its process, and changes that wait for its next decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn, SupportsIndex, TypeAlias, final
from weakref import WeakValueDictionary, ref

from dpsdk._checks import to_name
from dpsdk._locks import ExclusiveLock
from dpsdk._records import shows_half_made
from dpsdk.accounting.ledger.base import Decide, Decision
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.charge import Charge
from dpsdk.errors import InvalidArgument, NotCopyable

__all__ = ["Change", "Changes", "Holder", "MemoryLedger"]

Change: TypeAlias = Callable[[Books], Books]
"""A pure function that makes no difference when it comes a second time."""


class Holder:
    """The state that all holders of one account of books in memory share; it ends with the last."""

    __slots__ = ("__weakref__",)


class _Gone(ref[object]):
    """A change for when an object is gone."""

    change: Change


_Pending: TypeAlias = tuple[Change | _Gone, ...]


class Changes:
    """Changes of books for the next decision, since a finaliser cannot wait for its turn."""

    def __init__(self) -> None:
        self.pending: list[Change | _Gone] = []
        """The changes that wait. Appending one never waits."""
        self.holders: WeakValueDictionary[int, Holder] = WeakValueDictionary()
        """By the numbers of their accounts."""
        self._watched: dict[int, _Gone] = {}
        self._seen: tuple[Books, _Pending, Books] | None = None

    @property
    def waiting(self) -> _Pending:
        """The changes that wait at this moment."""
        # By way of a list: while a tuple is made, a finaliser may append, which moves what the
        # interpreter copies from.
        return (*self.pending,)

    def when_gone(self, owner: object, change: Change) -> None:
        """Have a change once nobody holds an object any more."""
        # The callback is a built-in method: no interrupt can come in between and lose the change.
        gone = _Gone(owner, self.pending.append)
        gone.change = change
        self._watched[id(gone)] = gone

    def made(self, books: Books, waiting: _Pending) -> Books:
        """The books after some changes, to all readers until the next decision."""
        if not waiting:
            return books
        seen = self._seen
        if seen is None or seen[0] is not books or seen[1] != waiting:
            after = books
            for change in waiting:
                after = change.change(after) if isinstance(change, _Gone) else change(after)
            seen = self._seen = books, waiting, after
        return seen[2]

    def done(self, waiting: _Pending) -> None:
        """Forget changes that a ledger has taken. Others may have come meanwhile, and stay."""
        for change in waiting:
            with suppress(ValueError):  # another thread may have taken them, too
                self.pending.remove(change)
            self._watched.pop(id(change), None)
        self._seen = None


@shows_half_made
@final
class MemoryLedger:
    """Remembers in memory; the default of sessions. Two that share one share a budget.

    Safe for threads: decisions come one at a time. An interrupt finds a decision taken or not. It
    cannot be copied or pickled, and takes nothing in a forked process, since either would spend the
    same budget twice.
    """

    def __init__(self) -> None:
        self._books = Books()
        self._charges: list[Charge] = []  # and perhaps some behind them that never happened
        self._requests: dict[str, int] = {}
        self._answers: dict[str, bytes] = {}
        self._lock = ExclusiveLock("an odometer")
        self.changes: Changes = Changes()
        """The changes that wait for the next decision of any session."""

    @property
    def durable(self) -> bool:
        """False, since nothing is left of it after its process."""
        return False

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        """Take a decision whole or not at all; see `Ledger`.

        Raises `Closed` in a forked process; and `Reentered` from within a decision.
        """

        def work() -> Decision:
            before = self._books
            if request_id is not None:
                known = self._charged(request_id, before.runs)
                if known:
                    return Decision(before, known, repeated=True)
            decision = decide(before)
            charges = decision.charges
            if charges:
                # What an interrupt left behind the last charge never happened.
                del self._charges[before.runs :]
                self._charges.extend(charges)
                if request_id is not None:
                    self._requests[request_id] = before.runs
            self._books = decision.books
            return decision

        return self._lock.run(work)

    def _charged(self, request_id: str, count: int) -> tuple[Charge, ...]:
        start = self._requests.get(request_id, count)
        end = start
        # An interrupt may have left the number of a row that then became another request's.
        while end < count and self._charges[end].request_id == request_id:
            end += 1
        return tuple(self._charges[start:end])

    def read(self) -> Books:
        """The books at this moment. Never waits."""
        return self._books

    def charges(self, since: int = 0) -> Sequence[Charge]:
        """The charges in order, without the first `since`."""
        return tuple(self._charges[since : self._books.runs])

    def store(self, request_id: str, answer: bytes) -> None:
        """Keep the answer to a request; see `Ledger`."""
        if not isinstance(answer, bytes):
            raise InvalidArgument("answer", "bytes", type(answer).__name__)
        if self._answers.setdefault(to_name("request_id", request_id), answer) != answer:
            raise InvalidArgument("answer", "the one that is stored for the request", "another")

    def stored(self, request_id: str) -> bytes | None:
        """The answer that is stored for a request; None if there is none."""
        return self._answers.get(to_name("request_id", request_id))

    def __repr__(self) -> str:
        return f"MemoryLedger({self._books.runs:,} charges)"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise NotCopyable("a ledger")
