"""True if a linear query exceeds a level: questions to the sparse vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, TypeVar

import numpy as np

from dpsdk._checks import shown, to_finite
from dpsdk._records import field, frozen
from dpsdk.accuracy import Lifting
from dpsdk.codec import NUMBER, written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Facts, GapForm
from dpsdk.forms.assumptions import Assumptions
from dpsdk.forms.gap import weight_range
from dpsdk.queries.base import SCALAR, Query, ScalarQuery
from dpsdk.typing import Floats

__all__ = ["Above", "NumericAbove"]

A_co = TypeVar("A_co", covariant=True)


def _to_query(query: ScalarQuery[float]) -> ScalarQuery[float]:
    # Of groups there are as many numbers, and a share of the known is of two.
    several = getattr(query, "by", None) is not None or getattr(query, "known", False)
    if not isinstance(query, ScalarQuery) or several:
        raise InvalidArgument(
            "query", "a query with one share or count for an answer", shown(query)
        )
    return query


def _to_level(value: float) -> float:
    return float(to_finite("level", value))


@frozen(repr=False)
class _AtLevel(Query[A_co, GapForm], Lifting[A_co]):
    """A linear query that is compared with a level."""

    _numeric: ClassVar[bool]
    query: ScalarQuery[float] = field(converter=_to_query)
    level: float = field(converter=_to_level)

    def lower(self, domain: Domain, /) -> GapForm:
        query, level = self.query, self.level
        form = query.lower(domain)
        low, high = form.blocks[0].limits()
        if form.rows != 1 or low < -1 or high > 1:
            reason = (
                "only a query that counts rows, or weighs them from -1 to 1, can be asked for a "
                f"level; this one weighs them from {low:g} to {high:g}"
            )
            raise QueryError(str(query), reason)
        share, count = (level, 0.0) if query.normalized else (0.0, level)
        low, high = weight_range(form)
        if not low <= share <= high:
            expected = f"a share from {low:g} to {high:g}, as the query is one"
            raise InvalidArgument("level", expected, shown(level))
        numbers = np.array([share]), np.array([count])
        return GapForm(form, *numbers, absolute=False, numeric=self._numeric)

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        del raw
        return self.query.coarseness(None, radii, facts)

    def values_of(self) -> frozenset[str]:
        return self.query.values_of()

    def compared(self) -> frozenset[str]:
        return self.query.compared()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.query!r}, {self.level:g})"


@written("query.above", {"query": SCALAR, "level": NUMBER})
@frozen(repr=False)
class Above(_AtLevel[bool]):
    """True if a linear query is at or above a level; a bool, from the sparse vector.

    The level is in the unit of the query: a share of the rows, or a count of them. A share is
    compared without the number of rows being known, so it may be private. Noise decides near
    the level; `release.error` tells how near, but for a share of a private number of rows.

    >>> from dpsdk.queries import Above, Threshold
    >>> Above(Threshold("age", 40), 0.5)
    Above(Threshold('age', 40), 0.5)
    """

    _numeric = False

    def lift(self, raw: Floats, facts: Facts, /) -> bool:
        del facts
        return not math.isnan(raw[0])

    def span(self, facts: Facts, /) -> float:
        if not self.query.normalized:
            return self.query.span(facts)
        low, high = weight_range(self.query.lower(facts.domain))
        return high - low

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        del raw
        if not self.query.normalized:
            return radii
        # What share a number of rows is, nobody knows where their total is private.
        return np.full(len(radii), np.inf) if facts.rows is None else radii / facts.rows

    def presumed(
        self, radii: Floats, apart: Callable[[], Floats], facts: Facts, assumptions: Assumptions, /
    ) -> Floats:
        if self.query.normalized and facts.rows is None and assumptions.rows is not None:
            return radii / assumptions.rows
        return super().presumed(radii, apart, facts, assumptions)

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[bool, bool]:
        # Near the level either answer may be the true one.
        del raw, radii, facts
        return False, True


@written("query.numeric-above", {"query": SCALAR, "level": NUMBER})
@frozen(repr=False)
class NumericAbove(_AtLevel["float | None"]):
    """The answer to a linear query if it is at or above a level, else None.

    As `Above`, with a number on top: what the NumericSparse of Dwork and Roth (2014, section 3.6)
    answers. A share needs a public number of rows.

    >>> from dpsdk.queries import NumericAbove, Threshold
    >>> NumericAbove(Threshold("age", 40), 0.5)
    NumericAbove(Threshold('age', 40), 0.5)
    """

    _numeric = True

    def check(self, facts: Facts, /) -> None:
        self.query.check(facts)

    def lift(self, raw: Floats, facts: Facts, /) -> float | None:
        gap = float(raw[0])
        return None if math.isnan(gap) else self.level + gap * self.query.scale(facts)

    def span(self, facts: Facts, /) -> float:
        return self.query.span(facts)

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        del raw
        return radii * self.query.scale(facts)

    def bracket(
        self, raw: Floats, radii: Floats, facts: Facts, /
    ) -> tuple[float | None, float | None]:
        return self.lift(raw - radii, facts), self.lift(raw + radii, facts)
