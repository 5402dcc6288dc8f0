"""Counts, bounded sums and means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.codec import NAME, written
from dpsdk.domain import Binned, Date, Domain, Integer
from dpsdk.errors import QueryError, TooLarge
from dpsdk.forms import Facts, LinearForm, Weights
from dpsdk.forms.assumptions import Assumptions, counting
from dpsdk.forms.factors import MATRIX_LIMIT
from dpsdk.forms.linear import EXACT
from dpsdk.queries.base import ScalarQuery, to_attribute
from dpsdk.queries.coarse import farthest_mean, is_coarse
from dpsdk.queries.conjunction import (
    COUNTED,
    RESTRICTED,
    ConditionedScalar,
    Conjunction,
    Located,
    masked,
    options,
    to_where,
)
from dpsdk.queries.order import labels_of, middles_of, on_labels
from dpsdk.typing import Floats

__all__ = ["Count", "Mean", "Sum"]


_FINEST = 2.0**-40
"""The kernel rounds weights to steps of this at the least."""

_ROUNDED = 2.0**-48
"""A bound of the rounding in the few operations from raw numbers to the error of a mean."""


def _ends(query: Sum | Mean, domain: Domain) -> tuple[float, float]:
    """The bounds of a numeric attribute, small enough to be added up exactly."""
    attribute = domain[query.attribute]
    low: float
    high: float
    if isinstance(attribute, Integer):
        low, high = attribute.low, attribute.high  # as integers, which may be too large for floats
    elif isinstance(attribute, Binned):
        low, high = attribute.edges[0], attribute.edges[-1]
    else:
        reason = f"attribute {attribute.name!r} is not numeric"
        if isinstance(attribute, Date):
            reason = f"attribute {attribute.name!r} is of dates, which are not added up"
            reason = f"{reason}; for what lies in the middle ask DateQuantile"
        raise QueryError(str(query), reason)
    if max(-low, high) >= EXACT:
        reason = (
            f"attribute {attribute.name!r} reaches to 2**53 or beyond, where sums are no longer "
            "exact; declare narrower bounds"
        )
        raise QueryError(str(query), reason)
    return float(low), float(high)


def _values(query: Sum | Mean, domain: Domain) -> Floats:
    """The value of each cell: an integer itself, a bin its middle."""
    low, high = _ends(query, domain)
    attribute = domain[query.attribute]
    if attribute.size > MATRIX_LIMIT:
        advice = "declare narrower bounds, or bins"
        raise TooLarge(str(query), attribute.size, MATRIX_LIMIT, "weights", advice)
    return middles_of(attribute) if isinstance(attribute, Binned) else np.arange(low, high + 1)


def _check_sums(weight: float, query: Sum | Mean, facts: Facts) -> None:
    """Refuse what so many rows of so much weight could not be summed to exactly."""
    rows = max(facts.row_limit, 1)
    if weight * rows >= EXACT:
        reason = (
            f"up to {rows:,} rows of attribute {query.attribute!r}, each weighing up to "
            f"{weight:g}, sum to 2**53 or beyond, where sums are no longer exact; declare narrower "
            f"bounds{'' if facts.rows is not None else ', or a smaller max_rows'}"
        )
        raise QueryError(str(query), reason)


@written("query.count", COUNTED)
@frozen(repr=False)
class Count(ConditionedScalar):
    """The share of rows that lie in the domain and meet a condition; a float.

    With `normalized=False` their number.

    >>> from dpsdk.queries import Count
    >>> Count(where={"sex": "Female"}, normalized=False)
    Count(where=Conjunction({'sex': 'Female'}), normalized=False)
    """

    # By position too, which no other query takes it by.
    where: Conjunction | None = field(default=None, converter=to_where)

    def lower(self, domain: Domain, /) -> LinearForm:
        return LinearForm(domain, (masked({}, self.where, domain),))

    def __repr__(self) -> str:
        return f"Count({self._given.removeprefix(', ')})"


@written("query.sum", {"attribute": NAME, **COUNTED})
@frozen(repr=False)
class Sum(ConditionedScalar):
    """The sum of a numeric attribute over the rows, by the bounds of its declaration; a float.

    By default the sum divided by the number of rows, as with every query; `normalized=False` is
    the sum itself. A bin counts as its middle. Rows outside the domain, those whose value of the
    attribute is missing or matches nothing, and those that do not meet `where`, add nothing.

    Raises
    ------
    QueryError
        When the query is asked, before anything is paid: if the attribute is not numeric, if so
        many rows could sum to 2**53 or beyond, where floats are no longer exact, or if all values
        are below 2**-40, to which they would be rounded.

    >>> from dpsdk.queries import Sum
    >>> Sum("hours", normalized=False)
    Sum('hours', normalized=False)
    """

    attribute: str = field(converter=to_attribute)

    def lower(self, domain: Domain, /) -> LinearForm:
        values = _values(self, domain)
        if 0 < np.abs(values).max() < _FINEST:
            reason = (
                f"no value of attribute {self.attribute!r} reaches 2**-40, so all of them would be "
                "rounded away; declare it in a smaller unit"
            )
            raise QueryError(str(self), reason)
        factor = on_labels(domain[self.attribute], Weights(values[None, :]))
        return LinearForm(domain, (masked({self.attribute: factor}, self.where, domain),))

    def check(self, facts: Facts, /) -> None:
        ScalarQuery.check(self, facts)
        attribute, (low, high) = facts.domain[self.attribute], _ends(self, facts.domain)
        if isinstance(attribute, Binned):
            low, high = (low + attribute.edges[1]) / 2, (attribute.edges[-2] + high) / 2
        _check_sums(max(-low, high), self, facts)

    def span(self, facts: Facts, /) -> float:
        low, high = _ends(self, facts.domain)
        return ScalarQuery.span(self, facts) * (max(high, 0.0) - min(low, 0.0))

    def values_of(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        attribute = facts.domain[self.attribute]
        if not is_coarse(attribute):
            return None
        # Of no more rows than there may be, those that do not count add nothing.
        rows = facts.row_limit if facts.rows is None else facts.rows
        each = (
            [math.nan] * 2
            if raw is None or not rows
            else [float(raw[0] + sign * radii[0]) / rows for sign in (-1, 1)]
        )
        most = rows * farthest_mean(attribute, *each, padded=True)
        return np.array([most * self.scale(facts) if rows else 0.0])

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[float, float]:
        (low,), (high,) = self.ends(raw, radii, facts)
        return float(low), float(high)

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        low, high = super().ends(raw, radii, facts)
        hidden = self.coarseness(raw, radii, facts)
        return (low, high) if hidden is None else (low - hidden, high + hidden)

    def __repr__(self) -> str:
        return f"Sum({shown(self.attribute)}{self._given})"


@written("query.mean", {"attribute": NAME, **RESTRICTED})
@frozen(repr=False)
class Mean(Located[float]):
    """The mean of a numeric attribute over the rows that lie in the domain and meet a condition.

    A float within the bounds of the attribute, and the value itself where there is only one; a bin
    counts as its middle. Only rows with a label of the attribute count: none whose value is missing
    or matches nothing. It is the ratio of a noisy sum and a noisy count, measured together, since
    the number of such rows is private.

    Where the noisy count cannot be told from zero, with a confidence of 95%, there may be no such
    row, and the answer is NaN: its error bound is the width of the attribute, and marked as
    vacuous. Only what was released decides that, so it costs nothing. Attributes are refused as by
    `Sum`.

    >>> from dpsdk.queries import Mean
    >>> Mean("hours", where={"sex": "Female"})
    Mean('hours', where=Conjunction({'sex': 'Female'}))
    """

    attribute: str = field(converter=to_attribute)

    def check(self, facts: Facts, /) -> None:
        _check_sums(self.span(facts), self, facts)

    def settled(self, raw: Floats, radii: Callable[[], Floats], facts: Facts, /) -> Floats:
        # A count that noise alone would reach says nothing, nor does a sum divided by it.
        known = not self.span(facts) or float(raw[1]) > float(radii()[1])
        return raw if known else np.full(2, np.nan)

    def lower(self, domain: Domain, /) -> LinearForm:
        values, (low, high) = _values(self, domain), _ends(self, domain)
        width = (high - low) or 1.0
        # Twice the distance from the middle runs from -width to width. A count weighted by the
        # width then moves no further than the sum does, so it is measured at no extra noise.
        unit = _unit(width)
        centred = Weights((2 * values - (low + high))[None, :] * unit)
        attribute = domain[self.attribute]
        total = masked({self.attribute: on_labels(attribute, centred)}, self.where, domain)
        count = masked(labels_of(attribute), self.where, domain)
        return LinearForm(domain, (total, count.times(width * unit)))

    def lift(self, raw: Floats, facts: Facts, /) -> float:
        return self._middle(raw, facts)

    def _middle(self, raw: Floats, facts: Facts) -> float:
        if not self.span(facts):
            return self._at(0.0, facts)  # the only value there is
        total, count = float(raw[0]), float(raw[1])
        return self._at(total / count, facts) if count > 0 else math.nan

    def span(self, facts: Facts, /) -> float:
        low, high = _ends(self, facts.domain)
        return high - low

    @property
    def width(self) -> int:
        return 2

    def values_of(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def totals(self, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        width = self.span(facts) or 1.0
        return () if self.where is not None else [(slice(1, 2), width * _unit(width))]

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        attribute = facts.domain[self.attribute]
        if not is_coarse(attribute):
            return None
        ends = (math.nan, math.nan) if raw is None else self._bounds(raw, radii, facts)
        return np.array([farthest_mean(attribute, *ends)])

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        span, (low, high) = self.span(facts), self._bounds(raw, radii, facts)
        # Where nothing was learned it is said in full, so that the bound is marked as vacuous.
        if np.isnan(raw).any() or high - low >= span:
            return np.array([span])
        return super().spread(raw, radii, facts)

    def presumed(
        self, radii: Floats, apart: Callable[[], Floats], facts: Facts, assumptions: Assumptions, /
    ) -> Floats:
        # docs/explanation/proofs/mean.md
        low, high = _ends(self, facts.domain)
        width = (high - low) or 1.0
        counted = assumptions.counted(facts, conditional=self._conditional(facts))
        total, count = (float(radius) for radius in radii)
        fewest = counted * (width * _unit(width)) - count
        if not fewest > max(total + count, float(apart()[1])):
            return np.array([high - low])
        rounded = _ROUNDED * (abs(low) + abs(high))
        radius = (total + count) / (fewest - count) * width / 2
        return np.array([min(high - low, radius * (1 + _ROUNDED) + rounded)])

    def presumes(self, facts: Facts, /) -> frozenset[str]:
        return counting(facts, conditional=self._conditional(facts))

    def _conditional(self, facts: Facts) -> bool:
        """True if rows of the domain may not count."""
        return self.where is not None or bool(facts.domain[self.attribute].extras)

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[float, float]:
        return self._bounds_of_values(raw, radii, facts)

    def _bounds_of_values(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[float, float]:
        (least, greatest), (low, high) = _ends(self, facts.domain), self._bounds(raw, radii, facts)
        hidden = self.coarseness(raw, radii, facts)
        if hidden is None:
            return low, high
        return max(low - float(hidden[0]), least), min(high + float(hidden[0]), greatest)

    def _bounds(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[float, float]:
        fewest, most = float(raw[1] - radii[1]), float(raw[1] + radii[1])
        if not fewest > 0:  # NaN, where the count says nothing, included
            return self._at(-1.0, facts), self._at(1.0, facts)
        least, greatest = float(raw[0] - radii[0]), float(raw[0] + radii[0])
        ratios = [total / count for total in (least, greatest) for count in (fewest, most)]
        return self._at(min(ratios), facts), self._at(max(ratios), facts)

    def _at(self, ratio: float, facts: Facts) -> float:
        """The number at a relative place within the bounds, -1 being the lower, 1 the upper."""
        low, high = _ends(self, facts.domain)
        place = min(max(ratio, -1.0), 1.0) * ((high - low) or 1.0)
        return min(max((low + high + place) / 2, low), high)

    def __repr__(self) -> str:
        return f"Mean({shown(self.attribute)}{options(self.where, normalized=True)})"


def _unit(width: float) -> float:
    """The power of two that makes a narrow width at least one."""
    return math.ldexp(1.0, min(max(1 - math.frexp(width)[1], 0), 1000))
