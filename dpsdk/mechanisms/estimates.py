"""Estimates of all cells from numbers measured once; every linear answer is a sum of them."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Protocol

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Factor, Facts, FormBlock, Kronecker, LinearForm, Range
from dpsdk.forms.narrow import narrowed
from dpsdk.kernel import Kernel, Measure, Noise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.base import Single
from dpsdk.mechanisms.combined import Combination, CombinedNoise
from dpsdk.mechanisms.refusals import check_linear
from dpsdk.noise import NoiseLaw
from dpsdk.noise.laws import Plain, from_plain, to_plain
from dpsdk.release import Cost, HalfWidths, Measurement, NoiseAccuracy, Quote, Standing
from dpsdk.typing import Floats

__all__ = [
    "Cells",
    "Combines",
    "Estimate",
    "EstimateAccuracy",
    "Reconstruction",
    "answerable",
    "copied_form",
    "estimated",
    "measured",
    "quoted",
    "single",
    "told_by_cells",
]


class Reconstruction(Protocol):
    """How measured numbers become estimates of the cells of some attributes: a linear map."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes whose cells are estimated, in the order of the domain."""
        ...

    @property
    def strategy(self) -> LinearForm:
        """What is measured."""
        ...

    def cells(self, values: Floats) -> Floats:
        """The estimates of the cells, one axis a name, from the measured numbers."""
        ...

    def combine(self, form: LinearForm) -> Combination:
        """The weights that the measured numbers have in the answers to a form."""
        ...


@frozen
class Cells:
    """Estimated counts of the cells of some attributes."""

    names: tuple[str, ...]
    counts: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)

    def table(self, names: tuple[str, ...]) -> Floats:
        """Their sums over the attributes that are not named, one axis a name."""
        others = tuple([axis for axis, name in enumerate(self.names) if name not in names])
        left = [name for name in self.names if name in names]
        table = np.asarray(self.counts.sum(axis=others) if others else self.counts)
        result: Floats = table.transpose([left.index(name) for name in names])
        return result

    def answers(self, form: LinearForm) -> Floats:
        """The functions of a form, summed over the cells."""
        values = np.empty(form.rows)
        for block, places in form.groups:
            values[places] = block.answer(self.table(block.names))
        return values


def _identity(form: LinearForm) -> bytes:
    return form.identity


class Combines(Protocol):
    """What knows how the noise of measured numbers adds up in answers."""

    def combine(self, form: LinearForm) -> Combination:
        """The weights that the measured numbers have in the answers to a form."""
        ...


@frozen
class EstimateAccuracy(HalfWidths):
    """Answers that are sums of noisy numbers: how the noise adds up is worked out when asked."""

    _law: Plain = field(converter=to_plain, alias="law")
    step: float
    reconstruction: Combines
    _form: LinearForm = field(eq=_identity, repr=False)
    kind: str = field(init=False, default="proven tail of a sum of discrete noises")
    standing: Standing = field(init=False, default="proven")

    @property
    def law(self) -> NoiseLaw:
        """The law of the noise of each measured number, in steps; a copy."""
        return from_plain(self._law)

    @cached_property
    def noise(self) -> CombinedNoise:
        """The noise of each answer."""
        combination = self.reconstruction.combine(self._form)
        return CombinedNoise(from_plain(self._law), self.step, combination)

    def share(self, other: EstimateAccuracy) -> None:
        """Take over how noise adds up from the accuracy of the same form, if measured likewise."""
        if self.reconstruction == other.reconstruction:
            noise = CombinedNoise(from_plain(self._law), self.step, other.noise.combination)
            object.__setattr__(self, "noise", noise)

    @property
    def variances(self) -> Floats:
        """The variance of each answer, in squared rows."""
        return self.noise.variances

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        return self.noise.radii(beta, joint=joint)


