"""A guarded stream of models at work: minimise on the hypothesis, look, and learn.

A model that is best for the hypothesis has a gradient there that nothing descends from. If the
table's gradient at the same θ̂ is close to it in every coordinate, the model is good for the table,
too; each coordinate is the average of a public function, so nothing is minimised over the rows.
Coordinates are taken along eigenvectors of the hypothesis's Hessian, and each is mapped to
[0, 1] by its own public range, in which one row counts one: these are what `watch` compares.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from dpsdk._arrays import ByNumbers, frozen_copy, frozen_integers
from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.accuracy import NoAccuracy, NoiseAccuracy, ScalarAccuracy, Standing
from dpsdk.errors import BudgetExceeded, InvalidArgument, TooLarge, UnsupportedGuarantee
from dpsdk.forms import ConvexForm, ConvexForms, Dense, Facts, GapForm, Kronecker, LinearForm
from dpsdk.forms.design import CELL_LIMIT
from dpsdk.hypothesis import Hypothesis
from dpsdk.kernel import Allowance, GaussianNoise, Kernel, LaplaceNoise, Measure, Noise
from dpsdk.learning import Replay
from dpsdk.mechanisms.arguments import check_linear
from dpsdk.mechanisms.base import Answerable
from dpsdk.mechanisms.convex.correction import correct, smooth
from dpsdk.mechanisms.convex.descent import scale_gradient
from dpsdk.mechanisms.convex.several import join_measurements
from dpsdk.mechanisms.fitted import Fitted
from dpsdk.mechanisms.numeric_sparse import drift_of
from dpsdk.mechanisms.pmw.schedule import Schedule
from dpsdk.mechanisms.pmw.strategy import Stream
from dpsdk.noise import DiscreteGaussian
from dpsdk.release import Accuracy, Measurement
from dpsdk.typing import Floats, Ints

__all__ = [
    "GuardedStrategy",
    "Tilt",
    "WatchedExcess",
    "check_cells",
    "check_model",
    "linear_answer",
    "measured_gradient",
    "release_radius",
    "remember_gradient",
    "tilt_along",
    "watch_gradient",
]

_UNCHECKED = NoAccuracy(
    "the hypothesis answered, and nobody looked, since the updates or the budget are used up",
    "open a channel with more updates",
)

_CORRECTED = NoAccuracy(
    "the hypothesis corrected by a measured gradient, of which nothing is proven or predicted",
    "ask PrivateMinimizer for the model, with certify=",
)

_DOUBT = 0.05
"""With at most this probability an update may take the hypothesis farther from the table."""

_SWEEPS = 4

_NARROW = 1e-9
"""Coordinates whose range is this part of the widest are not looked at: their range bounds them."""

_ROUNDING = 2.0**-40

_DAMPINGS = (1e-4, 1e-2, 1.0)
"""The ridges of a Hessian, in parts of its mean: directions without curvature are common."""


class ModelStream(Stream, ABC):
    """A stream of models, which answers linear queries from its hypothesis, free."""

    def answer(self, form: Answerable, kernel: Kernel, /) -> Measurement:
        """Counts of rows from the hypothesis, or a θ and after it the gap of its solver."""
        if isinstance(form, ConvexForms):
            for part in form.parts:
                self._check(part, kernel)
            return join_measurements([self.answer(part, kernel) for part in form.parts])
        if isinstance(form, ConvexForm):
            return self._lock.run(lambda: self._model(form, kernel))
        check_linear(form, "ConvexPMW")
        return self._lock.run(lambda: linear_answer(self._hypothesis, form, kernel))

    @abstractmethod
    def _check(self, form: ConvexForm, kernel: Kernel) -> None:
        """Refuse a model before anything is paid for those that are asked with it."""

    @abstractmethod
    def _model(self, form: ConvexForm, kernel: Kernel) -> Measurement:
        """A θ and after it the gap of its solver. Called in turns."""


class GuardedStrategy(ModelStream):
    """Answers models that are best for a public hypothesis, as long as the table agrees."""

    def __init__(
        self,
        kernel: Kernel,
        schedule: Schedule,
        hypothesis: Hypothesis,
        *,
        raises: bool,
        allowance: Allowance | None = None,
    ) -> None:
        super().__init__(kernel, schedule.watching, hypothesis, allowance)
        self._schedule = schedule
        self._raises = raises

    def _check(self, form: ConvexForm, kernel: Kernel) -> None:
        check_model(smooth(form), kernel, self._schedule.noise)

    def _model(self, form: ConvexForm, kernel: Kernel) -> Measurement:
        rounded = smooth(form)
        check_model(rounded, kernel, self._schedule.noise)
        theta, gap = form.minimise(self._hypothesis)
        if self._spent or self._watch.tops >= self._schedule.updates:
            return _from_hypothesis(theta, gap, _UNCHECKED)
        seen = watch_gradient(form, theta, self._hypothesis, self._facts, rounded)
        self._hypothesis.check(seen.gradient)
        run = self._watch.tops + 1
        if seen.gap is not None:
            try:
                top = self._watch.first_above(seen.gap, self._schedule.threshold, kernel=kernel)
                if top is not None:
                    return self._measured(rounded, theta, seen, kernel)
            except (BudgetExceeded, UnsupportedGuarantee):
                if self._raises:
                    raise
                self._spent = True
                return _from_hypothesis(theta, gap, _UNCHECKED)
        drift = 0.0
        if seen.gap is not None:
            drift = drift_of(self._schedule.watching, seen.gap, self._facts)
        accuracy = WatchedExcess(
            self._schedule,
            self._facts,
            run,
            drift,
            seen.certificate,
            form.over.diameter(form.dimension),
            seen.narrow,
            seen.ranges,
            seen.places,
            form.constants.range,
        )
        return _from_hypothesis(theta, gap, accuracy)

    def _measured(
        self, form: ConvexForm, theta: Floats, seen: WatchedGradient, kernel: Kernel
    ) -> Measurement:
        """The model that a measured gradient corrects; the hypothesis learns what it said."""
        rows = float(max(self._facts.rows or 1, 1))
        numbers, noise = measured_gradient(
            seen.measures, self._schedule.noise, kernel, self._allowance
        )
        gradient = numbers / rows
        deviation = noise.law.standard_deviation() * noise.step / rows
        result = correct(form, self._hypothesis, theta, gradient, deviation)
        self._learn(seen, result.theta - theta, gradient, noise)
        return Measurement(np.append(result.theta, result.gap), _CORRECTED, "measured")

    def _learn(
        self, seen: WatchedGradient, way: Floats, gradient: Floats, accuracy: NoiseAccuracy
    ) -> None:
        """Tilt the hypothesis along u(x) = ⟨θ′ − θ̂, ∇ℓ_x(θ̂)⟩, and along each coordinate."""
        rows = float(max(self._facts.rows or 1, 1))
        replay = Replay(_SWEEPS)
        remember_gradient(replay, seen.measures, way, seen.hessian, gradient, accuracy, rows)
        replay.run(self._hypothesis)


def remember_gradient(
    replay: Replay,
    measures: LinearForm,
    way: Floats,
    hessian: Floats,
    gradient: Floats,
    accuracy: NoiseAccuracy,
    rows: float,
) -> None:
    """Keep what a measured average gradient says along a way, and of each coordinate."""
    each = float(accuracy.radii(_DOUBT / 2, joint=True).max())
    ways = [(way, release_radius(way, hessian, accuracy, _DOUBT / 2))]
    ways += [(unit, each) for unit in np.eye(len(way))]
    for one, radius in ways:
        tilt = tilt_along(measures, one)
        if tilt is None:
            continue
        value, near = float(gradient @ one) / tilt.scale, radius / rows / tilt.scale
        if near < 2.0:  # else whatever the hypothesis says is near enough
            replay.remember(tilt.form, value, near)


def _from_hypothesis(theta: Floats, gap: float, accuracy: Accuracy) -> Measurement:
    return Measurement(np.append(theta, gap), accuracy, "hypothesis")


def linear_answer(hypothesis: Hypothesis, form: LinearForm, kernel: Kernel) -> Measurement:
    """Counts of rows, read off a hypothesis. Costs nothing."""
    hypothesis.check(form)
    fitted = Fitted(hypothesis).answer(form, kernel)
    return Measurement(fitted.values, fitted.accuracy, "hypothesis")


@frozen(eq=False)
class Tilt:
    """A function of one record that a hypothesis moves along, with weights from -1 to 1."""

    form: LinearForm
    scale: float
    """The size that a weight of 1 stands for."""


def tilt_along(gradient: LinearForm, way: Floats) -> Tilt | None:
    """The function ⟨way, ∇ℓ_x⟩ of a record; None where it is zero everywhere."""
    block = dense(gradient)
    weights = way @ block.weights
    scale = float(np.abs(weights).max())
    if not 0.0 < scale < np.inf:
        return None
    row = Dense(block.names, block.shape, (weights / scale)[None, :])
    return Tilt(LinearForm(gradient.domain, [row]), scale)


def check_cells(form: ConvexForm) -> None:
    """Refuse a model whose gradient no guard can compare, cell by cell."""
    if form.cells > CELL_LIMIT:
        advice = "fit it on the records of the channel's distribution, free and unguarded"
        raise TooLarge("a guarded model", form.cells, CELL_LIMIT, "cells", advice)


def check_model(form: ConvexForm, kernel: Kernel, noise: Noise) -> None:
    """Refuse a model whose gradient could not be measured, before anything is paid."""
    check_cells(form)
    domain = kernel.facts.domain
    if form.domain != domain:
        raise InvalidArgument("form", "over the domain of the table", "one over another domain")
    # No gradient of a record is longer, so that noise and sums of all of them fit where these do.
    longest = LinearForm(domain, [Kronecker((), (), form.longest)])
    Measure(longest, noise).price(kernel.terms)
    # As it is measured, with weights up to 1, no record moves the numbers by more than these move
    # with less of the budget; they are larger, since their lattice might be coarser.
    ends = np.zeros((1, domain[form.label].size))
    ends[0, len(form.targets) - 1], ends[0, 0] = -4.0, 4.0
    sides = LinearForm(domain, [Dense((form.label,), ends.shape[1:], ends)])
    part: Noise = (
        GaussianNoise(noise.rho / form.dimension)
        if isinstance(noise, GaussianNoise)
        else LaplaceNoise(noise.epsilon / form.dimension)
    )
    Measure(sides, part).price(kernel.terms)


def measured_gradient(
    gradient: LinearForm, noise: Noise, kernel: Kernel, allowance: Allowance | None = None
) -> tuple[Floats, NoiseAccuracy]:
    """A summed gradient with noise, and what that is; measured with weights up to 1."""
    form, unit = scale_gradient(gradient) or (gradient, 1.0)
    noisy = kernel.measure(form, noise, allowance=allowance)
    own = noisy.accuracy
    accuracy = NoiseAccuracy(own.law, own.entries, own.step * unit, own.bias * unit)
    return noisy.values * unit, accuracy


@frozen(eq=False)
class WatchedGradient:
    """A gradient at a public θ̂, its coordinates as gaps, and what they leave open."""

    gradient: LinearForm
    """That of the summed loss at θ̂."""
    measures: LinearForm
    """The gap measured if a coordinate is off: the same, of the loss with its kinks rounded."""
    own: Floats
    """The average gradient over the hypothesis."""
    hessian: Floats
    """The hypothesis's Hessian there, of the loss with its kinks rounded."""
    gap: GapForm | None
    """The coordinates; None where no row moves any."""
    ranges: Floats
    """Of each gap, what one of it is worth in the gradient."""
    places: Ints
    """Of each gap, the coordinate that it is of; with a cell outside there are two of one."""
    narrow: float
    """How long the rest of the gradient's difference can be."""
    certificate: float
    """By how much θ̂ may exceed the hypothesis's minimum, by the same gradient."""


