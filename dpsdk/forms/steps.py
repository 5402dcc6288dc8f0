"""Steps within a convex set, and the most that a linear function gains by one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpsdk._records import frozen
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.blocks import Dense
from dpsdk.forms.linear import LinearForm
from dpsdk.forms.sets import Ball, Box, ConvexSet, Simplex
from dpsdk.typing import Floats, Ints

__all__ = ["WRITTEN_LIMIT", "Steps", "written"]

WRITTEN_LIMIT = 2**24
"""No gradient is written out with more weights, which take 128 MiB."""

_SEEDS = 64
_PAIR_LIMIT = 2**21
"""So many differences of weights are compared one by one; beyond, a bound is taken."""

_LEAST = 2.0**-10
"""No move is told to be less than this share of the largest gap of one row."""


def written(form: LinearForm) -> Floats:
    """The weights of a form, at most 2^24, on all cells that it touches: (functions, cells)."""
    names = form.names
    shape = tuple([form.domain[name].size for name in names])
    cells = math.prod(shape)
    if form.rows * cells > WRITTEN_LIMIT:
        advice = "use fewer features, or coarser attributes"
        raise TooLarge("a gradient", form.rows * cells, WRITTEN_LIMIT, "weights", advice)
    only = form.blocks[0]
    if len(form.blocks) == 1 and isinstance(only, Dense) and only.names == names:
        return only.weights
    codes = dict(zip(names, np.indices(shape).reshape(len(names), cells), strict=True))
    parts = [block.columns([codes[name] for name in block.names]) for block, _ in form.groups]
    result = np.empty((form.rows, cells))
    for part, (_, places) in zip(parts, form.groups, strict=True):
        result[places] = part
    return result


@frozen(eq=False)
class Steps:
    """All w = θ - θ' with θ' in a set, at a price of ½·strength·‖w‖² a row."""

    theta: Floats
    over: ConvexSet
    strength: float

    def most(self, sums: Sequence[int], unit: int, rows: int, scale: Fraction) -> int:
        """The largest scale · (⟨sums, w⟩ 2**-unit - ½·strength·rows·‖w‖²), rounded down, exactly.

        Integers and fractions only: `theta`, the set and `strength` are the dyadic numbers that
        floats are. So it moves by an integer m at the most where the maximum moves by m.
        """
        theta, low, high, point = self._exact
        # From here on in units of 2**-point of a coefficient and 2**-(unit + point) of the gap.
        bend = Fraction(self.strength) * rows * Fraction(2) ** (unit - point)
        scale /= Fraction(2) ** (unit + point)
        if isinstance(self.over, Ball):
            return _in_ball(sums, theta, high[0], bend, scale)
        if isinstance(self.over, Box):
            return _in_box(sums, theta, low, high, bend, scale)
        return _in_simplex(sums, theta, 1 << point, bend, scale)

    @cached_property
    def _exact(self) -> tuple[list[int], list[int], list[int], int]:
        """Coefficients and the ends of each, as integers in units of 2**-point, and that."""
        parts = [[Fraction(one) for one in side.tolist()] for side in (self.theta, *self._ends)]
        # A float is an integer over a power of two.
        point = max([one.denominator.bit_length() - 1 for part in parts for one in part])
        theta, low, high = ([int(one * 2**point) for one in part] for part in parts)
        return theta, low, high, point

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        """The least and the largest of each coefficient of the set."""
        over, dimension = self.over, len(self.theta)
        if isinstance(over, Box):
            return over.sides(dimension)
        low = -over.radius if isinstance(over, Ball) else 0.0
        high = over.radius if isinstance(over, Ball) else 1.0
        return np.full(dimension, low), np.full(dimension, high)

    def support(self, weights: Floats) -> tuple[Floats, Floats]:
        """Max and minus min over w of ⟨g, w⟩, for each column g of an array (coefficients, cells).

        In floats.
        """
        if isinstance(self.over, Box):
            low, high = self._ends
            ways = np.array([self.theta - low, self.theta - high])
            ups, downs = ways @ np.maximum(weights, 0.0), ways @ np.minimum(weights, 0.0)
            return ups[0] + downs[1], -ups[1] - downs[0]
        along: Floats = self.theta @ weights
        if isinstance(self.over, Ball):
            reach = self.over.radius * np.sqrt(np.einsum("ij,ij->j", weights, weights))
            return reach + along, reach - along
        return along - weights.min(axis=0), weights.max(axis=0) - along

    def farthest(self) -> float:
        """An upper bound of the sum of |w_j|, for any w."""
        low, high = self._ends
        parts = np.maximum(np.abs(self.theta - low), np.abs(self.theta - high))
        summed = float(parts.sum())
        if isinstance(self.over, Ball):
            root = math.sqrt(len(self.theta))
            summed = min(summed, root * (float(np.linalg.norm(self.theta)) + self.over.radius))
        if isinstance(self.over, Simplex):
            summed = min(summed, float(np.abs(self.theta).sum()) + 1.0)
        return summed * (1 + 1e-12)

    def moved(
        self, weights: Floats, *, replaced: bool, outside: bool, shift: Floats | None = None
    ) -> float:
        """How far one record moves the gap whose g_x are the columns, at the most.

        With a shift, it is added to all of them, and to that of a row outside. Proposition 2 of
        docs/explanation/proofs/proximal-gap.md, with what floats may round off.
        """
        if shift is not None and not replaced:  # between rows that are exchanged it cancels
            added = shift[:, None]
            parts = [weights + added, added] if outside else [weights + added]
            weights, outside = np.concatenate(parts, axis=1), False
        with np.errstate(over="ignore", invalid="ignore"):
            move = self._moved(weights, replaced=replaced, outside=outside)
        if not move < math.inf:
            raise InvalidArgument("gradient", "small enough for floats", "larger weights")
        return move

    def _moved(self, weights: Floats, *, replaced: bool, outside: bool) -> float:
        low, high = weights.min(axis=1), weights.max(axis=1)
        if outside:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        if replaced:
            move, top = self._pairs(weights, 0.5 * low + 0.5 * high, outside=outside)
        else:
            move = top = max(float(side.max()) for side in self.support(weights))
            if self.strength:
                move = max(move, float(self._losses(weights).max()))
                if outside:
                    move = max(move, float(self._losses(np.zeros((len(low), 1)))[0]))
        # Between rows that are exchanged the quadratic cancels.
        strength = 0.0 if replaced else self.strength
        move += self._slack(np.maximum(np.abs(low), np.abs(high)), strength)
        # Small beside the gap of one row only where all rows are nearly alike: so that thresholds
        # stay within the lattice.
        return max(move, _LEAST * top)

    def _losses(self, weights: Floats) -> Floats:
        """Max over w of ½·strength·‖w‖² - ⟨g, w⟩ for each column, for what a row may take away."""
        theta, strength = self.theta, self.strength
        if isinstance(self.over, Box):
            low, high = self._ends
            first, last = theta - high, theta - low
            total = np.zeros(weights.shape[1])
            for number, column in enumerate(weights):
                one = 0.5 * strength * first[number] ** 2 - first[number] * column
                other = 0.5 * strength * last[number] ** 2 - last[number] * column
                total += np.maximum(one, other)
            return total
        if isinstance(self.over, Ball):
            radius = self.over.radius
            shifted = weights - strength * theta[:, None]
            lengths = np.sqrt(np.einsum("ij,ij->j", shifted, shifted))
            fixed = 0.5 * strength * (float(theta @ theta) + radius**2)
            return np.asarray(radius * lengths - theta @ weights + fixed)
        squares = float(theta @ theta) - 2.0 * theta + 1.0
        corner: Floats = (0.5 * strength * squares[:, None] + weights).max(axis=0)
        return corner - theta @ weights

    def _slack(self, largest: Floats, strength: float) -> float:
        """The errors of floats, for columns no larger than these, coefficient-wise."""
        low, high = self._ends
        sizes = np.abs(self.theta) + np.maximum(np.abs(low), np.abs(high))
        summed = float(sizes @ largest) + 2.0 * strength * float(sizes @ sizes)
        # What the squares of very small weights lose, where there are any.
        lost = 2.0**-530 * float(sizes.sum()) if summed or largest.any() else 0.0
        return (len(sizes) + 32) * 2.0**-49 * summed + lost

    def _pairs(self, weights: Floats, middle: Floats, *, outside: bool) -> tuple[float, float]:
        """Max over two columns of the support of their difference; and what bounds one column."""
        shifted = weights - middle[:, None]
        if outside:
            shifted = np.concatenate([shifted, -middle[:, None]], axis=1)
        ahead, behind = self.support(shifted)
        most, least = float(ahead.max()), float(behind.max())
        bound = most + least
        top = max(most, least) + max(float(side[0]) for side in self.support(middle[:, None]))
        best = self._compared(shifted, _largest(ahead), _largest(behind)) * (1 + 1e-9)
        if bound <= best:
            return bound, top
        first = np.flatnonzero(ahead + least > best)
        second = np.flatnonzero(behind + most > best)
        if len(first) * len(second) * len(weights) > _PAIR_LIMIT:
            return bound, top
        return max(best, self._compared(shifted, first, second)), top

    def _compared(self, weights: Floats, first: Ints, second: Ints) -> float:
        if not len(first) or not len(second):
            return 0.0
        pairs = weights[:, first, None] - weights[:, None, second]
        return float(self.support(pairs.reshape(len(weights), -1))[0].max())


def _largest(numbers: Floats) -> Ints:
    few = min(_SEEDS, len(numbers))
    return np.argpartition(numbers, len(numbers) - few)[len(numbers) - few :]


def _dot(first: Sequence[int], second: Sequence[int]) -> int:
    return sum([a * b for a, b in zip(first, second, strict=True)])


def _floored(number: Fraction, square: Fraction) -> int:
    """The sum of a number and the root of another, rounded down."""
    below = math.lcm(number.denominator, square.denominator)
    above = number.numerator * (below // number.denominator)
    root = math.isqrt(square.numerator * (below // square.denominator) * below)
    return (above + root) // below


def _in_ball(
    sums: Sequence[int], theta: list[int], radius: int, bend: Fraction, scale: Fraction
) -> int:
    if not bend:
        along, squared = _dot(sums, theta), _dot(sums, sums)
        return _floored(scale * along, scale**2 * radius**2 * squared)
    # θ' is θ - sums / bend where that is in the ball, or else on the way to it from the centre.
    over, under = bend.numerator, bend.denominator
    shifted = [under * one - over * other for one, other in zip(sums, theta, strict=True)]
    squared = _dot(shifted, shifted)
    if squared <= (radius * over) ** 2:
        return math.floor(scale * _dot(sums, sums) / (2 * bend))
    fixed = bend * (_dot(theta, theta) + radius**2) / 2
    return _floored(
        scale * (_dot(sums, theta) - fixed), scale**2 * radius**2 * Fraction(squared, under**2)
    )


def _in_box(
    sums: Sequence[int],
    theta: list[int],
    low: list[int],
    high: list[int],
    bend: Fraction,
    scale: Fraction,
) -> int:
    total = Fraction(0)
    sides = zip(sums, theta, low, high, strict=True)
    if not bend:
        return math.floor(scale * sum([max(s * (t - a), s * (t - b)) for s, t, a, b in sides]))
    for s, t, a, b in sides:
        w = min(max(s / bend, Fraction(t - b)), Fraction(t - a))
        total += w * (s - bend * w / 2)
    return math.floor(scale * total)


def _in_simplex(
    sums: Sequence[int], theta: list[int], one: int, bend: Fraction, scale: Fraction
) -> int:
    if not bend:
        return math.floor(scale * (_dot(sums, theta) - one * min(sums)))
    # The nearest point of the simplex to θ - sums / bend, by the threshold that makes it sum to 1.
    point = [t - s / bend for s, t in zip(sums, theta, strict=True)]
    total, threshold = Fraction(0), Fraction(0)
    for number, height in enumerate(sorted(point, reverse=True), 1):
        total += height
        candidate = (total - one) / number
        if candidate >= height:
            break
        threshold = candidate
    ways = [t - max(p - threshold, Fraction(0)) for t, p in zip(theta, point, strict=True)]
    return math.floor(
        scale * sum([w * (s - bend * w / 2) for w, s in zip(ways, sums, strict=True)])
    )
