"""Quantiles and the median of one ordered attribute, read off all its thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown, to_name, to_probability
from dpsdk.domain import Attribute, Binned, Domain, Integer
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Facts, LinearForm, Prefix
from dpsdk.queries.conjunction import Conditioned, Where, masked, options, to_where
from dpsdk.typing import Array, Floats, Real

__all__ = ["Median", "Quantile", "isotonic"]

_ALL = 2**24
"""No query asks for more numbers, so that an answer that rests on all of its own has this width."""

_HUGE = 2.0**900
"""Sums of smaller numbers are finite."""

_SHORT = 64
"""Fractions of more bits are shown by the decimal that is next to them."""

_SLACK = 1e-9
"""What floats may round off beside the number of rows."""


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
class Quantile(Conditioned[float]):
    """The least value of an ordered attribute that at least a share q of the rows is at or below.

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
        An `Integer` or `Binned` attribute.
    q
        The share, strictly between 0 and 1.

    Raises
    ------
    QueryError
        When the query is asked, before anything is paid: if the attribute has no order.
    TooLarge
        Likewise, if it has more than 2^24 values.

    >>> from dpsdk.queries import Quantile
    >>> Quantile("hours", 0.9)
    Quantile('hours', 0.9)
    """

    attribute: str = field(converter=_to_attribute)
    q: Fraction = field(converter=_to_q)

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        _value(attribute, 0, str(self))
        factors = {self.attribute: Prefix(attribute.size)}
        return LinearForm(domain, (masked(factors, self.where, domain),))

    def settled(self, raw: Floats, radii: Callable[[], Floats], facts: Facts, /) -> Floats:
        if self._rows(facts) is not None:
            return raw
        radius = float(radii()[-1])
        # Of what has no bound at all nobody can say that it is nothing.
        return raw if radius == math.inf or float(raw[-1]) > radius else np.full(len(raw), np.nan)

    def lift(self, raw: Floats, facts: Facts, /) -> float:
        excess, _ = self._excess(raw, np.zeros(len(raw)), facts)
        if not self._known(raw, facts):
            return math.nan
        slack = _SLACK * max(1.0, abs(float(raw[-1])))
        return self._at(_first(isotonic(excess) >= -slack), facts)

    @property
    def width(self) -> int:
        return _ALL

    def span(self, facts: Facts, /) -> float:
        return self._at(-1, facts) - self._at(0, facts)

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        return np.array([self.lift(raw, facts)])

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        if not self._known(raw, facts):
            return np.array([self.span(facts)])
        low, high = self.bracket(raw, radii, facts)
        middle = self.lift(raw, facts)
        return np.array([max(middle - low, high - middle)])

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[float, float]:
        excess, radius = self._excess(raw, radii, facts)
        counted = self._rows(facts) is not None or float(raw[-1] - radii[-1]) > 0
        if not (counted and self._known(raw, facts)):
            return self._at(0, facts), self._at(-1, facts)
        slack = _SLACK * max(1.0, abs(float(raw[-1])))
        # Below the first no count can reach the share; at the second one must have.
        low, high = excess + radius >= -slack, excess - radius >= slack
        last = _first(high)
        least, most = self._at(_first(low), facts), self._at(last, facts)
        if float(excess[last:].min()) < -slack:
            # Counts above that are low may have drawn the answer up, beyond where it must be.
            most = max(most, self.lift(raw, facts))
        return least, most

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        low, high = self.bracket(raw, radii, facts)
        return np.array([low]), np.array([high])

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
        return _value(attribute, place % attribute.size, str(self))

    def __repr__(self) -> str:
        given = options(self.where, normalized=True)
        return f"Quantile({shown(self.attribute)}, {_written(self.q)}{given})"


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


def _first(reached: np.ndarray) -> int:
    """The first place that is reached, the last place if none is."""
    return int(reached.argmax()) if reached.any() else -1


def _value(attribute: Attribute, place: int, query: str) -> float:
    """What rows in a cell are at or below."""
    if isinstance(attribute, Integer):
        return float(attribute.low + place)
    if isinstance(attribute, Binned):
        return float(attribute.edges[place + 1])
    raise QueryError(query, f"attribute {attribute.name!r} has no order")
