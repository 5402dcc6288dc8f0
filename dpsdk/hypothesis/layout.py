"""How one linear function of a record lies over the array of a universe."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpsdk._identity_map import IdentityMap
from dpsdk._records import frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Dense, Kronecker, LinearForm
from dpsdk.typing import Floats

__all__ = [
    "CHUNK",
    "Box",
    "Bytes",
    "Function",
    "beside",
    "function_of",
    "pieces",
    "split",
]

CHUNK = 2**15
"""So many cells are worked on at a time, a quarter of a MiB, which stays in cache."""

Box: TypeAlias = tuple[slice, ...]
"""One slice an attribute, in the order of the domain."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""An array of zeros and ones."""

_Inner = TypeVar("_Inner", Floats, Bytes)

_BOX_LIMIT = 64
_WRITTEN_LIMIT = 2**24


@frozen(eq=False)
class Function:
    """One linear function: zero outside `boxes`, which are disjoint.

    Inside them it is `height`; or there is one box, and it is `height` where `chosen` is 1, or
    `weights`. These have one axis an attribute, of length 1 along those that do not matter.
    """

    boxes: tuple[Box, ...]
    limits: tuple[float, float]
    """The smallest and the largest weight over the domain."""
    height: float = 1.0
    chosen: Bytes | None = None
    weights: Floats | None = None

    @property
    def nbytes(self) -> int:
        """Roughly how many bytes it takes."""
        arrays = (self.chosen, self.weights)
        return 512 * (1 + len(self.boxes)) + sum([a.nbytes for a in arrays if a is not None])


_known: IdentityMap[Function] = IdentityMap(most=2**14, most_bytes=2**28)


def function_of(form: LinearForm) -> Function:
    """The layout of a form of one function."""
    known = _known.get(form)
    if known is None:
        if form.rows != 1 or len(form.blocks) != 1:
            raise InvalidArgument("form", "a form of one function", f"{form.rows} functions")
        block = form.blocks[0]
        if isinstance(block, Dense):
            known = _of_dense(form.domain, block)
        else:
            known = _of_kronecker(form.domain, block.row(0))
        _known.keep(form, known, known.nbytes)
    return known


def check_written(form: LinearForm) -> None:
    """Refuse a form if weights of one of its functions would take too much room written out."""
    for block in form.blocks:
        if isinstance(block, Kronecker):
            real = [f.size for f in block.factors if not f.counting]
            if math.prod(real) > _WRITTEN_LIMIT:
                for row in range(block.rows):
                    function_of(LinearForm(form.domain, [block.row(row)]))


