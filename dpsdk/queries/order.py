"""Places along an ordered attribute, numbers or dates, and the cells that lie between two."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import TypeAlias, cast

import numpy as np

from dpsdk._checks import shown, to_finite
from dpsdk._records import field, frozen
from dpsdk.domain import Attribute, Binned, Date, Integer, Number
from dpsdk.domain.dates import own_date
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Factor, Range, Within
from dpsdk.typing import Floats

__all__ = [
    "Between",
    "Place",
    "between",
    "labels_of",
    "middles_of",
    "on_labels",
    "require_rising",
    "to_high",
    "to_low",
    "to_place",
    "up_to",
]

Place: TypeAlias = float | date
"""A finite number; or along a `Date` a day, or along its hours a `datetime` without a zone."""


def to_place(parameter: str, value: Place) -> Place:
    """Read a place: a number, or a date that no caller holds."""
    own = own_date(value)
    if own is not None:
        return own
    if issubclass(type(value), date):
        raise InvalidArgument(parameter, "a date, or a datetime without a zone", shown(value))
    return to_finite(parameter, cast("float", value))


def require_rising(low: Place, high: Place) -> None:
    """Refuse two places of which the second is before the first, or of another kind."""
    kinds = [type(place) if isinstance(place, date) else float for place in (low, high)]
    if kinds[0] is not kinds[1]:
        expected = f"a {kinds[0].__name__}, as low is"
        raise InvalidArgument("high", expected, shown(high))
    if cast("float", low) > cast("float", high):
        raise InvalidArgument("high", f"at least low, which is {low}", shown(high))


def up_to(attribute: Attribute, place: Place, query: object, *, after: bool = True) -> int:
    """How many cells, from the first, lie at or below a place, a day itself too if `after`.

    Raises `QueryError` if the place is none along this attribute, or cuts through a cell.
    """
    if isinstance(attribute, Date):
        return _of_date(attribute, place, query, after=after)
    if not isinstance(attribute, Integer | Binned | Number):
        raise QueryError(str(query), f"attribute {attribute.name!r} has no order")
    if isinstance(place, date):
        raise QueryError(
            str(query), f"attribute {attribute.name!r} is of numbers, and has no dates"
        )
    if isinstance(attribute, Integer):
        return min(max(math.floor(place) - attribute.low + 1, 0), attribute.known)
    if isinstance(attribute, Number):
        return attribute.below(place, closed=after)
    if place < attribute.edges[0]:
        return 0
    if place > attribute.edges[-1]:
        return attribute.known
    if place in attribute.edges:
        return attribute.edges.index(place)
    reason = f"{place:g} is not an edge of {attribute.name!r}, so it cuts through a bin"
    raise QueryError(str(query), reason)


def _of_date(attribute: Date, place: Place, query: object, *, after: bool) -> int:
    name, unit = attribute.name, attribute.unit
    if not isinstance(place, date):
        raise QueryError(str(query), f"attribute {name!r} is of dates, and {place:g} is a number")
    if isinstance(place, datetime) and unit != "hour":
        reason = f"attribute {name!r} is of dates, and {place} is a time; give a date"
        raise QueryError(str(query), reason)
    cells = attribute.through(place, after=after)
    if cells is None:
        what = "ends" if after and not isinstance(place, datetime) else "begins"
        one = "an hour" if unit == "hour" else f"a {unit}"
        reason = f"{place} is not where {one} of {name!r} {what}, so it cuts through one"
        raise QueryError(str(query), reason)
    return cells


def between(attribute: Attribute, low: Place, high: Place, query: object) -> Range:
    """The cells from one place to another, both included. Raises as `up_to` does."""
    below = low
    if isinstance(attribute, Integer) and not isinstance(low, date):
        below = math.ceil(low) - 1
    start = up_to(attribute, below, query, after=False)
    stop = max(start, up_to(attribute, high, query))
    return Range(attribute.size, start, stop)


def on_labels(attribute: Attribute, factor: Factor) -> Factor:
    """A factor of the labels of an attribute, as one of all its cells: extra ones weigh nothing."""
    return Within(factor, attribute.size) if attribute.extras else factor


def labels_of(attribute: Attribute) -> dict[str, Factor]:
    """The condition that a row has a label of an attribute; none where each row has."""
    if not attribute.extras:
        return {}
    return {attribute.name: Range(attribute.size, 0, attribute.known)}


def to_low(value: Place) -> Place:
    """Read a `low=` argument."""
    return to_place("low", value)


def to_high(value: Place) -> Place:
    """Read a `high=` argument."""
    return to_place("high", value)


def middles_of(attribute: Binned) -> Floats:
    """The middle of each bin."""
    edges = np.array(attribute.edges)
    # Halves first: the sum of two floats may be infinite.
    return np.asarray(edges[:-1] / 2 + edges[1:] / 2)


@frozen(repr=False)
class Between:
    """A condition: the labels of an ordered attribute from `low` to `high`, as `Interval` has them.

    Both ends are included, and may lie beyond the bounds of the attribute. They must be edges along
    bins; along weeks and months the first day of one and the last day of one.

    >>> from datetime import date
    >>> from dpsdk.queries import Between, Count
    >>> Count(where={"visited": Between(date(2024, 1, 1), date(2024, 3, 31))})
    Count(where=Conjunction({'visited': Between(datetime.date(2024, 1, 1), \
datetime.date(2024, 3, 31))}))
    """

    low: Place = field(converter=to_low)
    high: Place = field(converter=to_high)

    def __attrs_post_init__(self) -> None:
        require_rising(self.low, self.high)

    def __repr__(self) -> str:
        return f"Between({shown(self.low)}, {shown(self.high)})"
