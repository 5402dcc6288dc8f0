"""What an application can be told of a session while it works: costs and names, never answers."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, TypeAlias

from attrs import field, frozen

from dpsdk.accounting import Guarantee

__all__ = ["Answered", "Charged", "Event", "Observer", "Opened", "Progress", "Refused"]


@frozen(kw_only=True)
class _Told:
    """What every event says: of whom, and when.

    Parameters
    ----------
    scope
        The scope that asked; empty where the session itself did.
    request_id
        The request that it was for, or empty.
    at
        When, in UTC, by this process's clock, which may jump. Neither compared nor shown.
    """

    scope: str = ""
    request_id: str = ""
    at: datetime | None = field(default=None, eq=False, repr=False)


@frozen
class Opened(_Told):
    """A channel to a mechanism was opened."""

    mechanism: str


@frozen
class Charged(_Told):
    """A run was paid for."""

    number: int
    query: str
    mechanism: str
    guarantee: Guarantee


@frozen
class Refused(_Told):
    """A run did not fit into the budget. Nothing changed."""

    query: str
    mechanism: str
    guarantee: Guarantee


@frozen
class Answered(_Told):
    """A query was answered; `reused` by an answer that was given before, for free."""

    query: str
    mechanism: str
    reused: bool = False


@frozen
class Progress(_Told):
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
