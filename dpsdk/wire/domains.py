"""The written forms of a domain, with the attributes as its own file has them, and of a unit."""

from __future__ import annotations

from typing import cast

import dpsdk.domain as room
from dpsdk.codec import (
    FLAG,
    JSON,
    NAME,
    POSITIVE,
    Codebook,
    Kind,
    ListOf,
    Member,
    Plain,
    check_spread,
)
from dpsdk.data import PrivacyUnit
from dpsdk.domain import Attribute, Domain
from dpsdk.domain.files import read_attribute
from dpsdk.errors import DomainError, WireError

__all__ = ["KINDS"]

_OWN = {
    one
    for one in vars(room).values()
    if isinstance(one, type) and issubclass(one, Attribute) and one is not Attribute
}
"""The attributes of the package, whichever it has."""

_MOST_BITS = 1 << 20
"""So many bits have the sizes of all attributes together, which are multiplied to the domain's."""

_TEXTS: JSON = {"type": "array", "items": {"type": "string", "minLength": 1}}
_LABEL: JSON = {"type": ["string", "integer"]}
_END: JSON = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2})?(?![\s\S])",
}
_KINDS: dict[str, tuple[JSON, JSON]] = {
    "boolean": ({}, {"true": _TEXTS, "false": _TEXTS}),
    "categorical": (
        {"labels": {"type": "array", "minItems": 1, "uniqueItems": True, "items": _LABEL}},
        {"other": _LABEL},
    ),
    "integer": ({"low": {"type": "integer"}, "high": {"type": "integer"}}, {}),
    "binned": ({"edges": {"type": "array", "minItems": 2, "items": {"type": "number"}}}, {}),
    "date": (
        {"low": _END, "high": _END, "unit": {"enum": ["day", "week", "month", "hour"]}},
        {"zone": {"type": "string", "minLength": 1}},
    ),
}
"""What the object of each kind of attribute must have, and what it may have."""


def _of_kind(kind: str, name: JSON) -> JSON:
    required, optional = _KINDS[kind]
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, "name": name, **required, **optional},
        "required": ["kind", "name", *required],
        "additionalProperties": False,
    }


class _AttributeField:
    """An attribute, as a file of a domain has it."""

    def write(self, value: Attribute, path: str, codebook: Codebook, /) -> Plain:
        del codebook
        if type(value) not in _OWN:
            raise WireError(path, "an attribute of the package", type(value).__name__)
        return cast("Plain", value.to_json())

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Attribute:
        del codebook
        labels = plain.get("labels") if type(plain) is dict else None
        if type(labels) is list:
            check_spread(f"{path}.labels", [one for one in labels if type(one) is int])
        try:
            return read_attribute(plain)
        except DomainError as error:
            raise WireError(path, "an attribute of a domain", str(error)[:300]) from error

    def schema(self, codebook: Codebook, /) -> JSON:
        if "an-attribute" not in codebook.definitions:
            name: JSON = NAME.schema(codebook) | {"pattern": r"\S"}
            known = [_of_kind(one.kind, name) for one in _OWN if one.kind in _KINDS]
            known.sort(key=str)
            codebook.definitions["an-attribute"] = {"oneOf": cast("list[Plain]", known)}
        return {"$ref": "#/$defs/an-attribute"}


def _check_size(attributes: tuple[Attribute, ...], path: str) -> None:
    if sum(attribute.size.bit_length() for attribute in attributes) > _MOST_BITS:
        expected = f"attributes whose sizes have at most {_MOST_BITS:,} bits together"
        raise WireError(path, expected, f"{len(attributes):,} that have more")


def _domain(attributes: tuple[Attribute, ...]) -> Domain:
    _check_size(attributes, "$.attributes")
    return Domain(*attributes)


def _sized(domain: Domain, path: str, codebook: Codebook) -> Domain:
    del codebook
    _check_size(domain.attributes, f"{path}.attributes")
    return domain


_DOMAIN = Kind(
    Domain, "domain", {"attributes": ListOf(_AttributeField(), least=1)}, _domain, _sized
)

KINDS: tuple[Kind[object], ...] = (
    cast("Kind[object]", _DOMAIN),
    Kind(
        PrivacyUnit,
        "unit",
        {"column": NAME, "max_rows": POSITIVE, "distinct": Member(FLAG, False)},
    ),
)
