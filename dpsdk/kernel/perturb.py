"""The primitive `perturb`: the minimum of a summed loss with a random linear term.

Theorem (docs/explanation/proofs/perturb.md). Objective perturbation (Chaudhuri, Monteleoni and
Sarwate 2011) with a ridge r, where a record has a gradient of length G at the most and a curvature
c: noise of scale D / ε₁ by length, for neighbours whose gradients differ by D, makes the exact
minimum (ε₁ + ln(1 + c / r))-DP, a person of one row. What is computed is a point certified to be so
near to the exact minimum that noise by length hides, for ε₂, which of all such points it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import shown, to_amount
from dpsdk._records import field, frozen
from dpsdk.accounting import Guarantee, PureGuarantee
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument
from dpsdk.forms.sets import ConvexSet
from dpsdk.forms.slope_table import FEATURE_BITS, SLOPE_BITS, SlopeTable
from dpsdk.kernel.primitive import Request
from dpsdk.kernel.terms import Terms, facts_of
from dpsdk.kernel.walls import bend_of, nearest
from dpsdk.noise import EuclideanLaplace, NoiseSource
from dpsdk.noise.laws import MOST_ENTRIES
from dpsdk.noise.sampler import rounded_up_root
from dpsdk.release import NoAccuracy
from dpsdk.typing import Array, Floats, Ints, Real

__all__ = ["Perturb", "PerturbPricing"]

GRADIENT_BITS = FEATURE_BITS + SLOPE_BITS

_LEAST_BITS = 32
"""Coefficients have so many bits behind the point, and those of the largest curvature."""

_STIFF = 2**40
"""How many times the ridge the curvature of all rows may be, so that floats find Newton's steps."""

_WALL = 2**10
"""How many times the curvature of all rows and the ridge a wall around a set bends, if it may; and
what holds the gradients of all rows at such a part of the size of the set."""

_SHORTEST = 2**64
"""A step is halved no further."""

FARTHEST = 2**20
"""No coefficient is released that is larger."""

_HIDING = Fraction(1, 100)
"""Of a budget, to hide how far the computed point is from the exact minimum."""

_UNKNOWN = NoAccuracy("nothing is known of how far the model is from the best one")


def _ridge(value: Real) -> Fraction:
    return to_amount("ridge", value)


def _epsilon(value: Real) -> Fraction:
    return to_amount("epsilon", value)


