"""The losses of the package: of classes, of numbers, and of generalised linear models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown, to_probability
from dpsdk._records import field, frozen
from dpsdk.codec import AMOUNT, NUMBER, Choice, Member, OrNone, written
from dpsdk.errors import InvalidArgument
from dpsdk.losses.base import Loss, Predicts, to_smoothing, to_width
from dpsdk.typing import Floats, Real

__all__ = [
    "GLMLoss",
    "HuberLoss",
    "Link",
    "LogisticLoss",
    "QuantileLoss",
    "SVMLoss",
    "SquaredLoss",
]


class _OfClasses(Loss):
    """A loss of labels −1 and +1 that rises or falls all the way."""

    __slots__ = ()

    @property
    def signed(self) -> bool:
        return True

    def range(self, low: float, high: float, labels: Sequence[float]) -> float:
        values = self.value(np.array([[low], [high]]), np.array(labels))
        return float(np.abs(values[1] - values[0]).max())


class _OfNumbers(Loss):
    """A loss of labels that are numbers, of curvature at most 1, least `_valley` above a label."""

    __slots__ = ()

    @property
    def _valley(self) -> float:
        return 0.0

    @override
    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        return 1.0

    def range(self, low: float, high: float, labels: Sequence[float]) -> float:
        widest = -np.inf
        for label in labels:
            ends = np.array([low, high, min(max(label + self._valley, low), high)])
            values = self.value(ends, label)
            widest = max(widest, float(max(values[0], values[1]) - values[2]))
        return widest


class _Rounded(Loss):
    """A loss with a kink, or with that rounded `smoothing` to both sides."""

    __slots__ = ()
    smoothing: float | None

    @property
    def kinked(self) -> bool:
        return self.smoothing is None

    @override
    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        return np.inf if self.smoothing is None else 0.5 / self.smoothing


@written("loss.logistic", {})
@frozen
class LogisticLoss(_OfClasses):
    """log(1 + exp(−y z)): logistic regression, for labels −1 and +1.

    A model predicts the probability of +1. All its constants are exact.

    >>> from dpsdk.losses import LogisticLoss
    >>> LogisticLoss().constants(-2, 2, [-1, 1]).smoothness
    0.25
    """

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

    @override
    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        return float(self.curvature(np.array([min(max(0.0, low), high)]), 1.0)[0])

    @override
    def self_concordance(self, low: float, high: float, labels: Sequence[float]) -> float:
        # φ‴ = φ″·(1 − 2p), with p between 0 and 1.
        return 1.0


@written("loss.svm", {"smoothing": Member(OrNone(NUMBER), None)})
@frozen
class SVMLoss(_Rounded, _OfClasses):
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


@written("loss.squared", {})
@frozen
class SquaredLoss(_OfNumbers):
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

    @override
    def self_concordance(self, low: float, high: float, labels: Sequence[float]) -> float:
        return 0.0


def _to_threshold(value: float) -> float:
    return to_width("threshold", value)


@written("loss.huber", {"threshold": NUMBER})
@frozen
class HuberLoss(_OfNumbers):
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


def _to_q(value: Real) -> Fraction:
    return to_probability("q", value)


@written("loss.quantile", {"q": AMOUNT, "smoothing": Member(OrNone(NUMBER), None)})
@frozen
class QuantileLoss(_Rounded, _OfNumbers):
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

    @property
    def _valley(self) -> float:
        # A smoothed loss is least where −lean is half of the residual in units of the width.
        return 2.0 * self._lean * (self.smoothing or 0.0)


Link: TypeAlias = Literal["identity", "logit", "log", "probit"]
"""The function from the mean of a label to the margin."""


_LINKS: tuple[Link, ...] = ("identity", "logit", "log", "probit")


def _to_link(value: Link) -> Link:
    if type(value) is not str or value not in _LINKS:
        raise InvalidArgument("link", f"one of {', '.join(map(repr, _LINKS))}", shown(value))
    return value


def _log_normal(z: Floats) -> Floats:
    from scipy.special import log_ndtr  # noqa: PLC0415  # slow to import

    return log_ndtr(z)


def _mills(z: Floats) -> Floats:
    """The density of the normal law over its distribution function."""
    return np.exp(-0.5 * np.square(z) - 0.5 * math.log(2.0 * math.pi) - _log_normal(z))


@written("loss.glm", {"link": Choice[str](*_LINKS)})
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

    @override
    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        if self.link == "log":
            with np.errstate(over="ignore"):
                return float(np.exp(np.float64(high)))
        if self.link == "logit":
            nearest = np.array([min(max(0.0, low), high)])
            return float(self.curvature(nearest, 0.0)[0])
        return 1.0

    @override
    def self_concordance(self, low: float, high: float, labels: Sequence[float]) -> float:
        known: dict[Link, float] = {"identity": 0.0, "logit": 1.0, "log": 1.0}
        return known.get(self.link, np.inf)
