"""The forms of the queries asked last, so that asking again does not build them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter, is_
from typing import TypeAlias, TypeVar, cast

import numpy as np
from attrs import Attribute, fields, has

from dpsdk._checks import described, shown
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

_ATOMS: frozenset[type] = frozenset({int, float, bool, str, type(None)})
"""Classes of values without parts, which cannot be initialised again."""


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
        self._known: Memo[tuple[_Anatomy, object, str]] = Memo(self._KEPT, self._KEPT_BYTES)

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
        return self.described(query)[0]

    def described(self, query: Query[A, F]) -> tuple[F, str]:
        """The form of a query, and what the query calls itself. Raises as `form` does."""
        known = self._known.get(query)
        if known is not None and _unchanged(query, known[0]):
            return known[1:]  # type: ignore[return-value]  # stored below with this very query
        if not isinstance(query, Query):
            raise InvalidArgument("query", "a query", shown(query))
        query.check(self._facts)
        form, label = query.lower(self._facts.domain), described(query)
        # A class of another author may not say anything of its parts.
        with suppress(Exception):
            self._known.keep(query, (_anatomy(query), form, label), _size(form))
        return form, label


def _size(form: object) -> int:
    """How many bytes a form takes, with the arrays that it is made of."""
    if type(form) is LinearForm:
        return form.nbytes
    size, seen, waiting = 0, set[int](), [form]
    while waiting:
        value = waiting.pop()
        if type(value) in _ATOMS or type(value) is Domain or id(value) in seen:
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


_Getter: TypeAlias = Callable[[object], tuple[object, ...]]

_Anatomy: TypeAlias = list[tuple[object, _Getter, tuple[object, ...]]]
"""Values, what reads what they hold, and what they held. The first is the query, left out."""


def _anatomy(query: object) -> _Anatomy:
    """All values that a query is made of which could be initialised again, and what they hold."""
    found: _Anatomy = []
    getters: dict[type, _Getter | None] = dict.fromkeys(_ATOMS)
    waiting = [query]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple):
            waiting.extend(cast("tuple[object, ...]", one))
            continue
        kind: type[object] = type(one)
        if kind not in getters:
            getters[kind] = _getter(kind)
        getter = getters[kind]
        if getter is not None:
            held = getter(one)
            found.append((None if one is query else one, getter, held))
            if getter is not _own:
                waiting.extend(held)
    return found


def _getter(kind: type) -> _Getter | None:
    """What reads what values of a class hold, where they could be initialised again."""
    if has(kind):
        names = [field.name for field in fields(kind)]
        # Of one name alone an attrgetter makes no tuple.
        return attrgetter(*names, *names[: len(names) == 1]) if names else _nothing
    return _own if issubclass(kind, Query) else None


def _nothing(value: object) -> tuple[object, ...]:
    del value
    return ()


def _own(value: object) -> tuple[object, ...]:
    own: dict[str, object] = getattr(value, "__dict__", {})
    return tuple(own.values())


def _unchanged(query: object, anatomy: _Anatomy) -> bool:
    """Whether all these values hold the very objects that they held."""
    for value, getter, held in anatomy:
        try:
            now = getter(query if value is None else value)
        except AttributeError:
            return False
        if len(now) != len(held) or not all(map(is_, now, held)):
            return False
    return True
