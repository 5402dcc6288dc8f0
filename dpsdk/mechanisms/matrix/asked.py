"""The questions of a workload to the cells of some attributes, as a strategy depends on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dpsdk._records import frozen
from dpsdk.domain import Domain
from dpsdk.forms import Boxes, Dense, FormBlock, Kronecker, LinearForm
from dpsdk.forms.blocks import numbered
from dpsdk.forms.factors import Factor
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.mechanisms.matrix.optimal import DESIGN_LIMIT
from dpsdk.typing import Floats

__all__ = ["Batch", "batches_of", "evenly", "gram_of", "written_on"]

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


def batches_of(
    blocks: Iterable[FormBlock], names: Sequence[str], domain: Domain
) -> list[Batch] | None:
    """Blocks on some of these attributes as products of lines."""
    many: list[Batch] = []
    single: dict[tuple[str, ...], list[Kronecker]] = {}
    groups: list[tuple[list[Kronecker], float]] = []
    for block in blocks:
        if isinstance(block, Kronecker) and block.rows == 1 and block.names:
            single.setdefault(block.names, []).append(block)
        elif isinstance(block, Boxes):
            groups.append(_some(block, _at_once(block.names, domain)))
        elif isinstance(block, Kronecker):
            known = dict(zip(block.names, block.factors, strict=True))
            own_lines = {name: _line(known.get(name), domain[name].size) for name in names}
            many.append(Batch(own_lines, block.scale**2))
        elif len(block.names) == 1 and len(names) == 1:
            squares = np.asarray((block.weights**2).sum())
            small = len(block.weights[0]) <= DESIGN_LIMIT
            gram = block.weights.T @ block.weights if small else None
            many.append(Batch({names[0]: Line(squares, gram)}, 1.0))
        else:
            return None
    groups += [_evenly(members, _at_once(own, domain)) for own, members in single.items()]
    for taken, worth in groups:
        own = taken[0].names
        scales = np.array([block.scale for block in taken])
        lines: dict[str, Line] = {}
        for name in names:
            if name not in own:
                lines[name] = _line(None, domain[name].size)
                continue
            place = own.index(name)
            rows = [block.factors[place] for block in taken]
            lines[name] = _rows(rows, domain[name].size)
        first = lines[own[0]]
        scaled = None if first.rows is None else first.rows * scales[:, None]
        lines[own[0]] = Line(first.squares * scales**2, None, scaled)
        many.append(Batch(lines, worth))
    return many


def evenly(count: int, most: int) -> list[int]:
    """The middles of so many equal runs: of few the first and the last tell too little."""
    places = (np.arange(most) + 0.5) * (count / most)
    return [min(int(place), count - 1) for place in places.tolist()]


def _at_once(names: Sequence[str], domain: Domain) -> int:
    """So many products of lines of these attributes are written out, as far as they are."""
    sizes = [domain[name].size for name in names]
    return max(1, _LOOKED // sum([size if size <= DESIGN_LIMIT else 1 for size in sizes]))


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


def _evenly(blocks: list[Kronecker], most: int) -> tuple[list[Kronecker], float]:
    """Some of these blocks, no more than so many, and for how many each of them stands."""
    if len(blocks) <= most:
        return blocks, 1.0
    places = evenly(len(blocks), most)
    return [blocks[place] for place in places], len(blocks) / most


def _some(boxes: Boxes, most: int) -> tuple[list[Kronecker], float]:
    """The same of boxes."""
    count = min(boxes.rows, most)
    return [boxes.row(place) for place in evenly(boxes.rows, count)], boxes.rows / count


def written_on(form: LinearForm, names: Sequence[str]) -> Floats:
    """The weights of a few functions on the cells of these attributes, shape (functions, cells)."""
    shape = [form.domain[name].size for name in names]
    cells = math.prod(shape)
    codes = dict(zip(names, np.indices(shape).reshape(len(shape), cells), strict=True))
    weights: Floats = np.empty((form.rows, cells))
    for block, places in form.groups:
        weights[places] = block.columns([codes[name] for name in block.names])
    return weights


def gram_of(blocks: Iterable[FormBlock], names: Sequence[str], domain: Domain) -> Floats:
    """WᵀW on the cells of a few attributes together, shape (cells, cells)."""
    shape = [domain[name].size for name in names]
    cells = math.prod(shape)
    total: Floats = np.zeros((cells, cells))
    codes = dict(zip(names, np.indices(shape).reshape(len(shape), cells), strict=True))
    for own, sizes, gram in _grams(blocks):
        places = numbered([codes[name] for name in own], sizes, cells)
        total += gram[np.ix_(places, places)]
    return total


def _grams(
    blocks: Iterable[FormBlock],
) -> Iterator[tuple[tuple[str, ...], tuple[int, ...], Floats]]:
    single: dict[tuple[str, ...], list[Kronecker]] = {}
    groups: list[tuple[list[Kronecker], float]] = []
    for block in blocks:
        if isinstance(block, Boxes):
            groups.append(_some(block, max(1, _PRODUCTS // math.prod(block.shape) ** 2)))
        elif isinstance(block, Dense):
            yield block.names, block.shape, block.weights.T @ block.weights
        elif block.rows == 1:
            single.setdefault(block.names, []).append(block)
        else:
            gram: Floats = np.full((1, 1), block.scale**2)
            for factor in block.factors:
                weights = factor.matrix()
                gram = np.asarray(np.kron(gram, weights.T @ weights), dtype=np.float64)
            yield block.names, block.shape, gram
    groups += [
        _evenly(members, max(1, _PRODUCTS // math.prod(members[0].shape) ** 2))
        for members in single.values()
    ]
    for taken, worth in groups:
        own, shape = taken[0].names, taken[0].shape
        cells = math.prod(shape)
        every = list(np.indices(shape).reshape(len(shape), cells))
        gram = np.zeros((cells, cells))
        step = max(1, _LOOKED // cells)
        for start in range(0, len(taken), step):
            piece = taken[start : start + step]
            weights = np.concatenate([block.columns(every) for block in piece])
            gram += weights.T @ weights
        yield own, shape, gram * worth
