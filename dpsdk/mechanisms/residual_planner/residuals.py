"""Answers from noisy residuals: unbiased, with the exact combination of noise in each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from typing import TypeAlias

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Boxes, Facts, FormBlock, Kronecker, LinearForm
from dpsdk.forms.factors import Factor
from dpsdk.forms.residuals import Names, composed, decomposed, subsets
from dpsdk.kernel import GaussianNoise, MeasureResiduals, Noise, ResidualAccuracy, Terms
from dpsdk.kernel.residuals import ResidualPricing
from dpsdk.mechanisms.linear_accuracy import Combination, LinearAccuracy
from dpsdk.mechanisms.measured_once import narrow_form
from dpsdk.typing import Floats

__all__ = ["ResidualPlan", "Residuals"]

_BATCHED = 2**16
"""Residuals of up to so many numbers in all are centred together."""

_MOST = 2**20
"""So many weights are written out at a time."""


@frozen(eq=False)
class ResidualPlan:
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

    def request(self, noise: Noise) -> MeasureResiduals:
        """The request to the kernel, for all residuals at once."""
        if not isinstance(noise, GaussianNoise):
            raise InvalidArgument("noise", "a GaussianNoise", type(noise).__name__)
        return MeasureResiduals(self.sets, self.scales, noise)

    def price(self, noise: Noise, terms: Terms) -> ResidualPricing:
        """The price of the request."""
        return self.request(noise).price(terms)

    def answerable(self, form: LinearForm, mechanism: str, facts: Facts) -> LinearForm:
        """The form without attributes of one cell, if it can be read off the tables.

        Raises
        ------
        QueryError
            If the form is not linear, or depends on attributes that no table has together.
        InvalidArgument
            If it is over another domain.
        """
        form = narrow_form(form, mechanism, facts)
        for block in form.blocks:
            if frozenset(block.names) not in self._known:
                together = ", ".join(map(repr, block.names))
                reason = f"no table of the workload of {mechanism} has {together} together"
                raise QueryError("", reason)
        return form

    def estimate(self, values: Floats) -> Residuals:
        """The residuals, from noisy ones."""
        return Residuals.centred(self, values)

    def answers(self, form: LinearForm, estimate: Residuals) -> Floats:
        """The functions of a form."""
        return estimate.answers(form)

    def accuracy(self, noise: ResidualAccuracy, form: LinearForm) -> LinearAccuracy:
        """The accuracy of the answers to a form."""
        steps = dict(zip(self.sets, noise.steps, strict=True))
        return LinearAccuracy.of(noise.law, 1.0, _Combining(steps, dict(self.sizes)), form)


@frozen(eq=False)
class Residuals:
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
        """The marginal on some attributes, one axis a name."""
        sizes = self._sizes
        ordered = tuple(sorted(names, key=list(sizes).index))
        parts: list[Floats] = []
        for chosen in itertools.product((False, True), repeat=len(ordered)):
            part = tuple(itertools.compress(ordered, chosen))
            shape = [sizes[name] for name in part]
            parts.append(self.values[self._places[part]].reshape(shape))
        table = composed(parts, [sizes[name] for name in ordered])
        return table.transpose([ordered.index(name) for name in names])

    def answers(self, form: LinearForm) -> Floats:
        """The functions of a form, summed over the tables that they depend on."""
        values = np.empty(form.rows)
        for block, places in form.groups:
            values[places] = block.answer(self.table(block.names))
        return values


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
        if isinstance(block, Boxes):
            lines = [
                _of_ones(cells.astype(np.float64), float(size))
                for cells, size in zip(block.counted, block.shape, strict=True)
            ]
            return self._sum(block.names, lines, Combination.times, np.abs(block.scales))
        if isinstance(block, Kronecker):
            lines = [_of_factor(factor) for factor in block.factors]
            whole = self._sum(block.names, lines, Combination.outer, np.abs([block.scale]))
            # A factor whose functions are alike has one line for all of them.
            alike = [len(own.squares) for own, _ in lines]
            rows = tuple([factor.rows for factor in block.factors])
            columns = (whole.squares, whole.peaks, whole.counts)
            return Combination(
                *[np.broadcast_to(one.reshape(alike), rows).reshape(-1) for one in columns]
            )
        names = tuple(sorted(block.names, key=list(self.sizes).index))
        axes = [block.names.index(name) for name in names]
        most = max(1, _MOST // max(1, math.prod(block.shape)))
        found: list[Combination] = []
        for start in range(0, block.rows, most):
            functions = block.weights[start : start + most]
            table = functions.reshape(-1, *block.shape).transpose(0, *[axis + 1 for axis in axes])
            found.append(self._written(table, names))
        return Combination.stack(found)

    def _sum(
        self, names: Names, lines: Sequence[_Line],
        join: Callable[[Combination, Combination], Combination], scales: Floats,
    ) -> Combination:  # fmt: skip
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

    def _written(self, table: Floats, names: Names) -> Combination:
        parts = decomposed(table, len(names))
        squares, peaks, counts = np.zeros((3, len(table)))
        for part, chosen in zip(
            parts, itertools.product((False, True), repeat=len(names)), strict=True
        ):
            own = tuple(itertools.compress(names, chosen))
            left = math.prod([self.sizes[name] for name in names if name not in own])
            flat = part.reshape(len(table), -1) * (self.steps[own] / left)
            squares += np.einsum("rn,rn->r", flat, flat)
            peaks = np.maximum(peaks, np.abs(flat).max(axis=1))
            counts += (flat != 0).sum(axis=1)
        return Combination(squares, peaks, counts)


_Line: TypeAlias = tuple[Combination, Combination]
"""Of functions along one attribute, what their weights are beside their mean, and the mean."""


def _of_factor(factor: Factor) -> _Line:
    mean, squares, peaks, counts = factor.deviations()
    return Combination(squares, peaks, counts), Combination(
        mean**2, mean, (mean > 0).astype(np.float64)
    )


def _of_ones(lengths: Floats, size: float) -> _Line:
    """The line of so many ones among cells."""
    mean, inside = lengths / size, (lengths > 0) & (lengths < size)
    peaks = np.where(inside, np.maximum(mean, 1 - mean), 0.0)
    own = Combination(lengths * (size - lengths) / size, peaks, np.where(inside, size, 0.0))
    return own, Combination(mean**2, mean, (mean > 0).astype(np.float64))
