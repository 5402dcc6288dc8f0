"""The forms of the queries asked last, so that asking again does not build them again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import is_
from typing import TypeAlias, TypeVar, cast

import numpy as np
from attrs import Attribute, fields, has

from dpsdk._checks import shown
from dpsdk._memo import Memo
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, Form, LinearForm
from dpsdk.queries.base import Query

__all__ = ["FormMemo"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

_OBJECT = 128
"""What an object takes beside the arrays in it, roughly, in bytes."""

_ATOMS: frozenset[type] = frozenset({int, float, bool, str, type(None), Domain})


class FormMemo:
    """The forms of the queries asked last, so that asking again does not build them again.

    A form is kept while its query lives, and while all that are kept are at most 256 and take no
    more than 64 MiB. A query that was initialised again since is lowered anew.
    """

    __slots__ = ("_facts", "_known")

    _KEPT = 256
    _KEPT_BYTES = 2**26

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        # By the very query: one of another author may call itself equal to any. Nor by the identity
        # of its form, since what a form costs may depend on how it was built.
        self._known: Memo[tuple[_Anatomy, object]] = Memo(self._KEPT, self._KEPT_BYTES)

    @property
    def facts(self) -> Facts:
        """The public facts that the forms are made for."""
        return self._facts

    def form(self, query: Query[A, F]) -> F:
        """The form of a query, checked against the facts.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table.
        """
        known = self._known.get(query)
        if known is not None and _unchanged(query, known[0]):
            return known[1]  # type: ignore[return-value]  # stored below with this very query
        if not isinstance(query, Query):
            raise InvalidArgument("query", "a query", shown(query))
        query.check(self._facts)
        form = query.lower(self._facts.domain)
        # A class of another author may not say anything of its parts.
        with suppress(Exception):
            self._known.keep(query, (_anatomy(query), form), _size(form))
        return form


def _size(form: object) -> int:
    """How many bytes a form takes, with the arrays that it is made of."""
    if type(form) is LinearForm:
        return form.nbytes
    size, seen, waiting = 0, set[int](), [form]
    while waiting:
        value = waiting.pop()
        if type(value) in _ATOMS or id(value) in seen:
            continue
        seen.add(id(value))
        size += _OBJECT
        if isinstance(value, np.ndarray):
            size += int(value.nbytes)
        elif isinstance(value, tuple | list):
            waiting += cast("Sequence[object]", value)
        else:
            # What attrs keeps on each of its classes; any other class counts as one object.
            parts = cast("tuple[Attribute[object], ...]", getattr(value, "__attrs_attrs__", ()))
            waiting += [getattr(value, part.name, None) for part in parts]
    return size


_Anatomy: TypeAlias = list[tuple[object, tuple[str, ...] | None, tuple[object, ...]]]
"""Values, the names of their fields, and what these hold. The first is the query's own, unnamed."""


def _anatomy(query: object) -> _Anatomy:
    """All values that a query is made of which could be initialised again, and what they hold."""
    found: _Anatomy = []
    waiting = [query]
    while waiting:
        one = waiting.pop()
        kind: type[object] = type(one)
        if isinstance(one, tuple):
            waiting.extend(cast("tuple[object, ...]", one))
        elif has(kind):
            names = tuple(field.name for field in fields(kind))
            held = _held(one, names)
            found.append((one, names, held))
            waiting.extend(held)
        elif isinstance(one, Query):
            found.append((cast("object", one), None, _held(cast("object", one), None)))
    if found and found[0][0] is query:
        found[0] = (None, *found[0][1:])
    return found


def _held(value: object, names: tuple[str, ...] | None) -> tuple[object, ...]:
    if names is None:
        own: dict[str, object] = getattr(value, "__dict__", {})
        return tuple(own.values())
    return tuple([getattr(value, name, None) for name in names])


def _unchanged(query: object, anatomy: _Anatomy) -> bool:
    """Whether all these values hold the very objects that they held."""
    for value, names, held in anatomy:
        one = query if value is None else value
        if names is None:
            now = _held(one, None)
            if len(now) != len(held) or not all(map(is_, now, held)):
                return False
            continue
        for name, before in zip(names, held, strict=True):
            if getattr(one, name, None) is not before:
                return False
    return True
