"""Symmetric matrices and least-squares coefficients from measured numbers.

Theorem of `CoefficientSet` (docs/explanation/proofs/excess.md, "Confidence sets"): the normal
equations of the table hold at its own coefficients, so that what is left of the noisy ones there is
noise alone, of a known law.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import cast

import numpy as np

from dpsdk._arrays import ByNumbers, Lasting, frozen_copy, frozen_integers
from dpsdk._checks import described, shown, to_array, to_beta, to_shaped
from dpsdk._records import field, frozen
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import ConvexForm, Dense, FormBlock, Kronecker, LinearForm
from dpsdk.forms.design import axes_of, block_of
from dpsdk.forms.moments import distinct, repeats
from dpsdk.mechanisms.convex.noise import Tails
from dpsdk.release import Measurement
from dpsdk.typing import Array, Floats, Ints

__all__ = [
    "CoefficientSet",
    "MeasuredMatrix",
    "Pattern",
    "Span",
    "check_moments",
    "distinct_rows",
    "least_squares",
    "read_moments",
]

_LIMIT = 2**24
"""No more numbers are written out for how noise enters the normal equations."""

_FLOOR = 1e-12
"""Added to the squares of the noise in every direction, so that floats can divide by them."""

_UNMOVED = 1e-12
"""The change of margins that is allowed where coefficients are moved into the span."""

_OUTSIDE = 1e-9
"""A coefficient whose direction is farther from the span of the features is not determined."""

_LEAST = 1e-13
"""Directions along which squares add up to no more, beside the largest, are left out."""

_ROUNDED = 1e-12
_OF_ONE = 1e-6
"""The rounding of feature vectors, and of a coordinate, beside their own sizes."""


def least_squares(form: ConvexForm) -> bool:
    """True if the loss is half the squared residual, but for what depends on the label alone."""
    if form.constants.self_concordance:
        return False
    zero, labels = np.zeros_like(form.targets), form.targets
    bends, slopes = form.loss.curvature(zero, labels), form.loss.derivative(zero, labels)
    return bool((bends == 1.0).all() and (slopes == -labels).all())


@frozen
class Span(Lasting):
    """An orthonormal basis of the feature vectors, and by how much any of them is outside it."""

    basis: Floats = field(converter=frozen_copy, eq=ByNumbers)
    """One direction a column."""
    missed: float
    """At least the length of what is left of any feature vector, which is rounding as a rule."""
    whole: bool
    """True if it is rounding. If not, feature vectors have other directions, very short ones."""

    @classmethod
    def of(cls, form: ConvexForm) -> Span:
        """That of all cells, without their being written out."""
        starts = np.cumsum([0, *[one.width for one in form.coordinates]])
        first, parts = np.zeros((1, form.dimension)), list[Floats]()
        for axis in axes_of(form.coordinates):
            block = block_of(axis, form.coordinates)
            own: list[Ints] = [np.arange(starts[at], starts[at + 1]) for at in axis.members]
            places = np.concatenate(own)
            first[:, places] = block[0]
            parts.append(np.zeros((len(block), form.dimension)))
            parts[-1][:, places] = block - block[0]
        rows = np.concatenate([first, *parts])
        values, directions = np.linalg.eigh(rows.T @ rows)
        basis = directions[:, values > _LEAST * max(float(values[-1]), 1e-300)]
        missed, rest = 0.0, np.zeros(form.dimension)
        for part in (first, *parts):
            left = part - (part @ basis) @ basis.T
            missed += float(np.linalg.norm(left, axis=1).max())
            rest = np.maximum(rest, np.abs(left).max(axis=0))
        size = np.abs(rows).max(axis=0)
        whole = missed <= _ROUNDED * size.max() and (rest <= _OF_ONE * size)[size > 0.0].all()
        return cls(basis, missed, bool(whole))


def distinct_rows(form: ConvexForm, blocks: Iterable[FormBlock]) -> tuple[LinearForm, Pattern]:
    """The functions of a `hessian`, equal ones once and none that is always 0, and how to read it.

    One that stands for several is as long as these together. Nothing is left out for being
    constant: of rows outside the domain it is 0.
    """
    own = cast("list[Dense | Kronecker]", list(blocks))  # convex forms have no others
    places = repeats(own)
    counts = np.sqrt(np.bincount(places[places >= 0]).astype(np.float64))
    shares = np.where(places < 0, 0.0, 1.0 / np.append(counts, 1.0)[places])
    asked = LinearForm(form.domain, distinct(own, places, counts))
    return asked, Pattern.of(form, places, shares)


@frozen
class Pattern(Lasting):
    """How measured numbers enter a symmetric matrix: M = Σ_k value_k · A_k, of public A_k."""

    first: Ints = field(converter=frozen_integers, eq=ByNumbers, repr=False)
    second: Ints = field(converter=frozen_integers, eq=ByNumbers, repr=False)
    places: Ints = field(converter=frozen_integers, eq=ByNumbers, repr=False)
    weights: Floats = field(converter=frozen_copy, eq=ByNumbers, repr=False)
    dimension: int
    spread: float
    """The largest eigenvalue of Σ A_k²."""
    peak: float
    """The largest eigenvalue of any A_k, in size."""
    length: float
    """The largest Frobenius norm of any A_k. No two of them share an entry."""
    cover: float
    """The largest eigenvalue of Σ |A_k|, entry by entry."""

    @classmethod
    def of(cls, form: ConvexForm, places: Ints, shares: Floats) -> Pattern:
        """Of functions in the order of `hessian`, each the number at its place times a share."""
        there = places >= 0
        first, second = form.pairs
        first, second, own = first[there], second[there], places[there]
        weights = shares[there] * np.where(first == second, 1.0, math.sqrt(0.5))
        squares = np.zeros((form.dimension, form.dimension))
        cover, peak = np.zeros_like(squares), 0.0
        np.add.at(cover, (first, second), np.abs(weights))
        cover = np.maximum(cover, cover.T)
        order = np.argsort(own, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(own[order])) + 1):
            if len(some) == 1:
                one, other, weight = first[some[0]], second[some[0]], weights[some[0]]
                squares[one, one] += weight**2
                squares[other, other] += weight**2 * (one != other)
                peak = max(peak, abs(float(weight)))
            elif len(some):
                touched, where = np.unique([first[some], second[some]], return_inverse=True)
                one, other = where.reshape(2, -1)
                part = np.zeros((len(touched), len(touched)))
                part[one, other] = part[other, one] = weights[some]
                squares[np.ix_(touched, touched)] += part @ part
                peak = max(peak, float(np.abs(np.linalg.eigvalsh(part)).max()))
        lengths = np.bincount(own, weights=np.square(weights) * np.where(first == second, 1.0, 2.0))
        length = math.sqrt(float(lengths.max(initial=0.0)))
        spread, whole = _largest(squares), _largest(cover)
        return cls(first, second, own, weights, form.dimension, spread, peak, length, whole)

    def matrix(self, values: Floats) -> Floats:
        """The matrix of measured numbers."""
        result = np.zeros((self.dimension, self.dimension))
        result[self.first, self.second] = result[self.second, self.first] = (
            self.weights * values[self.places]
        )
        return result

    def pull(self, theta: Floats, count: int) -> Floats:
        """How each of so many measured numbers enters Mθ, one a column."""
        result = np.zeros((self.dimension, count))
        apart = self.first != self.second
        np.add.at(result, (self.first, self.places), self.weights * theta[self.second])
        np.add.at(
            result,
            (self.second[apart], self.places[apart]),
            (self.weights * theta[self.first])[apart],
        )
        return result


def _largest(matrix: Floats) -> float:
    return max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)


@frozen
class MeasuredMatrix(Lasting):
    """A symmetric matrix that was measured, and how far below it the true one may be."""

    pattern: Pattern
    matrix: Floats = field(converter=frozen_copy, eq=ByNumbers)
    tails: Tails
    fresh: bool
    """True if its noise is independent of the direction that will be asked about."""

    @classmethod
    def of(
        cls, pattern: Pattern, measured: Measurement[NoiseAccuracy], *, fresh: bool
    ) -> MeasuredMatrix:
        """Of the numbers of a pattern."""
        matrix = pattern.matrix(measured.values)
        return cls(pattern, matrix, Tails.of(measured.accuracy), fresh)

    def excess(self, beta: float) -> float:
        """κ such that vᵀHv is at least vᵀĤv − κ‖v‖², with probability 1 - beta.

        For the true matrix H and the measured one Ĥ. Where the noise is fresh, for any one v that
        is fixed beforehand, though it need not be known; else for all v at once.
        """
        tails, pattern = self.tails, self.pattern
        slack = tails.bias * pattern.cover
        if not pattern.peak * tails.scale > 0.0:
            return slack
        if self.fresh:
            return Tails(tails.law, tails.step, 0.0).along(pattern.length, 1, beta) + slack
        share, dimension = pattern.spread / pattern.peak**2, math.log(pattern.dimension)
        return slack + tails.chernoff(
            lambda tilts: dimension + share * tails.cumulant(tilts * pattern.peak),
            pattern.peak,
            beta,
        )


@frozen(repr=False)
class CoefficientSet(Lasting):
    """The set of the least-squares coefficients of the table, with a proven confidence.

    Of a table whose second moments M and b were measured, all solutions θ of Mθ = b, the least
    squares over all coefficients: a set that they were to be sought in plays no part. It covers any
    one of them with probability 1 - beta, whatever the table is, and says nothing of a population
    that the table may be a sample of. Where the noise leaves a direction open, it is unbounded and
    says so. It costs nothing beyond the moments.

    Coefficients are those of θ, for feature vectors and labels as they are scaled in a query;
    `Model.intervals` tells them in the units of the data.

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
    places: Ints = field(converter=frozen_integers, eq=ByNumbers)
    shares: Floats = field(converter=frozen_copy, eq=ByNumbers)
    values: Floats = field(converter=frozen_copy, eq=ByNumbers)
    tails: Tails
    span: Span

    @classmethod
    def of(cls, form: ConvexForm, measured: Measurement[NoiseAccuracy]) -> CoefficientSet:
        """From the measured numbers of `form.distinct_moments()`.

        Raises `QueryError` if the loss is not the squared one, `InvalidArgument` if the numbers are
        not those of its moments, and `TooLarge` if the set would take more than 2^24 numbers.
        """
        if not least_squares(form):
            raise QueryError(described(form.loss), "only least squares has such a set")
        pattern, places, shares, rows = read_moments(form)
        check_moments(measured, rows)
        if form.dimension * rows > _LIMIT:
            advice, needed = "use fewer features", form.dimension * rows
            raise TooLarge("a set of coefficients", needed, _LIMIT, "numbers", advice)
        tails, span = Tails.of(measured.accuracy), Span.of(form)
        return cls(pattern, places, shares, measured.values, tails, span)

    def contains(self, theta: Array | Sequence[float], beta: float = 0.05) -> bool:
        """True if coefficients are in the set, which has those of the table but for beta."""
        size = self.pattern.dimension
        given = to_shaped("theta", theta, (size,))
        radius = self._radius(to_beta(beta))
        basis = self.span.basis
        own = basis @ (basis.T @ given)
        if not self.span.missed * float(np.linalg.norm(given - own)) <= _UNMOVED:
            # Directions outside the span have an effect of their own; the theorem holds for them.
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
        return basis @ (solved @ (basis.T @ self._vector))

    def half_widths(self, beta: float = 0.05) -> Floats:
        """A box about the centre that has the whole set in it, and so all coefficients at once.

        Infinite for a coefficient that the features do not determine, such as one of an intercept
        beside a label of its own for every value of an attribute, and for all of them where the
        noise is not small enough to tell the set to be bounded, or where features differ by less
        than a millionth of their size in some direction.
        """
        return self.reach(np.eye(self.pattern.dimension), beta)

    def reach(self, functions: Array | Sequence[Sequence[float]], beta: float = 0.05) -> Floats:
        """How far linear functions of θ may be from what they are at the centre, in all the set.

        For an array (functions, coefficients), a number for each; all hold at once. A difference of
        two coefficients may be determined where neither of them is. Infinite as in `half_widths`;
        0 for a function that is 0.
        """
        size = self.pattern.dimension
        given = to_array("functions", functions, f"an array (functions, {size}) of finite numbers")
        if given.ndim != 2 or given.shape[1] != size or not np.isfinite(given).all():
            expected = f"an array (functions, {size}) of finite numbers"
            raise InvalidArgument("functions", expected, f"shape {given.shape}")
        lengths = np.linalg.norm(given, axis=1)
        result = np.zeros(len(given))
        units = given[lengths > 0.0] / lengths[lengths > 0.0, None]
        result[lengths > 0.0] = self._reach(units, to_beta(beta)) * lengths[lengths > 0.0]
        return result

    def _reach(self, functions: Floats, beta: float) -> Floats:
        """Of functions of length 1."""
        solved, radius = self._solved, self._radius(beta)
        if solved is None or not self.span.whole:
            return np.full(len(functions), math.inf)
        basis, at_centre = self.span.basis, self._noise(self.centre)
        # Directions in which the inverse is diagonal, so that the weakest stands by itself.
        _, own = np.linalg.eigh(solved)

        def near(ways: Floats) -> Floats:
            """How far the noise at the centre reaches along linear functions of θ."""
            along = np.linalg.norm(at_centre.T @ (basis @ (solved @ ways)), axis=0)
            slack = math.sqrt(_FLOOR) * np.linalg.norm(solved @ ways, axis=0)
            return np.asarray(along + slack, dtype=np.float64)

        def more(ways: Floats, reach: Floats) -> Floats:
            """How much farther, where θ differs from the centre by `reach` along `own`."""
            farther = np.empty(ways.shape[1])
            for place, back in enumerate((basis @ (solved @ ways)).T):
                moved = self._noise(back, targets=False).T @ basis @ own * reach
                several = math.sqrt(len(reach)) * float(np.linalg.norm(moved, 2))
                farther[place] = min(float(np.linalg.norm(moved, axis=0).sum()), several)
            return farther

        reach = near(own)
        growth = float((more(own, reach) / reach).max())
        if not radius * growth < 1.0:
            return np.full(len(functions), math.inf)
        ways, farther = basis.T @ functions.T, radius / (1.0 - radius * growth)
        widths = radius * (near(ways) + farther * more(ways, reach))
        outside = np.linalg.norm(functions.T - basis @ ways, axis=0) > _OUTSIDE
        return np.where(outside, math.inf, widths * (1.0 + 1e-6))

    def _radius(self, beta: float) -> float:
        """The bound of the noise, mapped to have length at most its own."""
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
        return np.where(self.places < 0, 0.0, self.shares * self.values[self.places])

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
        result = self.pattern.pull(theta, len(self.values))
        if targets:
            there = np.flatnonzero(self.places >= 0)
            np.add.at(result, (there, self.places[there]), -self.shares[there])
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
    """Refuse what are not so many measured numbers."""
    released = isinstance(measured, Measurement) and isinstance(measured.accuracy, NoiseAccuracy)
    if not released or measured.values.shape != (rows,):
        expected = f"the {rows} measured numbers of distinct_moments()"
        raise InvalidArgument("measured", expected, shown(measured))
