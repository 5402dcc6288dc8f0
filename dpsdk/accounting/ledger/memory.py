"""What holds the books: decisions come one at a time, and each is taken whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple, TypeAlias
from weakref import ref

from dpsdk._turns import Turns
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.ledger.books import Books, Payer
from dpsdk.accounting.spent import Asked

__all__ = ["Ledger", "Paid"]


class Paid(NamedTuple):
    """A run that was charged: what for, what is proven of it, and by whom."""

    asked: Asked
    guarantee: Guarantee
    payer: Payer


class _Gone(ref[object]):
    """A change of the books for when an object is gone."""

    __slots__ = ("change",)

    change: Callable[[Books], Books]


_Pending: TypeAlias = tuple[Callable[[Books], Books] | _Gone, ...]


class Ledger:
    """Holds the books of one session and remembers its charges, in memory.

    An interrupt finds a decision taken or not: books and charges change in one assignment.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self._paid: list[Paid] = []
        self._pending: list[Callable[[Books], Books] | _Gone] = []
        self._watched: dict[int, _Gone] = {}
        self._seen: tuple[Books, _Pending, Books] | None = None
        self._turns = Turns("an odometer")
        self._numbers = count(1)

    def number(self) -> int:
        """A number that no account and no division of this ledger has."""
        return next(self._numbers)

    def read(self) -> Books:
        """The books at this moment. Never waits."""
        # What is pending is read first: then it is in one of the two, and twice does no harm.
        pending = tuple(self._pending)
        return self._after(self._books, pending)

    def _after(self, books: Books, pending: _Pending) -> Books:
        if not pending:
            return books
        # Until the next decision this is asked again and again.
        seen = self._seen
        if seen is None or seen[0] is not books or seen[1] != pending:
            after = books
            for one in pending:
                after = one.change(after) if isinstance(one, _Gone) else one(after)
            seen = self._seen = books, pending, after
        return seen[2]

    @property
    def count(self) -> int:
        """The number of charges."""
        return self._books.charges

    def transact(
        self,
        decide: Callable[[Books], Books],
        runs: Sequence[Paid] = (),
    ) -> Books:
        """Change the books by a pure function, which may raise; then nothing has changed.

        Parameters
        ----------
        decide
            From the books as they are to what they become.
        runs
            What is charged by the change, and remembered with it.

        Raises
        ------
        Closed
            In a forked process.
        Reentered
            From within a decision.
        """

        def work() -> Books:
            pending = tuple(self._pending)
            before = self._books = self._after(self._books, pending)
            del self._pending[: len(pending)]
            for one in pending:
                self._watched.pop(id(one), None)
            after = decide(before)
            if runs:
                # What an interrupt left behind the last charge never happened.
                del self._paid[before.charges :]
                self._paid.extend(runs)
            self._books = after
            return after

        return self._turns.take(work)

    def later(self, change: Callable[[Books], Books]) -> None:
        """Have a change in the books from now on. Never waits, so that finalisers may call it.

        Parameters
        ----------
        change
            A pure function that makes no difference when it comes a second time.
        """
        self._pending.append(change)

    def when_gone(self, owner: object, change: Callable[[Books], Books]) -> None:
        """Have a change in the books once nobody holds an object any more.

        Parameters
        ----------
        owner
            The object.
        change
            A pure function that makes no difference when it comes a second time.
        """
        # The callback is a built-in method: no interrupt can come in between and lose the change.
        gone = _Gone(owner, self._pending.append)
        gone.change = change
        self._watched[id(gone)] = gone

    def paid(self, since: int = 0) -> Sequence[Paid]:
        """The runs that were charged, from a number on."""
        return self._paid[since : self._books.charges]
