"""Columns as a data frame of whichever library is at hand, and values as rows of such columns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import singledispatch
from importlib.util import find_spec
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument, MissingExtra
from dpsdk.typing import Array

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = [
    "Column",
    "ColumnKind",
    "FrameLibrary",
    "Framed",
    "Rows",
    "columns_of",
    "framed",
    "kind_of",
    "rows_of",
    "spelled",
    "to_frame",
]

FrameLibrary: TypeAlias = Literal["pandas", "polars", "pyarrow"]

ColumnKind: TypeAlias = Literal["text", "integer", "number", "truth", "day", "time", "moment"]
"""The kind of the entries of a column; a "time" has no zone, and a "moment" is in UTC."""

_EXACT = 2**53


@frozen
class Column:
    """Entries of one kind, with None where there is none."""

    values: Sequence[object]
    kind: ColumnKind


def _no_columns() -> Mapping[str, Column]:
    return {}


@frozen
class Rows:
    """A value as rows, one a number or whatever stands in its place.

    Columns that tell rows apart are `own`, by names of the package, or `labels`, by attributes.
    """

    values: Sequence[object]
    own: Mapping[str, Column] = field(factory=_no_columns)
    labels: Mapping[str, Column] = field(factory=_no_columns)


@singledispatch
def rows_of(value: object, /) -> Rows:
    """Return a value as rows. Classes whose values have several register how."""
    single, kind = (value,), type(value).__name__
    if value is None or isinstance(value, bool | np.bool_ | int | float | date):
        return Rows(single)
    array = cast("Array", value) if isinstance(value, np.ndarray) else None
    if array is not None and array.dtype.kind in "biuf":
        numbers: list[object] = array.reshape(-1).tolist()
        return Rows(numbers, {"entry": Column(range(len(numbers)), "integer")})
    expected = "a number, an array, a table or several of them"
    raise InvalidArgument("value", expected, f"a {kind}")


def kind_of(*several: Sequence[object]) -> ColumnKind:
    """Return the kind that all entries of some columns have; a text where they are of several."""
    classes = set[type]().union(*(map(type, values) for values in several))
    kinds: set[ColumnKind] = {_kind_of(made) for made in classes if made is not NoneType}
    if len(kinds) > 1:
        return "text"
    return kinds.pop() if kinds else "number"


def columns_of(*several: Sequence[object]) -> list[Column]:
    """Return columns of the one kind that all entries have, else of texts as `spelled`, or None."""
    kind = kind_of(*several)
    if kind != "text":
        return [Column(values, kind) for values in several]
    return [Column([spelled(value) or None for value in values], kind) for values in several]


def spelled(value: object) -> str:
    """Spell a number, a truth, a day or none as descriptions of tables say.

    Nothing and NaN are an empty cell; infinities are INF and -INF, truths true and false.

    >>> from dpsdk.publication import spelled
    >>> [spelled(value) for value in (0.1, float("inf"), float("nan"), True)]
    ['0.1', 'INF', '', 'true']
    """
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(float(value))
        return "" if math.isnan(value) else "INF" if value > 0 else "-INF"
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return value.isoformat() if isinstance(value, date) else str(value)


def _kind_of(made: type) -> ColumnKind:
    if issubclass(made, bool | np.bool_):
        return "truth"
    if issubclass(made, int | float):
        return "number"
    if issubclass(made, date):
        return "time" if issubclass(made, datetime) else "day"
    return "text"


def framed(rows: Rows, numbers: Mapping[str, Column], prefix: str) -> dict[str, Column]:
    """Return the columns of rows: what tells them apart, then numbers, by names of their own."""
    if not isinstance(prefix, str):
        raise InvalidArgument("prefix", "a text", shown(prefix))
    own = {f"{prefix}{name}": column for name, column in rows.own.items()}
    beside = {f"{prefix}{name}": column for name, column in numbers.items()}
    for name in (*own, *beside):
        if name in rows.labels:
            expected = f"one by which no column is called {shown(name)}, as an attribute is"
            raise InvalidArgument("prefix", expected, shown(prefix))
    return {**own, **rows.labels, **beside}


def to_frame(
    columns: Mapping[str, Column | Sequence[object]],
    backend: FrameLibrary,
) -> object:
    """Return the columns as a frame of a library, through narwhals."""
    if backend not in ("pandas", "polars", "pyarrow"):
        raise InvalidArgument("backend", '"pandas", "polars" or "pyarrow"', shown(backend))
    try:
        import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtra("narwhals", "frames") from None
    if find_spec(backend) is None:
        raise MissingExtra(backend)
    # As the library has them: of old ones narwhals does not read its own.
    series = {name: _series(name, column, backend).to_native() for name, column in columns.items()}
    return nw.from_dict(series, backend=backend).to_native()


class Framed(ABC):
    """A value that is a frame of columns, each of one kind."""

    __slots__ = ()

    @abstractmethod
    def _columns(self) -> Mapping[str, Column | Sequence[object]]:
        """The columns by name."""

    def to_frame(self, backend: FrameLibrary = "polars") -> object:
        """The same as a data frame of a library of your choice, through narwhals.

        Raises
        ------
        InvalidArgument
            If the library is another.
        MissingExtra
            If narwhals, which the extra `frames` installs, or that library itself is missing.
        """
        return to_frame(self._columns(), backend)


def _series(name: str, column: Column | Sequence[object], backend: FrameLibrary) -> nw.Series[Any]:
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    if not isinstance(column, Column):
        return nw.new_series(name, list(column), backend=backend)
    values, kind = list(column.values), column.kind
    dtype: nw.dtypes.DType | None = {
        "text": nw.String(),
        "integer": nw.Int64(),
        "number": nw.Float64(),
        "truth": nw.Boolean(),
        "day": nw.Date(),
        "time": nw.Datetime("us"),
        "moment": nw.Datetime("us", "UTC"),
    }[kind]
    if backend == "pandas":
        # It has no type of dates, but one of times; and no gaps among whole numbers or truths.
        if kind == "day":
            dtype = nw.Datetime("us")
        elif kind == "moment" and any(one is not None for one in values):
            dtype = None
        elif kind in ("text", "integer", "truth") and None in values:
            dtype = None
            if any(isinstance(one, int) and abs(one) > _EXACT for one in values):
                values = [None if one is None else str(one) for one in values]
    return nw.new_series(name, values, dtype, backend=backend)
