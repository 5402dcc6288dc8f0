"""Losses of generalised linear models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.codec import Choice, written
from dpsdk.errors import InvalidArgument
from dpsdk.losses.base import Loss, Predicts
from dpsdk.typing import Floats

__all__ = ["GLMLoss", "Link"]

Link: TypeAlias = Literal["identity", "logit", "log", "probit"]
"""The function from the mean of a label to the margin."""


_LINKS: tuple[Link, ...] = ("identity", "logit", "log", "probit")


def _to_link(value: Link) -> Link:
    if type(value) is str:
        for link in _LINKS:
            if value == link:
                return link
    raise InvalidArgument("link", f"one of {', '.join(map(repr, _LINKS))}", shown(value))


def _log_normal(z: Floats) -> Floats:
    """The logarithm of the normal law's distribution function."""
    from scipy.special import log_ndtr  # noqa: PLC0415  # slow to import

    result: Floats = log_ndtr(z)
    return result


def _mills(z: Floats) -> Floats:
    """The density of the normal law over its distribution function."""
    return np.exp(-0.5 * np.square(z) - 0.5 * math.log(2.0 * math.pi) - _log_normal(z))


@written("loss.glm", {"link": Choice[str]("identity", "logit", "log", "probit")})
@frozen
class GLMLoss(Loss):
    """The negative log-likelihood of a generalised linear model (Nelder and Wedderburn 1972).

    Terms that depend on the label alone are left out. `lipschitz` and `scale` are exact; `range` is
    an upper bound; `smoothness` is exact but for "probit", where 1 is its limit. No
    self-concordance of "probit" is declared.

    Parameters
    ----------
    link
        "identity": ½z² − y z, the squared loss up to a constant, for any numbers. "logit":
        log(1 + exp(z)) − y z, for labels from 0 to 1. "log": exp(z) − y z, counts of Poisson,
        for labels from 0. "probit": −y log Φ(z) − (1 − y) log Φ(−z), for labels from 0 to 1. A
        model predicts the mean of the label, which for "logit" and "probit" is a probability.
    """

    link: Link = field(converter=_to_link)

    @property
    def predicts(self) -> Predicts:
        return "probability" if self.link in ("logit", "probit") else "mean"

    def reason_against(self, labels: Floats) -> str | None:
        if self.link in ("logit", "probit") and (labels.min() < 0.0 or labels.max() > 1.0):
            return "its labels are numbers from 0 to 1"
        if self.link == "log" and labels.min() < 0.0:
            return "its labels are numbers from 0"
        return None

    def value(self, z: Floats, y: Floats | float) -> Floats:
        if self.link == "identity":
            return z * (0.5 * z - y)
        if self.link == "logit":
            return np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0.0) - y * z
        if self.link == "log":
            with np.errstate(over="ignore"):
                return np.exp(z) - y * z
        return -y * _log_normal(z) - (1.0 - y) * _log_normal(-z)

    def derivative(self, z: Floats, y: Floats | float) -> Floats:
        if self.link == "probit":
            return (1.0 - y) * _mills(-z) - y * _mills(z)
        return self.predict(z) - y

    def curvature(self, z: Floats, y: Floats | float) -> Floats:
        if self.link == "identity":
            return np.ones_like(z - y)
        if self.link == "logit":
            fall = np.exp(-np.abs(z))
            return fall / np.square(1.0 + fall) + np.zeros_like(z - y)
        if self.link == "log":
            return self.predict(z) + np.zeros_like(z - y)
        up, down = _mills(z), _mills(-z)
        # Both parts are between 0 and 1; where they cancel, rounding would leave that.
        return y * np.clip(up * (up + z), 0.0, 1.0) + (1.0 - y) * np.clip(
            down * (down - z), 0.0, 1.0
        )

    def predict(self, z: Floats) -> Floats:
        if self.link == "identity":
            return z.copy()
        if self.link == "probit":
            return np.exp(_log_normal(z))
        with np.errstate(over="ignore"):
            return np.exp(z) if self.link == "log" else 1.0 / (1.0 + np.exp(-z))

    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        del labels
        if self.link == "log":
            with np.errstate(over="ignore"):
                return float(np.exp(np.float64(high)))
        if self.link == "logit":
            nearest = np.array([min(max(0.0, low), high)])
            return float(self.curvature(nearest, 0.0)[0])
        return 1.0

    def self_concordance(self, low: float, high: float, labels: Sequence[float]) -> float:
        del low, high, labels
        known: dict[Link, float] = {"identity": 0.0, "logit": 1.0, "log": 1.0}
        return known.get(self.link, np.inf)
