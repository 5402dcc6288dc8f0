"""The histogram of a table from one group-by in its engine: only distinct keys come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dpsdk.data.engine.coded import code_name
from dpsdk.data.engine.keys import Key, keys_of
from dpsdk.data.engine.table import opened, stays_in_engine
from dpsdk.data.matching import Matcher
from dpsdk.errors import DpsdkError
from dpsdk.typing import Floats, Ints

__all__ = ["grouped", "groups", "groups_of_frame"]

_ROWS = "dpsdk_rows"
_TALLIED = 2**22
"""Records are counted together in a table of at most so many cells: 32 MiB."""


def grouped(table: nw.LazyFrame[Any], keys: Sequence[Key]) -> tuple[dict[str, Ints], Floats, int]:
    """The cells that are not empty, by name; how many rows each has; and how many are outside.

    The table is scanned once. Several records may be of the same cell.
    """
    codes, counts = groups(table, keys)
    inside = np.ones(len(counts), dtype=bool)
    for code in codes.values():
        inside &= code >= 0
    kept = {name: code[inside] for name, code in codes.items()}
    return kept, counts[inside], int(counts[~inside].sum())


def groups(table: nw.LazyFrame[Any], keys: Sequence[Key]) -> tuple[Mapping[str, Ints], Floats]:
    """The same with the cells outside, which are -1, among the others."""
    if not stays_in_engine(table):
        frame = table.collect()
        return _tallied({key.name: key.codes(frame.get_column(key.name)) for key in keys})
    names = [code_name(place) for place in range(len(keys))]
    chosen = [key.expression.alias(name) for key, name in zip(keys, names, strict=True)]
    frame = table.select(*chosen).group_by(*names).agg(nw.len().alias(_ROWS)).collect()
    counts = np.asarray(frame.get_column(_ROWS).to_numpy(), dtype=np.float64)
    return {
        key.name: key.codes(frame.get_column(name)) for key, name in zip(keys, names, strict=True)
    }, counts


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


def groups_of_frame(
    frame: object, matchers: Sequence[Matcher]
) -> tuple[Mapping[str, Ints], Floats] | str:
    """The same for a frame of any library, or what is wrong with it.

    Of errors, only those of this package are raised, since others may quote values.
    """
    try:
        table = opened(frame, [matcher.name for matcher in matchers])
        if isinstance(table, str):
            return table
        keys = keys_of(table, matchers)
        return keys if isinstance(keys, str) else groups(table, keys)
    except DpsdkError:
        raise
    except Exception:  # noqa: BLE001  # its text may quote values
        return "cannot be read; collect and check it before it is handed over"
