"""`Corrected`: the best model of a noisy distribution, corrected by measured gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from dpsdk._checks import shown, to_integer
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting import Budget
from dpsdk.codec import Member, Nested, OrNone, written
from dpsdk.errors import DpsdkError, InvalidArgument, QueryError
from dpsdk.forms import ConvexForm, Facts
from dpsdk.forms.convex import Tables
from dpsdk.hypothesis import Distribution, Given, Pairs
from dpsdk.kernel import Kernel, Measure, Terms
from dpsdk.mechanisms.arguments import COUNT, MAYBE
from dpsdk.mechanisms.convex.correction import (
    Moments,
    asked_gradient,
    cap_excess,
    constant_model,
    correct,
    fit_start,
    label_form,
    predicted_excess,
    public_shares,
    remaining_excess,
    smooth,
    start_form,
    start_harm,
)
from dpsdk.mechanisms.convex.moments import least_squares
from dpsdk.mechanisms.convex.oracle import (
    Measured,
    Oracle,
    Paid,
    Part,
    Spending,
    Total,
    certificate_parts,
    coefficients_of,
    divisor,
    to_certify,
)
from dpsdk.release import Accuracy, Cost, Measurement, NoAccuracy, Quote, Source
from dpsdk.typing import Floats

__all__ = ["Corrected", "StartOfModel"]

StartOfModel: TypeAlias = Pairs | Moments | Given
"""The starts that `Corrected` may have."""

_SHARE = Fraction(3, 10)
_PURE_SHARE, _FIRM_SHARE = Fraction(9, 20), Fraction(1, 5)
_LEAST_SHARE = Fraction(1, 10)
"""Of a start. Noise of pure runs goes with the share itself, and not with its root."""

_PAIR = 2

_MANY = 15
"""Dimensions above which pairs are more accurate than moments for all losses."""

_WRITTEN = 2**22
"""The most weights of moments that are fitted where each is of all attributes."""

_TINY, _EVEN = 2e3, 5e3
"""Rows times ε, over the rows of a person: less than the first leave little to learn, more than the
second a good start."""

_FIRM = 2e4
"""Of pure budgets that are as large, a fifth buys a start, and gradients are measured twice."""

_EARLY = Fraction(1, 5)
"""Of what gradients cost together, for the first of two."""

_LABEL = Fraction(1, 10)
"""Of the whole, for the marginal of the label where there is little to learn."""

_HOPELESS = 5.0
"""A constant model is returned where noise is expected to do so many times what features do."""

_TOLERANCE = 1e-9
_COARSE = 1e-6
"""Of losses with kinks, whose certificates get no nearer by a few steps."""

_LEAST_DEVIATION = 1e-9

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
_AFTER_BOTH = "noise of the gradient, and of what the model was fitted to before it"
_OF_GRADIENT = "noise of the gradient, by the curvature of the distribution"
_CONSTANT = "the constant model, as noise would hide what features tell at so small a budget"
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


@written(
    "oracle.corrected",
    {
        "start": Member(OrNone(Nested[object]("a start of a model", Pairs, Moments, Given)), None),
        "gradients": COUNT,
        "certify": MAYBE,
    },
)
@frozen(repr=False)
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
        pairs otherwise, with 0.45 of a pure ε, a fifth of one that is large, or else three tenths
        of the budget and down to one tenth the more rows there are. Where rows times ε, over the
        rows that a person may have, are less than 2,000, pairs are preceded by the marginal of the
        label, with a tenth; and where noise would hide all else, that marginal alone is measured,
        and the constant model is found that is best for it.
    gradients
        How many are measured, one after the other: 0, 1 or 2. Left out, none for the squared loss
        of a start that is measured, of which the right moments are all that matters, and none after
        moments where that figure is less than 2,000; one otherwise, and of a pure ε two where the
        figure is 20,000 or more, the second with four fifths of what is left. With δ = 0 a gradient
        of at most 24 numbers has `EuclideanNoise`, where that does less harm.
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
    certify: Fraction | None = field(default=None, converter=to_certify, kw_only=True)

    def __repr__(self) -> str:
        start, said = self.start, list[str]()
        if isinstance(start, Given):
            said = [f"a {type(start.distribution).__name__}"]
        elif isinstance(start, Pairs):
            width = f", width={start.width}" * (start.width != _PAIR)
            said = [f"Pairs(share={float(start.share):g}{width})"]
        elif start is not None:
            said = [repr(start)]
        said += [f"gradients={self.gradients}"] * (self.gradients is not None)
        said += [] if self.certify is None else [f"certify={float(self.certify):g}"]
        return f"Corrected({', '.join(said)})"

    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        plan = _Plan.of(self, form, terms, total)
        return Quote(Cost(), plan.spending.cost, plan.expected(terms))

    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        plan = _Plan.of(self, form, kernel.terms, total)
        return plan.release(Paid(plan.spending, kernel))


@frozen(eq=False)
class _BestModel:
    """The best model of a public distribution, and what is to be expected of it."""

    tables: Tables
    theta: Floats
    gap: float
    constant: Floats | None = None
    """The best model that depends on no feature, where there is one."""
    whole: float = 0.0
    """The loss there of the centre of the set, which knows nothing."""
    spare: float = math.inf
    """By how much a constant model exceeds what θ loses there; infinite if there is none."""
    noise: float | None = None
    """The excess that the noise of the start alone is expected to cause."""

    @classmethod
    def on(cls, tables: Tables, form: ConvexForm) -> _BestModel:
        """The best one for a distribution."""
        fine = _COARSE if form.loss.kinked else _TOLERANCE
        theta, gap = form.minimise(tables, tolerance=fine)
        constant, spare = constant_model(form, tables), math.inf
        whole = form.value(tables, form.over.centre(form.dimension))
        if constant is not None:
            spare = form.value(tables, constant) - form.value(tables, theta)
        return cls(tables, theta, gap, constant, whole, spare)

    @property
    def hopeless(self) -> bool:
        """True if noise leaves nothing better to find than the constant model."""
        most = max(_HOPELESS * self.spare, self.whole)
        return self.constant is not None and self.noise is not None and self.noise > most


@frozen(eq=False)
class _Plan:
    """All that is decided beforehand."""

    form: ConvexForm
    smooth: ConvexForm
    """The same with a loss whose gradients are measured."""
    start: Pairs | Moments | None
    """The first measurement, where no distribution was given."""
    given: _BestModel | None
    """The model of the distribution that was given."""
    gradients: tuple[str, ...]
    """Which parts pay for them, in their order."""
    spending: Spending
    unseen: _BestModel | None = None
    """The model of no rows, where noise is so much that only a constant model is looked for."""

    @classmethod
    def of(cls, oracle: Corrected, form: ConvexForm, terms: Terms, total: Total) -> _Plan:
        strength = _strength(terms.facts, total)
        start = oracle.start or _chosen_start(form, strength, total)
        count, twice = oracle.gradients, False
        if count is None:
            # Pairs tell all of a squared loss, unless any third value may be missing.
            few = least_squares(form) and (isinstance(start, Moments) or not form.partial)
            few = few or (isinstance(start, Moments) and strength < _TINY)
            count = int(isinstance(start, Given) or not few)
            twice = bool(count) and oracle.start is None and _twice(strength, total)
        left, parts = 1 - (oracle.certify or Fraction(0)), dict[str, Part]()
        measured: Pairs | Moments | None = None
        given: _BestModel | None = None
        if isinstance(start, Given):
            if start.distribution.domain != terms.facts.domain:
                expected = "a distribution over the domain of the table"
                raise InvalidArgument("start", expected, "one over another domain")
            given = _BestModel.on(public_shares(start.distribution, form, terms.facts), form)
        else:
            measured, asked = start, start_form(start, form)
            if oracle.start is None and isinstance(start, Pairs) and strength < _TINY:
                parts["label"] = Part(left * _LABEL, 1, label_form(form))
                left -= parts["label"].share
            parts["start"] = Part(left * start.share if count else left, 1, asked)
            left -= parts["start"].share
        smoothed = smooth(form)
        if count:
            asked = smoothed.gradient(form.over.centre(form.dimension))
            if twice:
                parts["early"] = Part(left * _EARLY, 1, asked)
                left -= parts["early"].share
            parts["gradients"] = Part(left, count, asked)
        reused = isinstance(start, Moments) and least_squares(form)
        parts |= certificate_parts(form, oracle.certify, moments=reused)
        runs = ("early",) * twice + ("gradients",) * count
        plan = cls(form, smoothed, measured, given, runs, Spending.within(parts, total, terms))
        if given is not None:
            if oracle.gradients is None and not plan.harm(terms) <= given.spare:
                # A constant model misses less than the noise of a gradient would do.
                del parts["gradients"]
                plan = evolve(plan, gradients=(), spending=Spending.within(parts, total, terms))
            return plan
        chosen = (oracle.start, oracle.gradients, oracle.certify) == (None, None, None)
        if chosen and strength < _TINY and (unseen := plan.without_rows(terms)).hopeless:
            # Where noise would hide all else, the label is known best that is measured alone.
            alone = {"label": Part(Fraction(1), 1, label_form(form))}
            spending = Spending.within(alone, total, terms)
            return evolve(plan, gradients=(), spending=spending, unseen=unseen)
        return plan

    def without_rows(self, terms: Terms) -> _BestModel:
        """The model found if nothing depended on anything, with the noise of the start."""
        rows, spending = divisor(terms.facts.rows), self.spending
        best = _BestModel.on(self.fit((), terms.facts, rows), self.form)
        pricing = Measure(spending.parts["start"].form, spending.noises["start"]).price(terms)
        return self.expecting(best, pricing.law.standard_deviation() * 2.0**-pricing.bits / rows)

    def fit(
        self, batches: Sequence[Measured], facts: Facts, rows: float, label: Measured | None = None
    ) -> Distribution:
        """The distribution that fits what was measured for a start."""
        outside = facts.outside and facts.rows is not None
        start = self.start or Pairs()
        return fit_start(batches, self.form, rows, outside=outside, start=start, label=label)

    def expecting(self, best: _BestModel, deviation: float) -> _BestModel:
        """The model with what noise of this deviation in the start is expected to do."""
        start = self.start or Pairs()
        noise = start_harm(start, self.smooth, best.tables, best.theta, deviation)
        return evolve(best, noise=noise)

    def harm(self, terms: Terms) -> float:
        """The excess expected from the noise of a gradient at the model of a given distribution."""
        given, rows = self.given, terms.facts.rows
        if given is None or rows is None or not self.gradients:
            return 0.0
        noise = self.spending.noises["gradients"]
        return asked_gradient(
            self.smooth, given.tables, given.theta, noise, terms, divisor(rows)
        ).harm

    def expected(self, terms: Terms) -> Accuracy:
        """The excess that is known before anything is measured."""
        unseen = self.unseen
        if unseen is not None and unseen.noise is not None:
            excess = cap_excess(unseen.noise, unseen.whole)
            return predicted_excess(self.form, excess, _CONSTANT)
        if self.given is None or (self.gradients and terms.facts.rows is None):
            return _LATER
        if not self.gradients:
            return _GIVEN
        return predicted_excess(self.form, self.harm(terms), _OF_GRADIENT)

    def release(self, paid: Paid) -> Measurement:
        """The model, and what is expected of it."""
        source: Source = "hypothesis" if self.start is None else "fitted"
        rows = divisor(paid.rows)
        label, batches = paid.measure("label"), list[Measured]()
        best = self.given or self._fitted("start", paid, batches, label)
        theta, gap, predicted = best.theta, best.gap, best.noise
        for part in self.gradients:
            noise, terms = self.spending.noises[part], paid.kernel.terms
            try:
                asked = asked_gradient(self.smooth, best.tables, theta, noise, terms, rows)
            except QueryError:
                break  # a loss that is not what it was on the grid of its check has no gradient
            if source == "fitted" and not asked.harm <= best.spare:
                # A constant model misses less than the noise of a gradient would do.
                best = self._fitted(part, paid, batches, label)
                theta, gap, predicted = best.theta, best.gap, best.noise
                continue
            one = paid.measure(part, asked.form, asked.noise)
            if one is None:
                break
            gradient, deviation = asked.read(one.values / rows), one.deviation / rows
            step = correct(self.smooth, best.tables, theta, gradient, deviation, asked.back)
            theta, gap, source = step.theta, step.gap, "measured"
            before = 0.0 if predicted is None else cap_excess(predicted, best.whole)
            predicted = step.predicted + remaining_excess(before, best.whole)
        kind = _AFTER_START if source == "fitted" else _AFTER_BOTH
        if source == "fitted" and best.hopeless and best.constant is not None:
            theta, gap, kind = best.constant, gap + max(best.spare, 0.0), _CONSTANT
        moments = batches[0] if isinstance(self.start, Moments) and batches else None
        accuracy: Accuracy | None = paid.certify(
            self.form, theta, moments if least_squares(self.form) else None
        )
        if accuracy is None and predicted is not None and self.start is not None:
            sets = None if moments is None else coefficients_of(self.form, moments)
            excess = cap_excess(predicted, best.whole)
            accuracy = predicted_excess(self.form, excess, kind, sets)
        elif accuracy is None and predicted is not None:
            accuracy = predicted_excess(self.form, predicted, _OF_GRADIENT)
        unknown = _FITTED if source == "fitted" else _GIVEN
        return Measurement(np.append(theta, gap), accuracy or unknown, source)

    def _fitted(
        self, part: str, paid: Paid, batches: list[Measured], label: Measured | None
    ) -> _BestModel:
        """The best model of what is known, once the start was measured (again). Never fails."""
        form, facts, rows = self.form, paid.kernel.facts, divisor(paid.rows)
        if "start" in self.spending.parts:
            one = paid.measure(part, self.spending.parts["start"].form)
            batches.extend([] if one is None else [one])
        try:
            best = _BestModel.on(self.fit(batches, facts, rows, label), form)
        except DpsdkError:
            tables, centre = self.fit((), facts, rows), form.over.centre(form.dimension)
            return _BestModel(tables, centre, math.inf)
        if not batches:
            return best if self.unseen is None else evolve(best, noise=self.unseen.noise)
        # Independent measurements of the same numbers are as good as one with this noise.
        exact = sum([1.0 / max(one.deviation, _LEAST_DEVIATION) ** 2 for one in batches])
        return self.expecting(best, 1.0 / math.sqrt(exact) / rows)


def _chosen_start(form: ConvexForm, strength: float, total: Total) -> StartOfModel:
    """A start with the share of the budget that suits it, where a gradient is measured after it."""
    share = _FIRM_SHARE if _twice(strength, total) else _PURE_SHARE
    if not isinstance(total, Budget) or total.delta:
        # Its noise enters the excess by its fourth power, that of a gradient by its square.
        fewer = 1.0 if math.isinf(strength) else (max(strength, _EVEN) / _EVEN) ** (-1.0 / 3.0)
        share = max(_LEAST_SHARE, Fraction(round(100 * float(_SHARE) * fewer), 100))
    two = len(form.targets) == 2
    told = least_squares(form) or (two and strength < _TINY)
    # Where values may be missing, each moment depends on all attributes.
    weights = form.partial * form.cells * form.dimension * (form.dimension + 3) // 2
    if form.dimension <= _MANY and told and weights <= _WRITTEN:
        return Moments(share)
    return Pairs(share)


def _twice(strength: float, total: Total) -> bool:
    """True if a pure budget is so large that one gradient leaves more than its noise does."""
    return isinstance(total, Budget) and not total.delta and _FIRM <= strength < math.inf


def _strength(facts: Facts, total: Total) -> float:
    """The number of rows times ε, as far as it is public; over the rows that a person may have."""
    if facts.rows is None:
        return math.inf
    # A ρ is worth about an ε of √(80 ρ), where δ is 1e-9.
    epsilon = float(total.epsilon) if isinstance(total, Budget) else math.sqrt(80.0 * total)
    return facts.rows * epsilon / facts.unit_rows
