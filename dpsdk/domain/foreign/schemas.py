"""Columns of frames, of their schemas and of data bases, whose types list labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias, cast

from dpsdk._checks import require, shown
from dpsdk.domain.attributes import Attribute
from dpsdk.domain.foreign.columns import Described, Lacking, attribute_of
from dpsdk.errors import InvalidArgument

__all__ = ["columns_of_schema"]

_Labels: TypeAlias = "list[Any] | None"
_Field: TypeAlias = "tuple[str, str, bool, _Labels]"
"""The name of a column, the kind of its type, whether it may be null, and its labels if any."""

_UNSURE = "labels or bounds that somebody declared (attributes=, declared=)"

_ENUMS = """
SELECT column_name, data_type, is_nullable = 'YES', (
    SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e
    JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE n.nspname = udt_schema AND t.typname = udt_name
)
FROM information_schema.columns
WHERE table_name = %s AND table_schema = coalesce(nullif(%s, ''), current_schema())
ORDER BY ordinal_position
"""


def columns_of_schema(
    schema: object, *, table: str | None, declared: Iterable[str] | bool
) -> list[Described]:
    """Return the columns of a frame or of its schema, or of a table of PostgreSQL."""
    fields = _fields(schema, table)
    names = {name for name, *_ in fields}
    require(not isinstance(declared, str), "declared", "a list of names, or True", declared)
    said = (names if declared else set[str]()) if isinstance(declared, bool) else set(declared)
    for name in said:
        require(name in names, "declared", "names of its columns", name)
    return [Described(field[0], partial(_attribute, field, field[0] in said)) for field in fields]


def _fields(schema: Any, table: str | None) -> list[_Field]:
    library = type(schema).__module__.partition(".")[0].removeprefix("_")
    if library == "psycopg" and hasattr(schema, "cursor"):
        rows = sys.modules["psycopg"].rows.tuple_row
        place, _, name = (table or "").rpartition(".")
        with schema.transaction(), schema.cursor(row_factory=rows) as cursor:
            found = cast("list[_Field]", cursor.execute(_ENUMS, (name, place)).fetchall())
        require(found, "table", "the name of a table or view", table)
        return found
    require(table is None, "table", "given with a connection of psycopg only", table)
    if hasattr(schema, "collect_schema"):
        schema = schema.collect_schema()
    if library == "duckdb" and hasattr(schema, "types"):
        types = zip(schema.columns, schema.types, strict=True)
        return [(name, str(one.id), True, _enum_of_duckdb(one)) for name, one in types]
    if library == "pyarrow" and hasattr(schema, "field"):
        fields = getattr(schema, "schema", schema)
        return [(one.name, str(one.type), one.nullable, _dictionary(schema, one)) for one in fields]
    if library == "pandas" and hasattr(schema, "dtypes"):
        schema = dict(schema.dtypes.items())
    if not isinstance(schema, Mapping):
        expected = "a frame of polars, pandas or Arrow, a relation of DuckDB, or a schema"
        raise InvalidArgument("schema", expected, shown(schema))
    pairs = cast("Mapping[object, Any]", schema).items()
    return [(str(name), _kind(one), True, _categories(one)) for name, one in pairs]


def _kind(dtype: Any) -> str:
    # What an Enum of polars shows has all of its categories in it.
    return "enum of polars" if type(dtype).__name__ == "Enum" else str(dtype)


def _categories(dtype: Any) -> _Labels:
    listed = getattr(dtype, "categories", None)
    if listed is None or not hasattr(listed, "__iter__"):
        return None
    return cast("list[Any]", listed.tolist() if hasattr(listed, "tolist") else list(listed))


def _enum_of_duckdb(type_: Any) -> _Labels:
    return dict(type_.children)["values"] if type_.id == "enum" else None


def _dictionary(table: Any, field: Any) -> _Labels:
    if not (str(field.type).startswith("dictionary<") and hasattr(table, "column")):
        return None
    columns = table.select([field.name])
    chunks = getattr(columns, "unify_dictionaries", lambda: columns)().column(0)
    parts = getattr(chunks, "chunks", [chunks])
    return parts[0].dictionary.to_pylist() if parts else None


def _attribute(field: _Field, said: bool, step: Fraction | None) -> Attribute:  # noqa: FBT001
    name, kind, missing, labels = field
    # Nobody but its author makes an Enum of polars, or a type of PostgreSQL. Of any other type not
    # even the kind is told: rows may have decided it.
    if not (said or (labels and kind in ("enum of polars", "USER-DEFINED"))):
        raise Lacking(_UNSURE)
    boolean = kind.lower() in ("bool", "boolean")
    return attribute_of(
        name, "boolean" if boolean else "text", missing=missing, labels=labels or None, step=step
    )
