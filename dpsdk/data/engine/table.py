"""Frames of any library that narwhals knows, opened as one lazy table."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, cast

import narwhals.stable.v2 as nw

from dpsdk._records import evolve, frozen
from dpsdk.data.columns import require_columns
from dpsdk.data.sql import quoted
from dpsdk.errors import DataError

__all__ = ["Table", "column_of", "columns_read", "frame_names", "open_table", "server_of"]

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_WITHOUT_NAN = {"mssql", "mysql", "sqlite"}
_COLLATED = {"mssql", "mysql", "singlestoredb"}


@frozen(eq=False, repr=False)
class Table:
    """The columns of a frame that will be read, of which no row was read yet.

    Parameters
    ----------
    source
        The frame, as refusals name it.
    frame
        Those columns, in which texts are told apart by all their characters.
    schema
        Their types, resolved once.
    whole
        True if all rows of a frame of Polars are read, since some of each person are chosen here.
    """

    source: str
    frame: nw.LazyFrame[Any]
    schema: Mapping[str, nw.dtypes.DType]
    whole: bool = False

    @property
    def in_engine(self) -> bool:
        """True if its engine groups rows by expressions; other tables are read by columns."""
        known = self.frame.implementation
        if known.is_polars():
            # It groups by no objects of Python.
            return not self.whole and not any(
                isinstance(dtype, nw.Object) for dtype in self.schema.values()
            )
        return not (known.is_pandas_like() or known.is_pyarrow())

    @property
    def server(self) -> str:
        """The database that Ibis works with; nothing where a table is not of Ibis."""
        return server_of(self.frame)

    @property
    def is_loose(self) -> bool:
        """True if a column may hold values of other types than its own, as texts among integers."""
        return self.server == "sqlite"

    @property
    def compares_exactly(self) -> bool:
        """True if its engine is known to tell all texts apart, and to rank rows."""
        known = self.frame.implementation
        if known.is_ibis():
            return self.server in {"duckdb", "postgres"}
        return bool(known.is_duckdb() or known.is_pyspark() or known.is_pyspark_connect())

    def column(self, name: str) -> nw.Expr:
        """Return a column by its exact name."""
        return column_of(self.frame, name)

    def is_number(self, column: nw.Expr) -> nw.Expr:
        """Return whether a float is there and is no NaN, asked in a way that its engine has."""
        known = self.frame.implementation
        if not (known.is_duckdb() or known.is_ibis()):
            return ~(column.is_null() | column.is_nan())
        if self.server in _WITHOUT_NAN:
            return ~column.is_null()
        # DuckDB takes isnan for false, and a comparison for true, where that is so of the smallest
        # and largest number in the statistics of a Parquet file, of which NaN is none. Of a
        # difference it takes nothing for granted. That of infinities is NaN, so they are asked for.
        infinite = float("inf")
        return (column - column == 0) | (column == infinite) | (column == -infinite)


def columns_read(frame: nw.LazyFrame[Any]) -> Mapping[str, Sequence[object] | nw.Series[Any]]:
    """Read the columns of a frame.

    Those of SQLite may hold values of several types. They are lists of these as they are: the way
    through a frame would make floats of integers beside a null.
    """
    if server_of(frame) != "sqlite":
        read = frame.collect()
        return {name: read.get_column(name) for name in read.columns}
    native: Any = frame.to_native()
    cursor = native.get_backend().con.cursor()
    cursor.row_factory = None
    # A name may ask for a converter.
    plain = native.select(
        **{f"c{place}": native[name] for place, name in enumerate(native.columns)}
    )
    connection = cursor.connection
    factory = connection.text_factory
    # What is no UTF-8 becomes a text that matches nothing, and lets no other row down.
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        rows = cursor.execute(plain.compile()).fetchall()
    finally:
        connection.text_factory = factory
    return {name: [row[place] for row in rows] for place, name in enumerate(native.columns)}


def server_of(frame: nw.LazyFrame[Any]) -> str:
    """Return what Ibis calls the database of a frame; nothing where it is not of Ibis."""
    native: Any = frame.to_native()
    return str(native.get_backend().name) if frame.implementation.is_ibis() else ""


def column_of(frame: nw.LazyFrame[Any], name: str) -> nw.Expr:
    """Return a column of a frame by its exact name, with whatever characters that has."""
    known = frame.implementation
    if known.is_pyspark() or known.is_pyspark_connect():
        # A point in a name would otherwise ask for a field of a record.
        return nw.col("`" + name.replace("`", "``") + "`")
    if known.is_polars() and (name == "*" or (name[:1], name[-1:]) == ("^", "$")):
        # Such a name is a pattern, and would ask for whichever columns it matches.
        return nw.col("^" + _SPECIAL.sub(r"\\\g<0>", name) + "$")
    return nw.col(name)


def frame_names(frame: object, source: str) -> list[str]:
    """Return the names of all columns of a frame. Reads no row."""
    native: Any = frame
    # These may repeat a name.
    if type(frame).__module__.partition(".")[0] in {"pandas", "pyarrow"} and hasattr(
        native, "columns"
    ):
        held = list(getattr(native, "column_names", native.columns))
    else:
        made = nw.from_native(cast("nw.DataFrame[Any]", native), pass_through=True)
        if not isinstance(made, nw.DataFrame | nw.LazyFrame):
            raise DataError(source, f"expected a data frame, got {type(frame).__name__}")
        held = made.lazy().collect_schema().names()
    if not all(isinstance(name, str) for name in held):
        raise DataError(source, "columns with names that are no texts; rename them")
    return held


def open_table(
    frame: object, names: Sequence[str], source: str = "the frame", *, whole: bool = False
) -> Table:
    """Open the named columns of an eager or lazy frame, relation or table.

    Other columns may be of any type, and may repeat a name.
    """
    native: Any = frame
    names = list(dict.fromkeys(names))
    library = type(frame).__module__.partition(".")[0]
    if library in {"pandas", "pyarrow", "modin", "cudf"} and hasattr(native, "columns"):
        # These may repeat a name.
        held = list(getattr(native, "column_names", native.columns))
        levels: list[object] = list(getattr(getattr(native, "index", None), "names", ()))
        for name in names:
            if name in levels and name not in held:
                reason = (
                    f"no column {name!r}, which is a level of the index; reset_index makes it one"
                )
                raise DataError(source, reason)
        require_columns(source, held, names)
        native = native.select(names) if hasattr(native, "select") else native[names]
    made = nw.from_native(cast("nw.DataFrame[Any]", native), pass_through=True)
    if not isinstance(made, nw.DataFrame | nw.LazyFrame):
        raise DataError(source, f"expected a data frame, got {type(frame).__name__}")
    lazy = made.lazy()
    if lazy.implementation.is_dask():
        # Its columns of objects are read one by one, as those of pandas are.
        lazy = lazy.collect().lazy()
    schema = lazy.collect_schema()
    held = schema.names()
    require_columns(source, held, names)
    own = {name: schema[name] for name in names}
    chosen = lazy.select(*(column_of(lazy, name).alias(name) for name in names))
    table = Table(source, chosen, own, whole)
    if table.in_engine and not lazy.implementation.is_polars():
        for name in names:
            # These engines read one of the two, and do not say which.
            twins = [other for other in held if other.casefold() == name.casefold()]
            if len(twins) > 1:
                both = " and ".join(repr(twin) for twin in twins)
                raise DataError(source, f"columns {both} are one to its engine; rename them")
    loose = table.is_loose
    texts = [name for name, dtype in own.items() if loose or isinstance(dtype, nw.String)]
    return evolve(table, frame=_without_collation(table, texts)) if texts else table


def _without_collation(table: Table, texts: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return the same columns, of which the texts are told apart by all their characters.

    Some columns have a collation that takes "a" for "A", or drops blanks at the end. An engine that
    groups by such a column returns one of the texts, and which one depends on the other rows: a row
    would be of a cell, or of a person, that others decide about.
    """
    known = table.frame.implementation
    native: Any = table.frame.to_native()
    if known.is_duckdb():
        chosen = [
            f"{quoted(name)} COLLATE C AS {quoted(name)}" if name in texts else quoted(name)
            for name in table.schema
        ]
        return _lazy(native.project(", ".join(chosen)))
    if known.is_pyspark() or known.is_pyspark_connect():
        return _of_spark(native, texts)
    return _of_ibis(table, native, texts) if known.is_ibis() else table.frame


