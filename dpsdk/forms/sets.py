"""Sets of coefficients over which a convex loss is minimised, and minima of quadratics on them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from dpsdk._checks import shown, to_count, to_finite
from dpsdk._records import field, frozen
from dpsdk.codec import JSON, NUMBER, Codebook, ListOf, Plain, written
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Bools, Floats

__all__ = ["Ball", "Box", "ConvexSet", "Simplex"]

_LARGEST = 1e100
_TINY = 1e-300
_ROUNDS = 30
_ROUND = 1e-14


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

        The answer lies in the set, and is least up to rounding. A search may begin at `start`, a
        point of the set.
        """

    @abstractmethod
    def diameter(self, dimension: int) -> float:
        """The largest Euclidean distance of two coefficient vectors of the set."""

    @abstractmethod
    def farthest(self, theta: Floats) -> float:
        """The largest Euclidean distance of any coefficients of the set from θ."""

    @abstractmethod
    def reach(self, blocks: Sequence[Floats]) -> tuple[float, float]:
        """The smallest and the largest margin ⟨θ, x⟩ of any θ of the set and any feature vector x.

        A feature vector is one row of each block, put one after the other.
        """

    def contains(self, point: Floats, *, tolerance: float = 1e-9) -> bool:
        """True if a point is within `tolerance` of the set, relative to its size."""
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
        # The maximum is where the projection is; the square allows for roundings of that.
        missed = ridge * (1e-14 * (1.0 + float(np.linalg.norm(theta)))) ** 2
        return min(linear, float(gradient @ way) - 0.5 * ridge * float(way @ way) + missed)


def _to_radius(value: float) -> float:
    radius = float(to_finite("radius", value))
    if not 1 / _LARGEST <= radius <= _LARGEST:
        expected = "a positive finite number, from 1e-100 to 1e100"
        raise InvalidArgument("radius", expected, shown(value))
    return radius


def _norm(point: Floats) -> float:
    return float(np.linalg.norm(point))


@written("set.ball", {"radius": NUMBER})
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
        return self.project(_ball_quadratic(hessian, linear, self.radius))

    def diameter(self, dimension: int) -> float:
        return 2.0 * self.radius if dimension else 0.0

    def farthest(self, theta: Floats) -> float:
        return self.radius + _norm(theta)

    def reach(self, blocks: Sequence[Floats]) -> tuple[float, float]:
        longest = math.sqrt(sum(float(np.square(block).sum(axis=1).max()) for block in blocks))
        return -self.radius * longest, self.radius * longest


def _to_side(parameter: str, value: float | Sequence[float]) -> float | tuple[float, ...]:
    expected = "a number, or a sequence of numbers, up to 1e100 in size"
    several = isinstance(value, Iterable)
    if isinstance(value, str):
        raise InvalidArgument(parameter, expected, shown(value))
    items = value if isinstance(value, Iterable) else [value]
    numbers = tuple(float(to_finite(parameter, number)) + 0.0 for number in items)
    if not numbers or max(map(abs, numbers)) > _LARGEST:
        raise InvalidArgument(parameter, expected, shown(value))
    return numbers if several else numbers[0]


def _to_low(value: float | Sequence[float]) -> float | tuple[float, ...]:
    return _to_side("low", value)


def _to_high(value: float | Sequence[float]) -> float | tuple[float, ...]:
    return _to_side("high", value)


class _Side:
    """One number for all coefficients, or a list of one for each."""

    _many = ListOf(NUMBER, least=1)

    def write(self, value: float | tuple[float, ...], path: str, codebook: Codebook, /) -> Plain:
        if isinstance(value, tuple):
            return self._many.write(value, path, codebook)
        return NUMBER.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> float | tuple[float, ...]:
        return (self._many if type(plain) is list else NUMBER).read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [NUMBER.schema(codebook), self._many.schema(codebook)]}


@written("set.box", {"low": _Side(), "high": _Side()})
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
        return self.project(_bounded_quadratic(hessian, linear, low, high, self.project(start)))

    def diameter(self, dimension: int) -> float:
        low, high = self.sides(dimension)
        return _norm(high - low)

    def farthest(self, theta: Floats) -> float:
        low, high = self.sides(len(theta))
        return _norm(np.maximum(np.abs(high - theta), np.abs(theta - low)))

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


@written("set.simplex", {})
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
        return self.project(_bounded_quadratic(hessian, linear, low, high, inside, total=1.0))

    def diameter(self, dimension: int) -> float:
        return math.sqrt(2.0) if dimension > 1 else 0.0

    def farthest(self, theta: Floats) -> float:
        return float(np.linalg.norm(np.eye(len(theta)) - theta, axis=1).max())

    def reach(self, blocks: Sequence[Floats]) -> tuple[float, float]:
        return (
            min(float(block.min()) for block in blocks if block.size),
            max(float(block.max()) for block in blocks if block.size),
        )


