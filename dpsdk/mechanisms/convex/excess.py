"""Proven bounds of the excess risk of a model, paid for by a fresh gradient at its θ.

Theorems (docs/explanation/proofs/excess.md). The gradient is measured when θ is known and does not
move any more, so that its noise is independent of θ. The way to the minimum is then fixed, though
nobody knows it, and only the noise along it counts. By convexity the gradient bounds the excess
over all θ of the set; with measured curvature, and a loss whose curvature changes slowly, more
sharply. Functions are sums over rows, and so are gradients, matrices and bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction

import numpy as np

from dpsdk._arrays import ByNumbers, frozen_copy
from dpsdk._checks import described, shown, to_beta
from dpsdk._records import field, frozen
from dpsdk.accounting.prices.covering import covers
from dpsdk.accuracy import HalfWidths, NoiseAccuracy, ScalarAccuracy, Standing
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import ConvexForm, ConvexSet, Coordinates, Kronecker, LinearForm
from dpsdk.forms.convex import WEIGHT_LIMIT
from dpsdk.kernel import Allowance, Kernel, Measure, Noise
from dpsdk.mechanisms.certificate import Rows, to_rows
from dpsdk.mechanisms.convex.moments import (
    CoefficientSet,
    MeasuredMatrix,
    Span,
    check_moments,
    distinct_rows,
    least_squares,
    read_moments,
)
from dpsdk.mechanisms.convex.noise import Tails
from dpsdk.release import Measurement
from dpsdk.typing import Floats

__all__ = [
    "CertifiedExcess",
    "Rows",
    "batches",
    "certified",
    "frank_wolfe",
    "self_concordant",
    "shares",
    "vectors",
]

_LEAST = 1e-9
"""Matrices whose smallest eigenvalue is no larger beside the largest are taken to be singular."""

_COUNT = 0.25
"""How long the count of rows is beside the gradient of any record, where both are measured."""

_SHARES = (Fraction(3, 4), Fraction(1, 4))

_OF_ROWS = 0.1
_OF_MATRIX = 0.2
"""Shares of beta, of a released number of rows and then of a matrix. Logarithms of them enter."""

_BY_CONVEXITY = "a fresh gradient at the answer, by convexity"
_BY_CURVATURE = "a fresh gradient at the answer, by convexity and by measured curvature"


def frank_wolfe(
    over: ConvexSet, theta: Floats, gradient: Floats, tails: Tails, beta: float
) -> float:
    """With probability 1 - beta, the excess at θ over the set is at most this.

    `gradient` is that of the function at θ, plus the noise of `tails`.
    """
    gap = float(gradient @ (theta - over.linear_minimiser(gradient)))
    return gap + tails.along(over.farthest(theta), len(theta), beta)


def _curved(
    gradient: Floats, tails: Tails, matrix: Floats, basis: Floats, beta: float
) -> tuple[float, Floats] | None:
    """ν and A = M^(−1/2)Uᵀ, for a matrix M below the Hessian and a basis U.

    With probability 1 - beta, −⟨g, v⟩ ≤ ν·‖M^(1/2)Uᵀv‖ for the way v in the span of U that leads to
    the minimum. None where M is not positive definite, as far as floats can tell. The noise of the
    gradient is to be independent of M, too.
    """
    values, directions = np.linalg.eigh(matrix)
    if not len(values) or not values[0] > _LEAST * max(values[-1], 0.0):
        return None
    root: Floats = (directions / np.sqrt(values)).T @ basis.T
    longest = 1.0 / math.sqrt(float(values[0]))
    return float(np.linalg.norm(root @ gradient)) + tails.along(longest, len(gradient), beta), root


def self_concordant(nu: float, bend: float) -> float:
    """The excess of a function that falls by ν at the most along a way of length 1 in M^(1/2).

    `bend` is c·max‖Ax‖, where the third derivative of the loss is at most c times the second; 0 for
    a quadratic function. Infinite where bend·ν is 1 or more.
    """
    reach = bend * nu
    if not reach < 1.0:  # NaN is not either
        return math.inf
    if reach < 1e-4:
        # The series ½ν²(1 + reach/3 + reach²/6 + …), each term no larger than the one before.
        return 0.5 * nu * nu * (1.0 + reach)
    return (reach + (1.0 - reach) * math.log1p(-reach)) / bend**2


def vectors(coordinates: Sequence[Coordinates]) -> Floats:
    """All feature vectors of a universe, one a column."""
    sizes: dict[str, int] = {}
    for one in coordinates:
        sizes |= dict(zip(one.names, one.values.shape[1:], strict=True))
    spread = [one.spread(tuple(sizes)) for one in coordinates]
    wide = [np.broadcast_to(part, (len(part), *sizes.values())) for part in spread]
    joint: Floats = np.concatenate(wide)
    return joint.reshape(len(joint), -1)


@frozen
class Curvature:
    """The measured Hessian, and the facts that tell how far it reaches."""

    measured: MeasuredMatrix
    span: Span
    slack: float
    """The change of the average loss along all directions outside the span."""
    concordance: float
    """c where the third derivative of the loss is at most c times the second; 0 for a quadratic."""
    coordinates: tuple[Coordinates, ...] = field(repr=False)
    """Of the feature vector; used where c is not 0."""

    @classmethod
    def of(cls, measured: MeasuredMatrix, form: ConvexForm) -> Curvature:
        """For the loss of a form."""
        constants, span = form.constants, Span.of(form)
        reach = form.over.diameter(form.dimension) * span.missed
        bend = constants.self_concordance
        needed = form.coordinates if bend else ()
        return cls(measured, span, constants.lipschitz * reach, bend, needed)


@frozen
class CertifiedExcess(ScalarAccuracy):
    """By how much the average loss at θ may exceed the least one over the set, with proof.

    Made of what was released, so that asking costs nothing; at any beta by itself.
    """

    over: ConvexSet
    theta: Floats = field(converter=frozen_copy, eq=ByNumbers)
    gradient: Floats = field(converter=frozen_copy, eq=ByNumbers)
    """The measured gradient of the summed loss at θ."""
    tails: Tails
    """Its noise, which is independent of θ."""
    rows: int | Measurement[HalfWidths]
    """The number of rows that the loss is averaged over, as far as it is known."""
    span: float
    """The largest excess of any θ of the set."""
    curvature: Curvature | None = field(default=None, repr=False)
    """The Hessian of the summed loss at θ, measured by noise independent of the gradient's."""
    coefficients: CoefficientSet | None = field(default=None, repr=False)
    """Where the least-squares coefficients of the table are, if its moments were measured."""
    standing: Standing = field(init=False, default="proven")
    kind: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        kind = _BY_CONVEXITY if self.curvature is None else _BY_CURVATURE
        object.__setattr__(self, "kind", kind)

    def error(self, beta: float) -> float:
        """The bound that the excess of the average loss exceeds with probability beta at most."""
        rows, left = self._least_rows(to_beta(beta))
        if not rows > 0.0:
            return math.inf
        known, gradient, slack = self.curvature, self.gradient, 0.0
        if known is not None:
            # Along these directions alone, so that both bounds fail with the same noise.
            basis, slack = known.span.basis, known.slack
            gradient = basis @ (basis.T @ gradient)
        own = left if known is None else left * (1 - _OF_MATRIX)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            least = max(frank_wolfe(self.over, self.theta, gradient, self.tails, own), 0.0)
            if known is not None:
                least = min(least, self._by_curvature(known, own, left * _OF_MATRIX))
            least = least / rows + slack
        # Of numbers that are not finite nothing follows.
        return min(least, self.span) if least < math.inf else math.inf

    def _least_rows(self, beta: float) -> tuple[float, float]:
        """A lower bound of the number of rows, and what is left of beta."""
        rows = self.rows
        if not isinstance(rows, Measurement):
            return float(rows), beta
        radius = float(rows.accuracy.radii(beta * _OF_ROWS, joint=True)[0])
        return float(rows.values[0]) - radius, beta * (1 - _OF_ROWS)

    def _by_curvature(self, known: Curvature, beta: float, of_matrix: float) -> float:
        basis = known.span.basis
        least = basis.T @ known.measured.matrix @ basis
        least[np.diag_indices_from(least)] -= known.measured.excess(of_matrix)
        curved = _curved(self.gradient, self.tails, least, basis, beta)
        if curved is None:
            return math.inf
        nu, root = curved
        bend = 0.0
        if known.concordance:
            moved = np.square(root @ vectors(known.coordinates)).sum(axis=0)
            bend = known.concordance * math.sqrt(float(moved.max()))
        return self_concordant(nu, bend)


