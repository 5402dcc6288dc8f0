"""Answers from noisy residuals: unbiased, with the exact combination of noise in each."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import TypeAlias

import numpy as np

from dpsdk._records import define, field, frozen
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import Dense, Facts, FormBlock, Kronecker, LinearForm
from dpsdk.forms.factors import Factor
from dpsdk.forms.residuals import Names, composed, decomposed, subsets
from dpsdk.kernel import GaussianNoise, MeasureResiduals, Noise, ResidualAccuracy
from dpsdk.mechanisms.linear_accuracy import Combination, LinearAccuracy
from dpsdk.mechanisms.measured_once import Measured, narrow_form
from dpsdk.mechanisms.strategy_matrix import Join, Tables, as_lines
from dpsdk.typing import Floats, Ints

__all__ = ["ResidualPlan", "Residuals", "check_fits", "possible"]

_BATCHED = 2**16
"""Residuals of up to so many numbers in all are centred together."""

_MOST = 2**20
"""So many weights are written out at a time."""


@frozen(eq=False)
class ResidualPlan(Measured):
    """The residuals that are measured, and how finely. Public, and made of public numbers alone.

    Parameters
    ----------
    sets
        The attributes of each residual: all subsets of those of the tables that were asked for.
    scales
        What each is multiplied by; see `dpsdk.kernel.MeasureResiduals`.
    tables
        The attributes of the tables that were asked for.
    gap
        Of the objective "max": by how much the largest variance may be above the least there is,
        as a share; 0 for "sum". Under replace-one the least of what the sum of the costs allows.
    """

    sets: tuple[Names, ...]
    scales: tuple[int, ...]
    tables: tuple[Names, ...]
    gap: float
    sizes: tuple[tuple[str, int], ...] = field(repr=False)

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """How many numbers each residual has."""
        sizes = dict(self.sizes)
        return tuple([math.prod([sizes[name] for name in names]) for names in self.sets])

    @cached_property
    def _known(self) -> frozenset[frozenset[str]]:
        """The sets, in whatever order of their attributes."""
        return frozenset(map(frozenset, self.sets))

    def request(self, noise: Noise, /) -> MeasureResiduals:
        """The request to the kernel, for all residuals at once."""
        if not isinstance(noise, GaussianNoise):
            raise InvalidArgument("noise", "a GaussianNoise", type(noise).__name__)
        return MeasureResiduals(self.sets, self.scales, noise)

    def answerable(self, form: LinearForm, mechanism: str, facts: Facts, /) -> LinearForm:
        form = narrow_form(form, mechanism, facts)
        for block in form.blocks:
            if frozenset(block.names) not in self._known:
                together = ", ".join(map(repr, block.names))
                reason = f"no table of the workload of {mechanism} has {together} together"
                raise QueryError("", reason)
        return form

    def estimate(self, values: Floats, /) -> Residuals:
        return Residuals.centred(self, values)

    def answers(self, form: LinearForm, estimate: Residuals, /) -> Floats:
        return estimate.answers(form)

    def accuracy(self, noise: ResidualAccuracy, form: LinearForm, /) -> LinearAccuracy:
        steps = dict(zip(self.sets, noise.steps, strict=True))
        return LinearAccuracy.of(noise.law, 1.0, _Combining(steps, dict(self.sizes)), form)


@frozen(eq=False)
class Residuals(Tables):
    """Estimated residuals of marginals, one after the other; each sums to zero on every axis."""

    plan: ResidualPlan
    values: Floats

    @classmethod
    def centred(cls, plan: ResidualPlan, values: Floats) -> Residuals:
        """From numbers with independent noise on each cell: without what cannot be signal."""
        centred = values.copy()
        for shape, whole in _by_shape(plan, centred):
            step = max(1, _BATCHED // max(1, math.prod(shape)))
            for start in range(0, len(whole), step):
                part = whole[start : start + step]
                for axis in range(1, part.ndim):
                    part -= part.mean(axis=axis, keepdims=True)
        return cls(plan, centred)

    @cached_property
    def _places(self) -> dict[Names, slice]:
        ends = itertools.pairwise(itertools.accumulate(self.plan.cells, initial=0))
        return {names: slice(*pair) for names, pair in zip(self.plan.sets, ends, strict=True)}

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return dict(self.plan.sizes)

    def table(self, names: Names) -> Floats:
        sizes = self._sizes
        ordered = tuple(sorted(names, key=list(sizes).index))
        parts = [
            self.values[self._places[part]].reshape([sizes[name] for name in part])
            for part in _subsets(ordered)
        ]
        table = composed(parts, [sizes[name] for name in ordered])
        return table.transpose([ordered.index(name) for name in names])


def _by_shape(plan: ResidualPlan, values: Floats) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Residuals of one shape at a time: the shape, and an array over all of them."""
    sizes, start = dict(plan.sizes), 0
    for shape, group in itertools.groupby(
        plan.sets, lambda names: tuple([sizes[name] for name in names])
    ):
        count = len(list(group))
        stop = start + count * math.prod(shape)
        yield shape, values[start:stop].reshape(count, *shape)
        start = stop


