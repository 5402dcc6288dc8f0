"""Least of a convex quadratic function over a ball, a box and the simplex."""

from __future__ import annotations

import math

import numpy as np

from dpsdk.typing import Bools, Floats

__all__ = ["ball_quadratic", "bounded_quadratic"]

_TINY = 1e-300
_ROUNDS = 30
_ROUND = 1e-14


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
    point = vectors @ (turned / (values + shift))
    result: Floats = -point
    return result


def bounded_quadratic(
    hessian: Floats,
    linear: Floats,
    low: Floats,
    high: Floats,
    start: Floats,
    *,
    total: float | None = None,
) -> Floats:
    """The θ with low ≤ θ ≤ high that minimises ½θᵀHθ + ⟨linear, θ⟩; with Σθ = total, if given.

    By the primal-dual active set method (Hintermüller, Ito and Kunisch 2003): guess which sides
    hold with equality, solve for the rest, and guess anew by the signs of what comes out. Where it
    does not settle, by the primal one (Nocedal and Wright 2006, algorithm 16.3), which goes down
    from a `start` inside and changes one side at a time.
    """
    curved = hessian + np.eye(len(linear)) * (1e-14 * max(float(np.trace(hessian)), _TINY))
    theta = _settled(curved, linear, low, high, total)
    return _walked(curved, linear, low, high, start, total) if theta is None else theta


def _settled(
    hessian: Floats, linear: Floats, low: Floats, high: Floats, total: float | None
) -> Floats | None:
    size = len(linear)
    below = above = np.zeros(size, dtype=np.bool_)
    for _ in range(_ROUNDS):
        free = ~(below | above)
        if total is not None and not free.any():
            return None
        theta = np.where(below, low, np.where(above, high, 0.0))
        found = _free_part(hessian, linear + hessian @ theta, free, theta, total)
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


def _walked(
    hessian: Floats,
    linear: Floats,
    low: Floats,
    high: Floats,
    start: Floats,
    total: float | None,
) -> Floats:
    theta = start.copy()
    below, above = theta <= low, theta >= high
    for _ in range(_ROUNDS + 10 * len(linear)):
        free = ~(below | above)
        held = np.where(free, 0.0, theta)
        found = _free_part(hessian, linear + hessian @ held, free, held, total)
        if found is None:
            break
        aim, force = found
        way = np.where(free, aim - theta, 0.0)
        ends = np.where(way < 0.0, low, high)
        moving = way != 0.0
        shares = np.full(len(theta), np.inf)
        shares[moving] = (ends[moving] - theta[moving]) / way[moving]
        share = min(1.0, max(float(shares.min(initial=np.inf)), 0.0))
        theta = np.where(free, theta + share * way, theta)
        if share < 1.0:
            met = free & (shares <= share)
            theta = np.where(met, ends, theta)
            below, above = below | (met & (way < 0.0)), above | (met & (way > 0.0))
            continue
        drawn = np.where(below, -force, np.where(above, force, 0.0))
        leaver = int(np.argmax(drawn))
        if drawn[leaver] <= _ROUND * float(np.abs(linear).max()):
            break
        below[leaver] = above[leaver] = False
    return theta


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
