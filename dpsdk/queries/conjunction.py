"""Conditions on records, as questions of their own and as `where=` of others."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias, TypeVar, cast

import numpy as np
from typing_extensions import TypeVar as DefaultTypeVar

from dpsdk._checks import cut, shown, to_name
from dpsdk._records import field, frozen
from dpsdk.codec import JSON, Codebook, Member, OrNone, Plain, written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge, WireError
from dpsdk.forms import (
    Cuts,
    Factor,
    Facts,
    Kronecker,
    LinearForm,
    Ramp,
    Range,
    Ranges,
    Squares,
    Weights,
    Within,
)
from dpsdk.forms.factors import MATRIX_LIMIT
from dpsdk.queries.base import CountingQuery, LinearQuery, ScalarQuery, to_normalized
from dpsdk.queries.conditions import Condition, Not, described, indicator, to_condition
from dpsdk.queries.written import CONDITIONS, NORMALIZED
from dpsdk.typing import Floats

__all__ = [
    "COUNTED",
    "RESTRICTED",
    "Conditioned",
    "ConditionedCounting",
    "ConditionedScalar",
    "Conjunction",
    "Located",
    "Where",
    "masked",
    "options",
    "to_where",
]

A_co = TypeVar("A_co", covariant=True)
S_co = DefaultTypeVar("S_co", covariant=True, default=float)

_Conditions: TypeAlias = tuple[tuple[str, Condition], ...]

_SHOWN = 8
"""So many conditions are written out in a description."""

_LONGEST = 1000
"""Longer descriptions are cut: they go into the history of a session with every answer."""


def _to_conditions(conditions: Mapping[str, Condition]) -> _Conditions:
    if not isinstance(conditions, Mapping) or not conditions:
        expected = "a mapping of attributes to labels, not empty"
        raise InvalidArgument("conditions", expected, shown(conditions))
    pairs: list[tuple[str, Condition]] = []
    for name, value in conditions.items():
        if not isinstance(name, str):
            raise InvalidArgument("conditions", "a mapping with names as keys", shown(name))
        named = to_name("conditions", name)
        pairs.append((named, to_condition(f"the condition on {shown(named)}", value)))
    return tuple(pairs)


def _key(conditions: _Conditions) -> object:
    """A key that tells conjunctions apart: not by the order of conditions, and 1 from True."""
    return frozenset((name, _exactly(value)) for name, value in conditions)


def _exactly(value: object) -> object:
    if isinstance(value, Not):
        return Not, _exactly(value.value)
    if isinstance(value, range):
        return range, value.start, value.stop, value.step
    if isinstance(value, frozenset):
        return frozenset(map(_exactly, cast("frozenset[object]", value)))
    if isinstance(value, tuple):
        return tuple(map(_exactly, cast("tuple[object, ...]", value)))
    return type(value), value


@written("query.conjunction", {"conditions": CONDITIONS, "normalized": NORMALIZED})
@frozen(repr=False)
class Conjunction(ScalarQuery):
    """The share of rows that meet a condition on each named attribute; a float.

    A condition is a label, a set or range of labels, `Between` two of them, or `Not` of these. A
    range stands for those labels of the attribute that lie in it, so it may reach beyond its
    bounds. Over boolean attributes this is the class of monotone and negated conjunctions of Dwork
    and Roth (2014, section 4.1).

    >>> from dpsdk.queries import Conjunction, Not
    >>> Conjunction({"sex": "Female", "age": range(17, 30), "race": Not("White")})
    Conjunction({'sex': 'Female', 'age': range(17, 30), 'race': Not('White')})
    """

    conditions: _Conditions = field(converter=_to_conditions, eq=_key)
    normalized: bool = field(default=True, converter=to_normalized, kw_only=True)

    def lower(self, domain: Domain, /) -> LinearForm:
        return LinearForm(domain, (masked({}, self, domain),))

    def factors(self, domain: Domain) -> dict[str, Factor]:
        """The indicator of each condition along its attribute."""
        return {name: indicator(domain[name], wanted) for name, wanted in self.conditions}

    def compared(self) -> frozenset[str]:
        return frozenset([name for name, _ in self.conditions])

    @cached_property
    def _described(self) -> str:
        first = [f"{shown(name)}: {described(value)}" for name, value in self.conditions[:_SHOWN]]
        more = len(self.conditions) - len(first)
        text = ", ".join([*first, f"... {more:,} more"] if more else first)
        return f"{{{text if len(text) <= _LONGEST else f'{text[: _LONGEST - 3]}...'}}}"

    def __repr__(self) -> str:
        given = "" if self.normalized else ", normalized=False"
        return f"Conjunction({self._described}{given})"


class _WhereField:
    def write(self, value: Conjunction, path: str, codebook: Codebook, /) -> Plain:
        if type(value) is not Conjunction:
            raise WireError(path, "a conjunction of the package", type(value).__name__)
        return CONDITIONS.write(value.conditions, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Conjunction:
        conditions = CONDITIONS.read(plain, path, codebook)
        try:
            return Conjunction(conditions)
        except InvalidArgument as error:
            raise WireError(path, "conditions on attributes", cut(str(error), 300)) from error

    def schema(self, codebook: Codebook, /) -> JSON:
        return CONDITIONS.schema(codebook)


RESTRICTED: Mapping[str, object] = {"where": Member(OrNone(_WhereField()), None)}
COUNTED: Mapping[str, object] = {**RESTRICTED, "normalized": NORMALIZED}
"""Members of the written forms of queries with these arguments."""

Where: TypeAlias = "Conjunction | Mapping[str, Condition] | None"
"""A condition that rows must meet to count, in any query."""


def to_where(where: Where) -> Conjunction | None:
    """Read a `where=` argument."""
    if where is None:
        return None
    if isinstance(where, Conjunction):
        # Shares and counts are of the query alone; of a condition there are no two readings.
        if type(where) is Conjunction and not where.normalized:
            return Conjunction(dict(where.conditions))
        return where
    if not isinstance(where, Mapping):
        raise InvalidArgument("where", "a mapping of attributes to labels", shown(where))
    return Conjunction(where)


@frozen(repr=False)
class Conditioned(LinearQuery[A_co]):
    """A linear query over the rows that meet a condition, if one is given."""

    where: Conjunction | None = field(default=None, converter=to_where, kw_only=True)

    def compared(self) -> frozenset[str]:
        return frozenset() if self.where is None else self.where.compared()


@frozen(repr=False)
class Located(Conditioned[A_co]):
    """A query with one place within bounds for an answer, which is not linear in raw numbers."""

    @abstractmethod
    def _middle(self, raw: Floats, facts: Facts) -> float:
        """The answer as a number, NaN where nothing is known of it."""

    @abstractmethod
    def _bounds(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[float, float]:
        """The answers at the lower and upper ends as numbers."""

    def _bounds_of_values(self, raw: Floats, radii: Floats, facts: Facts) -> tuple[float, float]:
        """The same, about the values that cells stand for."""
        return self._bounds(raw, radii, facts)

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        return np.array([self._middle(raw, facts)])

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        low, high = self._bounds_of_values(raw, radii, facts)
        return np.array([low]), np.array([high])

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        middle = self._middle(raw, facts)
        if math.isnan(middle):
            return np.array([self.span(facts)])
        low, high = self._bounds(raw, radii, facts)
        return np.array([max(middle - low, high - middle)])


@frozen(repr=False)
class ConditionedCounting(Conditioned[A_co], CountingQuery[A_co]):
    """A share of the rows, or a count of them, of which only those count that meet a condition."""

    normalized: bool = field(default=True, converter=to_normalized, kw_only=True)

    @property
    def _given(self) -> str:
        """The keyword arguments that differ from their defaults, as text."""
        return options(self.where, normalized=self.normalized)


@frozen(repr=False)
class ConditionedScalar(ConditionedCounting[S_co], ScalarQuery[S_co]):
    """The same with one number for an answer, or one for each group of rows."""


def masked(factors: Mapping[str, Factor], where: Conjunction | None, domain: Domain) -> Kronecker:
    """A block of factors whose functions count only the rows that meet a condition."""
    joint = dict(factors)
    for name, wanted in () if where is None else where.conditions:
        mask, own = indicator(domain[name], wanted), joint.get(name)
        joint[name] = mask if own is None else _product(name, own, mask)
    return Kronecker.of(domain, joint)


def _product(name: str, factor: Factor, mask: Factor) -> Factor:
    own, other = factor.span, mask.span
    if own is not None and other is not None:
        start = max(own.start, other.start)
        return Range(factor.size, start, max(start, min(own.stop, other.stop)))
    inner, first = (factor.inner, factor.first) if isinstance(factor, Within) else (factor, 0)
    if other is not None and isinstance(inner, Ramp | Squares):
        start, stop = max(first, other.start), min(first + inner.size, other.stop)
        if start >= stop:
            none = np.zeros(factor.rows, dtype=np.int64)
            return Ranges(factor.size, none, none)
        return Within(inner.part(start - first, stop - first), factor.size, start).simplified()
    if other is not None and isinstance(inner, Cuts):
        ends = [np.clip(own, other.start, other.stop) for own in factor.ranges or ()]
        return Ranges(factor.size, *ends)
    needed = factor.rows * factor.size
    if needed > MATRIX_LIMIT:
        what, advice = f"a condition on {name!r} in a query along it", "ask without the condition"
        raise TooLarge(what, needed, MATRIX_LIMIT, "weights", advice)
    return Weights(factor.matrix() * mask.matrix())


def options(where: Conjunction | None, *, normalized: bool) -> str:
    """The keyword arguments of a query that differ from their defaults, as text."""
    condition = "" if where is None else f", where={where!r}"
    return f"{condition}{'' if normalized else ', normalized=False'}"
