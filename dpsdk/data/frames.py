"""Data frames of any library that narwhals reads, as columns of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from dpsdk.errors import MissingExtra
from dpsdk.typing import Array

__all__ = ["columns_of", "require_narwhals"]


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


def columns_of(frame: object, names: Sequence[str]) -> tuple[dict[str, Array] | None, str]:
    """The named columns, masked where null; or None and what is wrong with the frame.

    A lazy frame is collected, its named columns only. Call `require_narwhals` first. Nothing is
    raised, since tracebacks and the messages of other libraries may quote values.
    """
    try:
        return _columns(frame, names)
    except Exception:  # noqa: BLE001  # its text may quote values
        return None, "cannot be read; collect and check it before it is handed over"


def _columns(frame: object, names: Sequence[str]) -> tuple[dict[str, Array] | None, str]:
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    table = nw.from_native(cast("nw.DataFrame[Any]", frame), pass_through=True)
    if not isinstance(table, nw.DataFrame | nw.LazyFrame):
        return None, f"expected a data frame, got {type(frame).__name__}"
    known = table.collect_schema().names()
    for name in names:
        if name not in known:
            return None, f"no column {name!r}"
    selected = table.select(*names)
    eager = selected.collect() if isinstance(selected, nw.LazyFrame) else selected
    columns: dict[str, Array] = {}
    for name in names:
        series = eager.get_column(name)
        if isinstance(series.dtype, nw.Categorical | nw.Enum):
            series = series.cast(nw.String)
        null = np.asarray(series.is_null().to_numpy(), dtype=bool)
        # Nulls turn integer columns into floats in some libraries, so they are taken out first.
        values = np.asarray(series.drop_nulls().to_numpy())
        column = np.zeros(len(null), dtype=values.dtype)
        column[~null] = values
        columns[name] = np.ma.array(column, mask=null)
    return columns, ""
