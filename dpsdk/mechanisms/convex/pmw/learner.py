"""Models that are all known beforehand, learnt round by round, and what the rounds prove of them.

A round chooses the model that the table may improve the most, measures its gradient, and moves the
hypothesis. The gap of what was measured bounds, up to noise, the excess of all models at once
(docs/explanation/proofs/convex-pmw.md, "Models known beforehand").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk._records import evolve, field, frozen
from dpsdk.accuracy import ScalarAccuracy, Standing
from dpsdk.forms import ConvexForm, ConvexForms, Facts, LinearForm, ProximalGapForm
from dpsdk.hypothesis import Hypothesis, Start
from dpsdk.hypothesis.start import opened
from dpsdk.kernel import Kernel, Noise, Select, ShortfallAccuracy
from dpsdk.learning import Replay
from dpsdk.mechanisms.arguments import check_linear
from dpsdk.mechanisms.base import Answerable
from dpsdk.mechanisms.convex.correction import correct, smooth
from dpsdk.mechanisms.convex.noise import Tails
from dpsdk.mechanisms.convex.pmw.strategy import (
    check_model,
    linear_answer,
    measured_gradient,
    remember_gradient,
    tilt_along,
)
from dpsdk.mechanisms.convex.several import join_measurements
from dpsdk.mechanisms.fitted import Learner, modelled
from dpsdk.mechanisms.mwem.plan import Plan
from dpsdk.release import Measurement, NoiseAccuracy
from dpsdk.typing import Floats

__all__ = [
    "KnownExcess",
    "KnownModels",
    "KnownModelsStrategy",
    "Promised",
    "key_of",
]

_SWEEPS = 4


@frozen(eq=False)
class KnownExcess(ScalarAccuracy):
    """The excess of each of several models, by the gradient of the one that was chosen as worst.

    Its gap g at θ̂ is what may be gained within the set by the gradient as measured; no way to where
    the true one gains the most is longer than `reach`. All models together stay within the bound.
    """

    gap: float
    choice: ShortfallAccuracy
    tails: Tails
    """Of the noise of the average gradient."""
    reach: float
    dimension: int
    rows: float
    rounds: int
    """Of so many choices and gradients the bounds hold together."""
    span: float = math.inf
    kind: str = field(init=False, default="the gap of the worst model, as chosen and measured")
    standing: Standing = field(init=False, default="promised")

    def error(self, beta: float) -> float:
        """In the unit of the loss."""
        part = beta / (2 * self.rounds)
        noise = self.tails.along(self.reach, self.dimension, part)
        return (self.gap + self.choice.error(part) / self.rows + noise) * (1 + 1e-9)


def key_of(form: ConvexForm) -> tuple[object, ...]:
    """What makes a model the same as another, on one domain."""
    coordinates = [(one.names, one.values.tobytes()) for one in form.coordinates]
    return form.label, form.over, tuple(coordinates), form.targets.tobytes(), form.loss


@frozen(eq=False)
class _Answered:
    """The models of all forms at a hypothesis, and the bound of their excess."""

    hypothesis: Hypothesis
    models: tuple[tuple[Floats, float], ...]
    """The θ of each, and the gap of its solver."""
    excess: KnownExcess


@frozen(eq=False)
class KnownModelsStrategy:
    """Answers the models of a workload as they were compared, and all else from the hypothesis."""

    _hypothesis: Hypothesis
    _keys: tuple[object, ...] = ()
    _best: _Answered | None = None

    @property
    def hypothesis(self) -> Hypothesis:
        """The distribution that answers, a copy."""
        return self._hypothesis.copy()

    distribution = hypothesis

    def answer(self, form: Answerable, kernel: Kernel, /) -> Measurement:
        """Counts of rows from the hypothesis, or a θ and after it the gap of its solver. Free."""
        if isinstance(form, ConvexForms):
            return join_measurements([self.answer(part, kernel) for part in form.parts])
        if isinstance(form, ConvexForm):
            return self._model(form)
        check_linear(form, "OfflineConvexPMW")
        return linear_answer(self._hypothesis, form, kernel)

    def _model(self, form: ConvexForm) -> Measurement:
        key, best = key_of(form), self._best
        if best is None or key not in self._keys:
            return modelled(form, self._hypothesis)
        theta, gap = best.models[self._keys.index(key)]
        excess = evolve(best.excess, span=form.constants.range)
        return Measurement(np.append(theta, gap), excess, "hypothesis")


@frozen
class Promised:
    """The rounds end where the bound at `beta` is at most `alpha`; each moves by `step`."""

    alpha: float
    beta: float
    step: float
    tolerance: float
    """By how much a model may exceed the least loss on the hypothesis."""


class KnownModels(Learner[KnownModelsStrategy]):
    """Choose the model that is worst by its gap, measure its gradient there, and learn that."""

    def __init__(
        self,
        forms: Sequence[ConvexForm],
        plan: Plan,
        facts: Facts,
        start: Start,
        promised: Promised | None,
    ) -> None:
        if plan.noise is None:
            raise ValueError("a plan without noise")
        self._forms, self._plan, self._rows = forms, plan, float(max(facts.rows or 1, 1))
        self._noise: Noise = plan.noise
        self._start, self._promised = start, promised
        self._replay = Replay(_SWEEPS)
        self._hypothesis: Hypothesis | None = None
        self._best: _Answered | None = None

    @property
    def learnt(self) -> bool:
        return self._hypothesis is not None

    @property
    def done(self) -> bool:
        promised, best = self._promised, self._best
        if promised is None or best is None:
            return False
        return best.excess.error(promised.beta) <= promised.alpha

    def check(self, kernel: Kernel) -> None:
        """Refuse models whose gaps or gradients cannot be asked for, before anything is paid."""
        for form in self._forms:
            check_model(form, kernel, self._noise)
        centres = [ProximalGapForm.of(form, form.centre()) for form in self._forms]
        Select(centres, self._plan.choice).price(kernel.terms)

    def begin(self, kernel: Kernel) -> None:
        """Come by the first hypothesis, and pay for it if it measures."""
        self._hypothesis = opened(self._start, kernel, self._plan.start)
        self.begun = self._plan.start is not None

    def round(self, kernel: Kernel) -> None:
        if self._hypothesis is None:
            self.begin(kernel)
        hypothesis = self._hypothesis
        if hypothesis is None:
            raise ValueError("nothing to learn from")
        tolerance = 1e-6 if self._promised is None else self._promised.tolerance
        models = tuple([form.minimise(hypothesis, tolerance=tolerance) for form in self._forms])
        gaps = [
            ProximalGapForm.of(form, theta)
            for form, (theta, _) in zip(self._forms, models, strict=True)
        ]
        request = Select(gaps, self._plan.choice)
        choice = request.price(kernel.terms).accuracy
        place = kernel.run(request)
        self.begun: bool = True
        form, (theta, _), gradient = self._forms[place], models[place], gaps[place].gradient
        numbers, noise = measured_gradient(gradient, self._noise, kernel)
        mean = numbers / self._rows
        excess = KnownExcess(
            form.over.gap(theta, mean),
            choice,
            Tails(noise.law, noise.step / self._rows, noise.bias / self._rows),
            form.over.farthest(theta),
            len(theta),
            self._rows,
            self._plan.rounds,
        )
        best = self._best
        if best is None or excess.error(0.05) < best.excess.error(0.05):
            best = _Answered(hypothesis, models, excess)
        moved = hypothesis.copy()
        self._move(moved, form, gradient, theta, numbers, noise)
        self._hypothesis, self._best = moved, best

    def _move(
        self,
        hypothesis: Hypothesis,
        form: ConvexForm,
        gradient: LinearForm,
        theta: Floats,
        numbers: Floats,
        noise: NoiseAccuracy,
    ) -> None:
        mean = numbers / self._rows
        if self._promised is not None:
            # Mass leaves the records with a large u.
            tilt = tilt_along(gradient, form.over.linear_minimiser(mean) - theta)
            if tilt is not None:
                hypothesis.shift(tilt.form, -self._promised.step * tilt.scale)
            return
        rounded = smooth(form)
        deviation = noise.law.standard_deviation() * noise.step / self._rows
        way = correct(rounded, hypothesis, theta, mean, deviation).theta - theta
        _, hessian = rounded.expand(hypothesis, theta)
        remember_gradient(self._replay, gradient, way, hessian, mean, noise, self._rows)
        self._replay.run(hypothesis)

    def strategy(self, *, finished: bool) -> KnownModelsStrategy:
        """The answers of the round with the least bound, and its hypothesis."""
        del finished
        if self._best is None:
            if self._hypothesis is None:
                raise ValueError("nothing was learnt")
            return KnownModelsStrategy(self._hypothesis)
        keys = tuple([key_of(form) for form in self._forms])
        return KnownModelsStrategy(self._best.hypothesis, keys, self._best)
