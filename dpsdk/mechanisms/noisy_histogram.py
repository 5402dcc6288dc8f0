"""Noisy counts of all cells, once; every later answer is a sum of them, and free."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dpsdk._checks import to_flag
from dpsdk._records import evolve, field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import TooLarge
from dpsdk.forms import Facts, LinearForm
from dpsdk.hypothesis import SyntheticData
from dpsdk.kernel import Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import NO, TOTAL
from dpsdk.mechanisms.base import DistributionMechanism, built_in
from dpsdk.mechanisms.linear_accuracy import ConsistentAccuracy, LinearAccuracy, MovedAccuracy
from dpsdk.mechanisms.measured_once import Estimates, LeastSquares, Stack
from dpsdk.mechanisms.strategy_matrix import Cells, Product
from dpsdk.release import Measurement, Quote
from dpsdk.typing import Floats

__all__ = ["HistogramStrategy", "NoisyHistogram"]

CELL_LIMIT = 2**24
"""No histogram has more cells: 128 MiB for its counts, and a few times that while it is made."""


def nearest_possible(counts: Floats, facts: Facts) -> Floats:
    """The nearest counts, by the sum of squares, that a table of these facts could have."""
    most = float(facts.row_limit if facts.rows is None else facts.rows)
    clipped: Floats = np.maximum(counts, 0.0)
    exactly = facts.rows is not None and not facts.outside
    if not exactly and clipped.sum() <= most:
        return clipped
    flat = np.sort(counts, axis=None)[::-1]
    # The largest number of counts that stay positive when all are lowered alike.
    lowered = (np.cumsum(flat) - most) / np.arange(1, len(flat) + 1)
    last = int(np.flatnonzero(flat >= lowered)[-1])
    result: Floats = np.maximum(counts - lowered[last], 0.0)
    return result


def _records(domain: Domain, counts: Floats, facts: Facts) -> SyntheticData:
    """Whole records of such counts: sums over neighbouring cells change by less than one."""
    most = facts.row_limit if facts.rows is None else facts.rows
    ends = np.minimum(np.floor(np.cumsum(counts.reshape(-1)) + 0.5), most).astype(np.int64)
    if facts.rows is not None and not facts.outside:
        ends[-1] = most
    whole = np.diff(ends, prepend=0)
    beyond = None if not facts.outside else (0 if facts.rows is None else most - int(ends[-1]))
    if not ends[-1] and not beyond:
        # There is no table of no records to sample, so the likeliest cell has one.
        whole[int(np.argmax(counts))] = 1
    return SyntheticData.from_counts(domain, whole, outside_count=beyond)


@frozen(eq=False)
class HistogramStrategy(Estimates):
    """Answers as sums of noisy counts, or of the nearest possible ones."""

    @cached_property
    def _possible(self) -> Cells:
        (cells,) = self.estimate
        return Cells(cells.names, nearest_possible(cells.counts, self.facts))

    @property
    def distribution(self) -> SyntheticData:
        """Whole records with about the noisy counts. Free."""
        return self._synthetic

    @cached_property
    def _synthetic(self) -> SyntheticData:
        return _records(self.facts.domain, self._possible.counts, self.facts)

    def measurement(self, form: LinearForm) -> Measurement:
        found = self._unbiased(form)
        if not self.mechanism.consistent:
            return found
        values = self._possible.answers(form)
        projection = ConsistentAccuracy.of(found.accuracy, form, self.facts)
        accuracy = MovedAccuracy(found.accuracy, np.abs(values - found.values), projection)
        return Measurement(values, accuracy, "fitted")


def _to_consistent(value: bool) -> bool:  # noqa: FBT001 - a reader of an argument
    return to_flag("consistent", value)


@built_in("noisy-histogram", {**TOTAL, "consistent": NO})
@frozen(repr=False, cache_hash=True, kw_only=True)
class NoisyHistogram(LeastSquares[HistogramStrategy], DistributionMechanism):
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

    page = "explanation/proofs/combined.md"
    _strategy = HistogramStrategy

    consistent: bool = field(default=False, converter=_to_consistent)

    def _measured(self, terms: Terms, /) -> Stack:
        domain = facts_of(terms).domain
        if domain.size > CELL_LIMIT:
            advice = "declare coarser attributes, or open OnlinePMW"
            raise TooLarge("NoisyHistogram", domain.size, CELL_LIMIT, "cells", advice)
        return Stack.of(Product.cell_by_cell(domain, domain.names))

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        quote = super().quote(form, terms)
        if self.consistent and isinstance(quote.accuracy, LinearAccuracy):
            accuracy = ConsistentAccuracy.of(quote.accuracy, form, facts_of(terms))
            return evolve(quote, accuracy=accuracy)
        return quote

    def __repr__(self) -> str:
        return f"NoisyHistogram({self._total}{', consistent=True' if self.consistent else ''})"
