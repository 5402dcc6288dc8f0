"""Where frames come from: Parquet files and queries, opened by whichever library is there.

Nothing of a table is read here but its schema, except by pyarrow, which has no lazy tables.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping, Sequence
from glob import escape, glob, has_magic
from pathlib import Path
from typing import Any, TypeAlias, cast

from dpsdk._checks import shown
from dpsdk.errors import DataError, InvalidArgument, MissingExtra

__all__ = ["Parameters", "parquet_files", "parquet_frame", "query_frame"]

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
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
    files = parquet_files(path)
    for scan in (_by_polars, _by_duckdb, _by_arrow):
        try:
            return scan(path, files, list(names))
        except ImportError:
            continue
    raise MissingExtra("polars, duckdb or pyarrow")


def _by_polars(path: str, files: list[str], names: list[str]) -> object:
    import polars  # noqa: ICN001, PLC0415  # one of three

    del names
    # Files that were found are names, whatever characters are in these.
    return polars.scan_parquet(files, glob=_is_address(path), hive_partitioning=False)


def _by_duckdb(path: str, files: list[str], names: list[str]) -> object:
    import duckdb  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  # one of three

    del names
    connection = cast("Any", duckdb).connect()
    files = files if _is_address(path) else [escape(file) for file in files]
    relations = [connection.read_parquet(file) for file in files]
    _require_one(path, [(relation.columns, relation.types) for relation in relations])
    return connection.read_parquet(files)


def _by_arrow(path: str, files: list[str], names: list[str]) -> object:
    import pyarrow  # noqa: ICN001, PLC0415  # one of three
    from pyarrow import parquet  # noqa: PLC0415  # one of three

    arrow, reader = cast("Any", pyarrow), cast("Any", parquet)
    held = [reader.ParquetFile(file) for file in files]
    _require_one(path, [file.schema_arrow.remove_metadata() for file in held])
    known = held[0].schema_arrow.names
    return arrow.concat_tables(
        file.read(columns=[name for name in names if name in known]) for file in held
    )


def _is_address(path: str) -> bool:
    return "://" in path


def parquet_files(path: str) -> list[str]:
    """The files that a path stands for, none of which is opened.

    Raises
    ------
    DataError
        If there are none.
    """
    if _is_address(path):
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
        held = getattr(connection, "con", None)
        if connection.name == "postgres" and _is_one(held, "psycopg", "Connection"):
            return _in_postgres(connection, held, query)
        if connection.name == "sqlite" and isinstance(held, sqlite3.Connection):
            return _in_sqlite(connection, held, query)
        return connection.sql(query)
    lite = isinstance(connection, sqlite3.Connection)
    if not lite and not _is_one(connection, "psycopg", "Connection"):
        expected = (
            "a DuckDB connection, a SparkSession, an Ibis backend, or a connection of sqlite3 or "
            "psycopg; connect to other databases by Ibis"
        )
        raise InvalidArgument("connection", expected, type(connection).__name__)
    try:
        import ibis as found  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise MissingExtra("ibis", "platforms") from None
    ibis = cast("Any", found)
    if lite:
        return _in_sqlite(ibis.sqlite.from_connection(connection), connection, query)
    return _in_postgres(ibis.postgres.from_connection(connection), connection, query)


def _in_sqlite(backend: Any, connection: sqlite3.Connection, query: str) -> object:
    """A query of whose columns some may have no type; Ibis would take that of the first row.

    What one row holds may decide about no other, so these are columns of texts.
    """
    view, cursor = "temp.dpsdk_query", connection.cursor()
    cursor.row_factory = None
    cursor.execute(f"CREATE VIEW {view} AS {query}")
    try:
        found = cursor.execute("PRAGMA temp.table_info('dpsdk_query')").fetchall()
        named = [_quoted(name) for _, name, declared, *_ in found if declared]
        schema = {name: "string" for _, name, *_ in found}
        if named:
            chosen = backend.sql(f"SELECT {', '.join(named)} FROM {view}")  # noqa: S608
            schema |= dict(chosen.schema().items())
    finally:
        cursor.execute(f"DROP VIEW {view}")
    return backend.sql(query, schema=schema)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
"""The types of Ibis for those of PostgreSQL; columns of any other are cast to texts."""


def _in_postgres(backend: Any, connection: Any, query: str) -> object:
    """A query whose types are asked without a view, which not everybody may make."""
    inner = query.rstrip().rstrip(";")
    # The query is the owner's; a comment at its end may not swallow the bracket.
    rows = f"FROM ({inner}\n) AS dpsdk_query"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * {rows} LIMIT 0")
        columns = list(cursor.description)
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise DataError("the query", "columns of the same name; name each anew")
    known = connection.adapters.types
    # An array is known by the name of what it holds.
    infos = [known.get(column.type_code) for column in columns]
    types = [
        None if info is None or info.oid != column.type_code else _POSTGRES.get(info.name)
        for info, column in zip(infos, columns, strict=True)
    ]
    chosen: list[str] = []
    for name, kind in zip(names, types, strict=True):
        quoted = _quoted(name)
        chosen.append(quoted if kind else f"CAST({quoted} AS text) AS {quoted}")
    schema = dict(zip(names, [kind or "string" for kind in types], strict=True))
    return backend.sql(f"SELECT {', '.join(chosen)} {rows}", schema=schema)
