"""The interface of a loss, and its constants."""

# ruff: noqa: ARG002  # defaults of methods that losses override

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from dpsdk._checks import described, require, shown, to_array, to_finite, to_positive
from dpsdk._records import fields, frozen
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.typing import Floats

__all__ = [
    "Constants",
    "Loss",
    "Predicts",
    "convex_range",
    "examine",
    "to_labels",
    "to_smoothing",
    "to_span",
    "to_width",
]


Predicts: TypeAlias = Literal["mean", "quantile", "probability", "margin"]
"""The meaning of the numbers that a fitted model predicts."""


@frozen
class Constants:
    """Bounds of a loss on a span of margins, over some labels; in the units of the loss."""

    lipschitz: float
    """The largest size of the derivative in the margin."""
    smoothness: float
    """The largest curvature, and how fast the derivative moves; infinite where there is a kink."""
    range: float
    """By how much the loss of one label varies over the span."""
    scale: float
    """The largest |φ′(z) (z − z′)| over two margins of the span, which is `lipschitz` times its
    length for every convex loss (the parameter S of Ullman 2015)."""
    self_concordance: float = np.inf
    """How many times as large as the curvature its own derivative is in size at the most (Bach
    2010); 0 where the curvature does not change, infinite where nothing is known."""


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

        This finds mistakes, and proves nothing of what lies between the margins of the grid. Raises
        `QueryError` if the loss is declared not to be convex, or is found not to be; if it does not
        take these labels; if a value, derivative or curvature is NaN or infinite, has another shape
        than its arguments, or differs when asked again; if derivatives are not those of the values;
        or if a declared constant is exceeded. Raises `InvalidArgument` as for `constants`.
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


Rule: TypeAlias = Callable[[Floats, Floats], Floats]

_GRID = 1025
"""Margins that are tried for each label: so many that kinks of moderate width are met."""

_BATCH = 2**18
"""Values that are looked at together, so that many labels take no more memory than few."""

_CLOSE = 1e-9


def to_labels(labels: Sequence[float] | Floats) -> Floats:
    """Read a non-empty sequence of finite labels, one array of one axis."""
    expected = "a non-empty sequence of finite numbers"
    array = to_array("labels", labels, expected)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise InvalidArgument("labels", expected, shown(labels))
    return array


def to_span(low: float, high: float) -> tuple[float, float]:
    """Read a span of margins."""
    lower, upper = float(to_finite("low", low)), float(to_finite("high", high))
    if lower > upper:
        raise InvalidArgument("high", f"at least low, which is {lower:g}", shown(high))
    return lower, upper


def convex_range(
    value: Rule, derivative: Rule, low: float, high: float, labels: Floats, points: int = _GRID
) -> float:
    """At least how much a convex function varies over a span, for the label where it varies most.

    On each step of a grid the function lies above the tangents at both ends of the step.
    """
    grid = np.linspace(low, high, points)[:, None]
    step = (high - low) / (points - 1)
    widest = 0.0
    for some in _batches(labels, points):
        with np.errstate(all="ignore"):
            values, slopes = value(grid, some), derivative(grid, some)
        if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
            return math.inf
        left, right = slopes[:-1], slopes[1:]
        rise = np.where(right > left, right - left, 1.0)
        # Where the tangents of the two ends meet, as a way from the left end.
        way = np.clip((step * right - (values[1:] - values[:-1])) / rise, 0.0, step)
        valley = (left < 0) & (right > 0)
        least = np.where(valley, values[:-1] + left * way, np.minimum(values[:-1], values[1:]))
        widest = max(widest, float((np.maximum(values[0], values[-1]) - least.min(axis=0)).max()))
    return widest


def examine(loss: Loss, low: float, high: float, labels: Floats) -> None:
    """Raise `QueryError` at the first thing that a loss does not keep."""
    name = described(loss)
    if loss.convex is not True:
        raise QueryError(name, "it is declared not to be convex, and only convex losses are")
    reason = loss.reason_against(labels)
    if reason is not None:
        raise QueryError(name, reason)
    grid = np.unique(np.linspace(low, high, _GRID))[:, None]
    bounds: dict[str, float] = {}
    rules = {"value": loss.value, "derivative": loss.derivative, "curvature": loss.curvature}
    for some in _batches(labels, len(grid)):
        values, slopes, bends = [
            _answers(rule, 1, what, name, grid, some)[0] for what, rule in rules.items()
        ]
        bounds = bounds or _declared(loss, name, low, high, labels)
        first, second = _answers(loss.slopes, 2, "slopes", name, grid, some)
        if not (np.array_equal(first, slopes) and np.allclose(second, bends, rtol=1e-6)):
            raise QueryError(name, "slopes() differs from derivative() and curvature()")
        _convex(name, grid, values, slopes, bends)
        seen = {
            "lipschitz": float(np.abs(slopes).max()),
            "range": float((values.max(axis=0) - values.min(axis=0)).max()),
            "scale": float((np.abs(slopes) * np.maximum(grid - grid[0], grid[-1] - grid)).max()),
            "smoothness": _smoothness(grid, slopes, bends),
            "self_concordance": _bending(grid, bends),
        }
        for what, number in seen.items():
            if number > bounds[what] * (1 + 1e-6) + 1e-12:
                reason = f"its {what} is declared as {bounds[what]:g}, and is at least {number:g}"
                raise QueryError(name, reason)


