"""`PerturbedObjective`: the minimum of a loss with a random linear term, with pure privacy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting import Budget, Guarantee, PureGuarantee
from dpsdk.codec import written
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import ConvexForm, Facts
from dpsdk.kernel import Kernel, Perturb, Terms
from dpsdk.mechanisms.arguments import in_words
from dpsdk.mechanisms.convex.correction import smooth
from dpsdk.mechanisms.convex.moments import least_squares
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.noise.laws import MOST_ENTRIES
from dpsdk.release import Cost, Measurement, NoAccuracy, Quote
from dpsdk.typing import Ints

__all__ = ["PerturbedObjective", "suits_perturbation"]

_RIDGE_SHARE = 0.25
"""Of ε, what the ridge is chosen to cost: a smaller one draws less to 0, and leaves less for noise.
Of Adult, transfusion, titanic and wine at .1, 1 and 8 none is better by more than a third."""

_SUITED = 2**18
"""So many numbers do the feature vectors have at most of models that are found so by default."""

_FEWEST = 4
"""Below so many features there are so few pairs that a start is cheap."""

_WEAK, _FIRM = 300, 40_000
"""Rows times ε, over the rows of a person, from which and up to which it is the best."""

_UNPROVEN = NoAccuracy(
    "the minimum of a perturbed objective, of whose excess nothing is computed",
    "use Corrected(), which predicts it, or Corrected(certify=...), which proves a bound",
)


def suits_perturbation(form: ConvexForm, facts: Facts, epsilon: Fraction) -> bool:
    """True of a model of few features, whose loss has slopes that do not grow with the set.

    With fewer rows the constant model is better, and with more a measured start and two gradients.
    """
    few = _FEWEST <= form.dimension <= MOST_ENTRIES and not form.wide
    if not few or form.cells * form.dimension > _SUITED or least_squares(form):
        return False
    return facts.rows is None or _WEAK <= facts.rows * epsilon / facts.unit_rows < _FIRM


@written("oracle.perturbed-objective", {})
@frozen(repr=False)
class PerturbedObjective(Oracle):
    """The minimum of a summed loss, a ridge and a random linear term: for pure ε, few features.

    Objective perturbation (Chaudhuri, Monteleoni and Sarwate 2011), whose one vector of noise takes
    nearly all of the budget, exactly: on integers, and with a certificate of how near the computed
    point is to the minimum, which a little noise then hides (docs/explanation/proofs/perturb.md).
    It needs no public number of rows. The loss is the one given with its slopes read at up to 2^14
    margins, linear between these and constant beyond those of the set; the minimum is projected on
    the set afterwards. Kinks are rounded as in `Corrected`. Nothing is proven of the excess. Of at
    most 24 features, whose attributes have at most 10^6 cells together; others raise `TooLarge`.
    A total with a δ is spent as far as one run of pure ε may go by the session's composition.

    >>> from dpsdk.mechanisms import PerturbedObjective, PrivateMinimizer
    >>> PrivateMinimizer(epsilon=1, oracle=PerturbedObjective())
    PrivateMinimizer(epsilon=1, oracle=PerturbedObjective())
    """

    def __repr__(self) -> str:
        return "PerturbedObjective()"

    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        request, _ = _request(form, terms, total)
        return Quote(Cost(), Cost([(request.price(terms).guarantee, 1)]), _UNPROVEN)

    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        """As of `Oracle`. No solver certifies a gap to the table's minimum, which is infinite."""
        request, places = _request(form, kernel.terms, total)
        theta = form.over.project(kernel.run(request)[np.argsort(places)])
        return Measurement(np.append(theta, math.inf), _UNPROVEN, "measured")


def _request(form: ConvexForm, terms: Terms, total: Total) -> tuple[Perturb, Ints]:
    """What is asked of the kernel, and the places of its numbers in θ."""
    if form.wide or form.dimension > MOST_ENTRIES:
        advice = "use Corrected(), or HeavyBall() with a delta"
        raise TooLarge("a perturbed model", form.dimension, MOST_ENTRIES, "features", advice)
    epsilon = _epsilon(terms, total)
    table, places = smooth(form).slope_table()
    cost = float(epsilon) * _RIDGE_SHARE / terms.facts.unit_rows
    # Large curvatures of few rows cost no more than the ridge that Newton's steps need.
    ridge = max(float(table.curvature) / math.expm1(min(cost, 30.0)), 1e-9)
    ridge = max(ridge, 2.0**-39 * terms.facts.row_limit * float(table.curvature))
    request = Perturb(table, Fraction(ridge), epsilon)
    try:
        request.price(terms)
    except InvalidArgument as error:
        raise in_words(error, epsilon=epsilon) from None
    return request, places


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