def _lazy(native: Any) -> nw.LazyFrame[Any]:
    frame: nw.LazyFrame[Any] = nw.from_native(native)
    return frame


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
    return _lazy(native)


def _of_ibis(table: Table, native: Any, texts: Sequence[str]) -> nw.LazyFrame[Any]:
    match table.server:
        case "duckdb":
            asked = native.get_backend().con.sql("SELECT current_setting('default_collation')")
            if asked.fetchall()[0][0]:
                reason = "default_collation, which takes some texts for one, is set; reset it"
                raise DataError(table.source, reason)
            own = _through_bytes("encode", "decode")
        case "postgres":
            own = _through_bytes("convert_to", "convert_from", "UTF8")
        case "sqlite":
            own = _either
        case server if server in _COLLATED:
            reason = (
                f"texts of {server}, which takes some for one; hand over a frame that was collected"
            )
            raise DataError(table.source, reason)
        case _:
            return table.frame
    return _lazy(native.mutate(**{name: own(native[name]) for name in texts}))


def _either(column: Any) -> Any:
    """Return a column without its collation and declared type: what a function returns has none."""
    return column.coalesce(column)


def _joined(column: Any) -> Any:
    return column + ""


@cache
def _through_bytes(there: str, back: str, *encoding: str) -> Callable[[Any], Any]:
    """Return what makes a text anew of its bytes, by functions of an engine."""
    builtin: Any = sys.modules["ibis"].udf.scalar.builtin
    named = _of_two if encoding else _of_one
    more = ["string"] * len(encoding)
    encode = builtin(named, name=there, signature=(("string", *more), "binary"))
    decode = builtin(named, name=back, signature=(("binary", *more), "string"))
    # Joined first, as Ibis calls texts what PostgreSQL does not, such as enumerations.
    return lambda column: decode(encode(_joined(column), *encoding), *encoding)


def _of_one(value: Any) -> None:
    """Stand for a function of an engine: Ibis takes the names of its parameters from here."""


def _of_two(value: Any, encoding: str) -> None:
    """Stand for a function that is told of an encoding, too."""
