"""Periods of time, each with a budget of its own: the public rule by which a row lies in one."""

from __future__ import annotations

import re
from datetime import date, datetime

from dpsdk._checks import shown, to_count, to_integer
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import (
    INTEGER,
    JSON,
    NAME,
    POSITIVE,
    Codebook,
    OrNone,
    Plain,
    written,
)
from dpsdk.domain.attributes import Attribute, Integer, to_attribute_name
from dpsdk.domain.calendar import UNITS, day_of, wall_of
from dpsdk.domain.dates import END, Date, own_date
from dpsdk.domain.product import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Label

__all__ = ["Periods", "cells_between", "period_text"]

_MONDAY = date(1970, 1, 5)
_LIMIT = 2**53

_RULE = re.compile(r"(?s).*: (.*), zone .*, origin (-?[0-9]+), width ([0-9]+)")


def cells_between(attribute: Attribute, first: Label | None, last: Label | None) -> tuple[int, int]:
    """The cells from one value to another; all that there are, where one is left out."""
    low = 0 if first is None else attribute.index(first)
    high = attribute.known - 1 if last is None else attribute.index(last)
    if low > high:
        expected = f"at or after first, which is {attribute.text(low)}"
        raise InvalidArgument("last", expected, attribute.text(high))
    return low, high


def period_text(rule: str, number: int) -> str:
    """What a period is called by a rule in words: its first value, as `Periods.text` says it."""
    found = _RULE.fullmatch(rule)
    if found is None:
        return str(number)
    kind, origin, width = found.groups()
    begin = int(origin) + number * int(width)
    for unit in UNITS:
        if kind == f"date by {unit}":
            end = datetime(1970, 1, 1) if unit == "hour" else date(1970, 1, 1)  # noqa: DTZ001  # the wall
            return str(Date("time", end, end, unit=unit).begins(begin))
    return str(begin)


class _Origin:
    """A date, or a time, or a number."""

    def write(self, value: date | int, path: str, codebook: Codebook, /) -> Plain:
        if isinstance(value, int):
            return INTEGER.write(value, path, codebook)
        return END.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> date | int:
        number = type(plain) is int
        return INTEGER.read(plain, path, codebook) if number else END.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [INTEGER.schema(codebook), END.schema(codebook)]}


MOMENT = _Origin()
"""A date, a time or a number, as files have it."""


def _days(value: int | None) -> int | None:
    return None if value is None else to_count("days", value)


def _width(value: int | None) -> int | None:
    return None if value is None else to_count("width", value)


def to_moment(parameter: str, value: date | int | None) -> date | int | None:
    """A date, a time or a number of one's own; None where none was given."""
    if value is None:
        return None
    own = own_date(value)
    if own is not None:
        return own
    if isinstance(value, date):  # of a class that stands for other times
        raise InvalidArgument(
            parameter, "a date, or for hours a datetime without zone", shown(value)
        )
    number = to_integer(parameter, value, "a date, or for whole numbers one of them")
    if abs(number) > _LIMIT:
        raise InvalidArgument(parameter, "between -2**53 and 2**53", shown(number))
    return number


def _origin(value: date | int | None) -> date | int | None:
    return to_moment("origin", value)


