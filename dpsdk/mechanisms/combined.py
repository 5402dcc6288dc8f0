"""How far a weighted sum of independent discrete noises may be off, with proofs in a note.

The theorems are in docs/explanation/proofs/combined.md: the exact tail of a sum of discrete Laplace
noises, Chernoff's bound for any weights, and the normal tail of a sum of wide discrete Gaussians.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import Lasting, kept
from dpsdk.noise import NoiseLaw
from dpsdk.noise.laws import Plain, from_plain, to_plain
from dpsdk.release import HalfWidths, Standing
from dpsdk.typing import Floats

__all__ = ["CombinedNoise", "Combination"]

_ROUND = 1 + 1e-9
"""What floats may round off in a bound."""

_SUMMED = 64
"""Of so many noises of one size the tail of the sum is worked out, not bounded."""

_SUMMED_SCALE = 2**12
"""Up to this scale that is exact to nine digits."""

_DISTINCT = 64
"""So many different numbers of noises are worked out for one answer."""

_WIDE = 64.0
"""From this variance on, discrete Gaussian noise becomes a normal one by little more noise."""

_BLUR = 2.0
"""The variance of that noise."""

_CHUNK = 2**14

_SHIFTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)

_HALVES = np.geomspace(1e-5, 0.5, 96)
_TILTS: Floats = np.concatenate([_HALVES, 1 - _HALVES[-2::-1]])
"""Where Chernoff's bound is looked at, as shares of the inverse scale."""


@frozen
class Combination(Lasting):
    """The weights that independent noises have in some numbers, by what bounds need of them.

    Parameters
    ----------
    squares
        For each number the sum of the squares of its weights: with unit noise its variance.
    peaks
        The largest absolute weight.
    counts
        How many weights are not zero.
    """

    squares: Floats = field(converter=kept, eq=cmp_using(eq=np.array_equal), hash=False)
    peaks: Floats = field(converter=kept, eq=cmp_using(eq=np.array_equal), hash=False)
    counts: Floats = field(converter=kept, eq=cmp_using(eq=np.array_equal), hash=False)

    @classmethod
    def of(cls, weights: Floats) -> Combination:
        """That of an array of weights (numbers, noises)."""
        absolute = np.abs(weights)
        squares = np.einsum("rn,rn->r", weights, weights)
        return cls(squares, absolute.max(axis=1), (absolute > 0).sum(axis=1).astype(np.float64))

    @classmethod
    def stack(cls, parts: list[Combination]) -> Combination:
        """Those of several lists of numbers, one after the other."""
        return cls(
            np.concatenate([part.squares for part in parts]),
            np.concatenate([part.peaks for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )


@frozen
class CombinedNoise(HalfWidths):
    """Sums of independent noises of one law, each with weights of its own.

    `step` is what one unit of the law is in rows. A number of one noise has the exact tail of the
    law, and so has a sum of a few discrete Laplace noises of one weight; others have proven bounds.
    """

    _law: Plain = field(converter=to_plain, alias="law")
    step: float
    combination: Combination
    kind: str = field(init=False, default="proven tail of a sum of discrete noises")
    standing: Standing = field(init=False, default="proven")

    @property
    def law(self) -> NoiseLaw:
        """The law of each noise, in units of the step; a copy."""
        return from_plain(self._law)

    @property
    def variances(self) -> Floats:
        """The variance of each number, in squared rows."""
        deviation = from_plain(self._law).standard_deviation() * self.step
        result: Floats = self.combination.squares * deviation**2
        return result

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        squares, peaks, counts = (
            self.combination.squares, self.combination.peaks, self.combination.counts,
        )  # fmt: skip
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
            radii[single] = peaks[single] * from_plain(self._law).radius(each)
        sums = noisy & ~single
        if sums.any():
            kind, above, below = self._law
            if kind == "gaussian":
                radii[sums] = np.sqrt(squares[sums]) * _gaussian(Fraction(above, below), each)
            else:
                radii[sums] = peaks[sums] * _laplace(
                    self._law, squares[sums] / peaks[sums] ** 2, counts[sums], each
                )
        return radii * self.step


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


def _laplace(law: Plain, ratios: Floats, counts: Floats, beta: float) -> Floats:
    """The same for discrete Laplace noises whose largest weight is 1.

    `ratios` are the sums of squared weights; where that is their number, all are 1.
    """
    scale = law[1] / law[2]
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
def _summed_radius(law: Plain, count: int, beta: float) -> int:
    """The least radius that a sum of so many discrete Laplace noises exceeds with beta at most."""
    tail = summed_tail(law[1] / law[2], count)
    low, high = -1, max(1, math.ceil(float(_chernoff(np.array([count]), law[1] / law[2], beta)[0])))
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
