"""Strategy matrices: weighted sums of cells that are measured, and their least-squares inverse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Protocol

import numpy as np

from dpsdk._records import cmp_using, field, frozen
from dpsdk.domain import Domain
from dpsdk.forms import Boxes, Dense, FormBlock, Identity, Kronecker, LinearForm, Range, Weights
from dpsdk.forms.blocks import Block
from dpsdk.forms.factors import Factor, to_weights
from dpsdk.forms.products import Products
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.typing import Floats

__all__ = ["Cells", "Product", "StrategyMatrix", "Table", "combine_factor"]

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


@frozen
class Cells:
    """Estimated counts of the cells of some attributes, one axis a name."""

    names: tuple[str, ...]
    counts: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)

    def table(self, names: Sequence[str]) -> Floats:
        """Their sums over the attributes that are not named, one axis a name."""
        others = tuple([axis for axis, name in enumerate(self.names) if name not in names])
        left = [name for name in self.names if name in names]
        table = np.asarray(self.counts.sum(axis=others) if others else self.counts)
        result: Floats = table.transpose([left.index(name) for name in names])
        return result

    def answers(self, form: LinearForm) -> Floats:
        """The functions of a form, summed over the cells."""
        values = np.empty(form.rows)
        for block, places in form.groups:
            values[places] = block.answer(self.table(block.names))
        return values


def combine_factor(factor: Factor) -> Combination:
    """The weights of a factor on cells with independent noise; ones are counted, not written."""
    low, high = factor.extents()
    return Combination(factor.row_norms(2), np.maximum(-low, high), factor.row_norms(0))


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
    """Weighted sums of the cells of a few attributes together.

    Parameters
    ----------
    domain, names
        The attributes, in the order of the domain.
    weights
        Integers, shape (sums, cells), of full column rank.
    inverse
        Their least-squares inverse; among cells of a known sum where that is known.
    offset
        What is added to the cells then, so that they have this sum; else zeros.
    """

    domain: Domain
    names: tuple[str, ...]
    weights: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    inverse: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    offset: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)

    @classmethod
    def of(
        cls, domain: Domain, names: Sequence[str], strategy: Floats, bits: int, total: int | None
    ) -> Table | None:
        """A strategy in steps of 2^-bits, for cells of a known sum if `total` says it.

        It is the rounded strategy that is measured and inverted. None where floats do not show that
        it can be inverted.
        """
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
        cells = math.prod(self.shape)
        codes = np.indices(self.shape).reshape(len(self.names), cells)
        known = dict(zip(self.names, codes, strict=True))
        parts: list[Combination] = []
        for block in _in_pieces(form, cells):
            weights = block.columns([known[name] for name in block.names])
            whole = np.broadcast_to(weights, (len(weights), cells))
            parts.append(Combination.of(whole @ self.inverse))
        return Combination.stack(parts)


def _in_pieces(form: LinearForm, cells: int) -> Iterator[FormBlock]:
    """The blocks of a form, in parts where they have many functions."""
    for block in form.blocks:
        if block.rows * cells <= _WRITTEN:
            yield block
        elif isinstance(block, Boxes):
            step = max(1, _WRITTEN // cells)
            for start in range(0, block.rows, step):
                yield block.part(start, min(start + step, block.rows))
        else:
            yield from map(block.row, range(block.rows))


@frozen
class Product:
    """Weighted sums of cells along each attribute, and products of these.

    Parameters
    ----------
    domain, names
        The attributes, in the order of the domain.
    factors
        Integer weights along each, of full column rank.
    inverses
        Their least-squares inverses; None where a factor is the identity.
    """

    domain: Domain
    names: tuple[str, ...]
    factors: tuple[Factor, ...]
    inverses: tuple[Floats | None, ...] = field(eq=False)

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
            own = self._combined(block)
            squares[places], peaks[places], counts[places] = own.squares, own.peaks, own.counts
        return Combination(squares, peaks, counts)

    def _combined(self, block: Block) -> Combination:
        if isinstance(block, Dense):
            inside = self._of_dense(block)
        elif isinstance(block, Products):
            inside = self._of_rows(block)
        elif isinstance(block, Boxes):
            if all(self._inverse(name) is None for name in block.names):
                counted = block.counted.astype(np.float64)
                inside = reduce(Combination.times, map(Combination.of_ones, counted))
                inside = inside.scaled(block.scales)
            else:
                inside = Combination.stack(map(self._of_rows, block.products()))
        elif isinstance(block, Kronecker):
            lines = map(self._along, block.names, block.factors)
            one = Combination.of_ones(np.ones(1))
            inside = reduce(Combination.outer, lines, one).scaled(block.scale)
        else:
            raise TypeError(type(block).__name__)
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
            return combine_factor(factor)
        return Combination.of(factor.matrix() @ inverse)

    def _of_rows(self, block: Products) -> Combination:
        lines: list[Combination] = []
        for name, rows in zip(block.names, block.matrices, strict=True):
            inverse = self._inverse(name)
            lines.append(Combination.of(rows if inverse is None else rows @ inverse))
        return reduce(Combination.times, lines)

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
