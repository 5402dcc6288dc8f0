"""One quantile by the exponential mechanism, over however many values."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Self

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.accuracy import SIZE, HalfWidths, Standing
from dpsdk.codec import AMOUNT, NATURAL, POSITIVE, written
from dpsdk.errors import QueryError
from dpsdk.forms import Crossing, Facts, LinearForm
from dpsdk.kernel import Kernel, Select, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import check_linear, to_epsilon
from dpsdk.mechanisms.base import OneShot, built_in
from dpsdk.release import Cost, Measurement, Quote
from dpsdk.typing import Floats

__all__ = ["ExponentialQuantile", "RankAccuracy"]


@written(
    "accuracy.rank",
    {"scale": SIZE, "options": POSITIVE, "most": SIZE, "entries": NATURAL},
    public=False,
)
@frozen
class RankAccuracy(HalfWidths):
    """By how many rows the rank of a value that was chosen for a quantile may be off.

    Of M rows that count, at least qM less so many are at or below it, and at most qM and so many
    are below it. How far the value itself is from the quantile is not known. M may be private:
    where it is smaller than that number, as of a condition that few rows meet, any value will do.

    Parameters
    ----------
    scale
        How fast the chance falls, in rows.
    options
        How many values there were to choose from.
    most
        By how many rows the worst value is off, if all rows of the table count.
    entries
        How many raw numbers tell the value.
    """

    scale: float
    options: int
    most: float
    entries: int  # pyright: ignore[reportIncompatibleMethodOverride]  # a field here
    kind: str = field(init=False, default="exact law of the exponential mechanism, of ranks")
    standing: Standing = field(init=False, default="proven")

    def ranks(self, beta: float, /) -> float | None:
        """The number of rows, exceeded with probability beta at the most; None where it is all."""
        rows = self.scale * math.log(self.options / beta)
        return rows if rows < self.most else None

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """The same, whatever the raw numbers; infinite where that is all rows."""
        del joint
        rows = self.ranks(beta)
        return np.full(self.entries, math.inf if rows is None else rows)

    def radius_of_sum(self, beta: float, part: slice) -> float:
        """Infinite, as digits of a value add up to nothing."""
        del beta, part
        return math.inf

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound."""
        del beta
        return "its rank may be off by as many rows as there are", "spend more on it"


@built_in("exponential-quantile", {"epsilon": AMOUNT})
@frozen(cache_hash=True, repr=False)
class ExponentialQuantile(OneShot[LinearForm]):
    """One quantile, chosen among all values of its attribute by the exponential mechanism.

    It answers `Quantile`, `Median` and `DateQuantile`, each with one run of its own, of any ordered
    attribute: of a `Number` of up to 2^62 values as well, and exactly where many rows have the
    value of the quantile. An answer is `epsilon`-DP, of bounded range (McSherry and Talwar 2007;
    Dong, Durfee and Rogers 2020), which composes as (ε²/8)-zCDP.

    What is proven of the answer is its rank. With probability 1 - beta, of M rows that count at
    least qM - r are at or below it and at most qM + r below it, r = (2Δ/ε)·ln(values/beta), where Δ
    is the rows of a person, times max(q, 1 - q) where rows come and go. `release.bound().ranks` is
    r, in rows, and `release.error()` raises `NoBound`, since how far apart the values of such ranks
    lie depends on the table. Where several values are quantiles, as all between two middle rows,
    each may come out. Where no row counts every value is as likely as any other; that this is so is
    not told, unless the number of rows that count is public.

    Several quantiles of one attribute, and thresholds with them, are cheaper by a `Tree`, of an
    attribute of up to 2^22 values. How long an answer takes tells how many different values the
    rows have, as the threat model says.

    Parameters
    ----------
    epsilon
        The cost of each answer.

    Raises
    ------
    InvalidArgument
        If `epsilon` is not from 1e-100 to 1e100. When asked, before anything is paid: if the
        denominator of q times the number of rows is 2^60 or more.
    TooLarge
        When asked, before anything is paid: if the table may have more than 2^25 different values.
    QueryError
        When asked for anything but a quantile, or for that of rows without a value.

    >>> from dpsdk.mechanisms import ExponentialQuantile
    >>> ExponentialQuantile(epsilon="0.1")
    ExponentialQuantile(epsilon=0.1)
    """

    reusable = True
    page = "explanation/proofs/select-points.md"

    epsilon: Fraction = field(converter=to_epsilon)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        crossing = _crossing_of(form)
        pricing = Select(crossing, self.epsilon).price(terms)
        accuracy = self._accuracy(crossing, terms)
        return Quote(Cost(), Cost((pricing.guarantee,)), accuracy)

    def open(self, kernel: Kernel, /) -> Self:
        del kernel  # nothing is paid to open
        return self

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement[RankAccuracy]:
        """The digits of the chosen value; see `Crossing.raw`."""
        crossing = _crossing_of(form)
        accuracy = self._accuracy(crossing, kernel.terms)
        return Measurement(crossing.raw(kernel.select(crossing, self.epsilon)), accuracy)

    def _accuracy(self, crossing: Crossing, terms: Terms) -> RankAccuracy:
        pricing = Select(crossing, self.epsilon).price(terms).accuracy
        facts: Facts = facts_of(terms)
        most = float(max(crossing.q, 1 - crossing.q)) * facts.row_limit
        return RankAccuracy(pricing.scale, pricing.options, most, crossing.width)

    def __repr__(self) -> str:
        return f"ExponentialQuantile(epsilon={float(self.epsilon):g})"


def _crossing_of(form: LinearForm) -> Crossing:
    """What a form asks of a value; refused where it asks for numbers."""
    check_linear(form, "ExponentialQuantile")
    if form.crossing is None:
        reason = "ExponentialQuantile answers Quantile, Median and DateQuantile, each by itself"
        raise QueryError("", reason)
    crossing = form.crossing
    own = dict(zip(crossing.where.names, crossing.where.factors, strict=True))
    mask = own.get(crossing.attribute)
    if mask is not None and mask.span is not None and mask.span.start >= crossing.cells:
        reason = f"rows without a value of {crossing.attribute!r} have no quantile of it"
        raise QueryError("", reason)
    return crossing
