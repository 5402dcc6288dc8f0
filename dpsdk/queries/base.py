"""Queries: typed questions that lower to a form and lift raw numbers to their answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar, cast

import numpy as np
from typing_extensions import TypeVar as DefaultTypeVar

from dpsdk._arrays import Lasting
from dpsdk._checks import described, shown, to_name
from dpsdk._records import evolve, frozen
from dpsdk.accuracy import (
    Constrained,
    Constraint,
    Expectations,
    HalfWidths,
    Lifting,
    without_unit,
)
from dpsdk.codec import GROUPS, Nested
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import Facts, Form, LinearForm
from dpsdk.release import Measurement
from dpsdk.typing import Floats

__all__ = [
    "CountingQuery",
    "LinearQuery",
    "OfRawNumbers",
    "Query",
    "ScalarQuery",
    "lifting",
    "settled",
    "settles",
    "to_attribute",
    "to_flag",
    "to_normalized",
]

A_co = TypeVar("A_co", covariant=True)
F_co = DefaultTypeVar("F_co", bound=Form, covariant=True, default=LinearForm)
S_co = DefaultTypeVar("S_co", covariant=True, default=float)


class Query(Lasting, ABC, Generic[A_co, F_co]):
    """A question with an answer of type A, put to mechanisms as a form of type F.

    A subclass writes `lower` and `lift`. Both see public facts only, so a query can neither read
    data nor spend. Most signatures name the answer only: `Query[float]` lowers to a linear form.

    Releases of a query have error bounds if it is a `LinearQuery`, or a `Lifting` of its own, or if
    its mechanism bounds the answer as a whole.
    """

    __slots__ = ()

    @abstractmethod
    def lower(self, domain: Domain, /) -> F_co:
        """The question in numbers over a universe; DomainError or QueryError if there is none."""

    @abstractmethod
    def lift(self, raw: Floats, facts: Facts, /) -> A_co:
        """The answer that raw numbers stand for."""

    def check(self, facts: Facts, /) -> None:
        """Raise what makes the question impossible over such a table, before anything is paid."""


class LinearQuery(Query[A_co, F_co], Lifting[A_co]):
    """A query that lowers to a linear form, and whose errors follow from those of raw numbers.

    A subclass writes `lower` and `lift`. All other methods have defaults that fit an answer made of
    counts of rows: overwrite `scale` for another unit. Where the answer is not linear in the raw
    numbers, overwrite `numbers`, `spread` and `ends`, one number for each of the answer, with
    `bracket`, `span` and `width`; `settled` where some raw numbers tell nothing of the answer; and
    `presumed` with `presumes` where a bound is known before there is an answer.
    """

    __slots__ = ()

    def settled(self, raw: Floats, radii: Callable[[], Floats], facts: Facts, /) -> Floats:
        """The raw numbers, NaN in place of those that tell nothing of the answer.

        `radii` gives their half-widths, each at confidence 95%, to a query that wants to know.
        Whatever is made of a release, its value, its bounds and its interval, is made of these.
        Where no half-widths are proven or promised, nothing is asked here.
        """
        del radii, facts
        return raw

    @property
    def of_expectations(self) -> Expectations:
        """Linear, where no method says that the answer is more than raw numbers in another unit."""
        own: list[object] = [getattr(type(self), name) for name in _LINEAR]
        return "linear" if own == list(_LINEAR.values()) else "none"

    def footprint(self, domain: Domain, /) -> int:
        """How many weights the form will hold, known before it is built."""
        del domain
        return 0

    def scale(self, facts: Facts, /) -> float:
        """The factor from a raw number to a number of the answer."""
        del facts
        return 1.0

    def span(self, facts: Facts, /) -> float:
        """The largest difference between two possible answers, infinite where none is known."""
        rows = math.inf if facts.rows is None else facts.rows
        return rows * self.scale(facts)

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        """The answer as plain numbers in its own unit."""
        return raw * self.scale(facts)

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        """Half-widths of raw numbers in the unit of the answer; raw is NaN where unknown."""
        del raw
        return radii * self.scale(facts)

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[A_co, A_co]:
        """The answers at the lower and upper ends of all half-widths."""
        return self.lift(raw - radii, facts), self.lift(raw + radii, facts)

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        """The answers of `bracket` as plain numbers in their own unit."""
        return self.numbers(raw - radii, facts), self.numbers(raw + radii, facts)


_LINEAR: dict[str, object] = {
    name: LinearQuery.__dict__[name] for name in ("numbers", "spread", "bracket", "ends")
}
_UNSETTLED: object = LinearQuery.__dict__["settled"]


@frozen
class OfRawNumbers(LinearQuery[A_co, Form]):
    """A query that does not say what its raw numbers are worth, in the place of one that does.

    Its answers have no bound, and their numbers are the raw ones.
    """

    query: Query[A_co, Form]

    @property
    def of_expectations(self) -> Expectations:
        return "none"

    def check(self, facts: Facts, /) -> None:
        self.query.check(facts)

    def lower(self, domain: Domain, /) -> Form:
        return self.query.lower(domain)

    def lift(self, raw: Floats, facts: Facts, /) -> A_co:
        return self.query.lift(raw, facts)

    def span(self, facts: Facts, /) -> float:
        del facts
        return math.inf

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        del raw, facts
        return np.full(len(radii), math.inf)

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[A_co, A_co]:
        del raw, radii, facts
        raise without_unit(described(self.query))


def to_attribute(value: str) -> str:
    """Read an `attribute=` argument."""
    return to_name("attribute", value)


def to_flag(parameter: str, value: object) -> bool:
    """Read True or False, and nothing that merely counts as such."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(parameter, "True or False", shown(value))
    return bool(cast("object", value))


