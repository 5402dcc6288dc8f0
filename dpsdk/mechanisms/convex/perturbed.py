"""`PerturbedObjective`: the minimum of a loss with a random linear term, with pure privacy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsdk._arrays import ByNumbers, frozen_copy
from dpsdk._checks import to_beta
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting import Budget, Guarantee, PureGuarantee
from dpsdk.accuracy import ScalarAccuracy, Standing
from dpsdk.codec import written
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import ConvexForm, ConvexSet, Facts
from dpsdk.forms.slope_table import FEATURE_BITS, SLOPE_BITS, SlopeTable
from dpsdk.kernel import Kernel, Perturb, PerturbPricing, Terms
from dpsdk.kernel.perturb import FARTHEST, GRADIENT_BITS
from dpsdk.mechanisms.arguments import in_words
from dpsdk.mechanisms.convex.correction import smooth
from dpsdk.mechanisms.convex.descent_bounds import largest_sum
from dpsdk.mechanisms.convex.moments import least_squares
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.noise import EuclideanLaplace
from dpsdk.noise.laws import MOST_ENTRIES
from dpsdk.release import Accuracy, Cost, Measurement, NoAccuracy, Quote
from dpsdk.typing import Floats, Ints

__all__ = ["PerturbedObjective", "suits_perturbation"]

_SHARES = np.geomspace(1e-4, 0.97, 200)
"""Of ε, what a ridge is tried at: a smaller one draws less to 0, and leaves less for noise."""

_PART, _MARGIN = 1 / 3, 7.0
"""The best model is guessed to be such a part of the farthest in length, and to reach no farther
in margins. Measured on tables listed in docs/explanation/models.md."""

_SUITED = 2**18
"""So many numbers do the feature vectors have at most of models that are found so by default."""

_DENSE = 2.5
"""Noise by length has no more than 1.25 times the variance of noise by the sum of entries where
d + 1, for d features, is at most so many times the squared ratio of the sizes of a vector.
Where it has more, as for one-hot features of few attributes, a start and gradients are better."""

_WEAK, _FIRM = 300, 40_000
"""Rows times ε, over the rows of a person, from which and up to which it is the best."""

_UNCOUNTED = NoAccuracy(
    "the excess is an average over rows, and their number is private",
    "use Corrected(certify=...), which measures it and proves a bound",
)

_OF_HIDING = 1e-3
"""Of beta, for the noise that hides which point was computed."""

_ROUND = 1.0 + 1e-9
"""The relative rounding of floats."""


def suits_perturbation(form: ConvexForm, facts: Facts, epsilon: Fraction) -> bool:
    """True of a model of few features, few zeros, and slopes that do not grow with the set.

    With fewer rows the constant model is better, and with more a measured start and two gradients.
    """
    if not PerturbedObjective.takes(form) or form.cells * form.dimension > _SUITED:
        return False
    length = form.longest / (form.constants.lipschitz or 1.0)
    if (
        least_squares(form)
        or not (form.dimension + 1) * length**2 <= _DENSE * largest_sum(form) ** 2
    ):
        return False
    return facts.rows is None or _WEAK <= facts.rows * epsilon / facts.unit_rows < _FIRM


def _to_theta(value: Floats | None) -> Floats | None:
    return None if value is None else frozen_copy(value)


@frozen
class PerturbedExcess(ScalarAccuracy):
    """By how much the average loss of a perturbed minimum may exceed the least one over the set.

    With `theta` the bound is of that model, and without of any that may come. Both follow from
    public facts and the length of the noise (docs/explanation/proofs/perturb.md, "Excess").
    """

    over: ConvexSet
    rows: int
    tilt: EuclideanLaplace
    hiding: EuclideanLaplace
    near: int
    """How short the gradient is at the computed point, in steps."""
    bits: int
    ridge: float
    wall: float
    longest: float
    """Of the gradients of all rows."""
    curvature: float
    apart: float
    """By how much the loss of a row, and that of the table, may differ in their excess."""
    span: float
    """By how much the average loss varies over the set."""
    theta: Floats | None = field(default=None, converter=_to_theta, eq=ByNumbers, repr=False)
    kind: str = "the length of the random linear term, the ridge, and rounding of the loss"
    standing: Standing = field(init=False, default="proven")

    @classmethod
    def of(cls, form: ConvexForm, pricing: PerturbPricing, rows: int) -> PerturbedExcess:
        """That of the models of a form, by the price of a request."""
        table, ridge = pricing.table, float(pricing.ridge)
        steepest = table.steepest * 2.0**-SLOPE_BITS
        missed, features = form.apart(table)
        far = form.over.farthest(np.zeros(table.dimension))
        return cls(
            form.over,
            max(rows, 1),
            pricing.tilt,
            pricing.hiding,
            pricing.certain,
            pricing.bits,
            ridge,
            pricing.wall * ridge,
            table.longest,
            float(table.curvature),
            missed + 2.0 * steepest * features * far,
            form.constants.range,
        )

    def error(self, beta: float) -> float:
        """In the unit of the loss, an average over all rows."""
        level, over, theta, wall = to_beta(beta), self.over, self.theta, self.wall
        dimension, ridge = self.tilt.entries, self.ridge
        far = over.farthest(np.zeros(dimension))
        noise = (self.tilt.radius(level * (1.0 - _OF_HIDING)) + self.near) * 2.0**-GRADIENT_BITS
        hidden = self.hiding.radius(level * _OF_HIDING) * 2.0**-self.bits
        pull = self.rows * self.longest + noise + ridge * far
        pushed = wall * pull / (wall - ridge) if wall > ridge else math.inf
        moved = pushed / wall + hidden
        if not far + moved < FARTHEST / 2:  # no coefficient that is cut off is one of the set
            return self.span
        noise += ridge * moved
        length, inner, squares = over.diameter(dimension), far**2 / 4.0, far**2
        if theta is not None:
            length, square = over.farthest(theta), float(theta @ theta)
            inner = max(float(theta @ over.linear_minimiser(-theta)) - square, 0.0)
            squares -= square
        # The slope on the way from any θ of the set is at most the noise, and the ridge besides.
        least = noise * length + ridge * inner
        least = min(least, noise**2 / (2.0 * ridge) + ridge * squares / 2.0)
        least = (least + pushed * hidden) / self.rows + self.curvature * moved**2 / 2.0
        return min((least + self.apart) * _ROUND, self.span)


@written("oracle.perturbed-objective", {})
@frozen(repr=False)
class PerturbedObjective(Oracle):
    """The minimum of a summed loss, a ridge and a random linear term: for pure ε, few features.

    Objective perturbation (Chaudhuri, Monteleoni and Sarwate 2011), whose one vector of noise takes
    nearly all of the budget, exactly: on integers, and with a certificate of how near the computed
    point is to the minimum, which a little noise then hides (docs/explanation/proofs/perturb.md).
    It needs no public number of rows; with one, the excess has a proven bound at any confidence,
    before and after, which falls with the rows times ε and is far above what is seen. The loss is
    the one given with its slopes read at up to 2^14 margins, linear between these and constant
    beyond those of the set, around which there is a steep wall; on the set the model is projected
    afterwards. Kinks are rounded as in `Corrected`. Of at most 24 features, whose attributes have
    at most 10^6 cells together; others raise `TooLarge`. A total with a δ is spent as far as one
    run of pure ε may go by the session's composition.

    >>> from dpsdk.mechanisms import PerturbedObjective, PrivateMinimizer
    >>> PrivateMinimizer(epsilon=1, oracle=PerturbedObjective())
    PrivateMinimizer(epsilon=1, oracle=PerturbedObjective())
    """

    def __repr__(self) -> str:
        return "PerturbedObjective()"

    @staticmethod
    def takes(form: ConvexForm, /) -> bool:
        """True if a form has so few features, and its attributes so few cells."""
        return not form.wide and form.dimension <= MOST_ENTRIES

    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        request, _ = _request(form, terms, total)
        pricing = request.price(terms)
        accuracy = _accuracy(form, pricing, terms.facts)
        return Quote(Cost(), Cost([(pricing.guarantee, 1)]), accuracy)

    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        """As of `Oracle`. No solver certifies a gap to the table's minimum, which is infinite."""
        request, places = _request(form, kernel.terms, total)
        accuracy = _accuracy(form, request.price(kernel.terms), kernel.facts)
        theta = form.over.project(kernel.run(request)[np.argsort(places)])
        if isinstance(accuracy, PerturbedExcess):
            accuracy = evolve(accuracy, theta=theta)
        return Measurement(np.append(theta, math.inf), accuracy, "measured")


