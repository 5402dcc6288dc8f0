"""Second moments of features: pairs of coordinates, and those moments that say the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np

from dpsdk._checks import shown, to_array
from dpsdk._records import frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.blocks import Dense, Kronecker
from dpsdk.forms.design import Coordinates
from dpsdk.typing import Array, Floats, Ints

__all__ = ["CoordinatePairs", "distinct", "moments_of", "repeats"]

WEIGHT_LIMIT = 2**24
"""No moments are written out with more weights than this: 128 MiB."""


@frozen(eq=False)
class CoordinatePairs:
    """The pairs i ≤ j of coordinates that come in stacks of such sizes, each pair once.

    Numbers of pairs with i < j are √2 times those of a matrix, so that they are as long together as
    the matrix is in the Frobenius norm.
    """

    sizes: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return sum(self.sizes)

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """The coordinates i and j of each pair. Those of two stacks stand together."""
        sizes = self.sizes
        starts = np.cumsum([0, *sizes])
        ends = [
            (rows + starts[place], columns + starts[later])
            for place in range(len(sizes))
            for later in range(place, len(sizes))
            for rows, columns in [_pairs_within(sizes, place, later)]
        ]
        rows, columns = zip(*ends, strict=True)
        return np.concatenate(rows), np.concatenate(columns)

    @property
    def scales(self) -> Floats:
        """How long the number of each pair is beside that of the matrix."""
        first, second = self.ends
        return np.where(first == second, 1.0, math.sqrt(2))

    @property
    def lengths(self) -> Floats:
        """The same for all second moments, of which one for each coordinate follows the pairs."""
        return np.concatenate([self.scales, np.ones(self.dimension)])

    def matrix(self, values: Array | Sequence[float]) -> Floats:
        """The symmetric matrix that numbers stand for. Raises `InvalidArgument` if they do not."""
        first, second = self.ends
        numbers = to_array("values", values, f"{len(first)} numbers")
        if numbers.shape != first.shape:
            raise InvalidArgument("values", f"{len(first)} numbers", f"shape {numbers.shape}")
        result = np.zeros((self.dimension, self.dimension))
        result[first, second] = result[second, first] = numbers / self.scales
        return result

    def joint(self, places: Ints) -> Floats:
        """How long second moments are that stand for several, one for each place."""
        there = places >= 0
        return np.sqrt(np.bincount(places[there], weights=np.rint(self.lengths[there] ** 2)))

    def moments(self, values: Array | Sequence[float], places: Ints) -> Floats:
        """All second moments, from those that are distinct; see `ConvexForm.moments_from`."""
        own, lengths = np.asarray(places), self.lengths
        fits = own.shape == lengths.shape and own.dtype.kind == "i"
        if not (fits and own.min() >= -1 and own.max() < len(own)):
            raise InvalidArgument("places", f"{len(lengths)} places from -1", shown(places))
        joint = self.joint(own)
        count = max(len(joint), 1)
        numbers = to_array("values", values, f"{count} numbers")
        if numbers.shape != (count,):
            raise InvalidArgument("values", f"{count} numbers", f"shape {numbers.shape}")
        result = np.zeros(len(own))
        there = own >= 0
        result[there] = (numbers[own[there]] / joint[own[there]]) * lengths[there]
        return result


def _pairs_within(sizes: Sequence[int], place: int, later: int) -> tuple[Ints, Ints]:
    """The pairs of coordinates of two stacks, each pair once if they are the same."""
    if place == later:
        return np.triu_indices(sizes[place])
    rows, columns = np.indices((sizes[place], sizes[later])).reshape(2, -1)
    return rows, columns


def moments_of(
    domain: Domain, parts: Sequence[Coordinates], label: Coordinates, scales: Floats
) -> list[Dense | Kronecker]:
    """All products of two coordinates, each once, and those with the label; each times a scale.

    They are on the labels of attributes, as coordinates are.
    """
    needed = 0
    for place, one in enumerate(parts):
        for other in (*parts[place:], label):
            names = {*one.names, *other.names}
            needed += math.prod([domain[name].known for name in names]) * one.width * other.width
    if needed > WEIGHT_LIMIT:
        advice = "use fewer features, or coarser ones"
        raise TooLarge("the moments of a model", needed, WEIGHT_LIMIT, "weights", advice)
    sizes, blocks, start = [one.width for one in parts], list[Dense | Kronecker](), 0
    for place, one in enumerate(parts):
        for later in range(place, len(parts)):
            rows, columns = _pairs_within(sizes, place, later)
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
    shape = tuple([domain[name].known for name in names])
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
    """A key of each function that is that of equal ones alone; empty for one that is zero."""
    codes = list(np.indices(block.shape).reshape(len(block.shape), -1)) if block.shape else []
    # Adding 0 leaves one zero of two.
    table = block.columns(codes).reshape(-1, *block.shape) + 0.0
    idle = [
        (table == table.take([0], axis=axis + 1)).reshape(len(table), -1).all(axis=1)
        for axis in range(len(block.shape))
    ]
    order = sorted(range(len(block.names)), key=block.names.__getitem__)
    for row, weights in enumerate(table):
        used = [axis for axis in order if not idle[axis][row]]
        dropped = [axis for axis in order if idle[axis][row]]
        part = weights.transpose(used + dropped)[(..., *[0] * len(dropped))]
        if not part.any():
            yield b""
            continue
        digest = sha256(repr([block.names[axis] for axis in used]).encode())
        digest.update(part.tobytes())
        yield digest.digest()
