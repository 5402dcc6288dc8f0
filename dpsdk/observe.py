"""What an application can be told of a session while it works: costs and names, never answers."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from attrs import frozen

from dpsdk.accounting import Guarantee

__all__ = ["Answered", "Charged", "Event", "Observer", "Opened", "Progress", "Refused"]


@frozen
class Opened:
    """A channel to a mechanism was opened."""

    mechanism: str


@frozen
class Charged:
    """A run was paid for."""

    number: int
    query: str
    mechanism: str
    guarantee: Guarantee


@frozen
class Refused:
    """A run did not fit into the budget. Nothing changed."""

    query: str
    mechanism: str
    guarantee: Guarantee


@frozen
class Answered:
    """A query was answered."""

    query: str
    mechanism: str


@frozen
class Progress:
    """So many units of the work on a question are done; `total` is None where it is not known.

    Units are public: iterations, queries, draws. Each hundredth of a total is told once or, without
    a total, each time that twice as much is done.
    """

    query: str
    mechanism: str
    done: int
    total: int | None
    unit: str


Event: TypeAlias = Opened | Charged | Refused | Answered | Progress


class Observer(Protocol):
    """Anything to call with each event, when its question is over, in the thread that asked it.

    Where a strategy tells of its progress, events come while it works, in that same thread; what it
    tells from another thread, or while it has a turn that others wait for, comes later.

    No lock is held then, so that it may look at the session and its channels, and ask them. What it
    raises at `Refused` reaches the caller of the session. At the other events an `Exception` is
    dropped, so that what was paid for is not lost. A `KeyboardInterrupt` passes, out of
    `kernel.progress` too: unless the strategy holds it up, the question ends there without an
    answer, and what was charged for it stays charged.
    """

    def __call__(self, event: Event, /) -> None:
        """Take note of an event."""
        ...