def _batches(labels: Floats, points: int) -> list[Floats]:
    size = max(1, _BATCH // points)
    return [labels[start : start + size] for start in range(0, len(labels), size)]


def _declared(loss: Loss, name: str, low: float, high: float, labels: Floats) -> dict[str, float]:
    numbers: list[float] = labels.tolist()
    found: dict[str, float] = {}
    for what in ("lipschitz", "smoothness", "range", "scale", "self_concordance"):
        try:
            number: object = getattr(loss, what)(low, high, numbers)
        except Exception as error:
            raise QueryError(name, f"{what}() raised {type(error).__name__}") from error
        if not isinstance(number, int | float) or math.isnan(number) or number < 0:
            raise QueryError(name, f"its {what} is {shown(number)}, and no number from 0")
        found[what] = float(number)
    return found


def _answers(
    rule: Callable[[Floats, Floats], Floats | tuple[Floats, Floats]],
    count: int,
    what: str,
    name: str,
    grid: Floats,
    labels: Floats,
) -> list[Floats]:
    """The answers of a rule, asked twice, about copies that it may not change."""
    margins, numbers = map(np.copy, np.broadcast_arrays(grid, labels))
    shape = margins.shape
    margins.flags.writeable = numbers.flags.writeable = False
    asked: list[list[Floats]] = []
    for _ in range(2):
        try:
            with np.errstate(all="ignore"):
                result = rule(margins, numbers)
                answers = [np.asarray(each) for each in (result if count > 1 else [result])]
        except Exception as error:
            raise QueryError(name, f"{what}() raised {type(error).__name__}") from error
        if len(answers) != count:
            raise QueryError(name, f"{what}() gives {len(answers)} arrays, and not {count}")
        for answer in answers:
            if answer.shape != shape or answer.dtype != np.float64:
                reason = f"{what}() gives {shown(answer.dtype)} of shape {answer.shape}"
                raise QueryError(name, f"{reason}, and not float64 of the shape of its arguments")
        asked.append([answer.copy() for answer in answers])
    for one, other in zip(*asked, strict=True):
        if not np.isfinite(one).all():
            row, column = np.argwhere(~np.isfinite(one))[0]
            place = f"margin {float(grid[row, 0]):g} and label {float(labels[column]):g}"
            raise QueryError(name, f"{what}() is NaN or infinite at {place}")
        if not np.array_equal(one, other):
            raise QueryError(name, f"{what}() gives other numbers when it is asked again")
    return asked[0]


def _convex(name: str, grid: Floats, values: Floats, slopes: Floats, bends: Floats) -> None:
    if (bends < 0).any():
        raise QueryError(name, "its curvature is below 0, so that it is not convex")
    step = np.diff(grid, axis=0)
    size = np.maximum(np.abs(values).max(axis=0), np.abs(slopes).max(axis=0) * step)
    allowed = _CLOSE * np.maximum(size, 1e-300)
    steepest = np.maximum(np.abs(slopes).max(axis=0), 1e-300)
    if (np.diff(slopes, axis=0) < -_CLOSE * steepest).any():
        raise QueryError(name, "its derivative falls, so that it is not convex")
    rise = np.diff(values, axis=0)
    # Between two margins a convex function rises by no less than the slope at the first says, and
    # by no more than that at the second.
    wrong = (rise < slopes[:-1] * step - allowed) | (rise > slopes[1:] * step + allowed)
    if wrong.any():
        raise QueryError(name, "its derivative is not that of its value, or it is not convex")


def _smoothness(grid: Floats, slopes: Floats, bends: Floats) -> float:
    # What rounding alone may move a slope by says nothing of the loss.
    moved = np.diff(slopes, axis=0) - 1e-12 * np.maximum(np.abs(slopes).max(), 1.0)
    return max(float(bends.max()), float((moved / np.diff(grid, axis=0)).max(initial=-np.inf)))


def _bending(grid: Floats, bends: Floats) -> float:
    # A floor moves logarithms no further apart, and rounding says nothing of the loss.
    moved = np.abs(np.diff(np.log(np.maximum(bends, 1e-250)), axis=0)) - 1e-9
    return float((moved / np.diff(grid, axis=0)).max(initial=0.0))
