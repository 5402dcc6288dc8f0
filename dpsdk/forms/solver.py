"""A convex loss minimised over weighted cells, with a certificate of how far off that may be.

Steps are Newton's: each goes towards the exact minimum of the quadratic model over the set, which
is where they come from an inside and an edge alike. Where the full step leads uphill, the slope
along it tells how far to go. Losses with kinks are smoothed, widely at first and then ever more
narrowly, and are certified by lines below the exact loss. What Newton leaves open, accelerated
gradients go on with (Nesterov 1983), and averages of their lines bound the minimum from below.
All of it depends on what is handed in and on nothing else, and ends after public numbers of steps.
General solvers take 3 to 35 times the time for the same gap (tests/bench/bench_convex.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk._arrays import ByNumbers, Lasting, frozen_copy
from dpsdk._checks import described, require, shown, to_array, to_count, to_finite, to_shaped
from dpsdk._records import evolve, field, frozen
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms.design import Design
from dpsdk.forms.objective import Objective, Point
from dpsdk.forms.sets import Ball, Box, ConvexSet, Simplex
from dpsdk.losses import Loss
from dpsdk.typing import Array, Floats

__all__ = ["Minimum", "minimise"]

GRADIENTS = 1000
"""How many gradients are worked out, at the most, where Newton's steps come to nothing."""

_SUMMED = 2e-13
"""The error of 1,000 roundings in a sum, in units of the sum of sizes."""

_TRIALS = 40
_NARROWER = 0.125
_NARROWEST = 1e-13
_IDLE = 3
"""After so many widths at which Newton's steps came to nothing, floats can tell no more."""
_LEAST_DAMPING = 1e-13
_LEAST_CROSSING = 1e-6
"""A step to the other side of the set shall never look cheaper than this part of the gap."""
_MOST_DAMPING = 1e8
_TINY = 1e-300


@frozen
class Minimum(Lasting):
    """Coefficients, and by how much their value may exceed the least one.

    `value` is the function at `theta`, a point of the set. value − minimum is at most `gap`: a
    certificate, roundings of floats included. `steps` gradients were worked out after the first.
    """

    theta: Floats = field(converter=frozen_copy, eq=ByNumbers)
    value: float
    gap: float
    steps: int


def minimise(
    design: Design,
    loss: Loss,
    labels: Sequence[float] | Floats,
    weights: Array,
    over: ConvexSet,
    *,
    linear: Array | None = None,
    ridge: float = 0.0,
    start: Array | None = None,
    tolerance: float = 1e-6,
    limit: int = 100,
) -> Minimum:
    """Minimise Σ w φ(⟨θ, x⟩, y) + ⟨linear, θ⟩ + ½·ridge·‖θ‖² over a set, with a certified gap.

    Public work on public weights, deterministic. The certificate is the duality gap of Frank and
    Wolfe (1956), max ⟨∇, θ − θ′⟩ over θ′ of the set, with an allowance for roundings; with a ridge,
    what strong convexity takes off it. Of a loss with a kink, slopes of a smoothed loss stand in
    for ∇, and what lines of these slopes stay below the exact loss (Fenchel's inequality) is added.
    The certificate holds for any convex loss whose derivatives are right, converged or not. Raises
    `QueryError` if the loss is declared not to be convex, does not take the labels, or has
    derivatives that are NaN or infinite. Raises `TooLarge` if the design's cells times the labels
    are more than 10^6. Raises `InvalidArgument` if an array has another shape or is not finite, a
    weight is below 0, or a number is out of range.

    Parameters
    ----------
    design, over
        The feature vectors of the cells, and the coefficients that are admitted.
    loss
        A convex loss. `Loss.check` tries whether it keeps what it says; this does not.
    labels, weights
        The labels y of a cell, and how much each counts in each cell, an array (labels, cells) of
        numbers from 0: shares of the rows, or counts.
    linear, ridge
        As many numbers as there are features, added to the gradient; and a number of at least 0.
    start
        Coefficients to begin with, moved into the set; its centre if left out, and where the
        function is beyond floats at these.
    tolerance
        The gap to reach, in units of the function. Where that takes more steps than the limits
        allow, or is less than floats can tell, what was reached is returned.
    limit
        The most Newton steps, for each width of smoothing if the loss has kinks. Of gradients there
        are at most 1,000 after these.
    """
    require(isinstance(design, Design), "design", "a Design", design)
    numbers, size = _vector("labels", labels, None), design.features
    design.check(len(numbers))
    _check_loss(loss, numbers)
    require(isinstance(over, Ball | Box | Simplex), "over", "a Ball, a Box or a Simplex", over)
    over.require(size)
    objective = Objective(
        design,
        loss,
        numbers,
        _to_weights(weights, len(numbers), design.cells),
        over,
        np.zeros(size) if linear is None else _vector("linear", linear, size),
        _number("ridge", ridge, zero=True),
    )
    goal, most = _number("tolerance", tolerance, zero=False), to_count("limit", limit)
    first = over.centre(size) if start is None else over.project(_vector("start", start, size))
    return _minimum(objective, first, goal, most)