def watch_gradient(
    form: ConvexForm,
    theta: Floats,
    tables: Hypothesis,
    facts: Facts,
    rounded: ConvexForm | None = None,
) -> WatchedGradient:
    """The coordinates of a gradient, to be compared with those of a hypothesis."""
    gradient = form.gradient(theta)
    block = dense(gradient)
    table = tables.table(form.names).reshape(-1)
    own: Floats = block.weights @ table
    smoothed = form if rounded is None else rounded
    measures = gradient if smoothed is form else smoothed.gradient(theta)
    _, hessian = smoothed.expand(tables, theta)
    _, vectors = np.linalg.eigh(hessian)
    along: Floats = vectors.T @ block.weights
    functions, low = along, along.min(axis=1)
    if facts.outside or tables.outside:
        # A record outside, of the table or the hypothesis, has a gradient of zero, and weights of
        # gaps are zero there: so each sign is a function of its own, zero where the other is not.
        functions = np.concatenate([np.maximum(along, 0.0), np.maximum(-along, 0.0)])
        low = np.zeros(len(functions))
    places = np.tile(np.arange(len(along)), len(functions) // len(along))
    ranges = functions.max(axis=1) - low
    wide = ranges > _NARROW * max(float(ranges.max()), 1e-300)
    narrow = float(np.linalg.norm(np.bincount(places[~wide], ranges[~wide], len(along))))
    # Rounding is allowed for in proportion to what is summed.
    size = float(np.abs(block.weights).max()) * math.sqrt(len(theta))
    slack = _ROUNDING * size * form.over.diameter(len(theta))
    certificate = max(form.over.gap(theta, own), 0.0) + slack
    gap: GapForm | None = None
    if wide.any():
        weights = (functions[wide] - low[wide, None]) / ranges[wide, None]
        np.clip(weights, 0.0, 1.0, out=weights)
        rates = np.clip(weights @ table, 0.0, 1.0)
        whole = LinearForm(form.domain, [Dense(block.names, block.shape, weights)])
        gap = GapForm.around(whole, rates)
    return WatchedGradient(
        gradient, measures, own, hessian, gap, ranges[wide], places[wide], narrow, certificate
    )


def dense(gradient: LinearForm) -> Dense:
    """The weights of a gradient, all in one block."""
    (block,) = gradient.blocks
    if not isinstance(block, Dense):
        raise InvalidArgument("gradient", "one dense block", shown(block))
    return block


@frozen
class WatchedExcess(ScalarAccuracy):
    """The excess of a model whose gradient was called close to the hypothesis's.

    With g the table's average gradient at θ̂ and g_p the hypothesis's, no θ′ of the set has a loss
    below that of θ̂ by more than max ⟨g, θ̂ − θ′⟩ ≤ max ⟨g_p, θ̂ − θ′⟩ + ‖g − g_p‖ · diameter; the
    coordinates of g − g_p are bounded by the threshold and its noise
    (docs/explanation/proofs/convex-pmw.md).
    """

    schedule: Schedule
    facts: Facts
    run: int
    drift: float
    certificate: float
    diameter: float
    narrow: float
    ranges: Floats = field(converter=frozen_copy, eq=ByNumbers)
    places: Ints = field(converter=frozen_integers, eq=ByNumbers)
    span: float = math.inf
    kind: str = field(init=False, default="exact tail of the noise of thresholds, and convexity")
    standing: Standing = field(init=False, default="proven")

    def error(self, beta: float) -> float:
        """In the unit of the loss."""
        schedule, facts = self.schedule, self.facts
        runs = 1 if schedule.watching.tops is not None else schedule.updates
        noise = schedule.watching.below_in(self.run, beta, facts, runs) + self.drift
        # A share differs by no more than one whole row for each row.
        each = self.ranges * min((schedule.threshold + noise) / max(facts.rows or 1, 1), 1.0)
        length = float(np.linalg.norm(np.bincount(self.places, each))) + self.narrow
        return self.certificate + length * self.diameter


def release_radius(way: Floats, hessian: Floats, accuracy: NoiseAccuracy, beta: float) -> float:
    """How far ⟨way, ĝ⟩ may be off, in the unit of a summed gradient, with probability 1 − beta.

    The way may follow from the noise z of ĝ itself, so that σ‖way‖ would be too little. Whatever
    it is, |⟨way, z⟩| is at most ‖way‖₁ ‖z‖_∞, and at most ‖A⁻¹ way‖ ‖Az‖ for any A that was fixed
    before, such as H^(−1/2) of a public H. ‖z‖_∞ has the exact tail of the noise; ‖Az‖ that of
    Hsu, Kakade and Zhang (2012) where the noise is Gaussian.
    """
    part = beta / (1 + len(_DAMPINGS))  # for whichever bound turns out to be the least
    length = float(np.abs(way).sum())
    least = length * float(accuracy.radii(part, joint=True).max())
    law = accuracy.law
    if not isinstance(law, DiscreteGaussian):
        return least
    dimension, t = len(way), math.log(1.0 / part)
    # The bound is the same for every multiple of A. Powers of two come first: a quotient of numbers
    # below the normal ones overflows in some libraries.
    relative = np.ldexp(hessian, -math.frexp(float(np.trace(hessian)))[1])
    relative = relative / (float(np.trace(relative)) / dimension or 1.0)
    noise = math.sqrt(float(law.variance)) * accuracy.step
    for damping in _DAMPINGS:
        damped = relative + damping * np.eye(dimension)
        spread = np.linalg.inv(damped)
        trace, square = float(np.trace(spread)), float((spread * spread).sum())
        norm = float(np.linalg.norm(spread, 2))
        tail = math.sqrt(trace + 2.0 * math.sqrt(square * t) + 2.0 * norm * t)
        along = math.sqrt(max(float(way @ damped @ way), 0.0))
        least = min(least, noise * along * tail + length * accuracy.bias)
    return least
