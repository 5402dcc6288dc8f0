"""Frames of any library that narwhals knows, opened as one lazy table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import narwhals.stable.v2 as nw

from dpsdk.data.engine.collation import without_collation

__all__ = [
    "column_of",
    "is_loose",
    "is_number",
    "opened",
    "server_of",
    "stays_in_engine",
]

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")

_REPEATING = {"pandas", "pyarrow", "modin", "cudf"}
"""The libraries whose frames may repeat a name."""


def opened(frame: object, names: Sequence[str]) -> nw.LazyFrame[Any] | str:
    """The table that a frame is, or what is wrong with it; nothing of it is read.

    Its texts are told apart by all their characters, as `without_collation` says.

    Parameters
    ----------
    frame
        An eager or lazy frame, relation or table of any library that narwhals reads.
    names
        The columns that will be read. Others may be of any type, and may repeat a name.
    """
    counts = _counted_names(frame)
    for name in names:
        if counts[name] > 1:
            return f"has {counts[name]} columns {name!r}"
    if counts and max(counts.values()) > 1:
        # Names repeat among columns that nobody asked for.
        missing = [name for name in names if not counts[name]]
        if missing:
            return f"no column {missing[0]!r}"
        native = cast("Any", frame)
        frame = native.select(list(names)) if hasattr(native, "select") else native[list(names)]
    table = nw.from_native(cast("nw.DataFrame[Any]", frame), pass_through=True)
    if not isinstance(table, nw.DataFrame | nw.LazyFrame):
        return f"expected a data frame, got {type(frame).__name__}"
    lazy = table.lazy()
    if lazy.implementation.is_dask():
        # Its columns of objects are read one by one, as those of pandas are.
        lazy = lazy.collect().lazy()
    held = lazy.collect_schema().names()
    for name in names:
        if name not in held:
            return f"no column {name!r}"
        if stays_in_engine(lazy) and not lazy.implementation.is_polars():
            # These engines read one of the two, and do not say which.
            twins = [other for other in held if other.casefold() == name.casefold()]
            if len(twins) > 1:
                both = " and ".join(repr(twin) for twin in twins)
                return f"columns {both} are one to its engine; rename them"
    return without_collation(lazy, names)


def _counted_names(frame: object) -> Counter[str]:
    if type(frame).__module__.partition(".")[0] not in _REPEATING:
        return Counter()
    names = getattr(frame, "column_names", None)
    return Counter(cast("Any", frame).columns if names is None else names)


def stays_in_engine(table: nw.LazyFrame[Any]) -> bool:
    """Whether its engine groups rows by expressions; other tables are read column by column."""
    known = table.implementation
    if known.is_polars():
        # It groups by no objects of Python.
        return nw.Object not in {type(dtype) for dtype in table.collect_schema().dtypes()}
    return not (known.is_pandas_like() or known.is_pyarrow())


def column_of(table: nw.LazyFrame[Any], name: str) -> nw.Expr:
    """A column by its exact name, with whatever characters that has."""
    known = table.implementation
    if known.is_pyspark() or known.is_pyspark_connect():
        # A point in a name would otherwise ask for a field of a record.
        return nw.col("`" + name.replace("`", "``") + "`")
    if known.is_polars() and (name == "*" or (name[:1], name[-1:]) == ("^", "$")):
        # Such a name is a pattern, and would ask for whichever columns it matches.
        return nw.col("^" + _SPECIAL.sub(r"\\\g<0>", name) + "$")
    return nw.col(name)


_WITHOUT_NAN = {"mssql", "mysql", "sqlite"}


def is_loose(table: nw.LazyFrame[Any]) -> bool:
    """Whether a column may hold values of other types than its own, as texts among integers."""
    return server_of(table) == "sqlite"


def server_of(table: nw.LazyFrame[Any]) -> str:
    """What Ibis calls the data base that it works with; nothing where a table is not of Ibis."""
    native: Any = table.to_native()
    return str(native.get_backend().name) if table.implementation.is_ibis() else ""


def is_number(table: nw.LazyFrame[Any], column: nw.Expr) -> nw.Expr:
    """Whether a float is there and is no NaN, asked in a way that its engine has."""
    known = table.implementation
    if not (known.is_duckdb() or known.is_ibis()):
        return ~(column.is_null() | column.is_nan())
    if known.is_ibis() and server_of(table) in _WITHOUT_NAN:
        return ~column.is_null()
    # DuckDB takes isnan for false, and a comparison for true, where that is so of the smallest and
    # largest number in the statistics of a Parquet file, of which NaN is none. Of a difference it
    # takes nothing for granted. That of infinities is NaN, so they are asked for as well.
    infinite = float("inf")
    return (column - column == 0) | (column == infinite) | (column == -infinite)
