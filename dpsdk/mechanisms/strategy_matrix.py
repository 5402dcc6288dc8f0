"""Strategy matrices: weighted sums of cells that are measured, and their least-squares inverse."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Protocol, TypeAlias

import numpy as np

from dpsdk._records import cmp_using, field, frozen
from dpsdk.domain import Domain
from dpsdk.forms import Boxes, Dense, FormBlock, Identity, Kronecker, LinearForm, Range, Weights
from dpsdk.forms.blocks import Block, every_cell
from dpsdk.forms.boxes import Products
from dpsdk.forms.factors import Factor, to_weights
from dpsdk.forms.ranges import Ranges
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.typing import Floats

__all__ = [
    "Cells",
    "Join",
    "Product",
    "StrategyMatrix",
    "Table",
    "Tables",
    "as_lines",
    "columns_of",
    "pieces",
]

_WRITTEN = 2**21
"""So many weights of functions are written out at a time."""


class StrategyMatrix(Protocol):
    """The numbers measured of some attributes, and their cells by least squares."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes whose cells are estimated, in the order of the domain."""
        ...

    @property
    def strategy(self) -> LinearForm:
        """The functions that are measured: the rows of the matrix."""
        ...

    def cells(self, values: Floats, /) -> Floats:
        """The estimates of the cells, one axis a name, from the measured numbers."""
        ...

    def combine(self, form: LinearForm, /) -> Combination:
        """The weights of the measured numbers in the answers to a form."""
        ...


class Tables:
    """Estimated marginals, and sums of their cells."""

    __slots__ = ()

    @abstractmethod
    def table(self, names: tuple[str, ...]) -> Floats:
        """The marginal on some attributes, one axis a name."""

    def answers(self, form: LinearForm) -> Floats:
        """The functions of a form, summed over the tables that they depend on."""
        values = np.empty(form.rows)
        for block, places in form.groups:
            values[places] = block.answer(self.table(block.names))
        return values


@frozen
class Cells(Tables):
    """Estimated counts of the cells of some attributes, one axis a name."""

    names: tuple[str, ...]
    counts: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)

    def table(self, names: tuple[str, ...]) -> Floats:
        others = tuple([axis for axis, name in enumerate(self.names) if name not in names])
        left = [name for name in self.names if name in names]
        table = np.asarray(self.counts.sum(axis=others) if others else self.counts)
        result: Floats = table.transpose([left.index(name) for name in names])
        return result


Join: TypeAlias = "Callable[[Combination, Combination], Combination]"


def as_lines(block: Block) -> tuple[Join, Floats, Sequence[Factor]] | None:
    """A block as products of functions along each attribute, how these are joined, and scales."""
    if isinstance(block, Kronecker):
        return Combination.outer, np.array([block.scale]), block.factors
    if isinstance(block, Boxes):
        pairs = zip(block.shape, block.counted, strict=True)
        counted = [Ranges(size, np.zeros_like(stops), stops) for size, stops in pairs]
        return Combination.times, block.scales, counted
    if isinstance(block, Products):
        return Combination.times, np.ones(1), [Weights(rows) for rows in block.matrices]
    return None


def pieces(block: FormBlock, most: int) -> Iterator[FormBlock]:
    """A block in parts of at most so many functions."""
    if block.rows <= most:
        yield block
        return
    for start in range(0, block.rows, most):
        yield from block.parts(start, min(start + most, block.rows))


def columns_of(block: Block, domain: Domain, names: Sequence[str]) -> Floats:
    """The weights of the functions of a block on the cells of these attributes together."""
    shape = tuple([domain[name].size for name in names])
    codes = dict(zip(names, every_cell(shape), strict=True))
    weights = block.columns([codes[name] for name in block.names])
    return np.broadcast_to(weights, (len(weights), math.prod(shape)))


def inverted(weights: Floats) -> Floats | None:
    """The least-squares inverse of integer weights; None where floats do not show that it is."""
    inverse = np.asarray(np.linalg.pinv(weights, rcond=1e-14), dtype=np.float64)
    off = np.abs(inverse @ weights - np.eye(weights.shape[1])).max()
    return inverse if off < 1e-9 else None


def _on_steps(weights: Floats, bits: int) -> Floats:
    """Weights in integer steps of 2^-bits."""
    return to_weights(np.floor(weights * 2.0**bits + 0.5))


