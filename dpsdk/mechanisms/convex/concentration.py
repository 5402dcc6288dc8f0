"""How far sums of noise on measured gradients may go, where each is chosen after the last.

Each noise vector z_s has independent entries of a discrete law, whose scale may depend on all that
was released before and is at most the one given here. Statements are of all of a run's vectors
together, and fail with a probability of so many times exp(-t) as `events` says.
docs/explanation/proofs/descent.md has the proofs.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from attrs import frozen

__all__ = ["GaussianConcentration", "LaplaceConcentration", "Concentration"]

_PER_STEP = math.sqrt(2.0)


@frozen
class GaussianConcentration:
    """Noise that is sub-Gaussian with parameter `scale`, as the discrete Gaussian is."""

    scale: float

    @property
    def proxy(self) -> float:
        """What stands for the variance in the logarithm of a moment generating function."""
        return self.scale**2

    @property
    def unit(self) -> float:
        """That logarithm is half the proxy times its argument's square up to √½ over this."""
        return 0.0

    events: int = 1
    """How many events `mean_square` rests on."""

    def linear(self, t: float, squares: float, peak: float) -> float:
        """What Σ ⟨a_s, z_s⟩ does not exceed, for a_s that the past determines.

        Their squared lengths sum to `squares` at the most, and no length exceeds `peak`.
        """
        del peak
        return self.scale * math.sqrt(2.0 * t * squares)

    def mean_square(self, t: float, steps: int, dimension: int) -> float:
        """What the average of w_s‖z_s‖² does not exceed, for weights from 0 to 1.

        Hsu, Kakade and Zhang (2012), theorem 2.1.
        """
        ratio = t / steps
        return self.scale**2 * (dimension + 2.0 * math.sqrt(dimension * ratio) + 2.0 * ratio)


@frozen
class LaplaceConcentration:
    """Noise of the discrete Laplace law of scale `scale`."""

    scale: float

    @property
    def proxy(self) -> float:
        """As of `GaussianConcentration`."""
        return 4.0 * self.scale**2

    @property
    def unit(self) -> float:
        """As of `GaussianConcentration`."""
        return self.scale

    events: int = 2

    def linear(self, t: float, squares: float, peak: float) -> float:
        """As of `GaussianConcentration`; Bernstein's inequality for sums that are sub-gamma."""
        return self.scale * (2.0 * math.sqrt(t * squares) + peak * t)

    def mean_square(self, t: float, steps: int, dimension: int) -> float:
        """As of `GaussianConcentration`; Bernstein's inequality, while no entry is beyond a cut."""
        numbers = steps * dimension
        cut = t + math.log(2.0 * numbers)
        spread = 2.0 * math.sqrt(12.0 * dimension * t / steps) + cut**2 * t / (3.0 * steps)
        return self.scale**2 * (2.0 * dimension + spread)


Concentration: TypeAlias = GaussianConcentration | LaplaceConcentration
