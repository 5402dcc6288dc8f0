"""Losses of labels that are numbers: what a model predicts is their mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import field, frozen

from dpsdk.codec import NUMBER, written
from dpsdk.losses.base import Loss, to_width
from dpsdk.typing import Floats

__all__ = ["HuberLoss", "SquaredLoss"]


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


def _range(loss: Loss, low: float, high: float, label: float, least: float) -> float:
    """By how much a convex loss varies over a span, if it is smallest at a known margin."""
    ends = np.array([low, high, min(max(least, low), high)])
    values = loss.value(ends, label)
    return float(max(values[0], values[1]) - values[2])
