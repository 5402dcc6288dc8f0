"""The step that brings the answer of a function with many values to a target."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from dpsdk.typing import Floats

__all__ = ["solve_tilt"]

_TURNS = 200
_CLOSE = 2.0**-48


def solve_tilt(
    parts: list[tuple[Floats, Floats]], rest: float, target: float, width: float
) -> float:
    """The step s at which weights q·exp(s·v) have the mean value `target`.

    Parameters
    ----------
    parts
        Pairs of arrays of one shape: values v and weights q, not negative. Only read.
    rest
        The weight of all cells of value zero beside them.
    target
        Strictly between the smallest and the largest value that has weight.
    width
        The distance of these two values.

    Returns
    -------
    float
        The step; the mean then agrees with the target to about 2^-48 of the width.
    """
    low, high = -math.inf, math.inf
    step = 0.0
    for _ in range(_TURNS):
        mean, variance = _moments(parts, rest, step)
        if abs(mean - target) <= _CLOSE * width:
            break
        # The mean rises with the step, so that each turn tightens one end.
        if mean < target:
            low = step
        else:
            high = step
        guess = step + (target - mean) / variance if variance > 0.0 else math.inf
        reach = 2.0 * abs(step) + 4.0 / width
        if not low < guess < high:
            guess = (low + high) / 2 if math.isfinite(high - low) else math.inf
        if not math.isfinite(guess) or abs(guess - step) > reach:
            guess = step + math.copysign(reach, target - mean)
            if not low < guess < high:
                guess = (low + high) / 2
        if guess == step:
            break
        step = guess
    return step


def _moments(
    parts: Iterable[tuple[Floats, Floats]], rest: float, step: float
) -> tuple[float, float]:
    """The mean and variance of the values under tilted weights."""
    pairs = list(parts)
    # The largest exponent is brought to zero, so that nothing overflows.
    top = max(float((step * values).max()) for values, _ in pairs)
    top = max(top, 0.0) if rest > 0.0 else top
    mass = rest * math.exp(-top)
    first = second = 0.0
    for values, weights in pairs:
        tilted = weights * np.exp(step * values - top)
        mass += float(tilted.sum())
        tilted *= values
        first += float(tilted.sum())
        second += float(np.vdot(tilted, values))
    mean = first / mass
    return mean, second / mass - mean * mean
