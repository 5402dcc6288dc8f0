"""Bounds of linear functions of independent discrete noise, each and all at once.

The theorems are in docs/explanation/proofs/combined.md: the exact tail of a sum of discrete Laplace
noises, Chernoff's bound for any weights, and the normal tail of a sum of wide discrete Gaussians.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Protocol, cast

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._records import cmp_using, evolve, field, frozen
from dpsdk.accuracy import LAW, SIZE, SIZES, are_within
from dpsdk.codec import (
    FLAG,
    JSON,
    PACKED_FLOATS,
    PACKED_INTS,
    POSITIVE,
    Codebook,
    Entry,
    ListOf,
    Member,
    Nested,
    OrNone,
    Plain,
    written,
)
from dpsdk.errors import WireError
from dpsdk.forms import Facts, LinearForm
from dpsdk.forms.factors import Factor
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpsdk.release import HalfWidths, Standing
from dpsdk.typing import Floats, Ints

__all__ = [
    "Combination",
    "Combines",
    "ConsistentAccuracy",
    "LinearAccuracy",
    "MovedAccuracy",
    "bernstein_length",
]

_ROUND = 1 + 1e-9
"""The rounding of floats in a bound."""

_SUMMED = 64
"""Of so many noises of one size the tail of the sum is computed, not bounded."""

_SUMMED_SCALE = 2**12
"""Up to this scale that is exact to nine digits."""

_DISTINCT = 64
"""So many different numbers of noises are computed for one answer."""

_WIDE = 64.0
"""From this variance on, discrete Gaussian noise becomes a normal one by little more noise."""

_BLUR = 2.0
"""The variance of that noise."""

_CHUNK = 2**14

_SHIFTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)

_HALVES = np.geomspace(1e-5, 0.5, 96)
_TILTS: Floats = np.concatenate([_HALVES, 1 - _HALVES[-2::-1]])
"""The points of Chernoff's bound, as shares of the inverse scale."""


@frozen
class Combination(Lasting):
    """The weights of independent noises in numbers: their squares in sum, the largest, how many."""

    squares: Floats = field(converter=frozen_copy, eq=cmp_using(eq=np.array_equal), hash=False)
    peaks: Floats = field(converter=frozen_copy, eq=cmp_using(eq=np.array_equal), hash=False)
    counts: Floats = field(converter=frozen_copy, eq=cmp_using(eq=np.array_equal), hash=False)

    @classmethod
    def of(cls, weights: Floats) -> Combination:
        """The combination of an array of weights (numbers, noises)."""
        absolute = np.abs(weights)
        squares = np.einsum("rn,rn->r", weights, weights)
        return cls(squares, absolute.max(axis=1), (absolute > 0).sum(axis=1).astype(np.float64))

    @classmethod
    def of_factor(cls, factor: Factor) -> Combination:
        """The combination of a factor on independent noises; ones are counted, not written."""
        low, high = factor.extents()
        return cls(factor.row_norms(2), np.maximum(-low, high), factor.row_norms(0))

    @classmethod
    def of_ones(cls, lengths: Floats) -> Combination:
        """So many weights of one in each number."""
        return cls(lengths, (lengths > 0).astype(np.float64), lengths)

    @classmethod
    def stack(cls, parts: Iterable[Combination]) -> Combination:
        """Several lists of numbers, one after the other."""
        columns = zip(*[part.columns for part in parts], strict=True)
        return cls(*map(np.concatenate, columns))

    @property
    def columns(self) -> tuple[Floats, Floats, Floats]:
        """Squares, peaks and counts."""
        return self.squares, self.peaks, self.counts

    def outer(self, other: Combination) -> Combination:
        """The products of each number's weights with each one's of another."""
        pairs = zip(self.columns, other.columns, strict=True)
        return Combination(*[np.outer(mine, theirs).ravel() for mine, theirs in pairs])

    def times(self, other: Combination) -> Combination:
        """The products of each number's weights with those in the same place of another."""
        pairs = zip(self.columns, other.columns, strict=True)
        return Combination(*[mine * theirs for mine, theirs in pairs])

    def scaled(self, scales: Floats | float) -> Combination:
        """The same weights, multiplied by one scale for each number, or for all."""
        peaks = np.abs(scales)
        return Combination(
            self.squares * peaks**2, self.peaks * peaks, self.counts * np.asarray(peaks > 0)
        )


