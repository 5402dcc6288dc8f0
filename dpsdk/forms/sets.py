"""Sets of coefficients over which a convex loss is minimised."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown, to_count, to_finite
from dpsdk.errors import InvalidArgument
from dpsdk.forms.quadratic import ball_quadratic, bounded_quadratic
from dpsdk.typing import Floats

__all__ = ["Ball", "Box", "ConvexSet", "Simplex"]

_LARGEST = 1e100


class ConvexSet(ABC):
    """A closed, convex and bounded set of coefficients; one of `Ball`, `Box` and `Simplex`."""

    __slots__ = ()

    def require(self, dimension: int) -> None:
        """Raise `InvalidArgument` if the set has no coefficients in so many dimensions."""
        to_count("dimension", dimension)

    @abstractmethod
    def centre(self, dimension: int) -> Floats:
        """A coefficient vector in the middle of the set."""

    @abstractmethod
    def project(self, point: Floats) -> Floats:
        """The coefficients of the set that are nearest to a point, in Euclidean distance."""

    @abstractmethod
    def linear_minimiser(self, direction: Floats) -> Floats:
        """Coefficients of the set that minimise ⟨direction, θ⟩."""

    @abstractmethod
    def quadratic_minimiser(self, hessian: Floats, linear: Floats, start: Floats) -> Floats:
        """Coefficients of the set that minimise ½θᵀHθ + ⟨linear, θ⟩, H positive semidefinite.

        Up to rounding; what is returned lies in the set. `start`, a point of the set, is where a
        search may begin.
        """

    @abstractmethod
    def diameter(self, dimension: int) -> float:
        """The largest Euclidean distance of two coefficient vectors of the set."""

    @abstractmethod
    def reach(self, blocks: Sequence[Floats]) -> tuple[float, float]:
        """The smallest and the largest margin ⟨θ, x⟩ of any θ of the set and any feature vector x.

        A feature vector is one row of each block, put one after the other.
        """

    def contains(self, point: Floats, *, tolerance: float = 1e-9) -> bool:
        """Whether a point is within `tolerance` of the set, relative to its size."""
        point = np.asarray(point, dtype=np.float64)
        self.require(point.size)
        if not np.isfinite(point).all():
            return False
        allowed = tolerance * max(1.0, self.diameter(point.size))
        return float(np.linalg.norm(point - self.project(point))) <= allowed

    def gap(self, theta: Floats, gradient: Floats, *, ridge: float = 0.0) -> float:
        """Max over θ′ of the set of ⟨gradient, θ − θ′⟩ − ½·ridge·‖θ − θ′‖².

        A function with this gradient at θ that is strongly convex by `ridge` exceeds its minimum
        over the set by no more. With no ridge this is the duality gap of Frank and Wolfe (1956).
        """
        linear = float(gradient @ (theta - self.linear_minimiser(gradient)))
        if not ridge > 0.0:
            return linear
        way = theta - self.project(theta - gradient / ridge)
        # The maximum is where the projection is; the square is what a projection that is off by
        # roundings may miss.
        missed = ridge * (1e-14 * (1.0 + float(np.linalg.norm(theta)))) ** 2
        return min(linear, float(gradient @ way) - 0.5 * ridge * float(way @ way) + missed)


def _to_radius(value: float) -> float:
    expected = "a positive finite number, from 1e-100 to 1e100"
    radius = float(to_finite("radius", value))
    if not 1 / _LARGEST <= radius <= _LARGEST:
        raise InvalidArgument("radius", expected, shown(value))
    return radius


@frozen
class Ball(ConvexSet):
    """All coefficients of Euclidean length up to `radius`.

    >>> import numpy as np
    >>> from dpsdk.queries import Ball
    >>> Ball(2).project(np.array([0.0, 5.0])).tolist(), Ball(2).diameter(2)
    ([0.0, 2.0], 4.0)
    """

    radius: float = field(converter=_to_radius)

    def centre(self, dimension: int) -> Floats:
        return np.zeros(dimension)

    def project(self, point: Floats) -> Floats:
        length = _norm(point)
        return point.copy() if length <= self.radius else point * (self.radius / length)

    def linear_minimiser(self, direction: Floats) -> Floats:
        length = _norm(direction)
        return direction * (-self.radius / length) if length else np.zeros_like(direction)

    def quadratic_minimiser(self, hessian: Floats, linear: Floats, start: Floats) -> Floats:
        del start
        return self.project(ball_quadratic(hessian, linear, self.radius))

    def diameter(self, dimension: int) -> float:
        return 2.0 * self.radius if dimension else 0.0

    def reach(self, blocks: Sequence[Floats]) -> tuple[float, float]:
        longest = math.sqrt(sum(float(np.square(block).sum(axis=1).max()) for block in blocks))
        return -self.radius * longest, self.radius * longest


def _norm(point: Floats) -> float:
    return float(np.linalg.norm(point))


def _to_side(parameter: str, value: float | Sequence[float]) -> float | tuple[float, ...]:
    expected = "a number, or a sequence of numbers, up to 1e100 in size"
    if not isinstance(value, Iterable):
        number = float(to_finite(parameter, value))
        if abs(number) > _LARGEST:
            raise InvalidArgument(parameter, expected, shown(value))
        return number + 0.0
    if isinstance(value, str):
        raise InvalidArgument(parameter, expected, shown(value))
    numbers = tuple(float(to_finite(parameter, number)) + 0.0 for number in value)
    if not numbers or max(map(abs, numbers)) > _LARGEST:
        raise InvalidArgument(parameter, expected, shown(value))
    return numbers


def _to_low(value: float | Sequence[float]) -> float | tuple[float, ...]:
    return _to_side("low", value)


def _to_high(value: float | Sequence[float]) -> float | tuple[float, ...]:
    return _to_side("high", value)


@frozen
class Box(ConvexSet):
    """All coefficients with low ≤ θ_i ≤ high, for every i.

    Parameters
    ----------
    low, high
        One number for all coefficients, or one for each of them.
    """

    low: float | tuple[float, ...] = field(converter=_to_low)
    high: float | tuple[float, ...] = field(converter=_to_high)

    def __attrs_post_init__(self) -> None:
        sizes = {len(side) for side in (self.low, self.high) if isinstance(side, tuple)}
        if len(sizes) > 1:
            raise InvalidArgument("high", "as many numbers as low", f"{sorted(sizes)} numbers")
        if not (np.asarray(self.low) <= np.asarray(self.high)).all():
            raise InvalidArgument("high", "at least low everywhere", shown(self.high))

    def require(self, dimension: int) -> None:
        to_count("dimension", dimension)
        for side in (self.low, self.high):
            if isinstance(side, tuple) and len(side) != dimension:
                expected = f"a box of {dimension} coefficients"
                raise InvalidArgument("over", expected, f"one of {len(side)}")

    def sides(self, dimension: int) -> tuple[Floats, Floats]:
        """The smallest and the largest of each coefficient."""
        self.require(dimension)
        low, high = np.empty(dimension), np.empty(dimension)
        low[:], high[:] = self.low, self.high
        return low, high

    def centre(self, dimension: int) -> Floats:
        low, high = self.sides(dimension)
        return 0.5 * low + 0.5 * high

    def project(self, point: Floats) -> Floats:
        return np.clip(point, *self.sides(len(point)))

    def linear_minimiser(self, direction: Floats) -> Floats:
        low, high = self.sides(len(direction))
        return np.where(direction > 0.0, low, high)

    def quadratic_minimiser(self, hessian: Floats, linear: Floats, start: Floats) -> Floats:
        low, high = self.sides(len(linear))
        return self.project(bounded_quadratic(hessian, linear, low, high, self.project(start)))

    def diameter(self, dimension: int) -> float:
        low, high = self.sides(dimension)
        return _norm(high - low)

    def reach(self, blocks: Sequence[Floats]) -> tuple[float, float]:
        low, high = self.sides(sum(block.shape[1] for block in blocks))
        least = most = 0.0
        start = 0
        for block in blocks:
            end = start + block.shape[1]
            one, other = block * low[start:end], block * high[start:end]
            least += float(np.minimum(one, other).sum(axis=1).min())
            most += float(np.maximum(one, other).sum(axis=1).max())
            start = end
        return least, most


@frozen
class Simplex(ConvexSet):
    """All coefficients that are at least 0 and sum to 1."""

    def centre(self, dimension: int) -> Floats:
        return np.full(dimension, 1.0 / dimension)

    def project(self, point: Floats) -> Floats:
        # The threshold τ with Σ max(point − τ, 0) = 1 (Held, Wolfe and Crowder 1974).
        falling = np.sort(point)[::-1]
        excess = (np.cumsum(falling - falling[0]) - 1.0) / np.arange(1, len(point) + 1)
        kept = np.flatnonzero(falling - falling[0] > excess)[-1]
        result: Floats = np.maximum(point - falling[0] - excess[kept], 0.0)
        result /= result.sum()
        return result

    def linear_minimiser(self, direction: Floats) -> Floats:
        result = np.zeros_like(direction)
        result[int(np.argmin(direction))] = 1.0
        return result

    def quadratic_minimiser(self, hessian: Floats, linear: Floats, start: Floats) -> Floats:
        low, high = np.zeros(len(linear)), np.full(len(linear), np.inf)
        inside = self.project(start)
        return self.project(bounded_quadratic(hessian, linear, low, high, inside, total=1.0))

    def diameter(self, dimension: int) -> float:
        return math.sqrt(2.0) if dimension > 1 else 0.0

    def reach(self, blocks: Sequence[Floats]) -> tuple[float, float]:
        return (
            min(float(block.min()) for block in blocks if block.size),
            max(float(block.max()) for block in blocks if block.size),
        )
