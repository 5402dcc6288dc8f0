"""A sum of losses over weighted cells, and its gradient, Hessian and certificate at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np

from dpsdk._checks import described
from dpsdk._records import field, frozen
from dpsdk.errors import QueryError
from dpsdk.forms.design import Design
from dpsdk.forms.sets import ConvexSet
from dpsdk.losses import Loss
from dpsdk.typing import Floats

__all__ = ["LARGEST", "NOT_FINITE", "Objective", "Point", "ask_loss"]

NOT_FINITE = "its derivatives are NaN, or above 1e100, on this universe"

LARGEST = 1e100
"""Squares and products of slopes and curvatures below this are finite."""

_BATCH = 2**14
"""Cells that are worked on together, so that intermediate arrays stay in the cache."""

_ROUND = 2.0**-53
_OPERATIONS = 64
"""More roundings than any loss makes between a margin and its slope, in units of `_ROUND`."""


@frozen(eq=False)
class Point:
    """Coefficients, and the function's gradient and certificate there."""

    theta: Floats = field(repr=False)
    margins: Floats = field(repr=False)
    curvatures: Floats = field(repr=False)
    """The curvature of all labels together, of each cell."""
    gradient: Floats = field(repr=False)
    gap: float
    """By how much the value may exceed the least one."""
    doubt: float
    """The doubt that rounding leaves, as far as the gap allows for it."""

    def reached(self, goal: float) -> bool:
        """True if the gap is as small as it shall be, or as floats can tell."""
        return self.gap <= max(goal, 2.0 * self.doubt)

    @property
    def finite(self) -> bool:
        """True if slopes, curvatures, their squares and products are finite here."""
        sizes = (_largest(self.gradient), _largest(self.curvatures), self.gap)
        return all(size < LARGEST for size in sizes)  # NaN is not below anything


