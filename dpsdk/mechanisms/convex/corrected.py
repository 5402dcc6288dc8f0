"""`Corrected`: the best model of a noisy distribution, corrected by measured gradients."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from attrs import evolve, field, frozen

from dpsdk._checks import shown, to_integer, to_probability
from dpsdk.accounting import Budget
from dpsdk.errors import DpsdkError, InvalidArgument
from dpsdk.forms import ConvexForm, Kronecker, LinearForm
from dpsdk.forms.convex import Tables
from dpsdk.hypothesis import Distribution, Given, Pairs
from dpsdk.kernel import Allowance, Kernel, Measure, Noise, Terms
from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms.convex.correction import PredictedExcess, corrected
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.mechanisms.convex.prediction import constant_model, of_gradient, of_start, smooth
from dpsdk.mechanisms.convex.spending import Measured, Part, Spending, measured
from dpsdk.mechanisms.convex.start import Moments, fitted, start_form, within
from dpsdk.release import Accuracy, Cost, Measurement, NoAccuracy, Quote, Source
from dpsdk.typing import Floats, Real

__all__ = ["Corrected", "StartOfModel"]

StartOfModel: TypeAlias = Pairs | Moments | Given
"""What `Corrected` may begin with."""

_SHARE = Fraction(3, 10)
_COUNT_SHARE = Fraction(1, 20)
_MANY = 15
_FEW_ROWS = 1e5
_TOLERANCE = 1e-9

_FITTED = NoAccuracy(
    "the model is the best one of a distribution that was fitted to noisy numbers",
    "measure gradients, as with gradients=1, for a prediction",
)
_GIVEN = NoAccuracy(
    "the model is the best one of a public distribution, and was not compared with the table",
    "measure gradients, as with gradients=1, for a prediction",
)
_LATER = NoAccuracy(
    "what is to be expected follows from what is measured first",
    "read bound(beta).predicted of the release",
)
_AFTER_START = "noise of what the model was fitted to, by the curvature of the fitted distribution"


def _to_start(value: StartOfModel | Distribution | None) -> StartOfModel | None:
    if value is None or isinstance(value, Pairs | Moments | Given):
        return value
    if isinstance(value, Distribution):
        return Given(value)
    raise InvalidArgument("start", "Pairs, Moments, or a distribution", shown(value))


def _to_gradients(value: int | None) -> int | None:
    if value is None:
        return None
    expected = "0, 1 or 2, or None for what suits the model"
    number = to_integer("gradients", value, expected)
    if number not in (0, 1, 2):
        raise InvalidArgument("gradients", expected, shown(number))
    return number


def _to_certify(value: Real | None) -> Fraction | None:
    return None if value is None else to_probability("certify", value)


@frozen
class Corrected(Oracle):
    """The best model of a noisy distribution, corrected by gradients of the table.

    First noisy marginals or moments are measured, and the distribution of most entropy is fitted to
    them (Barak and others 2007; McKenna, Sheldon and Miklau 2019). The model of least average loss
    over it is found for nothing. Then the average gradient of the table at that model is measured:
    what it differs by from the gradient of the distribution, shrunk where noise explains it, is
    added to the loss as a linear term, and the minimum is found anew. With the curvature of the
    table and no noise that is a step of Newton's, and only the noise of the gradient counts, which
    enters the excess risk squared. A gradient is not measured, and what it would have cost goes to
    the marginals or moments, where its noise is predicted to do more than a constant model misses.

    Parameters
    ----------
    start
        `Pairs` (of `dpsdk.hypothesis`) for marginals of up to two attributes among those that the
        model depends on, label included, all of its `width` at once; `Moments` for second moments
        of the features and the label; or a public distribution over the domain, which is free, such
        as `channel.distribution`. Left out, moments for the squared loss in few dimensions, and
        pairs with three tenths of the budget otherwise.
    gradients
        How many are measured, one after the other: 0, 1 or 2. Left out, none for the squared loss
        of a start that is measured, of which the right moments are all that matters; none in more
        than 15 dimensions where the rows times ε are less than 100,000; one otherwise.
    certify
        What part of the whole goes to a certificate: then the release has a proven bound of its
        excess, at any confidence. Strictly between 0 and 1.

    >>> from dpsdk.hypothesis import Pairs
    >>> from dpsdk.mechanisms import Corrected, PrivateMinimizer
    >>> oracle = Corrected(start=Pairs(share="0.3"), gradients=1)
    >>> PrivateMinimizer(epsilon=1, delta="1e-9", oracle=oracle).oracle.gradients
    1
    """

    start: StartOfModel | None = field(default=None, converter=_to_start)
    gradients: int | None = field(default=None, converter=_to_gradients, kw_only=True)
    certify: Fraction | None = field(default=None, converter=_to_certify, kw_only=True)

    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        plan = _Plan.of(self, form, terms, total)
        return Quote(Cost(), plan.spending.cost, plan.expected(terms))

    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        plan = _Plan.of(self, form, kernel.terms, total)
        return _Work(plan, kernel, plan.spending.paid(kernel)).done()


@frozen(eq=False)
class _Plan:
    """All that is decided beforehand."""

    form: ConvexForm
    smooth: ConvexForm
    """The same with a loss whose gradients are measured."""
    start: StartOfModel
    measures: LinearForm | None
    """What the start measures."""
    gradients: int
    spending: Spending
    names: tuple[str, ...]
    """What each part of the spending is for."""

    @classmethod
    def of(cls, oracle: Corrected, form: ConvexForm, terms: Terms, total: Total) -> _Plan:
        facts = terms.facts
        start = _chosen_start(form) if oracle.start is None else oracle.start
        if isinstance(start, Given) and start.distribution.domain != facts.domain:
            expected = "a distribution over the domain of the table"
            raise InvalidArgument("start", expected, "one over another domain")
        count = oracle.gradients
        if count is None:
            count = _chosen_gradients(form, start, facts.rows, total)
        smoothed = smooth(form)
        gradient = smoothed.gradient(form.over.centre(form.dimension)) if count else None
        measures = None if isinstance(start, Given) else start_form(start, form)
        parts: dict[str, Part] = {}
        if measures is not None and not isinstance(start, Given):
            parts["start"] = Part(start.share if count else Fraction(1), 1, measures)
        if gradient is not None:
            share = 1 - parts["start"].share if parts else Fraction(1)
            parts["gradients"] = Part(share, count, gradient)
        if parts and facts.rows is None:
            kept = 1 - _COUNT_SHARE
            parts = {name: evolve(part, share=part.share * kept) for name, part in parts.items()}
            rows = LinearForm(form.domain, [Kronecker((), ())])
            parts = {"rows": Part(_COUNT_SHARE, 1, rows), **parts}
        spending = Spending.within(list(parts.values()), total, terms)
        return cls(form, smoothed, start, measures, count, spending, tuple(parts))

    def noise(self, name: str) -> Noise:
        """The noise of one of its parts."""
        return self.spending.noises[self.names.index(name)]

    def expected(self, terms: Terms) -> Accuracy:
        """What is known of the excess before anything is measured."""
        if not isinstance(self.start, Given):
            return _LATER
        if not self.gradients:
            return _GIVEN
        rows = terms.facts.rows
        if rows is None:
            return _LATER
        tables = within(self.start.distribution, terms.facts)
        theta, _ = self.form.minimise(tables, tolerance=_TOLERANCE)
        deviation = _deviation(self.smooth.gradient(theta), self.noise("gradients"), terms)
        predicted = of_gradient(self.smooth, tables, theta, deviation / max(rows, 1))
        return PredictedExcess(predicted)


def _chosen_start(form: ConvexForm) -> StartOfModel:
    if type(form.loss) is SquaredLoss and form.dimension <= _MANY:
        return Moments(_SHARE)
    return Pairs(_SHARE)


def _chosen_gradients(form: ConvexForm, start: StartOfModel, rows: int | None, total: Total) -> int:
    if isinstance(start, Given):
        return 1
    if type(form.loss) is SquaredLoss:
        return 0
    many = form.dimension > _MANY
    # An (ε, δ) of a small δ has a ρ of about ε² / 80.
    epsilon = total.epsilon if isinstance(total, Budget) else math.sqrt(80.0 * total)
    return 0 if many and (rows is None or rows * float(epsilon) < _FEW_ROWS) else 1


def _deviation(form: LinearForm, noise: Noise, terms: Terms) -> float:
    """The standard deviation of noise on a form, in rows."""
    try:
        pricing = Measure(form, noise).price(terms)
    except InvalidArgument:
        return math.inf
    return pricing.law.standard_deviation() * 2.0**-pricing.bits


@frozen(eq=False)
class _Work:
    """One model being found, once all was paid."""

    plan: _Plan
    kernel: Kernel
    allowance: Allowance | None

    def done(self) -> Measurement:
        """The model, and what is expected of it."""
        plan = self.plan
        rows = self._rows()
        batches: list[Measured] = []
        if plan.measures is not None:
            self._measure(plan.measures, plan.noise("start"), batches)
        tables = self._tables(batches, rows)
        theta, gap = self._least(tables)
        source: Source = "hypothesis" if plan.measures is None else "fitted"
        predicted = self._predicted(batches, tables, theta, rows)
        spare = self._spare(tables, theta)
        for _ in range(plan.gradients):
            noise = plan.noise("gradients")
            form = plan.smooth.gradient(theta)
            deviation = _deviation(form, noise, self.kernel.terms) / rows
            harm = of_gradient(plan.smooth, tables, theta, deviation)
            if batches and plan.measures is not None and not harm <= spare:
                # A constant model misses less than the noise of a gradient would do.
                self._measure(plan.measures, noise, batches)
                tables = self._tables(batches, rows)
                theta, gap = self._least(tables)
                predicted = self._predicted(batches, tables, theta, rows)
                spare = self._spare(tables, theta)
                continue
            found = measured(form, noise, self.kernel, self.allowance)
            if found is None:
                break
            step = corrected(
                plan.smooth, tables, theta, found.values / rows, found.deviation / rows
            )
            theta, gap, predicted, source = step.theta, step.gap, step.predicted, "measured"
        accuracy: Accuracy = _FITTED if batches else _GIVEN
        if predicted is not None:
            kind = _AFTER_START if source == "fitted" else "noise of the gradient"
            constant = constant_model(plan.form, tables)
            if predicted > spare and constant is not None:
                theta = constant
            accuracy = PredictedExcess(predicted, kind)
        return Measurement(np.append(theta, gap), accuracy, source)

    def _measure(self, form: LinearForm, noise: Noise, batches: list[Measured]) -> None:
        found = measured(form, noise, self.kernel, self.allowance)
        if found is not None:
            batches.append(found)

    def _rows(self) -> float:
        """How many rows the average loss is of: all, or those inside where that is private."""
        rows, plan = self.kernel.facts.rows, self.plan
        if rows is not None:
            return float(max(rows, 1))
        if "rows" not in plan.names:
            return 1.0
        place = plan.names.index("rows")
        form, noise = plan.spending.parts[place].form, plan.spending.noises[place]
        found = measured(form, noise, self.kernel, self.allowance)
        return 1.0 if found is None else max(float(found.values[0]), 1.0)

    def _tables(self, batches: list[Measured], rows: float) -> Tables:
        plan, facts = self.plan, self.kernel.facts
        if isinstance(plan.start, Given):
            return within(plan.start.distribution, facts)
        outside = facts.outside and facts.rows is not None
        return fitted(batches, plan.form, rows, outside=outside, start=plan.start)

    def _least(self, tables: Tables) -> tuple[Floats, float]:
        form = self.plan.form
        try:
            return form.minimise(tables, tolerance=_TOLERANCE)
        except DpsdkError:
            return form.over.centre(form.dimension), math.inf

    def _spare(self, tables: Tables, theta: Floats) -> float:
        """By how much the loss of the best constant model exceeds that of θ on the distribution."""
        form = self.plan.form
        constant = constant_model(form, tables)
        if constant is None:
            return math.inf
        return form.value(tables, constant) - form.value(tables, theta)

    def _predicted(
        self, batches: list[Measured], tables: Tables, theta: Floats, rows: float
    ) -> float | None:
        start = self.plan.start
        if isinstance(start, Given) or not batches:
            return None
        # Independent measurements of the same numbers, as good as one with this noise.
        deviation = sum([one.deviation**-2 for one in batches if one.deviation]) ** -0.5
        return of_start(start, self.plan.smooth, tables, theta, deviation / rows)
