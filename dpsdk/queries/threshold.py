"""Thresholds and intervals of one ordered attribute."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.accuracy import Expectations
from dpsdk.codec import NAME, written
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Factor, Facts, LinearForm, Range, Ranges
from dpsdk.forms.assumptions import Assumptions, counting
from dpsdk.queries.base import to_attribute, to_flag
from dpsdk.queries.conjunction import COUNTED, ConditionedScalar, masked
from dpsdk.queries.order import Place, between, require_rising, to_high, to_low, to_place, up_to
from dpsdk.queries.written import END, KNOWN
from dpsdk.typing import Floats

__all__ = ["Interval", "Threshold"]

_ROUNDED = 1 + 2.0**-48
"""The rounding of the few operations from raw numbers to the error of a share, and more."""


def _to_threshold(value: Place) -> Place:
    return to_place("threshold", value)


def _to_known(value: bool) -> bool:  # noqa: FBT001  # a converter
    return to_flag("known", value)


@frozen(repr=False)
class _Along(ConditionedScalar):
    """The share of rows in some neighbouring cells of an attribute.

    Of all rows; or with `known` of those that have a label of the attribute, which are counted with
    it: inside, and outside on either side, so that a row moves one of these numbers.
    """

    attribute: str = field(converter=to_attribute)
    known: bool = field(default=False, converter=_to_known, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.known and not self.normalized:
            expected = "left out with normalized=False: a count is of rows with a value anyway"
            raise InvalidArgument("known", expected, "True")

    @abstractmethod
    def _cells(self, attribute: Attribute) -> Range: ...

    def compared(self) -> frozenset[str]:
        return super().compared() | {self.attribute}

    @property
    def of_expectations(self) -> Expectations:
        return "bounded" if self.known else "linear"

    def lower(self, domain: Domain, /) -> LinearForm:
        attribute = domain[self.attribute]
        cells = self._cells(attribute)
        factor: Factor = cells
        if self.known:
            beside = [(0, cells.start), (cells.stop, attribute.known)]
            taken = [(cells.start, cells.stop), *(ends for ends in beside if ends[0] < ends[1])]
            factor = Ranges(attribute.size, *np.array(taken, dtype=np.int64).T)
        return LinearForm(domain, (masked({self.attribute: factor}, self.where, domain),))

    def check(self, facts: Facts, /) -> None:
        if not self.known:
            super().check(facts)

    def lift(self, raw: Floats, facts: Facts, /) -> float:
        return float(self.numbers(raw, facts)[0])

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        if not self.known:
            return super().numbers(raw, facts)
        return np.array([_share(float(raw[0]), float(raw[1:].sum()))])

    def settled(self, raw: Floats, radii: Callable[[], Floats], facts: Facts, /) -> Floats:
        del facts
        # A number of rows that noise alone would reach says nothing, nor does a share of it.
        if not self.known or raw.sum() > radii().sum():
            return raw
        return np.full(len(raw), np.nan)

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        if not self.known:
            return super().ends(raw, radii, facts)
        if not raw.sum() > radii.sum():
            return np.array([0.0]), np.array([1.0])
        low, high = raw - radii, raw + radii
        least = _share(float(low[0]), float(high[1:].sum()))
        return np.array([least]), np.array([_share(float(high[0]), float(low[1:].sum()))])

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[float, float]:
        low, high = self.ends(raw, radii, facts)
        return float(low[0]), float(high[0])

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        if not self.known:
            return super().spread(raw, radii, facts)
        middle, (low, high) = self.numbers(raw, facts), self.ends(raw, radii, facts)
        return np.where(np.isnan(middle), 1.0, np.maximum(middle - low, high - middle))

    def span(self, facts: Facts, /) -> float:
        return 1.0 if self.known else super().span(facts)

    @property
    def width(self) -> int:
        return 3 if self.known else 1

    def totals(self, raw: Floats, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        del raw, facts
        return [(slice(None), 1.0)] if self.known and self.where is None else ()

    def presumed(
        self, radii: Floats, apart: Callable[[], Floats], facts: Facts, assumptions: Assumptions, /
    ) -> Floats:
        # docs/explanation/proofs/missing.md
        if not self.known:
            return super().presumed(radii, apart, facts, assumptions)
        counted = assumptions.counted(facts, conditional=self._conditional(facts))
        inside, beside = float(radii[0]), float(radii[1:].sum())
        fewest = counted - (inside + beside)
        if not fewest > max(inside + beside, float(apart().sum())):
            return np.array([1.0])
        bound = max(inside, beside) / (fewest - abs(inside - beside)) * _ROUNDED
        return np.array([min(bound, 1.0)])

    def presumes(self, facts: Facts, /) -> frozenset[str]:
        if not self.known:
            return super().presumes(facts)
        return counting(facts, conditional=self._conditional(facts))

    def _conditional(self, facts: Facts) -> bool:
        """True if rows of the domain may not count."""
        return self.where is not None or bool(facts.domain[self.attribute].extras)

    @property
    def _given(self) -> str:
        return f"{super()._given}{', known=True' if self.known else ''}"


def _share(inside: float, beside: float) -> float:
    """The share of one number in two, neither of them below 0; NaN of nothing."""
    part, rest = max(inside, 0.0), max(beside, 0.0)
    if math.isnan(inside) or not part + rest > 0:
        return math.nan
    return part / (part + rest)


@written("query.threshold", {"attribute": NAME, "threshold": END, **COUNTED, **KNOWN})
@frozen(repr=False)
class Threshold(_Along):
    """The share of rows at or below a threshold of one ordered attribute; a float.

    On an `Integer` attribute any finite threshold goes, also beyond its bounds. On a `Binned` one
    it must be an edge, or beyond the bounds, and the answer is the share of rows in the bins below
    that edge: bins are half-open, so rows exactly at an inner edge lie above it, and those at the
    last edge below. On a `Date` it is a day, and the answer the share of rows at or before it: any
    day where cells are days, the last day of a week or month where they are these. Along hours it
    may also be a `datetime` on the hour, with rows before that. Rows that do not meet `where` do
    not count, but stay in the denominator, and so do those whose value is missing or no label. With
    `known=True` it is the share among the rows that have a label of the attribute, and meet
    `where`: a ratio of two noisy numbers, as a `Mean`, NaN where none of these can be told from
    nothing.

    >>> from dpsdk.queries import Threshold
    >>> Threshold("age", 40)
    Threshold('age', 40)
    """

    threshold: Place = field(converter=_to_threshold)

    def _cells(self, attribute: Attribute) -> Range:
        return Range(attribute.size, 0, up_to(attribute, self.threshold, self))

    def __repr__(self) -> str:
        return f"Threshold({shown(self.attribute)}, {shown(self.threshold)}{self._given})"


@written("query.interval", {"attribute": NAME, "low": END, "high": END, **COUNTED, **KNOWN})
@frozen(repr=False)
class Interval(_Along):
    """The share of rows from `low` to `high` of one ordered attribute, both included; a float.

    On a `Binned` attribute both ends must be edges, or beyond the bounds, and the answer is the
    share of rows in the bins between them. On a `Date` they are days: any days where cells are
    days, the first day of a week or month and the last of one where they are these. Along hours
    they may also be a `datetime` on the hour, and the answer is the share of rows from the one to
    before the other. `known=True` is as in `Threshold`.

    >>> from dpsdk.queries import Interval
    >>> Interval("age", 25, 64)
    Interval('age', 25, 64)
    """

    low: Place = field(converter=to_low)
    high: Place = field(converter=to_high)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        require_rising(self.low, self.high)

    def _cells(self, attribute: Attribute) -> Range:
        return between(attribute, self.low, self.high, self)

    def __repr__(self) -> str:
        ends = f"{shown(self.low)}, {shown(self.high)}"
        return f"Interval({shown(self.attribute)}, {ends}{self._given})"
