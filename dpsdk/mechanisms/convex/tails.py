"""How large sums, lengths and matrices of measured noise are, but for a probability.

Theorems (docs/explanation/proofs/excess.md, "Noise"). All bounds are Chernoff's, by moment
generating functions that are exact for discrete Laplace noise, and those of the normal law for
discrete Gaussian noise, which it is no wilder than. They hold at each tilt, so that the best of a
fixed list is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from attrs import field, frozen

from dpsdk.accuracy import NoiseAccuracy
from dpsdk.noise import NoiseLaw
from dpsdk.noise.laws import Plain, from_plain, to_plain
from dpsdk.typing import Floats

__all__ = ["Cumulants", "Tails"]

Cumulants: TypeAlias = Callable[[Floats], Floats]
"""Upper bounds of log E exp(sX) at a list of tilts s > 0."""

_NORMAL_TILTS = np.geomspace(1e-2, 1e2, 400)
_HALF = np.geomspace(1e-3, 0.5, 60)
_SHARES = np.concatenate([_HALF, 1.0 - _HALF[-2::-1]])
"""Of the largest tilt at which an expectation is finite."""

_ROUND = 1.0 + 1e-9
"""What floats may round off, relatively."""


@frozen
class Tails:
    """Independent noises of one law on measured numbers, and what rounded weights may add to each.

    Everything is in rows.

    Parameters
    ----------
    law
        Of each noise, in steps.
    step
        What a step is.
    bias
        By how much each number may be off beside its noise.
    """

    _law: Plain = field(converter=to_plain, alias="law")
    step: float
    bias: float

    @classmethod
    def of(cls, accuracy: NoiseAccuracy) -> Tails:
        """Those of measured numbers."""
        return cls(accuracy.law, accuracy.step, accuracy.bias)

    @property
    def law(self) -> NoiseLaw:
        """The law of each noise, in steps; a copy."""
        return from_plain(self._law)

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian. Otherwise it is Laplace."""
        return self._law[0] == "gaussian"

    @property
    def scale(self) -> float:
        """The parameter of the law, which is σ of Gaussian and b of Laplace noise."""
        number = self._law[1] / self._law[2]
        return self.step * (math.sqrt(number) if self.gaussian else number)

    def cumulant(self, tilts: Floats) -> Floats:
        """Log E exp(sZ) of one noise, or an upper bound; infinite where there is none."""
        if self.gaussian or not self.scale:
            return 0.5 * np.square(self.scale * tilts)
        rate = self._law[2] / self._law[1]
        moved = np.abs(tilts) * self.step
        with np.errstate(divide="ignore", invalid="ignore"):
            low = np.log(-np.expm1(-(rate - moved)))
            found = 2.0 * math.log(-math.expm1(-rate)) - low - np.log(-np.expm1(-(rate + moved)))
        # The logarithms are close to one another where the tilt is small.
        return np.where(moved < rate, np.maximum(found, 0.0) + 1e-13, math.inf)

    def size_cumulant(self, tilts: Floats) -> Floats:
        """The same of |Z|, for tilts of at least 0."""
        if self.gaussian or not self.scale:
            return self.cumulant(tilts) + math.log(2.0) * (self.scale > 0.0)
        rate = self._law[2] / self._law[1]
        moved = tilts * self.step
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = math.log(-math.expm1(-rate)) - np.log(-np.expm1(-(rate - moved)))
            found = ends + np.log1p(np.exp(moved - rate)) - math.log1p(math.exp(-rate))
        return np.where(moved < rate, np.maximum(found, 0.0) + 1e-13, math.inf)

    def chernoff(self, cumulants: Cumulants, peak: float, beta: float) -> float:
        """What X exceeds with probability beta at the most, for what is known of E exp(sX).

        Parameters
        ----------
        cumulants
            Of X.
        peak
            The largest weight that a single noise has in X, in size.
        """
        if not peak * self.scale > 0.0:
            return 0.0
        shares = _NORMAL_TILTS if self.gaussian else _SHARES
        tilts = shares / (peak * self.scale)
        bounds = (math.log(1.0 / beta) + cumulants(tilts)) / tilts
        return float(np.nanmin(bounds)) * _ROUND

    def sum(self, weights: Floats, beta: float) -> float:
        """What Σ wᵢZᵢ exceeds with probability beta at the most, on one side; without the bias."""
        if self.gaussian:
            length = float(np.linalg.norm(weights))
            return self.scale * length * math.sqrt(2.0 * math.log(1.0 / beta)) * _ROUND
        return self.chernoff(
            lambda tilts: self.cumulant(np.multiply.outer(tilts, weights)).sum(axis=1),
            float(np.abs(weights).max(initial=0.0)),
            beta,
        )

    def sizes(self, weights: Floats, beta: float) -> float:
        """What Σ wᵢ|Zᵢ| exceeds with probability beta at the most, w ≥ 0; without the bias."""
        return self.chernoff(
            lambda tilts: self.size_cumulant(np.multiply.outer(tilts, weights)).sum(axis=1),
            float(weights.max(initial=0.0)),
            beta,
        )

    def length(self, entries: int, beta: float) -> float:
        """What the length of so many noises exceeds with probability beta at the most, bias too."""
        slack = self.bias * math.sqrt(entries)
        if self.gaussian:
            return self._normal_length(np.ones(entries), beta) + slack
        # The square of a length is at most the sum of the sizes times the largest.
        several = self.sizes(np.ones(entries), beta / 2)
        largest = self.law.radius(beta / 2, entries) * self.step
        return math.sqrt(several * largest) * _ROUND + slack

    def mapped_length(self, matrix: Floats, beta: float) -> float:
        """The same for the length of a matrix times the noises, one a column."""
        values = np.linalg.svd(matrix, compute_uv=False)
        slack = self.bias * float(np.linalg.norm(matrix, axis=0).sum())
        if self.gaussian:
            return self._normal_length(np.square(values), beta) + slack
        whole = float(values[0]) * Tails(self.law, self.step, 0.0).length(matrix.shape[1], beta)
        return min(whole, self.sizes(np.linalg.norm(matrix, axis=0), beta)) * _ROUND + slack

    def _normal_length(self, squares: Floats, beta: float) -> float:
        """By E exp(η‖AZ‖²) ≤ Π (1 − 2ησ²λᵢ)^(−1/2), λ the squared singular values of A."""
        peak = float(squares.max(initial=0.0))
        if not peak * self.scale > 0.0:
            return 0.0
        logs = np.log1p(-np.multiply.outer(_SHARES, squares / peak)).sum(axis=1)
        bounds = (math.log(1.0 / beta) - 0.5 * logs) / _SHARES
        return self.scale * math.sqrt(2.0 * peak * float(bounds.min())) * _ROUND