@frozen
class _Combining:
    """The weights of the noise of residuals in answers."""

    steps: dict[Names, float]
    sizes: dict[str, int]

    def combine(self, form: LinearForm) -> Combination:
        """The weights in the answers to a form."""
        return Combination.stack(map(self._of, form.blocks))

    def _of(self, block: FormBlock) -> Combination:
        lines = as_lines(block)
        if lines is None:
            return self._written(block.written())
        join, scales, factors = lines
        whole = self._sum(block.names, list(map(_line, factors)), join, np.abs(scales))
        # Functions that are alike have one line for all of them.
        rows: tuple[int, ...] = (block.rows,)
        alike: tuple[int, ...] = whole.squares.shape
        if isinstance(block, Kronecker):
            rows = tuple([factor.rows for factor in factors])
            alike = tuple([len(factor.deviations()[1]) for factor in factors])
        wide = [np.broadcast_to(one.reshape(alike), rows).reshape(-1) for one in whole.columns]
        return Combination(*wide)

    def _sum(self, names: Names, lines: Sequence[_Line], join: Join, scales: Floats) -> Combination:
        """The weights of all residuals of products of functions along each attribute."""
        order = list(self.sizes)
        squares = peaks = counts = np.zeros(1)
        for part in subsets(names):
            step = self.steps[tuple(sorted(part, key=order.index))] * scales
            own = [line[name not in part] for name, line in zip(names, lines, strict=True)]
            one = reduce(join, own, Combination.of_ones(np.ones(1)))
            squares, peaks = squares + one.squares * step**2, np.maximum(peaks, one.peaks * step)
            counts = counts + one.counts * (step > 0)
        return Combination(squares, peaks, counts)

    def _written(self, block: Dense) -> Combination:
        names = tuple(sorted(block.names, key=list(self.sizes).index))
        axes = [block.names.index(name) + 1 for name in names]
        most = max(1, _MOST // max(1, math.prod(block.shape)))
        found: list[Combination] = []
        for start in range(0, block.rows, most):
            table = block.weights[start : start + most].reshape(-1, *block.shape)
            found.append(self._of_table(table.transpose(0, *axes), names))
        return Combination.stack(found)

    def _of_table(self, table: Floats, names: Names) -> Combination:
        squares, peaks, counts = np.zeros((3, len(table)))
        for part, own in zip(decomposed(table, len(names)), _subsets(names), strict=True):
            left = math.prod([self.sizes[name] for name in names if name not in own])
            flat = part.reshape(len(table), -1) * (self.steps[own] / left)
            squares += np.einsum("rn,rn->r", flat, flat)
            peaks = np.maximum(peaks, np.abs(flat).max(axis=1))
            counts += (flat != 0).sum(axis=1)
        return Combination(squares, peaks, counts)


_Line: TypeAlias = tuple[Combination, Combination]
"""Of functions along one attribute, what their weights are beside their mean, and the mean."""


def _line(factor: Factor) -> _Line:
    mean, squares, peaks, counts = factor.deviations()
    alike = Combination(mean**2, mean, (mean > 0).astype(np.float64))
    return Combination(squares, peaks, counts), alike


CELL_LIMIT = 2**22
"""Of tables of more cells than this in all a fit would take minutes."""

_STEPS = 300
_CLOSE = 1e-3
"""Ascent stops where moving so far towards even tables leaves no cell negative."""

_LOOKED = 10
_TRUST = 4.0


@define(eq=False)
class _Tables:
    """All tables of one shape: where their residuals are, and what holds their cells up."""

    shape: tuple[int, ...]
    parts: list[Ints]
    """For each subset of their axes, in binary order, the places of the residuals' numbers."""
    spread: list[float]
    """How many cells of the table share one number of that residual."""
    step: Floats
    raised: Floats
    momentum: Floats

    def gathered(self, values: Floats) -> Floats:
        """The tables of residuals."""
        return composed([values[places] for places in self.parts], self.shape)

    def add_to(self, push: Floats) -> None:
        """Add the force on each residual, where the tables are pushed by the momentum."""
        parts = decomposed(self.momentum, len(self.shape))
        for places, spread, part in zip(self.parts, self.spread, parts, strict=True):
            np.add.at(push, places, part / spread)


def check_fits(plan: ResidualPlan) -> None:
    """Refuse a plan whose tables are too large to be made possible ones."""
    sizes = dict(plan.sizes)
    cells = sum([math.prod([sizes[name] for name in names]) for names in plan.tables])
    if cells > CELL_LIMIT:
        advice = "leave nonnegative=True out, or ask for fewer tables"
        raise TooLarge("tables without negative cells", cells, CELL_LIMIT, "cells", advice)


def possible(residuals: Residuals, *, exact_total: bool, most: float) -> Residuals:
    """The residuals of tables without a negative cell, near to noisy ones."""
    plan, noisy = residuals.plan, residuals.values
    weights = np.repeat([_TRUST ** len(names) for names in plan.sets], plan.cells)
    if exact_total:
        weights[0] = 0.0  # the residual of no attributes comes first
    groups = _tables(plan, weights)
    values, pace = noisy.copy(), 1.0
    for turn in range(_STEPS):
        faster = (1 + math.sqrt(1 + 4 * pace * pace)) / 2
        for group in groups:
            raised = np.maximum(group.momentum - group.step * group.gathered(values), 0.0)
            group.momentum = raised + (pace - 1) / faster * (raised - group.raised)
            group.raised = raised
        pace = faster
        push = np.zeros(len(noisy))
        for group in groups:
            group.add_to(push)
        values = noisy + weights * push
        if turn % _LOOKED == _LOOKED - 1 and _short(groups, values) <= _CLOSE:
            break
    return Residuals(plan, _raised(groups, values, most))


def _tables(plan: ResidualPlan, weights: Floats) -> list[_Tables]:
    """The tables that were asked for, by shape."""
    sizes = dict(plan.sizes)
    first: dict[Names, int] = dict(
        zip(plan.sets, itertools.accumulate(plan.cells[:-1], initial=0), strict=True)
    )
    order = list(sizes).index
    wanted = [tuple(sorted(names, key=order)) for names in plan.tables if names]
    over = Counter(part for names in wanted for part in _subsets(names))
    groups: list[_Tables] = []
    shaped = sorted(wanted, key=lambda names: [sizes[name] for name in names])
    for key, members in itertools.groupby(shaped, key=lambda n: tuple([sizes[x] for x in n])):
        sets = list(members)
        cells = math.prod(key)
        parts, spread = list[Ints](), list[float]()
        bound = np.zeros(len(sets))
        for same in zip(*map(_subsets, sets), strict=True):
            shape = [sizes[name] for name in same[0]]
            own = math.prod(shape)
            starts = np.array([first[part] for part in same])
            places = starts[:, None] + np.arange(own)
            parts.append(places.reshape(len(sets), *shape))
            spread.append(cells / own)
            bound += weights[starts] * np.array([over[part] for part in same]) * own / cells
        step = (1 / bound).reshape(-1, *[1] * len(key))
        start = np.zeros((len(sets), *key))
        groups.append(_Tables(key, parts, spread, step, start, start))
    return groups


def _subsets(names: Names) -> list[Names]:
    """All subsets, in binary order."""
    return [
        tuple(itertools.compress(names, kept))
        for kept in itertools.product((False, True), repeat=len(names))
    ]


def _short(groups: Sequence[_Tables], values: Floats) -> float:
    """The least share of even tables that leaves no cell negative."""
    total, share = float(values[0]), 0.0
    if total <= 0:
        return 1.0
    for group in groups:
        even = total / math.prod(group.shape)
        lowest = min(float(group.gathered(values).min()), 0.0)
        share = max(share, lowest / (lowest - even))
    return share


def _raised(groups: Sequence[_Tables], values: Floats, most: float) -> Floats:
    total = min(max(float(values[0]), 0.0), most)
    share = _short(groups, values)
    if share >= 1.0 or not total:
        result = np.zeros(len(values))
    else:
        # A little more, for what floats round off where tables are put together.
        result = values * ((1 - min(1.0, share * (1 + 1e-9) + 1e-12)) * total / float(values[0]))
    result[0] = total
    return result
