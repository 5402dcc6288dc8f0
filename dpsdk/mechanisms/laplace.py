"""Independent Laplace noise."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import to_positive
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel import Kernel, LaplaceNoise, price
from dpsdk.mechanisms.base import OneShot
from dpsdk.mechanisms.measuring import Measuring
from dpsdk.release import Cost, Quote
from dpsdk.typing import Real

__all__ = ["Laplace"]


def _epsilon(value: Real) -> Fraction:
    return to_positive("epsilon", value)


@frozen(cache_hash=True, repr=False)
class Laplace(OneShot[LinearForm]):
    """Discrete Laplace noise, independent for every number, by the L1 sensitivity of the batch.

    Each answer, a whole workload included, is `epsilon`-DP. Seed 004, section 4, compares every
    other mechanism with it.

    >>> from dpsdk.mechanisms import Laplace
    >>> Laplace(epsilon="0.1")
    Laplace(epsilon=0.1)
    """

    epsilon: Fraction = field(converter=_epsilon)

    def quote(self, form: LinearForm, facts: Facts, /) -> Quote:
        pricing = price(form, LaplaceNoise(self.epsilon), facts)
        return Quote(Cost(), Cost((pricing.guarantee,)), pricing.accuracy)

    def open(self, kernel: Kernel, /) -> Measuring:
        del kernel  # nothing is paid to open
        return Measuring(LaplaceNoise(self.epsilon))

    def __repr__(self) -> str:
        return f"Laplace(epsilon={float(self.epsilon):g})"
