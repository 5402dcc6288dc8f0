"""Digests by which dpsdk 0.1 told questions apart, so that its answers are given again. Frozen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from enum import Enum
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from attrs import fields, has

from dpsdk.domain import Domain
from dpsdk.errors import DpsdkError
from dpsdk.forms import Facts, Form, LinearForm
from dpsdk.typing import Array

if TYPE_CHECKING:
    from dpsdk.forms import ConvexForm

__all__ = ["question_of"]

_Words: TypeAlias = "str | list[_Words]"


def question_of(
    name: str, facts: Facts, parts: tuple[str, ...], using: object, form: Form
) -> str | None:
    """The digest of 0.1 of a question to a part of a table; None where it had none."""
    try:
        place = _digest([name, _words(facts), list(parts)])
        return _digest([place, _words(using), _numbers(form)])
    except (DpsdkError, TypeError, AttributeError):
        return None


def _digest(words: _Words) -> str:
    return sha256(json.dumps(words).encode("ascii")).hexdigest()


def _numbers(form: Form) -> _Words:
    if isinstance(form, LinearForm):
        return ["linear", form.identity.hex()]
    convex = cast("ConvexForm", form)
    blocks: list[_Words] = [[list(one.names), _words(one.values)] for one in convex.coordinates]
    label: _Words = [convex.label, _words(convex.targets)]
    return ["convex", *blocks, label, _words(convex.loss), _words(convex.over)]


def _words(value: object) -> _Words:
    kind = type(value)
    if kind is float:
        return f"float {cast('float', value).hex()}"
    if value is None or kind in (str, int, bool, Fraction, range) or isinstance(value, date):
        return f"{kind.__name__} {value}"
    if isinstance(value, tuple | list):
        return [kind.__name__, *map(_words, cast("Sequence[object]", value))]
    if isinstance(value, frozenset | set):
        return [kind.__name__, *sorted(map(_words, cast("frozenset[object]", value)), key=str)]
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        plain = array.astype(array.dtype.newbyteorder("<"))
        digest = sha256(plain.tobytes()).hexdigest()
        return ["array", plain.dtype.str, str(plain.shape), digest]
    if isinstance(value, Domain):
        text = value.to_json().encode("utf-8", "surrogatepass")
        return ["domain", sha256(text).hexdigest()]
    name = f"dpsdk.{kind.__qualname__}"
    if isinstance(value, Enum):
        return [name, value.name]
    if not has(kind) or kind.__module__.partition(".")[0] != "dpsdk":
        raise TypeError(name)
    # Fields that are quiet came later.
    known = [one for one in fields(kind) if not one.metadata.get("quiet")]
    own = [one.name for one in known if one.init and one.eq is not False]
    return [name, *[[part, _words(getattr(value, part))] for part in own]]
