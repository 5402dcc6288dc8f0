"""Conditions on records, as questions of their own and as `where=` of others."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TypeAlias, cast

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown, to_name
from dpsdk.domain import Attribute, Domain, Integer
from dpsdk.errors import InvalidArgument, QueryError, TooLarge, UnknownLabel
from dpsdk.forms import Factor, Kronecker, LinearForm, Matrix, Range
from dpsdk.forms.factors import MATRIX_LIMIT
from dpsdk.queries.base import ScalarQuery
from dpsdk.typing import Label

__all__ = ["Condition", "Conjunction", "Not", "Where", "indicator", "masked", "options", "to_where"]


_MOST_NOTS = 8
_MOST_LISTED = 12
_MOST_SORTED = 1000


def _to_wanted(value: Wanted) -> Wanted:
    if isinstance(value, set):
        return frozenset(value)
    return value


def _to_refused(value: Condition) -> Condition:
    inner: object = value
    for _ in range(_MOST_NOTS):
        if not isinstance(inner, Not):
            return value if isinstance(value, Not) else _to_wanted(value)
        inner = inner.value
    raise InvalidArgument("value", f"no more than {_MOST_NOTS} Nots deep", "a deeper one")


@frozen(repr=False)
class Not:
    """The labels of an attribute other than these: a label, or a set or range of them."""

    value: Condition = field(converter=_to_refused)

    def __repr__(self) -> str:
        return f"Not({_shown(self.value)})"


Wanted: TypeAlias = "Label | range | set[Label] | frozenset[Label]"
Condition: TypeAlias = "Wanted | Not"
"""A label, a set or range of labels, or `Not` of these."""

_Conditions: TypeAlias = tuple[tuple[str, Condition], ...]


def _shown(value: object) -> str:
    if isinstance(value, Not):
        return repr(value)
    if not isinstance(value, frozenset):
        return shown(value)
    # Each answer is on record with its query, so that a description must stay short.
    labels = cast("frozenset[object]", value)
    count = len(labels)
    if count > _MOST_SORTED:
        return f"{{{count:,} labels}}"
    listed = ", ".join(sorted(map(shown, labels))[:_MOST_LISTED])
    return f"{{{listed}}}" if count <= _MOST_LISTED else f"{{{listed}, ... ({count:,} labels)}}"


def _to_conditions(conditions: Mapping[str, Condition]) -> _Conditions:
    if not isinstance(conditions, Mapping) or not conditions:
        expected = "a mapping of attributes to labels, not empty"
        raise InvalidArgument("conditions", expected, shown(conditions))
    pairs: list[tuple[str, Condition]] = []
    for name, value in conditions.items():
        if not isinstance(name, str):
            raise InvalidArgument("conditions", "a mapping with names as keys", shown(name))
        condition = value if isinstance(value, Not) else _to_wanted(value)
        pairs.append((to_name("conditions", name), condition))
    return tuple(pairs)


@frozen(repr=False)
class Conjunction(ScalarQuery):
    """The share of rows that meet a condition on each named attribute; a float.

    A condition is a label, a set or range of labels, or `Not` of these. Over boolean attributes
    this is the class of monotone and negated conjunctions of seed 004, Example 4.1.

    >>> from dpsdk.queries import Conjunction, Not
    >>> Conjunction({"sex": "Female", "age": range(17, 30), "race": Not("White")})
    Conjunction({'sex': 'Female', 'age': range(17, 30), 'race': Not('White')})
    """

    conditions: _Conditions = field(converter=_to_conditions)
    normalized: bool = field(default=True, kw_only=True)

    def lower(self, domain: Domain, /) -> LinearForm:
        return LinearForm(domain, (Kronecker.of(domain, self.factors(domain)),))

    def factors(self, domain: Domain) -> dict[str, Factor]:
        """The indicator of each condition along its attribute."""
        return {name: indicator(domain[name], wanted) for name, wanted in self.conditions}

    def __repr__(self) -> str:
        pairs = ", ".join(f"{name!r}: {_shown(value)}" for name, value in self.conditions)
        return f"Conjunction({{{pairs}}}{'' if self.normalized else ', normalized=False'})"


Where: TypeAlias = "Conjunction | Mapping[str, Condition] | None"
"""A condition that rows must meet to count, in any query."""


def to_where(where: Where) -> Conjunction | None:
    """Read a `where=` argument."""
    if where is None or isinstance(where, Conjunction):
        return where
    if not isinstance(where, Mapping):
        raise InvalidArgument("where", "a mapping of attributes to labels", shown(where))
    return Conjunction(where)


def indicator(attribute: Attribute, wanted: Condition) -> Factor:
    """The 0/1 factor of a condition on one attribute.

    Raises
    ------
    UnknownLabel
        If the condition names a label that the attribute does not have.
    QueryError
        If it names no label at all.
    """
    if isinstance(wanted, Not):
        return _complement(indicator(attribute, wanted.value))
    if isinstance(wanted, range):
        return _range(attribute, wanted)
    if isinstance(wanted, set | frozenset):
        return _chosen(attribute, (attribute.index(label) for label in wanted))
    try:
        index = attribute.index(wanted)
    except TypeError:
        raise UnknownLabel(attribute.name, shown(wanted), "a label") from None
    return Range(attribute.size, index, index + 1)


def _range(attribute: Attribute, wanted: range) -> Factor:
    if not wanted:
        raise QueryError(f"a condition on {attribute.name!r}", f"{shown(wanted)} holds no label")
    if isinstance(attribute, Integer):
        first, last = sorted((attribute.index(wanted[0]), attribute.index(wanted[-1])))
        if abs(wanted.step) == 1:
            return Range(attribute.size, first, last + 1)
        _limit(attribute)
        return _chosen(attribute, range(first, last + 1, abs(wanted.step)))
    return _chosen(attribute, (attribute.index(label) for label in wanted))


def _chosen(attribute: Attribute, indices: Iterable[int]) -> Factor:
    chosen = sorted(set(indices))
    if not chosen:
        raise QueryError(f"a condition on {attribute.name!r}", "an empty set holds no label")
    if chosen[-1] - chosen[0] == len(chosen) - 1:
        return Range(attribute.size, chosen[0], chosen[-1] + 1)
    _limit(attribute)
    weights = np.zeros((1, attribute.size))
    weights[0, chosen] = 1.0
    return Matrix(weights)


def _limit(attribute: Attribute) -> None:
    if attribute.size > MATRIX_LIMIT:
        what, advice = f"a condition on {attribute.name!r}", "use a range of labels without gaps"
        raise TooLarge(what, attribute.size, MATRIX_LIMIT, "weights", advice)


def _complement(factor: Factor) -> Factor:
    if isinstance(factor, Range) and factor.start == 0:
        return Range(factor.size, factor.stop, factor.size)
    if isinstance(factor, Range) and factor.stop == factor.size:
        return Range(factor.size, 0, factor.start)
    return Matrix(1.0 - factor.matrix())


def masked(factors: Mapping[str, Factor], where: Conjunction | None, domain: Domain) -> Kronecker:
    """A block of factors whose functions count only the rows that meet a condition."""
    joint = dict(factors)
    for name, mask in ({} if where is None else where.factors(domain)).items():
        own = joint.get(name)
        joint[name] = mask if own is None else _product(own, mask)
    return Kronecker.of(domain, joint)


def _product(factor: Factor, mask: Factor) -> Factor:
    if isinstance(factor, Range) and isinstance(mask, Range):
        start = max(factor.start, mask.start)
        return Range(factor.size, start, max(start, min(factor.stop, mask.stop)))
    return Matrix(reduce(operator.mul, (factor.matrix(), mask.matrix())))


def options(where: Conjunction | None, *, normalized: bool) -> str:
    """The keyword arguments of a query that differ from their defaults, as text."""
    condition = "" if where is None else f", where={where!r}"
    return f"{condition}{'' if normalized else ', normalized=False'}"
