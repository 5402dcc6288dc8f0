"""Columns of pandas and pyarrow by their distinct values, each of which is matched once.

What a library has numbered already, as categories and dictionaries, is taken as it is; texts are
numbered by the library. Whether two values are one is only ever asked of exact built-ins.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dpsdk.data.columns import Column, Kind, array_column, kind_of_array
from dpsdk.data.moments import moment_column
from dpsdk.typing import Array, Bools, Ints

__all__ = ["listed_column"]

_ENOUGH = 32
"""Bits for the numbers of as many distinct texts as any table has."""


def listed_column(native: object) -> Column | None:
    """A series by its distinct values, or None where it is better read one by one."""
    library = type(native).__module__.partition(".")[0]
    if library == "pyarrow":
        return _of_arrow(native)
    if library == "pandas":
        return _of_pandas(native)
    return None


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
