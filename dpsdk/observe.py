"""What an application can be told of a session while it works: costs and names, never answers."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from attrs import frozen

from dpsdk.accounting import Guarantee

__all__ = ["Answered", "Charged", "Event", "Observer", "Opened", "Refused"]


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


Event: TypeAlias = Opened | Charged | Refused | Answered


class Observer(Protocol):
    """Anything to call with each event, when its question is over, in the thread that asked it.

    No lock is held then, so that it may look at the session and its channels, and ask them. What it
    raises at `Refused` reaches the caller of the session. At the other events the exception is
    dropped, so that what was paid for is not lost.
    """

    def __call__(self, event: Event, /) -> None:
        """Take note of an event."""
        ...
