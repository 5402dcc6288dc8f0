"""Conditions on attributes, and the labels in them."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import cast

from dpsdk._checks import shown
from dpsdk.codec import JSON, NUMBER, Codebook, MapOf, Plain, check_spread, refused, step
from dpsdk.errors import InvalidArgument, WireError
from dpsdk.queries import Between, Conjunction, Not
from dpsdk.queries.conditions import Condition
from dpsdk.typing import Label

__all__ = ["CONDITIONS", "END", "WHERE"]

_LABEL = 'a text, an integer, true, false, {"bin": [low, high]}, {"date": text} or {"time": text}'
_CONDITION = (
    'a label, {"any": [label, ...]}, {"range": [start, stop, step]}, {"between": [low, high]} '
    'or {"not": a condition}'
)


class _Day:
    """A day, or a time on the clock of a wall, as short as it can be written."""

    def write(self, value: date, path: str, codebook: Codebook, /) -> Plain:
        del codebook
        if type(value) is date:
            return {"date": value.isoformat()}
        if type(value) is datetime and value.tzinfo is None and not value.fold:
            whole = not (value.second or value.microsecond)
            return {"time": value.isoformat(timespec="minutes" if whole else "auto")}
        raise WireError(path, _DAY, shown(value))

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> date:
        if type(plain) is not dict or len(plain) != 1:
            raise refused(path, _DAY, plain)
        ((name, text),) = plain.items()
        pattern = _DAYS.get(name)
        if pattern is None or type(text) is not str or not re.fullmatch(pattern, text):
            raise refused(path, _DAY, plain)
        try:
            found = date.fromisoformat(text) if name == "date" else datetime.fromisoformat(text)
        except ValueError as error:
            raise WireError(path, "a day of the calendar", shown(text)) from error
        if self.write(found, path, codebook) != plain:
            raise WireError(path, "a time without seconds that are nought", shown(text))
        return found

    def schema(self, codebook: Codebook, /) -> JSON:
        del codebook
        texts: list[Plain] = [
            _only(name, {"type": "string", "pattern": rf"^{pattern}(?![\s\S])"})
            for name, pattern in _DAYS.items()
        ]
        return {"anyOf": texts}


_DAY = 'a day or a time, as {"date": "2024-02-29"} or {"time": "2024-02-29T13:00"}'
_DAYS = {
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "time": (
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]"
        r"(?::[0-5][0-9](?:\.[0-9]{6})?)?"
    ),
}

DAY = _Day()


class _End:
    """A number, or a day or time, to compare with."""

    def write(self, value: float | date, path: str, codebook: Codebook, /) -> Plain:
        field = DAY if isinstance(value, date) else NUMBER
        return field.write(value, path, codebook)  # type: ignore[arg-type]  # of its own type

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> float | date:
        field = DAY if type(plain) is dict else NUMBER
        return field.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [NUMBER.schema(codebook), DAY.schema(codebook)]}


END = _End()
"""Where an interval ends, which is a number, a day or a time."""


_LABELLED = ("bin", *_DAYS)
"""What the objects that stand for labels are told by."""


class _LabelField:
    """A label. Integers, floats and truth values stay what they are: 1, 1.0 and true all differ."""

    def write(self, value: Label, path: str, codebook: Codebook, /) -> Plain:
        if type(value) in (str, int, bool):
            return cast("Plain", value)
        if type(value) is tuple and len(value) == 2 and all(map(_is_number, value)):
            low, high = value
            # Nought has two signs, which count as equal.
            return {"bin": [low + 0, high + 0]}
        if isinstance(value, date):
            return DAY.write(value, path, codebook)
        raise WireError(path, _LABEL, shown(value))

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Label:
        if type(plain) is str or type(plain) is int or type(plain) is bool:
            return plain
        if type(plain) is dict and ("date" in plain or "time" in plain):
            return cast("Label", DAY.read(plain, path, codebook))
        pair = plain.get("bin") if type(plain) is dict and len(plain) == 1 else None
        if type(pair) is not list or len(pair) != 2 or not all(map(_is_number, pair)):
            raise refused(path, _LABEL, plain)
        return cast("tuple[float, float]", tuple(pair))

    def schema(self, codebook: Codebook, /) -> JSON:
        pair: JSON = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
        plain: JSON = {"type": ["string", "integer", "boolean"]}
        return {"anyOf": [plain, _only("bin", pair), DAY.schema(codebook)]}


def _is_number(part: object) -> bool:
    return type(part) is int or (type(part) is float and math.isfinite(part))


def _only(name: str, schema: Plain) -> JSON:
    return {
        "type": "object",
        "properties": {name: schema},
        "required": [name],
        "additionalProperties": False,
    }


_LABELS = _LabelField()


class _ConditionField:
    """What may be wanted of an attribute."""

    def write(self, value: Condition, path: str, codebook: Codebook, /) -> Plain:
        if isinstance(value, Not):
            return {"not": self.write(value.value, f"{path}.not", codebook)}
        if isinstance(value, range):
            return {"range": [value.start, value.stop, value.step]}
        if isinstance(value, Between):
            ends = (value.low, value.high)
            return {"between": [END.write(end, f"{path}.between", codebook) for end in ends]}
        if isinstance(value, set | frozenset):
            written = [_LABELS.write(label, f"{path}.any", codebook) for label in value]
            return {"any": sorted(written, key=_order)}
        return _LABELS.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Condition:
        return self._read(plain, path, codebook, 2)

    def _read(self, plain: Plain, path: str, codebook: Codebook, negations: int) -> Condition:
        if type(plain) is not dict or not plain.keys().isdisjoint(_LABELLED):
            if type(plain) is list or plain is None or type(plain) is float:
                raise refused(path, _CONDITION, plain)
            return _LABELS.read(plain, path, codebook)
        if len(plain) != 1:
            raise refused(path, _CONDITION, plain)
        ((name, inside),) = plain.items()
        if name == "not":
            if not negations:
                raise WireError(path, "at most two negations of one condition", "a third")
            return Not(self._read(inside, f"{path}.not", codebook, negations - 1))
        if name == "range":
            return self._range(inside, f"{path}.range")
        if name == "between":
            return self._between(inside, f"{path}.between", codebook)
        if name == "any":
            return self._set(inside, f"{path}.any", codebook)
        raise refused(path, _CONDITION, plain)

    def _range(self, plain: Plain, path: str) -> range:
        expected = "three integers, the last of them not 0"
        if type(plain) is not list or len(plain) != 3 or {type(one) for one in plain} != {int}:
            raise refused(path, expected, plain)
        start, stop, by = cast("list[int]", plain)
        if not by:
            raise WireError(path, expected, "a step of 0")
        return range(start, stop, by)

    def _between(self, plain: Plain, path: str, codebook: Codebook) -> Between:
        if type(plain) is not list or len(plain) != 2:
            raise refused(path, "two ends", plain)
        low, high = [END.read(end, path + step(i), codebook) for i, end in enumerate(plain)]
        try:
            return Between(low, high)
        except InvalidArgument as error:
            raise WireError(path, "two ends, the lower first", str(error)[:300]) from error

    def _set(self, plain: Plain, path: str, codebook: Codebook) -> frozenset[Label]:
        if type(plain) is not list:
            raise refused(path, "a list of labels", plain)
        labels = [_LABELS.read(one, path + step(i), codebook) for i, one in enumerate(plain)]
        check_spread(path, labels)
        found = frozenset(labels)
        if len(found) != len(labels):
            raise WireError(path, "labels that all differ", "one of them twice")
        return found

    def schema(self, codebook: Codebook, /) -> JSON:
        codebook.definitions.setdefault("label", _LABELS.schema(codebook))
        label: JSON = {"$ref": "#/$defs/label"}
        integer: JSON = {"type": "integer"}
        integers: JSON = {"type": "array", "prefixItems": [integer, integer]}
        step_of: JSON = {"type": "integer", "not": {"const": 0}}
        integers |= {"minItems": 3, "maxItems": 3, "items": step_of}
        ends: JSON = {"type": "array", "minItems": 2, "maxItems": 2}
        plain: list[Plain] = [
            label,
            _only("range", integers),
            _only("between", {**ends, "items": END.schema(codebook)}),
            _only("any", {"type": "array", "items": label, "uniqueItems": True}),
        ]
        codebook.definitions.setdefault("wanted", {"anyOf": plain})
        wanted: JSON = {"$ref": "#/$defs/wanted"}
        return {"anyOf": [wanted, _only("not", {"anyOf": [wanted, _only("not", wanted)]})]}


def _order(written: Plain) -> tuple[str, object]:
    """By kind, then by size or alphabet."""
    if isinstance(written, dict):
        return next(iter(written.items()))
    return type(written).__name__, written


class _Conditions:
    """Pairs of an attribute and what is wanted of it, as an object."""

    _by_name = MapOf(_ConditionField(), least=1)

    def write(
        self, value: tuple[tuple[str, Condition], ...], path: str, codebook: Codebook, /
    ) -> Plain:
        return self._by_name.write(dict(value), path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> dict[str, Condition]:
        return self._by_name.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._by_name.schema(codebook)


CONDITIONS = _Conditions()
"""Conditions by the attributes that they are on."""


class _Where:
    """The conditions of a `where`."""

    def write(self, value: Conjunction, path: str, codebook: Codebook, /) -> Plain:
        if type(value) is not Conjunction:
            raise WireError(path, "a conjunction of the package", type(value).__name__)
        return CONDITIONS.write(value.conditions, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Conjunction:
        conditions = CONDITIONS.read(plain, path, codebook)
        try:
            return Conjunction(conditions)
        except InvalidArgument as error:
            raise WireError(path, "conditions on attributes", str(error)[:300]) from error

    def schema(self, codebook: Codebook, /) -> JSON:
        return CONDITIONS.schema(codebook)


WHERE = _Where()
"""The conditions that rows must meet."""