@frozen(eq=False)
class Objective:
    """Σ w φ(⟨θ, x⟩, y) + ⟨linear, θ⟩ + ½·ridge·‖θ‖² over a set; weights are (labels, cells)."""

    design: Design
    loss: Loss
    labels: Floats = field(repr=False)
    weights: Floats = field(repr=False)
    over: ConvexSet
    linear: Floats = field(repr=False)
    ridge: float

    @cached_property
    def span(self) -> float:
        """Twice the largest margin and label, with which roundings scale."""
        largest = max(map(abs, self.design.reach(self.over)))
        return 2.0 * (largest + float(np.abs(self.labels).max()))

    @np.errstate(over="ignore", invalid="ignore")
    def at(self, theta: Floats) -> Point:
        """Gradient, curvatures and certificate at coefficients of the set."""
        margins = self.design.margins(theta)
        slopes, curvatures = np.empty_like(margins), np.empty_like(margins)
        mass = 0.0
        for cells, z, y, weights, first in self._parts(margins):
            slope, bends = self._slopes(z, y)
            mass += float(np.vdot(weights, np.abs(slope)))
            _add(slopes[cells], weights, slope, first=first)
            _add(curvatures[cells], weights, bends, first=first)
        gradient = self.design.gradient(slopes) + self.linear + self.ridge * theta
        doubt = self._rounding(mass, theta)
        gap = max(self.over.gap(theta, gradient, ridge=self.ridge), 0.0) + doubt
        return Point(theta, margins, curvatures, gradient, gap, doubt)

    def begin(self, theta: Floats) -> Point:
        """The point at coefficients, or at the centre of the set where it is not finite there."""
        for start in (theta, self.over.centre(len(theta))):
            point = self.at(start)
            if point.finite:
                return point
        raise QueryError(described(self.loss), NOT_FINITE)

    def hessian(self, point: Point) -> Floats:
        """The Hessian at a point, the ridge included."""
        result = self.design.hessian(point.curvatures)
        result[np.diag_indices_from(result)] += self.ridge
        return result

    def value(self, point: Point) -> float:
        """The function at a point."""
        theta = point.theta
        total = self._sum(point.margins, self._value)
        return total + float(self.linear @ theta) + 0.5 * self.ridge * float(theta @ theta)

    @np.errstate(over="ignore", invalid="ignore")
    def rise(self, start: Point, end: Point) -> float:
        """By how much the function is larger at another point, from differences cell by cell."""
        total = 0.0
        for cells, z, y, weights, _ in self._parts(end.margins):
            change = self._value(z, y) - self._value(start.margins[None, cells], y)
            total += float((weights * change).sum())
        way, middle = end.theta - start.theta, 0.5 * (start.theta + end.theta)
        return total + float(self.linear @ way) + self.ridge * float(middle @ way)

    def slack(self, point: Point, smooth: Loss) -> float:
        """By how much lines of the slopes of a smooth loss lie below this one, over all cells."""
        return self._sum(
            point.margins,
            lambda z, y: np.maximum(self.loss.slack(z, y, smooth.derivative(z, y)), 0.0),
        )

    def value_rounding(self, point: Point) -> float:
        """Bound the rounding of `value`."""
        size = self._sum(point.margins, lambda z, y: np.abs(self._value(z, y)))
        mass = self._sum(point.margins, lambda z, y: np.abs(self._slopes(z, y)[0]))
        many = self.weights.size + _OPERATIONS
        return _ROUND * many * size + self._rounding(mass, point.theta)

    def _value(self, z: Floats, y: Floats) -> Floats:
        (values,) = ask_loss(self.loss, "value", lambda z, y: (self.loss.value(z, y),), z, y)
        return values

    def _slopes(self, z: Floats, y: Floats) -> tuple[Floats, Floats]:
        answers = ask_loss(self.loss, "slopes", self.loss.slopes, z, y)
        if len(answers) != 2:
            raise QueryError(described(self.loss), f"slopes() gives {len(answers)} arrays, not 2")
        return answers[0], answers[1]

    def _rounding(self, mass: float, theta: Floats) -> float:
        """Bound the rounding of a certificate.

        Sums over n cells are off by n roundings of what they sum at the most, margins by as many as
        there are features. A slope that is a little off is the slope a little further on.
        """
        few = self.design.features + _OPERATIONS
        plain = float(np.abs(self.linear).sum()) + self.ridge * float(np.abs(theta).sum())
        reach = self.over.diameter(self.design.features) + _largest(theta)
        return _ROUND * ((self.weights.size + few) * mass * self.span + few * plain * reach)

    def _sum(self, margins: Floats, rule: Callable[[Floats, Floats], Floats]) -> float:
        return sum(
            float((weights * rule(z, y)).sum()) for _, z, y, weights, _ in self._parts(margins)
        )

    def _parts(self, margins: Floats) -> Iterator[tuple[slice, Floats, Floats, Floats, bool]]:
        """Cells and labels, some at a time, and whether these cells come for the first time."""
        cells = len(margins)
        width = min(cells, _BATCH)
        together = max(1, _BATCH // width)
        for start in range(0, cells, width):
            some = slice(start, start + width)
            z = margins[None, some]
            for label in range(0, len(self.labels), together):
                which = slice(label, label + together)
                yield some, z, self.labels[which, None], self.weights[which, some], not label


def _largest(theta: Floats) -> float:
    return float(np.abs(theta).max())


def _add(target: Floats, weights: Floats, parts: Floats, *, first: bool) -> None:
    if first and len(parts) == 1:
        np.multiply(weights[0], parts[0], out=target)
        return
    total = (weights * parts).sum(axis=0) if len(parts) > 1 else weights[0] * parts[0]
    if first:
        target[:] = total
    else:
        target += total


def ask_loss(
    loss: Loss,
    what: str,
    rule: Callable[[Floats, Floats], Iterable[Floats]],
    z: Floats,
    y: Floats,
) -> list[Floats]:
    """Ask a rule of a loss about margins, which it may not change, for each label."""
    z.flags.writeable = False
    shape = np.broadcast_shapes(z.shape, y.shape)
    try:
        with np.errstate(all="ignore"):
            answers = list(rule(z, y))
    except Exception as error:
        raise QueryError(described(loss), f"{what}() raised {type(error).__name__}") from error
    try:
        # An answer that depends on margins alone stands for all labels.
        arrays = [each if each.shape == shape else np.broadcast_to(each, shape) for each in answers]
        plain = all(each.dtype == np.float64 for each in arrays)
    except (AttributeError, ValueError):
        arrays, plain = [], False
    if not plain:
        raise QueryError(described(loss), f"{what}() gives no arrays of float64 of shape {shape}")
    return arrays
