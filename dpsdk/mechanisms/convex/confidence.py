"""Confidence sets for the least-squares coefficients of a table, from its noisy second moments.

Theorem (docs/explanation/proofs/excess.md, "Confidence sets"). The normal equations of the table
hold at its own coefficients, so that what is left of the noisy ones there is noise alone, of a
known law. The set is all coefficients at which no more is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import Lasting, kept, kept_places
from dpsdk._checks import described, shown, to_array, to_beta
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import ConvexForm
from dpsdk.mechanisms.convex.curvature import Pattern
from dpsdk.mechanisms.convex.span import Span
from dpsdk.mechanisms.convex.tails import Tails
from dpsdk.release import Measurement
from dpsdk.typing import Array, Floats, Ints

__all__ = ["CoefficientSet", "least_squares"]

_LIMIT = 2**24
"""No more numbers are written out for how noise enters the normal equations."""

_FLOOR = 1e-12
"""Added to the squares of the noise in every direction, so that floats can divide by them."""

_UNMOVED = 1e-12
"""What margins may change by, where coefficients are moved into the span."""

_OUTSIDE = 1e-9
"""A coefficient whose direction is farther from the span of the features is not determined."""


def least_squares(form: ConvexForm) -> bool:
    """Whether the loss is half the squared residual, but for what depends on the label alone."""
    if form.constants.self_concordance:
        return False
    zero, labels = np.zeros_like(form.targets), form.targets
    bends, slopes = form.loss.curvature(zero, labels), form.loss.derivative(zero, labels)
    return bool((bends == 1.0).all() and (slopes == -labels).all())


def _same(one: tuple[Ints, Floats], other: tuple[Ints, Floats]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@frozen(repr=False)
class CoefficientSet(Lasting):
    """Where the least-squares coefficients of the table are, with a confidence that is proven.

    Of a table whose second moments M and b were measured, all solutions θ of Mθ = b, the least
    squares over all coefficients: a set that they were to be sought in plays no part. It covers any
    one of them with probability 1 - beta, whatever the table is, and says nothing of a population
    that the table may be a sample of. Where the noise leaves a direction open, it is unbounded and
    says so. It costs nothing beyond the moments.

    Coefficients are those of θ, for feature vectors and labels as they are scaled in a query.

    Oracles that measure second moments for a squared loss put one into the accuracy of their
    releases, as `coefficients`. From moments of your own, use `CoefficientSet.of`.

    >>> import numpy as np
    >>> from dpsdk import Boolean, Budget, Domain, Integer, PrivateData
    >>> from dpsdk.accounting import Odometer, ZCDPComposition
    >>> from dpsdk.kernel import GaussianNoise, Kernel
    >>> from dpsdk.losses import SquaredLoss
    >>> from dpsdk.queries import Ball, ConvexMinimization
    >>> from dpsdk.testing import seeded
    >>> domain = Domain(Integer("age", 0, 9), Boolean("rich"))
    >>> columns = {"age": [2, 7] * 50_000, "rich": [False, True] * 50_000}
    >>> data = PrivateData.from_columns(columns, domain)
    >>> kernel = Kernel(data, Odometer(Budget(9, "1e-9"), ZCDPComposition()), seeded(1), "moments")
    >>> query = ConvexMinimization(SquaredLoss(), features=["age"], label="rich", over=Ball(8))
    >>> form = query.lower(domain)
    >>> measured = kernel.measure(form.distinct_moments()[0], GaussianNoise("0.5"))
    >>> found = CoefficientSet.of(form, measured)
    >>> found.contains(found.centre), found.contains([0.0, 0.0])
    (True, False)
    >>> bool((found.half_widths(0.05) < 0.01).all())
    True
    """

    pattern: Pattern
    targets: tuple[Ints, Floats] = field(eq=cmp_using(eq=_same), hash=False)
    values: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    tails: Tails
    span: Span

    @classmethod
    def of(cls, form: ConvexForm, measured: Measurement[NoiseAccuracy]) -> CoefficientSet:
        """From the measured numbers of `form.distinct_moments()`.

        Raises
        ------
        QueryError
            If the loss of the form is not the squared one.
        InvalidArgument
            If the numbers are not those of its moments.
        TooLarge
            If the set would take more than 2^24 numbers.
        """
        if not least_squares(form):
            raise QueryError(described(form.loss), "only least squares has such a set")
        pattern, places, shares, rows = read_moments(form)
        check_moments(measured, rows)
        if form.dimension * rows > _LIMIT:
            advice = "use fewer features"
            raise TooLarge(
                "a set of coefficients", form.dimension * rows, _LIMIT, "numbers", advice
            )
        tails, span = Tails.of(measured.accuracy), Span.of(form)
        targets = kept_places(places), kept(shares)
        return cls(pattern, targets, kept(measured.values), tails, span)

    def contains(self, theta: Array | Sequence[float], beta: float = 0.05) -> bool:
        """Whether coefficients are in the set, which has those of the table but for beta."""
        size = self.pattern.dimension
        given = to_array("theta", theta, f"{size} finite numbers")
        if given.shape != (size,) or not np.isfinite(given).all():
            raise InvalidArgument("theta", f"{size} finite numbers", shown(theta))
        radius = self._radius(to_beta(beta))
        basis = self.span.basis
        own = basis @ (basis.T @ given)
        if not self.span.missed * float(np.linalg.norm(given - own)) <= _UNMOVED:
            # What is beside the span has an effect of its own; the theorem holds without it, too.
            own = given
        left = basis.T @ (self._matrix @ own - self._vector)
        noise = basis.T @ self._noise(own)
        squares = noise @ noise.T + _FLOOR * np.eye(len(noise))
        return bool(float(left @ np.linalg.solve(squares, left)) <= radius**2)

    @property
    def centre(self) -> Floats:
        """The solution of the noisy normal equations, which is in the set; NaN if there is none."""
        solved = self._solved
        if solved is None:
            return np.full(self.pattern.dimension, np.nan)
        basis = self.span.basis
        result: Floats = basis @ (solved @ (basis.T @ self._vector))
        return result

    def half_widths(self, beta: float = 0.05) -> Floats:
        """A box about the centre that has the whole set in it, and so all coefficients at once.

        Infinite for a coefficient that the features do not determine, such as one of an intercept
        beside a label of its own for every value of an attribute, and for all of them where the
        noise is not small enough to tell the set to be bounded, or where features differ by less
        than a millionth of their size in some direction.
        """
        solved, size = self._solved, self.pattern.dimension
        radius = self._radius(to_beta(beta))
        if solved is None or not self.span.whole:
            return np.full(size, math.inf)
        basis, theta = self.span.basis, self.centre
        at_centre = self._noise(theta)
        # Directions in which the inverse is diagonal, so that the weakest stands by itself.
        _, own = np.linalg.eigh(solved)

        def near(ways: Floats) -> Floats:
            """How far the noise at the centre reaches along linear functions of θ."""
            back = basis @ (solved @ ways)
            along: Floats = np.linalg.norm(at_centre.T @ back, axis=0)
            slack = math.sqrt(_FLOOR) * np.linalg.norm(solved @ ways, axis=0)
            return np.asarray(along + slack, dtype=np.float64)

        def more(ways: Floats, reach: Floats) -> Floats:
            """How much farther, where θ differs from the centre by `reach` along `own`."""
            found = np.empty(ways.shape[1])
            for place, back in enumerate((basis @ (solved @ ways)).T):
                moved = self._noise(back, targets=False).T @ basis @ own * reach
                several = math.sqrt(len(reach)) * float(np.linalg.norm(moved, 2))
                found[place] = min(float(np.linalg.norm(moved, axis=0).sum()), several)
            return found

        reach = near(own)
        growth = float((more(own, reach) / reach).max())
        if not radius * growth < 1.0:
            return np.full(size, math.inf)
        ways = basis.T
        farther = radius / (1.0 - radius * growth)
        widths = radius * (near(ways) + farther * more(ways, reach))
        outside = np.linalg.norm(np.eye(size) - basis @ basis.T, axis=0) > _OUTSIDE
        result: Floats = np.where(outside, math.inf, widths * (1.0 + 1e-6))
        return result

    def _radius(self, beta: float) -> float:
        """What the noise, mapped to have length at most its own, is no longer than."""
        rows, rank = len(self.values), self.span.basis.shape[1]
        slack = self.tails.bias * math.sqrt(rows)
        if not self.tails.gaussian:
            return self.tails.length(rows, beta)
        return Tails(self.tails.law, self.tails.step, 0.0).length(rank, beta) + slack

    @cached_property
    def _matrix(self) -> Floats:
        return self.pattern.matrix(self.values)

    @cached_property
    def _vector(self) -> Floats:
        places, shares = self.targets
        return np.where(places < 0, 0.0, shares * self.values[places])

    @cached_property
    def _solved(self) -> Floats | None:
        """The inverse of the matrix in the span, if there is one."""
        basis = self.span.basis
        inner = basis.T @ self._matrix @ basis
        sizes = np.abs(np.linalg.eigvalsh(inner))
        if not len(sizes) or not sizes.min() > 1e-12 * sizes.max():
            return None
        inverse = np.linalg.inv(inner).astype(np.float64)
        return 0.5 * (inverse + inverse.T)

    def _noise(self, theta: Floats, *, targets: bool = True) -> Floats:
        """How each measured number enters Mθ − b, one a column."""
        pattern = self.pattern
        result = np.zeros((pattern.dimension, len(self.values)))
        apart = pattern.first != pattern.second
        np.add.at(result, (pattern.first, pattern.places), pattern.weights * theta[pattern.second])
        np.add.at(
            result,
            (pattern.second[apart], pattern.places[apart]),
            (pattern.weights * theta[pattern.first])[apart],
        )
        if targets:
            places, shares = self.targets
            there = np.flatnonzero(places >= 0)
            np.add.at(result, (there, places[there]), -shares[there])
        return result

    def __repr__(self) -> str:
        return f"CoefficientSet({self.pattern.dimension} coefficients)"


def read_moments(form: ConvexForm) -> tuple[Pattern, Ints, Floats, int]:
    """How `distinct_moments` are read: x xᵀ by a pattern, y x by places and shares; how many."""
    asked, places = form.distinct_moments()
    several = len(form.pairs[0])
    shares = form.moments_from(np.ones(asked.rows), places)
    pattern = Pattern.of(form, places[:several], shares[:several])
    return pattern, places[several:], shares[several:], asked.rows


def check_moments(measured: Measurement[NoiseAccuracy], rows: int) -> None:
    """Refuse what are not so many measured numbers.

    Raises
    ------
    InvalidArgument
        Names what is expected.
    """
    released = isinstance(measured, Measurement) and isinstance(measured.accuracy, NoiseAccuracy)
    if not released or measured.values.shape != (rows,):
        expected = f"the {rows} measured numbers of distinct_moments()"
        raise InvalidArgument("measured", expected, shown(measured))
