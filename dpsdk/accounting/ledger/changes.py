"""Changes of books that wait for the next decision, since a finaliser cannot wait for its turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias
from weakref import WeakValueDictionary, ref

from dpsdk.accounting.ledger.books import Books

__all__ = ["Change", "Changes", "Holder"]

Change: TypeAlias = Callable[[Books], Books]
"""A pure function that makes no difference when it comes a second time."""


class Holder:
    """What all who hold one account of books in memory share, so that it ends with the last."""

    __slots__ = ("__weakref__",)


class _Gone(ref[object]):
    """A change for when an object is gone."""

    __slots__ = ("change",)

    change: Change


_Pending: TypeAlias = tuple[Change | _Gone, ...]


class Changes:
    """What becomes of books with the next decision, and to every reader from now on."""

    __slots__ = ("_seen", "_watched", "holders", "pending")

    def __init__(self) -> None:
        self.pending: list[Change | _Gone] = []
        """What waits. To be looked at alone."""
        self.holders: WeakValueDictionary[int, Holder] = WeakValueDictionary()
        """By the numbers of their accounts. To be looked at alone."""
        self._watched: dict[int, _Gone] = {}
        self._seen: tuple[Books, _Pending, Books] | None = None

    def later(self, change: Change) -> None:
        """Have a change from now on. Never waits, so that finalisers may call it."""
        self.pending.append(change)

    def when_gone(self, owner: object, change: Change) -> None:
        """Have a change once nobody holds an object any more."""
        # The callback is a built-in method: no interrupt can come in between and lose the change.
        gone = _Gone(owner, self.pending.append)
        gone.change = change
        self._watched[id(gone)] = gone

    def waiting(self) -> _Pending:
        """What waits at this moment."""
        return tuple(self.pending)

    def made(self, books: Books, waiting: _Pending) -> Books:
        """The books after some changes."""
        if not waiting:
            return books
        # Until the next decision this is asked again and again.
        seen = self._seen
        if seen is None or seen[0] is not books or seen[1] != waiting:
            after = books
            for one in waiting:
                after = one.change(after) if isinstance(one, _Gone) else one(after)
            seen = self._seen = books, waiting, after
        return seen[2]

    def done(self, waiting: _Pending) -> None:
        """Forget changes that a ledger has taken. Others may have come meanwhile, and stay."""
        for one in waiting:
            # Another thread may have taken them, too.
            with suppress(ValueError):
                self.pending.remove(one)
            self._watched.pop(id(one), None)
        self._seen = None
