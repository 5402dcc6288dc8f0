"""Blocks: groups of linear functions of a record that share a structure."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from operator import attrgetter, index
from typing import TYPE_CHECKING

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import Factory, cmp_using, field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.canonical import ONE, ZERO, head_text, table_text, to_number
from dpsdk.forms.factors import (
    MATRIX_LIMIT,
    Factor,
    Functions,
    is_own,
    owned,
    rounded_half_up,
    to_weights,
)
from dpsdk.forms.facts import Facts
from dpsdk.forms.move import Move
from dpsdk.typing import Array, Floats, Ints

if TYPE_CHECKING:
    from dpsdk.forms.boxes import FormBlock

__all__ = ["Block", "Dense", "Kronecker", "numbered", "owned_block", "tally"]

_TALLIED = 2**24
"""Records are put in a table of no more cells, unless there are as many functions."""

BLOCK_BYTES = 384
"""The bytes of a block beside its factors and arrays, roughly."""


def tally(cells: Ints, counts: Floats, shape: tuple[int, ...]) -> Floats:
    """Sum counts by cell number into a table. Exact for integer counts within 2**53."""
    flat = np.bincount(cells, weights=counts, minlength=math.prod(shape))
    return flat.astype(np.float64, copy=False).reshape(shape)


def numbered(codes: Iterable[Array], shape: Iterable[int], records: int) -> Ints:
    """The cell of each record in a table, numbered in C order, from its cells along each axis."""
    cells: Ints | None = None
    for code, size in zip(codes, shape, strict=True):
        if cells is None:
            cells = code.astype(np.int64)  # a copy in any case
        else:
            cells *= size
            cells += code
    return np.zeros(records, dtype=np.int64) if cells is None else cells


def to_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of the attributes of a block."""
    return tuple(names)


def to_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """The sizes of the attributes of a block."""
    return tuple([index(size) for size in shape])


def every_cell(shape: tuple[int, ...]) -> list[Ints]:
    """The numbers of all cells of a table, in C order, along each of its axes."""
    return list(np.indices(shape).reshape(len(shape), math.prod(shape)))


def powered(weights: Floats, power: int) -> Floats:
    """Squares, or absolute values."""
    return weights * weights if power == 2 else np.abs(weights)


