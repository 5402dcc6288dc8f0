"""One question to a mechanism: the label of its charges, and its events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import get_ident, local

from dpsdk._checks import shown, to_integer, to_name
from dpsdk._lifetime import Lifetime
from dpsdk._locks import lock_held
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.session_ledger import system_clock, time_of
from dpsdk.accounting.spent import Around, Asked
from dpsdk.errors import InvalidArgument
from dpsdk.observe import Event, Progress

__all__ = ["Question", "behind_wall", "event_context"]

_HUNDREDTHS = 100

_UNITS = 16
"""So many units of work are counted for one question."""


class _BehindWall(local):
    on = False


behind_wall: _BehindWall = _BehindWall()
"""Set in a thread while a primitive draws and reads: nothing is told from there."""


def event_context(asked: Asked) -> tuple[str, str, datetime | None]:
    """Return the scope, the request id and the time for an event."""
    return asked.scope, asked.request or "", time_of(system_clock)


class Question(Lifetime):
    """One question to a mechanism, or the opening of a channel, while it is worked on.

    When it was answered it is closed: from then on nothing is charged for it. `asked` is what its
    charges are labelled with, `outer` what it was asked of, `since` how many charges the session
    had before, and `observed` whether somebody wants to be told of what happens.
    """

    __slots__ = (
        "answered",
        "around",
        "asked",
        "events",
        "listener",
        "observed",
        "request",
        "since",
        "steps",
        "stop",
        "thread",
    )

    def __init__(self, asked: Asked, outer: Lifetime, since: int, *, observed: bool) -> None:
        super().__init__(asked, outer)
        self.asked: Asked = asked
        self.since: int = since
        self.observed: bool = observed
        self.answered: bool = False
        self.around: Around | None = None
        """The books before its first charge and after its last one, while it goes on."""
        self.request: str | None = asked.request
        """Names the request that the next charge is for; its other charges follow from that one."""
        self.events: list[Event] = []
        """The events for the observer at the end and at steps of progress."""
        self.listener: Callable[[Question], None] | None = None
        """Tells the observer what there is to tell, in the thread that asked."""
        self.stop: Callable[[Progress], object] | None = None
        """Says, in the thread that asked, whether the work should stop at what was done."""
        if observed:
            self.thread: int = get_ident()
            self.steps: dict[str, int] = {}
            """How far each unit of work was when it was last told."""

    def charged(self, before: Books, after: Books) -> None:
        """Keep what the books were before the first charge and after the last one."""
        self.around = (before if self.around is None else self.around[0], after)

    def report(self, mechanism: str, done: int, total: int | None, unit: str) -> bool:
        """Queue what was done for the observer, and tell it now if that can hold up nobody.

        An observer may ask the session, so it is called where no lock is held, in the thread that
        asked; and in no other thread, for which that one might be waiting.
        """
        most, count, name = _counts(done, total, unit)
        if self.listener is None and self.stop is None:
            return False
        here = self.thread == get_ident() and not lock_held.on
        if self.listener is not None and self._advances(count, most, name):
            self.events.append(self._progress(mechanism, count, most, name))
            if here:
                self.listener(self)
        if self.stop is None or not here or behind_wall.on:
            return False
        return bool(self.stop(self._progress(mechanism, count, most, name)))

    def _progress(self, mechanism: str, count: int, most: int | None, unit: str) -> Progress:
        scope, request, now = event_context(self.asked)
        what = self.asked.query, mechanism, count, most, unit
        return Progress(*what, scope=scope, request_id=request, at=now)

    def _advances(self, count: int, most: int | None, unit: str) -> bool:
        """True if counts are far enough from those that were told last to be told."""
        # Each hundredth of the work or, without a total, each time twice as much.
        step = count.bit_length() if most is None else count * _HUNDREDTHS // most
        last = self.steps.get(unit)
        if last is None and len(self.steps) >= _UNITS:
            raise InvalidArgument("unit", f"one of at most {_UNITS}", shown(unit))
        if (last is not None and step <= last) or behind_wall.on:
            return False
        self.steps[unit] = step
        return True


def _counts(done: int, total: int | None, unit: str) -> tuple[int | None, int, str]:
    most = None if total is None else to_integer("total", total)
    count, name = to_integer("done", done), to_name("unit", unit)
    if most is not None and most < 1:
        raise InvalidArgument("total", "an integer of at least 1, or None", shown(total))
    if count < 0 or (most is not None and count > most):
        raise InvalidArgument("done", "an integer from 0 to the total", shown(done))
    return most, count, name
