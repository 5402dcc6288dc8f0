"""Thresholds and intervals of one ordered attribute."""

from __future__ import annotations

import math

from attrs import field, frozen

from dpsdk._checks import shown, to_finite, to_name
from dpsdk.domain import Attribute, Binned, Domain, Integer
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import LinearForm, Range
from dpsdk.queries.conjunction import ConditionedScalar, masked

__all__ = ["Interval", "Threshold"]


def _to_attribute(value: str) -> str:
    return to_name("attribute", value)


def _to_threshold(value: float) -> float:
    return to_finite("threshold", value)


def _to_low(value: float) -> float:
    return to_finite("low", value)


def _to_high(value: float) -> float:
    return to_finite("high", value)


def _up_to(attribute: Attribute, threshold: float, query: str) -> int:
    """How many cells, from the first, lie at or below a threshold."""
    if isinstance(attribute, Integer):
        return min(max(math.floor(threshold) - attribute.low + 1, 0), attribute.size)
    if isinstance(attribute, Binned):
        if threshold < attribute.edges[0]:
            return 0
        if threshold > attribute.edges[-1]:
            return attribute.size
        if threshold in attribute.edges:
            return attribute.edges.index(threshold)
        reason = f"{threshold:g} is not an edge of {attribute.name!r}, so it cuts through a bin"
        raise QueryError(query, reason)
    raise QueryError(query, f"attribute {attribute.name!r} has no order")


@frozen(repr=False)
class Threshold(ConditionedScalar):
    """The share of rows at or below a threshold of one ordered attribute; a float.

    On an `Integer` attribute any finite threshold goes, also beyond its bounds. On a `Binned` one
    it must be an edge, or beyond the bounds, and the answer is the share of rows in the bins below
    that edge: bins are half-open, so rows exactly at an inner edge lie above it, and those at the
    last edge below. Rows that do not meet `where` do not count, but stay in the denominator.

    >>> from dpsdk.queries import Threshold
    >>> Threshold("age", 40)
    Threshold('age', 40)
    """

    attribute: str = field(converter=_to_attribute)
    threshold: float = field(converter=_to_threshold)

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        cells = Range(attribute.size, 0, _up_to(attribute, self.threshold, str(self)))
        return LinearForm(domain, (masked({self.attribute: cells}, self.where, domain),))

    def __repr__(self) -> str:
        return f"Threshold({shown(self.attribute)}, {self.threshold}{self._given})"


@frozen(repr=False)
class Interval(ConditionedScalar):
    """The share of rows from `low` to `high` of one ordered attribute, both included; a float.

    On a `Binned` attribute both ends must be edges, or beyond the bounds, and the answer is the
    share of rows in the bins between them.

    >>> from dpsdk.queries import Interval
    >>> Interval("age", 25, 64)
    Interval('age', 25, 64)
    """

    attribute: str = field(converter=_to_attribute)
    low: float = field(converter=_to_low)
    high: float = field(converter=_to_high)

    def __attrs_post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidArgument("high", f"at least low, which is {self.low}", shown(self.high))

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        below = math.ceil(self.low) - 1 if isinstance(attribute, Integer) else self.low
        start = _up_to(attribute, below, str(self))
        stop = max(start, _up_to(attribute, self.high, str(self)))
        cells = Range(attribute.size, start, stop)
        return LinearForm(domain, (masked({self.attribute: cells}, self.where, domain),))

    def __repr__(self) -> str:
        return f"Interval({shown(self.attribute)}, {self.low}, {self.high}{self._given})"
