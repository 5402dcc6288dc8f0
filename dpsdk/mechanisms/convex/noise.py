"""How large sums and lengths of measured noise are, but for a probability.

`Tails` speaks of numbers that were measured once (docs/explanation/proofs/excess.md, "Noise"): all
bounds are Chernoff's, by moment generating functions that are exact for discrete Laplace noise, and
those of the normal law for discrete Gaussian noise, which it is no wilder than. They hold at each
tilt, so that the best of a fixed list is taken. A `Concentration` speaks of the gradients of a
descent, each asked for after the last (docs/explanation/proofs/descent.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import numpy as np

from dpsdk._records import frozen
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpsdk.typing import Floats

__all__ = [
    "Concentration",
    "Cumulants",
    "GaussianConcentration",
    "LaplaceConcentration",
    "Tails",
    "scale_of",
]

Cumulants: TypeAlias = Callable[[Floats], Floats]
"""Upper bounds of log E exp(sX) at a list of tilts s > 0."""

_NORMAL_TILTS = np.geomspace(1e-2, 1e2, 400)
_HALF = np.geomspace(1e-3, 0.5, 60)
_SHARES = np.concatenate([_HALF, 1.0 - _HALF[-2::-1]])
"""Of the largest tilt at which an expectation is finite."""

_ROUND = 1.0 + 1e-9
"""The relative rounding of floats."""


def scale_of(law: NoiseLaw) -> float:
    """σ of Gaussian and b of Laplace noise, in steps; 0 of any other."""
    if isinstance(law, DiscreteGaussian):
        return math.sqrt(law.variance)
    return float(law.scale) if isinstance(law, DiscreteLaplace) else 0.0


@frozen
class Tails:
    """Independent noises of one law on measured numbers, and what rounded weights may add to each.

    The law is in steps, and all else in rows: what a step is, and the bias, by how much each number
    may be off beside its noise.
    """

    law: NoiseLaw
    step: float
    bias: float

    @classmethod
    def of(cls, accuracy: NoiseAccuracy) -> Tails:
        """Those of measured numbers."""
        return cls(accuracy.law, accuracy.step, accuracy.bias)

    @property
    def gaussian(self) -> bool:
        """True if the noise is Gaussian. Otherwise it is Laplace."""
        return isinstance(self.law, DiscreteGaussian)

    @property
    def scale(self) -> float:
        """σ of Gaussian and b of Laplace noise."""
        return self.step * scale_of(self.law)

    @property
    def _rate(self) -> float:
        """One over the scale of Laplace noise, in steps."""
        return float(1 / self.law.scale) if isinstance(self.law, DiscreteLaplace) else math.inf

    def cumulant(self, tilts: Floats) -> Floats:
        """Log E exp(sZ) of one noise, or an upper bound; infinite where there is none."""
        if self.gaussian or not self.scale:
            return 0.5 * np.square(self.scale * tilts)
        rate, moved = self._rate, np.abs(tilts) * self.step
        with np.errstate(divide="ignore", invalid="ignore"):
            low = np.log(-np.expm1(-(rate - moved)))
            result = 2.0 * math.log(-math.expm1(-rate)) - low - np.log(-np.expm1(-(rate + moved)))
        # The logarithms are close to one another where the tilt is small.
        return np.where(moved < rate, np.maximum(result, 0.0) + 1e-13, math.inf)

    def size_cumulant(self, tilts: Floats) -> Floats:
        """The same of |Z| for Laplace noise, for tilts of at least 0."""
        rate, moved = self._rate, tilts * self.step
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = math.log(-math.expm1(-rate)) - np.log(-np.expm1(-(rate - moved)))
            result = ends + np.log1p(np.exp(moved - rate)) - math.log1p(math.exp(-rate))
        return np.where(moved < rate, np.maximum(result, 0.0) + 1e-13, math.inf)

    def chernoff(self, cumulants: Cumulants, peak: float, beta: float) -> float:
        """The bound that X exceeds with probability beta at the most, by the cumulants of X.

        `peak` is the largest weight that a single noise has in X, in size.
        """
        if not peak * self.scale > 0.0:
            return 0.0
        shares = _NORMAL_TILTS if self.gaussian else _SHARES
        tilts = shares / (peak * self.scale)
        bounds = (math.log(1.0 / beta) + cumulants(tilts)) / tilts
        return float(np.nanmin(bounds)) * _ROUND

    def along(self, length: float, entries: int, beta: float) -> float:
        """The bound that Σ wᵢ·(Zᵢ and its bias) exceeds with probability beta at the most.

        For any fixed w of so many entries and no longer than `length`: it need not be known.
        """
        slack = self.bias * math.sqrt(entries) * length
        if self.gaussian:
            return self.scale * length * math.sqrt(2.0 * math.log(1.0 / beta)) * _ROUND + slack
        # Of all w so long the sum is wildest where one entry has it all.
        return self.chernoff(lambda tilts: self.cumulant(tilts * length), length, beta) + slack

    def length(self, entries: int, beta: float) -> float:
        """The bound of the length of so many noises, but for probability beta; bias included."""
        slack = self.bias * math.sqrt(entries)
        if self.gaussian:
            return self._normal_length(entries, beta) + slack
        # The square of a length is at most the sum of the sizes times the largest.
        several = self.chernoff(
            lambda tilts: entries * self.size_cumulant(tilts), float(entries > 0), beta / 2
        )
        largest = self.law.radius(beta / 2, entries) * self.step if entries else 0.0
        return math.sqrt(several * largest) * _ROUND + slack

    def _normal_length(self, entries: int, beta: float) -> float:
        """By E exp(η‖Z‖²) ≤ (1 − 2ησ²)^(−entries/2)."""
        if not entries:
            return 0.0
        bounds = (math.log(1.0 / beta) - 0.5 * entries * np.log1p(-_SHARES)) / _SHARES
        return self.scale * math.sqrt(2.0 * float(bounds.min())) * _ROUND


@frozen
class GaussianConcentration:
    """Noise vectors z_s of a run, sub-Gaussian with parameter `scale`, as the discrete Gaussian is.

    The scale of each may depend on all that was released before and is at most this one. Statements
    are of all vectors of the run, and each fails with probability exp(-t) at the most.
    """

    scale: float
    events: ClassVar[int] = 1
    """How many events `mean_square` rests on."""
    variances: ClassVar[float] = 1.0

    @property
    def proxy(self) -> float:
        """A variance proxy: half of it times the square of s bounds log E exp(sz)."""
        return self.variances * self.scale**2

    @property
    def unit(self) -> float:
        """That bound holds for s up to √½ over this."""
        return 0.0

    def linear(self, t: float, squares: float, peak: float) -> float:  # noqa: ARG002  # for Laplace
        """The bound of Σ ⟨a_s, z_s⟩, for a_s that the past determines.

        Their squared lengths sum to `squares` at the most, and no length exceeds `peak`.
        """
        return self.scale * math.sqrt(2.0 * t * squares)

    def mean_square(self, t: float, steps: int, dimension: int) -> float:
        """The bound of the average of w_s‖z_s‖², for weights from 0 to 1.

        Hsu, Kakade and Zhang (2012), theorem 2.1.
        """
        ratio = t / steps
        return self.scale**2 * (dimension + 2.0 * math.sqrt(dimension * ratio) + 2.0 * ratio)


@frozen
class LaplaceConcentration(GaussianConcentration):
    """The same of noise of the discrete Laplace law; by Bernstein's inequality."""

    events: ClassVar[int] = 2
    variances: ClassVar[float] = 4.0

    @property
    def unit(self) -> float:
        return self.scale

    def linear(self, t: float, squares: float, peak: float) -> float:
        return self.scale * (2.0 * math.sqrt(t * squares) + peak * t)

    def mean_square(self, t: float, steps: int, dimension: int) -> float:
        # While no entry is beyond a cut.
        cut = t + math.log(2.0 * steps * dimension)
        spread = 2.0 * math.sqrt(12.0 * dimension * t / steps) + cut**2 * t / (3.0 * steps)
        return self.scale**2 * (2.0 * dimension + spread)


Concentration: TypeAlias = GaussianConcentration | LaplaceConcentration
