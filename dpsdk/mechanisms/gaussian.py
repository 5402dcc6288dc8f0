"""Independent Gaussian noise."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import to_amount, to_delta
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.kernel import GaussianNoise, Kernel, Terms
from dpsdk.mechanisms.base import OneShot, Single
from dpsdk.mechanisms.measuring import Measuring
from dpsdk.release import Measurement, NoiseAccuracy, Quote
from dpsdk.typing import Real

__all__ = ["Gaussian"]


def _rho(value: Real | None) -> Fraction | None:
    return None if value is None else to_amount("rho", value)


def _epsilon(value: Real | None) -> Fraction | None:
    return None if value is None else to_amount("epsilon", value)


def _delta(value: Real | None) -> Fraction | None:
    return None if value is None else to_delta(value)


@frozen(repr=False, cache_hash=True, kw_only=True)
class Gaussian(OneShot[LinearForm]):
    """Discrete Gaussian noise, independent for every number, by the L2 sensitivity of the batch.

    Either `Gaussian(rho=...)`: each answer, a whole workload included, is ρ-zCDP. Or
    `Gaussian(epsilon=..., delta=...)`: each answer is (ε, δ)-DP, by the largest ρ that is certified
    for it, within 2 to 5% of the analytic Gaussian's (Balle and Wang 2018). The composition of a
    session charges its ρ where it can, its (ε, δ) where it cannot. A session by default admits one
    run of all its budget; `ZCDPComposition` converts less sharply, and admits less.

    >>> from dpsdk.mechanisms import Gaussian
    >>> Gaussian(rho=0.005)
    Gaussian(rho=0.005)
    """

    rho: Fraction | None = field(default=None, converter=_rho)
    epsilon: Fraction | None = field(default=None, converter=_epsilon)
    delta: Fraction | None = field(default=None, converter=_delta)
    noise: GaussianNoise = field(init=False, eq=False)
    """What `measure` is asked for."""

    def __attrs_post_init__(self) -> None:
        rho, epsilon, delta = self.rho, self.epsilon, self.delta
        if rho is not None and epsilon is None and delta is None:
            noise = GaussianNoise(rho)
        elif rho is None and epsilon is not None and delta is not None:
            certified = claim_rho(epsilon, delta)
            if not certified:
                expected = "large enough that some rho implies this guarantee"
                got = f"epsilon={float(epsilon):g}, delta={float(delta):g}"
                raise InvalidArgument("epsilon and delta", expected, got)
            noise = GaussianNoise(certified, (epsilon, delta))
        else:
            names = [name for name, value in self._given.items() if value is not None]
            expected = "given as rho alone, or as epsilon and delta together"
            raise InvalidArgument("Gaussian", expected, ", ".join(names) or "nothing")
        object.__setattr__(self, "noise", noise)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        return self._measuring().quote(form, terms)

    def open(self, kernel: Kernel, /) -> Measuring:
        del kernel  # nothing is paid to open
        return self._measuring()

    def single(self, form: LinearForm, terms: Terms, /) -> Single[Measurement[NoiseAccuracy]]:
        """The one run that an answer takes."""
        del terms
        return self._measuring().single(form)

    def _measuring(self) -> Measuring:
        # A copy, since the channel may serve others who asked for an equal mechanism.
        noise = GaussianNoise(self.noise.rho, self.noise.claim)
        return Measuring(noise, "Gaussian", self._given)

    @property
    def _given(self) -> dict[str, Fraction | None]:
        return {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}

    def __repr__(self) -> str:
        shown = [f"{name}={float(v):g}" for name, v in self._given.items() if v is not None]
        return f"Gaussian({', '.join(shown)})"
