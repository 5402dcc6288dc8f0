"""Data frames and series of any library that narwhals reads, as columns of values."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpsdk.data.columns import Column, Kind, kind_of_array
from dpsdk.data.listed import listed_column
from dpsdk.data.matching import Matcher
from dpsdk.data.moments import moment_column
from dpsdk.errors import MissingExtra
from dpsdk.typing import Array

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = [
    "UNREADABLE",
    "frame_columns",
    "is_of_library",
    "kind_of_dtype",
    "require_narwhals",
    "series_as_column",
    "series_column",
]

UNREADABLE = "cannot be read; collect and check it before it is handed over"
"""What is said of a frame whose library raised, since its text may quote values."""

_TEMPORAL = (Kind.DATE, Kind.NAIVE_TIME, Kind.ZONED_TIME)
_LIBRARIES = {"narwhals", "pandas", "polars", "pyarrow", "modin", "cudf"}


def require_narwhals() -> None:
    """Import narwhals, here and not before.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    try:
        import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtra("narwhals", "frames") from None
    del nw


def is_of_library(value: object) -> bool:
    """Whether a value is of a class of a frame library, so that narwhals is needed to read it."""
    return type(value).__module__.partition(".")[0] in _LIBRARIES


def frame_columns(frame: object, matchers: Sequence[Matcher]) -> list[Column] | str:
    """The column of each matcher, or what is wrong with the frame.

    A lazy frame is collected, its named columns only, and only if their types are read. Call
    `require_narwhals` first. Nothing is raised, since the messages of other libraries may quote
    values.
    """
    try:
        return _columns(frame, matchers)
    except Exception:  # noqa: BLE001  # its text may quote values
        return UNREADABLE


def series_column(series: object) -> Column | None:
    """A series or array of a frame library as a column; None if it is none."""
    try:
        import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra
    except ImportError:
        return None
    # What is in a column, but is no column to narwhals.
    library = type(series).__module__.partition(".")[0]
    if library == "pyarrow" and isinstance(series, (arrow := sys.modules[library]).Array):
        series = arrow.chunked_array([series])
    elif library == "pandas":
        pandas = sys.modules[library]
        if isinstance(series, pandas.Index | pandas.api.extensions.ExtensionArray):
            series = pandas.Series(series)
    known = nw.from_native(cast("Any", series), series_only=True, pass_through=True)
    if not isinstance(known, nw.Series):
        return None
    return series_as_column(cast("Any", known))


def _columns(frame: object, matchers: Sequence[Matcher]) -> list[Column] | str:
    from dpsdk.data.engine.table import column_of, opened  # noqa: PLC0415  # an extra

    names = [matcher.name for matcher in matchers]
    table = opened(frame, names)
    if isinstance(table, str):
        return table
    schema = table.collect_schema()
    for matcher in matchers:
        kind = kind_of_dtype(schema[matcher.name])
        if kind is not None and (problem := matcher.mismatch(kind)):
            return problem
    read = table.select(*(column_of(table, name).alias(name) for name in names)).collect()
    return [series_as_column(read.get_column(name)) for name in names]


