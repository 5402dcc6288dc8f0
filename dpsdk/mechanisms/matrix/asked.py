"""The questions of a workload to the cells of some attributes, as a strategy depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from dpsdk._records import frozen
from dpsdk.domain import Domain
from dpsdk.forms import Boxes, Dense, FormBlock, Kronecker, Weights
from dpsdk.forms.blocks import every_cell, numbered
from dpsdk.forms.factors import Factor
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.mechanisms.matrix.optimal import DESIGN_LIMIT
from dpsdk.mechanisms.strategy_matrix import columns_of
from dpsdk.typing import Floats

__all__ = ["Batch", "batches_of", "evenly", "gram_of"]

_LOOKED = 2**21
"""Of functions of one kind so many weights are looked at, of functions taken evenly."""

_PRODUCTS = 2**34
"""And so many multiplications are made for a Gram matrix."""


@frozen(eq=False)
class Line:
    """The weights of some functions along one attribute, by what a strategy for it needs."""

    squares: Floats
    """The sum of the squared weights: one number for all functions, or one for each."""
    gram: Floats | None = None
    """WᵀW for a batch of functions that is a product, of up to 2^8 cells."""
    rows: Floats | None = None
    """Instead: the weights of single functions, shape (functions, cells)."""

    def traces(self, inverse: Floats | None) -> Floats:
        """W V wᵀ, in all or for each function; None stands for the identity."""
        if inverse is not None and self.gram is not None:
            return np.asarray((self.gram * inverse).sum())
        if inverse is not None and self.rows is not None:
            return np.asarray(((self.rows @ inverse) * self.rows).sum(axis=1))
        return self.squares

    def weighed(self, worth: Floats) -> Floats:
        """The Gram matrix along this attribute of functions that are worth so much."""
        if self.rows is not None:
            each = np.broadcast_to(worth, (len(self.rows),))
            result: Floats = (self.rows.T * each) @ self.rows
            return result
        if self.gram is None:
            raise TypeError("an attribute of so many cells has no strategy of its own")
        return self.gram * float(worth.sum())


@frozen(eq=False)
class Batch:
    """Functions that are products: a line for each attribute, and what a square counts."""

    lines: dict[str, Line]
    worth: float

    def others(self, inverses: dict[str, Floats | None], besides: str | None) -> Floats:
        """The weight of a square along one attribute, by the squares along the others."""
        result: Floats = np.asarray(self.worth)
        for name, line in self.lines.items():
            if name != besides:
                result = result * line.traces(inverses[name])
        return result

    def error(self, inverses: dict[str, Floats | None]) -> float:
        """The sum of the variances, where cells have covariances that are such a product."""
        return float(self.others(inverses, None).sum())


def _sampled(
    blocks: Iterable[FormBlock], most: Callable[[FormBlock], int], *, products: bool
) -> Iterator[tuple[FormBlock, list[Kronecker], float]]:
    """Blocks as they are; single functions of one kind and boxes as some of them, taken evenly.

    With so many of these for each, and for how many one stands: blocks as they are have none.
    """
    single: dict[tuple[str, ...], list[Kronecker]] = {}
    boxed: list[Boxes] = []
    for block in blocks:
        if isinstance(block, Boxes):
            boxed.append(block)
        elif isinstance(block, Kronecker) and block.rows == 1 and (block.names or not products):
            single.setdefault(block.names, []).append(block)
        else:
            yield block, [], 1.0
    for boxes in boxed:
        places = evenly(boxes.rows, min(boxes.rows, most(boxes)))
        yield boxes, [boxes.row(place) for place in places], boxes.rows / len(places)
    for members in single.values():
        count = most(members[0])
        if len(members) <= count:
            yield members[0], members, 1.0
        else:
            taken = [members[place] for place in evenly(len(members), count)]
            yield members[0], taken, len(members) / count


def batches_of(
    blocks: Iterable[FormBlock], names: Sequence[str], domain: Domain
) -> list[Batch] | None:
    """Blocks on some of these attributes as products of lines; None if one is no product."""

    def most(block: FormBlock) -> int:
        """So many products of lines are written out, as far as they are."""
        sizes = [size if size <= DESIGN_LIMIT else 1 for size in block.shape]
        return max(1, _LOOKED // sum(sizes))

    many: list[Batch] = []
    for block, taken, worth in _sampled(blocks, most, products=True):
        if taken:
            scales = np.array([one.scale for one in taken])
            lines: dict[str, Line] = {}
            for name in names:
                if name not in block.names:
                    lines[name] = _line(None, domain[name].size)
                    continue
                place = block.names.index(name)
                lines[name] = _rows([one.factors[place] for one in taken], domain[name].size)
            first = lines[block.names[0]]
            scaled = None if first.rows is None else first.rows * scales[:, None]
            lines[block.names[0]] = Line(first.squares * scales**2, None, scaled)
            many.append(Batch(lines, worth))
        elif isinstance(block, Kronecker):
            known = dict(zip(block.names, block.factors, strict=True))
            own = {name: _line(known.get(name), domain[name].size) for name in names}
            many.append(Batch(own, block.scale**2))
        elif isinstance(block, Dense) and len(block.names) == len(names) == 1:
            many.append(Batch({names[0]: _line(Weights(block.weights), block.shape[0])}, 1.0))
        else:
            return None
    return many


def evenly(count: int, most: int) -> list[int]:
    """The middles of so many equal runs: of few the first and the last tell too little."""
    places = (np.arange(most) + 0.5) * (count / most)
    return [min(int(place), count - 1) for place in places.tolist()]


def _line(factor: Factor | None, size: int) -> Line:
    """The line of a factor; of all cells together where there is none."""
    if factor is None:
        gram = np.ones((size, size)) if size <= DESIGN_LIMIT else None
        return Line(np.asarray(float(size)), gram)
    squares = np.asarray(Combination.of_factor(factor).squares.sum())
    if size > DESIGN_LIMIT:
        return Line(squares)
    weights = factor.matrix()
    return Line(squares, weights.T @ weights)


def _rows(factors: Sequence[Factor], size: int) -> Line:
    if size > DESIGN_LIMIT:
        return Line(np.concatenate([Combination.of_factor(factor).squares for factor in factors]))
    weights = np.concatenate([factor.matrix() for factor in factors])
    return Line((weights**2).sum(axis=1), None, weights)


def gram_of(blocks: Iterable[FormBlock], names: Sequence[str], domain: Domain) -> Floats:
    """WᵀW on the cells of a few attributes together, shape (cells, cells)."""
    shape = tuple([domain[name].size for name in names])
    total: Floats = np.zeros((math.prod(shape),) * 2)
    codes = dict(zip(names, every_cell(shape), strict=True))

    def most(block: FormBlock) -> int:
        return max(1, _PRODUCTS // math.prod(block.shape) ** 2)

    for block, taken, worth in _sampled(blocks, most, products=False):
        gram: Floats
        if taken:
            cells = math.prod(block.shape)
            gram = np.zeros((cells, cells))
            step = max(1, _LOOKED // cells)
            for start in range(0, len(taken), step):
                piece = taken[start : start + step]
                weights = np.concatenate([columns_of(one, domain, one.names) for one in piece])
                gram += weights.T @ weights
            gram = gram * worth
        elif isinstance(block, Kronecker):
            gram = np.full((1, 1), block.scale**2)
            for factor in block.factors:
                weights = factor.matrix()
                gram = np.asarray(np.kron(gram, weights.T @ weights), dtype=np.float64)
        else:
            weights = block.written().weights
            gram = weights.T @ weights
        places = numbered([codes[name] for name in block.names], block.shape, len(total))
        total += gram[np.ix_(places, places)]
    return total
