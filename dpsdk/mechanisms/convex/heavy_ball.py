"""`HeavyBall`: descent with momentum and early stopping, for models of any number of attributes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown, to_finite
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import NUMBER, Member, OrNone, written
from dpsdk.errors import DpsdkError, InvalidArgument
from dpsdk.forms import ConvexForm, Facts
from dpsdk.kernel import GaussianNoise, Kernel, Terms
from dpsdk.mechanisms.convex.correction import constant_model, label_form, smooth
from dpsdk.mechanisms.convex.moments import least_squares
from dpsdk.mechanisms.convex.oracle import Oracle, Paid, Part, Spending, Total, divisor
from dpsdk.release import Cost, Measurement, NoAccuracy, Quote
from dpsdk.typing import Floats

__all__ = ["HeavyBall"]

_FEWEST, _MOST = 30, 300
"""How many gradients are measured; the most where the number of rows is private."""

_STEADY = 0.97
_TIME, _TIME_OF_SQUARES = 3.0, 6.0
_CLIP = 1.5
_BEND = 1.0
"""No loss is taken to bend more, as kinks do that were rounded: steps are averaged across these."""
_HOPELESS = 100.0
"""Where a descent would run for less time, only the constant model is looked for."""

_UNPROVEN = NoAccuracy(
    "noisy descent with momentum, of which nothing is proven",
    "use NoisyDescent.textbook, which bounds the excess risk",
)
_CONSTANT = NoAccuracy(
    "the constant model, as noise would hide what features tell at so small a budget",
    "use a larger budget, or fewer features",
)


def _to_clip(value: float | None) -> float | None:
    if value is None:
        return None
    number = float(to_finite("clip", value))
    if not 0.0 < number <= 2.0**20:
        raise InvalidArgument("clip", "a positive number up to 2^20", shown(value))
    return number


@frozen(eq=False)
class _Plan:
    """A descent and how it is paid; a budget of little worth buys the marginal of the label."""

    form: ConvexForm
    clip: float
    bend: float
    spending: Spending
    steps: int

    def time(self, facts: Facts, rows: float) -> float:
        """How long it runs: until the noise would undo what is left to gain."""
        noise = self.spending.noises["gradients"]
        if not isinstance(noise, GaussianNoise):
            expected = "above 0, since Laplace noise of so many gradients hides all they tell"
            raise InvalidArgument("delta", expected, "0")
        most = (2 if facts.replaced else 1) * facts.unit_rows * self.clip
        most *= self.form.spread
        deviation = most / (rows * math.sqrt(2.0 * float(noise.rho) * self.steps))
        constant = _TIME_OF_SQUARES if least_squares(self.form) else _TIME
        return constant / (4.0 * self.bend * deviation)


@written("oracle.heavy-ball", {"clip": Member(OrNone(NUMBER), None)})
@frozen(kw_only=True, repr=False)
class HeavyBall(Oracle):
    """Noisy descent with momentum and public early stopping (Polyak 1964), for wide models.

    From 30 to 300 gradients are measured, all paid before the first, and the second half of the
    path is averaged. Steps follow from the number of rows, the noise and the loss alone: the
    descent ends where noise would undo what is left to gain. Features, coefficients and slopes are
    integers (docs/explanation/proofs/slopes.md), so that neither the joint cells of the attributes
    nor the feature vectors are written out. Nothing is proven of the model. Where the budget is so
    small that the constant model is expected to be better, the label alone is measured, and that
    model is the answer, which the release says. Needs a δ above 0, or a ρ.

    Parameters
    ----------
    clip
        No slope of the loss counts more than this; if left out, none is cut but those of the
        squared loss, at 1.5, where the label goes from -1 to 1.
    """

    clip: float | None = field(default=None, converter=_to_clip)

    def __repr__(self) -> str:
        return f"HeavyBall({'' if self.clip is None else f'clip={self.clip:g}'})"

    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        plan = self._plan(form, terms, total)
        accuracy = _UNPROVEN if "gradients" in plan.spending.parts else _CONSTANT
        return Quote(Cost(), plan.spending.cost, accuracy)

    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        """As of `Oracle`. No solver certifies a gap, which is infinite."""
        plan = self._plan(form, kernel.terms, total)
        paid = Paid(plan.spending, kernel)
        if "gradients" in plan.spending.parts:
            theta = self._descend(plan, paid)
            return Measurement(np.append(theta, math.inf), _UNPROVEN, "measured")
        label = paid.measure("label")
        theta = form.centre()
        if label is not None:
            tables = _Label(np.clip(label.values / divisor(paid.rows), 0.0, None))
            constant = constant_model(form, tables)
            theta = theta if constant is None else constant
        return Measurement(np.append(theta, math.inf), _CONSTANT, "measured")

    def time(self, form: ConvexForm, terms: Terms, total: Total, /) -> float:
        """How long a descent would run for a total, where the number of rows is public.

        It is a length in steps of one over the steepest curvature, and tells by how much noise
        exceeds one row's part of a gradient. Raises as `quote`.
        """
        # However many gradients share it; one is priced quickest.
        plan = self._of(form, terms, total, 1)
        return plan.time(terms.facts, max(terms.facts.rows or 1, 1.0))

    def _of(self, form: ConvexForm, terms: Terms, total: Total, steps: int) -> _Plan:
        smoothed = smooth(form)
        constants = smoothed.constants
        clip = _CLIP if self.clip is None and least_squares(form) else self.clip
        clip = min(constants.lipschitz, math.inf if clip is None else clip) or 1.0
        bend = min(constants.smoothness, _BEND) or _BEND
        part = Part(Fraction(1), steps, smoothed.slopes(form.centre(), clip=clip)[0])
        spending = Spending.within({"gradients": part}, total, terms)
        return _Plan(smoothed, clip, bend, spending, steps)

    def _plan(self, form: ConvexForm, terms: Terms, total: Total) -> _Plan:
        plan, facts = self._of(form, terms, total, _MOST), terms.facts
        time = plan.time(facts, 1.0 if facts.rows is None else max(facts.rows, 1.0))
        if facts.rows is None:
            return plan
        if time < _HOPELESS:
            alone = {"label": Part(Fraction(1), 1, label_form(form))}
            return evolve(plan, spending=Spending.within(alone, total, terms), steps=0)
        steps = int(min(max(round(time * plan.bend / 20.0), _FEWEST), _MOST))
        parts = {"gradients": evolve(plan.spending.parts["gradients"], runs=steps)}
        return evolve(plan, spending=Spending.within(parts, total, terms), steps=steps)

    def _descend(self, plan: _Plan, paid: Paid) -> Floats:
        form, rows = plan.form, divisor(paid.rows)
        time = plan.time(paid.kernel.facts, rows)
        length = min(2.0 / plan.bend, time / plan.steps)
        momentum = min(max(1.0 - length * plan.steps / time, 0.0), _STEADY)
        theta = form.centre()
        speed, average = np.zeros_like(theta), theta.copy()
        for number in range(plan.steps):
            try:
                asked, unit = form.slopes(theta, clip=plan.clip)
            except (DpsdkError, ArithmeticError, ValueError):
                break  # a loss that is not what it was before, for which nothing paid may be lost
            measured = paid.measure("gradients", asked)
            if measured is None:
                break
            speed = momentum * speed - length * measured.values * (unit / rows)
            theta = form.project(theta + speed)
            paid.kernel.progress(number + 1, plan.steps, "gradients")
            kept = number - plan.steps // 2
            if kept >= 0:
                average += (theta - average) / (kept + 1)
        return form.project(average)


@frozen(eq=False)
class _Label:
    """The shares of the labels, as a table."""

    shares: Floats

    def table(self, names: tuple[str, ...]) -> Floats:
        """The shares, whatever the names, which are those of the label."""
        del names
        return self.shares
