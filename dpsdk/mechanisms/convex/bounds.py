"""What a noisy gradient proves of the excess of a convex function at a point.

Theorems (docs/explanation/proofs/excess.md). Functions are sums over rows, and so are gradients,
matrices and what is returned. The noise of the gradient is to be independent of the point. The way
to the minimum is then fixed, though nobody knows it, and so only the noise along it counts.
"""

from __future__ import annotations

import math

import numpy as np

from dpsdk.forms import Ball, Box, ConvexSet
from dpsdk.mechanisms.convex.tails import Tails
from dpsdk.typing import Floats

__all__ = ["curved", "farthest", "frank_wolfe", "self_concordant"]

_LEAST = 1e-9
"""Matrices whose smallest eigenvalue is no larger beside the largest are taken to be singular."""


def farthest(over: ConvexSet, theta: Floats) -> float:
    """The largest distance of any coefficients of a set from θ."""
    if isinstance(over, Ball):
        return over.radius + float(np.linalg.norm(theta))
    if isinstance(over, Box):
        low, high = over.sides(len(theta))
        return float(np.linalg.norm(np.maximum(np.abs(high - theta), np.abs(theta - low))))
    ways = np.eye(len(theta)) - theta
    return float(np.linalg.norm(ways, axis=1).max())


def frank_wolfe(
    over: ConvexSet, theta: Floats, gradient: Floats, tails: Tails, beta: float
) -> float:
    """With probability 1 - beta, the excess at θ over the set is at most this.

    Parameters
    ----------
    gradient
        Of the function at θ, plus the noise of `tails`.
    """
    found = float(gradient @ (theta - over.linear_minimiser(gradient)))
    return found + tails.along(farthest(over, theta), len(theta), beta)


def curved(
    gradient: Floats, tails: Tails, matrix: Floats, basis: Floats, beta: float
) -> tuple[float, Floats] | None:
    """ν and A = M^(−1/2)Uᵀ, for a matrix M below the Hessian and a basis U.

    With probability 1 - beta, −⟨g, v⟩ ≤ ν·‖M^(1/2)Uᵀv‖ for the way v in the span of U that leads to
    the minimum. None where M is not positive definite, as far as floats can tell. The noise of the
    gradient is to be independent of M, too.
    """
    values, vectors = np.linalg.eigh(matrix)
    if not len(values) or not values[0] > _LEAST * max(values[-1], 0.0):
        return None
    root: Floats = (vectors / np.sqrt(values)).T @ basis.T
    longest = 1.0 / math.sqrt(float(values[0]))
    return float(np.linalg.norm(root @ gradient)) + tails.along(longest, len(gradient), beta), root


def self_concordant(nu: float, bend: float) -> float:
    """The excess of a function that falls by ν at the most along a way of length 1 in M^(1/2).

    Parameters
    ----------
    bend
        c·max‖Ax‖, where the third derivative of the loss is at most c times the second; 0 for a
        quadratic function. Infinite where bend·ν is 1 or more.
    """
    reach = bend * nu
    if not reach < 1.0:  # NaN is not either
        return math.inf
    if reach < 1e-4:
        # The series ½ν²(1 + reach/3 + reach²/6 + …), each term no larger than the one before.
        return 0.5 * nu * nu * (1.0 + reach)
    return (reach + (1.0 - reach) * math.log1p(-reach)) / bend**2
