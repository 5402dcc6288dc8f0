"""Noisy answers, moved to the nearest ones that some table could have."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk import learning
from dpsdk._records import evolve, field, frozen
from dpsdk.accuracy import SIZE, SIZES, NoiseAccuracy
from dpsdk.codec import FLAG, NATURAL, POSITIVE, Member, Nested, OrNone, written
from dpsdk.domain import Domain
from dpsdk.errors import TooLarge
from dpsdk.forms import Dense, Facts, FormBlock, Kronecker, LinearForm, Neighbors, sensitivity
from dpsdk.forms.blocks import Block
from dpsdk.kernel import Kernel, Measure, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import TOTAL, HasTotal, check_linear
from dpsdk.mechanisms.base import OneShot, built_in
from dpsdk.mechanisms.linear_accuracy import bernstein_length
from dpsdk.mechanisms.strategy_matrix import Cells
from dpsdk.noise import DiscreteGaussian
from dpsdk.release import Cost, HalfWidths, Measurement, Quote, Standing
from dpsdk.typing import Floats, Ints

__all__ = ["Projection", "ProjectionAccuracy", "TOTAL_BETA", "widest"]

TOTAL_BETA = 1e-9
"""The probability that a table of a private number of rows has more than is assumed."""

_ROUND = 1 + 1e-9
"""The rounding of floats in a bound."""


def widest(form: LinearForm, facts: Facts) -> float:
    """The largest distance of two columns; rows that do not count have one where such may be."""
    beside = facts.outside or facts.rows is None
    of = evolve(facts, neighbors=Neighbors.REPLACE_ONE, outside=beside, unit_rows=1)
    return math.sqrt(sensitivity(form, of, power=2).l2_squared)


def _wrong(accuracy: ProjectionAccuracy) -> str:
    if not 1 <= accuracy.entries <= accuracy.noise.entries:
        return "numbers that were measured"
    moved = accuracy.distances
    return "" if moved is None or len(moved) == accuracy.entries else "a distance for each number"


def _to_moved(moved: Sequence[float] | Floats | None) -> tuple[float, ...] | None:
    return None if moved is None else tuple(map(float, moved))


@written(
    "accuracy.projection",
    {
        "noise": Nested[NoiseAccuracy]("an accuracy", NoiseAccuracy),
        "reach": SIZE,
        "cells": POSITIVE,
        "gap": SIZE,
        "distances": Member(OrNone(SIZES), key="moved"),
        "counted": FLAG,
        "entries": NATURAL,
    },
    wrong=_wrong,
    public=False,
)
@frozen
class ProjectionAccuracy(HalfWidths):
    """Noisy answers that were moved to the nearest ones of a convex set that has the truth in it.

    The root of the sum of all squared errors is within `distance`, and so is each error; each is
    also within the bound of the noise and by how much the answer was moved. See
    docs/explanation/proofs/projection.md.
    """

    noise: NoiseAccuracy
    """The accuracy of the noisy answers."""
    reach: float
    """By how much all rows, in the largest number that is assumed, can move the answers."""
    cells: int
    gap: float
    """How far half the squared distance from the noisy answers is above the least, at the most."""
    _moved: tuple[float, ...] | None = field(converter=_to_moved, repr=False)
    counted: bool
    """True if the largest number of rows was told by a noisy count, and may be exceeded."""
    entries: int  # pyright: ignore[reportIncompatibleMethodOverride]  # a field here
    """How many numbers are answers; more may be measured."""

    @property
    def standing(self) -> Standing:  # type: ignore[override]  # derived here, a field elsewhere
        """A theorem once it is known how far answers were moved, and a prediction before."""
        return "predicted" if self._moved is None else "proven"

    @property
    def kind(self) -> str:  # type: ignore[override]  # derived here, a field elsewhere
        """The basis of the bound."""
        if self._moved is None:
            return "a projection, if it comes as near as it is meant to"
        return "projection of noisy answers on those of possible tables"

    @property
    def distances(self) -> Floats | None:  # type: ignore[override]  # derived here
        """By how much each answer was moved, in rows; None before that is known."""
        return None if self._moved is None else np.array(self._moved)

    def distance(self, beta: float) -> float:
        """With probability 1 - beta the sum of the squared errors is not above this squared."""
        left = beta - TOTAL_BETA if self.counted else beta
        if left <= 0:
            return math.inf
        slack = self.noise.bias * math.sqrt(self.noise.entries)
        _, length = bernstein_length(self.noise.law, self.noise.step, self.noise.entries, left / 2)
        length += slack
        by_length = length / 2 + math.sqrt(length**2 / 4 + self.gap)
        by_width = slack + math.sqrt(self._width(left / 2) + self.gap)
        return min(by_length, by_width) * _ROUND

    def mean_square(self, beta: float) -> float:
        """With probability 1 - beta the mean of the squared errors, in squared rows, is not above.

        Half of that of the noise, or less, is the point of a projection; it is of all answers
        together, and of a single one no more follows than what `error` says.
        """
        return self.distance(beta) ** 2 / self.entries

    def _width(self, beta: float) -> float:
        """How far the noise points along the set, by the tail of the normal law."""
        law = self.noise.law
        if not isinstance(law, DiscreteGaussian):
            return math.inf
        deviation = math.sqrt(law.variance) * self.noise.step
        return self.reach * deviation * math.sqrt(2 * math.log(self.cells / beta))

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        if self._moved is None:
            return np.full(self.entries, self.distance(beta))
        each = self.noise.radius(beta / 2, joint=joint) + np.array(self._moved)
        result: Floats = np.minimum(each, self.distance(beta / 2))
        return result


CELL_LIMIT = 2**22
"""The attributes that the queries touch have no more cells."""

WEIGHT_LIMIT = 2**24
"""Functions that are not plain marginals have no more weights in all, written out."""

_STEPS = 50
_ROUNDS = 100
_HOLD = 0.5
_CLOSE = 1e-5
"""Short passes, each of them exact: what a pass is off by stays in the gap of all later ones."""

_NEAR = 0.02
"""The search stops where it is so near the projection, as a part of what is proven of its error."""

_FAR = 2.0
"""The search has not come near where the bound of a projection is this many times that of the
noise; answers then stay as they were measured.
"""

_NOMINAL_BETA = 0.05
"""That error at this probability."""


@frozen(eq=False)
class _Set:
    """The answers that tables of at most so many rows have, and how they are searched."""

    form: LinearForm
    domain: Domain
    outside: bool

    @classmethod
    def of(cls, form: LinearForm, facts: Facts) -> _Set:
        """That of a form."""
        names = form.names or form.domain.names[:1]
        domain = Domain(*[form.domain[name] for name in names])
        if domain.size > CELL_LIMIT:
            advice = "ask about fewer or coarser attributes, or open OnlinePMW or MWEM"
            raise TooLarge("Projection", domain.size, CELL_LIMIT, "cells", advice)
        weights = sum(
            [block.rows * math.prod(block.shape) for block, _ in form.groups if not block.table]
        )
        if weights > WEIGHT_LIMIT:
            advice = "ask fewer queries at once, or open OnlinePMW or Matrix"
            raise TooLarge("Projection", weights, WEIGHT_LIMIT, "weights", advice)
        return cls(form, domain, facts.outside or facts.rows is None)

    def nearest(
        self, values: Floats, deviation: float, most: float, near: float
    ) -> tuple[Floats, float]:
        """The nearest answers of the set, and how far half the squared distance is off."""
        fit = learning.EntropicFit(self.domain, outside=self.outside, prior=0, hold=_HOLD)
        for block, places in self.form.groups:
            fit.add(_written(block), values[places] / most, deviation / most)
        gap = math.inf
        for _ in range(_ROUNDS):
            made = fit.run(_STEPS, close=_CLOSE)
            gap = fit.gap() * deviation**2
            if gap <= near or not made:
                break
        counts = fit.weights() * most
        return Cells(self.domain.names, counts).answers(self.form), gap


def _written(block: Block) -> FormBlock:
    """A block with all its weights, unless it is one table of counts."""
    if isinstance(block, Kronecker) and (block.table or not block.names):
        return block
    cells = math.prod(block.shape)
    codes: Ints = np.indices(block.shape).reshape(len(block.shape), cells)
    return Dense(block.names, block.shape, block.columns(list(codes)))


def _asked(form: LinearForm, facts: Facts) -> LinearForm:
    """The measurement: the form, and the number of rows where that is private."""
    if facts.rows is not None:
        return form
    return LinearForm.stack([form, LinearForm(form.domain, (Kronecker((), ()),))])


def _most_rows(facts: Facts, found: Measurement[NoiseAccuracy]) -> int:
    """The number of rows, or one that it exceeds with probability 10^-9 at the most."""
    if facts.rows is not None:
        return facts.rows
    radius = found.accuracy.law.radius(TOTAL_BETA) * found.accuracy.step
    # One at least, so that there is something to share out.
    told = float(found.values[-1]) + radius + found.accuracy.bias
    return min(facts.row_limit, max(1, math.ceil(told)))


def _accuracy(
    form: LinearForm,
    asked: LinearForm,
    facts: Facts,
    noise: NoiseAccuracy,
    most: int,
    gap: float = 0.0,
    moved: tuple[float, ...] | None = None,
) -> ProjectionAccuracy:
    counted = facts.rows is None
    # Where the largest number of rows depends on the noise, each column counts twice.
    cells = (math.prod([form.domain[name].size for name in form.names]) + 1) * (1 + counted)
    reach = most * widest(asked, facts)
    return ProjectionAccuracy(noise, reach, cells, gap, moved, counted, form.rows)


def _near(accuracy: ProjectionAccuracy) -> float:
    return _NEAR * accuracy.distance(_NOMINAL_BETA) ** 2


@built_in("projection", TOTAL)
@frozen(repr=False, cache_hash=True, kw_only=True)
class Projection(OneShot[LinearForm], HasTotal):
    """Noisy answers, moved to the nearest ones that the rows of some table could have.

    All queries that are asked at once are measured as by `Gaussian` or `Laplace`, and the answers
    are replaced by the nearest, in the sum of squares, that a distribution over the universe has,
    times the number of rows (Nikolov, Talwar and Zhang 2013; Dwork, Nikolov and Talwar 2015). It
    costs no more, and answers are consistent with each other, and possible. Where many queries are
    asked of few rows their mean squared error is much smaller than the noise. Where the search does
    not come near in its steps, as for very many rows, noisy answers are not moved.

    What is proven is about all answers together: `release.accuracy` has the `distance` from the
    truth, in rows, and a `mean_square`. A projection keeps no bound of a single answer: `error` is
    what follows from this distance, or from the noise and how far the answer was moved, and can be
    larger than that of the noise. A quote cannot know either, and has a prediction.

    Where the number of rows is private it is measured beside the queries. The projection is found
    by about 1,200 passes over the cells of the attributes that the queries touch, at the most, up
    to a gap that is part of the bounds.

    Parameters
    ----------
    epsilon, delta, rho
        What an answer costs, given as the total of `NoisyHistogram` is.

    Raises
    ------
    InvalidArgument
        If the cost is not given in one of these ways.
    TooLarge
        When asked or quoted, before anything is paid: if the attributes that the queries touch have
        more than 2^22 cells together, or functions that are no plain tables more than 2^24 weights.

    >>> from dpsdk.mechanisms import Projection
    >>> Projection(rho="0.005")
    Projection(rho=0.005)
    """

    reusable = True
    page = "explanation/proofs/projection.md"

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._noise()

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_linear(form, "Projection")
        facts = facts_of(terms)
        asked = _asked(form, facts)
        _Set.of(asked, facts)
        with self._in_words():
            pricing = Measure(asked, self._noise()).price(terms)
        noise, most = pricing.accuracy, facts.row_limit if facts.rows is None else facts.rows
        gap = _near(_accuracy(form, asked, facts, noise, most))
        accuracy = _accuracy(form, asked, facts, noise, most, gap)
        return Quote(Cost(), Cost((pricing.guarantee,)), accuracy)

    def open(self, kernel: Kernel, /) -> Projection:
        del kernel  # nothing is paid to open
        return self

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows that some distribution has."""
        check_linear(form, "Projection")
        facts = kernel.facts
        asked = _asked(form, facts)
        possible = _Set.of(asked, facts)
        with self._in_words():
            found = kernel.measure(asked, self._noise())
        noise, count = found.accuracy, form.rows
        most = _most_rows(facts, found)
        deviation = noise.law.standard_deviation() * noise.step
        values, gap = found.values, 0.0
        if not most:
            values = np.zeros(asked.rows)
        elif deviation:
            near = _near(_accuracy(form, asked, facts, noise, most))
            values, gap = possible.nearest(found.values, deviation, float(most), near)
        moved = np.abs(values - found.values)[:count]
        accuracy = _accuracy(form, asked, facts, noise, most, gap, tuple(moved.tolist()))
        as_measured = evolve(accuracy, gap=0.0, reach=math.inf, moved=(0.0,) * count)
        if accuracy.distance(_NOMINAL_BETA) > _FAR * as_measured.distance(_NOMINAL_BETA):
            return Measurement(found.values[:count], as_measured, "fitted")
        return Measurement(values[:count], accuracy, "fitted")

    def __repr__(self) -> str:
        return f"Projection({self._total})"
