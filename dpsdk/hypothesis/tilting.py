"""The step that brings the answer of a function with many values to a target."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk._records import frozen
from dpsdk.typing import Floats

__all__ = ["Tilted"]

_TURNS = 200
_CLOSE = 2.0**-48
_FAINT = 1e-200
_FARTHEST = 709.0
_COARSE = 2.0**40


@frozen(eq=False)
class Tilted:
    """Weighted values, and what becomes of their mean under weights q·exp(step·v).

    `parts` are pairs of arrays of one shape: values v, and weights q or, where `logs`, their
    logarithms. `rest` is the logarithm of the weight that value zero has beside them.
    """

    parts: Sequence[tuple[Floats, Floats]]
    logs: bool
    rest: float

    def reach(self) -> tuple[float, float]:
        """The smallest and the largest value that has weight."""
        low, high = (0.0, 0.0) if self.rest > -math.inf else (math.inf, -math.inf)
        for values, weights in self.parts:
            some = weights > (-math.inf if self.logs else 0.0)
            low = min(low, float(values.min(initial=math.inf, where=some)))
            high = max(high, float(values.max(initial=-math.inf, where=some)))
        return low, high

    def solve(self, target: float, width: float) -> float:
        """The step at which the mean is `target`, to about 2^-48 of `width`."""
        low, high, step = -math.inf, math.inf, 0.0
        for _ in range(_TURNS):
            mean, variance = self._moments(step)
            if abs(mean - target) <= _CLOSE * width:
                break
            # The mean rises with the step, so that each turn tightens one end.
            if mean < target:
                low = step
            else:
                high = step
            stride = 2.0 * abs(step) + 4.0 / width
            wanted = (target - mean) / variance if variance > 0.0 else math.inf
            guess = step + math.copysign(min(abs(wanted), stride), target - mean)
            if not low < guess < high:
                guess = (low + high) / 2
            if guess == step:
                break
            step = guess
        return step

    def _moments(self, step: float) -> tuple[float, float]:
        """The mean and variance of the values under tilted weights."""
        # The largest exponent is brought to zero, so that nothing overflows.
        mass, first, second = self._sums(step, self._top(step, weigh=self.logs))
        if not mass > _FAINT:
            # The weight lies elsewhere than the largest exponents do.
            mass, first, second = self._sums(step, self._top(step, weigh=True))
        mean = first / mass
        return mean, second / mass - mean * mean

    def _top(self, step: float, *, weigh: bool) -> float:
        """The largest logarithm of a tilted weight, or of the factor alone."""
        top = self.rest if weigh else 0.0 if self.rest > -math.inf else -math.inf
        for values, weights in self.parts:
            exponents = step * values
            if weigh and self.logs:
                exponents += weights
            elif weigh:
                nothing = np.full(weights.shape, -math.inf)
                exponents += np.log(weights, where=weights > 0.0, out=nothing)
            top = max(top, float(exponents.max()))
        return top

    def _sums(self, step: float, top: float) -> tuple[float, float, float]:
        """The sums of tilted weights, of their products with the values and with the squares."""
        mass = math.exp(min(self.rest - top, _FARTHEST))
        first = second = 0.0
        for values, weights in self.parts:
            exponents = step * values
            if self.logs and abs(top) > _COARSE:
                # In the order of `_top`, whose roundings are large then: none is above zero.
                exponents += weights
                exponents -= top
                tilted = np.exp(exponents, out=exponents)
            elif self.logs:
                exponents -= top
                exponents += weights
                tilted = np.exp(exponents, out=exponents)
            else:
                exponents -= top
                # Where an exponent is larger, the weight is zero.
                tilted = weights * np.exp(np.minimum(exponents, _FARTHEST, out=exponents))
            mass += float(tilted.sum())
            tilted *= values
            first += float(tilted.sum())
            second += float(np.vdot(tilted, values))
        return mass, first, second
