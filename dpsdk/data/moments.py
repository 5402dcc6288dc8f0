"""Days and times as they stand in a table, as exact whole seconds since 1970.

What is read, the same by whichever door a table comes in:

- A date is a day, and a time without a zone is what a clock on the wall shows.
- A time with an offset or a zone is an instant, in UTC here.
- Fractions of a second are dropped, towards the past.
- A text is a date or a time where it spells one in the extended format of ISO 8601.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.data.columns import Column, Kind, kind_of_array
from dpsdk.domain.calendar import DAY, day_of, plain_wall
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Array, Bools, Ints

__all__ = ["Moment", "moment_column", "moment_of", "moment_reader", "read_moment"]

_ISO = re.compile(
    "(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    "(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,][0-9]{1,18})?)?"
    "(?:(?P<utc>Z)|(?P<sign>[+-])(?P<ahead>[0-9]{2}):(?P<more>[0-9]{2}))?)?"
)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # the clock on the wall
_ZONED_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)

_FAR = 2**60
"""Seconds as far away as this are in no year that a domain has."""

_LONGER = {"s": 1, "m": 60, "h": 3600, "D": DAY, "W": 7 * DAY}
_SHORTER = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
_MONTHS = {"M": 1, "Y": 12}


@frozen
class Moment:
    """A day or time: which of the three kinds it is, and the second that it lies in."""

    kind: Kind
    seconds: int


def read_moment(text: str) -> Moment | None:
    """Return the day or time that a text spells in ISO 8601, or None.

    It is of the form 2024-03-31, or 2024-03-31T23:59:59.5+02:00. A space may stand in place of the
    T. Seconds, their fraction, and the offset, which may be Z, may be left out. Nothing else is
    read: neither 24:00, nor a 60th second, nor other forms.
    """
    return _moment(_ISO.fullmatch(text))


_DIRECTIVES = {
    "%d": "(?P<day>[0-9]{1,2})",
    "%m": "(?P<month>[0-9]{1,2})",
    "%Y": "(?P<year>[0-9]{4})",
    "%y": "(?P<short>[0-9]{2})",
    "%H": "(?P<hour>[0-9]{1,2})",
    "%M": "(?P<minute>[0-9]{1,2})",
    "%S": "(?P<second>[0-9]{1,2})",
    "%f": "(?:[0-9]{1,18})",
    "%z": "(?:(?P<utc>Z)|(?P<sign>[+-])(?P<ahead>[0-9]{2}):?(?P<more>[0-9]{2}))",
    "%%": "%",
}


def moment_reader(form: str) -> Callable[[str], Moment | None]:
    """Return what reads texts of one form, written as for `datetime.strptime`.

    A form has %d, %m and %Y or %y, at most once each, and may have %H, %M, %S, %f and %z; zeros in
    front may be left out but for those of years and offsets. Nothing depends on a locale.
    """
    parts: list[str] = []
    if isinstance(form, str):
        parts = re.findall("%.|[^%]|%$", form, re.DOTALL)
    used = [part for part in parts if part[0] == "%" and part != "%%"]
    whole = {"%d", "%m"} <= {*used} and len({"%Y", "%y"} & {*used}) == 1
    if not whole or len(set(used)) < len(used) or not {*used} <= {*_DIRECTIVES}:
        expected = (
            "a form of dates of %d, %m and %Y, such as '%d.%m.%Y'; also %y, %H, %M, %S, %f, %z"
        )
        raise InvalidArgument("dates", expected, shown(form))
    pieces = [_DIRECTIVES[part] if part in _DIRECTIVES else re.escape(part) for part in parts]
    pattern = re.compile("".join(pieces))
    return lambda text: _moment(pattern.fullmatch(text))


def _moment(found: re.Match[str] | None) -> Moment | None:
    if found is None:
        return None
    parts = found.groupdict()
    short, hour = parts.get("short"), parts.get("hour")
    # Two digits are of the years from 1969 to 2068, as in POSIX.
    year = int(parts["year"]) if short is None else int(short) + (1900 if short >= "69" else 2000)
    try:
        seconds = day_of(date(year, int(parts["month"]), int(parts["day"]))) * DAY
    except ValueError:
        return None
    if hour is None:
        return Moment(Kind.DATE, seconds)
    clock = int(hour), int(parts.get("minute") or 0), int(parts.get("second") or 0)
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    seconds += clock[0] * 3600 + clock[1] * 60 + clock[2]
    sign = parts.get("sign")
    if sign is None:
        kind = Kind.NAIVE_TIME if parts.get("utc") is None else Kind.ZONED_TIME
        return Moment(kind, seconds)
    offset = int(parts["ahead"]), int(parts["more"])
    if offset[0] > 23 or offset[1] > 59:
        return None
    ahead = offset[0] * 3600 + offset[1] * 60
    return Moment(Kind.ZONED_TIME, seconds - (-ahead if sign == "-" else ahead))


def moment_of(value: object) -> Moment | None:
    """Return a value of Python, numpy or pandas as a day or time; None if missing, or neither.

    Zones of a time are known if they are of `datetime` or `zoneinfo`: classes of other authors
    would be handed the value.
    """
    kind = type(value)
    if kind is np.datetime64:
        kept = moment_column(np.array([value]), None)
        held = kept.missing is not None and bool(kept.missing[0])
        return None if held else Moment(cast("Kind", kept.kind), int(kept.values[0]))
    if not issubclass(kind, date):
        return None
    pandas = sys.modules.get("pandas")
    if pandas is not None and kind.__module__.partition(".")[0] == "pandas":
        return _of_pandas(pandas, value)
    wall = plain_wall(cast("date", value))
    if not isinstance(wall, datetime):
        return Moment(Kind.DATE, day_of(wall) * DAY)
    zone = vars(datetime)["tzinfo"].__get__(value)
    if zone is None:
        return Moment(Kind.NAIVE_TIME, (wall - _EPOCH) // _SECOND)
    if type(zone) is not timezone and type(zone) is not ZoneInfo:
        return None
    there = wall.replace(tzinfo=zone, fold=vars(datetime)["fold"].__get__(value))
    return Moment(Kind.ZONED_TIME, (there - _ZONED_EPOCH) // _SECOND)


def _of_pandas(pandas: Any, value: Any) -> Moment | None:
    """A timestamp of pandas, whose years may be beyond those of `datetime`."""
    if type(value) is not pandas.Timestamp:
        return None
    known = moment_of(value.to_datetime64())
    if known is None or value.tzinfo is None:
        return known
    return Moment(Kind.ZONED_TIME, known.seconds)


def moment_column(values: Array, missing: Bools | None, kind: Kind | None = None) -> Column:
    """Return an array of datetime64, or of objects of a known kind, as a column of seconds.

    Objects of another kind than `kind` count as missing.
    """
    if values.dtype.kind == "M":
        seconds, nothing = _seconds(values)
        known = kind_of_array(values.dtype) if kind is None else kind
    else:
        found = [moment_of(value) for value in cast("Sequence[object]", values.tolist())]
        fits = [one is not None and one.kind is kind for one in found]
        seconds = np.array([0 if one is None else one.seconds for one in found], dtype=np.int64)
        nothing, known = ~np.array(fits, dtype=bool), kind or Kind.UNTYPED
    return Column(known, seconds, nothing if missing is None else missing | nothing)


def _seconds(values: Array) -> tuple[Ints, Bools]:
    """Whole seconds since 1970 in a calendar without leap seconds; and where there is no time."""
    unit, count = np.datetime_data(cast("np.dtype[np.datetime64]", values.dtype))
    nothing: Bools = np.isnat(values)
    # Of another byte order, too.
    ticks: Ints = values.astype(values.dtype.newbyteorder("="), copy=False).view(np.int64)
    ticks = np.where(nothing, 0, ticks)
    if unit in _MONTHS:
        length = _MONTHS[unit] * count
        far = _FAR // (31 * DAY * length)
        months = np.clip(ticks, -far, far) * length
        days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        return days * DAY, nothing
    if unit in _LONGER:
        length = _LONGER[unit] * count
        far = _FAR // length
        return np.clip(ticks, -far, far) * length, nothing
    if unit not in _SHORTER:  # of no unit, in which there is no time
        return np.zeros(values.shape, dtype=np.int64), np.ones(values.shape, dtype=bool)
    per = _SHORTER[unit]
    if count == 1:
        return ticks // per, nothing
    # Products that may be too large for 64 bits.
    exact = [tick * count // per for tick in ticks.reshape(-1).tolist()]
    bounded = [min(max(one, -_FAR), _FAR) for one in exact]
    return np.array(bounded, dtype=np.int64).reshape(values.shape), nothing
