"""The forms of the queries asked last, so that asking again does not build them again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from operator import attrgetter, is_
from types import BuiltinFunctionType, FunctionType
from typing import TypeAlias, TypeVar, cast

import numpy as np
from attrs import Attribute, fields, has

from dpsdk._checks import described, shown
from dpsdk._identity_map import IdentityMap
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import ConvexForm, Facts, Form, LinearForm
from dpsdk.queries.base import Query
from dpsdk.typing import Array

__all__ = ["FormMemo"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

_OBJECT = 128
"""What an object takes beside the arrays in it, roughly, in bytes."""

_ATOMS: frozenset[type] = frozenset({int, float, bool, str, type(None)})
"""Classes of values without parts, which cannot be initialised again."""

_LASTING: frozenset[type] = frozenset(
    {bytes, complex, frozenset, range, Fraction, Decimal, Domain, date, datetime, time, timedelta}
    | {FunctionType, BuiltinFunctionType, type(...)}
)
"""Classes of other values that stay what they are, or should, as functions do."""


class FormMemo:
    """The forms of the queries asked last, so that asking again does not build them again.

    A form is kept while its query lives, and while all that are kept are at most 256 and take no
    more than 64 MiB. A query that was initialised again since is lowered anew; and one that holds
    what could be written into, such as a list, each time.
    """

    __slots__ = ("_facts", "_known", "_lent")

    _KEPT = 256
    _KEPT_BYTES = 2**26

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        # By the very query: one of another author may call itself equal to any. Nor by the identity
        # of its form, since what a form costs may depend on how it was built.
        self._known: IdentityMap[tuple[_Anatomy, object, str]] = IdentityMap(
            self._KEPT, self._KEPT_BYTES
        )
        # By the form: the class that its copy was lent to last, and that copy.
        self._lent: IdentityMap[tuple[type, object]] = IdentityMap(self._KEPT, self._KEPT_BYTES)

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

    def lent(self, form: F, mechanism: object) -> F:
        """A form to hand to a mechanism: those of a class of another author have a copy to them.

        They may write into that, and change by it what they are asked, but nothing else.
        """
        kind = type(mechanism)
        if _packaged(kind):
            module = sys.modules.get(kind.__module__)
            if getattr(module, kind.__qualname__, None) is kind:  # and does not just say so
                return form
        known = self._lent.get(form)
        if known is not None and known[0] is kind:
            return cast("F", known[1])
        mine = _own(form)
        if mine is not form:
            self._lent.keep(form, (kind, mine), _size(form))
        return mine

    def described(self, query: Query[A, F]) -> tuple[F, str]:
        """The form of a query, and what the query calls itself. Raises as `form` does."""
        known = self._known.get(query)
        if known is not None and _unchanged(query, known[0]):
            return known[1:]  # type: ignore[return-value]  # stored below with this very query
        if not isinstance(query, Query):
            raise InvalidArgument("query", "a query", shown(query))
        query.check(self._facts)
        form, label = _own(query.lower(self._facts.domain)), described(query)
        # A class of another author may not say anything of its parts, or hold what may change.
        with suppress(Exception):
            self._known.keep(query, (_anatomy(query), form, label), _size(form))
        return form, label


def _own(form: F) -> F:
    """A form of the package as another object, of which nothing was worked out yet.

    Whoever lowered to it may have had it read when it was another, or told from others.
    """
    return copy(form) if type(form) is LinearForm or type(form) is ConvexForm else form


def _size(form: object) -> int:
    """How many bytes a form takes, with the arrays that it is made of."""
    if type(form) is LinearForm or type(form) is ConvexForm:
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
    """All values that a query is made of which could be initialised again, and what they hold.

    Raises
    ------
    TypeError
        If it holds what could become another thing without being another object.
    """
    found: _Anatomy = []
    getters: dict[type, _Getter | None] = dict.fromkeys(_ATOMS)
    # What classes of the package hold is not asked whether it stays: they copy what might not.
    strange, known = [query], list[object]()
    while strange or known:
        waiting = strange or known
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
            (strange if type(getter) is partial else known).extend(held)
        elif waiting is strange and kind not in _ATOMS and not _lasting(one):
            raise TypeError(kind.__name__)
    return found


def _packaged(kind: type) -> bool:
    """Whether a class is of the package."""
    return kind.__module__.partition(".")[0] == "dpsdk"


def _lasting(value: object) -> bool:
    """Whether a value without parts that are watched stays what it is."""
    kind = type(value)
    if kind is np.ndarray:
        part: object = value
        while isinstance(part, np.ndarray):
            array = cast("Array", part)
            if array.flags.writeable or array.dtype.kind == "O":
                return False
            part = array.base
        return part is None or type(part) is bytes
    return kind in _LASTING or isinstance(value, Enum | type)


def _getter(kind: type) -> _Getter | None:
    """What reads what values of a class hold, where they could be initialised again."""
    if has(kind):
        names = [field.name for field in fields(kind)]
        if not _packaged(kind):
            return partial(_all_of, names)
        # Of one name alone an attrgetter makes no tuple.
        return attrgetter(*names, *names[: len(names) == 1]) if names else _nothing
    if not issubclass(kind, Query):
        return None
    slots = [slot for base in kind.__mro__ for slot in _slots(base)]
    return partial(_all_of, slots)


def _nothing(value: object) -> tuple[object, ...]:
    del value
    return ()


def _all_of(names: Sequence[str], value: object) -> tuple[object, ...]:
    """What a value of another author's class holds: what its class declares, and the rest."""
    own: dict[str, object] = getattr(value, "__dict__", {})
    return *[getattr(value, name, None) for name in names], *own, *own.values()


def _slots(kind: type) -> list[str]:
    slots: str | Sequence[str] = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    # A name that begins with two underscores is kept as one that nobody else has.
    mangled = [
        f"_{kind.__name__.lstrip('_')}{name}"
        if name.startswith("__") and not name.endswith("__")
        else name
        for name in names
    ]
    return [name for name in mangled if name not in {"__dict__", "__weakref__"}]


def _unchanged(query: object, anatomy: _Anatomy) -> bool:
    """Whether all these values hold the very objects that they held."""
    for value, getter, held in anatomy:
        try:
            now = getter(query if value is None else value)
        except Exception:  # noqa: BLE001  # a class of another author may raise what it likes
            return False
        if len(now) != len(held) or not all(map(is_, now, held)):
            return False
    return True
