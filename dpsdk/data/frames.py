"""Series of any library that narwhals reads, as columns of values.

Those of pandas and pyarrow are taken by their distinct values, each of which is matched once: what
a library has numbered already, as categories and dictionaries, is taken as it is; texts are
numbered by the library. Whether two values are one is only ever asked of exact built-ins.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpsdk._records import evolve
from dpsdk.data.columns import Column, Kind, array_column, kind_of_array
from dpsdk.data.moments import moment_column
from dpsdk.errors import MissingExtra
from dpsdk.typing import Array, Bools, Ints

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = [
    "is_of_library",
    "kind_of_dtype",
    "require_narwhals",
    "series_as_column",
    "series_column",
]

_TEMPORAL = (Kind.DATE, Kind.NAIVE_TIME, Kind.ZONED_TIME)
_LIBRARIES = {"narwhals", "pandas", "polars", "pyarrow", "modin", "cudf"}
_ENOUGH = 32
"""Bits for the numbers of as many distinct texts as any table has."""


def require_narwhals() -> None:
    """Import narwhals, here and not before."""
    try:
        import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtra("narwhals", "frames") from None
    del nw


def is_of_library(value: object) -> bool:
    """Return whether a value is of a class of a frame library, which narwhals reads."""
    return type(value).__module__.partition(".")[0] in _LIBRARIES


def series_column(series: object) -> Column | None:
    """Return a series or array of a frame library as a column; None if it is none."""
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


def kind_of_dtype(dtype: nw.dtypes.DType) -> Kind | str | None:
    """Return what the type of a series says of its values; None where its library must be asked."""
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
    """Return a series of narwhals as a column."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    if series.implementation.is_polars():
        # Its series look for themselves by their names, some of which would be patterns.
        series = series.alias("values")
    dtype, native = series.dtype, series.to_native()
    if (times := _times_of_dictionary(native)) is not None:
        return series_as_column(nw.from_native(times, series_only=True))
    guessed = _is_guessed(native)
    if (listed := _listed_column(native)) is not None:
        return evolve(listed, guessed=guessed)
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
    return Column(kind, values, missing, guessed=guessed)


def _is_guessed(native: object) -> bool:
    """Return whether a column is of a type that pandas takes from the rows, and is numpy's own."""
    dtype: Any = getattr(native, "dtype", None)
    held: Any = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    # The texts of pandas 3 are a type that it takes from the rows, too; their missing value is NaN.
    return isinstance(held, np.dtype) or (
        type(held).__name__ == "StringDtype" and isinstance(held.na_value, float)
    )


def _times_of_dictionary(native: Any) -> Any:
    """The dates or times that a dictionary of pyarrow stands for; None for any other column."""
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


def _listed_column(native: object) -> Column | None:
    """Return a series by its distinct values, or None where it is better read one by one."""
    library = type(native).__module__.partition(".")[0]
    if library == "pyarrow":
        return _of_arrow(native)
    if library == "pandas":
        return _of_pandas(native)
    return _of_polars(native) if library == "polars" else None


def _of_polars(native: Any) -> Column | None:
    polars = sys.modules["polars"]
    if native.dtype != polars.String:
        return None
    distinct = native.drop_nulls().unique()
    places = native.cast(polars.Enum(distinct)).to_physical()
    values, _ = array_column(distinct.to_list())
    missing: Bools | None = places.is_null().to_numpy() if places.null_count() else None
    filled: Ints = places.fill_null(0).to_numpy().astype(np.int64)
    return Column(Kind.TEXT, values, missing, filled)


def _of_arrow(native: Any) -> Column | None:
    arrow = sys.modules["pyarrow"]
    if not isinstance(native, arrow.ChunkedArray):
        return None
    types = arrow.types
    if not types.is_dictionary(native.type):
        if not (types.is_string(native.type) or types.is_large_string(native.type)):
            return None
        native = native.dictionary_encode()
    held = native.type.value_type
    if not (types.is_string(held) or types.is_large_string(held)):
        return None
    if native.type.index_type.bit_width < _ENOUGH and native.num_chunks > 1:
        # Numbers of few bits may not do for the dictionaries of all chunks together.
        number = arrow.int64()
        wide = [
            arrow.DictionaryArray.from_arrays(one.indices.cast(number), one.dictionary)
            for one in native.chunks
        ]
        native = arrow.chunked_array(wide, arrow.dictionary(number, held))
    chunks = native.unify_dictionaries().chunks
    # Texts of a dictionary may be null themselves, which are objects that match nothing.
    values, _ = array_column(chunks[0].dictionary.to_pylist() if chunks else [])
    parts = [chunk.indices for chunk in chunks]
    missing: Bools | None = None
    if any(part.null_count for part in parts):
        missing = np.concatenate(
            [np.asarray(part.is_null().to_numpy(zero_copy_only=False)) for part in parts]
        )
    places = [np.asarray(part.fill_null(0).to_numpy()) for part in parts]
    return Column(
        Kind.TEXT,
        values,
        missing,
        np.concatenate([np.empty(0, dtype=np.int64), *places]).astype(np.int64, copy=False),
    )


def _of_pandas(native: Any) -> Column | None:
    pandas = sys.modules["pandas"]
    dtype = native.dtype
    if isinstance(dtype, np.dtype):
        array: Array = np.asarray(native.array.to_numpy())
        if array.dtype.kind in "biuf":
            return Column(kind_of_array(array.dtype), array)
        return _of_texts(pandas, array) if array.dtype.kind == "O" else None
    if isinstance(dtype, pandas.CategoricalDtype):
        categories = native.array.categories
        spelt = isinstance(categories.dtype, pandas.StringDtype)
        values: Array = categories.to_numpy(dtype=object if spelt else None)
        kind = kind_of_array(values.dtype)
        if kind is Kind.UNTYPED and set(map(type, values)) <= {str}:
            kind = Kind.TEXT
        if not isinstance(kind, Kind) or not (spelt or isinstance(categories.dtype, np.dtype)):
            # Values of classes that pandas made for them, or types that numpy has not.
            return None
        places: Ints = np.asarray(native.array.codes).astype(np.int64)
        missing: Bools = places < 0
        places[missing] = 0
        if values.dtype.kind == "M":
            values = moment_column(values, None).values
        return Column(kind, values, missing, places)
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(native.array, pandas.arrays.ArrowExtensionArray):
        held = native.array.__arrow_array__()
        return _of_arrow(
            held if isinstance(held, arrow.ChunkedArray) else arrow.chunked_array([held])
        )
    if isinstance(dtype, pandas.StringDtype):
        return _of_texts(pandas, np.asarray(native.array.to_numpy(dtype=object)))
    return None


def _of_texts(pandas: Any, values: Array) -> Column | None:
    """Of an array of objects, if all are texts or missing; other classes may say what is one."""
    if not set(map(type, values)) <= {str, float, type(None), type(pandas.NA)}:
        return None
    # Where all are texts, pandas tells them apart by less than their characters: some versions stop
    # at a zero, and what is not Unicode is taken for how it is printed. One that is missing makes
    # it compare the values themselves.
    places, distinct = pandas.factorize(np.append(values, np.array([None], dtype=object)))
    places = places[:-1]
    missing = places < 0
    kind = Kind.TEXT if set(map(type, distinct)) <= {str} else Kind.UNTYPED
    return Column(kind, np.asarray(distinct), missing, np.where(missing, 0, places))
