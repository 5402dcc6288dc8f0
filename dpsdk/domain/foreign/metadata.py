"""Metadata of tables: CSV on the Web, data packages, and the metadata of SmartNoise and Lomas.

W3C, "Metadata Vocabulary for Tabular Data", Recommendation of 17 December 2015, with the terms that
CSVW-EO 0.2 adds for differential privacy; the Data Package standard and its Table Schema, versions
1 and 2; and the metadata of SmartNoise SQL 1 and of Lomas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from typing import cast
from urllib.parse import unquote

from dpsdk._checks import read_whole, shown
from dpsdk._records import frozen
from dpsdk.codec import JSON, Plain, check, check_spread, parsed
from dpsdk.domain.attributes import Attribute, Binned, Boolean, Categorical, Integer
from dpsdk.domain.foreign.columns import Described, Ends, Kind, Lacking, attribute_of
from dpsdk.domain.foreign.nodes import Node
from dpsdk.domain.foreign.yaml import from_yaml
from dpsdk.domain.product import decoded
from dpsdk.errors import DomainError, InvalidArgument, WireError
from dpsdk.typing import Extra

__all__ = ["described_in"]

_MOST_BYTES = 1 << 24


@frozen
class _Table:
    """A table of some metadata: what it is called by, its schema, and what that inherits from.

    The schema lists columns in a member, or, where that is None, has one member for each column.
    """

    names: tuple[str, ...]
    schema: Node
    listed: str | None = None
    above: tuple[Node, ...] = ()


_WHOLE = (
    "integer int long short byte unsignedLong unsignedInt unsignedShort unsignedByte year gYear "
)
_SIGNED = "nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger"

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(["string", "normalizedString", "token"], "text"),
    **dict.fromkeys(f"{_WHOLE}{_SIGNED}".split(), "integer"),
    **dict.fromkeys(["number", "decimal", "double", "float"], "number"),
    **dict.fromkeys(["date", "datetime", "dateTime", "dateTimeStamp"], "day"),
    "boolean": "boolean",
}
"""Types by their names, which mean the same wherever two formats have them."""

_LOW = ("minimum", "minInclusive", "lower", "minExclusive", "exclusiveMinimum")
_HIGH = ("maximum", "maxInclusive", "upper", "maxExclusive", "exclusiveMaximum")
"""Bounds by their names, likewise; with `xclusive` they are beyond the last value."""


def described_in(
    source: str | PathLike[str] | Mapping[str, object], table: str | None
) -> tuple[str, list[Described]]:
    """Return what to call some metadata, and the columns of the one table, or of that named."""
    called = "the metadata" if isinstance(source, Mapping) else shown(fspath(source))
    try:
        root = Node(_content(source))
        columns = _columns(root, _chosen(_tables(root), table))
    except WireError as error:
        message = f"{called}: {error}"
        raise DomainError(message) from None
    return called, columns


def _content(source: str | PathLike[str] | Mapping[str, object]) -> Plain:
    if isinstance(source, Mapping):
        content = dict(source)
        check(content)
        return cast("JSON", content)
    with Path(source).open("rb") as file:
        read = file.read(_MOST_BYTES + 1)
    if len(read) > _MOST_BYTES:
        raise WireError("$", f"a file of at most {_MOST_BYTES:,} bytes", "a larger one")
    text = decoded(read)
    return parsed(text) if text.lstrip().startswith("{") else from_yaml(text)


def _tables(root: Node) -> list[_Table]:
    """Return all tables that some metadata describe."""
    if root.get("tables", "tableSchema"):
        parts = root["tables"] if root.get("tables") else [root]
        return [
            _Table(_names(one, "name", "url"), schema, "columns", (schema, one, root))
            for one in parts
            if (schema := one.get("tableSchema"))
        ]
    if root.get("resources"):
        return [
            _Table(_names(one, "name", "path"), schema, "fields", (schema,))
            for one in root["resources"]
            if (schema := one.get("schema"))
        ]
    if root.get("fields"):
        return [_Table((), root, "fields", (root,))]
    if root.get("format") and root.get("attributes"):
        raise WireError("$", "metadata of others", "a file that Domain.load reads")
    if root.get("columns"):
        return [_Table((), root["columns"])]
    return [
        _Table((name, f"{schema}.{name}"), node)
        for base, schemas in root.members()
        if base != "engine"
        for schema, tables in schemas.members()
        for name, node in tables.members()
    ]


def _names(node: Node, *members: str) -> tuple[str, ...]:
    found = [node.get(member) for member in members]
    return tuple([str(one.plain) for one in found if one is not None])


def _chosen(tables: Sequence[_Table], table: str | None) -> _Table:
    if not tables:
        expected = "CSV on the Web, a data package, or metadata of SmartNoise or Lomas"
        raise WireError("$", expected, "none of its tables")
    fit = [one for one in tables if table is None or table in one.names]
    if len(fit) == 1:
        return fit[0]
    names = [shown(one.names[0]) for one in tables[:12] if one.names]
    expected = f"the name of one of its tables, {', '.join(names)}" if names else "None"
    raise InvalidArgument("table", expected, shown(table))


def _columns(root: Node, table: _Table) -> list[Described]:
    schema, listed = table.schema, table.listed
    if listed is None:
        # Beside the columns there are options of the table, which are no objects.
        objects = [(name, node) for name, node in schema.members() if isinstance(node.plain, dict)]
        return [_column(name, node, typed=node["type"]) for name, node in objects]
    ours = any(map(_is_ours, [root, *(root.get("notes") or ())]))
    # Of a table that we published, the columns of labels are its key.
    keys = set(_texts(schema, "primaryKey")) if ours and schema.get("primaryKey") else None
    columns = [
        one
        for one in schema[listed]
        if not _is_true(one, "virtual") and (keys is None or one["name"].text() in keys)
    ]
    named = _title if listed == "columns" else _name
    return [_column(named(one), one, table.above, ours=ours) for one in columns]


def _is_ours(node: Node) -> bool:
    """Whether a release of this package wrote a description."""
    privacy = node.get("privacy") if isinstance(node.plain, dict) else None
    return privacy is not None and privacy.get("domain_digest") is not None


def _title(column: Node) -> str:
    """The name of a column of CSV on the Web: its title, as an address can hold it."""
    titles, named = column.get("titles"), column.get("name")
    if titles and isinstance(titles.plain, dict):
        titles = next((node for _, node in titles.members()), None)
    own = unquote(named.text()) if named else ""
    listed = titles.texts() if titles else [own]
    # Of several titles, the name tells which is meant.
    return own if own in listed or not listed else listed[0]


def _name(column: Node) -> str:
    return column["name"].text()


def _first(parts: Iterable[Node], *members: str) -> Node | None:
    return next((one for part in parts if (one := part.get(*members))), None)


def _texts(node: Node, member: str) -> list[str]:
    found = node.get(member)
    return found.texts() if found else []


def _is_true(node: Node, *members: str) -> bool:
    found = node.get(*members)
    return found is not None and found.flag()


def _column(
    name: str,
    column: Node,
    above: Sequence[Node] = (),
    *,
    typed: Node | None = None,
    ours: bool = False,
) -> Described:
    """Return a column of any format, by its members and those that it inherits from `above`."""
    rules, datatype = column.get("constraints") or Node({}), _first((column, *above), "datatype")
    details = datatype if datatype and isinstance(datatype.plain, dict) else Node({})
    typed = details.get("base") if datatype is details else datatype or typed or column.get("type")
    form = details.get("format")
    if form and isinstance(form.plain, dict):
        form = form.get("pattern")
    pattern = form.text() if form else ""
    groups, keys = column.get("partitions"), column.get("keyValues")
    listed = keys or rules.get("enum") or column.get("categories")
    values = listed.values() if listed else []
    if groups:
        values = [one for part in groups if (one := part["predicate"].get("partitionValue"))]
    whole = "exhaustivePartitions" if groups else "exhaustiveKeys"
    closed = not values or not (groups or keys) or _is_true(column, whole)
    nulls = _first((column, *above), "null", "missingValues")
    null = nulls.texts() if nulls else [""]
    required, nullable = _first((rules, column, *above), "required"), column.get("nullable")
    share = column.get("nullableProportion", "nullable_proportion")
    never = bool(share and not share.end("number"))
    if required or nullable:
        never = required.flag() if required else not (nullable and nullable.flag())
    # What takes the place of null there does not stand in the table.
    missing = bool(null) and (not never or column.get("missing_value") is not None)
    true, _, false = pattern.partition("|")
    words = (
        ([true], [false])
        if false
        else (_texts(column, "trueValues"), _texts(column, "falseValues"))
    )

    def make(step: Fraction | None) -> Attribute:
        if (kind := _KINDS.get("string" if typed is None else typed.text())) is None:
            raise Lacking("a type that attributes have")
        labels = _labels(values, kind) or (_alternatives(pattern) if kind == "text" else None)
        if ours and labels and (published := _published(name, labels)):
            return published
        no_label = any(node.plain is None for node in values)
        return attribute_of(
            name,
            kind,
            missing=missing or no_label,
            labels=labels,
            other=not closed,
            ends=_ends((details, rules, column), kind),
            step=_step(pattern) if kind == "number" and step is None else step,
            words=words,
        )

    texts = [text for text in null if text not in ("", "nan", "NaN")]
    identifies = _is_true(column, "privacyId", "private_id")
    return Described(name, make, identifies, tuple(texts) if missing else ())


def _labels(nodes: Sequence[Node], kind: Kind) -> tuple[str | int, ...] | None:
    labels = [node.label() for node in nodes if node.plain is not None]
    if kind == "integer":
        whole = [read_whole(one) if isinstance(one, str) else one for one in labels]
        labels = [old if new is None else new for old, new in zip(labels, whole, strict=True)]
    check_spread("$", [one for one in labels if isinstance(one, int)])
    return tuple(labels) or None


def _ends(parts: Sequence[Node], kind: Kind) -> Ends:
    """Return the bounds that the first of some objects has; texts and truth values have none."""
    if kind in ("text", "boolean"):
        return None, None
    found: list[Fraction | date | None] = []
    for names, sign in ((_LOW, 1), (_HIGH, -1)):
        node = next((one for part in parts if (one := part.get(*names))), None)
        end = None if node is None else node.end(kind)
        if node and kind == "integer" and "xclusive" in node.path.rpartition(".")[2]:
            end = Fraction(cast("Fraction", end) * sign // 1 + 1) * sign
        found.append(end)
    return found[0], found[1]


def _step(pattern: str) -> Fraction | None:
    """The step of a number by its format, as 0.01 by #,##0.00; None where there is none."""
    matched = re.fullmatch(r"[#0,]*0(?:\.([0#]*))?", pattern)
    return None if matched is None else Fraction(1, 10 ** len(matched.group(1) or ""))


