"""Independent Gaussian noise."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import to_positive, to_probability
from dpsdk.accounting.conversion import zcdp_start
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel import GaussianNoise, Kernel, price
from dpsdk.mechanisms.base import OneShot
from dpsdk.mechanisms.measuring import Measuring
from dpsdk.release import Cost, Quote
from dpsdk.typing import Real

__all__ = ["Gaussian"]


def _rho(value: Real | None) -> Fraction | None:
    return None if value is None else to_positive("rho", value)


def _epsilon(value: Real | None) -> Fraction | None:
    return None if value is None else to_positive("epsilon", value)


def _delta(value: Real | None) -> Fraction | None:
    return None if value is None else to_probability("delta", value)


@frozen(repr=False, cache_hash=True, kw_only=True)
class Gaussian(OneShot[LinearForm]):
    """Discrete Gaussian noise, independent for every number, by the L2 sensitivity of the batch.

    Either `Gaussian(rho=...)`: each answer, a whole workload included, is ρ-zCDP. Or
    `Gaussian(epsilon=..., delta=...)`: each answer is (ε, δ)-DP, by the largest ρ that the
    conversion of Canonne, Kamath and Steinke (2020) certifies for it. The composition of a
    session charges its ρ where it can, its (ε, δ) where it cannot.

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
            certified = zcdp_start(epsilon, delta)
            if not certified:
                expected = "large enough that some rho implies this guarantee"
                got = f"epsilon={float(epsilon):g}, delta={float(delta):g}"
                raise InvalidArgument("epsilon and delta", expected, got)
            noise = GaussianNoise(certified, (epsilon, delta))
        else:
            given = {"rho": rho, "epsilon": epsilon, "delta": delta}
            names = [name for name, value in given.items() if value is not None]
            expected = "given as rho alone, or as epsilon and delta together"
            raise InvalidArgument("Gaussian", expected, ", ".join(names) or "nothing")
        object.__setattr__(self, "noise", noise)

    def quote(self, form: LinearForm, facts: Facts, /) -> Quote:
        pricing = price(form, self.noise, facts)
        return Quote(Cost(), Cost((pricing.guarantee,)), pricing.accuracy)

    def open(self, kernel: Kernel, /) -> Measuring:
        del kernel  # nothing is paid to open
        return Measuring(self.noise)

    def __repr__(self) -> str:
        given = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}
        shown = [f"{name}={float(v):g}" for name, v in given.items() if v is not None]
        return f"Gaussian({', '.join(shown)})"
