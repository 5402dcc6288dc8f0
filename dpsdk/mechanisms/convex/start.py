"""The public distribution that an oracle corrects: its source and its fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np

from dpsdk._checks import to_array, to_probability
from dpsdk._records import field, frozen
from dpsdk.codec import AMOUNT, written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import ConvexForm, Facts, Identity, Kronecker, LinearForm
from dpsdk.hypothesis import Distribution, Pairs
from dpsdk.hypothesis.fit import FIT_LIMIT, EntropicFit
from dpsdk.mechanisms.convex.oracle import Measured
from dpsdk.typing import Floats, Real

__all__ = ["Moments", "Shares", "fit_start", "label_form", "start_form", "public_shares"]

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
        deviation, place = max(_LEAST_DEVIATION, one.deviation) / rows, 0
        for block in one.form.blocks:
            fit.add(block, one.values[place : place + block.rows] / rows, deviation)
            place += block.rows
        return deviation

    def run(numbers: int, free: int, deviation: float) -> None:
        enough = numbers - free + min(1.0, max(_LEAST_PART, _NOISY * deviation)) * free
        for _ in range(_PASSES):
            made = fit.run(_STEPS)
            if 2.0 * fit.loss <= enough or not made:
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