class Block(Functions):
    """`rows` linear functions that depend on the attributes `names` only.

    Functions are weights on the cells of these attributes; rows outside the domain weigh zero. A
    block of another author gives `names`, `shape`, `rows` and `columns`, and is written out.
    """

    __slots__ = ()
    names: tuple[str, ...]
    shape: tuple[int, ...]

    @abstractmethod
    def columns(self, codes: Sequence[Ints]) -> Floats:
        """The weights (rows, m) at m cells, given by one array of cell numbers for each name."""

    def written(self) -> Dense:
        """The same functions with all their weights multiplied out, at most 2^24 of them."""
        needed = self.rows * math.prod(self.shape)
        if needed > MATRIX_LIMIT:
            raise TooLarge("a block", needed, MATRIX_LIMIT, "weights", "use fewer attributes")
        return Dense(self.names, self.shape, self.columns(every_cell(self.shape)))

    @property
    def integral(self) -> bool:
        """True if all weights are integers."""
        return self.written().integral

    @property
    def nbytes(self) -> int:
        """Roughly how many bytes it takes, with its arrays."""
        return BLOCK_BYTES

    def extents(self) -> tuple[Floats, Floats]:
        return self.written().extents()

    @property
    def reach(self) -> float:
        """No product of weights of one record exceeds this on the way to an answer.

        Whatever is multiplied first: factors that shrink count as one. Infinite or NaN where floats
        do not hold it.
        """
        return max(1.0, *map(abs, self.limits()))

    @property
    def table(self) -> bool:
        """True if each cell has a function of its own, which counts its records."""
        return self.partition and self.rows == math.prod(self.shape)

    @property
    def ranges(self) -> tuple[Ints, Ints, Floats] | None:
        """Of a block on one attribute the range that each function counts, and its weight.

        Where these start and stop, and the weights; None if functions are of other kinds.
        """
        return None

    def move(self, facts: Facts) -> Move | None:
        """How far one row moves the answers of this block alone, where a theorem says it."""
        del facts
        return None

    def knots(self, axis: int) -> Ints | None:
        """Cells along an axis between which each function is a straight line; None for all."""
        del axis
        return None

    def at(self, cells: Sequence[Ints | None]) -> Block:
        """The same functions of some cells along each axis that has knots; None for all."""
        del cells
        return self

    def answer(self, table: Floats) -> Floats:
        """The functions summed over a table of counts with one axis for each name."""
        return self.written().answer(table)

    def answer_records(self, codes: Sequence[Ints], counts: Floats) -> Floats:
        """The functions summed over records: for each name its cell numbers, and counts."""
        return self.answer(tally(numbered(codes, self.shape, len(counts)), counts, self.shape))

    @property
    def steps(self) -> int:
        """Roughly how many numbers are touched by an answer from a table, or by its adjoint."""
        return self.rows * math.prod(self.shape)

    def adjoint(self, numbers: Floats) -> Floats:
        """The sum of the functions, each times a number, as a table with one axis a name."""
        return self.written().adjoint(numbers)

    def column_norms(self, power: int) -> Floats:
        """The sum of |weight| ** power over the functions, an array with one axis a name."""
        return self.written().column_norms(power)

    @property
    def uneven(self) -> int:
        """Among how many factors the bits of a lattice are shared."""
        return 1

    @property
    def slack(self) -> float:
        """The error of floats where its weights are multiplied out."""
        return 0.0

    def rounded(self, bits: int) -> tuple[FormBlock, float]:
        """The block in integer units of 2**-bits, and the largest change, in the old unit."""
        return self.written().rounded(bits)

    def times(self, scale: float) -> FormBlock:
        """The same, each weight so many times as large."""
        return self.written().times(scale)

    def row(self, number: int) -> FormBlock:
        """The block of one function of this one."""
        return self.written().row(number)

    def parts(self, start: int, stop: int) -> Iterator[FormBlock]:
        """Blocks of some consecutive functions of this one."""
        yield from map(self.row, range(start, stop))

    def cut(self, rows: int) -> Iterator[FormBlock]:
        """The block in consecutive parts of so many functions, or of one where it has no others."""
        for start in range(0, self.rows, rows):
            yield from self.parts(start, min(start + rows, self.rows))

    def texts(self, axes: Sequence[int]) -> Iterator[bytes]:
        """The canonical text of each function, on attributes of these places in a domain."""
        return self.written().texts(axes)


def owned_block(block: Block) -> Block:
    """A block of another author by its weights written out, as prices rest on them."""
    if not isinstance(block, Block):
        raise InvalidArgument("blocks", "blocks of dpsdk.forms", shown(block))
    return Block.written(block)


def _to_factors(factors: Iterable[Factor]) -> tuple[Factor, ...]:
    own = tuple(factors)
    if all(map(is_own, map(type, own))):
        return own
    return tuple([one if is_own(type(one)) else owned(one) for one in own])


def _sizes(form: Kronecker) -> tuple[int, ...]:
    return tuple(map(_SIZE, form.factors))


_SIZE = attrgetter("size")
_INTEGRAL = attrgetter("integral")


