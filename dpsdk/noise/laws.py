"""The laws of noise: public values that know their tails, and nothing of how they are drawn."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown, to_beta, to_fraction, to_within
from dpsdk._records import field, frozen
from dpsdk.codec import AMOUNT, NATURAL, written
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = [
    "KNOWN_LAWS",
    "MAX_SCALE",
    "MOST_ENTRIES",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "EuclideanLaplace",
    "Geometric",
    "NoiseLaw",
    "check_law",
]

MAX_SCALE = 1 << 55
"""The largest scale or sigma. Draws of it reach 2^62 with probability below 2^-183."""

_MAX_BITS = 1024
_SUMMED_SD = 1 << 6
_MAX_ENTRIES = 1 << 1000
_LEAST = sys.float_info.min


def _to_parameter(name: str, value: Real, largest: int, words: str) -> Fraction:
    expected = f"a number from 0 to {words}, of at most {_MAX_BITS} bits above and below the line"
    number = to_fraction(name, value, expected)
    above, below = number.numerator, number.denominator
    bits = max(above.bit_length(), below.bit_length())
    if bits > _MAX_BITS or not 0 <= above <= largest * below:
        raise InvalidArgument(name, expected, shown(value))
    return number


def _to_scale(value: Real) -> Fraction:
    return _to_parameter("scale", value, MAX_SCALE, "2^55")


def _to_variance(value: Real) -> Fraction:
    return _to_parameter("variance", value, MAX_SCALE**2, "2^110")


class NoiseLaw(ABC):
    """The law of one integer of noise Z.

    Laws are equal, and hash alike, where their parameters are. A parameter of zero means no noise.
    """

    __slots__ = ()

    @property
    def parameter(self) -> Fraction:
        """The scale, or of a Gaussian the variance."""
        raise NotImplementedError

    @abstractmethod
    def tail(self, radius: int) -> float:
        """P(|Z| > radius) for the discrete law; above the truth, or below by rounding only."""

    @abstractmethod
    def standard_deviation(self) -> float:
        """The standard deviation of Z, a few roundings off at most."""

    @abstractmethod
    def _guess(self, probability: float) -> float:
        """The point where the tail falls to `probability`, nearly."""

    def radius(self, beta: float, entries: int = 1) -> int:
        """The least radius that all of `entries` independent draws exceed with probability <= beta.

        That is the least r with P(max |Z| > r) <= beta, as `tail` computes it.

        Raises
        ------
        InvalidArgument
            If beta is not in (0, 1), or entries not an integer from 1 to 2^1000.
        """
        level = to_beta(beta)
        expected = "an integer from 1 to 2^1000"
        count = to_within("entries", entries, 1, _MAX_ENTRIES, expected)
        each = max(_LEAST, -math.expm1(math.log1p(-level) / count))
        if self.tail(0) <= each:
            return 0
        low, high = _bracket(self, each, max(0, math.ceil(self._guess(each))))
        while high - low > 1:
            middle = (low + high) // 2
            if self.tail(middle) <= each:
                high = middle
            else:
                low = middle
        return high


def _bracket(law: NoiseLaw, probability: float, guess: int) -> tuple[int, int]:
    """Radii (low, high) with tail(low) > probability >= tail(high), found outwards from a guess."""
    # Floats tell radii apart to a relative 2^-52, and a guess is off by a few such at the most.
    step = 1 + (guess >> 48)
    if law.tail(guess) > probability:
        low, high = guess, guess + step
        while law.tail(high) > probability:
            low, high, step = high, high + step, 4 * step
        return low, high
    low, high = max(0, guess - step), guess
    while low > 0 and law.tail(low) <= probability:
        low, high, step = max(0, low - step), low, 4 * step
    return low, high


@frozen(cache_hash=True)
class Geometric(NoiseLaw):
    """One-sided: P(z) proportional to exp(-z / scale) on 0, 1, 2, ...; scale as of Laplace."""

    scale: Fraction = field(converter=_to_scale)

    @property
    def parameter(self) -> Fraction:
        return self.scale

    def tail(self, radius: int) -> float:
        """exp(-(radius + 1) / scale)."""
        if radius < 0:
            return 1.0
        return _exp(radius + 1, self.scale)

    def standard_deviation(self) -> float:
        """1 / (2 sinh(1 / (2 scale)))."""
        return _inverse_sinh(self.scale) / 2

    def _guess(self, probability: float) -> float:
        return -float(self.scale) * math.log(probability) - 1

    def __str__(self) -> str:
        return f"geometric noise of scale {float(self.scale):.6g}"


@written("law.laplace", {"scale": AMOUNT}, public=False)
@frozen(cache_hash=True)
class DiscreteLaplace(NoiseLaw):
    """P(z) proportional to exp(-|z| / scale) on the integers, scale from 0 to 2^55.

    The two-sided geometric law of Ghosh, Roughgarden and Sundararajan (2012).
    """

    scale: Fraction = field(converter=_to_scale)

    @property
    def parameter(self) -> Fraction:
        return self.scale

    def tail(self, radius: int) -> float:
        """2 q^(radius+1) / (1 + q) with q = exp(-1 / scale)."""
        if radius < 0:
            return 1.0
        ratio = _exp(1, self.scale)
        return min(1.0, 2.0 * _exp(radius + 1, self.scale) / (1.0 + ratio))

    def standard_deviation(self) -> float:
        """1 / (sqrt(2) sinh(1 / (2 scale)))."""
        return _inverse_sinh(self.scale) / math.sqrt(2)

    def _guess(self, probability: float) -> float:
        scale = float(self.scale)
        return scale * (math.log(2.0 / (1.0 + _exp(1, self.scale))) - math.log(probability)) - 1

    def __str__(self) -> str:
        return f"discrete Laplace noise of scale {float(self.scale):.6g}"


def _exp(steps: int, scale: Fraction) -> float:
    """exp(-steps / scale), where scale 0 means a ratio without end."""
    numerator, denominator = scale.numerator, scale.denominator
    above = steps * denominator
    # Integers divide to the nearest float.
    return math.exp(-(above / numerator)) if above < 1000 * numerator else 0.0


def _inverse_sinh(scale: Fraction) -> float:
    """1 / sinh(1 / (2 scale)), whose limit at scale 0 is 0."""
    if scale < Fraction(1, 1400):
        return 0.0
    return 1.0 / math.sinh(float(1 / (2 * scale)))


@written("law.gaussian", {"variance": AMOUNT}, public=False)
@frozen(cache_hash=True)
class DiscreteGaussian(NoiseLaw):
    """P(z) proportional to exp(-z² / (2 variance)) on the integers, variance from 0 to 2^110.

    Canonne, Kamath and Steinke (2020). `variance` is the parameter sigma²; the variance of Z itself
    is a little smaller, noticeably so only below 1.
    """

    variance: Fraction = field(converter=_to_variance)

    @property
    def parameter(self) -> Fraction:
        return self.variance

    def tail(self, radius: int) -> float:
        """The sum of the tail where sigma is below 64, else an upper bound.

        The bound is erfc((radius + 1/2) / (sigma sqrt(2))): each unit cell of the density holds
        more than its midpoint where the density is convex, less where it is concave, and the two
        are told apart by |z| = sigma. It exceeds the tail by a relative (radius / sigma²)² / 24 or
        so: 10^-3 at ten deviations for sigma 64, 10^-6 for sigma 2^11.
        """
        if radius < 0:
            return 1.0
        if self.variance == 0:
            return 0.0
        variance = float(self.variance)
        radius = min(radius, 1 << 62)
        if variance >= _SUMMED_SD**2:
            return math.erfc((radius + 0.5) / math.sqrt(2 * variance))
        return min(1.0, 2 * _gaussian_sum(radius + 1, variance) / _gaussian_total(variance))

    def standard_deviation(self) -> float:
        """Root of the mean square; it is sigma to within rounding once sigma is above 4."""
        variance = float(self.variance)
        if variance > 16:
            return math.sqrt(variance)
        if variance < 1 / 1400:
            return 0.0
        z = np.arange(1.0, 200.0)
        weight = np.exp(-z * z / (2 * variance))
        return math.sqrt(2 * float(z @ (z * weight)) / (1 + 2 * float(weight.sum())))

    def _guess(self, probability: float) -> float:
        # Newton's steps on the logarithm of erfc(t / sqrt(2)), which is concave.
        log = -2 * math.log(probability)
        t = math.sqrt(max(0.0, log - math.log(1 + log)))
        for _ in range(4):
            tail = math.erfc(t / math.sqrt(2))
            hazard = math.sqrt(2 / math.pi) * math.exp(-t * t / 2) / tail
            t += math.log(tail / probability) / hazard
        return t * math.sqrt(float(self.variance)) - 0.5

    def __str__(self) -> str:
        return f"discrete Gaussian noise of sigma {math.sqrt(float(self.variance)):.6g}"


def _gaussian_sum(start: int, variance: float) -> float:
    """The sum of exp(-z² / (2 variance)) over z >= start, for start >= 1."""
    if start * start / (2 * variance) > 800:
        return 0.0
    # Beyond z² = start² + 90 variance the terms are below exp(-45) of the first.
    end = math.isqrt(math.ceil(start * start + 90 * variance)) + 2
    z = np.arange(start, end, dtype=np.float64)
    return float(np.exp(-(z * z) / (2 * variance)).sum())


def _gaussian_total(variance: float) -> float:
    """The sum over all integers; above 1 by Poisson's summation, which converges at once there."""
    if variance < 1:
        return 1 + 2 * _gaussian_sum(1, variance)
    dual = 2 * math.pi**2 * variance
    return math.sqrt(2 * math.pi * variance) * (1 + 2 * math.exp(-dual) + 2 * math.exp(-4 * dual))


