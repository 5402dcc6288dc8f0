"""Quantiles and the median of one ordered attribute, read off all its thresholds or chosen."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import date
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dpsdk._checks import shown, to_probability
from dpsdk._records import field, frozen
from dpsdk.accuracy import only_in_ranks
from dpsdk.codec import AMOUNT, NAME, written
from dpsdk.domain import Attribute, Binned, Date, Domain, Integer, Number
from dpsdk.errors import QueryError, TooLarge
from dpsdk.forms import Crossing, Facts, LinearForm, Prefix, UnwrittenForm
from dpsdk.forms.assumptions import Assumptions, counting
from dpsdk.forms.crossing import chosen_place
from dpsdk.forms.linear import ROW_LIMIT
from dpsdk.queries.base import to_attribute
from dpsdk.queries.coarse import farthest, is_coarse
from dpsdk.queries.conjunction import RESTRICTED, Located, Where, masked, options, to_where
from dpsdk.queries.monotone import isotonic
from dpsdk.queries.order import on_labels
from dpsdk.typing import Bools, Floats, Real

__all__ = ["DateQuantile", "Median", "Quantile"]

A_co = TypeVar("A_co", covariant=True)

_ALL = 2**24
"""No query asks for more numbers, so that an answer that rests on all of its own has this width."""

_SHORT = 64
"""Fractions of more bits are shown by the decimal that is next to them."""

_SLACK = 1e-9
"""The rounding of floats beside the number of rows."""

_ROUNDED = 2.0**-48
"""The rounding of the few operations from raw numbers to the error of a quantile, and more."""


def _to_q(value: Real) -> Fraction:
    return to_probability("q", value)


@frozen(repr=False)
class _Crossing(Located[A_co]):
    """The place where the counts of rows up to each value first reach a share of all rows."""

    attribute: str = field(converter=to_attribute)
    q: Fraction = field(converter=_to_q)

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        self._value(attribute, 0)
        crossing = Crossing(domain, self.attribute, self.q, masked({}, self.where, domain))
        if attribute.known > ROW_LIMIT:
            return UnwrittenForm(crossing)
        factors = {self.attribute: on_labels(attribute, Prefix(attribute.known))}
        try:
            block = masked(factors, self.where, domain)
        except TooLarge:
            # A condition on the attribute itself, all of whose weights would be written out.
            return UnwrittenForm(crossing)
        return LinearForm(domain, (block,), crossing=crossing)

    @abstractmethod
    def _value(self, attribute: Attribute, place: int) -> float:
        """The value, as a number, that rows in a cell are at or below."""

    @abstractmethod
    def _answer(self, attribute: Attribute, place: int) -> A_co:
        """The value that rows in a cell are at or below."""

    def settled(self, raw: Floats, radii: Callable[[], Floats], facts: Facts, /) -> Floats:
        if self._rows(facts) is not None or self._chosen(raw, facts):
            return raw
        radius = float(radii()[-1])
        # Of what has no bound at all nobody can say that it is nothing.
        return raw if radius == math.inf or float(raw[-1]) > radius else np.full(len(raw), np.nan)

    @property
    def width(self) -> int:
        return _ALL

    def span(self, facts: Facts, /) -> float:
        below, above = self._hidden(facts, 0)
        return self._at(-1, facts) - self._at(0, facts) + below + above

    def values_of(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def totals(self, raw: Floats, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        if self.where is not None or self._chosen(raw, facts):
            return ()
        return [(slice(-1, None), 1.0)]

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        attribute = facts.domain[self.attribute]
        if not is_coarse(attribute) or (raw is not None and self._chosen(raw, facts)):
            return None
        place = None if raw is None else self._within(raw, radii, facts)[0]
        return np.array([max(self._hidden(facts, place))])

    def _hidden(self, facts: Facts, place: int | None) -> tuple[float, float]:
        """How far the values in a cell reach below its number and above; in any, without one."""
        attribute = facts.domain[self.attribute]
        half = farthest(attribute)
        if not isinstance(attribute, Binned):
            return half, half
        edges = attribute.edges
        return 2 * half if place is None else edges[place + 1] - edges[place], 0.0

    def _bounds_of_values(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[float, float]:
        low, high = self._within(raw, radii, facts)
        below, above = self._hidden(facts, low)
        return self._at(low, facts) - below, self._at(high, facts) + above

    def _middle(self, raw: Floats, facts: Facts) -> float:
        place = self._found(raw, facts)
        return math.nan if place is None else self._at(place, facts)

    def _bounds(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[float, float]:
        if self._chosen(raw, facts):
            return -math.inf, math.inf
        low, high = self._within(raw, radii, facts)
        return self._at(low, facts), self._at(high, facts)

    def presumed(
        self, radii: Floats, apart: Callable[[], Floats], facts: Facts, assumptions: Assumptions, /
    ) -> Floats:
        # docs/explanation/proofs/mean.md
        span, chosen = self.span(facts), self._chosen(radii, facts)
        density, rows, last = assumptions.density, self._rows(facts), float(radii[-1])
        counted = assumptions.counted(facts, conditional=self._conditional(facts))
        if density is None or rows == 0:
            return np.array([span])
        if not chosen and rows is None and not counted - last > max(0.0, float(apart()[-1])):
            return np.array([span])
        wide = radii if chosen else self._excess(np.zeros(len(radii)), radii, facts)[1]
        most = float(wide.max()) + 2 * _SLACK * max(1.0, facts.row_limit + last)
        away = most / float(density) * (1 + _ROUNDED)
        attribute = facts.domain[self.attribute]
        if isinstance(attribute, Binned):
            away += float(np.diff(attribute.edges).max(initial=0.0)) * (1 + _ROUNDED)
        elif away < math.inf:
            step = float(attribute.step) if isinstance(attribute, Number) else 1.0
            away = step * float(math.ceil(away / step)) * (1 + _ROUNDED * (step != 1))
        return np.array([min(span, away)])

    def presumes(self, facts: Facts, /) -> frozenset[str]:
        if self._rows(facts) is not None:
            return frozenset({"density"})
        return counting(facts, conditional=self._conditional(facts)) | {"density"}

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[A_co, A_co]:
        attribute = facts.domain[self.attribute]
        low, high = self._within(raw, radii, facts)
        return self._answer(attribute, low), self._answer(attribute, high)

    def _chosen(self, raw: Floats, facts: Facts) -> bool:
        """True if raw numbers are a value that was chosen, and no counts of rows up to each."""
        return len(raw) != facts.domain[self.attribute].known

    def _found(self, raw: Floats, facts: Facts) -> int | None:
        """The cell in which the share is reached; None where nothing is known of it."""
        rows = self._rows(facts)
        place = chosen_place(raw, facts.domain[self.attribute].known)
        if place is not None:
            return None if rows == 0 else place
        if np.isnan(raw).any() or not (float(raw[-1]) if rows is None else rows) > 0:
            return None
        excess, _ = self._excess(raw, np.zeros(len(raw)), facts)
        slack = _SLACK * max(1.0, abs(float(raw[-1])))
        return _first(isotonic(excess) >= -slack)

    def _within(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[int, int]:
        """The first and the last cell in which the share may be reached."""
        if self._chosen(raw, facts):
            raise only_in_ranks(str(self))
        excess, radius = self._excess(raw, radii, facts)
        counted = self._rows(facts) is not None or float(raw[-1] - radii[-1]) > 0
        found = self._found(raw, facts)
        if not counted or found is None:
            return 0, len(raw) - 1
        slack = _SLACK * max(1.0, abs(float(raw[-1])))
        # Below the first no count can reach the share; at the second one must have.
        low, high = excess + radius >= -slack, excess - radius >= slack
        last = _first(high)
        # Counts above that are low may have drawn the answer up, beyond where it must be.
        drawn = float(excess[last:].min()) < -slack
        return _first(low), max(last, found) if drawn else last

    def _rows(self, facts: Facts) -> int | None:
        """How many rows count, where that is public."""
        return None if self._conditional(facts) or facts.outside else facts.rows

    def _conditional(self, facts: Facts) -> bool:
        """True if rows of the domain may not count."""
        return self.where is not None or bool(facts.domain[self.attribute].extras)

    def _excess(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[Floats, Floats]:
        """By how much the counts exceed the share of all, and the radii of that."""
        rows, share = self._rows(facts), float(self.q)
        if rows is not None:
            # Counts are whole, so this is reached where the share is.
            return raw - float(math.ceil(self.q * rows)), radii
        radius: Floats = radii + share * radii[-1]
        radius[-1] = (1 - share) * radii[-1]
        return raw - share * raw[-1], radius

    def _at(self, place: int, facts: Facts) -> float:
        attribute = facts.domain[self.attribute]
        return self._value(attribute, place % attribute.known)

    def __repr__(self) -> str:
        given = options(self.where, normalized=True)
        return f"{type(self).__name__}({shown(self.attribute)}, {_written(self.q)}{given})"


@written("query.quantile", {"attribute": NAME, "q": AMOUNT, **RESTRICTED})
@frozen(repr=False)
class Quantile(_Crossing[float]):
    """The least value of a numeric attribute that at least a share q of the rows is at or below.

    A float: a value of an `Integer` or a `Number`, the upper edge of a bin of a `Binned` attribute.
    Rows count that lie in the domain, have a label of the attribute, and meet `where`.

    `ExponentialQuantile` chooses one of the values, however many there are; its bound is of the
    rank, in rows. All else reads it off the noisy counts of rows up to each value, after these were
    made to rise by least squares, which costs nothing; so ask it of what answers thresholds well,
    such as `Tree`, `SquareRoot`, `NoisyHistogram` or `OnlinePMW`. Then its bounds are the values at
    which the noisy counts, each within its own bound, may cross the share; they are as wide as the
    values are sparse there. Where the number of rows that count cannot be told from zero, with a
    confidence of 95%, the answer is NaN.

    Parameters
    ----------
    attribute
        An `Integer`, `Number` or `Binned` attribute; `DateQuantile` is for a `Date`. Of more than
        2^24 values counts are not written out.
    q
        The share, strictly between 0 and 1.

    >>> from dpsdk.queries import Quantile
    >>> Quantile("hours", 0.9)
    Quantile('hours', 0.9)
    """

    def _value(self, attribute: Attribute, place: int) -> float:
        if isinstance(attribute, Integer):
            return float(attribute.low + place)
        if isinstance(attribute, Number):
            return float(attribute.point(place))
        if isinstance(attribute, Binned):
            return float(attribute.edges[place + 1])
        dates = isinstance(attribute, Date)
        why = "is of dates; ask DateQuantile" if dates else "has no order"
        raise QueryError(str(self), f"attribute {attribute.name!r} {why}")

    def _answer(self, attribute: Attribute, place: int) -> float:
        return self._value(attribute, place)

    def lift(self, raw: Floats, facts: Facts, /) -> float:
        return self._middle(raw, facts)

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[float, float]:
        return self._bounds_of_values(raw, radii, facts)


@written("query.date-quantile", {"attribute": NAME, "q": AMOUNT, **RESTRICTED})
@frozen(repr=False)
class DateQuantile(_Crossing[date | None]):
    """The first label of a `Date` that at least a share q of the rows is at or before; or None.

    As `Quantile`, with a label for an answer: a day, or the first day of a week or month, or the
    `datetime` at which an hour begins. Its error bound is a number of such units, and its answer
    None where that of a `Quantile` is NaN. One half gives the median.

    >>> from dpsdk.queries import DateQuantile
    >>> DateQuantile("visited", 0.5)
    DateQuantile('visited', 0.5)
    """

    def _value(self, attribute: Attribute, place: int) -> float:
        if isinstance(attribute, Date):
            return float(place)
        raise QueryError(str(self), f"attribute {attribute.name!r} is not of dates; ask Quantile")

    def _answer(self, attribute: Attribute, place: int) -> date | None:
        label = attribute.label(place % attribute.known)
        return label if isinstance(label, date) else None

    def lift(self, raw: Floats, facts: Facts, /) -> date | None:
        place = self._found(raw, facts)
        return None if place is None else self._answer(facts.domain[self.attribute], place)


@written("query.median", {"attribute": NAME, **RESTRICTED})
@frozen(init=False, repr=False)
class Median(Quantile):
    """The `Quantile` at one half: the least value that half of the rows are at or below.

    >>> from dpsdk.queries import Median
    >>> Median("age", where={"sex": "Female"})
    Median('age', where=Conjunction({'sex': 'Female'}))
    """

    def __init__(self, attribute: str, *, where: Where = None) -> None:
        object.__setattr__(self, "attribute", to_attribute(attribute))
        object.__setattr__(self, "q", Fraction(1, 2))
        object.__setattr__(self, "where", to_where(where))

    def __repr__(self) -> str:
        return f"Median({shown(self.attribute)}{options(self.where, normalized=True)})"


def _written(share: Fraction) -> str:
    """A share as it can be given again: the shortest decimal if that is exact, else a fraction."""
    text = repr(float(share))
    exact = Fraction(text) == share
    return text if exact or share.denominator.bit_length() > _SHORT else repr(share)


def _first(reached: Bools) -> int:
    """The first place that is reached, the last place if none is."""
    return int(reached.argmax()) if reached.any() else len(reached) - 1
