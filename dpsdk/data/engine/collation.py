"""Texts that an engine tells apart by all their characters, whatever it was told of their order.

Some columns have a collation that takes "a" for "A", or drops blanks at the end. An engine that
groups by such a column returns one of the texts, and which one depends on the other rows: so a row
would be of a cell, or of a person, that others decide about.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import narwhals.stable.v2 as nw

__all__ = ["compares_exactly", "without_collation"]


def without_collation(table: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any] | str:
    """The same columns, of which the texts have no collation; or what is wrong with their engine.

    Of engines that Ibis knows, so made are those of DuckDB, PostgreSQL and SQLite. Those whose
    texts mostly have a collation are refused, and others compare as they do.
    """
    schema, known = table.collect_schema(), table.implementation
    texts = [name for name in names if isinstance(schema[name], nw.String)]
    native: Any = table.to_native()
    if not texts:
        return table
    if known.is_duckdb():
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        chosen = [
            f"{quote} COLLATE C AS {quote}" if name in texts else quote
            for name, quote in quoted.items()
        ]
        return _opened(native.project(", ".join(chosen)))
    if known.is_pyspark() or known.is_pyspark_connect():
        return _of_spark(native, texts)
    return _of_ibis(table, native, texts) if known.is_ibis() else table


def compares_exactly(table: nw.LazyFrame[Any]) -> bool:
    """Whether its engine is known to tell all texts of such a table apart, and to rank rows."""
    known = table.implementation
    if known.is_ibis():
        native: Any = table.to_native()
        return str(native.get_backend().name) in {"duckdb", "postgres"}
    return bool(known.is_duckdb() or known.is_pyspark() or known.is_pyspark_connect())


def _opened(native: Any) -> nw.LazyFrame[Any]:
    table: nw.LazyFrame[Any] = nw.from_native(native)
    return table


def _of_spark(native: Any, texts: Sequence[str]) -> nw.LazyFrame[Any]:
    binary = "UTF8_BINARY"
    # Versions before 4 have no collations.
    collated = [
        field.name
        for field in native.schema.fields
        if field.name in texts and getattr(field.dataType, "collation", binary) != binary
    ]
    functions: Any = sys.modules.get("pyspark.sql.functions")
    for name in collated:
        column = functions.col("`" + name.replace("`", "``") + "`")
        native = native.withColumn(name, functions.collate(column, binary))
    return _opened(native)


def _of_ibis(
    table: nw.LazyFrame[Any], native: Any, texts: Sequence[str]
) -> nw.LazyFrame[Any] | str:
    backend = native.get_backend()
    match backend.name:
        case "duckdb":
            asked = backend.con.sql("SELECT current_setting('default_collation')")
            if asked.fetchall()[0][0]:
                return "default_collation, which takes some texts for one, is set; reset it"
            own = _through_bytes("encode", "decode")
        case "postgres":
            own = _through_bytes("convert_to", "convert_from", "UTF8")
        case "sqlite":
            own = _either
        case "mssql" | "mysql" | "singlestoredb" as name:
            return (
                f"texts of {name}, which takes some for one; hand over a frame that was collected"
            )
        case _:
            return table
    return _opened(native.mutate(**{name: own(native[name]) for name in texts}))


def _either(column: Any) -> Any:
    """A column without its collation. What a function returns has none, and stays what it is."""
    return column.coalesce(column)


def _joined(column: Any) -> Any:
    return column + ""


@cache
def _through_bytes(there: str, back: str, *encoding: str) -> Callable[[Any], Any]:
    """A text made anew of its bytes, by functions of an engine."""
    builtin: Any = sys.modules["ibis"].udf.scalar.builtin
    named = _of_one if not encoding else _of_two
    more = ["string"] * len(encoding)
    encode = builtin(named, name=there, signature=(("string", *more), "binary"))
    decode = builtin(named, name=back, signature=(("binary", *more), "string"))
    # Joined first, as Ibis calls texts what PostgreSQL does not, such as enumerations.
    return lambda column: decode(encode(_joined(column), *encoding), *encoding)


def _of_one(value: Any) -> None:
    """What Ibis takes the names of parameters from."""


def _of_two(value: Any, encoding: str) -> None:
    """The same for a function that is told of an encoding."""
