"""The classes of attrs, with a `repr` that does not raise of an object that is half made.

A constructor that refuses its arguments has such an object in its frame, and a traceback with
locals shows it, on Python 3.11 without a guard of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from attrs import Attribute, Factory, cmp_using, evolve, field, fields, has

if TYPE_CHECKING:  # type checkers know these two by their own names
    from attrs import define, frozen

__all__ = [
    "Attribute",
    "Factory",
    "cmp_using",
    "define",
    "evolve",
    "field",
    "fields",
    "frozen",
    "has",
    "shows_half_made",
]

C = TypeVar("C", bound=type)


def shows_half_made(cls: C) -> C:
    """Have the `repr` that a class defines say where an attribute is not there yet."""
    whole = vars(cls).get("__repr__")
    if whole is not None:

        @functools.wraps(whole)
        def __repr__(self: object) -> str:  # noqa: N807  # it replaces the one of the class
            try:
                return str(whole(self))
            except AttributeError:
                return f"<{type(self).__name__}, half made>"

        type.__setattr__(cls, "__repr__", __repr__)
    return cls


if not TYPE_CHECKING:

    def _made_by(make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def decorate(cls: type | None = None, /, **options: Any) -> Any:
            if cls is None:
                return lambda given: shows_half_made(make(given, **options))
            return shows_half_made(make(cls, **options))

        return decorate

    define, frozen = _made_by(attrs.define), _made_by(attrs.frozen)
