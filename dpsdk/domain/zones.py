"""Time zones: their names, and what has to be added to an instant to read the clock on the wall.

The rules come from the data base of time zones that Python's zoneinfo finds: that of the system, or
the package tzdata. Governments change them, so what an instant reads depends on its edition.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.domain.calendar import DAY
from dpsdk.errors import InvalidArgument, MissingExtra

__all__ = ["Offsets", "offsets", "to_zone"]

_EXPECTED = "the name of a time zone, such as 'UTC' or 'Europe/Berlin', or None"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_OTHERS = {"localtime", "posixrules", "Factory"}
"""Names of no zone, or another one on each machine. Those below "right" count leap seconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = -719162 * DAY + 3 * DAY
_LAST = 2932896 * DAY - 3 * DAY
"""Instants between these have a local time in the years 1 to 9999 in all zones."""

_RECORDED = (-5364662400, 4102444800)
"""From 1800 to 2100 changes are written down, and later by a rule that repeats each year."""

_STEP, _RULED_STEP = 3 * DAY, 14 * DAY
"""No zone changes and changes back within so short a time, when changes are written down or ruled.

Freetown did so within four days in 1939.
"""


def to_zone(zone: str | None) -> str | None:
    """Read a `zone=` argument: the name of a time zone that is known here."""
    if zone is None:
        return None
    if not issubclass(type(zone), str):
        raise InvalidArgument("zone", _EXPECTED, shown(zone))
    name = str.__str__(zone)
    named = len(name) <= 100 and _NAME.fullmatch(name) and name not in _OTHERS
    if not named or name.startswith(("right/", "posix/")):
        raise InvalidArgument("zone", _EXPECTED, shown(name))
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        if not available_timezones():
            raise MissingExtra("tzdata") from None
        raise InvalidArgument("zone", _EXPECTED, shown(name)) from None
    return name


@frozen
class Offsets:
    """How many seconds the clock on the wall of a zone is ahead of UTC, over a time."""

    changes: tuple[int, ...]
    """The instants, in seconds since 1970 in UTC, at which that becomes another number."""
    seconds: tuple[int, ...]
    """The number before the first of them, and from each of them on."""

    def at(self, instant: int) -> int:
        """The number at an instant."""
        return self.seconds[bisect_right(self.changes, instant)]


@lru_cache(maxsize=64)
def offsets(zone: str, start: int, stop: int) -> Offsets:
    """The offsets of a zone from one instant to another."""
    rules = ZoneInfo(zone)

    def ahead(instant: int) -> int:
        bounded = min(max(instant, _FIRST), _LAST)
        offset = (_EPOCH + timedelta(seconds=bounded)).astimezone(rules).utcoffset() or timedelta()
        return offset // timedelta(seconds=1)

    changes: list[int] = []
    seconds = [ahead(start)]
    here = max(start, _FIRST)
    while here < min(stop, _LAST):
        recorded = _RECORDED[0] <= here < _RECORDED[1]
        until = here + (_STEP if recorded else _RULED_STEP)
        if here < _RECORDED[0]:
            until = min(until, _RECORDED[0])
        if ahead(until) != seconds[-1]:
            until = _change(ahead, here, until)
            changes.append(until)
            seconds.append(ahead(until))
        here = until
    return Offsets(tuple(changes), tuple(seconds))


def _change(ahead: Callable[[int], int], before: int, after: int) -> int:
    """The first instant at which an offset is another than it was."""
    old = ahead(before)
    while after - before > 1:
        middle = (before + after) // 2
        if ahead(middle) == old:
            before = middle
        else:
            after = middle
    return after
