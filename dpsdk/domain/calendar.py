"""Days, weeks, months and hours, numbered along the clock on the wall.

A time on the wall is a number of seconds since 1970-01-01 00:00 on the same wall. The calendar is
the Gregorian one, also before it was in use, with days of 86,400 seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Literal, TypeAlias

import numpy as np

from dpsdk._records import frozen
from dpsdk.typing import Ints

__all__ = ["DAY", "HOUR", "UNITS", "Calendar", "Unit", "date_of", "day_of", "plain_wall", "wall_of"]

Unit: TypeAlias = Literal["day", "week", "month", "hour"]
"""How long a cell of a `Date` attribute is. Weeks begin on Mondays."""

HOUR = 3600
DAY = 24 * HOUR

_EPOCH = date(1970, 1, 1).toordinal()
_MONDAY = 3
"""1970-01-01 was a Thursday, three days after a Monday."""


def day_of(value: date) -> int:
    """The number of a day, that of 1970-01-01 being 0; of a time, that of its day."""
    return value.toordinal() - _EPOCH


def date_of(day: int) -> date:
    """The day of a number."""
    return date.fromordinal(day + _EPOCH)


@frozen
class Calendar:
    """The unit that a time, or many, in the years 1 to 9999 lie in, and when a unit begins."""

    number: Callable[[int], int]
    numbers: Callable[[Ints], Ints]
    start: Callable[[int], int]


def _month(wall: int) -> int:
    day = date_of(wall // DAY)
    return 12 * (day.year - 1970) + day.month - 1


def _months(wall: Ints) -> Ints:
    days = (wall // DAY).astype("datetime64[D]")
    return np.asarray(days.astype("datetime64[M]").astype(np.int64))


def _month_start(number: int) -> int:
    year, month = divmod(number, 12)
    if year + 1970 > 9999:
        return DAY * (date.max.toordinal() + 1 - _EPOCH)
    return DAY * day_of(date(year + 1970, month + 1, 1))


UNITS: dict[Unit, Calendar] = {
    "day": Calendar(lambda wall: wall // DAY, lambda wall: wall // DAY, lambda n: n * DAY),
    "week": Calendar(
        lambda wall: (wall // DAY + _MONDAY) // 7,
        lambda wall: (wall // DAY + _MONDAY) // 7,
        lambda n: (7 * n - _MONDAY) * DAY,
    ),
    "month": Calendar(_month, _months, _month_start),
    "hour": Calendar(lambda wall: wall // HOUR, lambda wall: wall // HOUR, lambda n: n * HOUR),
}


def wall_of(value: date) -> int:
    """A day's first second, or the second that a time without a zone lies in."""
    clock = 0
    if isinstance(value, datetime):
        clock = value.hour * HOUR + value.minute * 60 + value.second
    return day_of(value) * DAY + clock


def plain_wall(value: date) -> date:
    """A date or time as the built-in class has it, without a zone.

    No method of a class derived from these is called.
    """
    year, month, day = (int(vars(date)[name].__get__(value)) for name in ("year", "month", "day"))
    if not issubclass(type(value), datetime):
        return date(year, month, day)
    names = ("hour", "minute", "second", "microsecond")
    hour, minute, second, micro = (int(vars(datetime)[name].__get__(value)) for name in names)
    return datetime(year, month, day, hour, minute, second, micro)  # noqa: DTZ001  # on the wall