@frozen(eq=False)
class Perturb(Request[Floats]):
    """The coefficients that nearly minimise a summed loss, a ridge and a random linear term.

    A table with a set has a steep wall around that, so that they are in it, or near. Costs
    `epsilon`. The answer is one number for each feature. How long it takes depends on the
    table; it ends with probability 1.

    Parameters
    ----------
    table
        The loss, of at most 24 features.
    ridge
        The factor r of ½ r ‖θ‖². So much of ε as ln(1 + c / r), for a curvature c of the loss of a
        record and each row of a person, is not spent on noise; a larger ridge draws θ to 0.
    epsilon
        What it costs.
    """

    table: SlopeTable
    ridge: Fraction = field(converter=_ridge)
    epsilon: Fraction = field(converter=_epsilon)

    def price(self, terms: Terms, /) -> PerturbPricing:
        """Price it. Public, spends nothing.

        Raises
        ------
        InvalidArgument
            If the table is over another domain or has more than 24 features, or if the ridge leaves
            nothing of epsilon for noise.
        """
        table, facts = self.table, facts_of(terms)
        if type(table) is not SlopeTable or table.domain != facts.domain:
            expected = "a SlopeTable over the domain of the table"
            raise InvalidArgument("table", expected, shown(table))
        if table.dimension > MOST_ENTRIES:
            expected = f"of at most {MOST_ENTRIES} features"
            raise InvalidArgument("table", expected, f"{table.dimension}")
        bent = math.log1p(float(table.curvature / self.ridge)) * facts.unit_rows
        hiding = self.epsilon * _HIDING
        left = self.epsilon - hiding - Fraction(bent * (1 + 2.0**-40))
        if left <= 0:
            expected = "larger, so that something of epsilon is left for noise"
            raise InvalidArgument("ridge", expected, shown(self.ridge))
        rows = (2 if facts.replaced else 1) * facts.unit_rows
        length = rounded_up_root(table.square * table.steepest**2) * rows
        root = rounded_up_root(table.dimension)
        stiff = facts.row_limit * table.curvature + self.ridge
        if stiff > _STIFF * self.ridge:
            expected = f"at least {float(stiff / _STIFF):.3g}, for so many rows"
            raise InvalidArgument("ridge", expected, shown(self.ridge))
        wall = 0
        if table.over is not None:
            far = table.over.farthest(np.zeros(table.dimension))
            steep = Fraction(facts.row_limit * table.longest / (far or 1.0))
            walls = min(_WALL * max(stiff, steep), _STIFF * self.ridge - stiff)
            wall = int(walls / self.ridge)
        stiff += wall * self.ridge
        bits = _LEAST_BITS + math.ceil(stiff).bit_length()
        # What rounding of coefficients alone may leave of a gradient, 64 times, in its steps. The
        # wall is computed to within a sixteenth of this.
        near = math.ceil(32 * stiff * root * Fraction(2) ** (GRADIENT_BITS - bits)) + 1
        apart = 2 * (_certain(near) + root) * Fraction(2) ** (bits - GRADIENT_BITS)
        return PerturbPricing(
            PureGuarantee(self.epsilon),
            EuclideanLaplace((length + root) / left, table.dimension),
            EuclideanLaplace(math.ceil(apart / self.ridge) / hiding, table.dimension),
            table,
            self.ridge,
            wall,
            bits,
            near,
        )


def _certain(near: int) -> int:
    """How long a gradient is at most, in its steps, that was computed to be no longer than this."""
    return near + (near + 15) // 16


@frozen(eq=False)
class PerturbPricing(Lasting):
    """The plan of `perturb`, all public: the law of the linear term and that of what hides."""

    guarantee: Guarantee
    tilt: EuclideanLaplace
    """Of the linear term, in steps of a gradient."""
    hiding: EuclideanLaplace
    """Of what is added to the computed point, in steps of a coefficient."""
    table: SlopeTable = field(repr=False)
    ridge: Fraction
    wall: int
    """How many times the ridge the wall around the set bends."""
    bits: int
    """Coefficients are in steps of 2 to the minus so many."""
    near: int
    """How short the computed gradient has to be at the computed point, in its steps."""
    accuracy: NoAccuracy = field(init=False, default=_UNKNOWN)

    @property
    def certain(self) -> int:
        """How short the gradient then is for sure."""
        return _certain(self.near)

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> Floats:
        """Draw both vectors, read, and look for the minimum."""
        tilt, hiding = noise.vector(self.tilt), noise.vector(self.hiding)
        table = self.table
        counts = opened().table(table.names)
        inside = tuple([slice(table.domain[name].known) for name in table.names])
        sums = np.asarray(counts[inside]).reshape(len(table.features), -1)
        found = Minimum(table, sums, self.ridge, tilt, self.bits, self.wall).near(self.near)
        most = FARTHEST << self.bits
        pairs = zip(found, hiding, strict=True)
        moved = [min(max(t + z, -most), most) * 2.0**-self.bits for t, z in pairs]
        return frozen_copy(np.array(moved))


