"""The histogram of a table from one group-by in its engine: only distinct keys come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dpsdk.data.engine.coded import code_name
from dpsdk.data.engine.keys import Key
from dpsdk.data.engine.table import stays_in_engine
from dpsdk.typing import Floats, Ints

__all__ = ["counted", "groups"]

_ROWS = "dpsdk_rows"
_TALLIED = 2**22
"""Records are counted together in a table of at most so many cells: 32 MiB."""


def groups(table: nw.LazyFrame[Any], keys: Sequence[Key]) -> tuple[Mapping[str, Ints], Floats]:
    """The cells that are not empty, by name, and how many rows each has; a cell outside is -1.

    The table is scanned once. Several records may be of the same cell.
    """
    if not stays_in_engine(table):
        frame = table.collect()
        return _tallied({key.name: key.codes(frame.get_column(key.name)) for key in keys})
    names = [code_name(place) for place in range(len(keys))]
    chosen = [key.expression.alias(name) for key, name in zip(keys, names, strict=True)]
    frame, counts = counted(table.select(*chosen), names)
    return {
        key.name: key.codes(frame.get_column(name)) for key, name in zip(keys, names, strict=True)
    }, counts


def counted(table: nw.LazyFrame[Any], names: Sequence[str]) -> tuple[nw.DataFrame[Any], Floats]:
    """The distinct rows of some columns, and how often each stands there."""
    frame = table.group_by(*names).agg(nw.len().alias(_ROWS)).collect()
    return frame, np.asarray(frame.get_column(_ROWS).to_numpy(), dtype=np.float64)


def _tallied(codes: Mapping[str, Ints]) -> tuple[Mapping[str, Ints], Floats]:
    """Equal records counted together, where the numbers of cells leave few that could be."""
    rows = len(next(iter(codes.values())))
    shape = [int(code.max(initial=-1)) + 2 for code in codes.values()]
    if prod(shape) > _TALLIED:
        return codes, np.ones(rows)
    number = np.zeros(rows, dtype=np.int64)
    for code, size in zip(codes.values(), shape, strict=True):
        number *= size
        number += code
        number += 1
    counts = np.bincount(number)
    found = np.flatnonzero(counts)
    places = np.unravel_index(found, shape)
    return {
        name: place.astype(np.int64) - 1 for name, place in zip(codes, places, strict=True)
    }, counts[found].astype(np.float64)
