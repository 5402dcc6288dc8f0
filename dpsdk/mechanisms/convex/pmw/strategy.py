"""A guarded stream of models at work: minimise on the hypothesis, look, and learn."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from attrs import frozen

from dpsdk.accuracy import NoAccuracy, NoiseAccuracy
from dpsdk.errors import BudgetExceeded, InvalidArgument, UnsupportedGuarantee
from dpsdk.forms import ConvexForm, Dense, Kronecker, LinearForm
from dpsdk.hypothesis import Hypothesis
from dpsdk.kernel import Allowance, GaussianNoise, Kernel, LaplaceNoise, Measure, Noise
from dpsdk.learning import Replay
from dpsdk.mechanisms.convex.correction import PredictedExcess, correct
from dpsdk.mechanisms.convex.descent import scale_gradient
from dpsdk.mechanisms.convex.pmw.watching import (
    WatchedGradient,
    dense,
    excess_below,
    release_radius,
    watch_gradient,
)
from dpsdk.mechanisms.convex.prediction import smooth
from dpsdk.mechanisms.fitted import Fitted
from dpsdk.mechanisms.pmw.schedule import Schedule
from dpsdk.mechanisms.pmw.strategy import Stream
from dpsdk.mechanisms.refusals import check_linear
from dpsdk.release import Accuracy, Measurement
from dpsdk.typing import Floats

__all__ = [
    "GuardedStrategy",
    "Tilt",
    "check_model",
    "linear_answer",
    "measured_gradient",
    "tilt_along",
]

_UNCHECKED = NoAccuracy(
    "the hypothesis answered, and nobody looked, since the updates or the budget are used up",
    "open a channel with more updates",
)

_FLAT = NoAccuracy(
    "the hypothesis has no curvature at its model, by which a gradient could correct it",
    "use a loss with more curvature, or a closer start",
)

_DOUBT = 0.05
"""With at most this probability an update may take the hypothesis farther from the table."""

_SWEEPS = 4


class ModelStream(Stream, ABC):
    """A stream of models, which answers linear queries from its hypothesis, free."""

    def answer(self, form: LinearForm | ConvexForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows from the hypothesis, or a θ and after it the gap of its solver."""
        if isinstance(form, ConvexForm):
            return self._lock.run(lambda: self._model(form, kernel))
        check_linear(form, "ConvexPMW")
        return self._lock.run(lambda: linear_answer(self._hypothesis, form, kernel))

    @abstractmethod
    def _model(self, form: ConvexForm, kernel: Kernel) -> Measurement:
        """A θ and after it the gap of its solver. Called in turns."""


class GuardedStrategy(ModelStream):
    """Answers models that are best for a public hypothesis, as long as the table agrees.

    The coordinates of the gradient at the hypothesis's θ̂ are compared by the kernel's `watch`, all
    of a model together. Called below the threshold, θ̂ is the answer, free; if one is above, the
    gradient is measured and corrects θ̂, and the hypothesis learns by how much the gradient was off
    along the correction. Linear queries are answered from the hypothesis. Calls take turns.
    """

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
        accuracy = excess_below(seen, form, self._schedule, self._facts, run)
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
        accuracy: Accuracy = PredictedExcess(result.predicted)
        if not result.predicted:
            accuracy = _FLAT
        return Measurement(np.append(result.theta, result.gap), accuracy, "measured")

    def _learn(
        self, seen: WatchedGradient, way: Floats, gradient: Floats, accuracy: NoiseAccuracy
    ) -> None:
        """Tilt the hypothesis along u(x) = ⟨θ′ − θ̂, ∇ℓ_x(θ̂)⟩, and along each coordinate.

        Always to the near side of what was released, so that no move leads away from the table
        while the noise is within its radius.
        """
        rows = float(max(self._facts.rows or 1, 1))
        replay = Replay(_SWEEPS)
        each = float(accuracy.radii(_DOUBT / 2, joint=True).max())
        ways = [(way, release_radius(way, seen.hessian, accuracy, _DOUBT / 2))]
        ways += [(unit, each) for unit in np.eye(len(way))]
        for one, radius in ways:
            tilt = tilt_along(seen.measures, one)
            if tilt is None:
                continue
            value, near = float(gradient @ one) / tilt.scale, radius / rows / tilt.scale
            if near < 2.0:  # else whatever the hypothesis says is near enough
                replay.remember(tilt.form, value, near)
        replay.run(self._hypothesis)


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
    """What a weight of 1 stands for."""


def tilt_along(gradient: LinearForm, way: Floats) -> Tilt | None:
    """The function ⟨way, ∇ℓ_x⟩ of a record; None where it is zero everywhere."""
    block = dense(gradient)
    weights = way @ block.weights
    scale = float(np.abs(weights).max())
    if not 0.0 < scale < np.inf:
        return None
    row = Dense(block.names, block.shape, (weights / scale)[None, :])
    return Tilt(LinearForm(gradient.domain, [row]), scale)


def check_model(form: ConvexForm, kernel: Kernel, noise: Noise) -> None:
    """Refuse a model whose gradient could not be measured, before anything is paid."""
    domain = kernel.facts.domain
    if form.domain != domain:
        raise InvalidArgument("form", "over the domain of the table", "one over another domain")
    # No gradient of a record is longer, so that noise and sums of all of them fit where these do.
    longest = LinearForm(domain, [Kronecker((), (), form.longest)])
    Measure(longest, noise).price(kernel.terms)
    # As it is measured, with weights up to 1, no record moves the numbers by more than these move
    # with less of the budget; they are larger, since their lattice might be coarser.
    ends = np.zeros((1, len(form.targets)))
    ends[0, -1], ends[0, 0] = -4.0, 4.0
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
    """A summed gradient with noise, and what that is; measured with weights up to 1.

    So the lattice has room for its noise, however large or small it is.
    """
    form, unit = scale_gradient(gradient) or (gradient, 1.0)
    noisy = kernel.measure(form, noise, allowance=allowance)
    own = noisy.accuracy
    accuracy = NoiseAccuracy(own.law, own.entries, own.step * unit, own.bias * unit)
    return noisy.values * unit, accuracy