_ALTERNATIVE = re.compile(r"((?:\\[^A-Za-z0-9]|[^\\^$.*+?()\[\]{}|])*)(\||\Z)")


def _alternatives(pattern: str) -> tuple[str, ...] | None:
    """The texts that a regular expression such as ^(?:a|b)$ lists; None of any other."""
    inner = pattern.removeprefix("^").removesuffix("$")
    inner = inner.removeprefix("(?:").removesuffix(")") if inner.startswith("(?:") else inner
    found: list[str] = []
    at, last = 0, "|"
    while last and pattern:
        matched = _ALTERNATIVE.match(inner, at)
        if matched is None:
            return None
        found.append(re.sub(r"\\(.)", r"\1", matched.group(1)))
        at, last = matched.end(), matched.group(2)
    return tuple(found) or None


_BIN = re.compile(r"\[([^ ,]+), ([^ ,]+)[\])]")


def _published(name: str, labels: Sequence[str | int]) -> Attribute | None:
    """The attribute of a column of labels of a published table, where these tell it."""
    missing, other = Extra.MISSING.value in labels, Extra.OTHER.value in labels
    known = [str(one) for one in labels if one not in {extra.value for extra in Extra}]
    matched = [one for one in map(_BIN.fullmatch, known) if one is not None]
    if matched and len(matched) == len(known):
        with suppress(ValueError, InvalidArgument):
            edges = [float(matched[0].group(1)), *(float(one.group(2)) for one in matched)]
            bins = Binned(name, edges, missing=missing, other=other)
            if [bins.text(cell) for cell in range(bins.known)] == known:
                return bins
    if not (missing or other):
        return None
    if known == ["False", "True"]:
        return Boolean(name, missing=missing, other=other)
    low = read_whole(known[0]) if known else None
    if low is not None and known == [str(low + place) for place in range(len(known))]:
        return Integer(name, low, low + len(known) - 1, missing=missing, other=other)
    return Categorical(name, known, missing=missing, other=other)
