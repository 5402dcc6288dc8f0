"""Losses of labels −1 and +1: what a model says of a record's class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.codec import NUMBER, Member, OrNone, written
from dpsdk.losses.base import Loss, Predicts, to_smoothing
from dpsdk.typing import Floats

__all__ = ["LogisticLoss", "SVMLoss"]


@written("loss.logistic", {})
@frozen
class LogisticLoss(Loss):
    """log(1 + exp(−y z)): logistic regression, for labels −1 and +1.

    A model predicts the probability of +1. All its constants are exact.

    >>> from dpsdk.losses import LogisticLoss
    >>> LogisticLoss().constants(-2, 2, [-1, 1]).smoothness
    0.25
    """

    @property
    def signed(self) -> bool:
        return True

    @property
    def predicts(self) -> Predicts:
        return "probability"

    def value(self, z: Floats, y: Floats | float) -> Floats:
        margin = y * z
        return np.log1p(np.exp(-np.abs(margin))) - np.minimum(margin, 0.0)

    def derivative(self, z: Floats, y: Floats | float) -> Floats:
        # In one array: large ones take longer to find a place for than to work on.
        grown: Floats = np.asarray(np.multiply(y, z, dtype=np.float64))
        with np.errstate(over="ignore"):
            np.exp(grown, out=grown)
        grown += 1.0
        return np.divide(-y, grown, out=grown)

    def curvature(self, z: Floats, y: Floats | float) -> Floats:
        fall = np.exp(-np.abs(y * z))
        return fall / np.square(1.0 + fall)

    def slopes(self, z: Floats, y: Floats | float) -> tuple[Floats, Floats]:
        derivative = self.derivative(z, y)
        size = np.abs(derivative)
        curvature = 1.0 - size
        curvature *= size
        return derivative, curvature

    def predict(self, z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-z))

    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        del labels
        return float(self.curvature(np.array([min(max(0.0, low), high)]), 1.0)[0])

    def self_concordance(self, low: float, high: float, labels: Sequence[float]) -> float:
        # φ‴ = φ″·(1 − 2p), with p between 0 and 1.
        del low, high, labels
        return 1.0

    def range(self, low: float, high: float, labels: Sequence[float]) -> float:
        return _range(self, low, high, labels)


@written("loss.svm", {"smoothing": Member(OrNone(NUMBER), None)})
@frozen
class SVMLoss(Loss):
    """max(0, 1 − y z), the hinge of support vector machines, for labels −1 and +1.

    A model predicts margins, whose sign is the class. All its constants are exact, but for the
    `smoothness` of a smoothed one, which is 1/(2·smoothing) even where no margin meets the kink.

    Parameters
    ----------
    smoothing
        h > 0 rounds the kink: the loss is (1 + h − y z)²/(4h) where |1 − y z| ≤ h. It then lies
        above the hinge by at most h/4, so that a model whose excess is E under it has at most
        E + h/4 under the hinge. None keeps the kink.
    """

    smoothing: float | None = field(default=None, converter=to_smoothing)

    @property
    def signed(self) -> bool:
        return True

    @property
    def kinked(self) -> bool:
        return self.smoothing is None

    @property
    def predicts(self) -> Predicts:
        return "margin"

    def value(self, z: Floats, y: Floats | float) -> Floats:
        short = 1.0 - y * z
        if self.smoothing is None:
            return np.maximum(short, 0.0)
        inner = np.clip(short + self.smoothing, 0.0, 2.0 * self.smoothing)
        return np.square(inner) / (4.0 * self.smoothing) + np.maximum(short - self.smoothing, 0.0)

    def derivative(self, z: Floats, y: Floats | float) -> Floats:
        short = 1.0 - y * z
        if self.smoothing is None:
            return np.where(short > 0.0, -y, 0.0)
        return -y * np.clip(0.5 + short * (0.5 / self.smoothing), 0.0, 1.0)

    def curvature(self, z: Floats, y: Floats | float) -> Floats:
        short = 1.0 - y * z
        if self.smoothing is None:
            return np.zeros_like(short)
        return np.where(np.abs(short) < self.smoothing, 0.5 / self.smoothing, 0.0)

    def smoothed(self, width: float) -> SVMLoss | None:
        return SVMLoss(width) if width > (self.smoothing or 0.0) else None

    def slack(self, z: Floats, y: Floats | float, slope: Floats) -> Floats:
        # The conjugate of max(0, 1 − y z) at −y p is −p, for p from 0 to 1.
        short, share = 1.0 - y * z, -y * slope
        return np.maximum(short, 0.0) - share * short

    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        del low, high, labels
        return np.inf if self.smoothing is None else 0.5 / self.smoothing

    def range(self, low: float, high: float, labels: Sequence[float]) -> float:
        return _range(self, low, high, labels)


def _range(loss: Loss, low: float, high: float, labels: Sequence[float]) -> float:
    """By how much a loss that rises or falls all the way varies over a span."""
    values = loss.value(np.array([[low], [high]]), np.array(labels))
    return float(np.abs(values[1] - values[0]).max())
