"""The constants of models that are sketched before they are asked about (Ullman 2015, 4.4)."""

from __future__ import annotations

import math

from attrs import field, frozen

from dpsdk._checks import shown, to_count, to_finite
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Ball, ConvexForm
from dpsdk.forms.design import longest
from dpsdk.mechanisms.convex.sketch import distortion, vectors
from dpsdk.mechanisms.convex.theorems import Problem

__all__ = ["SketchedProblem"]

_WIDER = 1.5
"""Margins on a sketch are no more than so many times what they were."""


def _size(value: int) -> int:
    return to_count("size", value)


def _vectors(value: int) -> int:
    return to_count("vectors", value)


def _positive(name: str, value: float) -> float:
    number = float(to_finite(name, value))
    if not 0.0 < number <= 1e100:
        raise InvalidArgument(name, "a positive number up to 1e100", shown(value))
    return number


def _from_nought(name: str, value: float) -> float:
    number = math.inf if value == math.inf else float(to_finite(name, value))
    if number < 0.0:
        raise InvalidArgument(name, "at least 0", shown(value))
    return number


def _slope(value: float) -> float:
    return _positive("slope", value)


def _bend(value: float) -> float:
    return _from_nought("bend", value)


def _range(value: float) -> float:
    return _from_nought("range", value)


def _norm(value: float) -> float:
    return _positive("norm", value)


def _radius(value: float) -> float:
    return _positive("radius", value)


@frozen(kw_only=True)
class SketchedProblem:
    """The public constants of models over a ball, each of which is asked about on a sketch.

    A Gaussian Φ of so many rows, drawn anew for each model, turns features x into Φx; a θ of the
    sketch answers as Φᵀθ. So nothing depends on the number of features. Φᵀθ may lie outside the
    ball: its predictions are what is bounded, not its length. For far more features than
    coordinates of a sketch only.

    Parameters
    ----------
    size
        The number of rows of Φ.
    vectors
        No model has more different feature vectors.
    slope
        The loss moves no faster with the margin, for margins up to 1.5 times radius times norm.
    bend
        How fast that slope moves with the margin.
    norm
        No feature vector is longer.
    radius
        Of the ball, around 0.
    range
        By how much the loss of one record varies over these margins.
    """

    size: int = field(converter=_size)
    vectors: int = field(converter=_vectors)
    slope: float = field(converter=_slope)
    bend: float = field(converter=_bend)
    norm: float = field(converter=_norm)
    radius: float = field(converter=_radius)
    range: float = field(default=math.inf, converter=_range)

    @classmethod
    def of(cls, form: ConvexForm, size: int) -> SketchedProblem:
        """The constants of a query over a ball."""
        if not isinstance(form, ConvexForm):
            raise InvalidArgument("form", "that of a ConvexMinimization", shown(form))
        if not isinstance(form.over, Ball):
            expected = "a Ball: a sketch keeps lengths, and no sides of boxes or simplices"
            raise InvalidArgument("over", expected, shown(form.over))
        norm, radius = longest(form.coordinates), form.over.radius
        reach = _WIDER * radius * norm
        constants = form.loss.constants(-reach, reach, form.targets.tolist())
        return cls(
            size=size,
            vectors=vectors(form),
            slope=constants.lipschitz,
            bend=constants.smoothness,
            norm=norm,
            radius=radius,
            range=constants.range,
        )

    def distortion(self, beta: float) -> float:
        """What a sketch does to inner products, up to ½; infinite where nothing follows."""
        return distortion(self.size, self.vectors, beta)

    def lost(self, distortion: float) -> float:
        """What the least loss of a model rises by at the most on a sketch."""
        return self.slope * self.radius * self.norm * distortion

    def longest(self, distortion: float) -> float:
        """No sketched feature vector is longer, if all goes well."""
        return self.norm * math.sqrt(1.0 + distortion)

    def problem(self, distortion: float) -> Problem:
        """The constants on a sketch."""
        norm = self.longest(distortion)
        return Problem(
            dimension=self.size,
            lipschitz=self.slope * norm,
            smoothness=self.bend * norm**2,
            radius=self.radius * math.sqrt(1.0 + distortion),
            range=self.range,
        )
