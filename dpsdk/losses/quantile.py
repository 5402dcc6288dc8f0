"""The loss whose least mean is a quantile."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from attrs import field, frozen

from dpsdk._checks import to_probability
from dpsdk.codec import AMOUNT, NUMBER, Member, OrNone, written
from dpsdk.losses.base import Loss, Predicts, to_width
from dpsdk.typing import Floats, Real

__all__ = ["QuantileLoss"]


def _to_q(value: Real) -> Fraction:
    return to_probability("q", value)


def _to_smoothing(value: float | None) -> float | None:
    return None if value is None else to_width("smoothing", value)


@written("loss.quantile", {"q": AMOUNT, "smoothing": Member(OrNone(NUMBER), None)})
@frozen
class QuantileLoss(Loss):
    """max(q r, (q − 1) r) for r = y − z: quantile regression (Koenker and Bassett 1978).

    A model predicts the q-quantile of the label; q = 0.5 is the median, and half the absolute
    error. All its constants are exact, but for the `smoothness` of a smoothed one, which is
    1/(2·smoothing) even where no residual meets the kink.

    Parameters
    ----------
    q
        Which quantile, strictly between 0 and 1.
    smoothing
        h > 0 rounds the kink: |r| becomes (r² + h²)/(2h) where |r| ≤ h. The loss then lies above
        the exact one by at most h/4, so that a model whose excess is E under it has at most
        E + h/4 under the exact loss. None keeps the kink.
    """

    q: Fraction = field(default=Fraction(1, 2), converter=_to_q)
    smoothing: float | None = field(default=None, converter=_to_smoothing)

    @property
    def kinked(self) -> bool:
        return self.smoothing is None

    @property
    def predicts(self) -> Predicts:
        return "quantile"

    @property
    def _lean(self) -> float:
        return float(self.q - Fraction(1, 2))

    def value(self, z: Floats, y: Floats | float) -> Floats:
        rest = y - z
        size = np.abs(rest)
        if self.smoothing is not None:
            inner = np.minimum(size, self.smoothing)
            # (r² + h²)/(2h) − |r| is (h − |r|)²/(2h).
            size = size + np.square(self.smoothing - inner) / (2.0 * self.smoothing)
        return self._lean * rest + 0.5 * size

    def derivative(self, z: Floats, y: Floats | float) -> Floats:
        rest = y - z
        if self.smoothing is None:
            return -self._lean - 0.5 * np.sign(rest)
        return -self._lean - 0.5 * np.clip(rest / self.smoothing, -1.0, 1.0)

    def curvature(self, z: Floats, y: Floats | float) -> Floats:
        rest = y - z
        if self.smoothing is None:
            return np.zeros_like(rest)
        return np.where(np.abs(rest) < self.smoothing, 0.5 / self.smoothing, 0.0)

    def smoothed(self, width: float) -> QuantileLoss | None:
        return QuantileLoss(self.q, width) if width > (self.smoothing or 0.0) else None

    def slack(self, z: Floats, y: Floats | float, slope: Floats) -> Floats:
        # The conjugate of the loss at a slope from −q to 1 − q is y times that slope.
        rest = y - z
        return np.abs(rest) * 0.5 + (self._lean + slope) * rest

    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        del low, high, labels
        return np.inf if self.smoothing is None else 0.5 / self.smoothing

    def range(self, low: float, high: float, labels: Sequence[float]) -> float:
        widest = 0.0
        for label in labels:
            ends = np.array([low, high, min(max(self._least(label), low), high)])
            values = self.value(ends, label)
            widest = max(widest, float(max(values[0], values[1]) - values[2]))
        return widest

    def _least(self, label: float) -> float:
        # Of a smoothed loss: where −lean is half of what the residual is in units of the width.
        return label + 2.0 * self._lean * (self.smoothing or 0.0)
