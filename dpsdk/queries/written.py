"""How labels, days and conditions are written: fields that queries share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import cast

from dpsdk._checks import cut, shown
from dpsdk.codec import (
    FLAG,
    JSON,
    NUMBER,
    Codebook,
    MapOf,
    Member,
    Plain,
    check_spread,
    object_schema,
    refused,
)
from dpsdk.errors import InvalidArgument, WireError
from dpsdk.queries.conditions import Condition, Not, Wanted
from dpsdk.queries.order import Between, Place
from dpsdk.typing import Extra, Label

__all__ = ["CONDITIONS", "END", "KNOWN", "LABEL", "NORMALIZED"]

_DAY = 'a day or a time, as {"date": "2024-02-29"} or {"time": "2024-02-29T13:00"}'
_LABEL = (
    'a text, an integer, true, false, {"bin": [low, high]}, {"date": text}, {"time": text}, '
    '{"extra": "missing"} or {"extra": "other"}'
)
_CONDITION = (
    'a label, {"any": [label, ...]}, {"range": [start, stop, step]}, {"between": [low, high]} '
    'or {"not": a condition}'
)
_DAYS = {
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "time": (
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]"
        r"(?::[0-5][0-9](?:\.[0-9]{6})?)?"
    ),
}
_EXTRAS = {extra.name.lower(): extra for extra in Extra}
_LABELLED = frozenset({"bin", "extra", *_DAYS})
"""The names in objects that stand for labels."""

NORMALIZED = Member(FLAG, True)
KNOWN: Mapping[str, object] = {"known": Member(FLAG, default=False, quiet=True)}
"""The member of the written forms of queries with this argument."""


def _only(plain: Plain) -> tuple[str, Plain]:
    """The name and the content of an object of one member; an empty name for all else."""
    return next(iter(plain.items())) if type(plain) is dict and len(plain) == 1 else ("", None)


class _Day:
    def write(self, value: date, path: str, _: Codebook, /) -> Plain:
        if type(value) is date:
            return {"date": value.isoformat()}
        if type(value) is datetime and value.tzinfo is None and not value.fold:
            whole = not (value.second or value.microsecond)
            return {"time": value.isoformat(timespec="minutes" if whole else "auto")}
        raise WireError(path, _DAY, shown(value))

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> date:
        name, text = _only(plain)
        if type(text) is not str or name not in _DAYS or not re.fullmatch(_DAYS[name], text):
            raise refused(path, _DAY, plain)
        try:
            day = date.fromisoformat(text) if name == "date" else datetime.fromisoformat(text)
        except ValueError as error:
            raise WireError(path, "a day of the calendar", shown(text)) from error
        if self.write(day, path, codebook) != plain:
            raise WireError(path, "a time without seconds that are nought", shown(text))
        return day

    def schema(self, _: Codebook, /) -> JSON:
        texts: list[Plain] = [
            object_schema({name: {"type": "string", "pattern": rf"^{pattern}(?![\s\S])"}})
            for name, pattern in _DAYS.items()
        ]
        return {"anyOf": texts}


_DAY_FIELD = _Day()


class _End:
    def write(self, value: Place, path: str, codebook: Codebook, /) -> Plain:
        if isinstance(value, date):
            return _DAY_FIELD.write(value, path, codebook)
        return NUMBER.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Place:
        return (_DAY_FIELD if type(plain) is dict else NUMBER).read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [NUMBER.schema(codebook), _DAY_FIELD.schema(codebook)]}


END = _End()
"""An end of an interval: a number, a day or a time."""


def _is_number(part: object) -> bool:
    return type(part) is int or (type(part) is float and math.isfinite(part))


class _Label:
    """A label. Integers, floats and truth values stay what they are: 1, 1.0 and true all differ."""

    def write(self, value: Label, path: str, codebook: Codebook, /) -> Plain:
        if type(value) in (str, int, bool):
            return cast("Plain", value)
        if type(value) is tuple and len(value) == 2 and all(map(_is_number, value)):
            low, high = value
            # Nought has two signs, which count as equal.
            return {"bin": [low + 0, high + 0]}
        if isinstance(value, date):
            return _DAY_FIELD.write(value, path, codebook)
        if isinstance(value, Extra):
            return {"extra": value.name.lower()}
        raise WireError(path, _LABEL, shown(value))

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Label:
        if type(plain) is str or type(plain) is int or type(plain) is bool:
            return plain
        if type(plain) is dict and not plain.keys().isdisjoint(_DAYS):
            return cast("Label", _DAY_FIELD.read(plain, path, codebook))
        name, pair = _only(plain)
        if name == "extra" and type(pair) is str and pair in _EXTRAS:
            return _EXTRAS[pair]
        fits = name == "bin" and type(pair) is list and len(pair) == 2
        if type(pair) is not list or not fits or not all(map(_is_number, pair)):
            raise refused(path, _LABEL, plain)
        return cast("tuple[float, float]", tuple(pair))

    def schema(self, codebook: Codebook, /) -> JSON:
        pair: JSON = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
        plain: JSON = {"type": ["string", "integer", "boolean"]}
        extra = object_schema({"extra": {"enum": [*_EXTRAS]}})
        return {"anyOf": [plain, object_schema({"bin": pair}), _DAY_FIELD.schema(codebook), extra]}


LABEL = _Label()
"""One label of an attribute."""


class _Condition:
    def write(self, value: Condition, path: str, codebook: Codebook, /) -> Plain:
        if isinstance(value, Not):
            return {"not": self.write(value.value, f"{path}.not", codebook)}
        if isinstance(value, range):
            return {"range": [value.start, value.stop, value.step]}
        if isinstance(value, Between):
            ends = (value.low, value.high)
            return {"between": [END.write(end, f"{path}.between", codebook) for end in ends]}
        if isinstance(value, set | frozenset | list):
            labels = [LABEL.write(label, f"{path}.any", codebook) for label in value]
            return {"any": sorted(labels, key=_order)}
        return LABEL.write(value, path, codebook)

    def read(
        self, plain: Plain, path: str, codebook: Codebook, /, *, negations: int = 2
    ) -> Condition:
        if type(plain) is not dict or not plain.keys().isdisjoint(_LABELLED):
            if type(plain) is list or plain is None or type(plain) is float:
                raise refused(path, _CONDITION, plain)
            return LABEL.read(plain, path, codebook)
        name, inside = _only(plain)
        if name == "not":
            if not negations:
                raise WireError(path, "at most two negations of one condition", "a third")
            return Not(self.read(inside, f"{path}.not", codebook, negations=negations - 1))
        if name not in _WANTED:
            raise refused(path, _CONDITION, plain)
        return _WANTED[name](inside, f"{path}.{name}", codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        codebook.definitions.setdefault("label", LABEL.schema(codebook))
        label: JSON = {"$ref": "#/$defs/label"}
        integer: JSON = {"type": "integer"}
        integers: JSON = {"type": "array", "prefixItems": [integer, integer]}
        integers |= {"minItems": 3, "maxItems": 3, "items": {**integer, "not": {"const": 0}}}
        ends: JSON = {"type": "array", "minItems": 2, "maxItems": 2, "items": END.schema(codebook)}
        plain: list[Plain] = [
            label,
            object_schema({"range": integers}),
            object_schema({"between": ends}),
            object_schema({"any": {"type": "array", "items": label, "uniqueItems": True}}),
        ]
        codebook.definitions.setdefault("wanted", {"anyOf": plain})
        wanted: JSON = {"$ref": "#/$defs/wanted"}
        negated = object_schema({"not": {"anyOf": [wanted, object_schema({"not": wanted})]}})
        return {"anyOf": [wanted, negated]}


def _range(plain: Plain, path: str, _: Codebook) -> range:
    expected = "three integers, the last of them not 0"
    if type(plain) is not list or len(plain) != 3 or {type(item) for item in plain} != {int}:
        raise refused(path, expected, plain)
    start, stop, by = cast("list[int]", plain)
    if not by:
        raise WireError(path, expected, "a step of 0")
    return range(start, stop, by)


def _between(plain: Plain, path: str, codebook: Codebook) -> Between:
    if type(plain) is not list or len(plain) != 2:
        raise refused(path, "two ends", plain)
    low, high = [END.read(end, f"{path}[{place}]", codebook) for place, end in enumerate(plain)]
    try:
        return Between(low, high)
    except InvalidArgument as error:
        raise WireError(path, "two ends, the lower first", cut(str(error), 300)) from error


def _any(plain: Plain, path: str, codebook: Codebook) -> frozenset[Label]:
    if type(plain) is not list:
        raise refused(path, "a list of labels", plain)
    labels = [LABEL.read(one, f"{path}[{at}]", codebook) for at, one in enumerate(plain)]
    check_spread(path, labels)
    wanted = frozenset(labels)
    if len(wanted) != len(labels):
        raise WireError(path, "labels that all differ", "one of them twice")
    return wanted


_WANTED: dict[str, Callable[[Plain, str, Codebook], Wanted]] = {
    "range": _range,
    "between": _between,
    "any": _any,
}


def _order(label: Plain) -> tuple[str, object]:
    """By kind, then by size or alphabet."""
    return next(iter(label.items())) if isinstance(label, dict) else (type(label).__name__, label)


class _Conditions(MapOf[Condition]):
    def write(self, value: object, path: str, codebook: Codebook, /) -> Plain:
        pairs = cast("tuple[tuple[str, Condition], ...]", value)
        return super().write(dict(pairs), path, codebook)


CONDITIONS = _Conditions(_Condition(), least=1)
"""Pairs of an attribute and what is wanted of it, as an object."""
