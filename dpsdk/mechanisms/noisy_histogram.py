"""Noisy counts of all cells, once; every later answer is a sum of them, and free."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import (
    Facts,
    Identity,
    Kronecker,
    LinearForm,
)
from dpsdk.hypothesis import SyntheticData
from dpsdk.kernel import Kernel, Noise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.base import DistributionMechanism, Single
from dpsdk.mechanisms.cell_sums import of_block
from dpsdk.mechanisms.combined import Combination
from dpsdk.mechanisms.consistent import (
    ConsistentAccuracy,
    ProjectedAccuracy,
    possible,
    records,
)
from dpsdk.mechanisms.estimates import (
    Cells,
    Estimate,
    EstimateAccuracy,
    estimated,
    measured,
    quoted,
    single,
)
from dpsdk.mechanisms.total import (
    noise_for,
    to_epsilon,
    to_rho,
    to_zero_delta,
    total_in_words,
)
from dpsdk.release import Accuracy, Measurement, NoiseAccuracy, Quote
from dpsdk.typing import Floats

__all__ = ["HistogramStrategy", "NoisyHistogram"]

CELL_LIMIT = 2**24
"""No histogram has more cells: 128 MiB for its counts, and a few times that while it is made."""


@frozen
class CellByCell:
    """The cells are what is measured."""

    domain: Domain

    @classmethod
    def over(cls, facts: Facts) -> CellByCell:
        """The histogram of a table.

        Raises
        ------
        TooLarge
            If its universe has more than 2^24 cells.
        """
        domain = facts.domain
        if domain.size > CELL_LIMIT:
            advice = "declare coarser attributes, or open OnlinePMW"
            raise TooLarge("NoisyHistogram", domain.size, CELL_LIMIT, "cells", advice)
        return cls(domain)

    @property
    def names(self) -> tuple[str, ...]:
        """All attributes."""
        return self.domain.names

    @property
    def strategy(self) -> LinearForm:
        """The count of every cell."""
        factors = {name: Identity(self.domain[name].size) for name in self.domain.names}
        return LinearForm(self.domain, (Kronecker.of(self.domain, factors),))

    def cells(self, values: Floats) -> Floats:
        """The numbers, shaped like the domain."""
        return values.reshape(self.domain.shape)

    def combine(self, form: LinearForm) -> Combination:
        """Weights on cells are weights on their noise."""
        sizes = dict(zip(self.domain.names, self.domain.shape, strict=True))
        return Combination.stack([of_block(block, sizes) for block in form.blocks])


def _estimate(accuracy: Accuracy) -> EstimateAccuracy:
    if not isinstance(accuracy, EstimateAccuracy):
        raise TypeError(type(accuracy).__name__)
    return accuracy


@frozen(eq=False)
class HistogramStrategy:
    """Sums of noisy counts, or of the nearest possible ones."""

    _estimate: Estimate
    _facts: Facts
    _consistent: bool

    @cached_property
    def _possible(self) -> Cells:
        cells = self._estimate.cells
        return Cells(cells.names, possible(cells.counts, self._facts))

    @property
    def distribution(self) -> SyntheticData:
        """Whole records with about the noisy counts. Free."""
        return self._records

    @cached_property
    def _records(self) -> SyntheticData:
        return records(self._facts.domain, self._possible.counts, self._facts)

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows. Free."""
        del kernel
        return self.told(form)

    def told(self, form: LinearForm) -> Measurement:
        """The same."""
        measurement = self._estimate.told(form, self._facts)
        if not self._consistent:
            return measurement
        before, values = _estimate(measurement.accuracy), self._possible.answers(form)
        projection = ConsistentAccuracy.of(before, form, self._facts)
        accuracy = ProjectedAccuracy(projection, before, np.abs(values - measurement.values))
        return Measurement(values, accuracy, "fitted")


def _to_consistent(value: bool) -> bool:  # noqa: FBT001 - a reader of an argument
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument("consistent", "True or False", shown(value))
    return bool(value)


@frozen(repr=False, cache_hash=True, kw_only=True)
class NoisyHistogram(DistributionMechanism):
    """Noisy counts of all cells of the universe, measured when it is opened; then all is free.

    Every linear query is answered as the sum of noisy counts of the cells that it weighs, with a
    proven bound that grows with the root of their number: exact for one cell and for sums of up to
    64 Laplace noises, close above the tail elsewhere. One row moves two cells by one under
    replace-one neighbours, one cell under add-remove. It answers best what weighs few cells; for
    the thresholds and intervals of one attribute open `Tree`.

    The channel's `distribution` is a public `SyntheticData` made of the noisy counts: whole,
    non-negative, and as many records as the table has, where that is public.

    Parameters
    ----------
    epsilon, delta
        The total: discrete Laplace noise that is `epsilon`-DP where delta is 0, else discrete
        Gaussian noise by the largest ρ that is certified for (ε, δ).
    rho
        Instead: discrete Gaussian noise that is ρ-zCDP.
    consistent
        Whether answers are read off non-negative counts, whose sum is no more than the number of
        rows where that is public, and is it where no row lies outside the domain: the nearest such
        counts to the noisy ones. That lowers most errors, and what is proven of them beforehand is
        weaker: the bound of a quote is then that of a projection. That of a release also knows how
        far an answer was moved.

    Raises
    ------
    InvalidArgument
        If the total is not given in one of these ways.
    TooLarge
        When opened or quoted, before anything is paid: if the universe has more than 2^24 cells.

    >>> from dpsdk.mechanisms import NoisyHistogram
    >>> NoisyHistogram(epsilon=1)
    NoisyHistogram(epsilon=1)
    """

    epsilon: Fraction | None = field(default=None, converter=to_epsilon)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta)
    rho: Fraction | None = field(default=None, converter=to_rho)
    consistent: bool = field(default=False, converter=_to_consistent)

    def __attrs_post_init__(self) -> None:
        self._noise()

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        facts = facts_of(terms)
        quote = quoted(form, terms, "NoisyHistogram", CellByCell.over(facts), self._noise())
        if not self.consistent:
            return quote
        accuracy = ConsistentAccuracy.of(_estimate(quote.accuracy), form, facts)
        return Quote(quote.at_open, quote.at_most, accuracy)

    def open(self, kernel: Kernel, /) -> HistogramStrategy:
        facts = kernel.facts
        estimate = measured(kernel, "NoisyHistogram", CellByCell.over(facts), self._noise())
        return HistogramStrategy(estimate, facts, self.consistent)

    def single(self, form: LinearForm, terms: Terms, /) -> Single[Measurement[NoiseAccuracy]]:
        """The one run that an answer takes."""
        facts = facts_of(terms)
        cells = CellByCell.over(facts)
        plain = single(form, facts, "NoisyHistogram", cells, self._noise())
        if not self.consistent:
            return plain

        def answered(found: Measurement[NoiseAccuracy]) -> Measurement:
            estimate = estimated(found, "NoisyHistogram", cells)
            return HistogramStrategy(estimate, facts, self.consistent).told(form)

        return Single(plain.request, answered)

    def _noise(self) -> Noise:
        return noise_for("NoisyHistogram", self.epsilon, self.delta, self.rho)

    def __repr__(self) -> str:
        total = total_in_words(self.epsilon, self.delta, self.rho)
        return f"NoisyHistogram({total}{', consistent=True' if self.consistent else ''})"