class Combines(Protocol):
    """A rule by which the noise of measured numbers adds up in answers."""

    def combine(self, form: LinearForm, /) -> Combination:
        """The weights of the measured numbers in the answers to a form."""
        ...


def _identity(form: LinearForm) -> bytes:
    return form.identity


@frozen
class _Pending:
    """A combination that is computed when it is first asked for."""

    matrix: Combines
    form: LinearForm = field(eq=_identity, repr=False)

    def same(self, other: object) -> bool:
        """Return whether it is the same, without the identity of a form that both have."""
        alike = isinstance(other, _Pending) and self.form is other.form
        return self.matrix == cast("_Pending", other).matrix if alike else self == other


class _CombinationField:
    """Each way in which noises add up once, and which it is for each of the numbers."""

    _entry = Entry(ways=ListOf(SIZES, least=3, most=3), places=PACKED_INTS)

    def write(self, value: Combination, path: str, codebook: Codebook, /) -> Plain:
        columns = np.stack(value.columns)
        ways, places = np.unique(columns, axis=1, return_inverse=True)
        return self._entry.write((list(ways), places.reshape(-1)), path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Combination:
        read = cast("tuple[tuple[Floats, ...], Ints]", self._entry.read(plain, path, codebook))
        ways, places = read
        count = len(ways[0])
        if any(len(way) != count for way in ways) or not are_within(places, 0, count):
            raise WireError(path, "squares, peaks and counts of each way, and its places", "others")
        value = Combination(*[way[places] for way in ways])
        if self.write(value, path, codebook) != plain:
            raise WireError(path, "each way once, in order", "others")
        return value

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._entry.schema(codebook)


COMBINATION = _CombinationField()
"""A combination, as a member of written forms."""


@written("accuracy.combined", {"law": LAW, "step": SIZE, "combination": COMBINATION}, public=False)
@frozen
class LinearAccuracy(HalfWidths):
    """Answers that are linear functions of independent discrete noise of one law.

    A number of one noise has the exact tail of the law, and so has a sum of a few discrete Laplace
    noises of one weight; others have proven bounds. How the noise adds up is computed when a bound
    is asked for.
    """

    law: NoiseLaw
    """The law of each noise, in units of the step."""
    step: float
    """One unit of the law, in rows."""
    _weights: Combination | _Pending = field(alias="combination", repr=False)
    kind: str = field(init=False, default="proven tail of a sum of discrete noises")
    standing: Standing = field(init=False, default="proven")

    @classmethod
    def of(cls, law: NoiseLaw, step: float, matrix: Combines, form: LinearForm) -> LinearAccuracy:
        """The accuracy of the answers to a form from what was measured of a strategy matrix."""
        return cls(law, step, _Pending(matrix, form))

    @property
    def entries(self) -> int:
        """How many numbers it is of."""
        return len(self.combination.squares)

    @cached_property
    def combination(self) -> Combination:
        """The weights of the noises in each answer."""
        weights = self._weights
        return weights.matrix.combine(weights.form) if isinstance(weights, _Pending) else weights

    def computed(self) -> LinearAccuracy:
        """The same, made of numbers alone and not of a form."""
        return LinearAccuracy(self.law, self.step, self.combination)

    def share(self, other: LinearAccuracy) -> None:
        """Take over the combination of an accuracy of the same answers under other noise."""
        if isinstance(self._weights, _Pending) and self._weights.same(other._weights):
            object.__setattr__(self, "combination", other.combination)

    @property
    def variances(self) -> Floats:
        """The variance of each number, in squared rows."""
        deviation = self.law.standard_deviation() * self.step
        result: Floats = self.combination.squares * deviation**2
        return result

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        squares, peaks, counts = self.combination.columns
        noisy = squares > 0
        single = noisy & (counts == 1)
        each = beta
        if joint and (several := int(noisy.sum())) > 1:
            alone = bool((single == noisy).all())
            # Single noises are independent or the same, so that all are within with the product.
            each = -math.expm1(math.log1p(-beta) / several) if alone else beta / several
        each = max(each, 1e-300)
        radii = np.zeros(len(squares))
        if single.any():
            radii[single] = peaks[single] * self.law.radius(each)
        sums = noisy & ~single
        if sums.any():
            if isinstance(self.law, DiscreteGaussian):
                radii[sums] = np.sqrt(squares[sums]) * _gaussian(self.law.variance, each)
            elif isinstance(self.law, DiscreteLaplace):
                ratios = squares[sums] / peaks[sums] ** 2
                radii[sums] = peaks[sums] * _laplace(self.law, ratios, counts[sums], each)
        return radii * self.step


def _unsigned(accuracy: ConsistentAccuracy) -> str:
    return "" if len(accuracy.signed) == accuracy.entries else "a sign for each number"


@written(
    "accuracy.consistent",
    {
        "law": LAW,
        "step": SIZE,
        "cells": POSITIVE,
        "exactly": FLAG,
        "combination": COMBINATION,
        "signed": PACKED_FLOATS,
    },
    wrong=_unsigned,
    public=False,
)
@frozen
class ConsistentAccuracy(HalfWidths):
    """Answers read off the nearest possible counts; see docs/explanation/proofs/combined.md."""

    law: NoiseLaw
    """The law of the noise of each count, in steps."""
    step: float
    cells: int
    exactly: bool
    """True if possible counts have a known sum."""
    combination: Combination
    signed: Floats = field(converter=frozen_copy, eq=cmp_using(eq=np.array_equal), hash=False)
    """One for each answer that has weights of both signs, zero for the others."""
    kind: str = field(init=False, default="projection of noisy counts on possible ones")
    standing: Standing = field(init=False, default="proven")

    @property
    def entries(self) -> int:
        """How many numbers it is of."""
        return len(self.combination.squares)

    @classmethod
    def of(cls, accuracy: LinearAccuracy, form: LinearForm, facts: Facts) -> ConsistentAccuracy:
        """The accuracy of a form, from that of the same answers before the projection."""
        exactly = facts.rows is not None and not facts.outside
        low, high = form.extents()
        signed = ((low < 0) & (high > 0)).astype(np.float64)
        combination = accuracy.combination
        return cls(accuracy.law, accuracy.step, facts.domain.size, exactly, combination, signed)

    @cached_property
    def _norms(self) -> tuple[Floats, Floats]:
        """Each answer's sum of absolute weights, or more, and the root of their squares."""
        squares, peaks, counts = self.combination.columns
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
        largest, distance = bernstein_length(self.law, self.step, self.cells, beta)
        sums, roots = self._norms
        result: Floats = np.minimum(2 * largest * sums, distance * roots) * _ROUND
        return result


def _unlike(accuracy: MovedAccuracy) -> str:
    parts = [one for one in (accuracy.before, accuracy.projection) if one is not None]
    alike = all(one.entries == accuracy.entries for one in parts)
    return "" if alike else "accuracies of as many numbers as there are distances"


@written(
    "accuracy.moved",
    {
        "before": Nested[LinearAccuracy]("an accuracy", LinearAccuracy),
        "distances": SIZES,
        "projection": Member(
            OrNone(Nested[ConsistentAccuracy]("an accuracy", ConsistentAccuracy)), None
        ),
    },
    wrong=_unlike,
    public=False,
)
@frozen
class MovedAccuracy(HalfWidths):
    """Answers that were moved to possible ones near them, by distances that are public.

    The truth is within the bound of an answer before it was moved; so it is within that and the
    distance. Where the bound of a projection is known too, half of what may fail goes to each, and
    the smaller of the two holds.
    """

    before: LinearAccuracy
    distances: Floats = field(
        converter=frozen_copy, eq=cmp_using(eq=np.array_equal), hash=False, repr=False
    )
    projection: ConsistentAccuracy | None = None
    standing: Standing = field(init=False, default="proven")

    @property
    def kind(self) -> str:  # type: ignore[override]  # derived here, a field elsewhere
        """The basis of the bound."""
        if self.projection is None:
            return "bound of the unbiased answer, and its distance from the possible one"
        return f"{self.projection.kind}, and how far it moved them"

    @property
    def entries(self) -> int:
        """How many numbers it is of."""
        return len(self.distances)

    def computed(self) -> MovedAccuracy:
        """The same, made of numbers alone."""
        return evolve(self, before=self.before.computed())

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        level = beta if self.projection is None else beta / 2
        moved: Floats = self.before.radii(level, joint=joint) + self.distances
        if self.projection is not None:
            moved = np.minimum(self.projection.radii(level, joint=joint), moved * _ROUND)
        return moved


@lru_cache(1024)
def _gaussian(variance: Fraction, beta: float) -> float:
    """How far a sum of discrete Gaussian noises with squared weights of sum 1 lies, but for beta.

    Chernoff's bound holds at any variance: such noise is no wilder than the normal law of the same
    parameter. Wide noise plus normal noise of variance 2 is normal to 16 digits, and that little
    noise is at least minus so many deviations with a probability that divides.
    """
    least = math.sqrt(2 * float(variance) * math.log(2 / beta))
    if variance >= _WIDE:
        normal = NormalDist()
        wide, blur = math.sqrt(float(variance) + _BLUR), math.sqrt(_BLUR)
        for shift in _SHIFTS:
            level = beta / 2 * normal.cdf(shift) * (1 - 1e-8)
            least = min(least, -normal.inv_cdf(level) * wide + shift * blur)
    return least * _ROUND


def _laplace(law: DiscreteLaplace, ratios: Floats, counts: Floats, beta: float) -> Floats:
    """The same for discrete Laplace noises whose largest weight is 1."""
    scale = float(law.scale)
    unique, places = np.unique(ratios, return_inverse=True)
    radii = np.concatenate(
        [_chernoff(unique[i : i + _CHUNK], scale, beta) for i in range(0, len(unique), _CHUNK)]
    )[places.reshape(-1)]
    alike = (ratios == counts) & (counts <= _SUMMED)
    few = np.unique(counts[alike])
    if scale <= _SUMMED_SCALE and len(few) <= _DISTINCT:
        for count in few.tolist():
            radii[alike & (counts == count)] = _summed_radius(law, int(count), beta)
    return radii


def _chernoff(ratios: Floats, scale: float, beta: float) -> Floats:
    """Chernoff's bound at the best of a list of tilts; it holds at each."""
    whole = math.log(-math.expm1(-1 / scale)) * 2
    low = np.log(-np.expm1(-(1 - _TILTS) / scale))
    high = np.log(-np.expm1(-(1 + _TILTS) / scale))
    logs = np.maximum(whole - low - high, 0.0) + 1e-14
    bounds = (np.outer(ratios, logs) + math.log(2 / beta)) / (_TILTS / scale)
    result: Floats = bounds.min(axis=1) * _ROUND
    return result


@lru_cache(4096)
def _summed_radius(law: DiscreteLaplace, count: int, beta: float) -> int:
    """The least radius that a sum of so many discrete Laplace noises exceeds with beta at most."""
    scale = float(law.scale)
    tail = summed_tail(scale, count)
    low, high = -1, max(1, math.ceil(float(_chernoff(np.array([count]), scale, beta)[0])))
    while high - low > 1:
        middle = (low + high) // 2
        if tail(middle) <= beta:
            high = middle
        else:
            low = middle
    return high


@frozen
class _SummedTail:
    """P(|S| > radius) for a sum S of discrete Laplace noises, by a mixture of positive terms."""

    ratio: float
    shares: Floats

    def __call__(self, radius: int) -> float:
        # Loaded here, so that the package can be imported without scipy.
        from scipy.special import betainc  # noqa: PLC0415

        left = np.arange(len(self.shares), 0, -1)
        beyond = betainc(float(radius + 1), left.astype(np.float64), self.ratio)
        return min(1.0, 2 * float(self.shares @ beyond) * _ROUND)


@lru_cache(1024)
def summed_tail(scale: float, count: int) -> _SummedTail:
    """The tail of the absolute sum of `count` independent discrete Laplace noises."""
    ratio = math.exp(-1 / scale)
    one = ratio**2 / (1 + ratio) ** np.arange(1.0, count + 1)
    one[0] += -math.expm1(-1 / scale)
    shares = np.array([1.0])
    power, left = one, count
    while left:
        if left & 1:
            shares = np.convolve(shares, power)[:count]
        power, left = np.convolve(power, power)[:count], left >> 1
    return _SummedTail(ratio, shares)


def bernstein_length(law: NoiseLaw, step: float, count: int, beta: float) -> tuple[float, float]:
    """With probability 1 - beta, the largest of so many noises, and the length of all of them."""
    largest = law.radius(beta / 2, count) * step
    variance = (law.standard_deviation() * step) ** 2
    level = math.log(2 / beta)
    third = level * largest**2 / 3
    beyond = third + math.sqrt(third**2 + 2 * level * count * variance * largest**2)
    return largest, math.sqrt(count * variance + beyond)
