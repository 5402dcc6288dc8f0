"""The forms of the queries asked last, so that asking again does not build them again."""

from __future__ import annotations

from typing import TypeVar, cast

from attrs import fields, has

from dpsdk._checks import described, shown
from dpsdk._identity_map import IdentityMap
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, Form
from dpsdk.queries.base import Query

__all__ = ["FormMemo"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

_OBJECT = 128
"""The size of an object beside the arrays in it, roughly, in bytes."""

_PLAIN = frozenset({"builtins", "datetime", "decimal", "enum", "fractions", "numpy", "dpsdk"})
"""Packages whose values stay what they are, as functions do."""


class FormMemo:
    """The forms of the package's own queries that were asked last, each kept while its query lives.

    All that are kept are at most 256 and take no more than 64 MiB. A query of another author, or
    one that holds such a part, is lowered each time: its attributes may change.
    """

    __slots__ = ("_known", "facts")

    _KEPT = 256
    _KEPT_BYTES = 2**26

    def __init__(self, facts: Facts) -> None:
        self.facts: Facts = facts
        """The public facts that the forms are made for."""
        self._known: IdentityMap[tuple[object, str]] = IdentityMap(self._KEPT, self._KEPT_BYTES)

    def form(self, query: Query[A, F]) -> F:
        """The form of a query, checked against the facts.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table.
        """
        return self.described(query)[0]

    def described(self, query: Query[A, F]) -> tuple[F, str]:
        """The form of a query, and what the query calls itself. Raises as `form` does."""
        known = self._known.get(query)
        if known is not None:
            return cast("tuple[F, str]", known)
        if not isinstance(query, Query):
            raise InvalidArgument("query", "a query", shown(query))
        query.check(self.facts)
        form, label = query.lower(self.facts.domain), described(query)
        if _is_packaged(query):
            self._known.keep(query, (form, label), _size(form))
        return form, label


def _is_packaged(value: object) -> bool:
    """True if a value and all its parts are of the package, or of classes without state."""
    if isinstance(value, tuple):
        return all(map(_is_packaged, cast("tuple[object, ...]", value)))
    kind = type(value)
    if callable(value) and not has(kind):
        return True
    if kind.__module__.partition(".")[0] not in _PLAIN:
        return False
    return not has(kind) or all(_is_packaged(getattr(value, one.name)) for one in fields(kind))


def _size(form: object) -> int:
    """The size of a form in bytes, with the arrays that it is made of."""
    nbytes: object = getattr(form, "nbytes", None)
    if isinstance(nbytes, int):
        return _OBJECT + nbytes
    kind = type(form)
    parts = [getattr(form, part.name) for part in fields(kind)] if has(kind) else []
    return _OBJECT + sum(map(_size, parts))
