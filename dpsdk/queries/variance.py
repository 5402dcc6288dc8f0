"""How far the values of a numeric attribute are spread: the variance and the standard deviation."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import overload

import numpy as np
from typing_extensions import TypeVar

from dpsdk._records import frozen
from dpsdk.codec import NAME, written
from dpsdk.domain import Attribute, Binned, Domain
from dpsdk.forms import Factor, Facts, LinearForm, Squares, Weights
from dpsdk.forms.assumptions import Assumptions
from dpsdk.forms.squares import squares
from dpsdk.queries.coarse import farthest
from dpsdk.queries.conjunction import RESTRICTED, Where, masked
from dpsdk.queries.groups import (
    GROUPED,
    By,
    Estimated,
    GroupTable,
    groups_of,
)
from dpsdk.queries.order import middles_of, on_labels
from dpsdk.queries.totals import check_sums, limits_of
from dpsdk.typing import Floats

__all__ = ["StdDev", "Variance"]

G_co = TypeVar("G_co", covariant=True, default=float)

_BOUND = 2**14
"""Places go from minus so much to as much: their squares, over 2^25 rows, stay below 2^53."""

_ROUNDED = 1 + 2.0**-40
"""The rounding of the few operations from raw numbers to an error, and more."""

_SLACK = 2.0**-44
"""The same of a variance of numbers between -1 and 1."""


@frozen
class _Places:
    """Public places for the values of an attribute, on which their squares are added up."""

    factor: Factor
    bound: int
    unit: float
    """How far apart values are whose places differ by one."""
    away: float
    """How far a value may be from that of its place."""

    @classmethod
    def of(cls, query: object, attribute: Attribute) -> _Places:
        low, high = limits_of(query, attribute)
        size, last, between = attribute.known, attribute.known - 1, farthest(attribute)
        if isinstance(attribute, Binned):
            scaled = (2 * middles_of(attribute) - (low + high)) / (high - low) * _BOUND
            places = np.clip(np.floor(scaled + 0.5), -_BOUND, _BOUND).astype(np.int64)
            unit = (high - low) / 2 / _BOUND
            factor = Weights(squares(places, _BOUND))
            return cls(factor, _BOUND, unit, (between + unit) * _ROUNDED)
        span = attribute.bounds[1] - attribute.bounds[0]
        step = span / last if last else 1.0
        # As coarse as it has to be, and even, so that squares have a middle among the integers.
        turns = 1 if last % 4 == 0 else 2 if last % 2 == 0 else 4
        bound = max(turns * last // 2, 2)
        if bound <= _BOUND:
            return cls(Squares(size, bound, turns), bound, step / turns, between)
        width = -(-size // (2 * _BOUND + 1))
        groups = -(-size // width)
        bound = groups // 4 * 2 + 2 if groups % 4 != 1 else groups // 2
        away = (between + step * (width - 1) / 2) * _ROUNDED
        return cls(Squares(size, bound, width=width), bound, step * width, away)


@frozen(repr=False)
class _Spread(Estimated[G_co]):
    """What follows from K² Σu, K² Σ(u² − ½) and ¾ K² n, where the values are K · unit · u."""

    def check(self, facts: Facts, /) -> None:
        places = _Places.of(self, facts.domain[self.attribute])
        check_sums(float(places.bound) ** 2, self, self.attribute, facts)

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        factor = on_labels(attribute, _Places.of(self, attribute).factor)
        factors = {**groups_of(self.by, domain), self.attribute: factor}
        # One block, since of one product more is known of how far a row moves it.
        return LinearForm(domain, [masked(factors, self.where, domain)])

    @abstractmethod
    def _of_variance(self, variances: Floats) -> Floats:
        """The answers, of variances of the values."""

    @abstractmethod
    def _moved(self, numbers: Floats, away: float) -> Floats:
        """The largest answers where no value moves farther; the least where `away` is negative."""

    @property
    def width(self) -> int:
        return 3

    def span(self, facts: Facts, /) -> float:
        low, high = facts.domain[self.attribute].bounds
        return float(self._of_variance(np.array([(high - low) ** 2 / 4]))[0])

    def _blocks(self, numbers: Floats, facts: Facts) -> Floats:
        """Raw numbers by groups ahead of the attribute in the domain, function, other groups."""
        place = facts.domain.position
        before = [name for name in self.by or () if place(name) < place(self.attribute)]
        groups = math.prod([facts.domain[name].size for name in before])
        return numbers.reshape(groups, 3, -1)

    def _weight(self, facts: Facts) -> float:
        return 0.75 * _Places.of(self, facts.domain[self.attribute]).bound ** 2

    def _scaled(self, variances: Floats, facts: Facts) -> Floats:
        """The answers, of variances of u."""
        low, high = facts.domain[self.attribute].bounds
        scaled = variances * self._unit(facts)
        return self._of_variance(np.clip(scaled, 0.0, (high - low) ** 2 / 4))

    def _middles(self, parts: Floats, facts: Facts) -> Floats:
        if not self.span(facts):
            return np.zeros(len(parts[0]))  # the values are all alike
        known = parts[2] > 0
        divisors = np.where(known, parts[2], 1.0)
        found = self._scaled(_variance(parts[0], parts[1], divisors), facts)
        return np.where(known, found, np.nan)

    def _bounds(self, parts: Floats, radii: Floats, facts: Facts) -> tuple[Floats, Floats]:
        (low, first, fewest), (high, last, most) = parts - radii, parts + radii
        known = (fewest > 0) & ~np.isnan(low)  # False for NaN, where the count says nothing
        few, many = np.where(known, fewest, 1.0), np.where(known, most, 1.0)
        nearest = np.where((low < 0) & (high > 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
        # Between the ends of the count the largest may lie, never the least: proof note.
        rising = last > 0
        peak = 1.5 * nearest**2 / np.where(rising, last, 1.0)
        between = np.where(rising, np.clip(peak, few, many), few)
        largest = np.max([_variance(nearest, last, c) for c in (few, many, between)], axis=0)
        farthest_sum = np.maximum(np.abs(low), np.abs(high))
        least = np.min([_variance(farthest_sum, first, c) for c in (few, many)], axis=0)
        return (
            self._scaled(np.where(known, least - _SLACK, 0.0), facts),
            self._scaled(np.where(known, largest + _SLACK, np.inf), facts),
        )

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        away, wide = _Places.of(self, facts.domain[self.attribute]).away, self._parts(radii, facts)
        if not away:
            return None
        high = np.full(wide.shape[1], self.span(facts))
        if raw is not None:
            high = self._bounds(self._parts(raw, facts), wide, facts)[1]
        hidden: Floats = self._moved(high, away) - high
        return hidden

    def _bounds_of_values(
        self, parts: Floats, radii: Floats, facts: Facts
    ) -> tuple[Floats, Floats]:
        away = _Places.of(self, facts.domain[self.attribute]).away
        low, high = self._bounds(parts, radii, facts)
        if not away:
            return low, high
        return self._moved(low, -away), np.minimum(self._moved(high, away), self.span(facts))

    def presumed(
        self, radii: Floats, apart: Callable[[], Floats], facts: Facts, assumptions: Assumptions, /
    ) -> Floats:
        # docs/explanation/proofs/variance.md
        span = self.span(facts)
        (first, second, count), alone = self._parts(radii, facts), self._parts(apart(), facts)[2]
        least = self._counted(facts, assumptions) * self._weight(facts) - count
        known = least > np.maximum(count, alone)
        least, fewest = np.where(known, least, 1.0), np.where(known, least - count, 1.0)
        largest = 1 + 0.75 * (4 / 3 * count + first) / least
        place = (0.75 * first + largest * count) / fewest
        square = (0.75 * second + (0.5 + 0.75 * (2 / 3 * count + second) / least) * count) / fewest
        moved = (square + place * (2 * largest + place)) * _ROUNDED
        stated = self._of_variance((moved + 2 * _SLACK) * self._unit(facts))
        return np.where(known & (2 * stated < span), stated, span)

    def _unit(self, facts: Facts) -> float:
        """The variance of the values where u has a variance of one."""
        places = _Places.of(self, facts.domain[self.attribute])
        return (places.bound * places.unit) ** 2


def _variance(first: Floats, second: Floats, count: Floats) -> Floats:
    """The variance of u, from the three numbers."""
    mean = 0.75 * first / count
    return np.asarray(0.5 + 0.75 * second / count - mean * mean)


@written("query.variance", {"attribute": NAME, **RESTRICTED, **GROUPED})
@frozen(init=False, repr=False)
class Variance(_Spread[G_co]):
    """The variance of a numeric attribute over the rows in the domain that meet a condition.

    A float from nought to a quarter of the square of the width of the attribute: the mean square of
    the distances of the values from their mean. It follows from three noisy numbers, a sum, a sum
    of squares and a count, that are measured together and under Gaussian noise cost what a `Mean`
    costs. Rows count, values are taken and groups are told apart as with `Mean`, and so is NaN.

    Values are put on 2^15 public places at the most, so that their squares add up exactly; errors
    say how far values may be from their places. At most 2^25 rows are taken, or more where places
    are few.

    >>> from dpsdk.queries import Variance
    >>> Variance("hours", where={"sex": "Female"})
    Variance('hours', where=Conjunction({'sex': 'Female'}))
    """

    @overload
    def __init__(
        self: Variance[float], attribute: str, *, by: None = None, where: Where = None
    ) -> None: ...
    @overload
    def __init__(
        self: Variance[GroupTable], attribute: str, *, by: By, where: Where = None
    ) -> None: ...
    def __init__(self, attribute: str, *, by: By | None = None, where: Where = None) -> None:
        self._read(attribute, by, where)

    def _of_variance(self, variances: Floats) -> Floats:
        return variances

    def _moved(self, numbers: Floats, away: float) -> Floats:
        rounded = _ROUNDED if away > 0 else 1 / _ROUNDED
        return np.asarray(np.maximum(np.sqrt(numbers) + away, 0.0) ** 2 * rounded)


@written("query.std-dev", {"attribute": NAME, **RESTRICTED, **GROUPED})
@frozen(init=False, repr=False)
class StdDev(_Spread[G_co]):
    """The standard deviation of a numeric attribute: the root of its `Variance`, at the same cost.

    >>> from dpsdk.queries import StdDev
    >>> StdDev("hours", by="education")
    StdDev('hours', by='education')
    """

    @overload
    def __init__(
        self: StdDev[float], attribute: str, *, by: None = None, where: Where = None
    ) -> None: ...
    @overload
    def __init__(
        self: StdDev[GroupTable], attribute: str, *, by: By, where: Where = None
    ) -> None: ...
    def __init__(self, attribute: str, *, by: By | None = None, where: Where = None) -> None:
        self._read(attribute, by, where)

    def _of_variance(self, variances: Floats) -> Floats:
        return np.sqrt(variances)

    def _moved(self, numbers: Floats, away: float) -> Floats:
        return np.maximum(numbers + away, 0.0)