def _ball_quadratic(hessian: Floats, linear: Floats, radius: float) -> Floats:
    """The θ with ‖θ‖ ≤ radius that minimises ½θᵀHθ + ⟨linear, θ⟩.

    From one eigendecomposition, θ(μ) = −(H + μI)⁻¹ linear, with the least μ ≥ 0 for which it lies
    in the ball. 1/‖θ(μ)‖ is concave and nearly linear in μ, so that Newton's steps on it come
    there from the left in a few rounds (Moré and Sorensen 1983).
    """
    values, vectors = np.linalg.eigh(hessian)
    turned = vectors.T @ linear
    # What rounding alone leaves of an eigenvalue is no curvature.
    floor = max(float(values[-1]), _TINY) * 1e-15 if len(values) else 0.0
    values = np.maximum(values, floor)
    shift = 0.0
    if len(values):  # below this, the part along one direction alone is too long
        shift = max(0.0, float((np.abs(turned) / radius - values).max()))
    for _ in range(100):
        spread = values + shift
        point = turned / spread
        length = math.sqrt(float(point @ point))
        if length <= radius * (1 + 1e-14) or not math.isfinite(length):
            break
        step = (length / radius - 1.0) * length**2 / float((point**2 / spread).sum())
        if shift + step <= shift:
            break
        shift += step
    return np.asarray(-(vectors @ (turned / (values + shift))))


def _bounded_quadratic(
    hessian: Floats,
    linear: Floats,
    low: Floats,
    high: Floats,
    start: Floats,
    *,
    total: float | None = None,
) -> Floats:
    """The θ with low ≤ θ ≤ high that minimises ½θᵀHθ + ⟨linear, θ⟩; with Σθ = total, if given."""
    curved = hessian + np.eye(len(linear)) * (1e-14 * max(float(np.trace(hessian)), _TINY))
    theta = _primal_dual(curved, linear, low, high, total)
    return _primal(curved, linear, low, high, start, total) if theta is None else theta


def _primal_dual(
    hessian: Floats, linear: Floats, low: Floats, high: Floats, total: float | None
) -> Floats | None:
    """The primal-dual active set method (Hintermüller, Ito and Kunisch 2003).

    It guesses which sides hold with equality, solves for the rest, and guesses anew by the signs of
    what comes out. None where it does not settle.
    """
    size = len(linear)
    below = above = np.zeros(size, dtype=np.bool_)
    for _ in range(_ROUNDS):
        free = ~(below | above)
        if total is not None and not free.any():
            return None
        theta = np.where(below, low, np.where(above, high, 0.0))
        solved = _free_part(hessian, linear + hessian @ theta, free, theta, total)
        if solved is None:
            return None
        theta, force = solved
        before = below, above
        # Each coordinate leaves a side if the gradient draws it inside, and meets one it passed.
        below = np.where(free, theta < low, below & (force > 0.0))
        above = np.where(free, theta > high, above & (force < 0.0))
        if np.array_equal(below, before[0]) and np.array_equal(above, before[1]):
            return theta
    return None


def _primal(
    hessian: Floats,
    linear: Floats,
    low: Floats,
    high: Floats,
    start: Floats,
    total: float | None,
) -> Floats:
    """The primal active set method (Nocedal and Wright 2006, 16.3), one side at a time."""
    theta = start.copy()
    below, above = theta <= low, theta >= high
    for _ in range(_ROUNDS + 10 * len(linear)):
        free = ~(below | above)
        held = np.where(free, 0.0, theta)
        solved = _free_part(hessian, linear + hessian @ held, free, held, total)
        if solved is None:
            break
        aim, force = solved
        way = np.where(free, aim - theta, 0.0)
        ends = np.where(way < 0.0, low, high)
        moving = way != 0.0
        shares = np.full(len(theta), np.inf)
        shares[moving] = (ends[moving] - theta[moving]) / way[moving]
        share = min(1.0, max(float(shares.min(initial=np.inf)), 0.0))
        theta = np.where(free, theta + share * way, theta)
        if share < 1.0:
            met = free & (shares <= share)
            theta = np.where(met, ends, theta)
            below, above = below | (met & (way < 0.0)), above | (met & (way > 0.0))
            continue
        drawn = np.where(below, -force, np.where(above, force, 0.0))
        leaver = int(np.argmax(drawn))
        if drawn[leaver] <= _ROUND * float(np.abs(linear).max()):
            break
        below[leaver] = above[leaver] = False
    return theta


def _free_part(
    hessian: Floats, pull: Floats, free: Bools, theta: Floats, total: float | None
) -> tuple[Floats, Floats] | None:
    """Coefficients whose free part is least for the fixed one, and the force on each."""
    count = int(free.sum())
    system, right = hessian[np.ix_(free, free)], -pull[free]
    if total is not None:
        system = np.block([[system, np.ones((count, 1))], [np.ones((1, count)), np.zeros((1, 1))]])
        right = np.append(right, total - theta.sum())
    try:
        solved = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        return None
    result = theta.copy()
    result[free] = solved[:count]
    force = pull + hessian[:, free] @ solved[:count]
    if total is not None:
        force = force + solved[count]
    return (result, force) if np.isfinite(result).all() else None
