"""Quantiles and the median of one ordered attribute, read off all its thresholds."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import date
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dpsdk._checks import shown, to_name, to_probability
from dpsdk._records import field, frozen
from dpsdk.codec import AMOUNT, NAME, written
from dpsdk.domain import Attribute, Binned, Date, Domain, Integer
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Facts, LinearForm, Prefix
from dpsdk.forms.assumptions import Assumptions, counting
from dpsdk.queries.conjunction import RESTRICTED, Conditioned, Where, masked, options, to_where
from dpsdk.typing import Array, Bools, Floats, Real

__all__ = ["DateQuantile", "Median", "Quantile", "isotonic"]

A_co = TypeVar("A_co", covariant=True)

_ALL = 2**24
"""No query asks for more numbers, so that an answer that rests on all of its own has this width."""

_HUGE = 2.0**900
"""Sums of smaller numbers are finite."""

_SHORT = 64
"""Fractions of more bits are shown by the decimal that is next to them."""

_SLACK = 1e-9
"""The rounding of floats beside the number of rows."""

_ROUNDED = 2.0**-48
"""The rounding of the few operations from raw numbers to the error of a quantile, and more."""


def isotonic(values: Array | Sequence[float]) -> Floats:
    """The nearest numbers, by the sum of squares, that do not fall (Ayer and others 1955).

    Free, for noisy thresholds in their order. No number is farther from a truth that does not fall
    than the farthest of `values` is, so `release.error` of all thresholds holds for the result.

    Parameters
    ----------
    values
        Shape (m,): finite numbers.

    Returns
    -------
    Floats
        Shape (m,).

    Raises
    ------
    InvalidArgument
        If they are not such numbers.

    >>> from dpsdk.queries import isotonic
    >>> isotonic([0.1, 0.3, 0.2, 0.9]).tolist()
    [0.1, 0.25, 0.25, 0.9]
    """
    try:
        # NumPy would drop the imaginary parts of an array, with no more than a warning.
        array = None if np.iscomplexobj(values) else np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None or array.ndim != 1 or not np.isfinite(array).all():
        raise InvalidArgument("values", "a row of finite numbers", shown(values))
    # Sums of numbers near the largest float would be infinite.
    unit = 2.0**64 if np.abs(array).max(initial=0.0) > _HUGE else 1.0
    array /= unit
    means: list[float] = []
    sizes: list[int] = []
    for value in array.tolist():
        mean, size = value, 1
        while means and means[-1] > mean:
            more = sizes.pop()
            mean = (means.pop() * more + mean * size) / (more + size)
            size += more
        means.append(mean)
        sizes.append(size)
    result: Floats = np.repeat(np.array(means, dtype=np.float64), sizes) * unit
    return result


def _to_attribute(value: str) -> str:
    return to_name("attribute", value)


def _to_q(value: Real) -> Fraction:
    return to_probability("q", value)


@frozen(repr=False)
class _Crossing(Conditioned[A_co]):
    """The place where the counts of rows up to each value first reach a share of all rows."""

    attribute: str = field(converter=_to_attribute)
    q: Fraction = field(converter=_to_q)

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        self._value(attribute, 0)
        factors = {self.attribute: Prefix(attribute.size)}
        return LinearForm(domain, (masked(factors, self.where, domain),))

    @abstractmethod
    def _value(self, attribute: Attribute, place: int) -> float:
        """The value, as a number, that rows in a cell are at or below."""

    @abstractmethod
    def _answer(self, attribute: Attribute, place: int) -> A_co:
        """The value that rows in a cell are at or below."""

    def settled(self, raw: Floats, radii: Callable[[], Floats], facts: Facts, /) -> Floats:
        if self._rows(facts) is not None:
            return raw
        radius = float(radii()[-1])
        # Of what has no bound at all nobody can say that it is nothing.
        return raw if radius == math.inf or float(raw[-1]) > radius else np.full(len(raw), np.nan)

    @property
    def width(self) -> int:
        return _ALL

    def span(self, facts: Facts, /) -> float:
        return self._at(-1, facts) - self._at(0, facts)

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        place = self._found(raw, facts)
        return np.array([math.nan if place is None else self._at(place, facts)])

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        found = self._found(raw, facts)
        if found is None:
            return np.array([self.span(facts)])
        low, high = (self._at(place, facts) for place in self._within(raw, radii, facts))
        middle = self._at(found, facts)
        return np.array([max(middle - low, high - middle)])

    def presumed(
        self,
        radii: Floats,
        apart: Callable[[], Floats],
        facts: Facts,
        assumptions: Assumptions,
        /,
    ) -> Floats:
        # docs/explanation/proofs/mean.md
        span = np.array([self.span(facts)])
        density, rows, last = assumptions.density, self._rows(facts), float(radii[-1])
        counted = assumptions.counted(facts, conditional=self.where is not None)
        if density is None or rows == 0:
            return span
        if rows is None and not counted - last > max(0.0, float(apart()[-1])):
            return span
        wide = self._excess(np.zeros(len(radii)), radii, facts)[1]
        most = float(wide.max()) + 2 * _SLACK * max(1.0, facts.row_limit + last)
        away = most / float(density) * (1 + _ROUNDED)
        attribute = facts.domain[self.attribute]
        if isinstance(attribute, Binned):
            away += float(np.diff(attribute.edges).max(initial=0.0)) * (1 + _ROUNDED)
        elif away < math.inf:
            away = float(math.ceil(away))
        result: Floats = np.minimum(span, away)
        return result

    def presumes(self, facts: Facts, /) -> frozenset[str]:
        if self._rows(facts) is not None:
            return frozenset({"density"})
        return counting(facts, conditional=self.where is not None) | {"density"}

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[A_co, A_co]:
        attribute = facts.domain[self.attribute]
        low, high = self._within(raw, radii, facts)
        return self._answer(attribute, low), self._answer(attribute, high)

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        low, high = self._within(raw, radii, facts)
        return np.array([self._at(low, facts)]), np.array([self._at(high, facts)])

    def _found(self, raw: Floats, facts: Facts) -> int | None:
        """The cell in which the share is reached; None where nothing is known of it."""
        excess, _ = self._excess(raw, np.zeros(len(raw)), facts)
        if not self._known(raw, facts):
            return None
        slack = _SLACK * max(1.0, abs(float(raw[-1])))
        return _first(isotonic(excess) >= -slack)

    def _within(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[int, int]:
        """The first and the last cell in which the share may be reached."""
        excess, radius = self._excess(raw, radii, facts)
        counted = self._rows(facts) is not None or float(raw[-1] - radii[-1]) > 0
        found = self._found(raw, facts)
        if not counted or found is None:
            return 0, len(raw) - 1
        slack = _SLACK * max(1.0, abs(float(raw[-1])))
        # Below the first no count can reach the share; at the second one must have.
        low, high = excess + radius >= -slack, excess - radius >= slack
        last = _first(high)
        least, most = _first(low), last
        if float(excess[last:].min()) < -slack:
            # Counts above that are low may have drawn the answer up, beyond where it must be.
            most = max(most, found)
        return least, most

    def _rows(self, facts: Facts) -> int | None:
        """How many rows count, where that is public."""
        return facts.rows if self.where is None and not facts.outside else None

    def _known(self, raw: Floats, facts: Facts) -> bool:
        rows = self._rows(facts)
        return not np.isnan(raw).any() and (float(raw[-1]) if rows is None else rows) > 0

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
        return self._value(attribute, place % attribute.size)

    def __repr__(self) -> str:
        given = options(self.where, normalized=True)
        return f"{type(self).__name__}({shown(self.attribute)}, {_written(self.q)}{given})"


@written("query.quantile", {"attribute": NAME, "q": AMOUNT, **RESTRICTED})
@frozen(repr=False)
class Quantile(_Crossing[float]):
    """The least value of a numeric attribute that at least a share q of the rows is at or below.

    A float: a value of an `Integer` attribute, the upper edge of a bin of a `Binned` one. Rows
    count that lie in the domain and meet `where`. It is read off the noisy counts of rows up to
    each value, after these were made to rise by least squares, which costs nothing; so ask it of
    what answers thresholds well, such as `Tree`, `SquareRoot`, `NoisyHistogram` or `OnlinePMW`.

    Its bounds are the values at which the noisy counts, each within its own bound, may cross the
    share; they are as wide as the values are sparse there. Where the number of rows that count
    cannot be told from zero, with a confidence of 95%, the answer is NaN.

    Parameters
    ----------
    attribute
        An `Integer` or `Binned` attribute; `DateQuantile` is for a `Date`.
    q
        The share, strictly between 0 and 1.

    Raises
    ------
    QueryError
        When the query is asked, before anything is paid: if the attribute has no order, or is of
        dates.
    TooLarge
        Likewise, if it has more than 2^24 values.

    >>> from dpsdk.queries import Quantile
    >>> Quantile("hours", 0.9)
    Quantile('hours', 0.9)
    """

    def _value(self, attribute: Attribute, place: int) -> float:
        if isinstance(attribute, Integer):
            return float(attribute.low + place)
        if isinstance(attribute, Binned):
            return float(attribute.edges[place + 1])
        dates = isinstance(attribute, Date)
        why = "is of dates; ask DateQuantile" if dates else "has no order"
        raise QueryError(str(self), f"attribute {attribute.name!r} {why}")

    def _answer(self, attribute: Attribute, place: int) -> float:
        return self._value(attribute, place)

    def lift(self, raw: Floats, facts: Facts, /) -> float:
        return float(self.numbers(raw, facts)[0])


@written("query.date-quantile", {"attribute": NAME, "q": AMOUNT, **RESTRICTED})
@frozen(repr=False)
class DateQuantile(_Crossing[date | None]):
    """The first label of a `Date` that at least a share q of the rows is at or before; or None.

    As `Quantile`, with a label for an answer: a day, or the first day of a week or month, or the
    `datetime` at which an hour begins. Its error bound is a number of such units. Where the number
    of rows that count cannot be told from zero, with a confidence of 95%, the answer is None.

    Parameters
    ----------
    attribute
        A `Date` attribute.
    q
        The share, strictly between 0 and 1; one half is the median.

    Raises
    ------
    QueryError
        When the query is asked, before anything is paid: if the attribute is not of dates.
    TooLarge
        Likewise, if it has more than 2^24 labels.

    >>> from dpsdk.queries import DateQuantile
    >>> DateQuantile("visited", 0.5)
    DateQuantile('visited', 0.5)
    """

    def _value(self, attribute: Attribute, place: int) -> float:
        if isinstance(attribute, Date):
            return float(place)
        raise QueryError(str(self), f"attribute {attribute.name!r} is not of dates; ask Quantile")

    def _answer(self, attribute: Attribute, place: int) -> date | None:
        label = attribute.label(place % attribute.size)
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
        object.__setattr__(self, "attribute", _to_attribute(attribute))
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
