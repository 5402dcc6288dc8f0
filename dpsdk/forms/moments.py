"""Second moments of features, and those of them that say the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np

from dpsdk.domain import Domain
from dpsdk.errors import TooLarge
from dpsdk.forms.blocks import Dense, Kronecker
from dpsdk.forms.coordinates import Coordinates
from dpsdk.typing import Floats, Ints

__all__ = ["distinct", "moments_of", "repeats", "within"]

WEIGHT_LIMIT = 2**24
"""No moments are written out with more weights than this: 128 MiB."""


def within(sizes: Sequence[int], place: int, later: int) -> tuple[Ints, Ints]:
    """The pairs of coordinates of two stacks, each pair once if they are the same."""
    if place == later:
        return np.triu_indices(sizes[place])
    rows, columns = np.indices((sizes[place], sizes[later])).reshape(2, -1)
    return rows, columns


def moments_of(
    domain: Domain, parts: Sequence[Coordinates], label: Coordinates, scales: Floats
) -> list[Dense | Kronecker]:
    """All products of two coordinates, each once, and those with the label; each times a scale.

    Raises
    ------
    TooLarge
        If they would have more than 2^24 weights.
    """
    needed = 0
    for place, one in enumerate(parts):
        for other in (*parts[place:], label):
            names = {*one.names, *other.names}
            needed += math.prod([domain[name].size for name in names]) * one.width * other.width
    if needed > WEIGHT_LIMIT:
        advice = "use fewer features, or coarser ones"
        raise TooLarge("the moments of a model", needed, WEIGHT_LIMIT, "weights", advice)
    sizes, blocks, start = [one.width for one in parts], list[Dense | Kronecker](), 0
    for place, one in enumerate(parts):
        for later in range(place, len(parts)):
            rows, columns = within(sizes, place, later)
            own = scales[start : (start := start + len(rows))]
            blocks.append(_product(domain, one, rows, parts[later], columns, own))
    for one in parts:
        rows = np.arange(one.width)
        own = scales[start : (start := start + len(rows))]
        blocks.append(_product(domain, one, rows, label, np.zeros_like(rows), own))
    return blocks


def _product(
    domain: Domain,
    one: Coordinates,
    rows: Ints,
    other: Coordinates,
    columns: Ints,
    scales: Floats,
) -> Dense | Kronecker:
    """Products of coordinates, each times a scale."""
    touched = {*one.names, *other.names}
    names = tuple([name for name in domain.names if name in touched])
    weights = one.spread(names)[rows] * other.spread(names)[columns]
    weights = weights * scales.reshape(-1, *[1] * len(names))
    if not names and len(scales) == 1:
        return Kronecker((), (), float(weights[0]))
    shape = tuple([domain[name].size for name in names])
    return Dense(names, shape, weights.reshape(len(scales), -1))


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
    codes = list(np.indices(block.shape).reshape(len(block.shape), -1)) if block.shape else []
    # Adding 0 leaves one zero of two.
    table = block.columns(codes).reshape(-1, *block.shape) + 0.0
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
