"""The interface of a loss, and its constants."""

# ruff: noqa: ARG002  # defaults of methods that losses override

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from dpsdk._checks import require, shown, to_positive
from dpsdk._records import fields, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.losses.checking import convex_range, examine, to_labels, to_span
from dpsdk.typing import Floats

__all__ = ["Constants", "Loss", "Predicts", "to_smoothing", "to_width"]

Predicts: TypeAlias = Literal["mean", "quantile", "probability", "margin"]
"""The meaning of the numbers that a fitted model predicts."""


@frozen
class Constants:
    """Bounds of a loss on a span of margins, over some labels; in the units of the loss.

    Parameters
    ----------
    lipschitz
        The largest size of the derivative in the margin.
    smoothness
        The largest curvature, and how fast the derivative moves with the margin; infinite where
        the loss has a kink.
    range
        By how much the loss of one label varies over the span.
    scale
        The largest |φ′(z) (z − z′)| over two margins of the span, which is `lipschitz` times its
        length for every convex loss (the parameter S of Ullman 2015).
    self_concordance
        How many times as large as the curvature its own derivative is in size at the most (Bach
        2010); 0 where the curvature does not change, infinite where nothing is known.
    """

    lipschitz: float
    smoothness: float
    range: float
    scale: float
    self_concordance: float = np.inf


class Loss(ABC):
    """A convex function φ(z, y) of a margin z = ⟨θ, x⟩ and of a label y.

    Derive a frozen value of your own from it, with `value`, `derivative` and `curvature`. These see
    arrays of margins and labels of the public universe, never a row of a table, and must be pure:
    the same numbers give the same numbers, and nothing is written into what is handed in. `check`
    compares them with one another, and with what `constants` declares, on the span of margins that
    a model may have.

    >>> from attrs import frozen
    >>> import numpy as np
    >>> from dpsdk.losses import Loss
    >>> @frozen
    ... class LogCosh(Loss):
    ...     def value(self, z, y):
    ...         return np.logaddexp(z - y, y - z) - np.log(2)
    ...     def derivative(self, z, y):
    ...         return np.tanh(z - y)
    ...     def curvature(self, z, y):
    ...         return 1 - np.tanh(z - y) ** 2
    ...     def smoothness(self, low, high, labels):
    ...         return 1.0
    >>> LogCosh().check(-3, 3, [0, 1])
    """

    __slots__ = ()

    @property
    def convex(self) -> bool:
        """True if the loss is declared to be convex in the margin. No other is minimised."""
        return True

    @property
    def signed(self) -> bool:
        """True if labels are −1 and +1. Otherwise they are numbers."""
        return False

    @property
    def kinked(self) -> bool:
        """True if the derivative jumps anywhere. Curvatures do not tell of a kink."""
        return False

    @property
    def predicts(self) -> Predicts:
        """The meaning of the numbers of `predict`."""
        return "mean"

    @abstractmethod
    def value(self, z: Floats, y: Floats | float) -> Floats:
        """The loss at margins, for a label or for labels of a shape that goes with that of `z`."""

    @abstractmethod
    def derivative(self, z: Floats, y: Floats | float) -> Floats:
        """The derivative in the margin; at a kink, any slope between those of its two sides."""

    @abstractmethod
    def curvature(self, z: Floats, y: Floats | float) -> Floats:
        """The second derivative in the margin, at least 0; 0 at a kink."""

    def slopes(self, z: Floats, y: Floats | float) -> tuple[Floats, Floats]:
        """The derivative and the curvature, for losses that work out both at once."""
        return self.derivative(z, y), self.curvature(z, y)

    def predict(self, z: Floats) -> Floats:
        """Predict at margins: the number that `predicts` names."""
        return z.copy()

    def reason_against(self, labels: Floats) -> str | None:
        """Why these labels cannot be, in words; None where they can."""
        if self.signed and not np.isin(labels, (-1.0, 1.0)).all():
            return "its labels are -1 and 1"
        return None

    def smoothed(self, width: float) -> Loss | None:
        """A smoother loss close above this one, its kinks rounded `width` to both sides.

        None where the loss is as smooth as that already, or does not know a smoother one.
        """
        return None

    def slack(self, z: Floats, y: Floats | float, slope: Floats) -> Floats:
        """φ(z) + φ*(slope) − slope·z: how far a line of this slope below the loss stays from φ(z).

        By the inequality of Fenchel and Young it is at least 0, and 0 where the slope is a
        derivative at z. Losses that have `smoothed` give it for the derivatives of these.
        """
        raise InvalidArgument("loss", "one that has a smoothed form", shown(self))

    def lipschitz(self, low: float, high: float, labels: Sequence[float]) -> float:
        """The largest size of the derivative on a span.

        Exact: the derivative of a convex function is largest in size at an end of the span.
        """
        ends = np.array([[low], [high]])
        return float(np.abs(self.derivative(ends, to_labels(labels))).max())

    def smoothness(self, low: float, high: float, labels: Sequence[float]) -> float:
        """At least the largest curvature on a span; infinite unless a loss declares otherwise."""
        return np.inf

    def range(self, low: float, high: float, labels: Sequence[float]) -> float:
        """At least by how much the loss of one label varies over a span.

        Up to rounding an upper bound for every convex loss: tangents at many margins bound it from
        below. It exceeds the exact range by the small distance between the loss and its tangents.
        """
        return convex_range(self.value, self.derivative, low, high, to_labels(labels))

    def scale(self, low: float, high: float, labels: Sequence[float]) -> float:
        """The largest |φ′(z) (z − z′)| on a span: exact, if the loss is convex."""
        return self.lipschitz(low, high, labels) * (high - low)

    def self_concordance(self, low: float, high: float, labels: Sequence[float]) -> float:
        """At least |φ‴|/φ″ on a span, so that φ″ changes by a factor exp(c·way) at the most.

        Infinite unless a loss declares otherwise. It is what bounds of an excess by measured
        curvature rest on.
        """
        return np.inf

    def constants(self, low: float, high: float, labels: Sequence[float]) -> Constants:
        """All that bounds the loss on a span of margins [low, high] and these labels.

        Raises `InvalidArgument` if the span is none, or the labels are no finite numbers.
        """
        span, numbers = to_span(low, high), to_labels(labels).tolist()
        return Constants(*[getattr(self, each.name)(*span, numbers) for each in fields(Constants)])

    def check(self, low: float, high: float, labels: Sequence[float]) -> None:
        """Try the loss on a grid of margins in [low, high] and on all labels of the universe.

        This finds mistakes, and proves nothing of what lies between the margins of the grid.

        Raises `QueryError` if the loss is declared not to be convex, or is found not to be; if it
        does not take these labels; if a value, derivative or curvature is NaN or infinite, has
        another shape than its arguments, or differs when asked again; if derivatives are not those
        of the values; or if a declared constant is exceeded. Raises `InvalidArgument` as for
        `constants`.
        """
        examine(self, *to_span(low, high), to_labels(labels))


def to_width(parameter: str, value: float | Fraction) -> float:
    """Read a positive finite number of moderate size."""
    number = to_positive(parameter, value)
    require(
        Fraction(1, 10**100) <= number <= 10**100, parameter, "a number from 1e-100 to 1e100", value
    )
    return float(number)


def to_smoothing(value: float | None) -> float | None:
    """Read the width of a rounded kink, where one is given."""
    return None if value is None else to_width("smoothing", value)
