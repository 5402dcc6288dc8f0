"""Least of a convex quadratic function over a ball, a box and the simplex."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpsdk.typing import Bools, Floats

__all__ = ["ball_quadratic", "box_quadratic", "simplex_quadratic"]

_TINY = 1e-300
_ROUNDS = 60
_STEPS = 1000


def ball_quadratic(hessian: Floats, linear: Floats, radius: float) -> Floats:
    """The θ with ‖θ‖ ≤ radius that minimises ½θᵀHθ + ⟨linear, θ⟩.

    From one eigendecomposition, θ(μ) = −(H + μI)⁻¹ linear, with the least μ ≥ 0 for which it lies
    in the ball. 1/‖θ(μ)‖ is concave and nearly linear in μ, so that Newton's steps on it come
    there from the left in a few rounds (Moré and Sorensen 1983).
    """
    values, vectors = np.linalg.eigh(hessian)
    turned = vectors.T @ linear
    # What rounding alone leaves of an eigenvalue is no curvature.
    floor = max(float(values[-1]), _TINY) * 1e-15 if len(values) else 0.0
    values = np.maximum(values, floor)
    shift = 0.0
    # No root lies below: the length of the part along one direction alone is too large there.
    if len(values):
        shift = max(0.0, float((np.abs(turned) / radius - values).max()))
    for _ in range(100):
        spread = values + shift
        point = turned / spread
        length = math.sqrt(float(point @ point))
        if length <= radius * (1 + 1e-14) or not math.isfinite(length):
            break
        step = (length / radius - 1.0) * length**2 / float((point**2 / spread).sum())
        if shift + step <= shift:
            break
        shift += step
    return -(vectors @ (turned / (values + shift)))


def box_quadratic(hessian: Floats, linear: Floats, low: Floats, high: Floats) -> Floats:
    """The θ with low ≤ θ ≤ high that minimises ½θᵀHθ + ⟨linear, θ⟩.

    By the primal-dual active set method (Hintermüller, Ito and Kunisch 2003): guess which sides
    hold with equality, solve for the rest, and guess anew by the signs of what comes out. Where it
    does not settle, by accelerated projected gradients.
    """
    theta = _settled(hessian, linear, low, high, total=None)
    if theta is not None:
        return np.clip(theta, low, high)
    return _accelerated(
        hessian, linear, 0.5 * low + 0.5 * high, lambda point: np.clip(point, low, high)
    )


def simplex_quadratic(
    hessian: Floats, linear: Floats, project: Callable[[Floats], Floats]
) -> Floats:
    """The θ on the simplex that minimises ½θᵀHθ + ⟨linear, θ⟩; as `box_quadratic` does."""
    size = len(linear)
    low, high = np.zeros(size), np.full(size, np.inf)
    theta = _settled(hessian, linear, low, high, total=1.0)
    if theta is not None:
        return project(theta)
    return _accelerated(hessian, linear, np.full(size, 1.0 / size), project)


def _settled(
    hessian: Floats, linear: Floats, low: Floats, high: Floats, *, total: float | None
) -> Floats | None:
    size = len(linear)
    curved = hessian + np.eye(size) * (1e-14 * max(float(np.trace(hessian)), _TINY))
    below = above = np.zeros(size, dtype=np.bool_)
    for _ in range(_ROUNDS):
        free = ~(below | above)
        if total is not None and not free.any():
            return None
        theta = np.where(below, low, np.where(above, high, 0.0))
        found = _free_part(curved, linear + curved @ theta, free, theta, total)
        if found is None:
            return None
        theta, force = found
        was = below, above
        # Each coordinate leaves a side if the gradient draws it inside, and meets one it passed.
        below = np.where(free, theta < low, below & (force > 0.0))
        above = np.where(free, theta > high, above & (force < 0.0))
        if np.array_equal(below, was[0]) and np.array_equal(above, was[1]):
            return theta
    return None


def _free_part(
    hessian: Floats, pull: Floats, free: Bools, theta: Floats, total: float | None
) -> tuple[Floats, Floats] | None:
    """Coefficients whose free part is least for the fixed one, and what draws on each."""
    count = int(free.sum())
    system, right = hessian[np.ix_(free, free)], -pull[free]
    if total is not None:
        system = np.block([[system, np.ones((count, 1))], [np.ones((1, count)), np.zeros((1, 1))]])
        right = np.append(right, total - theta.sum())
    try:
        solved = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        return None
    result = theta.copy()
    result[free] = solved[:count]
    force = pull + hessian[:, free] @ solved[:count]
    if total is not None:
        force = force + solved[count]
    return (result, force) if np.isfinite(result).all() else None


def _accelerated(
    hessian: Floats, linear: Floats, start: Floats, project: Callable[[Floats], Floats]
) -> Floats:
    steep = max(float(np.linalg.norm(hessian, 2)), _TINY)
    theta = ahead = project(start)
    weight = 1.0
    for _ in range(_STEPS):
        gradient = hessian @ ahead + linear
        after = project(ahead - gradient / steep)
        if float(gradient @ (after - theta)) > 0.0:
            # Restarted where the momentum leads uphill (O'Donoghue and Candès 2015).
            weight = 1.0
        grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * weight**2))
        ahead = after + ((weight - 1.0) / grown) * (after - theta)
        if np.array_equal(after, theta):
            break
        theta, weight = after, grown
    return theta
