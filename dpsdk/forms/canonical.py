"""Digests that tell linear functions apart, however they were written.

A linear function of a record is a weight on each cell of a universe. Its weights are taken as the
exact numbers that floats are, and those of a product as exact products, never rounded. It is then
written in one way only:

- Attributes that its weights do not depend on are left out.
- Where the rest is a product of one line of weights an attribute, each line is divided by the
  number that leaves integers without a common divisor, of which the first that is not zero is
  positive. Such lines are unique, and so is the number that stands before them.
- Where it is no product, all weights on these attributes are divided together.

An interval of ones is written by its ends; integers that rise evenly on more than 2^24 cells, and
are zero on all others, by these ends, the first integer and the rise; other weights by the places
where they change, in order, little-endian, and the integers from there on. What is written has
lengths in front of whatever could be of several lengths, so that no two functions are written
alike. The identity of a function is the SHA-256 of this and of the names and sizes of the
universe's attributes; that of a form is the SHA-256 of those of its functions, in order. What
labels the cells have plays no part: it is for the domain to say. The heads carry a version, and the
meaning of a version never changes.

An interval takes about a microsecond, however large its attribute; other lines take as long as
their weights, and functions that were written out as many steps as they have cells. Factors and
blocks give the texts of their functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Array, Floats, Ints

if TYPE_CHECKING:
    from dpsdk.forms.blocks import Block

__all__ = [
    "FORM",
    "ONE",
    "ZERO",
    "Line",
    "Number",
    "head_text",
    "interval_line",
    "line_of",
    "of_functions",
    "ramp_line",
    "runs_line",
    "runs_of",
    "table_text",
    "to_number",
]

FORM = b"dpsdk linear form 1\0"
_FUNCTIONS = b"dpsdk linear function 1\0"

_PRIME = 2**31 - 1
"""Products of large integers are compared by their remainders before they are multiplied out."""

_LIMIT = 2**62

Number: TypeAlias = tuple[int, int]
"""A whole number, odd unless it is zero, and the power of two that it is multiplied by."""

Line: TypeAlias = tuple[Number, bytes]
"""The factor before a line of weights, and the line, empty where all weights are the same."""

ZERO: Number = (0, 0)
ONE: Number = (1, 0)


def of_functions(domain: Domain, blocks: Iterable[Block]) -> Iterator[bytes]:
    """The identity of each function of some blocks that fit the domain, 32 bytes each.

    Raises `InvalidArgument` if a block has a scale that is not finite.
    """
    digest = sha256(_FUNCTIONS)
    for name, size in zip(domain.names, domain.shape, strict=True):
        plain = name.encode("utf-8", "surrogatepass")
        digest.update(b"%x:%b%x;" % (len(plain), plain, size))
    universe = digest.digest()
    for block in blocks:
        for text in block.texts([domain.position(name) for name in block.names]):
            yield sha256(universe + text).digest()


def table_text(weights: Floats, axes: Sequence[int]) -> bytes:
    """The text of weights on attributes of these places, as a product where they are one."""
    touched = list(axes)
    for place in reversed(range(weights.ndim)):
        first: Floats = np.asarray(weights.take(0, axis=place))
        if (weights == np.expand_dims(first, place)).all():
            weights = first
            del touched[place]
    if not touched:
        return head_text(to_number(float(weights)))
    if len(touched) == 1:
        number, text = line_of(weights, touched[0])
        return head_text(number) + text
    flat = np.ascontiguousarray(weights).reshape(-1)
    number, whole = _primitive(flat)
    table = whole.reshape(weights.shape)
    cell = np.unravel_index(int(np.flatnonzero(whole)[0]), table.shape)
    pivot = tuple([int(place) for place in cell])
    along = [np.moveaxis(table, place, -1)[_without(pivot, place)] for place in range(table.ndim)]
    if not _is_product(table, along, int(table[pivot])):
        starts = _changes(flat)
        shape = b",".join([b"%x" % axis for axis in touched])
        return head_text(number) + b"d%b;" % shape + _runs(starts, whole[starts])
    # Lines without a common divisor have a product without one (Gauss's lemma), and the first
    # number that is not zero lies where each line has its own, so nothing else stands before them.
    texts: list[bytes] = []
    for line, axis in zip(map(_divided, along), touched, strict=True):
        starts = _changes(line)
        texts.append(runs_line(starts, line[starts], axis, line.size))
    return head_text(number) + b"".join(texts)


def _without(pivot: tuple[int, ...], place: int) -> tuple[int, ...]:
    return pivot[:place] + pivot[place + 1 :]


def _is_product(table: Array, lines: Sequence[Array], pivot: int) -> bool:
    """True if integers are the product of the lines through one of them that is not zero."""
    factor = pivot ** (len(lines) - 1)
    largest = max(int(np.abs(table).max()), 1)
    if largest ** len(lines) < _LIMIT:
        return bool((table * factor == reduce(np.multiply.outer, lines)).all())
    rest = (table % _PRIME).astype(np.int64) * (factor % _PRIME) % _PRIME
    few = [(line % _PRIME).astype(np.int64) for line in lines]
    if not (rest == reduce(_remainders, few)).all():
        return False
    whole = [line.astype(object) for line in lines]
    same = table.astype(object) * factor == reduce(np.multiply.outer, whole)
    return bool(np.all(same))


def _remainders(one: Array, other: Array) -> Array:
    return np.multiply.outer(one, other) % _PRIME


def interval_line(axis: int, size: int, start: int, stop: int) -> Line:
    """The line that is one on a range of cells, and zero elsewhere."""
    if start >= stop:
        return ZERO, b""
    if start == 0 and stop == size:
        return ONE, b""
    return ONE, b"i%x,%x,%x;" % (axis, start, stop)


def line_of(weights: Floats, axis: int) -> Line:
    """The line of any weights along one attribute."""
    size = len(weights)
    return runs_of(weights, axis, size, np.arange(size), size)


def runs_of(weights: Floats, axis: int, size: int, starts: Ints, stop: int) -> Line:
    """The line of an attribute of so many cells that has these weights on some, else zeros.

    Each weight from its own start to the next one, and the last up to, not including, a stop.
    """
    changes = _changes(weights)
    values, starts = weights[changes], starts[changes]
    if starts[0] > 0 or stop < size:
        before, after = np.zeros(int(starts[0] > 0)), np.zeros(int(stop < size))
        ends = before.astype(np.int64), after.astype(np.int64) + stop
        starts = np.concatenate([ends[0], starts, ends[1]])
        values = np.concatenate([before, values, after])
        changes = _changes(values)
        starts, values = starts[changes], values[changes]
    if len(values) == 1:
        return to_number(float(values[0])), b""
    number, whole = _primitive(values)
    return number, runs_line(starts, whole, axis, size)


def ramp_line(axis: int, size: int, cells: range, start: int, step: int) -> Line:
    """The line of integers that rise evenly on many cells, none but they, too long to be written.

    The weights of the first cell and of the last are not zero.
    """
    if not step:
        text = interval_line(axis, size, cells.start, cells.stop)[1]
        return _odd(start, 0), text if start else b""
    divisor = math.gcd(start, step) * (-1 if start < 0 else 1)
    ends = (axis, cells.start, cells.stop, start // divisor, step // divisor)
    return _odd(divisor, 0), b"r%x,%x,%x,%x,%x;" % ends


def runs_line(starts: Array, whole: Array, axis: int, size: int) -> bytes:
    """A line of integers without a common divisor, by the places where they change."""
    ones = np.flatnonzero(whole)
    if len(whole) == 1:
        return b""
    if len(ones) == 1 and whole[ones[0]] == 1:
        place = int(ones[0])
        stop = int(starts[place + 1]) if place + 1 < len(starts) else size
        return interval_line(axis, size, int(starts[place]), stop)[1]
    return b"l%x;" % axis + _runs(starts, whole)


def _changes(flat: Array) -> Array:
    """The place where a line begins, and those where it differs from the entry before."""
    return np.concatenate(([0], np.flatnonzero(flat[1:] != flat[:-1]) + 1))


def _runs(starts: Array, whole: Array) -> bytes:
    small = whole.dtype != object or all(abs(number) < _LIMIT for number in whole.tolist())
    values = (
        b"8" + whole.astype("<i8").tobytes()
        if small
        else b"x" + b",".join([b"%x" % number for number in whole.tolist()])
    )
    return b"%x,%x;" % (len(starts), len(values)) + starts.astype("<i8").tobytes() + values


def head_text(number: Number) -> bytes:
    """The text of what stands before lines."""
    return b"%x,%x;" % _odd(*number)


def to_number(value: float) -> Number:
    """The number that a float is. Raises `InvalidArgument` if it is not finite."""
    if not math.isfinite(value):
        raise InvalidArgument("blocks", "of finite weights", str(value))
    above, below = value.as_integer_ratio()
    return _odd(above, 1 - below.bit_length())


def _odd(whole: int, power: int) -> Number:
    if not whole:
        return ZERO
    zeros = (whole & -whole).bit_length() - 1
    return whole >> zeros, power + zeros


def _primitive(values: Floats) -> tuple[Number, Array]:
    """Floats, not all zero, as one number times integers without a common divisor."""
    fractions, powers = np.frexp(values)
    whole = (fractions * 2.0**53).astype(np.int64)
    zeros = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    zeros[whole == 0] = 0
    whole >>= zeros
    exponents = powers.astype(np.int64) - 53 + zeros
    there = whole != 0
    least = int(exponents[there].min())
    shifts = np.where(there, exponents - least, 0)
    if int(powers[there].max()) - least < 62:
        wide: Array = whole << shifts
    else:
        pairs = zip(whole.tolist(), shifts.tolist(), strict=True)
        wide = np.array([number << shift for number, shift in pairs], dtype=object)
    divided = _divided(wide)
    first = int(np.flatnonzero(wide)[0])
    return _odd(int(wide[first]) // int(divided[first]), least), divided


def _divided(whole: Array) -> Array:
    """Integers, not all zero, over their common divisor, the first that is not zero positive."""
    if whole.dtype == object:
        divisor = math.gcd(*whole.tolist())
    else:
        divisor = int(np.gcd.reduce(np.abs(whole)))
    if whole[np.flatnonzero(whole)[0]] < 0:
        divisor = -divisor
    divided: Array = whole // divisor
    if divided.dtype == object and all(abs(number) < _LIMIT for number in divided.tolist()):
        divided = divided.astype(np.int64)
    return divided