def shares(form: ConvexForm, *, moments: bool = False) -> tuple[Fraction, ...]:
    """The part of a certificate that each of its batches is best given, of ρ or of ε.

    The gradient, and then curvature where that may help: what bounds an excess is the noise of the
    gradient, as soon as curvature is told from its own.
    """
    return (Fraction(1),) if batches(form, moments=moments) == 1 else _SHARES


def batches(form: ConvexForm, *, moments: bool = False) -> int:
    """How many batches a certificate measures: the gradient, and curvature where that may help.

    Public: it follows from the form alone, and from whether measured second `moments` will be
    handed in, for a squared loss. Raises `TooLarge` if a gradient would have more than 2^24
    weights, and `QueryError` if moments are handed in for another loss.
    """
    weights = form.dimension * form.cells
    if weights > WEIGHT_LIMIT:
        advice = "use fewer features, or coarser attributes"
        raise TooLarge("a gradient of a model", weights, WEIGHT_LIMIT, "weights", advice)
    if moments:
        if not least_squares(form):
            raise QueryError(described(form.loss), "second moments tell of the squared loss alone")
        return 1
    return 1 + _curvature_helps(form)


def certified(
    form: ConvexForm,
    kernel: Kernel,
    theta: Floats,
    noises: Sequence[Noise],
    *,
    rows: Rows = None,
    allowance: Allowance | None = None,
    moments: Measurement[NoiseAccuracy] | None = None,
) -> CertifiedExcess:
    """Measure what bounds the excess at θ, and bound it.

    Raises `QueryError` or `TooLarge` as `batches` does, and `InvalidArgument` or `BudgetExceeded`
    as the kernel's `measure` does, or if arguments do not go with the form. Nothing is raised for
    what was measured.

    Parameters
    ----------
    theta
        Of the set, and final.
    noises
        One for each of `batches`, in their order.
    rows
        The number of rows as it was released before. If left out, the public number of the table,
        and where there is none it is measured together with the gradient.
    allowance
        What pays, if the covers of the noises were paid before. Otherwise all is paid at once.
    moments
        Measured numbers of `distinct_moments`, for a squared loss: they may be what θ was found by.
    """
    wanted = batches(form, moments=moments is not None)
    if len(noises) != wanted:
        raise InvalidArgument("noises", f"{wanted} of them", f"{len(noises)}")
    counted = to_rows(kernel.facts.rows if rows is None else rows)
    plain, pattern, weight = form.gradient(theta), None, 0.0
    asked = plain
    if counted is None:
        asked, weight = _with_count(plain)
    requests = [Measure(asked, noises[0])]
    own = frozen_copy(np.array(theta, dtype=np.float64))
    if moments is not None:
        pattern, _, _, several = read_moments(form)
        check_moments(moments, several)
    elif wanted > 1:
        bends, pattern = distinct_rows(form, _curvature_of(form, own).blocks)
        requests.append(Measure(bends, noises[1]))
    results = _run(requests, kernel, allowance)
    matrix = coefficients = None
    if pattern is not None:
        measured = results[-1] if moments is None else moments
        # Moments may have led to θ, and so to the way from there to the minimum.
        matrix = MeasuredMatrix.of(pattern, measured, fresh=moments is None)
    if moments is not None:
        with suppress(TooLarge):
            coefficients = CoefficientSet.of(form, moments)
    known = results[0].accuracy
    if counted is None:
        accuracy = NoiseAccuracy(known.law, 1, known.step / weight, known.bias / weight)
        counted = Measurement(results[0].values[-1:] / weight, accuracy)
    return CertifiedExcess(
        form.over,
        own,
        results[0].values[: form.dimension],
        Tails.of(known),
        counted,
        form.constants.range,
        None if matrix is None else Curvature.of(matrix, form),
        coefficients,
    )


