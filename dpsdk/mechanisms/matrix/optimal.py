"""Strategies for a few cells, which give a workload the least error in all, and what they rest on.

A workload enters by its Gram matrix G, with rows and columns for cells; a strategy A answers it
with a mean squared error in proportion to tr((AᵀA)⁻¹G) times the square of its largest column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.domain import Domain
from dpsdk.forms import Boxes, Dense, FormBlock, Kronecker, Weights
from dpsdk.forms.blocks import every_cell, numbered
from dpsdk.forms.factors import Factor
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.mechanisms.strategy_matrix import columns_of
from dpsdk.typing import Floats

__all__ = [
    "Batch",
    "DESIGN_LIMIT",
    "batches_of",
    "best_for_gaussian",
    "best_for_laplace",
    "evenly",
    "gram_of",
]

DESIGN_LIMIT = 2**8
"""Strategies are optimised for so many cells at the most, in seconds, once a workload."""

_STEPS = 60
_GAP = 1e-3
"""The search stops this close to the least error that any strategy has."""

_RELAXED = 1.7
"""By which power the multipliers move: a fixed point takes half as many steps as with 1."""

_RIDGE = 1e-8
"""The ridge of the Gram matrix, as a part of its mean: no cell is left unmeasured."""

_DESCENTS = 150
_FLAT = 1e10
"""A descent is over where a step lowers the error by less than so many units in its last place."""

_SHARE = 16
"""There is a free row for so many cells."""

_Minimize: TypeAlias = Callable[..., tuple[Floats, float, object]]

_GOLDEN = (math.sqrt(5) - 1) / 2


def best_for_gaussian(gram: Floats) -> Floats:
    """The strategy of the least error whose columns have a norm of at most 1.

    With X = AᵀA that is the convex program min tr(X⁻¹G) over diagonals of at most 1 (Yuan, Yang,
    Zhang and Hao 2016). For positive multipliers λ it is at least (tr R)² / Σλ, where R is the root
    of the matrix √λᵢ Gᵢⱼ √λⱼ, and both are equal where λ is the diagonal of R; the iteration to
    there is that of Denisov, McMahan, Rush, Smith and Thakurta 2022.
    """
    size = len(gram)
    if not float(np.trace(gram)) > 0:
        return np.eye(size)
    lifted = gram + np.eye(size) * (float(np.trace(gram)) / size * _RIDGE)
    multipliers = np.sqrt(np.diag(lifted))
    best, least = np.eye(size), float(np.trace(lifted))
    for _ in range(_STEPS):
        scales = np.outer(np.sqrt(multipliers), np.sqrt(multipliers))
        values, vectors = np.linalg.eigh(lifted * scales)
        roots = np.sqrt(np.maximum(values, float(values.max()) * 1e-15))
        root = (vectors * roots) @ vectors.T
        shape = root / scales
        peak = float(np.diag(shape).max())
        error = float(((vectors / roots) @ vectors.T * scales * lifted).sum()) * peak
        if error < least:
            best, least = shape / peak, error
        if error <= (1 + _GAP) * float(np.trace(root)) ** 2 / float(multipliers.sum()):
            break
        multipliers = multipliers * (np.diag(root) / multipliers) ** _RELAXED
    # X = AᵀA with A lower triangular, as the Cholesky factor of X in the opposite order.
    lower = np.asarray(np.linalg.cholesky(best[::-1, ::-1]), dtype=np.float64)
    result: Floats = np.ascontiguousarray(lower[::-1, ::-1].T)
    return result


def best_for_laplace(gram: Floats) -> Floats:
    """A p-identity strategy: all cells and a few free rows, with columns of absolute sum 1."""
    size, whole = len(gram), float(np.trace(gram))
    if not whole > 0:
        return np.eye(size)
    scaled = gram / whole
    best: Floats = np.zeros((1, size))
    least = 1.0
    for start in _starts(size):
        free, error = _descended(scaled, start)
        if error < least:
            best, least = free, error
    best = best[best.any(axis=1)]
    each = 1 / (1 + best.sum(axis=0))
    return np.concatenate([np.diag(each), best * each])


def _starts(size: int) -> Iterator[Floats]:
    """Spread weights, and those of runs of neighbouring cells, both a little uneven."""
    rows = max(1, size // _SHARE)
    spread = np.mod(np.arange(1.0, rows * size + 1) * _GOLDEN, 1.0).reshape(rows, size) / rows
    runs = np.arange(rows)[:, None] == np.arange(size) * rows // size
    yield 2 * spread
    yield runs + spread


def _descended(gram: Floats, start: Floats) -> tuple[Floats, float]:
    """Free rows from a start, where no step lowers the error much any more, and that error."""
    # Loaded here, so that the package can be imported without scipy.
    from scipy.optimize import fmin_l_bfgs_b  # noqa: PLC0415  # pyright: ignore[reportUnknownVariableType]

    minimize = cast("_Minimize", fmin_l_bfgs_b)
    bounds = [(0.0, None)] * start.size
    flat, error, _ = minimize(
        _p_identity_error,
        start.ravel(),
        args=(gram, len(start)),
        bounds=bounds,
        maxiter=_DESCENTS,
        factr=_FLAT,
    )
    return np.asarray(flat, dtype=np.float64).reshape(start.shape), float(error)


def _p_identity_error(flat: Floats, gram: Floats, rows: int) -> tuple[float, Floats]:
    """The error of the cells and such rows, over that of the cells alone, and its gradient."""
    free = flat.reshape(rows, -1)
    sums = 1 + free.sum(axis=0)
    # Woodbury's identity: the inverse of I + ΘᵀΘ is I - Θᵀ(I + ΘΘᵀ)⁻¹Θ.
    inner = np.linalg.inv(np.eye(rows) + free @ free.T) @ free
    inverse = np.eye(gram.shape[0]) - free.T @ inner
    weighed = (inverse * gram) @ sums
    pulled = inner @ (gram * np.outer(sums, sums))
    slope = 2 * weighed - 2 * (pulled - (pulled @ free.T) @ inner)
    return float(sums @ weighed), slope.ravel()


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
