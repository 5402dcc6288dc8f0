"""Tables brought to given margins, many of one shape at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dpsdk.typing import Floats

__all__ = ["Margins", "margins_of", "onto_simplex", "rake", "sums"]

Margins: TypeAlias = Sequence[Floats]
"""For each axis of a stack of tables, the tables with that axis summed out, of length one.

The first axis of every array counts the tables, and is no axis of a table.
"""

_CLOSE = 1e-6
_LEAST = 1e-9


def sums(tables: Floats) -> Floats:
    """The sum of each table of a stack, shape (tables,)."""
    totals: Floats = tables.reshape(len(tables), -1).sum(axis=1)
    return totals


def margins_of(tables: Floats) -> tuple[Floats, ...]:
    """The margins of each table of a stack."""
    return tuple(tables.sum(axis=axis, keepdims=True) for axis in range(1, tables.ndim))


def rake(tables: Floats, margins: Margins, *, sweeps: int = 40) -> Floats:
    """Scale tables, axis by axis, until they have given margins (Deming and Stephan 1940)."""
    tables = tables.copy()
    for _ in range(sweeps):
        off = np.zeros(len(tables))
        for axis, wanted in enumerate(margins, start=1):
            now = tables.sum(axis=axis, keepdims=True)
            np.maximum(off, sums(np.abs(now - wanted)), out=off)
            there = now > _LEAST
            tables *= np.divide(wanted, now, out=np.zeros_like(now), where=there)
        if (off <= _CLOSE * np.maximum(sums(margins[0]), 1.0)).all():
            break
    return tables


def onto_simplex(values: Floats, total: float) -> Floats:
    """The nearest numbers that are at least zero and sum to a total."""
    # By the largest first, beside which the total may be nothing in floats.
    values = values - values.max()
    falling = np.sort(values)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    shift = shifts[np.flatnonzero(falling > shifts)[-1]] if total > 0 else np.inf
    nearest: Floats = np.maximum(values - shift, 0.0)
    return nearest
