"""Counts, bounded sums and means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from typing_extensions import TypeVar

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.codec import NAME, written
from dpsdk.domain import Attribute, Binned, Date, Domain, Integer, Number
from dpsdk.errors import QueryError
from dpsdk.forms import Factor, Facts, LinearForm, Ramp, Weights
from dpsdk.forms.assumptions import Assumptions
from dpsdk.forms.linear import EXACT
from dpsdk.forms.sensitivity import SPAN_LIMIT
from dpsdk.queries.base import to_attribute, to_normalized
from dpsdk.queries.coarse import farthest_means, is_coarse
from dpsdk.queries.conjunction import COUNTED, RESTRICTED, Where, masked, to_where
from dpsdk.queries.groups import (
    GROUPED,
    By,
    Estimated,
    Grouped,
    GroupTable,
    described_by,
    groups_of,
    to_by,
)
from dpsdk.queries.order import labels_of, middles_of, on_labels
from dpsdk.typing import Floats

__all__ = ["Count", "Mean", "Sum", "check_sums", "limits_of"]

G_co = TypeVar("G_co", covariant=True, default=float)

_FINEST = 2.0**-40
"""The kernel rounds weights to steps of this at the least."""

_ROUNDED = 2.0**-48
"""A bound of the rounding in the few operations from raw numbers to the error of a mean."""


def limits_of(query: object, attribute: Attribute) -> tuple[float, float]:
    """The least and the largest value of a numeric attribute, small enough for exact sums.

    Of a `Number` it is in steps, which are what is added up.
    """
    low: float
    high: float
    coarser = ""
    if isinstance(attribute, Integer):
        low, high = attribute.low, attribute.high  # as integers, which may be too large for floats
    elif isinstance(attribute, Number):
        low, high = attribute.start, attribute.start + attribute.known - 1
        coarser = ", or a longer step"
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
            f"attribute {attribute.name!r} reaches to 2**53{coarser and ' steps'} or beyond, where "
            f"sums are no longer exact; declare narrower bounds{coarser}"
        )
        raise QueryError(str(query), reason)
    return float(low), float(high)


def _ends(query: Sum[Any] | Mean[Any], domain: Domain) -> tuple[float, float]:
    """The bounds of a numeric attribute, small enough to be added up exactly."""
    attribute = domain[query.attribute]
    low, high = limits_of(query, attribute)
    return attribute.bounds if isinstance(attribute, Number) else (low, high)


def _step_of(attribute: Attribute) -> float:
    """The number that sums are counts of."""
    return float(attribute.step) if isinstance(attribute, Number) else 1.0


def _weights(attribute: Attribute, low: float, high: float, *, centred: bool) -> Factor:
    """The value of each label, or twice how far it is from the middle; a bin counts as its own.

    In steps, as are `low` and `high`, along a `Number`.
    """
    size = attribute.known
    if isinstance(attribute, Number) or (isinstance(attribute, Integer) and size > SPAN_LIMIT):
        return Ramp(size, 1 - size, 2) if centred else Ramp(size, int(low), 1)
    values: Floats = np.arange(low, low + size)
    if isinstance(attribute, Binned):
        values = middles_of(attribute)
    return Weights((2 * values - (low + high) if centred else values)[None, :])


def check_sums(weight: float, query: object, attribute: str, facts: Facts) -> None:
    """Refuse what so many rows of so much weight could not be summed to exactly."""
    rows = max(facts.row_limit, 1)
    if weight * rows >= EXACT:
        reason = (
            f"up to {rows:,} rows of attribute {attribute!r}, each weighing up to "
            f"{weight:g}, sum to 2**53 or beyond, where sums are no longer exact; declare narrower "
            f"bounds{'' if facts.rows is not None else ', or a smaller max_rows'}"
        )
        raise QueryError(str(query), reason)


@written("query.count", {**COUNTED, **GROUPED})
@frozen(init=False, repr=False)
class Count(Grouped[G_co]):
    """The share of rows that lie in the domain and meet a condition; a float.

    With `normalized=False` their number. With `by`, that of each group of rows: a `GroupTable`.

    Parameters
    ----------
    by
        One attribute or several, whose labels tell groups apart. Asked of all groups together, as
        a `Marginal` is: one row moves two groups under replace-one neighbours, one under
        add-remove, however many there are.

    >>> from dpsdk.queries import Count
    >>> Count(where={"sex": "Female"}, normalized=False)
    Count(where=Conjunction({'sex': 'Female'}), normalized=False)
    """

    @overload
    def __init__(
        self: Count[float], where: Where = None, *, by: None = None, normalized: bool = True
    ) -> None: ...
    @overload
    def __init__(
        self: Count[GroupTable], where: Where = None, *, by: By, normalized: bool = True
    ) -> None: ...
    # The condition by position too, which no other query takes it by.
    def __init__(
        self, where: Where = None, *, by: By | None = None, normalized: bool = True
    ) -> None:
        object.__setattr__(self, "where", to_where(where))
        object.__setattr__(self, "by", to_by(by))
        object.__setattr__(self, "normalized", to_normalized(normalized))

    def lower(self, domain: Domain, /) -> LinearForm:
        return LinearForm(domain, (masked(groups_of(self.by, domain), self.where, domain),))

    def totals(self, raw: Floats, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        del raw, facts
        return [(slice(None), 1.0)] if self.by is not None and self.where is None else ()

    def __repr__(self) -> str:
        return f"Count({f'{described_by(self.by)}{self._given}'.removeprefix(', ')})"


@written("query.sum", {"attribute": NAME, **COUNTED, **GROUPED})
@frozen(init=False, repr=False)
class Sum(Grouped[G_co]):
    """The sum of a numeric attribute over the rows, by the bounds of its declaration; a float.

    By default the sum divided by the number of rows, as with every query; `normalized=False` is
    the sum itself. A bin counts as its middle, and along a `Number` each value as the label next to
    it. Rows outside the domain, those whose value of the attribute is missing or matches nothing,
    and those that do not meet `where`, add nothing. With `by`, the sum of each group of rows: a
    `GroupTable`.

    Parameters
    ----------
    attribute
        An `Integer`, `Number` or `Binned` attribute.
    by
        One attribute or several, whose labels tell groups apart. Under add-remove neighbours all
        sums cost what one does; under replace-one, as a row may leave one group for another, the
        squares of two sums add up.

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

    attribute: str

    @overload
    def __init__(
        self: Sum[float],
        attribute: str,
        *,
        by: None = None,
        where: Where = None,
        normalized: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: Sum[GroupTable],
        attribute: str,
        *,
        by: By,
        where: Where = None,
        normalized: bool = True,
    ) -> None: ...
    def __init__(
        self,
        attribute: str,
        *,
        by: By | None = None,
        where: Where = None,
        normalized: bool = True,
    ) -> None:
        object.__setattr__(self, "attribute", to_attribute(attribute))
        object.__setattr__(self, "by", to_by(by, self.attribute))
        object.__setattr__(self, "where", to_where(where))
        object.__setattr__(self, "normalized", to_normalized(normalized))

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        factor = _weights(attribute, *limits_of(self, attribute), centred=False)
        if 0 < max(map(abs, factor.limits())) < _FINEST:
            reason = (
                f"no value of attribute {self.attribute!r} reaches 2**-40, so all of them would be "
                "rounded away; declare it in a smaller unit"
            )
            raise QueryError(str(self), reason)
        factors = {**groups_of(self.by, domain), self.attribute: on_labels(attribute, factor)}
        return LinearForm(domain, (masked(factors, self.where, domain),))

    def check(self, facts: Facts, /) -> None:
        super().check(facts)
        attribute = facts.domain[self.attribute]
        low, high = limits_of(self, attribute)
        if isinstance(attribute, Binned):
            low, high = (low + attribute.edges[1]) / 2, (attribute.edges[-2] + high) / 2
        check_sums(max(-low, high), self, self.attribute, facts)

    def scale(self, facts: Facts, /) -> float:
        return super().scale(facts) * _step_of(facts.domain[self.attribute])

    def span(self, facts: Facts, /) -> float:
        low, high = limits_of(self, facts.domain[self.attribute])
        return super().span(facts) * (max(high, 0.0) - min(low, 0.0))

    def values_of(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        attribute = facts.domain[self.attribute]
        if not is_coarse(attribute):
            return None
        # Of no more rows than there may be, those that do not count add nothing.
        rows = facts.row_limit if facts.rows is None else facts.rows
        if not rows:
            return np.zeros(len(radii))
        numbers = np.full(len(radii), np.nan) if raw is None else raw
        low, high = (numbers - radii) / rows, (numbers + radii) / rows
        hidden = farthest_means(attribute, low, high, padded=True) * rows
        return self._each(hidden / _step_of(attribute), facts)

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[G_co, G_co]:
        low, high = self.ends(raw, radii, facts)
        return self._answer(low, facts), self._answer(high, facts)

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        low, high = super().ends(raw, radii, facts)
        hidden = self.coarseness(raw, radii, facts)
        return (low, high) if hidden is None else (low - hidden, high + hidden)

    def __repr__(self) -> str:
        return f"Sum({shown(self.attribute)}{described_by(self.by)}{self._given})"


@written("query.mean", {"attribute": NAME, **RESTRICTED, **GROUPED})
@frozen(init=False, repr=False)
class Mean(Estimated[G_co]):
    """The mean of a numeric attribute over the rows that lie in the domain and meet a condition.

    A float within the bounds of the attribute, and the value itself where there is only one; a bin
    counts as its middle. Only rows with a label of the attribute count: none whose value is missing
    or matches nothing. It is the ratio of a noisy sum and a noisy count, measured together, since
    the number of such rows is private. With `by`, the mean of each group of rows: a `GroupTable`,
    which has the noisy counts, too.

    Where the noisy count cannot be told from zero, with a confidence of 95%, there may be no such
    row, and the answer is NaN: its error bound is the width of the attribute, and marked as
    vacuous. Only what was released decides that, so it costs nothing. Attributes are refused as by
    `Sum`.

    Parameters
    ----------
    attribute
        An `Integer`, `Number` or `Binned` attribute.
    by
        One attribute or several, whose labels tell groups apart. Under Gaussian noise the means of
        all groups cost what one mean does (docs/explanation/proofs/groups.md). `errors` of a
        release bounds each of them, `error` all at once.

    >>> from dpsdk.queries import Mean
    >>> Mean("hours", where={"sex": "Female"})
    Mean('hours', where=Conjunction({'sex': 'Female'}))
    >>> Mean("hours", by="education")
    Mean('hours', by='education')
    """

    @overload
    def __init__(
        self: Mean[float], attribute: str, *, by: None = None, where: Where = None
    ) -> None: ...
    @overload
    def __init__(
        self: Mean[GroupTable], attribute: str, *, by: By, where: Where = None
    ) -> None: ...
    def __init__(self, attribute: str, *, by: By | None = None, where: Where = None) -> None:
        self._read(attribute, by, where)

    def check(self, facts: Facts, /) -> None:
        low, high = limits_of(self, facts.domain[self.attribute])
        check_sums(high - low, self, self.attribute, facts)

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        low, high = limits_of(self, attribute)
        width = (high - low) or 1.0
        # Twice the distance from the middle runs from -width to width. A count weighted by the
        # width then moves no further than the sum does, so it is measured at no extra noise.
        unit, groups = _unit(width), groups_of(self.by, domain)
        centred = _weights(attribute, low, high, centred=True).times(unit)
        summed = {**groups, self.attribute: on_labels(attribute, centred)}
        count = masked({**groups, **labels_of(attribute)}, self.where, domain)
        total = masked(summed, self.where, domain)
        return LinearForm(domain, (total, count.times(width * unit)))

    def _weight(self, facts: Facts) -> float:
        low, high = limits_of(self, facts.domain[self.attribute])
        width = (high - low) or 1.0
        return width * _unit(width)

    def span(self, facts: Facts, /) -> float:
        low, high = _ends(self, facts.domain)
        return high - low

    @property
    def width(self) -> int:
        return 2

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        attribute, wide = facts.domain[self.attribute], self._parts(radii, facts)
        if not is_coarse(attribute):
            return None
        low = high = np.full(wide.shape[1], np.nan)
        if raw is not None:
            low, high = self._bounds(self._parts(raw, facts), wide, facts)
        return farthest_means(attribute, low, high)

    def _bounds_of_values(
        self, parts: Floats, radii: Floats, facts: Facts
    ) -> tuple[Floats, Floats]:
        (least, greatest), (low, high) = (
            _ends(self, facts.domain),
            self._bounds(parts, radii, facts),
        )
        attribute = facts.domain[self.attribute]
        if not is_coarse(attribute):
            return low, high
        hidden = farthest_means(attribute, low, high)
        return np.maximum(low - hidden, least), np.minimum(high + hidden, greatest)

    def _middles(self, parts: Floats, facts: Facts) -> Floats:
        totals, counts = parts
        if not self.span(facts):
            return self._at(np.zeros(len(totals)), facts)  # the only value there is
        known = counts > 0
        ratios = totals / np.where(known, counts, 1.0)
        return np.where(known, self._at(ratios, facts), np.nan)

    def _bounds(self, parts: Floats, radii: Floats, facts: Facts) -> tuple[Floats, Floats]:
        (least, fewest), (greatest, most) = parts - radii, parts + radii
        # False for NaN, where the count says nothing.
        known = (fewest > 0) & ~np.isnan(least)
        divisors = np.where(known, fewest, 1.0), np.where(known, most, 1.0)
        ratios = np.stack([total / count for total in (least, greatest) for count in divisors])
        low, high = np.where(known, ratios.min(axis=0), -1), np.where(known, ratios.max(axis=0), 1)
        return self._at(low, facts), self._at(high, facts)

    def presumed(
        self, radii: Floats, apart: Callable[[], Floats], facts: Facts, assumptions: Assumptions, /
    ) -> Floats:
        # docs/explanation/proofs/mean.md
        low, high = _ends(self, facts.domain)
        counted = self._counted(facts, assumptions)
        (total, count), (_, alone) = radii.reshape(2, -1), apart().reshape(2, -1)
        fewest = counted * self._weight(facts) - count
        known = fewest > np.maximum(total + count, alone)
        rounded = _ROUNDED * (abs(low) + abs(high))
        radius = (total + count) / np.where(known, fewest - count, 1.0) * ((high - low) or 1.0) / 2
        bounds = np.minimum(high - low, radius * (1 + _ROUNDED) + rounded)
        return np.where(known, bounds, high - low)

    def _at(self, ratios: Floats, facts: Facts) -> Floats:
        """The numbers at relative places within the bounds, -1 being the lower, 1 the upper."""
        low, high = _ends(self, facts.domain)
        places: Floats = np.clip(ratios, -1.0, 1.0) * ((high - low) or 1.0)
        numbers: Floats = np.clip((low + high + places) / 2, low, high)
        return numbers


def _unit(width: float) -> float:
    """The power of two that makes a narrow width at least one."""
    return math.ldexp(1.0, min(max(1 - math.frexp(width)[1], 0), 1000))
