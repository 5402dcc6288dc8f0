"""What may be measured of some attributes: weighted sums of cells, and cells from them again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk.domain import Domain
from dpsdk.forms import Boxes, Dense, FormBlock, Identity, Kronecker, LinearForm, Weights
from dpsdk.forms.blocks import Products
from dpsdk.forms.factors import Factor, to_weights
from dpsdk.mechanisms.cell_sums import of_factor
from dpsdk.mechanisms.combined import Combination
from dpsdk.typing import Floats

__all__ = ["Product", "Table", "on_steps"]

_WRITTEN = 2**21
"""So many weights of functions are written out at a time."""

_TOGETHER = 2**12


def on_steps(weights: Floats, bits: int) -> Floats:
    """Weights in integer steps of 2^-bits, as they stay."""
    return to_weights(np.floor(weights * 2.0**bits + 0.5))


def inverted(weights: Floats) -> Floats | None:
    """The least-squares inverse of integer weights; None where floats do not show that it is."""
    inverse = np.asarray(np.linalg.pinv(weights, rcond=1e-14), dtype=np.float64)
    off = np.abs(inverse @ weights - np.eye(weights.shape[1])).max()
    return inverse if off < 1e-9 else None


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
        """A strategy in steps of 2^-bits: what is rounded is measured, and inverted.

        None where floats do not show that it can be inverted.

        Parameters
        ----------
        domain, names, strategy, bits
            What is measured.
        total
            The sum of all cells, where that is known.
        """
        weights = on_steps(strategy, bits)
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

    def __copy__(self) -> Table:
        # The numbers are the same; that they cannot be written to does not keep their shape.
        arrays = (self.weights.view(), self.inverse.view(), self.offset.view())
        return Table(self.domain, self.names, *arrays)

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
            parts.append(
                Combination.of(np.broadcast_to(weights, (len(weights), cells)) @ self.inverse)
            )
        return Combination.stack(parts)


def _in_pieces(form: LinearForm, cells: int) -> Iterator[FormBlock]:
    """The blocks of a form, function by function where they have many."""
    for block in form.blocks:
        if block.rows * cells <= _WRITTEN:
            yield block
        elif isinstance(block, Boxes):
            step = max(1, _WRITTEN // cells)
            for start in range(0, block.rows, step):
                yield block.part(start, min(start + step, block.rows))
        else:
            for number in range(block.rows):
                yield block.row(number)


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
            weights = on_steps(strategy, bits[name])
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

    def __copy__(self) -> Product:
        factors = tuple([_own(factor) for factor in self.factors])
        inverses = tuple([None if one is None else one.view() for one in self.inverses])
        return Product(self.domain, self.names, factors, inverses)

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
        parts: list[Combination] = []
        gathered: list[Kronecker] = []
        for block in form.blocks:
            alike = isinstance(block, Kronecker) and block.rows == 1
            if gathered and not (
                alike and gathered[0].names == block.names and len(gathered) < _TOGETHER
            ):
                parts.append(self._of_products(Products.stack(gathered)))
                gathered = []
            if isinstance(block, Boxes):
                parts.extend(map(self._of_products, block.products()))
            elif isinstance(block, Dense):
                parts.append(self._of_dense(block))
            elif block.rows == 1 and block.names and sum(block.shape) <= _TOGETHER:
                gathered.append(block)
            else:
                parts.append(self._of_product(block))
        if gathered:
            parts.append(self._of_products(Products.stack(gathered)))
        return Combination.stack(parts)

    def _of_product(self, block: Kronecker) -> Combination:
        known = dict(zip(block.names, block.factors, strict=True))
        squares = peaks = counts = np.ones(1)
        for name, inverse in zip(self.names, self.inverses, strict=True):
            size = self.domain[name].size
            factor = known.get(name)
            if inverse is None:
                own = _all_cells(size) if factor is None else of_factor(factor)
            else:
                weights = np.ones((1, size)) if factor is None else factor.matrix()
                own = Combination.of(weights @ inverse)
            squares = np.outer(squares, own.squares).ravel()
            peaks = np.outer(peaks, own.peaks).ravel()
            counts = np.outer(counts, own.counts).ravel()
        return _scaled(Combination(squares, peaks, counts), np.array([block.scale]))

    def _of_products(self, block: Products) -> Combination:
        known = dict(zip(block.names, block.matrices, strict=True))
        squares = peaks = counts = np.ones(block.rows)
        for name, inverse in zip(self.names, self.inverses, strict=True):
            rows = known.get(name)
            if rows is None and inverse is None:
                own = _all_cells(self.domain[name].size)
            else:
                weights = np.ones((1, self.domain[name].size)) if rows is None else rows
                own = Combination.of(weights if inverse is None else weights @ inverse)
            squares, peaks, counts = squares * own.squares, peaks * own.peaks, counts * own.counts
        return Combination(squares, peaks, counts)

    def _of_dense(self, block: Dense) -> Combination:
        width = math.prod(self.factors[self.names.index(name)].rows for name in block.names)
        step = max(1, _WRITTEN // max(1, width))
        parts: list[Combination] = []
        for start in range(0, block.rows, step):
            table = block.weights[start : start + step].reshape(-1, *block.shape)
            for axis, name in enumerate(block.names, start=1):
                inverse = self.inverses[self.names.index(name)]
                if inverse is not None:
                    table = Weights(inverse.T).apply(table, axis)
            parts.append(Combination.of(table.reshape(len(table), -1)))
        whole = Combination.stack(parts)
        rest = self._total_of([name for name in self.names if name not in block.names])
        return Combination(
            whole.squares * rest.squares, whole.peaks * rest.peaks, whole.counts * rest.counts
        )

    def _total_of(self, names: Sequence[str]) -> Combination:
        """The sum of all cells along some attributes."""
        places = [self.names.index(name) for name in names]
        part = Product(
            self.domain,
            tuple(names),
            tuple([self.factors[place] for place in places]),
            tuple([self.inverses[place] for place in places]),
        )
        return part._of_product(Kronecker((), ()))


def _own(factor: Factor) -> Factor:
    own = copy(factor)
    if isinstance(own, Weights):
        object.__setattr__(own, "weights", own.weights.view())
    return own


def _all_cells(size: int) -> Combination:
    return Combination(np.array([float(size)]), np.ones(1), np.array([float(size)]))


def _scaled(combination: Combination, scales: Floats) -> Combination:
    peaks = np.abs(scales)
    counts = combination.counts * (peaks > 0)
    return Combination(combination.squares * peaks**2, combination.peaks * peaks, counts)
