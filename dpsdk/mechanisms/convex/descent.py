"""`NoisyDescent`: projected gradient descent, each gradient measured at a public θ."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpsdk._checks import shown, to_beta, to_integer
from dpsdk._records import field, frozen
from dpsdk.codec import NUMBER, Member, OrNone, written
from dpsdk.errors import (
    DpsdkError,
    InvalidArgument,
    PublicSizeRequired,
    QueryError,
)
from dpsdk.forms import ConvexForm, Dense, Facts, Kronecker, LinearForm
from dpsdk.kernel import GaussianNoise, Kernel, Measure, Terms
from dpsdk.mechanisms.arguments import COUNT
from dpsdk.mechanisms.convex.descent_bounds import (
    Descent,
    DescentAccuracy,
    Problem,
    Rule,
    Runs,
    best_rule,
    runs_within,
    to_ridge,
)
from dpsdk.mechanisms.convex.noise import Concentration, scale_of
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.release import Accuracy, Cost, Measurement, NoAccuracy, NoiseAccuracy, Quote
from dpsdk.typing import Floats

__all__ = [
    "NoisyDescent",
    "check_gradient",
    "descend",
    "optional_beta",
    "scale_gradient",
    "scaled_gradient",
    "noise_within",
]

STEP_LIMIT = 2**14
"""No descent has more steps: each is a run that is paid and kept in the books."""

_TEXTBOOK = 512
_FEWEST, _MOST = 10, 100
_UNCOUNTED = 50

_ENOUGH = 1.05
"""More steps that would lower a bound by less than this are not taken."""

_UNPROMISED = NoAccuracy(
    "noisy gradient descent with practical steps, of which nothing is proven",
    "use NoisyDescent.textbook, which bounds the excess risk",
)
_CUT_SHORT = NoAccuracy(
    "a descent that ended early, where the loss had no finite gradient",
    "check the loss on all margins that its set allows",
)
_WIDER = NoAccuracy(
    "a descent whose noise was wider than the constants of the loss allow",
    "check what the loss declares of itself",
)


def _steps(value: int | None) -> int | None:
    expected = f"a number of steps from 1 to {STEP_LIMIT:,}"
    steps = None if value is None else to_integer("steps", value, expected)
    if steps is not None and not 1 <= steps <= STEP_LIMIT:
        raise InvalidArgument("steps", expected, shown(value))
    return steps


def optional_beta(value: float | None) -> float | None:
    """Read a beta, where one is given."""
    return None if value is None else to_beta(value)


PRIVATE_BETA = Member(OrNone(NUMBER), None, of="_beta", key="_beta")


@written(
    "oracle.noisy-descent",
    {"steps": COUNT, "ridge": Member(NUMBER, 0.0), "beta": PRIVATE_BETA},
)
@frozen(kw_only=True)
class NoisyDescent(Oracle):
    """Noisy projected gradient descent (Bassily, Smith and Thakurta 2014).

    Every gradient is measured, with the exact sensitivity that it has at its public θ; all are paid
    before the first. For few features and simple losses; `Corrected` is mostly closer, since a
    descent of a few dozen steps does not reach the minimum of an ill-conditioned loss at any
    budget. `textbook` comes with a bound of the excess risk; as made here, nothing is proven.

    Parameters
    ----------
    steps
        How many gradients are measured. If left out, as many as noise allows, from 10 to 100.
    ridge
        λ of ½λ‖θ‖², added to the average loss and not scaled by the rows; 0 by default.

    >>> from dpsdk.mechanisms import NoisyDescent
    >>> NoisyDescent(steps=40)
    NoisyDescent(steps=40)
    """

    steps: int | None = field(default=None, converter=_steps)
    ridge: float = field(default=0.0, converter=to_ridge)
    _beta: float | None = field(default=None, converter=optional_beta, alias="_beta")

    @classmethod
    def textbook(
        cls, *, beta: float = 0.05, ridge: float = 0.0, steps: int = _TEXTBOOK
    ) -> NoisyDescent:
        """The descent of theorems 4.1 and 4.5 of Ullman (2015), with a bound of the excess risk.

        Without a ridge it is that for convex losses, from the centre of the set; for smooth losses
        by the bound for these where it is the lower. With a ridge also that for strongly convex
        ones, with steps of 4 / (λ(s+1)). The number and the length of steps are those for which the
        bound is lowest, up to `steps` of them. It holds with high probability, at any confidence
        (docs/explanation/proofs/descent.md), and not in expectation as the bounds of Bassily, Smith
        and Thakurta (2014). `quote` tells it beforehand; it is often vacuous, and says so. Raises
        `PublicSizeRequired` when it is asked, if the number of rows is private.

        Parameters
        ----------
        beta
            The probability of failure for which steps are chosen, strictly between 0 and 1.
        ridge
            As for the class. The bound of a release is of the loss without it.
        steps
            At most so many gradients are measured.
        """
        return cls(steps=steps, ridge=ridge, _beta=beta)

    @property
    def promises(self) -> bool:
        """True if its answers have a bound, as those of `textbook` have."""
        return self._beta is not None

    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        runs, descent = self._plan(form, terms, total)
        check_gradient(form, runs, terms)
        return Quote(Cost(), runs.cost, self._accuracy(descent))

    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        """As of `Oracle`. No solver runs and certifies a gap, which is infinite."""
        runs, descent = self._plan(form, kernel.terms, total)
        theta, accuracy = descend(
            form,
            descent or (lambda rows: self._practical(form, runs, kernel.facts, rows, 1)),
            runs,
            kernel,
            self._accuracy(descent),
            late=not self.promises,
        )
        return Measurement(np.append(theta, math.inf), accuracy)

    def alpha0(
        self, problem: Problem | ConvexForm, terms: Terms, total: Total, beta: float, /
    ) -> float:
        """α₀: with probability 1 - beta, the loss with its ridge is within so much of its least.

        Public, and free: what `textbook` promises of any query with such constants, or with those
        of a query and the ridge of the oracle. The number of rows must be public.
        """
        known = Problem.of(problem, self.ridge) if isinstance(problem, ConvexForm) else problem
        _, descent = _planned(known, terms, total, self.steps or _TEXTBOOK, to_beta(beta))
        return descent.error(beta)

    def planned(self, problem: Problem, terms: Terms, total: Total, /) -> tuple[Runs, Descent]:
        """The price and steps of `textbook` for a query with such constants."""
        return _planned(problem, terms, total, self.steps or _TEXTBOOK, self._beta or 0.05)

    def _accuracy(self, descent: Descent | None) -> Accuracy:
        return DescentAccuracy(descent) if self.promises and descent is not None else _UNPROMISED

    def _plan(self, form: ConvexForm, terms: Terms, total: Total) -> tuple[Runs, Descent | None]:
        """The price and the steps; those of a table of unknown size come later."""
        if not isinstance(form, ConvexForm):
            reason = "asks for no model; NoisyDescent answers ConvexMinimization only"
            raise QueryError("", reason)
        facts, steps = terms.facts, self.steps
        if self.promises:
            return self.planned(Problem.of(form, self.ridge), terms, total)
        if facts.rows is None:
            return runs_within(terms, total, 1 + (steps or _UNCOUNTED)), None
        if steps is None:
            runs = runs_within(terms, total, _MOST)
            steps = _practical_steps(form, runs, facts.rows / facts.unit_rows)
        runs = runs_within(terms, total, steps)
        return runs, self._practical(form, runs, facts, facts.rows)

    def _practical(
        self, form: ConvexForm, runs: Runs, facts: Facts, rows: float, others: int = 0
    ) -> Descent:
        """The steps of all runs but those of other things."""
        problem = Problem.of(form, self.ridge)
        concentration, bias = runs.concentration(problem, facts, rows)
        rule: Rule = "smooth" if problem.smoothness < math.inf else "lipschitz"
        return Descent(problem, rule, runs.count - others, concentration, bias, 0.5)

    def __repr__(self) -> str:
        given = [] if self.steps is None else [f"steps={self.steps}"]
        given += [f"ridge={self.ridge:g}"] if self.ridge else []
        if self._beta is None:
            return f"NoisyDescent({', '.join(given)})"
        return f"NoisyDescent.textbook({', '.join([f'beta={self._beta:g}', *given])})"


def _planned(
    problem: Problem, terms: Terms, total: Total, limit: int, beta: float
) -> tuple[Runs, Descent]:
    """The number of steps with about the least bound."""
    facts = terms.facts
    if facts.rows is None:
        reason = "its bound is of an average over the rows, whose number is private here"
        raise PublicSizeRequired("NoisyDescent.textbook", reason)
    rows = facts.rows
    most = runs_within(terms, total, limit)
    tried: list[tuple[float, int]] = []
    for steps in sorted({*[2**power for power in range(limit.bit_length())], limit}):
        concentration, bias = most.shared(steps).concentration(problem, facts, rows)
        tried.append((best_rule(problem, steps, concentration, bias, beta).error(beta), steps))
    least = min(tried)[0]
    steps = next(steps for error, steps in tried if error <= _ENOUGH * least)
    runs = most if steps == limit else runs_within(terms, total, steps)
    return runs, best_rule(problem, steps, *runs.concentration(problem, facts, rows), beta)


def _practical_steps(form: ConvexForm, runs: Runs, people: float) -> int:
    """About where noise weighs as much as the way that is left."""
    noise = runs.noise
    wanted = (
        float(noise.rho) * runs.count * people**2 / (2 * form.dimension)
        if isinstance(noise, GaussianNoise)
        else float(noise.epsilon) * runs.count * people / (3 * form.dimension)
    )
    return int(min(max(wanted, _FEWEST), _MOST))


def check_gradient(form: ConvexForm, runs: Runs, terms: Terms) -> None:
    """Refuse what would be refused at a gradient, before anything is paid."""
    if scaled := scaled_gradient(form, form.over.centre(form.dimension)):
        Measure(scaled[0], runs.noise).price(terms)
    if terms.facts.rows is None:
        Measure(_count(form), runs.noise).price(terms)


def _count(form: ConvexForm) -> LinearForm:
    return LinearForm(form.domain, (Kronecker((), ()),))


def scale_gradient(form: LinearForm) -> tuple[LinearForm, float] | None:
    """The form with its largest weight from ½ to 1, and what it was divided by; None for zeros."""
    most = max(float(np.abs(limit)) for limit in form.limits)
    if not most:
        return None
    unit = 2.0 ** math.ceil(math.log2(most))
    blocks = [
        Dense(one.names, one.shape, one.weights / unit) if isinstance(one, Dense) else one
        for one in form.blocks
    ]
    if any(one is other for one, other in zip(blocks, form.blocks, strict=True)):
        return form, 1.0
    return LinearForm(form.domain, blocks), unit


def scaled_gradient(form: ConvexForm, theta: Floats) -> tuple[LinearForm, float] | None:
    """The gradient of the summed loss at θ, and the unit of its numbers; None for zeros."""
    return form.slopes(theta) if form.wide else scale_gradient(form.gradient(theta))


def descend(
    form: ConvexForm,
    descent: Descent | Callable[[float], Descent],
    runs: Runs,
    kernel: Kernel,
    accuracy: Accuracy,
    *,
    late: bool = False,
) -> tuple[Floats, Accuracy]:
    """The average of the points of a descent that is paid here, and what is known of it.

    That is `accuracy`, if all goes as planned. With `late`, later points weigh more, of which
    nothing is proven. Where rows are to be counted first, the descent follows from their number.
    """
    terms = kernel.terms
    check_gradient(form, runs, terms)
    allowance = kernel.allowance(runs.cost.guarantees)
    rows = float(max(terms.facts.rows or 0, 1))
    if not isinstance(descent, Descent):
        counted = kernel.measure(_count(form), runs.noise, allowance=allowance)
        rows = max(float(counted.values[0]), 1.0)
        descent = descent(rows)
    over, problem = form.over, descent.problem
    theta = over.centre(form.dimension)
    average, weight = theta.copy(), 0.0
    after = late or descent.rule == "smooth"
    growing = late or descent.rule == "strong"
    for number in range(1, descent.steps + 1):
        noisy = np.zeros(form.dimension)
        try:
            scaled = scaled_gradient(form, theta)
        except (DpsdkError, ArithmeticError, ValueError):
            # The loss has no finite gradient, and nothing that was paid for is to be lost by it.
            accuracy = _CUT_SHORT
            break
        if scaled is not None:
            measured = kernel.measure(scaled[0], runs.noise, allowance=allowance)
            unit = scaled[1] / rows
            noisy = measured.values * unit
            within = noise_within(
                measured.accuracy, unit, descent.concentration, descent.bias, problem.dimension
            )
            accuracy = accuracy if within or late else _WIDER
        kernel.progress(number, descent.steps, "gradients")
        before = theta
        theta = over.project(theta - descent.length(number) * (noisy + problem.ridge * theta))
        one = float(number) if growing else 1.0
        weight += one
        average += (one / weight) * ((theta if after else before) - average)
    return over.project(average), accuracy


def noise_within(
    accuracy: NoiseAccuracy, unit: float, concentration: Concentration, bias: float, dimension: int
) -> bool:
    """True if noise and rounding of a gradient in such units are what a bound counts on."""
    far = accuracy.bias * unit * math.sqrt(dimension)
    return scale_of(accuracy.law) * accuracy.step * unit <= concentration.scale and far <= bias
