"""In which numbers a gradient is measured, so that the noise on them does the least harm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpsdk.typing import Floats

__all__ = ["bases", "ellipsoid"]

_SHAPES, _SHAPING = 50, 2**29
"""How often an ellipsoid is adapted, and with how many products."""

_FLAT, _LEAST = 1e-10, 1e-12
"""A direction with less than this part of the largest spread has none."""


def bases(hessian: Floats, ridge: float, *, gaussian: bool) -> Iterator[tuple[Floats, Floats]]:
    """Matrices that stretch where there is little curvature, and their inverses."""
    values, axes = np.linalg.eigh(hessian)
    bends = np.maximum(values, 0.0) + ridge
    stretch = (bends / bends[-1]) ** (-0.25 if gaussian else -1.0 / 3.0)
    yield (axes * stretch).T, axes / stretch
    if not gaussian:  # lengths are the same however axes lie, sums are not
        yield (axes * stretch) @ axes.T, (axes / stretch) @ axes.T


def ellipsoid(weights: Floats, hessian: Floats) -> tuple[Floats, Floats]:
    """The map of an ellipsoid about the gradients in these columns to a ball, and its inverse.

    Noise by length does harm tr(H⁻¹ Σ), where Σ is the shape of the ellipsoid. That of least harm
    is found by weights on the cells, which grow where it is exceeded.
    """
    values, axes = np.linalg.eigh(hessian)
    spread: Floats = (axes * np.sqrt(values)) @ axes.T
    cells: Floats = np.unique(((axes / np.sqrt(values)) @ axes.T) @ weights, axis=1)
    share = np.full(cells.shape[1], 1.0 / cells.shape[1])
    root = np.eye(len(values))
    for _ in range(max(1, min(_SHAPES, _SHAPING // (cells.size * len(values))))):
        apart = cells - (cells @ share)[:, None]
        squares, directions = np.linalg.eigh((apart * share) @ apart.T)
        # S = (Σ share · apart apartᵀ)^½ is the shape, and this is its root.
        quarter = np.maximum(squares, _FLAT * max(float(squares[-1]), _LEAST)) ** 0.25
        root = (directions * quarter) @ directions.T
        grown = share * np.square((directions / quarter).T @ apart).sum(axis=0)
        if not grown.sum() > 0.0:
            break  # all gradients are alike
        share = grown / grown.sum()
    back: Floats = spread @ root
    return np.linalg.inv(back).astype(np.float64), back
