"""Where frames come from: Parquet files and queries, opened by whichever library is there.

Nothing of a table is read here but its schema, except by pyarrow, which has no lazy tables.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping, Sequence
from glob import glob, has_magic
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpsdk._checks import shown
from dpsdk.errors import DataError, InvalidArgument, MissingExtra

__all__ = ["Parameters", "parquet_frame", "query_frame"]

Parameters = Sequence[object] | Mapping[str, object]
"""Values for the placeholders of a query."""


def parquet_frame(path: str, names: Sequence[str]) -> object:
    """A frame over a Parquet file, all files of a directory, or those that a pattern matches.

    Parameters
    ----------
    path
        Of the file, the directory, which is searched with all those inside it, or the pattern. An
        address with a scheme, such as s3://, is given to the library as it is.
    names
        The columns that will be read.

    Raises
    ------
    DataError
        If there is no such file, or the files' columns are not of the same names and types.
    MissingExtra
        If neither Polars nor DuckDB nor pyarrow is installed.
    """
    files = _files(path)
    if find_spec("polars") is not None:
        return import_module("polars").scan_parquet(files, hive_partitioning=False)
    if find_spec("duckdb") is not None:
        connection = import_module("duckdb").connect()
        relations = [connection.read_parquet(file) for file in files]
        schemas = [(relation.columns, relation.types) for relation in relations]
        _require_one(path, schemas)
        return connection.read_parquet(files)
    if find_spec("pyarrow") is not None:
        parquet = import_module("pyarrow.parquet")
        _require_one(path, [parquet.read_schema(file).remove_metadata() for file in files])
        arrow = import_module("pyarrow")
        return arrow.concat_tables(
            parquet.ParquetFile(file).read(columns=list(names)) for file in files
        )
    raise MissingExtra("polars, duckdb or pyarrow")


def _files(path: str) -> list[str]:
    if "://" in path:
        return [path]
    found = [path]
    if Path(path).is_dir():
        found = [str(file) for file in Path(path).rglob("*.parquet")]
    elif not Path(path).exists() and has_magic(path):
        found = glob(path, recursive=True)  # noqa: PTH207  # Path.glob takes no root
    files = sorted(file for file in found if Path(file).is_file())
    if not files:
        raise DataError(path, "no such file, and no Parquet files there")
    return files


def _require_one(path: str, schemas: Sequence[object]) -> None:
    if any(schema != schemas[0] for schema in schemas):
        raise DataError(path, "files whose columns are not of the same names and types")


def query_frame(connection: object, query: str, parameters: Parameters | None) -> object:
    """A lazy frame over the rows of a query; it runs when they are counted.

    Raises
    ------
    InvalidArgument
        If the connection is of no known kind, the query is no text, or a kind of connection that
        takes no parameters got some.
    MissingExtra
        If the connection needs Ibis, and that is not installed.
    """
    if not isinstance(query, str):
        raise InvalidArgument("query", "a text in SQL", shown(query))
    query = str.__str__(query)
    native: Any = connection
    # Libraries that made a connection have been imported.
    if _is_one(connection, "duckdb", "DuckDBPyConnection"):
        found = native.sql(query) if parameters is None else native.sql(query, params=parameters)
    elif _is_one(connection, "pyspark.sql", "SparkSession") or _is_one(
        connection, "pyspark.sql.connect.session", "SparkSession"
    ):
        found = native.sql(query) if parameters is None else native.sql(query, args=parameters)
    else:
        if parameters is not None:
            expected = "None, except for a DuckDB connection or a SparkSession"
            raise InvalidArgument("parameters", expected, type(parameters).__name__)
        found = _through_ibis(native, query)
    if found is None:
        raise InvalidArgument("query", "a query that returns rows", "one that returns none")
    return found


def _is_one(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _through_ibis(connection: Any, query: str) -> object:
    if _is_one(connection, "ibis.backends", "BaseBackend"):
        return connection.sql(query)
    lite = isinstance(connection, sqlite3.Connection)
    if not lite and not _is_one(connection, "psycopg", "Connection"):
        expected = (
            "a DuckDB connection, a SparkSession, an Ibis backend, or a connection of sqlite3 or "
            "psycopg; connect to other databases by Ibis"
        )
        raise InvalidArgument("connection", expected, type(connection).__name__)
    if find_spec("ibis") is None:
        raise MissingExtra("ibis", "platforms")
    ibis = import_module("ibis")
    if lite:
        return ibis.sqlite.from_connection(connection).sql(query)
    schema = _postgres_schema(connection, query)
    return ibis.postgres.from_connection(connection).sql(query, schema=schema)


_POSTGRES = {
    "bool": "boolean",
    "int2": "int16",
    "int4": "int32",
    "int8": "int64",
    "float4": "float32",
    "float8": "float64",
    "numeric": "decimal",
    "text": "string",
    "varchar": "string",
    "bpchar": "string",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp('UTC')",
    "bytea": "binary",
}
"""The types of Ibis for those of PostgreSQL; any other comes back as the texts it is cast to."""


def _postgres_schema(connection: Any, query: str) -> dict[str, str]:
    """The types of a query's columns, asked without a view, which not everybody may make."""
    inner = query.rstrip().rstrip(";")
    with connection.cursor() as cursor:
        # The query is the owner's; a comment at its end may not swallow the bracket.
        cursor.execute(f"SELECT * FROM ({inner}\n) AS dpsdk_query LIMIT 0")  # noqa: S608
        columns = list(cursor.description)
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise DataError("the query", "columns of the same name; name each anew")
    known = connection.adapters.types
    return {
        column.name: _POSTGRES.get(getattr(known.get(column.type_code), "name", ""), "string")
        for column in columns
    }