def _minimum(objective: Objective, first: Floats, goal: float, most: int) -> Minimum:
    loss, theta, steps = objective.loss, first, 0
    widest = width = float(np.ptp(objective.labels)) or 1.0
    total = float(objective.weights.sum())
    best: Minimum | None = None
    idle = 0
    while (smooth := loss.smoothed(width)) is not None and width > _NARROWEST * widest:
        near = evolve(objective, loss=smooth)
        stage = max(0.5 * goal, total * width / 32.0)
        point, more = _newton(near, near.begin(theta), stage, most)
        theta, steps = point.theta, steps + more
        if loss.kinked:
            gap = point.gap + objective.slack(point, smooth)
            halved = best is None or gap < 0.5 * best.gap
            idle = 0 if halved or point.gap <= stage else idle + 1
            if best is None or gap < best.gap:
                best = Minimum(theta, objective.value(point), gap, steps)
            if best.gap <= goal or idle == _IDLE:
                break
        width *= _NARROWER
    if best is not None:
        return evolve(best, steps=steps)
    point = objective.begin(theta)
    if loss.kinked:
        point, steps = _dual_averaging(objective, point, goal)
    else:
        point, more = _newton(objective, point, goal, most)
        steps += more
        if not point.reached(goal) and objective.over.diameter(len(first)):
            point, more = _accelerated(objective, point, goal)
            steps += more
    return Minimum(point.theta, objective.value(point), point.gap, steps)


def _newton(objective: Objective, point: Point, goal: float, most: int) -> tuple[Point, int]:
    """Up to so many Newton steps; the point of the least gap, and how many gradients it took."""
    best, steps, damping = point, 0, 0.0
    diameter = objective.over.diameter(len(point.theta))
    if not diameter:
        return best, steps
    for _ in range(most):
        if best.reached(goal):
            break
        hessian = objective.hessian(point)
        # Damped about the point itself, so that a step where the curvature tells little is short.
        mean = float(np.trace(hessian)) / len(hessian)
        crossing = max(point.gap, _TINY) / diameter**2
        added = mean * max(damping, _LEAST_DAMPING) + crossing * max(damping, _LEAST_CROSSING)
        hessian[np.diag_indices_from(hessian)] += added
        linear = point.gradient - hessian @ point.theta
        target = objective.over.quadratic_minimiser(hessian, linear, point.theta)
        after, share, tried = _line_search(objective, point, target - point.theta)
        steps += tried
        if after is None:
            if damping > _MOST_DAMPING:
                break
            damping = max(100.0 * damping, 1e-6)
            continue
        if share < 0.1:
            damping = max(4.0 * damping, 1e-9)
        elif share > 0.5:
            damping *= 0.1
        point = after
        if point.gap < best.gap:
            best = point
    return best, steps


def _line_search(
    objective: Objective, point: Point, way: Floats
) -> tuple[Point | None, float, int]:
    """A point lower down the way, how much of the way that is, and how many were tried."""
    falls = float(point.gradient @ way)
    if not falls < 0.0:
        return None, 0.0, 0
    low, high, share = 0.0, 1.0, 1.0
    low_slope, high_slope = falls, math.inf
    lower: Point | None = None
    tried = 0
    while tried < _TRIALS:
        tried += 1
        after = objective.at(objective.over.project(point.theta + share * way))
        slope = float(after.gradient @ way) if after.finite else math.inf
        if slope <= 0.0:
            # A convex function falls as far as its slope is below 0.
            lower, low, low_slope = after, share, slope
            if share == 1.0 or slope >= 0.5 * falls:
                break
        else:
            if after.finite and _is_lower(objective, point, after, slope, share * falls):
                return after, share, tried
            high, high_slope = share, slope
        width = high - low
        root = low + width * low_slope / (low_slope - high_slope) if high_slope < math.inf else low
        share = min(max(root, low + 0.1 * width), high - 0.1 * width)
    return lower, low, tried


def _is_lower(objective: Objective, point: Point, after: Point, slope: float, falls: float) -> bool:
    """True if a point past the lowest one of its way is a step forward all the same."""
    if slope > -0.5 * falls:
        return False
    rise = objective.rise(point, after)
    # Near the minimum the function moves by less than it can be told; the gap still tells.
    return rise <= 1e-4 * falls or (rise <= after.doubt and after.gap <= 0.5 * point.gap)