@frozen
class Kronecker(Block):
    """A Kronecker product of factors, times a scale; attributes without a factor are summed out.

    The functions are numbered in C order over the factors, which follow the domain's order.
    """

    names: tuple[str, ...] = field(converter=to_names)
    factors: tuple[Factor, ...] = field(converter=_to_factors)
    scale: float = field(default=1.0, converter=float)
    shape: tuple[int, ...] = field(
        init=False, eq=False, repr=False, default=Factory(_sizes, takes_self=True)
    )
    """The sizes of the factors."""

    @classmethod
    def of(cls, domain: Domain, factors: Mapping[str, Factor]) -> Kronecker:
        """Bring factors into the order of the domain.

        Raises
        ------
        UnknownAttribute
            If the domain has no attribute of some name.
        InvalidArgument
            If some factor has another size than its attribute.
        """
        names = sorted(factors, key=domain.position) if len(factors) > 1 else list(factors)
        block = cls(names, map(factors.__getitem__, names))
        if block.shape != tuple(map(domain.sizes.get, names)):
            sizes = tuple([domain[name].size for name in names])
            raise InvalidArgument("factors", f"of sizes {sizes}", f"sizes {block.shape}")
        return block

    @property
    def nbytes(self) -> int:
        return BLOCK_BYTES + sum([factor.nbytes for factor in self.factors])

    @property
    def rows(self) -> int:
        rows = 1
        for factor in self.factors:
            rows *= factor.rows
        return rows

    @property
    def integral(self) -> bool:
        return self.scale.is_integer() and all(map(_INTEGRAL, self.factors))

    @property
    def reach(self) -> float:
        # A factor that shrinks is applied after one that grows, so it counts as one.
        scale = max(abs(self.scale), 1.0) if math.isfinite(self.scale) else math.inf
        return scale * math.prod([factor.reach for factor in self.factors])

    def limits(self) -> tuple[float, float]:
        low = high = self.scale
        for factor in self.factors:
            first, last = factor.limits()
            corners = (low * first, low * last, high * first, high * last)
            low, high = min(corners), max(corners)
        return low, high

    def extents(self) -> tuple[Floats, Floats]:
        low = high = np.array([self.scale])
        for factor in self.factors:
            # The extremes of a product of independent numbers lie at the corners.
            factor_low, factor_high = factor.extents()
            corners = [
                np.outer(a, b).ravel() for a in (low, high) for b in (factor_low, factor_high)
            ]
            low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        return low, high

    @property
    def partition(self) -> bool:
        return self.scale == 1.0 and all(factor.partition for factor in self.factors)

    @property
    def counting(self) -> bool:
        return all(factor.counting for factor in self.factors)

    @cached_property
    def span(self) -> tuple[slice, ...] | None:
        """The cells that a single function counts, where they are a box; None otherwise."""
        sides: list[slice] = []
        for factor in self.factors:
            if (side := factor.span) is None:
                return None
            sides.append(side)
        return tuple(sides)

    @property
    def ranges(self) -> tuple[Ints, Ints, Floats] | None:
        if len(self.factors) != 1 or (ends := self.factors[0].ranges) is None:
            return None
        return *ends, np.full(len(ends[0]), self.scale)

    def move(self, facts: Facts) -> Move | None:
        if len(self.factors) != 1:
            return None
        return self.factors[0].move(self.scale, facts)

    def knots(self, axis: int) -> Ints | None:
        return self.factors[axis].knots()

    def at(self, cells: Sequence[Ints | None]) -> Kronecker:
        pairs = zip(self.factors, cells, strict=True)
        factors = [factor if own is None else factor.at(own) for factor, own in pairs]
        return Kronecker(self.names, factors, self.scale)

    def answer(self, table: Floats) -> Floats:
        if (box := self.span) is not None:
            # A box is one slice, whose cells are added at once.
            return np.array([float(table[box].sum()) * self.scale])
        result = table
        for axis, factor in enumerate(self.factors):
            result = factor.apply(result, axis)
        result = result.reshape(-1)
        return result if self.scale == 1.0 else result * self.scale

    def answer_records(self, codes: Sequence[Ints], counts: Floats) -> Floats:
        remaining: dict[str, tuple[Factor, Ints]] = {}
        for name, factor, code in zip(self.names, self.factors, codes, strict=True):
            if factor.rows == 1:
                counts = counts * factor.columns(code)[0]
            else:
                remaining[name] = factor.coarsened(code)
        factors = tuple(factor for factor, _ in remaining.values())
        shape = tuple(factor.size for factor in factors)
        cells = math.prod(shape)
        if cells > _TALLIED:
            axis = max(range(len(shape)), key=lambda axis: shape[axis] / factors[axis].rows)
            if shape[axis] > factors[axis].rows:
                return self._one_by_one(axis, remaining, counts)
        places = numbered((code for _, code in remaining.values()), shape, len(counts))
        table = tally(places, counts, shape)
        return Kronecker(tuple(remaining), factors, self.scale).answer(table)

    def _one_by_one(
        self, axis: int, remaining: Mapping[str, tuple[Factor, Ints]], counts: Floats
    ) -> Floats:
        """Answer the functions along one axis each by itself, where a table of it is too large."""
        names, (factors, codes) = list(remaining), zip(*remaining.values(), strict=True)
        factor = factors[axis]
        rows = [one.rows for one in factors]
        parts = [
            Kronecker(names, [*factors[:axis], factor.row(row), *factors[axis + 1 :]], self.scale)
            for row in range(factor.rows)
        ]
        answers = [part.answer_records(codes, counts) for part in parts]
        shape = math.prod(rows[:axis]), 1, math.prod(rows[axis + 1 :])
        result: Floats = np.concatenate([one.reshape(shape) for one in answers], axis=1)
        return result.reshape(-1)

    @property
    def steps(self) -> int:
        return math.prod(self.shape) * len(self.factors) + self.rows

    def adjoint(self, numbers: Floats) -> Floats:
        result = numbers.reshape([factor.rows for factor in self.factors])
        for axis, factor in enumerate(self.factors):
            result = factor.adjoint(result, axis)
        return result * self.scale

    def columns(self, codes: Sequence[Ints]) -> Floats:
        width = len(codes[0]) if codes else 1
        result: Floats = np.full((1, width), self.scale)
        for factor, code in zip(self.factors, codes, strict=True):
            weights = factor.columns(code)
            # Of no cells, too, whose number of functions a -1 would not tell.
            shape = len(result) * len(weights), width
            result = (result[:, None, :] * weights[None, :, :]).reshape(shape)
        return result

    def column_norms(self, power: int) -> Floats:
        result: Floats = np.array(abs(self.scale) ** power)
        for factor in self.factors:
            result = np.multiply.outer(result, factor.column_norms(power))
        return result

    @property
    def uneven(self) -> int:
        return sum([not factor.integral for factor in self.factors])

    @property
    def slack(self) -> float:
        return 2.0**-52 * (len(self.factors) + 1) * abs(self.scale) * self._weight

    def rounded(self, bits: int) -> tuple[Kronecker, float]:
        # Several factors that are no integers share the bits, so that each is coarser; `written`
        # has one lattice for their products.
        uneven = [number for number, factor in enumerate(self.factors) if not factor.integral]
        if not uneven:
            wanted = self.scale * 2.0**bits
            scale = float(math.floor(wanted + 0.5))
            change = abs(scale - wanted) * 2.0**-bits
            return Kronecker(self.names, self.factors, scale), change * self._weight
        factors = list(self.factors)
        if not self.scale.is_integer():
            factors[uneven[0]] = factors[uneven[0]].times(self.scale)
            block, moved = Kronecker(self.names, factors).rounded(bits)
            return block, moved + self.slack
        share, extra = divmod(bits, len(uneven))
        changes = [0.0] * len(factors)
        for turn, number in enumerate(uneven):
            factors[number], changes[number] = factors[number].rounded(share + (turn < extra))
        largest = [max(map(abs, factor.limits())) for factor in self.factors]
        change = 0.0
        for number in uneven:
            others = (largest[i] + changes[i] for i in range(len(factors)) if i != number)
            change += changes[number] * math.prod(others)
        return Kronecker(self.names, factors, self.scale), change * abs(self.scale)

    @property
    def _weight(self) -> float:
        """The largest absolute weight before the scale."""
        return math.prod(max(map(abs, factor.limits())) for factor in self.factors)

    def times(self, scale: float) -> Kronecker:
        return Kronecker(self.names, self.factors, self.scale * scale)

    def row(self, number: int) -> Kronecker:
        factors: list[Factor] = []
        for factor in reversed(self.factors):
            number, place = divmod(number, factor.rows)
            factors.append(factor.row(place))
        return Kronecker(self.names, factors[::-1], self.scale)

    def texts(self, axes: Sequence[int]) -> Iterator[bytes]:
        before = to_number(self.scale)
        order = sorted(range(len(axes)), key=axes.__getitem__)
        lines = [factor.lines(axis) for factor, axis in zip(self.factors, axes, strict=True)]
        plain = head_text(before)
        for chosen in product(*lines):
            head, number = plain, before
            for own, _ in chosen:
                if own != ONE:
                    number = number[0] * own[0], number[1] + own[1]
            if number is not before:
                head = head_text(number)
            if not number[0]:
                yield head_text(ZERO)
            else:
                yield head + b"".join([chosen[place][1] for place in order])


