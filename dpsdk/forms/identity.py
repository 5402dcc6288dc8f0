"""What tells linear functions apart: a digest of each, however it was written.

A linear function of a record is a weight on each cell of a universe. Its weights are taken as the
exact numbers that floats are, and those of a product as exact products, never rounded. It is then
written in one way only:

- Attributes that its weights do not depend on are left out.
- Where the rest is a product of one line of weights an attribute, each line is divided by the
  number that leaves integers without a common divisor, of which the first that is not zero is
  positive. Such lines are unique, and so is the number that stands before them.
- Where it is no product, all weights on these attributes are divided together.

An interval of ones is written by its ends; other weights by the places where they change, in order,
little-endian, and the integers from there on. What is written has lengths in front of whatever
could be of several lengths, so that no two functions are written alike. The identity of a function
is the SHA-256 of this and of the names and sizes of the universe's attributes; that of a form is
the SHA-256 of those of its functions, in order. What labels the cells have plays no part: it is for
the domain to say. The heads carry a version, and the meaning of a version never changes.

An interval takes about a microsecond, however large its attribute; other lines take as long as
their weights, and functions that were written out as many steps as they have cells. Nothing asks
a class of another author whether it is equal: factors and blocks of other classes than those of
this package have no identity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from hashlib import sha256
from itertools import product
from typing import TypeAlias

import numpy as np

from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms.blocks import Block, Dense, Kronecker
from dpsdk.forms.factors import Factor, Groups, Identity, Prefix, Range, Residual, Weights
from dpsdk.typing import Array, Floats

__all__ = ["of_form", "of_functions"]

_FUNCTIONS = b"dpsdk linear function 1\0"
_FORM = b"dpsdk linear form 1\0"

_PRIME = 2**31 - 1
"""Products of large integers are compared by their remainders before they are multiplied out."""

_LIMIT = 2**62

Number: TypeAlias = tuple[int, int]
"""A whole number, odd unless it is zero, and the power of two that it is multiplied by."""

Line: TypeAlias = tuple[Number, bytes]
"""What stands before a line of weights, and the line, empty where all weights are the same."""

_ZERO: Number = (0, 0)
_ONE: Number = (1, 0)


def of_form(domain: Domain, blocks: Iterable[Kronecker | Dense]) -> bytes:
    """The identity of functions in their order, 32 bytes. Raises as `of_functions` does."""
    digest = sha256(_FORM)
    for one in of_functions(domain, blocks):
        digest.update(one)
    return digest.digest()


def of_functions(domain: Domain, blocks: Iterable[Kronecker | Dense]) -> Iterator[bytes]:
    """The identity of each function of some blocks, 32 bytes each.

    Raises
    ------
    InvalidArgument
        If a block does not fit the domain, is made of foreign classes, or has a scale that is not
        finite.
    """
    universe = _universe(domain)
    for block in blocks:
        axes = _axes(block, domain)
        if type(block) is Kronecker:
            written = _products(block, axes)
        elif type(block) is Dense:
            written = _tables(block, axes)
        else:
            raise _foreign(block)
        for text in written:
            yield sha256(universe + text).digest()


def _universe(domain: Domain) -> bytes:
    digest = sha256(_FUNCTIONS)
    for name, size in zip(domain.names, domain.shape, strict=True):
        plain = name.encode("utf-8", "surrogatepass")
        digest.update(b"%x:%b%x;" % (len(plain), plain, size))
    return digest.digest()


def _axes(block: Block, domain: Domain) -> list[int]:
    axes = [domain.position(name) for name in block.names]
    shape = tuple(block.shape)
    sizes = tuple([domain.shape[axis] for axis in axes])
    if shape != sizes or len(set(axes)) != len(axes):
        raise InvalidArgument("blocks", f"of shape {sizes}, one axis a name", f"shape {shape}")
    return axes


def _foreign(part: object) -> InvalidArgument:
    return InvalidArgument("blocks", "made of dpsdk.forms", type(part).__name__)


def _products(block: Kronecker, axes: Sequence[int]) -> Iterator[bytes]:
    """The functions of a Kronecker block, which are products already."""
    before = _number(block.scale)
    lines = [_lines(factor, axis) for factor, axis in zip(block.factors, axes, strict=True)]
    order = sorted(range(len(axes)), key=axes.__getitem__)
    in_order = order == list(range(len(axes)))
    plain = _head(before)
    for chosen in product(*lines):
        head, number = plain, before
        for own, _ in chosen:
            if own != _ONE:
                number = number[0] * own[0], number[1] + own[1]
        if number is not before:
            head = _head(number)
        if not number[0]:
            yield _head(_ZERO)
        elif in_order:
            yield head + b"".join([text for _, text in chosen])
        else:
            yield head + b"".join([chosen[place][1] for place in order])


def _tables(block: Dense, axes: Sequence[int]) -> Iterator[bytes]:
    """Functions that were written out, as products where they are."""
    order = sorted(range(len(axes)), key=axes.__getitem__)
    for row in block.weights:
        yield _table(row.reshape(block.shape).transpose(order), [axes[place] for place in order])


def _table(weights: Floats, axes: Sequence[int]) -> bytes:
    touched = list(axes)
    for place in reversed(range(weights.ndim)):
        first: Floats = np.asarray(weights.take(0, axis=place))
        if (weights == np.expand_dims(first, place)).all():
            weights = first
            del touched[place]
    if not touched:
        return _head(_number(float(weights)))
    if len(touched) == 1:
        number, text = _line(weights, touched[0])
        return _head(number) + text
    flat = np.ascontiguousarray(weights).reshape(-1)
    number, whole = _primitive(flat)
    table = whole.reshape(weights.shape)
    cell = np.unravel_index(int(np.flatnonzero(whole)[0]), table.shape)
    pivot = tuple([int(place) for place in cell])
    along = [np.moveaxis(table, place, -1)[_without(pivot, place)] for place in range(table.ndim)]
    if not _is_product(table, along, int(table[pivot])):
        starts = _changes(flat)
        shape = b",".join([b"%x" % axis for axis in touched])
        return _head(number) + b"d%b;" % shape + _runs(starts, whole[starts])
    # Lines without a common divisor have a product without one (Gauss's lemma), and the first
    # number that is not zero lies where each line has its own, so nothing else stands before them.
    texts: list[bytes] = []
    for line, axis in zip(map(_divided, along), touched, strict=True):
        starts = _changes(line)
        texts.append(_text(starts, line[starts], axis, line.size))
    return _head(number) + b"".join(texts)


def _without(pivot: tuple[int, ...], place: int) -> tuple[int, ...]:
    return pivot[:place] + pivot[place + 1 :]


def _is_product(table: Array, lines: Sequence[Array], pivot: int) -> bool:
    """Whether integers are the product of the lines through one of them that is not zero.

    With k lines, if each times pivot**(k - 1) is the product of its places in the lines.
    """
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


def _lines(factor: Factor, axis: int) -> list[Line]:
    """The lines of a factor, one a function."""
    if type(factor) is Range:
        return [_interval(axis, factor.size, factor.start, factor.stop)]
    if type(factor) is Identity:
        return [_interval(axis, factor.size, cell, cell + 1) for cell in range(factor.size)]
    if type(factor) is Prefix:
        return [_interval(axis, factor.size, 0, cell + 1) for cell in range(factor.size)]
    if type(factor) is Groups:
        size, width = factor.size, factor.width
        starts = range(0, size, width)
        return [_interval(axis, size, start, min(start + width, size)) for start in starts]
    if type(factor) is Residual:
        return [_residual(axis, factor.size, cell) for cell in range(factor.size)]
    if type(factor) is Weights:
        return [_line(row, axis) for row in factor.weights]
    raise _foreign(factor)


def _interval(axis: int, size: int, start: int, stop: int) -> Line:
    if start >= stop:
        return _ZERO, b""
    if start == 0 and stop == size:
        return _ONE, b""
    return _ONE, b"i%x,%x,%x;" % (axis, start, stop)


def _residual(axis: int, size: int, cell: int) -> Line:
    """The weights size - 1 at one cell and -1 at all others, which have no common divisor."""
    if size == 1:
        return _ZERO, b""
    ends = [end for end in (0, cell, cell + 1) if end < size]
    starts = np.array(sorted(set(ends)))
    whole = np.where(starts == cell, size - 1, -1)
    sign = 1 if cell == 0 else -1
    return (sign, 0), _text(starts, whole * sign, axis, size)


def _line(weights: Floats, axis: int) -> Line:
    starts = _changes(weights)
    values = weights[starts]
    if len(values) == 1:
        return _number(float(values[0])), b""
    number, whole = _primitive(values)
    return number, _text(starts, whole, axis, len(weights))


def _text(starts: Array, whole: Array, axis: int, size: int) -> bytes:
    """A line of integers without a common divisor, by the places where they change."""
    ones = np.flatnonzero(whole)
    if len(whole) == 1:
        return b""
    if len(ones) == 1 and whole[ones[0]] == 1:
        place = int(ones[0])
        stop = int(starts[place + 1]) if place + 1 < len(starts) else size
        return _interval(axis, size, int(starts[place]), stop)[1]
    return b"l%x;" % axis + _runs(starts, whole)


def _changes(flat: Array) -> Array:
    """Where a line begins, and where it differs from what was before."""
    return np.concatenate(([0], np.flatnonzero(flat[1:] != flat[:-1]) + 1))


def _runs(starts: Array, whole: Array) -> bytes:
    small = whole.dtype != object or all(abs(number) < _LIMIT for number in whole.tolist())
    values = (
        b"8" + whole.astype("<i8").tobytes()
        if small
        else b"x" + b",".join([b"%x" % number for number in whole.tolist()])
    )
    return b"%x,%x;" % (len(starts), len(values)) + starts.astype("<i8").tobytes() + values


def _head(number: Number) -> bytes:
    return b"%x,%x;" % _odd(*number)


def _number(value: float) -> Number:
    if not math.isfinite(value):
        raise InvalidArgument("blocks", "of finite weights", str(value))
    above, below = value.as_integer_ratio()
    return _odd(above, 1 - below.bit_length())


def _odd(whole: int, power: int) -> Number:
    if not whole:
        return _ZERO
    zeros = (whole & -whole).bit_length() - 1
    return whole >> zeros, power + zeros


def _primitive(values: Floats) -> tuple[Number, Array]:
    """Floats, not all zero, as one number times integers without a common divisor.

    The first that is not zero is positive.
    """
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
