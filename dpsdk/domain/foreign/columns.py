"""Columns as others describe them, and the attributes and the domain that follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

from dpsdk._checks import cut, require, shown, to_positive
from dpsdk._records import frozen
from dpsdk.domain.attributes import Attribute, Boolean, Categorical, Integer
from dpsdk.domain.dates import Date
from dpsdk.domain.number import Number
from dpsdk.domain.product import Domain
from dpsdk.errors import DomainError, InvalidArgument, WireError
from dpsdk.typing import Real

__all__ = ["Described", "Ends", "Kind", "Lacking", "Words", "attribute_of", "domain_of"]

Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "day"]
Ends: TypeAlias = tuple[Fraction | date | None, Fraction | date | None]
Words: TypeAlias = tuple[Sequence[str], Sequence[str]]

_LACKS: dict[Kind, str] = {"text": "a list of labels", "day": "a first and a last day"}
_MOST_NAMED = 12


class Lacking(Exception):
    """A description of a column that says too little for an attribute; its text says of what."""


@frozen
class Described:
    """A column that others describe.

    `make` returns its attribute, for the step that the caller gives if any. Of a column that
    `identifies` persons none is made. `null` are texts that stand for a missing value in it.
    """

    name: str
    make: Callable[[Fraction | None], Attribute]
    identifies: bool = False
    null: tuple[str, ...] = ()


def attribute_of(
    name: str,
    kind: Kind,
    *,
    missing: bool,
    labels: Sequence[str | int] | None = None,
    other: bool = False,
    ends: Ends = (None, None),
    step: Fraction | None = None,
    words: Words = ((), ()),
) -> Attribute:
    """Return the attribute that a description says, or raise `Lacking`."""
    low, high = ends
    bounded = low is not None and high is not None
    if kind == "boolean":
        # Without those that it reads at any rate.
        own = [[one for one in texts if one.lower() not in ("true", "false")] for texts in words]
        true, false = own if any(own) else (["1"], ["0"])
        return Boolean(name, true=true, false=false, missing=missing)
    if labels is not None and (kind == "text" or not bounded):
        return Categorical(name, labels, other=other, missing=missing)
    if not bounded or kind == "text":
        raise Lacking(_LACKS.get(kind, "two bounds"))
    if isinstance(low, date) and isinstance(high, date):
        return Date(name, low, high, missing=missing)
    least, most = cast("Fraction", low), cast("Fraction", high)
    if kind == "integer" and step is None:
        return Integer(name, math.ceil(least), math.floor(most), missing=missing)
    if step is None:
        raise Lacking("a step (step=)")
    # The bounds of a number are on its grid; none of the values is left out.
    return Number(name, least // step * step, -(-most // step) * step, step, missing=missing)


def domain_of(
    source: str,
    columns: Sequence[Described],
    attributes: Iterable[Attribute],
    step: Mapping[str, Real] = MappingProxyType({}),
    *,
    leave_out: Iterable[str] | bool,
) -> Domain:
    """Return the domain of columns, with what the caller says of them in place of `source`.

    Raises
    ------
    DomainError
        If a description is malformed, or says too little of a column.
    InvalidArgument
        If the caller names a column that there is not.
    """
    require(not isinstance(leave_out, str), "leave_out", "a list of names, or True", leave_out)
    require(isinstance(step, Mapping), "step", "a mapping of names to steps", step)
    for one in (attributes := list(attributes)):
        require(isinstance(one, Attribute), "attributes", "attributes of a domain", one)
    own = {one.name: one for one in attributes}
    steps = {name: to_positive(f"step[{shown(name)}]", value) for name, value in step.items()}
    left = list[str]() if isinstance(leave_out, bool) else list(leave_out)
    given = [*(("attributes", one.name) for one in attributes), *(("step", one) for one in steps)]
    free = {column.name for column in columns}
    for parameter, name in [*given, *(("leave_out", one) for one in left)]:
        require(name in free, parameter, f"names of columns of {source}, each once", name)
        free.remove(name)
    made: list[Attribute] = []
    lacking: list[str] = []
    null: dict[str, None] = {}
    for column in columns:
        attribute = own.get(column.name)
        if column.name in left or (attribute is None and column.identifies):
            require(column.name not in steps, "step", "given for a number", "an identifier")
            continue
        try:
            attribute = attribute or column.make(steps.get(column.name))
            is_number = column.name not in steps or isinstance(attribute, Number)
            require(is_number, "step", "given for a number", attribute.kind)
        except Lacking as error:
            lacking.append(f"{shown(column.name)} lacks {error}")
        except (WireError, InvalidArgument) as error:
            message = f"{source}: column {shown(column.name)}: {cut(str(error), 500)}"
            raise DomainError(message) from None
        else:
            made.append(attribute)
            null |= dict.fromkeys(column.null)
    if lacking and leave_out is not True:
        more = ", ..." if len(lacking) > _MOST_NAMED else ""
        message = (
            f"{source} says too little: {', '.join(lacking[:_MOST_NAMED])}{more}; declare the "
            "columns in attributes=, or name them in leave_out="
        )
        raise DomainError(message)
    try:
        return Domain(*made, missing_texts=null)
    except InvalidArgument as error:
        message = f"{source}: {error}"
        raise DomainError(message) from None
