"""Strategies for a few cells, which give a workload the least error in all.

A workload enters by its Gram matrix G, with rows and columns for cells; a strategy A answers it
with a mean squared error in proportion to tr((AᵀA)⁻¹G) times the square of its largest column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

import numpy as np

from dpsdk.typing import Floats

__all__ = ["DESIGN_LIMIT", "best_for_gaussian", "best_for_laplace"]

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
