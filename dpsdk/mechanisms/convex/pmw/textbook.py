"""Figure 3 of Ullman (2015), as a mechanism: a stream of models with a promise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from typing_extensions import override

from dpsdk._checks import require, to_amount, to_beta, to_count, to_delta
from dpsdk._records import evolve, field, frozen
from dpsdk.accuracy import NoAccuracy, ScalarAccuracy, Standing
from dpsdk.codec import AMOUNT, FLOAT, INTEGER, MEASURED, NUMBER, Nested, written
from dpsdk.errors import (
    BudgetExceeded,
    PublicSizeRequired,
    QueryError,
    UnsupportedGuarantee,
)
from dpsdk.forms import ConvexForm, ConvexForms, LinearForm, Lowers, ProximalGapForm
from dpsdk.forms.design import longest
from dpsdk.hypothesis import Hypothesis, Start, Uniform
from dpsdk.hypothesis.start import StartLike, opened, share_of, to_start
from dpsdk.hypothesis.streams import Seed
from dpsdk.kernel import Kernel, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    WHEN_SPENT,
    WhenSpent,
    check_linear,
    check_when_spent,
    to_epsilon,
)
from dpsdk.mechanisms.base import Answerable, ModelsMechanism, built_in
from dpsdk.mechanisms.convex.descent import NoisyDescent, check_gradient, descend, noise_within
from dpsdk.mechanisms.convex.descent_bounds import Problem
from dpsdk.mechanisms.convex.pmw.strategy import (
    ModelStream,
    check_model,
    measured_gradient,
    tilt_along,
)
from dpsdk.mechanisms.convex.pmw.theorem import (
    Figure,
    Promise,
    figure,
    least_alpha,
    least_rows,
    printed_rows,
)
from dpsdk.mechanisms.convex.several import join_quotes
from dpsdk.mechanisms.convex.sketch import Sketch, SketchedProblem
from dpsdk.mechanisms.theorems import not_promised, to_target
from dpsdk.release import Accuracy, Cost, Measurement, Quote
from dpsdk.typing import Floats

__all__ = ["PromisedExcess", "TextbookConvexPMW", "to_alpha"]

_SLACK = 1 + 2.0**-20
"""The excess of the kernel's sensitivity of rounded gradients over that of the constants."""

_CONSTANTS = ("dimension", "lipschitz", "smoothness", "radius", "farthest")
_SKETCHED = ("vectors", "slope", "bend", "norm", "radius")

_UNPROMISED = NoAccuracy(
    "the hypothesis answered after the promise ended: the budget or its queries are used up, or a "
    "solver, a constant of the loss or an update was not what it counts on",
    "open a channel for more queries",
)

_FAINT = 1e-100
"""A ridge that is fainter is none, and floats may not divide by it."""


def _start(value: StartLike | None) -> Start:
    start = to_start(value)
    return Uniform() if start is None else start


def to_alpha(value: float) -> float:
    """Read an `alpha=` in the unit of a loss."""
    number = float(to_amount("alpha", value))
    require(0.0 < number < math.inf, "alpha", "a positive number", value)
    return number


def check_smooth(form: ConvexForm) -> None:
    """Refuse a loss with a kink where an excess is promised."""
    if form.loss.kinked:
        reason = "its loss has a kink, where a subgradient may say nothing of the table"
        raise QueryError("", f"{reason}; smooth it, as in SVMLoss(smoothing=0.1)")


def _queries(value: int) -> int:
    return to_count("queries", value)


