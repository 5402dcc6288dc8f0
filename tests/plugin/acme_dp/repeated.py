"""A stranger's mechanism on the kernel's primitives: nothing of dpsdk was changed for it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from attrs import field, frozen

from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import OneShot
from dpsdk.release import Cost, HalfWidths, Measurement, Quote, Standing
from dpsdk.typing import Floats, Real

__all__ = ["MedianAccuracy", "Repeated"]


@frozen
class MedianAccuracy(HalfWidths):
    """A median is off by more than r only if more than half of its odd number of draws are."""

    each: HalfWidths
    times: int
    kind: str = field(init=False, default="union over the majorities of the draws")
    standing: Standing = field(init=False, default="proven")

    def radii(self, beta: float, *, joint: bool) -> Floats:
        # Of `times` draws fewer than 2**times majorities exist, each missing with p**majority.
        majority = self.times // 2 + 1
        return self.each.radii((beta / 2**self.times) ** (1 / majority), joint=joint)


def _exact(epsilon: Real) -> Fraction:
    """The exact decimal that is meant; what is none is refused by the noise."""
    return LaplaceNoise(epsilon).epsilon


@frozen
class Repeated(OneShot[LinearForm]):
    """Ask everything an odd number of times, and keep the median of each number."""

    epsilon: Fraction = field(converter=_exact)
    times: int = 3

    def __attrs_post_init__(self) -> None:
        if type(self.times) is not int or not 1 <= self.times <= 99 or not self.times % 2:
            raise InvalidArgument("times", "an odd integer from 1 to 99", repr(self.times)[:80])

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        pricing = Measure(form, self._noise).price(terms)
        cost = Cost((pricing.guarantee,) * self.times)
        return Quote(Cost(), cost, MedianAccuracy(pricing.accuracy, self.times))

    def open(self, kernel: Kernel, /) -> _Repeating:
        del kernel  # nothing is paid to open
        return _Repeating(self._noise, self.times)

    @property
    def _noise(self) -> LaplaceNoise:
        return LaplaceNoise(self.epsilon / self.times)


@frozen
class _Repeating:
    noise: LaplaceNoise
    times: int

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        # Paid for all at once, so that a refusal finds nothing half done.
        draws = kernel.run_all([Measure(form, self.noise)] * self.times)
        values: Floats = np.median([draw.values for draw in draws], axis=0)
        return Measurement(values, MedianAccuracy(draws[0].accuracy, self.times))