def _accuracy(form: ConvexForm, pricing: PerturbPricing, facts: Facts) -> Accuracy:
    if facts.rows is None:
        return _UNCOUNTED
    return PerturbedExcess.of(form, pricing, facts.rows)


def _request(form: ConvexForm, terms: Terms, total: Total) -> tuple[Perturb, Ints]:
    """What is asked of the kernel, and the places of its numbers in θ."""
    if not PerturbedObjective.takes(form):
        advice = "use Corrected(), or HeavyBall() with a delta"
        raise TooLarge("a perturbed model", form.dimension, MOST_ENTRIES, "features", advice)
    epsilon = _epsilon(terms, total)
    table, places = smooth(form).slope_table()
    # Few digits are the same on every platform, and make small integers.
    ridge = Fraction(f"{_ridge(table, form.over, epsilon, terms.facts):.4g}")
    request = Perturb(table, ridge, epsilon)
    try:
        request.price(terms)
    except InvalidArgument as error:
        raise in_words(error, epsilon=epsilon) from None
    return request, places


def _ridge(table: SlopeTable, over: ConvexSet, epsilon: Fraction, facts: Facts) -> float:
    """The ridge with the least bound of an excess, but for constants, of a model as it is guessed.

    What the noise does falls with it, as it is paid less, and what it draws to 0 grows: so it
    follows from the curvature of the loss beside its slope.
    """
    dimension, budget = table.dimension, float(epsilon)
    far = over.farthest(np.zeros(dimension)) or 1.0
    size = math.sqrt(table.square) * 2.0**-FEATURE_BITS or 1.0
    guess = min(_PART * far, _MARGIN / size)
    # Hardly bent losses are taken to be bent a little, so that something holds a model.
    bend = max(float(table.curvature), table.longest / (16.0 * far), 1e-9)
    costs = budget * _SHARES
    ridges = bend / np.expm1(np.minimum(costs / facts.unit_rows, 500.0))
    ridges = np.maximum(ridges, 2.0**-38 * facts.row_limit * bend)
    moved = (2 if facts.replaced else 1) * facts.unit_rows * table.longest
    noise = dimension * moved / (0.99 * budget - costs)
    hidden = 2.0**-19 * dimension**1.5 / (budget * ridges)
    harm = (noise + ridges * guess / 2.0) * guess + facts.row_limit * bend * hidden**2 / 2.0
    return float(ridges[np.argmin(harm)])


def _epsilon(terms: Terms, total: Total) -> Fraction:
    if isinstance(total, Budget) and not total.delta:
        return total.epsilon

    def runs(scale: Fraction) -> list[Guarantee]:
        return [PureGuarantee(scale)]

    if isinstance(total, Budget):
        scale = terms.calibrate(runs, total)
    else:
        scale = terms.calibrate(runs, rho=total)
    if not scale:
        raise InvalidArgument("epsilon", "large enough for one run of pure ε", str(total))
    return scale