@written(
    "accuracy.promised-excess",
    {"alpha": MEASURED, "beta": FLOAT, "span": MEASURED},
    public=False,
)
@frozen
class PromisedExcess(ScalarAccuracy):
    """With probability 1 - `beta`, the excess of no model of a channel is more than `alpha`."""

    alpha: float
    beta: float
    span: float = math.inf
    kind: str = field(init=False, default="an excess promised for all models of the channel")
    standing: Standing = field(init=False, default="promised")

    def error(self, beta: float) -> float:
        """In the unit of the loss; infinite at a beta below the promise's own."""
        return self.alpha if beta >= self.beta else math.inf

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound at this beta, and from which on there is one."""
        why = f"{self.kind} says nothing at beta={beta:g}"
        return why, f"ask at a beta of at least {self.beta:g}"


@built_in(
    "textbook-convex-pmw",
    {
        "epsilon": AMOUNT,
        "delta": AMOUNT,
        "alpha": NUMBER,
        "beta": NUMBER,
        "queries": INTEGER,
        "problem": Nested[object]("a problem", Problem, SketchedProblem),
        "oracle": Nested[NoisyDescent]("a descent", NoisyDescent),
        "start": Nested[Start]("a start", Start),
        "when_spent": WHEN_SPENT,
    },
)
@frozen(kw_only=True)
class TextbookConvexPMW(ModelsMechanism):
    """The mechanism of `ConvexPMW.textbook`, where its parameters are explained."""

    page = "explanation/proofs/convex-pmw.md"

    epsilon: Fraction = field(converter=to_epsilon)
    delta: Fraction = field(converter=to_delta)
    alpha: float = field(converter=to_alpha)
    beta: float = field(converter=to_beta)
    queries: int = field(converter=_queries)
    problem: Problem | SketchedProblem
    oracle: NoisyDescent = field(factory=NoisyDescent.textbook)
    start: Start = field(factory=Uniform, converter=_start)
    when_spent: WhenSpent = "hypothesis"

    def __attrs_post_init__(self) -> None:
        require(
            isinstance(self.problem, Problem | SketchedProblem),
            "problem",
            "the constants of all models",
            self.problem,
        )
        expected = "a sketch of more coordinates, which keeps lengths for so many models"
        require(self.distortion < math.inf, "problem", expected, self.problem)
        constants, oracle = self.constants, self.oracle
        ridge = constants.ridge
        expected = "constants of losses and sets that are more than a point"
        more = 0.0 < constants.lipschitz * constants.radius < math.inf
        require(more, "problem", expected, self.problem)
        expected = f"constants with a ridge of 0, or above {_FAINT:g} of what losses fall by"
        faint = 0.0 < ridge * constants.radius < _FAINT * constants.lipschitz
        require(not faint, "problem", expected, self.problem)
        expected = "constants of losses without kinks; smooth them, as in SVMLoss(smoothing=h)"
        require(constants.smoothness < math.inf, "problem", expected, self.problem)
        expected = f"a NoisyDescent.textbook(...) with the ridge of the problem, {ridge:g}"
        fits = type(oracle) is NoisyDescent and oracle.promises and oracle.ridge == ridge
        require(fits, "oracle", expected, oracle)
        expected = '"uniform" or a public distribution where a promise is made'
        require(not share_of(self.start), "start", expected, self.start)
        check_when_spent(self.when_spent)

    @property
    def distortion(self) -> float:
        """The distortion that the sketch of each model may have; 0 without sketches."""
        one = self.problem
        return 0.0 if isinstance(one, Problem) else one.distortion(self.beta / 2 / self.queries)

    @property
    def constants(self) -> Problem:
        """The constants of the models as they are watched, on sketches where these are drawn."""
        one = self.problem
        return one if isinstance(one, Problem) else one.problem(self.distortion)

    @property
    def lost(self) -> float:
        """The part of `alpha` for sketches."""
        return 0.0 if isinstance(self.problem, Problem) else self.problem.lost(self.distortion)

    @override
    def alpha_for(
        self,
        terms: Terms,
        query: Lowers[Answerable] | None = None,
        *,
        beta: float | None = None,
    ) -> float | None:
        """The least error that Figure 3 keeps over such a table; None if none is below S."""
        asked = self._asked(terms, query, beta)
        least = least_alpha(asked._promise(terms), terms)
        return None if least is None else least + asked.lost

    @override
    def rows_for(
        self,
        terms: Terms,
        query: Lowers[Answerable] | None = None,
        *,
        alpha: float | None = None,
        beta: float | None = None,
    ) -> int | None:
        """The least number of public rows at which `alpha` is kept; None below 2^50."""
        asked = self._asked(terms, query, beta)
        wanted = self.alpha if alpha is None else to_target(alpha)
        return least_rows(wanted - asked.lost, asked._promise(terms), terms)

    def _asked(
        self, terms: Terms, query: Lowers[Answerable] | None, beta: float | None
    ) -> TextbookConvexPMW:
        """The same at another beta, after a model was seen to be of its family."""
        form = None if query is None else query.lower(facts_of(terms).domain)
        parts = form.parts if isinstance(form, ConvexForms) else (form,)
        for part in parts:
            if isinstance(part, ConvexForm):
                self.check(part)
        return self if beta is None else evolve(self, beta=beta)

    def printed_rows(self, terms: Terms) -> float:
        """The rows that Theorem 3.8 asks for by its own constants, with factors lost in print."""
        alpha = self.alpha - self.lost
        return printed_rows(alpha, self._promise(terms)) if alpha > 0.0 else math.inf

    def figure(self, terms: Terms) -> Figure:
        """How a channel would spend and decide. Public.

        Raises `PublicSizeRequired` if the number of rows is private, and `InvalidArgument` if the
        promise cannot be kept; the message says what can be promised.
        """
        facts = facts_of(terms)
        if facts.rows is None:
            raise PublicSizeRequired(repr(self), "it needs a public number of rows")
        asked = self._promise(terms)
        found = figure(self.alpha - self.lost, asked, terms)
        if found is None:
            raise not_promised(self.alpha, self.alpha_for(terms))
        return found

    def quote(self, form: Answerable, terms: Terms, /) -> Quote:
        if isinstance(form, ConvexForms):
            return join_quotes([self.quote(part, terms) for part in form.parts])
        plan = self.figure(terms)
        if not isinstance(form, ConvexForm):
            check_linear(form, "ConvexPMW")
            return Quote(Cost(), Cost(), NoAccuracy("the hypothesis is not known beforehand"))
        self.check(form)
        form, _ = self.sketched(form, 0)
        check_gradient(form, plan.runs, terms)
        round_ = (plan.watching.guarantee, 1), (plan.noise.cover, 1)
        cost = Cost((*round_, *plan.runs.cost.runs))
        return Quote(Cost(), cost, PromisedExcess(self.alpha, self.beta))

    def open(self, kernel: Kernel, /) -> Textbook:
        plan = self.figure(kernel.terms)
        self.start.check(kernel.facts)
        return Textbook(kernel, self, plan, opened(self.start, kernel))

    def check(self, form: ConvexForm) -> None:
        """Refuse a model that is not of the family.

        Raises `QueryError` if its loss has a kink, or one of its constants is larger.
        """
        check_smooth(form)
        given, names = self.problem, _CONSTANTS
        own: Problem | SketchedProblem = Problem.of(form)
        if isinstance(given, SketchedProblem):
            own, names = SketchedProblem.of(form, given.size), _SKETCHED
        for name in names:
            most, found = getattr(given, name), getattr(own, name)
            if found > most * (1 + 1e-9):
                reason = f"its {name} is {found:g}, and the promise was made for at most {most:g}"
                raise QueryError("", reason)

    def sketched(self, form: ConvexForm, seed: Seed) -> tuple[ConvexForm, Floats | None]:
        """The model that is asked about, and the Φ of its sketch; itself, where there is none."""
        given = self.problem
        if isinstance(given, Problem):
            return form, None
        sketch = Sketch.textbook(beta=self.beta / self.queries, size=given.size)
        return sketch.sketched(form, seed)

    def _promise(self, terms: Terms) -> Promise:
        potential = self.start.kl_cap(facts_of(terms))
        beta = self.beta / 2 if isinstance(self.problem, SketchedProblem) else self.beta
        return Promise(
            self.epsilon, self.delta, beta, self.queries, self.constants, self.oracle, potential
        )

    def __repr__(self) -> str:
        return (
            f"ConvexPMW.textbook(epsilon={float(self.epsilon):g}, delta={float(self.delta):g}, "
            f"alpha={self.alpha:g}, beta={self.beta:g}, queries={self.queries})"
        )


class Textbook(ModelStream):
    """Figure 3 at work: the gap of each model is watched, and a top is answered by A′."""

    def __init__(
        self, kernel: Kernel, mechanism: TextbookConvexPMW, plan: Figure, hypothesis: Hypothesis
    ) -> None:
        super().__init__(kernel, plan.watching, hypothesis)
        self._mechanism = mechanism
        self._constants = mechanism.constants
        self._longest = math.inf
        if isinstance(mechanism.problem, SketchedProblem):
            self._longest = mechanism.problem.longest(mechanism.distortion) * (1 + 1e-9)
        self._plan = plan
        self._asked = self._learnt = self._drawn = 0

    def _check(self, form: ConvexForm, kernel: Kernel) -> None:
        self._mechanism.check(form)
        check_gradient(form, self._plan.runs, kernel.terms)

    def _model(self, form: ConvexForm, kernel: Kernel) -> Measurement:
        mechanism = self._mechanism
        mechanism.check(form)
        # Each sketch may fail, those of models that are refused as well.
        self._drawn += isinstance(mechanism.problem, SketchedProblem)
        sketched, matrix = mechanism.sketched(form, kernel.randomness)
        if longest(sketched.coordinates) > self._longest:
            reason = "its sketch lengthened a feature vector by more than the promise counts on"
            raise QueryError("", f"{reason}; ask again, since another one is drawn then")
        found = self._watched(sketched, kernel)
        if matrix is None:
            return found
        # A θ of the sketch has these coefficients of the features.
        values = np.append(matrix.T @ found.values[:-1], found.values[-1])
        return Measurement(values, found.accuracy, found.source)

    def _watched(self, form: ConvexForm, kernel: Kernel) -> Measurement:
        plan, mechanism = self._plan, self._mechanism
        check_model(form, kernel, plan.noise)
        ridge = self._constants.ridge
        theta, gap = form.minimise(self._hypothesis, ridge=ridge, tolerance=plan.solver / 2)
        gradient = form.gradient(theta)
        shift = ridge * theta if ridge else None
        asked = ProximalGapForm(gradient, theta, form.over, ridge, shift)
        self._hypothesis.check(gradient)
        self._check_gap(asked)
        check_gradient(form, plan.runs, kernel.terms)
        # The certificate is that of the very gradient that moves the hypothesis.
        mean = self._hypothesis.answers(gradient) + ridge * theta
        own = form.over.gap(theta, mean, ridge=ridge)
        self._asked += 1
        found = np.append(theta, gap)
        number = max(self._asked, self._drawn)
        if own > plan.solver or number > mechanism.queries or self._spent:
            return Measurement(found, _UNPROMISED, "hypothesis")
        span = form.constants.range + self._constants.of_ridge
        promised: Accuracy = PromisedExcess(mechanism.alpha, mechanism.beta, span)
        if self._watch.tops >= plan.updates:
            # A top that was interrupted taught nothing, so that there may be more to learn.
            learnt = self._learnt >= plan.updates
            return Measurement(found, promised if learnt else _UNPROMISED, "hypothesis")
        rows = float(max(self._facts.rows or 1, 1))
        try:
            if self._watch.first_above(asked, plan.threshold * rows, kernel=kernel) is None:
                return Measurement(found, promised, "hypothesis")
            measured, noise = measured_gradient(gradient, plan.noise, kernel)
            self._learn(form, gradient, theta, measured / rows)
            if noise_within(
                noise, 1 / rows, plan.concentration, plan.bias, self._constants.dimension
            ):
                self._learnt += 1
            answer, known = descend(form, plan.descent, plan.runs, kernel, promised)
        except (BudgetExceeded, UnsupportedGuarantee):
            if mechanism.when_spent == "raise":
                raise
            self._spent = True
            return Measurement(found, _UNPROMISED, "hypothesis")
        # The descent says whether it ran as its bound counts on.
        known = promised if known is promised else _UNPROMISED
        return Measurement(np.append(answer, 0.0), known, "measured")

    def _check_gap(self, asked: ProximalGapForm) -> None:
        """Refuse a gap that is rounded more coarsely than the promise counts on."""
        plan, facts = self._plan, self._facts
        watching, rows = plan.watching, max(facts.rows or 1, 1)
        unit = watching.unit(facts, asked)
        more = watching.rounding(facts, asked) - watching.rounding(facts)
        if unit > plan.unit * _SLACK or more * unit / rows > plan.solver / 2:
            reason = "its gap cannot be rounded as finely as the promise counts on"
            raise QueryError("", f"{reason}; use fewer rows, or features of fewer digits")

    def _learn(
        self, form: ConvexForm, gradient: LinearForm, theta: Floats, measured: Floats
    ) -> None:
        """Mass leaves the records with a large u: the sign is the other one in print."""
        ridge, over = self._constants.ridge, form.over
        least = over.project(-measured / ridge) if ridge else over.linear_minimiser(measured)
        way = least - theta
        tilt = tilt_along(gradient, way)
        if tilt is not None:
            self._hypothesis.shift(tilt.form, -self._plan.step * tilt.scale)
