"""Independent Laplace noise."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import to_amount
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, LaplaceNoise, Terms
from dpsdk.mechanisms.base import OneShot, Single
from dpsdk.mechanisms.measuring import Measuring
from dpsdk.release import Measurement, NoiseAccuracy, Quote
from dpsdk.typing import Real

__all__ = ["Laplace"]


def _epsilon(value: Real) -> Fraction:
    return to_amount("epsilon", value)


@frozen(cache_hash=True, repr=False)
class Laplace(OneShot[LinearForm]):
    """Discrete Laplace noise, independent for every number, by the L1 sensitivity of the batch.

    Each answer, a whole workload included, is `epsilon`-DP (Dwork, McSherry, Nissim and Smith
    2006, with the noise of Ghosh, Roughgarden and Sundararajan 2009).

    >>> from dpsdk.mechanisms import Laplace
    >>> Laplace(epsilon="0.1")
    Laplace(epsilon=0.1)
    """

    epsilon: Fraction = field(converter=_epsilon)

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
        return Measuring(LaplaceNoise(self.epsilon), "Laplace", {"epsilon": self.epsilon})

    def __repr__(self) -> str:
        return f"Laplace(epsilon={float(self.epsilon):g})"
