"""Losses: what a model pays for a margin when it sees a label."""

from dpsdk.losses.base import Constants, Loss, Predicts
from dpsdk.losses.glm import GLMLoss, Link
from dpsdk.losses.labels import LogisticLoss, SVMLoss
from dpsdk.losses.numbers import HuberLoss, QuantileLoss, SquaredLoss

__all__ = [
    "Constants",
    "GLMLoss",
    "HuberLoss",
    "Link",
    "LogisticLoss",
    "Loss",
    "Predicts",
    "QuantileLoss",
    "SVMLoss",
    "SquaredLoss",
]