def _run(
    requests: Sequence[Measure], kernel: Kernel, allowance: Allowance | None
) -> Sequence[Measurement[NoiseAccuracy]]:
    """Run all, paid at once, or by what the covers of their noises were paid for before."""
    if allowance is None:
        return kernel.run_all(requests)
    for request in requests:
        if not covers(request.noise.cover, request.price(kernel.terms).guarantee):
            expected = "noise whose cover pays for such a batch"
            raise InvalidArgument("noises", expected, shown(request.noise))
    return [kernel.run(request, allowance=allowance) for request in requests]


def _with_count(gradient: LinearForm) -> tuple[LinearForm, float]:
    longest = math.sqrt(max(float(block.column_norms(2).max()) for block in gradient.blocks))
    weight = _COUNT * longest or 1.0
    return LinearForm(gradient.domain, [*gradient.blocks, Kronecker((), (), weight)]), weight


def _curvature_of(form: ConvexForm, theta: Floats) -> LinearForm:
    """The curvature at θ, as `hessian` orders it."""
    if not least_squares(form):
        return form.hessian(theta)
    # The same at every θ, and each function on the attributes of two coordinates alone.
    return LinearForm(form.domain, form.moments().blocks[: -len(form.coordinates)])


def _curvature_helps(form: ConvexForm) -> bool:
    """True if curvature bounds the excess, and can be written out."""
    if not math.isfinite(form.constants.self_concordance):
        return False
    if not least_squares(form):
        return len(form.pairs[0]) * form.cells <= WEIGHT_LIMIT
    try:
        form.moments()
    except TooLarge:
        return False
    return True
