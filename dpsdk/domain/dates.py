"""Dates and times of day as an attribute: days, weeks, months or hours, in their order."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from typing import ClassVar, cast

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.codec import JSON, NAME, Choice, Codebook, Member, Pattern, Plain, refused, written
from dpsdk.domain.attributes import ATTRIBUTES, EXTRAS, Flagged, to_attribute_name
from dpsdk.domain.calendar import DAY, HOUR, UNITS, Unit, date_of, plain_wall, wall_of
from dpsdk.domain.zones import to_zone
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Label

__all__ = ["END", "Date", "own_date"]

_TEXT = Pattern(
    "[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T(?:[01][0-9]|2[0-3]):[0-5][0-9])?",
    'a day, as "2024-02-29", or a time, as "2024-02-29T13:00"',
)


def own_date(value: object) -> date | None:
    """A date, or a time without a zone, as a plain `date` or `datetime`; None if it is neither."""
    kind = type(value)
    if kind is date:
        return cast("date", value)
    if not issubclass(kind, date):
        return None
    own = plain_wall(cast("date", value))
    if kind is not datetime:
        # Some classes stand for times in years, or for none at all, that this one cannot tell.
        with suppress(Exception):
            if (value.year, value.month, value.day) != (own.year, own.month, own.day):  # type: ignore[attr-defined]  # a subclass of date
                return None
            # Those of pandas go on after the microseconds, which would not be a point any more.
            if isinstance(own, datetime) and value.nanosecond:  # type: ignore[attr-defined]  # the same
                return None
    zoned = isinstance(own, datetime) and vars(datetime)["tzinfo"].__get__(value) is not None
    return None if zoned else own


class _End:
    """A date, or for hours a time in minutes."""

    def write(self, value: date, _path: str, _codebook: Codebook, /) -> Plain:
        if isinstance(value, datetime):
            return value.isoformat(timespec="minutes")
        return value.isoformat()

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> date:
        text = _TEXT.read(plain, path, codebook)
        try:
            return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
        except ValueError:
            raise refused(path, "a day of the calendar", text) from None

    def schema(self, codebook: Codebook, /) -> JSON:
        return _TEXT.schema(codebook)


END = _End()
"""An end of a `Date`, as files have it."""


def _to_unit(value: Unit) -> Unit:
    if issubclass(type(value), str):
        for known in UNITS:
            if str.__str__(value) == known:
                return known
    raise InvalidArgument("unit", '"day", "week", "month" or "hour"', shown(value))


@written(
    "date",
    {
        "name": NAME,
        "low": END,
        "high": END,
        "unit": Choice[Unit](*UNITS),
        "zone": Member(NAME, None, quiet=True),
        **EXTRAS,
    },
    kinds=ATTRIBUTES,
)
@frozen(repr=False)
class Date(Flagged):
    """An attribute of dates or times: the days, weeks, months or hours from `low` to `high`.

    Along the calendar, and the clock on the wall of one place: the cell of a value is the unit that
    a calendar and a clock there would show. So neither the cells nor their labels depend on what
    zones do. Where a clock is turned back, the hour that comes twice is one cell of twice the
    length; one that is skipped is a cell that no instant falls into. For hours of one length,
    declare "UTC".

    Parameters
    ----------
    name
        What the attribute is called.
    low, high
        The first and the last day, as `date`; for hours the first and the last hour, as `datetime`
        without a zone. All of the units that these lie in belong to the attribute, and are what
        `low` and `high` then show: from the first day of a unit to the last day of one.
    unit
        How long a cell is: "day"; "week", from Monday to Sunday; "month"; or "hour". Its label is
        the `date` of its first day, or the `datetime` at which the hour begins.
    zone
        The place, as the name of a time zone, such as "Europe/Berlin". Instants, which are times
        with an offset or zone of their own, are read there; without a zone they match nothing,
        as nobody knows what day it was. Dates, and times without a zone, are taken as they are. The
        rules of a zone are those of the data base of time zones of the machine that loads a table.
    missing, other
        True where missing values, and all others, have a cell of their own.

    Raises
    ------
    InvalidArgument
        If these are not as described, or the zone is unknown here.
    MissingExtra
        If this machine has no data base of time zones; the package tzdata is one.

    >>> from datetime import date
    >>> visited = Date("visited", date(2024, 1, 1), date(2024, 12, 31), unit="month")
    >>> visited.size, visited.label(2), visited.index(date(2024, 3, 1))
    (12, datetime.date(2024, 3, 1), 2)
    """

    kind: ClassVar[str] = "date"
    ordered: ClassVar[bool] = True
    name: str = field(converter=to_attribute_name)
    low: date
    high: date
    unit: Unit = field(default="day", converter=_to_unit, kw_only=True)
    zone: str | None = field(default=None, converter=to_zone, kw_only=True)
    first: int = field(init=False, repr=False, eq=False)
    """The number of the first unit, counted from the one that 1970 begins in."""
    _size: int = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        low, high = self._end("low", self.low), self._end("high", self.high)
        number = UNITS[self.unit].number
        first, last = number(wall_of(low)), number(wall_of(high))
        if first > last:
            raise InvalidArgument("high", f"at least low, which is {low}", str(high))
        # A frozen value sets its derived fields once, at birth.
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "_size", last - first + 1)
        object.__setattr__(self, "low", self._label(0))
        object.__setattr__(self, "high", self._last(last))

    def _end(self, parameter: str, value: object) -> date:
        own = own_date(value)
        if own is None or isinstance(own, datetime) != (self.unit == "hour"):
            raise InvalidArgument(parameter, self._a_date, shown(value))
        return own

    @property
    def _a_date(self) -> str:
        if self.unit == "hour":
            return "a datetime without a zone, as the clock on the wall shows it"
        return "a date, and no datetime"

    def _last(self, number: int) -> date:
        if self.unit == "hour":
            return self._label(number - self.first)
        end = UNITS[self.unit].start(number + 1) // DAY - 1
        return date_of(min(end, date.max.toordinal() - date(1970, 1, 1).toordinal()))

    @property
    def known(self) -> int:
        return self._size

    @property
    def walls(self) -> tuple[int, int]:
        """When the first unit begins and when the last one ends, on the wall."""
        start = UNITS[self.unit].start
        return start(self.first), start(self.first + self.known)

    def _index(self, label: Label) -> int:
        own = own_date(label)
        if own is not None and isinstance(own, datetime) == (self.unit == "hour"):
            number = UNITS[self.unit].number(wall_of(own)) - self.first
            if 0 <= number < self.known and self._label(number) == own:
                return number
        begins = {"day": "a date", "hour": "a datetime on the hour"}
        kind = begins.get(self.unit, f"the date on which a {self.unit} begins,")
        raise self._unknown(label, f"{kind} from {self.text(0)} to {self.text(self.known - 1)}")

    def begins(self, number: int) -> date:
        """When a unit begins, counted from the one that 1970 begins in: a date, or an hour's time.

        Of a unit that begins before the year 1, the first day of that year.
        """
        wall = max(UNITS[self.unit].start(number), wall_of(date.min))
        day = date_of(wall // DAY)
        if self.unit != "hour":
            return day
        return datetime(day.year, day.month, day.day, wall % DAY // HOUR)  # noqa: DTZ001  # the wall

    def _label(self, index: int) -> date:
        return self.begins(self.first + int(index))

    def _text(self, index: int) -> str:
        label = self._label(index)
        return label.isoformat(timespec="minutes") if isinstance(label, datetime) else f"{label}"

    def through(self, value: date, *, after: bool) -> int | None:
        """How many units end before a day or time; None if it cuts through one.

        A day itself is before the cut, too, if `after`. A time, along hours only, is a point.
        """
        if isinstance(value, datetime):
            if self.unit != "hour":
                return None
            cut, point = wall_of(value), not value.microsecond
        else:
            cut, point = wall_of(value) + (DAY if after else 0), True
        low, high = self.walls
        if cut >= high or (cut <= low and point) or cut < low:
            return self.known if cut >= high else 0
        number = UNITS[self.unit].number(cut)
        begins = point and UNITS[self.unit].start(number) == cut
        return number - self.first if begins else None