def split(shape: tuple[int, ...], limit: int = CHUNK) -> Iterator[Box]:
    """Cut an array into consecutive boxes of at most `limit` cells, in C order."""
    width, axis = 1, len(shape)
    while axis and width * shape[axis - 1] <= limit:
        axis -= 1
        width *= shape[axis]
    whole = tuple(slice(None) for _ in shape[axis:])
    if axis == 0:
        yield whole
        return
    stride = max(1, limit // width)
    for lead in np.ndindex(*shape[: axis - 1]):
        before = tuple(slice(number, number + 1) for number in lead)
        for start in range(0, shape[axis - 1], stride):
            yield (*before, slice(start, start + stride), *whole)


def beside(box: Box, shape: tuple[int, ...]) -> Iterator[Box]:
    """Disjoint boxes that make up all the rest of an array."""
    for axis, part in enumerate(box):
        after = tuple(slice(None) for _ in shape[axis + 1 :])
        for gap in (slice(0, part.start), slice(part.stop, shape[axis])):
            if gap.start < gap.stop:
                yield (*box[:axis], gap, *after)


def pieces(view: Floats, inner: _Inner) -> Iterator[tuple[Floats, _Inner]]:
    """Matching pieces of an array and of weights that broadcast to it."""
    if view.shape == inner.shape and view.flags.c_contiguous and inner.flags.c_contiguous:
        # Without axes the pieces are longer and the loop shorter.
        view, inner = view.reshape(-1), inner.reshape(-1)
    for box in split(inner.shape):
        reach = tuple(
            slice(None) if size == 1 else part for size, part in zip(inner.shape, box, strict=True)
        )
        yield view[reach], inner[box]


def _limits(height: float, *, everywhere: bool) -> tuple[float, float]:
    return (height, height) if everywhere else (min(height, 0.0), max(height, 0.0))


_NOWHERE = Function((), (0.0, 0.0), 0.0)


def _of_kronecker(domain: Domain, block: Kronecker) -> Function:
    height = block.scale
    runs: list[list[slice]] = [[slice(0, size)] for size in domain.shape]
    real: dict[int, Floats] = {}
    for name, factor in zip(block.names, block.factors, strict=True):
        axis = domain.position(name)
        if (span := factor.span) is not None:
            runs[axis] = [span] if span.start < span.stop else []
        else:
            weights = factor.matrix()[0]
            runs[axis] = _runs(weights)
            values = weights[weights != 0]
            if len(values) and (values == values[0]).all():
                height *= float(values[0])
            else:
                real[axis] = weights
        if not runs[axis]:
            return _NOWHERE
    if height == 0.0:
        return _NOWHERE
    if not real and math.prod(map(len, runs)) <= _BOX_LIMIT:
        boxes = tuple(product(*runs))
        whole = math.prod(part.stop - part.start for part in boxes[0]) == domain.size
        return Function(boxes, _limits(height, everywhere=whole), height)
    hull = tuple(slice(parts[0].start, parts[-1].stop) for parts in runs)
    lines: list[Floats] = [np.ones(1)] * len(runs)
    for axis, parts in enumerate(runs):
        if axis in real:
            lines[axis] = real[axis][hull[axis]]
        elif len(parts) > 1:
            line = np.zeros(hull[axis].stop)
            for part in parts:
                line[part] = 1.0
            lines[axis] = line[hull[axis]]
    needed = math.prod(map(len, lines))
    if needed > _WRITTEN_LIMIT:
        advice = "let real weights depend on fewer attributes"
        raise TooLarge("a function", needed, _WRITTEN_LIMIT, "weights", advice)
    inner = reduce(np.multiply.outer, lines)
    if real:
        return _weighted(domain, hull, inner * height)
    return Function((hull,), _limits(height, everywhere=False), height, inner.astype(np.uint8))


def _weighted(domain: Domain, box: Box, weights: Floats) -> Function:
    low, high = float(weights.min()), float(weights.max())
    if any(part != slice(0, size) for part, size in zip(box, domain.shape, strict=True)):
        low, high = min(low, 0.0), max(high, 0.0)
    return Function((box,), (low, high), weights=weights)


def _of_dense(domain: Domain, block: Dense) -> Function:
    flat = block.weights[0]
    first = int(np.argmax(flat != 0))
    height = float(flat[first])
    if height == 0.0:
        return _NOWHERE
    axes = [domain.position(name) for name in block.names]
    spread = [1] * len(domain.shape)
    for axis in axes:
        spread[axis] = domain.shape[axis]
    order = sorted(range(len(axes)), key=lambda place: axes[place])
    box = tuple(slice(0, size) for size in domain.shape)
    chunks = (flat[start : start + CHUNK] for start in range(0, len(flat), CHUNK))
    if all(bool(((chunk == 0) | (chunk == height)).all()) for chunk in chunks):
        ones = (flat != 0).view(np.uint8).reshape(block.shape).transpose(order)
        chosen: Bytes = np.ascontiguousarray(ones.reshape(spread))
        return Function((box,), _limits(height, everywhere=bool(chosen.all())), height, chosen)
    weights = flat.reshape(block.shape).transpose(order).reshape(spread)
    return _weighted(domain, box, weights)


def _runs(weights: Floats) -> list[slice]:
    """The stretches of neighbouring cells with a weight other than zero."""
    edges = np.flatnonzero(np.diff(weights != 0, prepend=False, append=False))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
