"""Columns as they are handed in: their values, and the type that is known before any is read."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import cast

import numpy as np
from attrs import frozen

from dpsdk.typing import Array, Bools, Ints

__all__ = ["Column", "Kind", "array_column", "kind_of_array"]


class Kind(Enum):
    """What the type of a column says of its values."""

    BOOLEAN = "booleans"
    INTEGER = "integers"
    FLOAT = "floats"
    DECIMAL = "decimals"
    TEXT = "texts"
    UNTYPED = "values of any type"
    """An object array or a list, in which each value goes by its own type."""
    NULL = "nulls only"
    """Every value is missing, as the type of the column says."""


@frozen(eq=False, repr=False)
class Column:
    """The values of a column and where they are missing. Private: has no repr."""

    kind: Kind | str
    """Or what it holds where no attribute reads that."""
    values: Array
    missing: Bools | None = None
    places: Ints | None = None
    """Where each row's value stands among `values`; None where each row has its own."""

    def __len__(self) -> int:
        return len(self.values if self.places is None else self.places)


_KINDS = {
    "b": Kind.BOOLEAN,
    "i": Kind.INTEGER,
    "u": Kind.INTEGER,
    "f": Kind.FLOAT,
    "U": Kind.TEXT,
    "T": Kind.TEXT,
    "O": Kind.UNTYPED,
}
_NAMES = {"M": "dates", "m": "durations", "S": "bytes", "V": "records", "c": "complex numbers"}


def kind_of_array(dtype: np.dtype[np.generic]) -> Kind | str:
    """The kind of a dtype, or what it holds where no attribute reads that."""
    return _KINDS.get(dtype.kind) or _NAMES.get(dtype.kind, "values of an unknown type")


def array_column(given: object) -> tuple[Array, Bools | None]:
    """An array of the values that were handed in, as no class of another author, and its mask."""
    if isinstance(given, np.ma.MaskedArray):
        masked = cast("np.ma.MaskedArray[tuple[int], np.dtype[np.generic]]", given)
        return np.asarray(masked.data), np.asarray(np.ma.getmaskarray(masked))
    if isinstance(given, np.ndarray):
        # A view of the base class, whose methods do what numpy's do.
        return np.asarray(cast("Array", given)), None
    values = list(cast("Iterable[object]", given))
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array, None
