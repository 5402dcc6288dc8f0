"""Losses of labels that are numbers: models predict their mean, or a quantile."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpsdk._checks import to_probability
from dpsdk._records import field, frozen
from dpsdk.codec import AMOUNT, NUMBER, Member, OrNone, written
from dpsdk.losses.base import Loss, Predicts, to_smoothing, to_width
from dpsdk.typing import Floats, Real

__all__ = ["HuberLoss", "QuantileLoss", "SquaredLoss"]


@written("loss.squared", {})
@frozen
class SquaredLoss(Loss):
    """½(z − y)²: least squares. All its constants are exact.

    >>> from dpsdk.losses import SquaredLoss
    >>> SquaredLoss().constants(-2, 2, [0, 1])
    Constants(lipschitz=3.0, smoothness=1.0, range=4.5, scale=12.0, self_concordance=0.0)
    """

    def value(self, z: Floats, y: Floats | float) -> Floats:
        return 0.5 * np.square(z - y)

    def derivative(self, z: Floats, y: Floats | float) -> Floats:
        return z - y

    def curvature(self, z: Floats, y: Floats | float) -> Floats:
        return np.ones_like(z - y)

    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        del low, high, labels
        return 1.0

    def self_concordance(self, low: float, high: float, labels: Sequence[float]) -> float:
        del low, high, labels
        return 0.0

    def range(self, low: float, high: float, labels: Sequence[float]) -> float:
        return max(_range(self, low, high, label, label) for label in labels)


def _to_threshold(value: float) -> float:
    return to_width("threshold", value)


@written("loss.huber", {"threshold": NUMBER})
@frozen
class HuberLoss(Loss):
    """½r² where |r| ≤ threshold, else threshold·(|r| − threshold/2), for r = z − y (Huber 1964).

    Rows whose labels are far off pull on a model no more than a row at the threshold. All its
    constants but `smoothness` are exact; that is 1 even where no residual is within the threshold.

    Parameters
    ----------
    threshold
        From where on the loss grows linearly, in the units of the label; above 0.
    """

    threshold: float = field(converter=_to_threshold)

    def value(self, z: Floats, y: Floats | float) -> Floats:
        size = np.abs(z - y)
        # ½c² + threshold·(|r| − c), c the smaller of |r| and threshold.
        inner = np.minimum(size, self.threshold)
        return inner * (size - 0.5 * inner)

    def derivative(self, z: Floats, y: Floats | float) -> Floats:
        return np.clip(z - y, -self.threshold, self.threshold)

    def curvature(self, z: Floats, y: Floats | float) -> Floats:
        return (np.abs(z - y) <= self.threshold).astype(np.float64)

    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        del low, high, labels
        return 1.0

    def range(self, low: float, high: float, labels: Sequence[float]) -> float:
        return max(_range(self, low, high, label, label) for label in labels)


def _to_q(value: Real) -> Fraction:
    return to_probability("q", value)


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
    smoothing: float | None = field(default=None, converter=to_smoothing)

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
        # A smoothed loss is least where −lean is half of the residual in units of the width.
        away = 2.0 * self._lean * (self.smoothing or 0.0)
        return max(_range(self, low, high, label, label + away) for label in labels)


def _range(loss: Loss, low: float, high: float, label: float, least: float) -> float:
    """By how much a convex loss varies over a span, if it is smallest at a known margin."""
    ends = np.array([low, high, min(max(least, low), high)])
    values = loss.value(ends, label)
    return float(max(values[0], values[1]) - values[2])
