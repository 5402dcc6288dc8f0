"""What a noisy gradient proves of the excess of a convex function at a point.

Theorems (docs/explanation/proofs/excess.md). Functions are sums over rows, and so are gradients,
matrices and what is returned.
"""

from __future__ import annotations

import math

import numpy as np

from dpsdk.forms import Ball, Box, ConvexSet
from dpsdk.mechanisms.convex.tails import Tails
from dpsdk.typing import Floats

__all__ = ["curved", "frank_wolfe", "self_concordant"]

_SHARES = (0.05, 0.15, 0.35)
"""Of beta: for the noise along θ, where that of the whole gradient has the rest."""

_LEAST = 1e-9
"""Matrices whose smallest eigenvalue is no larger beside the largest are taken to be singular."""


def frank_wolfe(
    over: ConvexSet, theta: Floats, gradient: Floats, tails: Tails, beta: float
) -> float:
    """With probability 1 - beta, the largest ⟨g, θ − θ′⟩ of any θ′ of the set is at most this.

    Parameters
    ----------
    gradient
        g plus the noise of `tails`, which is independent of θ.
    """
    found = float(gradient @ (theta - over.linear_minimiser(gradient)))
    return found + _support(over, theta, tails, beta)


def _support(over: ConvexSet, theta: Floats, tails: Tails, beta: float) -> float:
    """What the largest ⟨z, θ′ − θ⟩ of any θ′ exceeds with probability beta at the most.

    Which of several bounds is least follows from θ and the law, and so was fixed before z.
    """
    size = len(theta)
    if isinstance(over, Ball):
        radius, own = over.radius, float(np.linalg.norm(theta))
        slack = tails.bias * math.sqrt(size) * own
        apart = [
            radius * tails.length(size, beta * (1 - share)) + tails.sum(theta, beta * share) + slack
            for share in _SHARES
        ]
        return min((radius + own) * tails.length(size, beta), *apart)
    if isinstance(over, Box):
        low, high = over.sides(size)
        up, down = np.abs(high - theta), np.abs(theta - low)
        wide = np.maximum(up, down)
        whole = float(np.linalg.norm(wide)) * tails.length(size, beta)
        return min(whole, _box(up, down, tails, beta) + tails.bias * float(wide.sum()))
    ways = np.eye(size) - theta
    slack = tails.bias * float(np.abs(ways).sum(axis=1).max())
    return _corners(theta, tails, beta) + slack


def _box(up: Floats, down: Floats, tails: Tails, beta: float) -> float:
    """Σ max(upᵢzᵢ, −downᵢzᵢ), coordinate by coordinate."""
    wide = np.maximum(up, down)
    if not tails.gaussian:
        return tails.sizes(wide, beta)

    def cumulants(tilts: Floats) -> Floats:
        one = tails.cumulant(np.multiply.outer(tilts, up))
        other = tails.cumulant(np.multiply.outer(tilts, down))
        both: Floats = np.logaddexp(one, other).sum(axis=1)
        return both

    return tails.chernoff(cumulants, float(wide.max()), beta)


def _corners(theta: Floats, tails: Tails, beta: float) -> float:
    """The largest ⟨z, e_j − θ⟩ of any corner e_j of the simplex, by the sum over corners."""
    ways = np.abs(1.0 - theta)
    peak = max(float(ways.max()), float(np.abs(theta).max()))

    def cumulants(tilts: Floats) -> Floats:
        inner = tails.cumulant(np.multiply.outer(tilts, theta))
        outer = tails.cumulant(np.multiply.outer(tilts, ways))
        with np.errstate(invalid="ignore"):
            each = inner.sum(axis=1, keepdims=True) - inner + outer
        top = each.max(axis=1)
        total: Floats = top + np.log(np.exp(each - top[:, None]).sum(axis=1))
        return total

    return tails.chernoff(cumulants, peak, beta)


def curved(
    gradient: Floats, tails: Tails, matrix: Floats, basis: Floats, beta: float
) -> tuple[float, Floats] | None:
    """With probability 1 - beta, ν ≥ ‖Ag‖, for A = M^(−1/2)Uᵀ, a matrix M and a basis U; and A.

    None where M is not positive definite, as far as floats can tell. The noise of the gradient is
    to be independent of M.
    """
    values, vectors = np.linalg.eigh(matrix)
    if not len(values) or not values[0] > _LEAST * max(values[-1], 0.0):
        return None
    root: Floats = (vectors / np.sqrt(values)).T @ basis.T
    return float(np.linalg.norm(root @ gradient)) + tails.mapped_length(root, beta), root


def self_concordant(nu: float, bend: float) -> float:
    """The excess of a function whose Hessian at the point is at least A⁻², if ‖A∇f‖ ≤ ν there.

    Parameters
    ----------
    bend
        c·max‖Ax‖, where the third derivative of the loss is at most c times the second; 0 for a
        quadratic function. Infinite where bend·ν is 1 or more.
    """
    reach = bend * nu
    if reach >= 1.0:
        return math.inf
    if reach < 1e-4:
        # The series ½ν²(1 + reach/3 + reach²/6 + …), each term no larger than the one before.
        return 0.5 * nu * nu * (1.0 + reach)
    return (reach + (1.0 - reach) * math.log1p(-reach)) / bend**2
