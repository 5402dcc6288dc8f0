"""Walls of `perturb`: half the squared distance of coefficients from a set, on integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsdk.forms.sets import Ball, Box, ConvexSet
from dpsdk.typing import Floats, Ints

__all__ = ["bend_of", "nearest"]

_MORE = 20


def nearest(over: ConvexSet, theta: Ints, bits: int) -> Ints:
    """The point of a set that is nearest to integers, in steps of 2 to the minus `bits`.

    It is off by at most 2√d steps, for d integers of any size in an array of objects.
    """
    if isinstance(over, Ball):
        most, square = _steps(over.radius, bits), int(theta @ theta)
        if square <= most * most:
            return theta
        length = math.isqrt(square << (2 * _MORE))
        most <<= _MORE + 1
        return np.array([(t * most + length) // (2 * length) for t in theta], dtype=object)
    if isinstance(over, Box):
        sides = [[_steps(one, bits) for one in side] for side in over.sides(len(theta))]
        return np.array([min(max(t, a), b) for t, a, b in zip(theta, *sides, strict=True)], object)
    level = total = 0
    for count, largest in enumerate(sorted(theta, reverse=True), 1):
        total += largest
        if largest * count > total - (1 << bits):
            level = (total - (1 << bits)) // count
    return np.maximum(theta - level, 0)


def bend_of(over: ConvexSet, theta: Floats) -> Floats:
    """The Hessian of half the squared distance from a set, where it has one."""
    whole: Floats = np.eye(len(theta))
    if isinstance(over, Ball):
        length = float(np.linalg.norm(theta))
        if length <= over.radius:
            return 0.0 * whole
        way = theta / length
        whole -= (over.radius / length) * (whole - np.outer(way, way))
        return whole
    if isinstance(over, Box):
        return np.diag((over.project(theta) != theta).astype(np.float64))
    kept = (over.project(theta) > 0.0).astype(np.float64)
    bend: Floats = whole - np.diag(kept) + np.outer(kept, kept) / kept.sum()
    return bend


def _steps(value: float, bits: int) -> int:
    return math.floor(Fraction(value) * (1 << bits))
