"""Functions of a record that say the same, and a block of those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np

from dpsdk.forms.blocks import Dense, Kronecker
from dpsdk.typing import Floats, Ints

__all__ = ["distinct", "repeats"]


def repeats(blocks: Sequence[Dense | Kronecker]) -> Ints:
    """For each function its place among the distinct ones, in order; −1 for one that is zero.

    Two are the same where their weights are equal on every record, to the last digit, whatever
    attributes the blocks name.
    """
    known: dict[bytes, int] = {}
    places = [
        known.setdefault(key, len(known)) if key else -1 for block in blocks for key in _keys(block)
    ]
    return np.array(places, dtype=np.int64)


def distinct(
    blocks: Sequence[Dense | Kronecker], places: Ints, scales: Floats
) -> Iterator[Dense | Kronecker]:
    """The first function of each place, times the scale of that place; a zero if there is none."""
    start = seen = 0
    for block in blocks:
        own = places[start : start + block.rows]
        start += block.rows
        # The first of a place is where the places grow.
        before = np.maximum.accumulate(np.append(seen - 1, own))
        fresh = np.flatnonzero(own > before[:-1])
        seen = int(before[-1]) + 1
        if not len(fresh):
            continue
        if isinstance(block, Kronecker):
            yield Kronecker(block.names, block.factors, block.scale * float(scales[own[0]]))
        else:
            weights = block.weights[fresh] * scales[own[fresh], None]
            yield Dense(block.names, block.shape, weights)
    if not seen:
        yield Kronecker((), (), 0.0)


def _keys(block: Dense | Kronecker) -> Iterator[bytes]:
    """What tells each function apart from others; empty for one that is zero."""
    codes = np.indices(block.shape).reshape(len(block.shape), -1) if block.shape else []
    # Adding 0 leaves one zero of two.
    table = block.columns(list(codes)).reshape(-1, *block.shape) + 0.0
    idle = [
        (table == table.take([0], axis=axis + 1)).reshape(len(table), -1).all(axis=1)
        for axis in range(len(block.shape))
    ]
    order = sorted(range(len(block.names)), key=block.names.__getitem__)
    for row, weights in enumerate(table):
        kept = [axis for axis in order if not idle[axis][row]]
        dropped = [axis for axis in order if idle[axis][row]]
        part = weights.transpose(kept + dropped)[(..., *[0] * len(dropped))]
        if not part.any():
            yield b""
            continue
        digest = sha256(repr([block.names[axis] for axis in kept]).encode())
        digest.update(part.tobytes())
        yield digest.digest()
