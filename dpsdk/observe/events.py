"""The events of a session, and their observers."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, TypeAlias, final

from dpsdk._checks import shown
from dpsdk._records import field, fields, frozen, shows_half_made
from dpsdk.accounting import Guarantee
from dpsdk.errors import InvalidArgument

__all__ = [
    "Answered",
    "Charged",
    "Event",
    "Observer",
    "Observers",
    "Opened",
    "Progress",
    "Refused",
    "fields_of",
    "kind_of",
]


@frozen(kw_only=True)
class _EventContext:
    """The context of every event.

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
class Opened(_EventContext):
    """A channel to a mechanism was opened."""

    mechanism: str


@frozen
class Charged(_EventContext):
    """A run was paid for."""

    number: int
    query: str
    mechanism: str
    guarantee: Guarantee


@frozen
class Refused(_EventContext):
    """A run did not fit into the budget. Nothing changed."""

    query: str
    mechanism: str
    guarantee: Guarantee


@frozen
class Answered(_EventContext):
    """A query was answered; `reused` by an answer that was given before, for free."""

    query: str
    mechanism: str
    reused: bool = False


@frozen
class Progress(_EventContext):
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
"""The events for observers; each is public."""


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


@shows_half_made
@final
class Observers:
    """Several observers as one: each gets each event, in their order.

    What one of them raises keeps no event from the others, and is then raised in its place.

    Raises
    ------
    InvalidArgument
        If one of them cannot be called.
    """

    __slots__ = ("_observers",)

    def __init__(self, *observers: Observer) -> None:
        for one in observers:
            if not callable(one):
                raise InvalidArgument("observers", "something to call with an event", shown(one))
        self._observers = observers

    def __call__(self, event: Event, /) -> None:
        """Tell all of them."""
        first: Exception | None = None
        for observer in self._observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001  # raised below
                first = error if first is None else first
        if first is not None:
            raise first

    def __repr__(self) -> str:
        return f"Observers({', '.join(map(repr, self._observers))})"


def kind_of(event: Event) -> str:
    """The name of an event where there are no classes, as "charged"."""
    return type(event).__name__.lower()


def fields_of(event: Event) -> dict[str, str | int]:
    """The fields of an event, as texts that UTF-8 can hold and integers, without empty ones.

    Halves of surrogate pairs, which the name of a mechanism may hold, would keep whoever writes or
    sends many events at once from all of them.
    """
    found: dict[str, str | int] = {}
    for one in fields(type(event)):
        value: object = getattr(event, one.name)
        if isinstance(value, datetime):
            found[one.name] = value.isoformat()
        elif isinstance(value, int):
            found[one.name] = value
        elif value is not None and value != "":
            found[one.name] = str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    return found
