"""Noisy counts made possible ones: the nearest that some table could have."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import kept
from dpsdk.domain import Domain
from dpsdk.forms import Facts, LinearForm
from dpsdk.hypothesis import SyntheticData
from dpsdk.mechanisms.combined import Combination, CombinedNoise
from dpsdk.mechanisms.estimates import EstimateAccuracy
from dpsdk.noise import NoiseLaw
from dpsdk.noise.laws import Plain, from_plain, to_plain
from dpsdk.release import HalfWidths, Standing
from dpsdk.typing import Floats

__all__ = ["ConsistentAccuracy", "ProjectedAccuracy", "possible", "records"]

_ROUND = 1 + 1e-9
"""What floats may round off in a bound."""


def possible(counts: Floats, facts: Facts) -> Floats:
    """The nearest counts, by the sum of squares, that a table of these facts could have.

    They are non-negative. Where the number of rows is public and no row lies outside the domain,
    they sum to it; otherwise they sum to no more than it, or than the limit of rows.
    """
    most = float(facts.row_limit if facts.rows is None else facts.rows)
    clipped: Floats = np.maximum(counts, 0.0)
    exactly = facts.rows is not None and not facts.outside
    if not exactly and clipped.sum() <= most:
        return clipped
    flat = np.sort(counts, axis=None)[::-1]
    # The largest number of counts that stay positive when all are lowered alike.
    lowered = (np.cumsum(flat) - most) / np.arange(1, len(flat) + 1)
    kept = int(np.flatnonzero(flat >= lowered)[-1])
    result: Floats = np.maximum(counts - lowered[kept], 0.0)
    return result


def records(domain: Domain, counts: Floats, facts: Facts) -> SyntheticData:
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


@frozen
class ConsistentAccuracy(HalfWidths):
    """Answers read off the nearest possible counts; see docs/explanation/proofs/combined.md."""

    _law: Plain = field(converter=to_plain, alias="law")
    step: float
    cells: int
    exactly: bool
    """Whether possible counts have a known sum."""
    combination: Combination
    signed: Floats = field(converter=kept, eq=cmp_using(eq=np.array_equal), hash=False)
    """One for each answer that has weights of both signs, zero for the others."""
    kind: str = field(init=False, default="projection of noisy counts on possible ones")
    standing: Standing = field(init=False, default="proven")

    @property
    def law(self) -> NoiseLaw:
        """The law of the noise of each count, in steps; a copy."""
        return from_plain(self._law)

    @classmethod
    def of(cls, accuracy: EstimateAccuracy, form: LinearForm, facts: Facts) -> ConsistentAccuracy:
        """That of a form, from the accuracy of the same answers before the projection."""
        exactly = facts.rows is not None and not facts.outside
        combination = accuracy.reconstruction.combine(form)
        low, high = form.extents()
        signed = ((low < 0) & (high > 0)).astype(np.float64)
        return cls(accuracy.law, accuracy.step, facts.domain.size, exactly, combination, signed)

    @cached_property
    def _norms(self) -> tuple[Floats, Floats]:
        """For each answer the sum of its absolute weights, or more, and the root of their squares.

        Where the sum of all counts is known, an indicator is off as far as its complement is.
        """
        squares, peaks, counts = (
            self.combination.squares, self.combination.peaks, self.combination.counts,
        )  # fmt: skip
        if self.exactly:
            # Weights of one and minus one have these norms too, but no such complement.
            indicators = (squares == counts) & (peaks <= 1) & (self.signed == 0)
            fewer = np.where(indicators, np.minimum(counts, self.cells - counts), counts)
            squares = np.where(indicators, fewer, squares)
            counts = fewer
        return np.sqrt(counts * squares), np.sqrt(squares)

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows; one event bounds all answers."""
        del joint
        law = from_plain(self._law)
        largest = law.radius(beta / 2, self.cells) * self.step
        variance = (law.standard_deviation() * self.step) ** 2
        level, square = math.log(2 / beta), largest**2
        third = level * square / 3
        beyond = third + math.sqrt(third**2 + 2 * level * self.cells * variance * square)
        distance = math.sqrt(self.cells * variance + beyond)
        sums, roots = self._norms
        result: Floats = np.minimum(2 * largest * sums, distance * roots) * _ROUND
        return result


@frozen
class ProjectedAccuracy(HalfWidths):
    """The same once the counts are there: also by how far the projection moved each answer.

    The truth is within the bound of an answer before it was moved, and how far it was moved is
    public. Half of what may fail goes to that, and half to the bound of the projection; the smaller
    of the two holds.
    """

    projection: ConsistentAccuracy
    before: EstimateAccuracy | CombinedNoise
    distances: Floats = field(
        converter=kept, eq=cmp_using(eq=np.array_equal), hash=False, repr=False
    )
    kind: str = field(
        init=False, default="projection of noisy counts on possible ones, and how far it moved them"
    )
    standing: Standing = field(init=False, default="proven")

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        moved = self.before.radii(beta / 2, joint=joint) + self.distances
        result: Floats = np.minimum(self.projection.radii(beta / 2, joint=joint), moved * _ROUND)
        return result
