"""The public distribution that an oracle corrects, and one step from its best model to the table's.

A start is measured and fitted. The step needs one gradient, measured at a public θ̂. What it says
beyond the distribution's own gradient is shrunk where noise explains it, and added to the loss of
the distribution as a linear term. With the curvature of the table and no noise the step is
Newton's; and where it finds nothing to correct, the distribution's θ̂ is a minimum of the table.
All of it is post-processing, and what it predicts of an excess, from a public distribution, is no
bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, combinations
from operator import attrgetter

import numpy as np

from dpsdk._checks import to_array, to_probability
from dpsdk._records import evolve, field, frozen
from dpsdk.accuracy import Accuracy, NoAccuracy, ScalarAccuracy, Standing
from dpsdk.codec import AMOUNT, written
from dpsdk.domain import Domain
from dpsdk.errors import DpsdkError, InvalidArgument, TooLarge
from dpsdk.forms import Box, ConvexForm, Dense, Facts, Identity, Kronecker, LinearForm, Simplex
from dpsdk.forms.convex import Tables
from dpsdk.forms.design import Coordinates
from dpsdk.hypothesis import Distribution, Pairs
from dpsdk.hypothesis.fit import FIT_LIMIT, EntropicFit
from dpsdk.kernel import EuclideanNoise, GaussianNoise, LaplaceNoise, Measure, Noise, Terms
from dpsdk.mechanisms.convex.bases import bases, ellipsoid
from dpsdk.mechanisms.convex.moments import CoefficientSet
from dpsdk.mechanisms.convex.oracle import Measured
from dpsdk.noise.laws import MOST_ENTRIES
from dpsdk.typing import Floats, Real

__all__ = [
    "AskedGradient",
    "Correction",
    "Moments",
    "PredictedExcess",
    "asked_gradient",
    "cap_excess",
    "constant_model",
    "correct",
    "fit_start",
    "label_form",
    "marginal_products",
    "noise_harm",
    "predicted_excess",
    "public_shares",
    "remaining_excess",
    "smooth",
    "start_form",
    "start_harm",
]


_SHARE = Fraction(3, 10)

_PASSES = 40
_STEPS = 100
_PRIOR = 0.0
_HOLD = 5.0
"""Passes are small, since they end where the residuals are what noise makes them."""

_LEAST_PART = 0.1
_NOISY = 30.0
"""Of what a distribution can fit, the residuals keep so much of the noise: a tenth where that is
below 0.3 % of the rows, all of it from 3 % on. Measured on Adult, wine and ionosphere."""

_LEAST_DEVIATION = 0.01
"""In rows. Numbers without noise, which no row changes, are fitted as if they had so much."""


def _to_share(value: Real) -> Fraction:
    return to_probability("share", value)


@written("start.moments", {"share": AMOUNT})
@frozen(repr=False)
class Moments:
    """The distribution of most entropy with noisy second moments of features and label.

    They are few, and all that the squared loss depends on. Of a distribution with the right moments
    every model of that loss is right; for other losses and fine labels `Pairs` knows more.

    Parameters
    ----------
    share
        What part of the budget the moments take where gradients are measured too, strictly between
        0 and 1. Without any they take all.
    """

    share: Fraction = field(default=_SHARE, converter=_to_share)

    def __repr__(self) -> str:
        return f"Moments(share={float(self.share):g})"


@frozen(eq=False)
class Shares:
    """A table of public weights, and with it all of its margins."""

    names: tuple[str, ...]
    weights: Floats

    def table(self, names: tuple[str, ...]) -> Floats:
        """The weights on the cells of some of the attributes, one axis a name."""
        summed = tuple([axis for axis, name in enumerate(self.names) if name not in names])
        left = [name for name in self.names if name in names]
        margin: Floats = self.weights.sum(axis=summed)
        return margin.transpose([left.index(name) for name in names])


def public_shares(distribution: Distribution, form: ConvexForm, facts: Facts) -> Shares:
    """A distribution as shares of the rows that a loss is the average of."""
    shape = tuple([form.domain[name].size for name in form.names])
    expected = f"a distribution with a table of shape {shape}, of finite numbers from 0"
    weights = np.array(to_array("start", distribution.table(form.names), expected))
    if weights.shape != shape or not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise InvalidArgument("start", expected, "another table")
    if facts.rows is None:
        inside = float(weights.sum())
        if not inside > 0.0:
            expected = "a distribution with some probability inside the domain"
            raise InvalidArgument("start", expected, "one without")
        weights /= inside
    return Shares(form.names, weights)


def start_form(start: Pairs | Moments, form: ConvexForm) -> LinearForm:
    """The form that a start measures, on the attributes that a model depends on."""
    domain, names = form.domain, form.names
    if isinstance(start, Moments):
        moments, _ = form.distinct_moments()
        for block in moments.blocks:
            EntropicFit.check(block)
        return moments
    sizes = [domain[name].size for name in names]
    width = min(start.width, len(names))
    cells = sum([math.prod(taken) for taken in combinations(sizes, width)])
    if cells > FIT_LIMIT:
        advice = "use fewer features, or start from Moments()"
        raise TooLarge("a fit", cells, FIT_LIMIT, "cells of marginals", advice)
    return LinearForm(
        domain,
        [
            Kronecker.of(domain, {name: Identity(domain[name].size) for name in taken})
            for taken in combinations(names, width)
        ],
    )


def label_form(form: ConvexForm) -> LinearForm:
    """The marginal of the label alone."""
    size = form.domain[form.label].size
    return LinearForm(form.domain, [Kronecker.of(form.domain, {form.label: Identity(size)})])


def fit_start(
    batches: Sequence[Measured],
    form: ConvexForm,
    rows: float,
    *,
    outside: bool,
    start: Pairs | Moments,
    label: Measured | None = None,
) -> Distribution:
    """The distribution of most entropy that fits what was measured about as well as noise lets it.

    Where the label was measured by itself, its marginal is fitted first, so that noisier numbers
    are not found good enough before it is.
    Passes go on until the residuals are what noise makes them: for all numbers that no distribution
    can fit, and for a part of the others that grows with the noise.
    """
    domain = Domain(*[form.domain[name] for name in form.names])
    fit = EntropicFit(domain, outside=outside, prior=_PRIOR, hold=_HOLD)

    def add(one: Measured) -> float:
        deviation = max(_LEAST_DEVIATION, one.deviation) / rows
        fit.add_all(one.form, one.values / rows, deviation)
        return deviation

    def run(numbers: int, free: int, deviation: float) -> None:
        enough = numbers - free + min(1.0, max(_LEAST_PART, _NOISY * deviation)) * free
        for _ in range(_PASSES):
            if not fit.run(_STEPS) or 2.0 * fit.loss <= enough:
                break

    alone = 0
    if label is not None:
        alone = label.form.rows
        run(alone, alone, add(label))
    if batches:
        deviation = min([add(one) for one in batches])
        numbers = alone + sum([one.form.rows for one in batches])
        run(numbers, _rank(start, domain, batches[0].form), deviation)
    return fit.hypothesis()


def _rank(start: Pairs | Moments, domain: Domain, form: LinearForm) -> int:
    """How many numbers of a form a distribution can choose."""
    if isinstance(start, Moments):
        return form.rows
    sizes = [size - 1 for size in domain.shape]
    width = min(start.width, len(sizes))
    return sum(
        [math.prod(taken) for count in range(1, width + 1) for taken in combinations(sizes, count)]
    )


_FLAT = 1e-10
"""A direction with less than this part of the largest curvature has none."""

_LEAST = 1e-12
"""A ridge of this part of the mean curvature at least, so that every Hessian has an inverse."""

_WIDTH = 1 / 40

_UNPREDICTED = NoAccuracy(
    "no prediction: where the loss is flat, curvature at one model says nothing of others nearby",
    "give certify= a share of the budget",
)


@frozen
class PredictedExcess(ScalarAccuracy):
    """The mean excess of a model, if its distribution had the curvature of the table.

    Half of σ² tr(H⁻¹), over the directions that have curvature: what is left of an excess after a
    step of Newton's comes to that. It counts on a minimum inside the set and on a step so short
    that curvatures stay what they are. So it is made only for losses without flat parts, whose
    third derivative is bounded by the second. Means of runs lay within a factor of 6 of it in nine
    of ten cases, on twelve tables that had no part in it (docs/explanation/models.md); where many
    features are constant it is too large, and where features separate the classes too small.
    """

    value: float
    kind: str = "noise of the gradient, by the curvature of the distribution"
    coefficients: CoefficientSet | None = None
    """The set of the least-squares coefficients of the table, for models of measured moments."""
    standing: Standing = field(init=False, default="predicted")

    def error(self, beta: float) -> float:
        """The mean, whatever the confidence."""
        del beta
        return self.value


def predicted_excess(
    form: ConvexForm, excess: float, kind: str, coefficients: CoefficientSet | None = None
) -> Accuracy:
    """What is expected of an excess; nothing of a loss that is flat anywhere."""
    if not math.isfinite(form.constants.self_concordance):
        return _UNPREDICTED
    told = f"{kind}; within a factor of 6 in nine of ten cases that were measured"
    return PredictedExcess(excess, told, coefficients)


@frozen(eq=False)
class Correction:
    """A corrected model: a point of the set."""

    theta: Floats
    gap: float
    """A certificate of the solver: what θ may exceed the minimum of what was minimised by."""
    predicted: float
    """The mean excess to expect, ½σ² tr(H⁻¹)."""


def excess_metric(form: ConvexForm, hessian: Floats, deviation: float) -> tuple[float, Floats]:
    """The ridge λ of a step, and (H + λ)⁻¹ where there is curvature: half of it makes excess."""
    dimension = len(hessian)
    diameter, mean = form.over.diameter(dimension), float(np.trace(hessian)) / dimension
    ridge = max(4.0 * deviation * math.sqrt(dimension) / (diameter or 1.0), _LEAST * mean, _LEAST)
    values, vectors = np.linalg.eigh(hessian)
    curved = values > _FLAT * max(float(values[-1]), _LEAST)
    kept = vectors[:, curved]
    metric: Floats = (kept / (values[curved] + ridge)) @ kept.T
    return ridge, metric


def noise_harm(
    form: ConvexForm, hessian: Floats, deviation: float, back: Floats | None = None
) -> tuple[float, Floats, float]:
    """The ridge and metric for a noisy gradient, and the mean excess that its noise makes."""
    shape = np.eye(form.dimension) if back is None else back @ back.T
    typical = deviation * math.sqrt(float(np.trace(shape)) / form.dimension)
    ridge, metric = excess_metric(form, hessian, typical)
    return ridge, metric, 0.5 * deviation**2 * float((metric * shape).sum())


def correct(
    form: ConvexForm,
    tables: Tables,
    theta: Floats,
    gradient: Floats,
    deviation: float,
    back: Floats | None = None,
) -> Correction:
    """The model that a measured gradient corrects. Never fails for what was measured.

    `theta` is the minimum for a public distribution, and `gradient` what was measured of the
    table's average gradient there: numbers with noise of this standard deviation, and made a
    gradient by the matrix `back` where they were not the gradient itself.
    """
    try:
        own, hessian = form.expand(tables, theta)
    except DpsdkError:
        return Correction(theta, math.inf, math.inf)
    ridge, metric, harm = noise_harm(form, hessian, deviation, back)
    noise = 2.0 * harm
    # No average of gradients has a number beyond the longest of them.
    excess = np.clip(np.nan_to_num(gradient), -form.longest, form.longest) - own
    seen = float(excess @ metric @ excess)
    share = max(0.0, 1.0 - noise / seen) if seen > 0.0 else 0.0
    unmoved = Correction(theta, form.over.gap(theta, own), 0.5 * noise)
    if not (0.0 < share <= 1.0):  # nothing but noise, or no number
        return unmoved
    # ½ ridge ‖θ′ − θ̂‖² = ½ ridge ‖θ′‖² − ridge ⟨θ̂, θ′⟩ and a constant.
    linear = share * excess - ridge * theta
    try:
        moved, gap = form.minimise(tables, linear=linear, ridge=ridge, tolerance=1e-9)
    except DpsdkError:
        return unmoved
    return Correction(moved, gap, 0.5 * noise)


@frozen(eq=False)
class AskedGradient:
    """Numbers from which a gradient is read, and what their noise is expected to do."""

    form: LinearForm
    back: Floats | None
    """The matrix that makes a gradient of them; None where they are one."""
    deviation: float
    """Of the noise of each of them, as a share of the rows."""
    harm: float
    """The mean excess after a step by them, ½ tr(H⁻¹ Σ) with the covariance Σ of their noise."""
    noise: Noise | EuclideanNoise
    """What they are best measured with, at the price of the noise that was paid for."""

    def read(self, numbers: Floats) -> Floats:
        """The gradient that measured numbers stand for."""
        return numbers if self.back is None else self.back @ numbers


def asked_gradient(
    form: ConvexForm, tables: Tables, theta: Floats, noise: Noise, terms: Terms, rows: float
) -> AskedGradient:
    """How the gradient of a table at θ is best asked for, by what is public.

    Noise does harm by the inverse of the curvature: numbers that stretch flat directions, and
    shrink the others, have less noise there. With moves as long in every direction it would be
    least with the curvatures to the power −¼ for Gaussian noise, and −⅓ for Laplace noise.
    """
    gradient = form.gradient(theta)
    _, hessian = form.expand(tables, theta)

    def asked(
        numbers: LinearForm, back: Floats | None, using: Noise | EuclideanNoise = noise
    ) -> AskedGradient:
        try:
            pricing = Measure(numbers, using).price(terms)
        except InvalidArgument:
            return AskedGradient(numbers, back, math.inf, math.inf, using)
        deviation = pricing.law.standard_deviation() * 2.0**-pricing.bits / rows
        _, _, harm = noise_harm(form, hessian, deviation, back)
        return AskedGradient(numbers, back, deviation, harm, using)

    best = asked(gradient, None)
    if not 0.0 < best.harm < math.inf:
        return best
    ridge, _, _ = noise_harm(form, hessian, best.deviation)
    (block,) = gradient.blocks
    weights, shape = block.columns([]), block.shape
    for forth, back in bases(hessian, ridge, gaussian=isinstance(noise, GaussianNoise)):
        other = asked(LinearForm(form.domain, [Dense(block.names, shape, forth @ weights)]), back)
        best = min(best, other, key=attrgetter("harm"))
    if isinstance(noise, LaplaceNoise) and 1 < form.dimension <= MOST_ENTRIES:
        forth, back = ellipsoid(weights, hessian + ridge * np.eye(form.dimension))
        numbers = LinearForm(form.domain, [Dense(block.names, shape, forth @ weights)])
        together = asked(numbers, back, EuclideanNoise(noise.epsilon))
        best = min(best, together, key=attrgetter("harm"))
    return best


def smooth(form: ConvexForm) -> ConvexForm:
    """The form with the kinks of its loss rounded, where it has any."""
    if not form.loss.kinked:
        return form
    rounded = form.loss.smoothed(_WIDTH * (float(np.ptp(form.targets)) or 1.0))
    return form if rounded is None else evolve(form, loss=rounded)


def cap_excess(excess: float, whole: float) -> float:
    """An excess that hardly is more than all that a model loses which knows nothing."""
    if not whole > 0.0:
        return excess
    return whole if math.isinf(excess) else excess * whole / (excess + whole)


def remaining_excess(excess: float, whole: float) -> float:
    """The excess that a step of Newton's leaves, noise of its gradient aside.

    A step whose curvature is off by a part r leaves r² of the excess. Curvatures are off since the
    step is long, and since what they are taken from is noisy: both by about the root of the excess,
    beside one half of all that there is to lose. So it was found for Adult and wine, within a
    factor of 5. Nothing is known of what a distribution misses beyond its noise.
    """
    beside = excess + 0.5 * whole
    return excess * (excess / beside) if beside > 0.0 else 0.0


def start_harm(
    start: Pairs | Moments, form: ConvexForm, tables: Tables, theta: Floats, deviation: float
) -> float:
    """The mean excess of the best model of a fitted distribution, for the noise it was fitted to.

    What the measured numbers say of each number of the gradient is taken with the least noise that
    any weights give it; what they do not say of it is left out.

    `deviation` is that of the noise of each measured number, as a share. Infinite where the excess
    cannot be told.
    """
    try:
        _, hessian = form.expand(tables, theta)
        if isinstance(start, Pairs):
            noise = marginal_products(form, theta, start.width)
        else:
            noise = _moment_products(form, tables, theta, hessian)
    except DpsdkError:
        return math.inf
    typical = math.sqrt(float(np.trace(noise)) / len(noise))
    _, metric = excess_metric(form, hessian, deviation * typical)
    return 0.5 * deviation**2 * float((metric * noise).sum())


def constant_model(form: ConvexForm, tables: Tables) -> Floats | None:
    """The best model that depends on no feature; None where the set has none, or none is found."""
    theta, over = np.zeros(form.width), form.over
    place, intercept = _intercept(form)
    if isinstance(over, Simplex) and intercept is not None:
        theta[place] = 1.0
    elif isinstance(over, Box) and intercept is not None:
        low, high = over.sides(form.width)
        theta[place] = min(max(0.0, float(low[place])), float(high[place]))
        over = Box(float(low[place]), float(high[place]))
    if not form.over.contains(theta):
        return None
    thetas = np.tile(theta, (form.classes, 1))
    if intercept is None or isinstance(over, Simplex):
        return thetas.reshape(-1)
    try:
        alone = evolve(form, coordinates=(intercept,), over=over)
        found = [one.minimise(tables, tolerance=1e-9)[0] for one in alone.by_class]
    except DpsdkError:
        return None
    thetas[:, place] = np.concatenate(found)
    return thetas.reshape(-1)


def _intercept(form: ConvexForm) -> tuple[int, Coordinates | None]:
    """The first coordinate that depends on nothing, and its place."""
    place = 0
    for one in form.coordinates:
        if not one.names:
            return place, Coordinates((), one.values[:1])
        place += one.width
    return 0, None


def marginal_products(form: ConvexForm, theta: Floats, width: int) -> Floats:
    """The products of the weights that read each number of a gradient off marginals, the shortest.

    A function is a sum of effects, one a set of attributes (Hoeffding 1948). The effect of a set is
    read off every marginal that contains it, each the less the more cells it adds up.
    """
    shape = tuple([form.domain[name].size for name in form.names])
    (block,) = form.gradient(theta).blocks
    codes = list(np.indices(shape).reshape(len(shape), -1))
    weights = np.asarray(block.columns(codes)).reshape(form.dimension, *shape)
    axes, most = range(len(shape)), min(width, len(shape))
    means: dict[tuple[int, ...], Floats] = {}
    for chosen in combinations(axes, most):
        others = tuple([1 + axis for axis in axes if axis not in chosen])
        means[chosen] = weights.mean(axis=others, keepdims=True)
    for count in range(most - 1, -1, -1):
        for chosen in combinations(axes, count):
            added = next(axis for axis in axes if axis not in chosen)
            wider = tuple(sorted((*chosen, added)))
            means[chosen] = means[wider].mean(axis=1 + added, keepdims=True)
    products = np.zeros((form.dimension, form.dimension))
    effects: dict[tuple[int, ...], Floats] = {}
    for count in range(most + 1):
        for chosen in combinations(axes, count):
            effect = means[chosen].copy()
            for inner in chain.from_iterable(combinations(chosen, fewer) for fewer in range(count)):
                effect = effect - effects[inner]
            effects[chosen] = effect
            sizes = [shape[axis] for axis in axes if axis not in chosen]
            read = sum([1.0 / math.prod(taken) for taken in combinations(sizes, most - count)])
            flat = effect.reshape(form.dimension, -1)
            products += flat @ flat.T / read
    return products


def _moment_products(form: ConvexForm, tables: Tables, theta: Floats, hessian: Floats) -> Floats:
    """The same for second moments, as if the slope of the loss were linear in margin and label."""
    lengths = 0.0
    for one in form.coordinates:
        own = tuple([slice(form.domain[name].known) for name in one.names])
        table = np.asarray(tables.table(one.names), dtype=np.float64)[own]
        lengths += float((np.square(one.values).sum(axis=0) * table).sum())
    bend = float(np.trace(hessian)) / lengths if lengths > 0.0 else 0.0
    slope = float(np.abs(form.loss.derivative(np.zeros_like(form.targets), form.targets)).max())
    return (bend**2 * float(theta @ theta) + slope**2) * np.eye(form.dimension)
