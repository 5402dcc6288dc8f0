"""Queries as frames, over connections that are given back as they were lent."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

from dpsdk._checks import shown
from dpsdk.data.readers import Parameters
from dpsdk.errors import DataError, InvalidArgument, MissingExtra

__all__ = ["borrowed_postgres", "may_roll_back", "query_frame", "quoted"]

_numbers = count(1)
_in_transaction: list[object] = []
"""Connections of psycopg while they are lent within a transaction."""


@contextmanager
def query_frame(connection: object, query: str, parameters: Parameters | None) -> Generator[object]:
    """Open a lazy frame over the rows of a query; it runs when they are counted.

    Afterwards the transaction, the settings and the time zone of the connection are what they were.
    """
    if not isinstance(query, str):
        raise InvalidArgument("query", "a text in SQL", shown(query))
    native: Any = connection
    # Libraries that made a connection have been imported.
    if _is_one(connection, "duckdb", "DuckDBPyConnection"):
        yield _rows_of(native.sql(query, params=parameters))
        return
    if _is_one(connection, "pyspark.sql", "SparkSession") or _is_one(
        connection, "pyspark.sql.connect.session", "SparkSession"
    ):
        yield _rows_of(native.sql(query) if parameters is None else native.sql(query, parameters))
        return
    if parameters is not None:
        expected = "None, except for a DuckDB connection or a SparkSession"
        raise InvalidArgument("parameters", expected, type(parameters).__name__)
    held = connection
    if _is_one(connection, "ibis.backends", "BaseBackend"):
        held = getattr(connection, "con", None)
        if (native.name, _is_one(held, "psycopg", "Connection")) == ("postgres", True):
            pass
        elif (native.name, isinstance(held, sqlite3.Connection)) != ("sqlite", True):
            yield _rows_of(native.sql(query))
            return
    if isinstance(held, sqlite3.Connection):
        ibis = _ibis()
        with _borrowed_sqlite(held) as borrowed:
            backend = ibis.sqlite.from_connection(borrowed)
            yield _rows_of(_in_sqlite(backend, borrowed, query))
    elif _is_one(held, "psycopg", "Connection"):
        ibis = _ibis()
        with borrowed_postgres(held):
            yield _rows_of(_in_postgres(ibis.postgres.from_connection(held), held, query))
    else:
        expected = (
            "a DuckDB connection, a SparkSession, an Ibis backend, or a connection of sqlite3 or "
            "psycopg; connect to other databases by Ibis"
        )
        raise InvalidArgument("connection", expected, type(connection).__name__)


def quoted(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def _is_one(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _rows_of(frame: object) -> object:
    if frame is None:
        raise InvalidArgument("query", "a query that returns rows", "one that returns none")
    return frame


def _ibis() -> Any:
    try:
        import ibis  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise MissingExtra("ibis", "platforms") from None
    return cast("Any", ibis)


class _Borrowed:
    """A connection of SQLite for Ibis, which commits, and sets how texts are compared."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def cursor(self) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor

    def execute(self, query: str) -> sqlite3.Cursor:
        # Nothing but its settings is asked for in this way.
        return self.cursor().execute("SELECT 1" if query.startswith("PRAGMA") else query)

    def commit(self) -> None:
        """Leave the transaction to its owner."""

    def rollback(self) -> None:
        """Leave the transaction to its owner."""

    def create_function(self, *given: object, **named: object) -> None:
        """Leave out what Ibis adds to the language: nothing here needs it."""

    create_aggregate = create_window_function = create_function


@contextmanager
def _borrowed_sqlite(connection: sqlite3.Connection) -> Generator[_Borrowed]:
    factory = connection.text_factory
    connection.text_factory = str
    try:
        yield _Borrowed(connection)
    finally:
        connection.text_factory = factory


def _in_sqlite(backend: Any, connection: _Borrowed, query: str) -> object:
    """Return a query of whose columns some may have no type; Ibis takes that of the first row.

    What one row holds may decide about no other, so these are columns of texts.
    """
    name, cursor = f"dpsdk_query_{next(_numbers)}", connection.cursor()
    cursor.execute(f"CREATE TEMP VIEW {name} AS {query}")
    try:
        found = cursor.execute(f"PRAGMA temp.table_info('{name}')").fetchall()
        schema = {column: "string" for _, column, *_ in found}
        if named := [quoted(column) for _, column, declared, *_ in found if declared]:
            chosen = backend.sql(f"SELECT {', '.join(named)} FROM temp.{name}")  # noqa: S608
            schema |= dict(chosen.schema().items())
    finally:
        cursor.execute(f"DROP VIEW temp.{name}")
        cursor.close()
    return backend.sql(query, schema=schema)


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


@contextmanager
def borrowed_postgres(connection: Any) -> Generator[None]:
    """Work in a transaction of a connection of psycopg, or in a savepoint of the one it is in.

    Ibis sets the time zone, and reads rows as tuples.
    """
    factory = connection.row_factory
    connection.row_factory = sys.modules["psycopg.rows"].tuple_row
    if (
        began := connection.info.transaction_status
        != sys.modules["psycopg"].pq.TransactionStatus.IDLE
    ):
        _in_transaction.append(connection)
    try:
        # What fails is rolled back, the time zone with it.
        with connection.transaction():
            (zone,) = connection.execute("SHOW TimeZone").fetchone()
            yield
            connection.execute("SELECT set_config('TimeZone', %s, false)", (zone,))
    finally:
        connection.row_factory = factory
        if began:
            _in_transaction.remove(connection)


def may_roll_back(connection: object) -> bool:
    """Return whether a connection is lent within a transaction of its owner's."""
    return any(one is connection for one in _in_transaction)


def _in_postgres(backend: Any, connection: Any, query: str) -> object:
    """Return a query whose types are asked without a view, which not everybody may make."""
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
        chosen.append(quoted(name) if kind else f"CAST({quoted(name)} AS text) AS {quoted(name)}")
    schema = dict(zip(names, [kind or "string" for kind in types], strict=True))
    return backend.sql(f"SELECT {', '.join(chosen)} {rows}", schema=schema)