def to_normalized(value: bool) -> bool:  # noqa: FBT001 - a reader of an argument
    """Read a `normalized=` argument."""
    return value if type(value) is bool else to_flag("normalized", value)


_SHARE = (
    "a share of the rows needs their number, which is private here; "
    "ask for a count with normalized=False"
)


class CountingQuery(LinearQuery[A_co]):
    """A linear query that is a share of the rows, or, with `normalized=False`, a count of them.

    A share needs a public number of rows; over a table that keeps it private,
    `PublicSizeRequired` is raised before anything is paid.
    """

    __slots__ = ()
    normalized: bool

    def check(self, facts: Facts, /) -> None:
        if self.normalized and facts.rows is None:
            raise PublicSizeRequired(str(self), _SHARE)

    def scale(self, facts: Facts, /) -> float:
        if not self.normalized:
            return 1.0
        if facts.rows is None:
            raise PublicSizeRequired(str(self), _SHARE)
        return 1.0 / facts.rows

    def constrained(
        self, constraint: Constraint, raw: Floats, facts: Facts, /
    ) -> Constrained[A_co]:
        if constraint == "nonnegative" and self.lower(facts.domain).limits[0] >= 0:
            numbers: Floats = np.maximum(raw, 0.0)
            return Constrained(self.lift(numbers.copy(), facts), numbers)
        return super().constrained(constraint, raw, facts)


class ScalarQuery(CountingQuery[S_co]):
    """A counting query with one number for an answer, or one for each group of rows."""

    __slots__ = ()

    def lift(self, raw: Floats, facts: Facts, /) -> S_co:
        return cast("S_co", float(raw[0]) * self.scale(facts))


GROUPS["query"] = Query

QUERY = Nested[Query[object, Form]]("a query", Query)
"""A query of any kind, as a member of written forms."""

SCALAR = Nested["ScalarQuery[float]"]("a query of one number", ScalarQuery)


def lifting(query: Query[A_co, F_co]) -> Lifting[A_co] | None:
    """How errors of the answer follow from half-widths of raw numbers, if the query says so."""
    return query if isinstance(query, Lifting) else None


@lru_cache(1024)
def settles(kind: type) -> bool:
    """True if queries of this class look for numbers that tell nothing."""
    own: object = getattr(kind, "settled", _UNSETTLED)
    return own is not _UNSETTLED


def settled(query: Query[A_co, F_co], measurement: Measurement, facts: Facts) -> Measurement:
    """A measurement for a query, without the numbers that tell nothing of its answer."""
    if not settles(type(query)) or not isinstance(query, LinearQuery):
        return measurement
    raw, accuracy = measurement.values, measurement.accuracy
    if not isinstance(accuracy, HalfWidths) or not accuracy.proven:
        return measurement
    values = query.settled(raw, lambda: accuracy.radii(0.05, joint=False), facts)
    return measurement if values is raw else evolve(measurement, values=values)