def kind_of_dtype(dtype: nw.dtypes.DType) -> Kind | str | None:
    """What the type of a series says of its values; None where its library must be asked."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    if dtype.is_numeric():
        return (
            Kind.INTEGER if dtype.is_integer() else Kind.FLOAT if dtype.is_float() else Kind.DECIMAL
        )
    if dtype.is_temporal():
        if isinstance(dtype, nw.Date):
            return Kind.DATE
        if isinstance(dtype, nw.Datetime):
            return Kind.NAIVE_TIME if dtype.time_zone is None else Kind.ZONED_TIME
        return "durations" if isinstance(dtype, nw.Duration) else None
    if dtype.is_nested():
        return "lists or records"
    named: dict[type[nw.dtypes.DType], Kind | str] = {
        nw.Boolean: Kind.BOOLEAN,
        nw.String: Kind.TEXT,
        nw.Object: Kind.UNTYPED,
        nw.Binary: "bytes",
    }
    return next((kind for known, kind in named.items() if isinstance(dtype, known)), None)


def series_as_column(series: nw.Series[Any]) -> Column:
    """A series of narwhals as a column."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    if series.implementation.is_polars():
        # Its series look for themselves by their names, some of which would be patterns.
        series = series.alias("values")
    dtype, native = series.dtype, series.to_native()
    if (times := _times_of_dictionary(native)) is not None:
        return series_as_column(nw.from_native(times, series_only=True))
    if (listed := listed_column(native)) is not None:
        return listed
    missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
    kind = kind_of_dtype(dtype)
    if isinstance(dtype, nw.Categorical | nw.Enum) and series.implementation.is_polars():
        kind, series = Kind.TEXT, series.cast(nw.String)
    if kind is None:
        name = str(getattr(native, "dtype", None) or getattr(native, "type", "")).lower()
        kind = next((known for start, known in _NATIVE.items() if name.startswith(start)), None)
        if kind is Kind.NAIVE_TIME and ("," in name or "tz=" in name):
            kind = Kind.ZONED_TIME
    if kind is Kind.NULL or isinstance(kind, str):
        # Of nulls there are no values, and of what no attribute reads none are wanted.
        return Column(kind, np.zeros(len(missing)), missing)
    if kind in _TEMPORAL:
        return moment_column(_moments(series, missing), missing, cast("Kind", kind))
    values = _values(series, kind, missing)
    if kind is None:
        kind = kind_of_array(values.dtype)
        if kind is Kind.UNTYPED and isinstance(dtype, nw.Unknown):
            # Objects of a class that its library made for them, as intervals.
            kind = "values of an unknown type"
    return Column(kind, values, missing)


def _times_of_dictionary(native: Any) -> Any:
    """What a dictionary of dates or times of pyarrow stands for; None for any other column."""
    arrow = sys.modules.get("pyarrow")
    if hasattr(getattr(native, "dtype", None), "pyarrow_dtype"):
        native = native.array.__arrow_array__()
    if arrow is None or not isinstance(native, arrow.Array | arrow.ChunkedArray):
        return None
    types, held = arrow.types, native.type
    if not (types.is_dictionary(held) and types.is_temporal(held.value_type)):
        return None
    chunked = native if isinstance(native, arrow.ChunkedArray) else arrow.chunked_array([native])
    return chunked.cast(held.value_type)


_NATIVE: dict[str, Kind | str] = {
    "null": Kind.NULL,
    "decimal": Kind.DECIMAL,
    "int128": Kind.INTEGER,
    "uint128": Kind.INTEGER,
    "datetime64": Kind.NAIVE_TIME,
    "timestamp": Kind.NAIVE_TIME,
    "date": Kind.DATE,
    "time": "times of day",
}
"""Types that some version of narwhals does not tell, by how their library writes them."""


def _moments(series: nw.Series[Any], missing: Array) -> Array:
    """Dates and times as numpy's, times with a zone in UTC; or as objects."""
    native = series.to_native()
    dtype = getattr(native, "dtype", None)
    # Of pandas: narwhals does not know all names of zones.
    if hasattr(dtype, "pyarrow_dtype"):
        return np.asarray(native.array.__arrow_array__().to_numpy())
    if getattr(dtype, "tz", None) is not None:
        return np.asarray(native.dt.tz_convert(None).to_numpy())
    return _values(series, None, missing)


def _values(series: nw.Series[Any], kind: Kind | str | None, missing: Array) -> Array:
    values: Array | None = None
    # Numpy drops zeros at the end of a text.
    if kind not in {Kind.DECIMAL, Kind.TEXT}:
        # Nulls turn integers into floats in some libraries, so they are taken out first.
        try:
            values = np.asarray(series.drop_nulls().to_numpy())
        except Exception:  # noqa: BLE001  # a type that numpy does not have, as 128 bits
            values = None
    # Nor may integers become floats; and arrays of numpy's texts drop zeros at their ends.
    allowed = {Kind.INTEGER: "iuO", Kind.TEXT: "O"}.get(cast("Kind", kind))
    if values is None or (allowed is not None and values.dtype.kind not in allowed):
        values = np.empty(int((~missing).sum()), dtype=object)
        values[:] = (
            series.drop_nulls().to_list()
            if kind is not Kind.TEXT
            else [item for item in series.to_list() if item is not None]
        )
    if len(values) == len(missing):
        return values
    column = np.zeros(len(missing), dtype=values.dtype)
    column[~missing] = values
    return column
