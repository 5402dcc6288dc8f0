"""The written form of a domain: JSON, with a version in it."""

from __future__ import annotations

import codecs
import json
from datetime import date
from typing import cast

from dpsdk.domain.attributes import Attribute, Binned, Boolean, Categorical, Integer
from dpsdk.domain.calendar import Unit
from dpsdk.domain.dates import Date, read_end
from dpsdk.errors import DomainError, InvalidArgument

__all__ = ["FORMAT", "VERSION", "decoded", "read_attribute", "read_attributes"]

FORMAT = "dpsdk.domain"
VERSION = 1


def decoded(content: bytes) -> str:
    """The text of a domain file: in UTF-8, or in UTF-16 with a byte order mark."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        message = "the domain is not text in UTF-8"
        raise DomainError(message) from None


def read_attributes(text: str) -> list[Attribute]:
    """The attributes that a domain file declares."""
    try:
        parsed: object = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=_once,
            parse_int=_integer,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        message = f"the domain is not JSON: {error.msg} at line {error.lineno}"
        raise DomainError(message) from None
    except (ValueError, RecursionError):
        message = "the domain is JSON with too long numbers or too deep brackets"
        raise DomainError(message) from None
    content = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    if content.get("format") != FORMAT:
        message = f'a domain file is an object with "format": "{FORMAT}"'
        raise DomainError(message)
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        message = f"this version reads domain files of version {VERSION} only"
        raise DomainError(message)
    strange = [name for name in content if name not in _OWN]
    if strange:
        message = f"a domain file has no {strange[0][:80]!r}"
        raise DomainError(message)
    declared = content.get("attributes")
    if not isinstance(declared, list):
        message = 'a domain file lists its "attributes"'
        raise DomainError(message)
    return [_attribute_from_json(item) for item in cast("list[object]", declared)]


def read_attribute(item: object) -> Attribute:
    """The attribute that one object of JSON declares.

    Raises
    ------
    DomainError
        If it declares none.
    """
    return _attribute_from_json(item)


_OWN = ("format", "version", "attributes")

_LONGEST_INTEGER = 400
"""No bound of an attribute has as many digits. The limit is the same under every interpreter."""

_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "boolean": ((), ("true", "false")),
    "categorical": (("labels",), ("other",)),
    "integer": (("low", "high"), ()),
    "binned": (("edges",), ()),
    "date": (("low", "high", "unit"), ("zone",)),
}
"""What the JSON of each kind must say, and what it may say, besides "kind" and "name"."""


_LISTS = ("labels", "edges", "true", "false")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; of two members of one name, readers would differ in which they take."""
    result: dict[str, object] = {}
    for name, value in pairs:
        if name in result:
            message = f"the domain names {name!r} twice in one object"
            raise DomainError(message)
        result[name] = value
    return result


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER:
        raise ValueError(digits[:20])
    return int(digits)


def _no_constant(name: str) -> float:
    message = f"the domain holds {name}, which is no number"
    raise DomainError(message)


def _attribute_from_json(item: object) -> Attribute:
    if not isinstance(item, dict):
        message = "each attribute of a domain file is an object"
        raise DomainError(message)
    declared = cast("dict[str, object]", item)
    kind, name = declared.get("kind"), declared.get("name")
    if not isinstance(kind, str) or kind not in _FIELDS or not isinstance(name, str):
        message = f'each attribute has a "name" and a "kind" among {", ".join(_FIELDS)}'
        raise DomainError(message)
    required, optional = _FIELDS[kind]
    missing = [key for key in required if key not in declared]
    if missing:
        message = f"attribute {name!r} of kind {kind} lacks {missing[0]!r}"
        raise DomainError(message)
    strange = [key for key in declared if key not in {"kind", "name", *required, *optional}]
    if strange:
        message = f"attribute {name!r} of kind {kind} has no {strange[0]!r}"
        raise DomainError(message)
    if declared.get("other", kind) is None:
        message = f"attribute {name!r}: without an 'other' label the field is left out"
        raise DomainError(message)
    for key in _LISTS:
        if not isinstance(declared.get(key, []), list):
            message = f"attribute {name!r} has no list of {key!r}"
            raise DomainError(message)
    try:
        if kind == "boolean":
            words = {key: cast("list[str]", declared[key]) for key in optional if key in declared}
            return Boolean(name, **words)
        if kind == "integer":
            return Integer(name, cast("int", declared["low"]), cast("int", declared["high"]))
        if kind == "binned":
            return Binned(name, cast("list[float]", declared["edges"]))
        if kind == "date":
            return _date(name, declared)
        other = cast("str | int | None", declared.get("other"))
        return Categorical(name, cast("list[str | int]", declared["labels"]), other)
    except (TypeError, InvalidArgument) as error:
        message = f"attribute {name!r}: {error}"
        raise DomainError(message) from None


def _date(name: str, declared: dict[str, object]) -> Date:
    low, high = (cast("date", read_end(declared[key])) for key in ("low", "high"))
    unit, zone = cast("Unit", declared["unit"]), declared.get("zone")
    if "zone" in declared and zone is None:
        raise InvalidArgument("zone", "left out, or the name of a time zone", "None")
    return Date(name, low, high, unit=unit, zone=cast("str", zone))