class Minimum:
    """The search for the minimum on integers: gradients are exact, only steps are rounded.

    Object arrays hold integers of any size. All of it is private.
    """

    def __init__(
        self,
        table: SlopeTable,
        counts: Floats,
        ridge: Fraction,
        tilt: list[int],
        bits: int,
        wall: int,
    ) -> None:
        there = np.flatnonzero(counts.any(axis=1))
        self.features: Array = table.features[there].astype(object)
        self.numbers: Array = table.features[there] * 2.0**-FEATURE_BITS
        self.counts: Array = counts[there].astype(np.int64).astype(object)
        self.slopes: Array = table.slopes.astype(object)
        self.width: int = bits + FEATURE_BITS - table.level_bits
        self.low: int = table.low << (bits + FEATURE_BITS)
        self.tilt: Array = np.array(tilt, dtype=object)
        # Gradients are counted in steps over `unit`, so that the ridge has integers as well.
        self.ridge: Fraction = ridge
        self.wall: int = wall
        self.over: ConvexSet | None = table.over
        self.bits: int = bits
        self.unit: int = (ridge.denominator << self.width) << max(0, bits - GRADIENT_BITS)
        self.pull: int = int(ridge * self.unit * Fraction(2) ** (GRADIENT_BITS - bits))

    def gradient(self, theta: Ints) -> tuple[Ints, Floats]:
        """The exact gradient, in steps over `unit`, and the curvature of each cell in floats."""
        places = self.features @ theta - self.low
        last = self.slopes.shape[1] - 1
        end = last << self.width
        places = np.minimum(np.maximum(places, 0), end)
        level = np.minimum(places >> self.width, last - 1)
        rest, level = places - (level << self.width), level.astype(np.int64)
        inside = np.asarray((places > 0) & (places < end), dtype=np.float64)
        total, bends = np.zeros(len(places), dtype=object), np.zeros(len(places))
        for slopes, counts in zip(self.slopes, self.counts.T, strict=True):
            rise = slopes[level + 1] - slopes[level]
            total = total + counts * ((slopes[level] << self.width) + rise * rest)
            bends += (counts * rise).astype(np.float64) * inside
        sums = total @ self.features + (self.tilt << self.width)
        exact = sums * (self.unit >> self.width) + self.pull * theta
        if self.over is not None:
            exact = exact + self.pull * self.wall * (theta - nearest(self.over, theta, self.bits))
        return exact, bends * 2.0 ** (self.bits + FEATURE_BITS - SLOPE_BITS - self.width)

    def near(self, most: int) -> list[int]:
        """A point whose gradient is at most so many steps long: by Newton's steps, cut if need be.

        Along each step the slope is looked for that is at most half of what it was, which is there,
        as the function is strongly convex.
        """
        theta = np.zeros(len(self.tilt), dtype=object)
        bound, ridge = (most * self.unit) ** 2, float(self.ridge)
        gradient, bends = self.gradient(theta)
        while int(gradient @ gradient) > bound:
            slope = [-int(g) / (self.unit << GRADIENT_BITS) for g in gradient]
            hessian = (self.numbers.T * bends) @ self.numbers + ridge * np.eye(len(theta))
            if self.over is not None:
                point = np.array([t * 2.0**-self.bits for t in theta])
                hessian += self.wall * ridge * bend_of(self.over, point)
            step = np.linalg.solve(hessian, np.array(slope))
            whole = np.array([round(Fraction(s) * 2**self.bits) for s in step], dtype=object)
            theta, gradient, bends = self.along(theta, whole, int(gradient @ whole))
        return [int(t) for t in theta]

    def along(self, theta: Ints, step: Ints, falls: int) -> tuple[Ints, Ints, Floats]:
        """The point on a step where the slope along it is at most half of what it was."""
        below, above, part = Fraction(0), Fraction(0), Fraction(1)
        while True:
            moved = theta + np.array([int(part * s) for s in step], dtype=object)
            gradient, bends = self.gradient(moved)
            seen = int(gradient @ step)
            if 2 * abs(seen) <= abs(falls) or part.denominator > _SHORTEST:
                return moved, gradient, bends
            below, above = (part, above) if seen < 0 else (below, part)
            part = (below + above) / 2 if above else 2 * part