@frozen
class Dense(Block):
    """Any weights on the cells of a few attributes, an array (rows, cells)."""

    names: tuple[str, ...] = field(converter=to_names)
    shape: tuple[int, ...] = field(converter=to_shape)
    weights: Floats = field(converter=to_weights, eq=cmp_using(eq=np.array_equal), hash=False)

    def __attrs_post_init__(self) -> None:
        cells = math.prod(self.shape)
        if self.weights.ndim != 2 or self.weights.shape[1] != cells:
            expected = f"an array of shape (functions, {cells})"
            raise InvalidArgument("weights", expected, f"shape {self.weights.shape}")

    @property
    def nbytes(self) -> int:
        return BLOCK_BYTES + int(self.weights.nbytes)

    @property
    def rows(self) -> int:
        return int(self.weights.shape[0])

    @property
    def integral(self) -> bool:
        return self._integral

    @cached_property
    def _integral(self) -> bool:
        return all(bool((row == np.rint(row)).all()) for row in self.weights)

    def extents(self) -> tuple[Floats, Floats]:
        low, high = self._ends
        return low.copy(), high.copy()

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        return self.weights.min(axis=1), self.weights.max(axis=1)

    def written(self) -> Dense:
        return self

    def answer(self, table: Floats) -> Floats:
        return np.asarray(self.weights @ table.reshape(-1))

    def adjoint(self, numbers: Floats) -> Floats:
        result: Floats = numbers @ self.weights
        return result.reshape(self.shape)

    def columns(self, codes: Sequence[Ints]) -> Floats:
        if not codes:
            return self.weights.copy()
        return self.weights[:, np.ravel_multi_index(tuple(codes), self.shape)]

    def column_norms(self, power: int) -> Floats:
        norms: Floats = powered(self.weights, power).sum(axis=0)
        return norms.reshape(self.shape)

    def rounded(self, bits: int) -> tuple[Dense, float]:
        weights, change = rounded_half_up(self.weights, bits)
        return Dense(self.names, self.shape, weights), change

    def times(self, scale: float) -> Dense:
        return Dense(self.names, self.shape, self.weights * scale)

    def row(self, number: int) -> Dense:
        return Dense(self.names, self.shape, self.weights[number : number + 1])

    def parts(self, start: int, stop: int) -> Iterator[Dense]:
        yield Dense(self.names, self.shape, self.weights[start:stop])

    def texts(self, axes: Sequence[int]) -> Iterator[bytes]:
        order = sorted(range(len(axes)), key=axes.__getitem__)
        places = [axes[place] for place in order]
        for row in self.weights:
            yield table_text(row.reshape(self.shape).transpose(order), places)
