"""Metadata of tables: CSV on the Web, data packages, and the metadata of SmartNoise and Lomas.

W3C, "Metadata Vocabulary for Tabular Data", Recommendation of 17 December 2015, with the terms that
CSVW-EO 0.2 adds for differential privacy; the Data Package standard and its Table Schema, versions
1 and 2; and the metadata of SmartNoise SQL 1 and of Lomas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from fractions import Fraction
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias, cast
from urllib.parse import unquote

from dpsdk._checks import read_whole, shown
from dpsdk.codec import JSON, Plain, check, check_spread, parsed
from dpsdk.domain.attributes import Attribute, Binned, Boolean, Categorical, Integer
from dpsdk.domain.foreign.columns import Described, Ends, Kind, Lacking, Words, attribute_of
from dpsdk.domain.foreign.nodes import Node
from dpsdk.domain.foreign.yaml import from_yaml
from dpsdk.domain.product import decoded
from dpsdk.errors import DomainError, InvalidArgument, WireError
from dpsdk.typing import Extra

__all__ = ["described_in"]

_MOST_BYTES = 1 << 24

_Table: TypeAlias = tuple[tuple[str, ...], Node]
"""What a table is called by, and its description."""

_Reader: TypeAlias = Callable[[Node], list[Described]]

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
        content = _content(source)
        reader, tables = _tables(Node(content))
        columns = reader(_chosen(tables, table))
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


def _tables(root: Node) -> tuple[_Reader, list[_Table]]:
    """Return how a table of some metadata is read, and all that there are."""
    if root.get("tables", "tableSchema"):
        parts = list(root["tables"]) if root.get("tables") else [root]
        return partial(_csvw, root), [(_names(one, "name", "url"), one) for one in parts]
    if root.get("resources"):
        tabular = [one for one in root["resources"] if one.get("schema")]
        named = [(_names(one, "name", "path"), one["schema"]) for one in tabular]
        return partial(_package, _is_ours(root)), named
    if root.get("fields"):
        return partial(_package, False), [((), root)]
    if root.get("format") and root.get("attributes"):
        raise WireError("$", "metadata of others", "a file that Domain.load reads")
    if root.get("columns"):
        return _smartnoise, [((), root["columns"])]
    nested: list[_Table] = [
        ((name, f"{schema}.{name}"), node)
        for base, schemas in root.members()
        if base != "engine"
        for schema, tables in schemas.members()
        for name, node in tables.members()
    ]
    return _smartnoise, nested


def _names(node: Node, *members: str) -> tuple[str, ...]:
    found = [node.get(member) for member in members]
    return tuple([str(one.plain) for one in found if one is not None])


def _chosen(tables: Sequence[_Table], table: str | None) -> Node:
    if not tables:
        expected = "CSV on the Web, a data package, or metadata of SmartNoise or Lomas"
        raise WireError("$", expected, "none of its tables")
    fit = [node for names, node in tables if table is None or table in names]
    if len(fit) == 1:
        return fit[0]
    names = [shown(names[0]) for names, _ in tables[:12] if names]
    expected = f"the name of one of its tables, {', '.join(names)}" if names else "None"
    raise InvalidArgument("table", expected, shown(table))


def _is_ours(node: Node) -> bool:
    """Whether a release of this package wrote a description."""
    privacy = node.get("privacy") if isinstance(node.plain, dict) else None
    return privacy is not None and privacy.get("domain_digest") is not None


def _column(
    name: str,
    typed: Node | None,
    listed: Sequence[Node],
    bounds: Sequence[Node],
    *,
    form: str = "",
    closed: bool = True,
    never: bool = False,
    null: Sequence[str] = ("",),
    words: Words = ((), ()),
    identifies: bool = False,
    ours: bool = False,
) -> Described:
    """Return a column of any format.

    `typed` names its type, `listed` are its labels, all of them if `closed`, `bounds` the objects
    that may have its bounds, and `form` is how values are written. Where it `never` is empty, or no
    text stands for null, nothing is missing.
    """
    missing = bool(null) and not never

    def make(step: Fraction | None) -> Attribute:
        typed_as = "string" if typed is None else typed.text()
        if (kind := _KINDS.get(typed_as)) is None:
            raise Lacking("a type that attributes have")
        labels = _labels(listed, kind) or (_alternatives(form) if kind == "text" else None)
        if ours and labels and (published := _published(name, labels)):
            return published
        no_label = any(node.plain is None for node in listed)
        return attribute_of(
            name,
            kind,
            missing=missing or no_label,
            labels=labels,
            other=not closed,
            ends=_ends(bounds, kind),
            step=_step(form) if kind == "number" and step is None else step,
            words=_words(*words) if kind == "boolean" else ((), ()),
        )

    texts = [text for text in null if text not in ("", "nan", "NaN")]
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


def _words(true: Sequence[str], false: Sequence[str]) -> Words:
    """The texts of true and of false, without those that a Boolean reads at any rate."""
    usual = ("true", "false")
    own = [[one for one in words if one.lower() not in usual] for words in (true, false)]
    return own[0], own[1]


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


def _of_labels(schema: Node, members: str, *, ours: bool) -> list[Node]:
    """The columns of a table; of one that we published, those of labels."""
    columns, key = list(schema[members]), schema.get("primaryKey") if ours else None
    keys = None if key is None else set(key.texts())
    return [one for one in columns if keys is None or one["name"].text() in keys]


def _csvw(root: Node, table: Node) -> list[Described]:
    schema, notes = table["tableSchema"], root.get("notes")
    ours = notes is not None and any(map(_is_ours, notes))
    columns = _of_labels(schema, "columns", ours=ours)
    parts = [(one, schema, table, root) for one in columns if not _is_true(one, "virtual")]
    return [_csvw_column(part, ours=ours) for part in parts]


def _csvw_column(parts: Sequence[Node], *, ours: bool) -> Described:
    column = parts[0]

    def inherited(name: str) -> Node | None:
        return next((one for part in parts if (one := part.get(name))), None)

    titles, named, datatype = column.get("titles"), column.get("name"), inherited("datatype")
    if titles and isinstance(titles.plain, dict):
        titles = next((node for _, node in titles.members()), None)
    own = unquote(named.text()) if named else ""
    listed = titles.texts() if titles else [own]
    # The name is a title that an address can hold; of several titles, it tells which is meant.
    name = own if own in listed or not listed else listed[0]
    details = datatype if datatype and isinstance(datatype.plain, dict) else Node({})
    form = details.get("format")
    if form and isinstance(form.plain, dict):
        form = form.get("pattern")
    keys, groups = column.get("keyValues"), column.get("partitions")
    values = list(keys or ())
    if groups:
        values = [one for part in groups if (one := part["predicate"].get("partitionValue"))]
    null, required = inherited("null"), inherited("required")
    true, _, false = ("" if form is None else form.text()).partition("|")
    share = column.get("nullableProportion")
    return _column(
        name,
        details.get("base") if datatype is details else datatype,
        values,
        (details, column),
        form="" if form is None else form.text(),
        closed=not values
        or _is_true(column, "exhaustivePartitions" if groups else "exhaustiveKeys"),
        never=required.flag() if required else bool(share and not share.end("number")),
        null=[""] if null is None else null.texts(),
        words=([true], [false]) if false else ((), ()),
        identifies=_is_true(column, "privacyId"),
        ours=ours,
    )


def _is_true(node: Node, member: str) -> bool:
    found = node.get(member)
    return found is not None and found.flag()


def _package(ours: bool, schema: Node) -> list[Described]:  # noqa: FBT001
    above, fields = schema.get("missingValues"), _of_labels(schema, "fields", ours=ours)
    return [_field(field, above, ours=ours) for field in fields]


def _values(node: Node | None) -> list[Node]:
    """The items of a list, each alone or as the value of an object."""
    return [one["value"] if isinstance(one.plain, dict) else one for one in node or ()]


def _field(field: Node, above: Node | None, *, ours: bool) -> Described:
    constraints = field.get("constraints") or Node({})
    null = field.get("missingValues") or above
    true, false = field.get("trueValues"), field.get("falseValues")
    return _column(
        field["name"].text(),
        field.get("type"),
        _values(constraints.get("enum") or field.get("categories")),
        (constraints,),
        never=_is_true(constraints, "required"),
        null=[""] if null is None else [one.text() for one in _values(null)],
        words=(true.texts() if true else (), false.texts() if false else ()),
        ours=ours,
    )


def _smartnoise(table: Node) -> list[Described]:
    # Beside the columns there are options of the table, which are no objects.
    columns = [(name, node) for name, node in table.members() if isinstance(node.plain, dict)]
    return [_smart_column(name, node) for name, node in columns]


def _smart_column(name: str, column: Node) -> Described:
    share, nullable = column.get("nullable_proportion"), column.get("nullable")
    # What takes the place of null there does not stand in the table.
    replaced = column.get("missing_value") is not None
    never = not nullable.flag() if nullable else bool(share and not share.end("number"))
    return _column(
        name,
        column["type"],
        list(column.get("categories") or ()),
        (column,),
        never=never and not replaced,
        identifies=_is_true(column, "private_id"),
    )