@frozen
class Estimate:
    """Answer every linear form on some attributes from estimates of their cells. Costs nothing."""

    mechanism: str
    reconstruction: Reconstruction
    cells: Cells
    _law: NoiseLaw
    _step: float

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows, as sums of estimates."""
        return self.told(form, kernel.facts)

    def told(self, form: LinearForm, facts: Facts) -> Measurement:
        """The same."""
        form = answerable(form, self.mechanism, self.reconstruction, facts)
        values = self.cells.answers(form)
        accuracy = EstimateAccuracy(
            self._law, self._step, copy(self.reconstruction), copied_form(form)
        )
        return Measurement(values, accuracy, "fitted")


def copied_form(form: LinearForm) -> LinearForm:
    """The same form in parts that are nobody else's, but for arrays, which stay as they are.

    Whoever holds a release holds its accuracy, and others may ask for the same form.
    """
    blocks: list[FormBlock] = []
    for block in form.blocks:
        if isinstance(block, Kronecker):
            factors = tuple([_copied(factor) for factor in block.factors])
            blocks.append(Kronecker(block.names, factors, block.scale))
        else:
            blocks.append(copy(block))
    return LinearForm(form.domain, blocks)


def _copied(factor: Factor) -> Factor:
    # There may be one for each of many thousand functions, and a copy takes ten times as long.
    return Range(factor.size, factor.start, factor.stop) if type(factor) is Range else copy(factor)


def told_by_cells(form: LinearForm, mechanism: str, facts: Facts) -> LinearForm:
    """A linear form over the domain of the table, without attributes of one cell.

    Raises
    ------
    QueryError
        If the form is not linear.
    InvalidArgument
        If it is over another domain.
    """
    check_linear(form, mechanism)
    if form.domain is not facts.domain and form.domain != facts.domain:
        raise InvalidArgument("form", "over the domain of the table", "another domain")
    return narrowed(form)


def answerable(
    form: LinearForm, mechanism: str, reconstruction: Reconstruction, facts: Facts
) -> LinearForm:
    """The form without attributes of one cell, if the cells of these attributes answer it.

    Raises
    ------
    QueryError
        If the form is not linear, or depends on another attribute.
    InvalidArgument
        If it is over another domain.
    """
    form = told_by_cells(form, mechanism, facts)
    beyond = sorted(set(form.names) - set(reconstruction.names))
    if beyond:
        known = ", ".join(map(repr, reconstruction.names))
        others = ", ".join(map(repr, beyond))
        reason = f"{mechanism} answers queries on {known} alone, and this one depends on {others}"
        raise QueryError("", reason)
    return form


def quoted(
    form: LinearForm, terms: Terms, mechanism: str, reconstruction: Reconstruction, noise: Noise
) -> Quote:
    """What measuring the strategy costs, and how far off an answer would be."""
    form = answerable(form, mechanism, reconstruction, facts_of(terms))
    pricing = Measure(reconstruction.strategy, noise).price(terms)
    cost = Cost((pricing.guarantee,))
    step = 2.0**-pricing.bits
    accuracy = EstimateAccuracy(pricing.law, step, reconstruction, copied_form(form))
    return Quote(cost, cost, accuracy)


def measured(
    kernel: Kernel, mechanism: str, reconstruction: Reconstruction, noise: Noise
) -> Estimate:
    """Measure the strategy, once, and estimate the cells."""
    return estimated(kernel.measure(reconstruction.strategy, noise), mechanism, reconstruction)


def single(
    form: LinearForm, facts: Facts, mechanism: str, reconstruction: Reconstruction, noise: Noise
) -> Single[Measurement[NoiseAccuracy]]:
    """The one run that answers a form, and nothing after it."""
    answerable(form, mechanism, reconstruction, facts)
    request = Measure(reconstruction.strategy, noise)
    return Single(
        request, lambda found: estimated(found, mechanism, reconstruction).told(form, facts)
    )


def estimated(
    found: Measurement[NoiseAccuracy], mechanism: str, reconstruction: Reconstruction
) -> Estimate:
    """The cells, from the numbers that were measured of the strategy."""
    cells = Cells(reconstruction.names, reconstruction.cells(found.values))
    return Estimate(mechanism, reconstruction, cells, found.accuracy.law, found.accuracy.step)