MOST_ENTRIES = 24
"""Of one vector of Euclidean noise: of a proposal for so many, one in 600 is kept."""


def _to_entries(value: int) -> int:
    return to_within("entries", value, 1, MOST_ENTRIES, "an integer from 1 to 24")


@written("law.euclidean", {"scale": AMOUNT, "entries": NATURAL}, public=False)
@frozen(cache_hash=True)
class EuclideanLaplace(NoiseLaw):
    """P(z) proportional to exp(-ceil(|z|) / scale) on vectors z of integers, |z| their length.

    The law of one entry of z, all of which are drawn together: they are uncorrelated, and not
    independent. Up to a part of 1 / scale it is the law of Chaudhuri, Monteleoni and Sarwate
    (2011), whose length is a Gamma variable and whose direction is uniform.
    Tails are those of the length, and so of all entries at once
    (docs/explanation/proofs/noise.md).
    """

    scale: Fraction = field(converter=_to_scale)
    entries: int = field(converter=_to_entries)

    @property
    def parameter(self) -> Fraction:
        return self.scale

    def tail(self, radius: int) -> float:
        """At least the probability that |z| is above the radius."""
        if radius < 0:
            return 1.0
        scale, half = float(self.scale), math.sqrt(self.entries) / 2
        if not scale:
            return 0.0
        point, slack = (radius - half) / scale, (2 * half + 1) / scale
        if point <= 0.0 or slack > _STEEP:
            return 1.0
        terms = [k * math.log(point) - math.lgamma(k + 1) for k in range(self.entries)]
        exponents = [slack - point + term for term in terms]
        return min(1.0, math.fsum([math.exp(min(one, 1.0)) for one in exponents]))

    def radius(self, beta: float, entries: int = 1) -> int:
        """The least radius that the tail tells, which is of a whole vector at once."""
        return super().radius(beta, -(-entries // self.entries))

    def standard_deviation(self) -> float:
        """At least the root of the mean square of an entry; off by a part of 1 / scale."""
        scale, entries = float(self.scale), self.entries
        if not scale:
            return 0.0
        half = math.sqrt(entries) / 2
        slack = (2 * half + 1) / scale
        squared = entries * (entries + 1) * scale**2 + 2 * half * entries * scale + half**2
        return math.sqrt(squared / entries) * math.exp(slack / 2) if slack < _STEEP else math.inf

    def _guess(self, probability: float) -> float:
        return float(self.scale) * (self.entries - math.log(probability))

    def __str__(self) -> str:
        return f"Euclidean Laplace noise of scale {float(self.scale):.6g}"


_STEEP = 700.0

KNOWN_LAWS = frozenset({DiscreteLaplace, DiscreteGaussian, Geometric})
"""The laws of independent draws."""


def check_law(law: NoiseLaw) -> None:
    """Raise `InvalidArgument` for a law that there is no exact sampler for."""
    if type(law) not in KNOWN_LAWS:
        expected = "a DiscreteLaplace, DiscreteGaussian or Geometric law"
        raise InvalidArgument("law", expected, shown(law))
