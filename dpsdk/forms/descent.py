"""Gradients that go on where Newton's steps end, with lines that bound the minimum from below."""

from __future__ import annotations

import math

import numpy as np
from attrs import evolve

from dpsdk.forms.objective import Objective, Point

__all__ = ["accelerated", "averaged"]

DESCENTS = 1000
"""How many gradients these work out at the most."""

_TINY = 1e-300
_SUMMED = 2e-13
"""What 1,000 roundings may do to a sum, in units of the sum of sizes."""


class _Lines:
    """Lines below a convex function, averaged: they bound its minimum from below."""

    __slots__ = ("_gradient", "_level", "_objective", "_size", "_weight", "best")

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._gradient = np.zeros(objective.design.features)
        self._level = self._size = self._weight = 0.0
        self.best = -math.inf

    def add(self, point: Point, weight: float) -> float:
        """Take in the line that touches the function at a point; what its value is at the most."""
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


def accelerated(objective: Objective, point: Point, goal: float) -> tuple[Point, int]:
    """Accelerated projected gradients from a point on, with restarts."""
    best = before = ahead = point
    crossing = point.gap / objective.over.diameter(len(point.theta)) ** 2
    steep = max(float(np.linalg.norm(objective.hessian(point), 2)), crossing, _TINY)
    lines, weight, steps = _Lines(objective), 1.0, 0
    while steps < DESCENTS and not best.reached(goal):
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


def averaged(objective: Objective, point: Point, goal: float) -> tuple[Point, int]:
    """Dual averaging of subgradients (Nesterov 2009), for losses that know no smooth one."""
    over, origin = objective.over, point.theta
    diameter = over.diameter(len(origin))
    lines, pulled, steepest = _Lines(objective), np.zeros_like(origin), _TINY
    best, lowest = point, math.inf
    for step in range(1, DESCENTS + 1):
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
    return best, DESCENTS