@written(
    "periods",
    {
        "attribute": NAME,
        "days": OrNone(POSITIVE),
        "width": OrNone(POSITIVE),
        "origin": OrNone(MOMENT),
    },
)
@frozen
class Periods:
    """The periods of time that a budget renews by: which one a row lies in, by its own value alone.

    Periods are counted along absolute time, from an origin that never changes, and not along the
    cells of a domain: so a row stays in its period when the domain's first or last day moves. A
    ledger is bound to the rule.

    Parameters
    ----------
    attribute
        The attribute that says when: a `Date`, or an `Integer` such as the number of a batch. Which
        period a row lies in must be a fact of that row, the same whenever the table is loaded.
    days
        How many days a period has, along a `Date` of days.
    width
        How many units a period has: weeks, months or hours of a `Date`, whole numbers of an
        `Integer`; 1 if neither this nor `days` is given.
    origin
        A value at which a period begins. By default Monday, 5 January 1970 for days, so that
        `days=7` begins on Mondays; the unit that 1970 begins in for weeks, months and hours; and 0
        for whole numbers.

    >>> from datetime import date
    >>> from dpsdk import Date, Domain
    >>> from dpsdk.domain import Periods
    >>> visited = Date("visited", date(2026, 5, 1), date(2026, 5, 31))
    >>> weeks = Periods("visited", days=7)
    >>> first, last = weeks.range(visited)
    >>> last - first + 1, weeks.text(visited, first)
    (5, '2026-04-27')
    """

    attribute: str = field(converter=to_attribute_name)
    days: int | None = field(default=None, converter=_days)
    width: int | None = field(default=None, converter=_width, kw_only=True)
    origin: date | int | None = field(default=None, converter=_origin, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.days is not None and self.width is not None:
            raise InvalidArgument("width", "left out where days= is given", shown(self.width))

    def check(self, domain: Domain) -> None:
        """Raise `InvalidArgument` if periods cannot be told by the attribute of that name.

        Raises `UnknownAttribute` if the domain has none of it.
        """
        one, name = domain[self.attribute], shown(self.attribute)
        if not isinstance(one, Date | Integer):
            expected = "by a Date or an Integer, whose values say when whatever the domain holds"
            raise InvalidArgument("periods", expected, f"{name}, a {type(one).__name__}")
        if one.extras:
            expected = "by an attribute without missing= or other=, as such a row is of no period"
            raise InvalidArgument("periods", expected, shown(one))
        if isinstance(one, Integer) and max(abs(one.low), abs(one.high)) > _LIMIT:
            raise InvalidArgument("periods", "by numbers between -2**53 and 2**53", shown(one))
        if isinstance(one, Date) and one.zone not in (None, "UTC"):
            expected = 'by a Date without a zone or of "UTC", as the rules of a zone change'
            raise InvalidArgument("periods", expected, f"{name}, of zone {shown(one.zone)}")
        if self.days is not None and (not isinstance(one, Date) or one.unit != "day"):
            expected = "given as width= for an attribute that is no Date of days"
            raise InvalidArgument("days", expected, shown(self.days))
        self._begin(one)

    def _begin(self, one: Attribute) -> int:
        """The number of the unit that the periods are counted from."""
        own, expected = self.origin, "a date at which a unit begins"
        if isinstance(one, Integer):
            if own is None:
                return 0
            if isinstance(own, int):
                return own
            raise InvalidArgument("origin", "a whole number for an Integer", shown(own))
        unit = one.unit if isinstance(one, Date) else "day"
        if own is None:
            return day_of(_MONDAY) if unit == "day" else 0
        if isinstance(own, date) and isinstance(own, datetime) == (unit == "hour"):
            wall = wall_of(own)
            number = UNITS[unit].number(wall)
            if UNITS[unit].start(number) == wall:
                return number
        raise InvalidArgument("origin", expected, shown(own))

    @property
    def units(self) -> int:
        """How many units of its attribute a period has."""
        return self.days or self.width or 1

    def offset(self, attribute: Attribute) -> int:
        """How many units after the origin the attribute's first cell lies."""
        first = attribute.low if isinstance(attribute, Integer) else 0
        first = attribute.first if isinstance(attribute, Date) else first
        return first - self._begin(attribute)

    def number(self, attribute: Attribute, cell: int) -> int:
        """The number of the period that a cell lies in, counted from that which the origin begins.

        It is a function of the value that the cell stands for, and the same in every domain.
        """
        return (self.offset(attribute) + cell) // self.units

    def range(self, attribute: Attribute) -> tuple[int, int]:
        """The numbers of the first and of the last period that the attribute's cells lie in."""
        return self.number(attribute, 0), self.number(attribute, attribute.known - 1)

    def starts(self, attribute: Attribute) -> list[int]:
        """The first cell of each of these periods, in order."""
        first, last = self.range(attribute)
        start = -self.offset(attribute)
        return [max(start + number * self.units, 0) for number in range(first, last + 1)]

    def cells(self, attribute: Attribute, first: int, last: int) -> tuple[int, int]:
        """The first and the last cell of a range of periods, as far as the attribute has them."""
        start = -self.offset(attribute)
        low, high = start + first * self.units, start + (last + 1) * self.units - 1
        return max(low, 0), min(high, attribute.known - 1)

    def start(self, attribute: Attribute, number: int) -> Label:
        """The first value of a period, whether or not the attribute has a cell for it."""
        unit = self._begin(attribute) + number * self.units
        return attribute.begins(unit) if isinstance(attribute, Date) else unit

    def text(self, attribute: Attribute, number: int) -> str:
        """What a period is called: its first value."""
        return str(self.start(attribute, number))

    def cut(self, domain: Domain, low: int, high: int) -> Domain:
        """The same domain with some cells of the attribute alone, from one to another."""
        one = domain[self.attribute]
        cut: Attribute
        if isinstance(one, Date):
            cut = evolve(one, low=one.begins(one.first + low), high=one.begins(one.first + high))
        elif isinstance(one, Integer):
            cut = evolve(one, low=one.low + low, high=one.low + high)
        else:
            raise InvalidArgument("periods", "by a Date or an Integer", type(one).__name__)
        others = [cut if other is one else other for other in domain.attributes]
        return Domain(*others, missing_texts=domain.missing_texts)

    def rule(self, attribute: Attribute) -> str:
        """The rule in words, the same for all domains that it numbers alike; ledgers keep it."""
        if isinstance(attribute, Date):
            kind, zone = f"date by {attribute.unit}", attribute.zone or "none"
        else:
            kind, zone = attribute.kind, "none"
        begin = self._begin(attribute)
        return f"{self.attribute}: {kind}, zone {zone}, origin {begin}, width {self.units}"
