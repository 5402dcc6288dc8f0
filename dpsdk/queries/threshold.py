"""Thresholds and intervals of one ordered attribute."""

from __future__ import annotations

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.codec import NAME, written
from dpsdk.domain import Domain
from dpsdk.forms import LinearForm, Range
from dpsdk.queries.base import to_attribute
from dpsdk.queries.conjunction import COUNTED, ConditionedScalar, masked
from dpsdk.queries.order import Place, between, require_rising, to_high, to_low, to_place, up_to
from dpsdk.queries.written import END

__all__ = ["Interval", "Threshold"]


def _to_threshold(value: Place) -> Place:
    return to_place("threshold", value)


@written("query.threshold", {"attribute": NAME, "threshold": END, **COUNTED})
@frozen(repr=False)
class Threshold(ConditionedScalar):
    """The share of rows at or below a threshold of one ordered attribute; a float.

    On an `Integer` attribute any finite threshold goes, also beyond its bounds. On a `Binned` one
    it must be an edge, or beyond the bounds, and the answer is the share of rows in the bins below
    that edge: bins are half-open, so rows exactly at an inner edge lie above it, and those at the
    last edge below. On a `Date` it is a day, and the answer the share of rows at or before it: any
    day where cells are days, the last day of a week or month where they are these. Along hours it
    may also be a `datetime` on the hour, with rows before that. Rows that do not meet `where` do
    not count, but stay in the denominator.

    >>> from dpsdk.queries import Threshold
    >>> Threshold("age", 40)
    Threshold('age', 40)
    """

    attribute: str = field(converter=to_attribute)
    threshold: Place = field(converter=_to_threshold)

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        cells = Range(attribute.size, 0, up_to(attribute, self.threshold, self))
        return LinearForm(domain, (masked({self.attribute: cells}, self.where, domain),))

    def __repr__(self) -> str:
        return f"Threshold({shown(self.attribute)}, {shown(self.threshold)}{self._given})"


@written("query.interval", {"attribute": NAME, "low": END, "high": END, **COUNTED})
@frozen(repr=False)
class Interval(ConditionedScalar):
    """The share of rows from `low` to `high` of one ordered attribute, both included; a float.

    On a `Binned` attribute both ends must be edges, or beyond the bounds, and the answer is the
    share of rows in the bins between them. On a `Date` they are days: any days where cells are
    days, the first day of a week or month and the last of one where they are these. Along hours
    they may also be a `datetime` on the hour, and the answer is the share of rows from the one to
    before the other.

    >>> from dpsdk.queries import Interval
    >>> Interval("age", 25, 64)
    Interval('age', 25, 64)
    """

    attribute: str = field(converter=to_attribute)
    low: Place = field(converter=to_low)
    high: Place = field(converter=to_high)

    def __attrs_post_init__(self) -> None:
        require_rising(self.low, self.high)

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        cells = between(attribute, self.low, self.high, self)
        return LinearForm(domain, (masked({self.attribute: cells}, self.where, domain),))

    def __repr__(self) -> str:
        ends = f"{shown(self.low)}, {shown(self.high)}"
        return f"Interval({shown(self.attribute)}, {ends}{self._given})"
