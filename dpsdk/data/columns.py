"""Columns as they are handed in: names, values, and the type that is known before any is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.errors import DataError
from dpsdk.typing import Array, Bools, Ints

__all__ = ["SAFE", "Column", "Kind", "array_column", "is_large", "kind_of_array", "require_columns"]


def require_columns(
    source: str, held: Sequence[str], wanted: Iterable[str], where: str = "", advice: str = ""
) -> None:
    """Check that a table has exactly one column of each name that will be read."""
    for name in wanted:
        count = held.count(name)
        if count > 1:
            raise DataError(source, f"has {count} columns {name!r}{where}")
        if count == 0:
            near = [one for one in held if one.strip().casefold() == name.strip().casefold()]
            hint = f"; there is {near[0]!r}" if near else ""
            hint += advice if near and near[0].strip() == name else ""
            raise DataError(source, f"no column {name!r}{where}{hint}")


class Kind(Enum):
    """The kind of values in a column, by its type."""

    BOOLEAN = "booleans"
    INTEGER = "integers"
    FLOAT = "floats"
    DECIMAL = "decimals"
    TEXT = "texts"
    DATE = "dates"
    """Days, without a time of day."""
    NAIVE_TIME = "times without a zone"
    """As a clock on the wall shows them; nobody says where."""
    ZONED_TIME = "times with a zone"
    """Instants, which clocks of different zones show differently."""
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
    """Of dates and times the seconds since 1970, of times with a zone in UTC; rounded down."""
    missing: Bools | None = None
    places: Ints | None = None
    """The place of each row's value among `values`; None where each row has its own."""
    guessed: bool = False
    """True if the rows decided on the type, so that one of them could make floats of integers."""

    def __len__(self) -> int:
        return len(self.values if self.places is None else self.places)


SAFE = 2**53
"""Below this, every integer is a float of 64 bits; from it on, several may have become one."""

_KINDS = {
    "b": Kind.BOOLEAN,
    "i": Kind.INTEGER,
    "u": Kind.INTEGER,
    "f": Kind.FLOAT,
    "U": Kind.TEXT,
    "T": Kind.TEXT,
    "O": Kind.UNTYPED,
}
_NAMES = {"m": "durations", "S": "bytes", "V": "records", "c": "complex numbers"}


def kind_of_array(dtype: np.dtype[np.generic]) -> Kind | str:
    """Return the kind of a dtype, or what it holds where no attribute reads that."""
    if dtype.kind == "M":
        unit, _ = np.datetime_data(cast("np.dtype[np.datetime64]", dtype))
        return Kind.DATE if unit in {"Y", "M", "W", "D"} else Kind.NAIVE_TIME
    return _KINDS.get(dtype.kind) or _NAMES.get(dtype.kind, "values of an unknown type")


def is_large(values: Array) -> Bools:
    """Return which numbers of an array may have become others as floats."""
    return (values >= SAFE) | (values <= -SAFE)


def array_column(given: object) -> tuple[Array, Bools | None]:
    """Return the values that were handed in as an array of numpy's own class, and their mask."""
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
