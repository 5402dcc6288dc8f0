"""A table as cell numbers inside its engine, for all that must know cells before it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw

from dpsdk.data.engine.keys import Key
from dpsdk.data.engine.table import column_of, stays_in_engine
from dpsdk.data.engine.times import chosen
from dpsdk.errors import DataError

__all__ = ["coded", "code_name"]


def code_name(place: int) -> str:
    """What the cell numbers of a key are called."""
    return f"dpsdk_{place}"


def coded(
    table: nw.LazyFrame[Any], keys: Sequence[Key], keep: Sequence[str] = ()
) -> nw.LazyFrame[Any]:
    """Columns dpsdk_0, dpsdk_1, ... of cell numbers, one a key and -1 outside, beside those kept.

    For a key that is no cell number already, its distinct values are read and matched here, so a
    table is scanned twice. What a table that changes meanwhile holds in the second scan only
    is taken for a value that no attribute lists.

    Raises
    ------
    DataError
        If a column that is kept has a name that cell numbers have.
    """
    for name in keep:
        if name.casefold() in {code_name(place) for place in range(len(keys))}:
            raise DataError("the frame", f"a column {name!r}, which is a name kept for cells")
    if not stays_in_engine(table):
        return _column_by_column(table, keys, keep)
    cells = [_cell(table, key).alias(code_name(place)) for place, key in enumerate(keys)]
    return table.select(*cells, *(column_of(table, name).alias(name) for name in keep))


def _column_by_column(
    table: nw.LazyFrame[Any], keys: Sequence[Key], keep: Sequence[str]
) -> nw.LazyFrame[Any]:
    frame = table.collect()
    backend = frame.implementation
    codes: dict[str, Any] = {
        code_name(place): key.codes(frame.get_column(key.name)) for place, key in enumerate(keys)
    }
    if not keep:
        return nw.from_dict(codes, backend=backend).lazy()
    made = [nw.new_series(name, code, nw.Int64, backend=backend) for name, code in codes.items()]
    held = frame.select(*(column_of(table, name) for name in keep)).with_columns(*made)
    return held.select(nw.nth(*range(len(keep), held.shape[1]), *range(len(keep)))).lazy()


def _cell(table: nw.LazyFrame[Any], key: Key) -> nw.Expr:
    if key.direct:
        return key.expression
    name = code_name(0)
    found = table.select(key.expression.alias(name)).group_by(name).agg(nw.len().alias("n"))
    values = found.select(name).collect().get_column(name)
    listed: dict[int, list[object]] = {}
    for value, cell in zip(values.to_list(), key.codes(values).tolist(), strict=True):
        if value is not None and cell != key.rest:
            listed.setdefault(cell, []).append(value)
    expression = nw.lit(key.rest)
    if listed:
        among = [value for some in listed.values() for value in some]
        within = _among(key.expression, listed, sorted(listed))
        expression = chosen(key.expression.is_in(among), within, expression)
    return chosen(~key.expression.is_null(), expression, nw.lit(-1))


def _among(column: nw.Expr, listed: Mapping[int, list[object]], cells: Sequence[int]) -> nw.Expr:
    """The cell that lists a value, found by halves."""
    if len(cells) == 1:
        return nw.lit(cells[0])
    middle = len(cells) // 2
    first = [value for cell in cells[:middle] for value in listed[cell]]
    rest = _among(column, listed, cells[middle:])
    return chosen(column.is_in(first), _among(column, listed, cells[:middle]), rest)