@frozen
class Table:
    """Weighted sums of the cells of a few attributes together."""

    domain: Domain
    names: tuple[str, ...]
    weights: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    """Integers, shape (sums, cells), of full column rank."""
    inverse: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    offset: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    """What is added to the cells where their sum is known, so that they have it."""

    @classmethod
    def of(
        cls, domain: Domain, names: Sequence[str], strategy: Floats, bits: int, total: int | None
    ) -> Table | None:
        """A strategy in steps of 2^-bits, for cells of a known sum if `total` says it."""
        weights = _on_steps(strategy, bits)
        inverse = inverted(weights)
        if inverse is None:
            return None
        offset: Floats = np.zeros(len(inverse))
        if total is not None:
            # Conditioned on the sum: what cells have in common with it follows it.
            common = (inverse @ inverse.T).sum(axis=1)
            common = common / common.sum()
            inverse = inverse - np.outer(common, inverse.sum(axis=0))
            offset = common * total
        return cls(domain, tuple(names), weights, to_weights(inverse), to_weights(offset))

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the attributes."""
        return tuple([self.domain[name].size for name in self.names])

    @property
    def strategy(self) -> LinearForm:
        """The sums that are measured."""
        if len(self.names) == 1:
            block = Kronecker(self.names, (Weights(self.weights),))
            return LinearForm(self.domain, (block,))
        return LinearForm(self.domain, (Dense(self.names, self.shape, self.weights),))

    def cells(self, values: Floats) -> Floats:
        """The estimates of the cells, one axis a name."""
        result: Floats = (self.inverse @ values + self.offset).reshape(self.shape)
        return result

    def combine(self, form: LinearForm) -> Combination:
        """The weights of the measured sums in the answers to a form."""
        most = max(1, _WRITTEN // math.prod(self.shape))
        return Combination.stack(
            Combination.of(columns_of(piece, self.domain, self.names) @ self.inverse)
            for block in form.blocks
            for piece in pieces(block, most)
        )


@frozen
class Product:
    """Weighted sums of cells along each attribute, and products of these."""

    domain: Domain
    names: tuple[str, ...]
    factors: tuple[Factor, ...]
    inverses: tuple[Floats | None, ...] = field(eq=False)
    """Their least-squares inverses; None where a factor is the identity."""

    @classmethod
    def of(
        cls, domain: Domain, strategies: dict[str, Floats | None], bits: dict[str, int]
    ) -> Product | None:
        """Strategies in steps, None for all cells as they are; None as for `Table`."""
        factors: list[Factor] = []
        inverses: list[Floats | None] = []
        for name, strategy in strategies.items():
            if strategy is None:
                factors.append(Identity(domain[name].size))
                inverses.append(None)
                continue
            weights = _on_steps(strategy, bits[name])
            inverse = inverted(weights)
            if inverse is None:
                return None
            factors.append(Weights(weights))
            inverses.append(to_weights(inverse))
        return cls(domain, tuple(strategies), tuple(factors), tuple(inverses))

    @classmethod
    def cell_by_cell(cls, domain: Domain, names: Sequence[str]) -> Product:
        """All cells as they are."""
        factors = tuple([Identity(domain[name].size) for name in names])
        return cls(domain, tuple(names), factors, (None,) * len(factors))

    @property
    def strategy(self) -> LinearForm:
        """The sums that are measured."""
        return LinearForm(self.domain, (Kronecker(self.names, self.factors),))

    def cells(self, values: Floats) -> Floats:
        """The estimates of the cells, one axis a name."""
        table = values.reshape([factor.rows for factor in self.factors])
        for axis, inverse in enumerate(self.inverses):
            if inverse is not None:
                table = Weights(inverse).apply(table, axis)
        return table

    def combine(self, form: LinearForm) -> Combination:
        """The weights of the measured sums in the answers to a form."""
        squares, peaks, counts = np.empty((3, form.rows))
        for block, places in form.groups:
            squares[places], peaks[places], counts[places] = self._combined(block).columns
        return Combination(squares, peaks, counts)

    def _combined(self, block: Block) -> Combination:
        if isinstance(block, Boxes) and any(self._inverse(n) is not None for n in block.names):
            return Combination.stack(map(self._combined, block.products()))
        lines = as_lines(block)
        if lines is None:
            inside = self._of_dense(block.written())
        else:
            join, scales, factors = lines
            one = Combination.of_ones(np.ones(1))
            inside = reduce(join, map(self._along, block.names, factors), one).scaled(scales)
        for name in self.names:
            if name not in block.names:
                size = self.domain[name].size
                inside = inside.times(self._along(name, Range(size, 0, size)))
        return inside

    def _inverse(self, name: str) -> Floats | None:
        return self.inverses[self.names.index(name)]

    def _along(self, name: str, factor: Factor) -> Combination:
        """The weights of the sums along one attribute in the functions of a factor."""
        inverse = self._inverse(name)
        if inverse is None:
            return Combination.of_factor(factor)
        return Combination.of(factor.matrix() @ inverse)

    def _of_dense(self, block: Dense) -> Combination:
        width = math.prod(self.factors[self.names.index(name)].rows for name in block.names)
        step = max(1, _WRITTEN // max(1, width))
        parts: list[Combination] = []
        for start in range(0, block.rows, step):
            table = block.weights[start : start + step].reshape(-1, *block.shape)
            for axis, name in enumerate(block.names, start=1):
                inverse = self._inverse(name)
                if inverse is not None:
                    table = Weights(inverse.T).apply(table, axis)
            parts.append(Combination.of(table.reshape(len(table), -1)))
        return Combination.stack(parts)