class _Lines:
    """Lines below a convex function, averaged: they bound its minimum from below."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._gradient = np.zeros(objective.design.features)
        self._level = self._size = self._weight = 0.0
        self.best = -math.inf

    def add(self, point: Point, weight: float) -> float:
        """Take in the line that touches the function at a point, and bound its value there."""
        value = self._objective.value(point)
        doubt = self._objective.value_rounding(point)
        reached = float(point.gradient @ point.theta)
        self._weight += weight
        self._gradient += weight * point.gradient
        self._level += weight * (value - doubt - reached)
        self._size += weight * (abs(value) + abs(reached))
        lowest = self._objective.over.linear_minimiser(self._gradient)
        level = self._level + float(self._gradient @ lowest) - _SUMMED * self._size
        self.best = max(self.best, level / self._weight)
        return value + doubt


def _accelerated(objective: Objective, point: Point, goal: float) -> tuple[Point, int]:
    """Accelerated projected gradients from a point on, with restarts."""
    best = before = ahead = point
    crossing = point.gap / objective.over.diameter(len(point.theta)) ** 2
    steep = max(float(np.linalg.norm(objective.hessian(point), 2)), crossing, _TINY)
    lines, weight, steps = _Lines(objective), 1.0, 0
    while steps < GRADIENTS and not best.reached(goal):
        steps += 2
        after = objective.at(objective.over.project(ahead.theta - ahead.gradient / steep))
        way = after.theta - ahead.theta
        promised = float(ahead.gradient @ way) + 0.5 * steep * float(way @ way)
        rise = objective.rise(ahead, after) if after.finite else math.inf
        if rise > promised + _SUMMED * abs(promised) and steep < 1 / _TINY:
            steep *= 2.0
            continue
        lines.add(ahead, weight)
        value = objective.value(after) + objective.value_rounding(after)
        for gap in (after.gap, value - lines.best):
            if gap < best.gap:
                best = evolve(after, gap=gap)
        if float(ahead.gradient @ (after.theta - before.theta)) > 0.0:
            # Restarted where the momentum leads uphill (O'Donoghue and Candès 2015).
            weight, ahead = 1.0, after
        else:
            grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * weight**2))
            share = (weight - 1.0) / grown
            ahead = objective.at(after.theta + share * (after.theta - before.theta))
            weight = grown
        before = after
    return best, steps


def _dual_averaging(objective: Objective, point: Point, goal: float) -> tuple[Point, int]:
    """Dual averaging of subgradients (Nesterov 2009), for losses that know no smooth one."""
    over, origin = objective.over, point.theta
    diameter = over.diameter(len(origin))
    lines, pulled, steepest = _Lines(objective), np.zeros_like(origin), _TINY
    best, lowest = point, math.inf
    for step in range(1, GRADIENTS + 1):
        value = lines.add(point, 1.0)
        if value < lowest:
            best, lowest = point, value
        best = evolve(best, gap=min(best.gap, lowest - lines.best))
        if best.reached(goal):
            return best, step
        pulled += point.gradient
        steepest = max(steepest, float(np.linalg.norm(point.gradient)))
        length = diameter / (steepest * math.sqrt(step))
        point = objective.at(over.project(origin - length * pulled))
    return best, GRADIENTS


def _check_loss(loss: Loss, labels: Floats) -> None:
    require(isinstance(loss, Loss), "loss", "a Loss", loss)
    reason = loss.reason_against(labels)
    if loss.convex is not True:
        reason = "it is declared not to be convex"
    if reason is not None:
        raise QueryError(described(loss), reason)


def _vector(parameter: str, values: object, size: int | None) -> Floats:
    expected = f"an array of {'' if size is None else f'{size} '}finite numbers"
    array = to_array(parameter, values, expected)
    if array.ndim != 1 or not array.size or (size is not None and array.size != size):
        raise InvalidArgument(parameter, expected, f"an array of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidArgument(parameter, expected, "NaN or infinity among them")
    return array


def _to_weights(weights: Array, labels: int, cells: int) -> Floats:
    expected = f"an array of shape ({labels}, {cells}) of finite numbers from 0"
    array = np.ascontiguousarray(to_shaped("weights", weights, (labels, cells), expected))
    if (array < 0.0).any():
        raise InvalidArgument("weights", expected, "others among them")
    return array


def _number(parameter: str, value: float, *, zero: bool) -> float:
    number = float(to_finite(parameter, value))
    if number < 0.0 or (number == 0.0 and not zero):
        expected = "a finite number of at least 0" if zero else "a positive finite number"
        raise InvalidArgument(parameter, expected, shown(value))
    return number
