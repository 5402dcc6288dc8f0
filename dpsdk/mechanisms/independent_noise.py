"""Independent noise on every number: `Laplace` and `Gaussian`."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Generic, Self, TypeAlias, TypeVar

from dpsdk._checks import to_delta
from dpsdk._records import Factory, field, frozen, shows_half_made
from dpsdk.codec import AMOUNT
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm, TallyForm
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, Noise, Tally, Terms
from dpsdk.mechanisms.arguments import (
    MAYBE,
    check_linear,
    epsilon_if_given,
    gaussian_for,
    in_words,
    rho_if_given,
    to_epsilon,
)
from dpsdk.mechanisms.base import OneShot, Single, built_in
from dpsdk.release import Cost, Measurement, NoiseAccuracy, Quote
from dpsdk.typing import Real

__all__ = ["Gaussian", "Laplace"]

N = TypeVar("N", bound=Noise)

Measurable: TypeAlias = LinearForm | TallyForm
"""The forms that noise alone answers."""


def _delta_if_given(value: Real | None) -> Fraction | None:
    return None if value is None else to_delta(value)


@shows_half_made
class _Independent(OneShot[Measurable], Generic[N]):
    """A mechanism that measures each form as it comes; it is its own strategy."""

    __slots__ = ()

    noise: N
    """The noise of an answer."""

    @property
    @abstractmethod
    def _given(self) -> dict[str, Fraction | None]:
        """The arguments, by name."""

    def quote(self, form: Measurable, terms: Terms, /) -> Quote:
        request = self._request(form)
        try:
            pricing = request.price(terms)
        except InvalidArgument as error:
            raise in_words(error, **self._given) from None
        return Quote(Cost(), Cost((pricing.guarantee,)), pricing.accuracy)

    def open(self, kernel: Kernel, /) -> Self:
        del kernel  # nothing is paid to open
        return self

    def answer(self, form: Measurable, kernel: Kernel, /) -> Measurement[NoiseAccuracy]:
        """Noisy answers to the form, in counts of rows."""
        request = self._request(form)
        try:
            return kernel.run(request)
        except InvalidArgument as error:
            raise in_words(error, **self._given) from None

    def single(self, form: Measurable, terms: Terms, /) -> Single[Measurement[NoiseAccuracy]]:
        """The one run that an answer takes."""
        del terms
        return Single(self._request(form), lambda measured: measured)

    def _request(self, form: Measurable) -> Measure | Tally:
        if isinstance(form, TallyForm):
            return Tally(form, self.noise)
        if not isinstance(form, LinearForm):
            check_linear(form, type(self).__name__)  # which raises
        return Measure(form, self.noise)

    def __repr__(self) -> str:
        shown = [f"{name}={float(v):g}" for name, v in self._given.items() if v is not None]
        return f"{type(self).__name__}({', '.join(shown)})"


def _laplace_noise(mechanism: Laplace) -> LaplaceNoise:
    return LaplaceNoise(mechanism.epsilon)


@built_in("laplace", {"epsilon": AMOUNT})
@frozen(cache_hash=True, repr=False)
class Laplace(_Independent[LaplaceNoise]):
    """Discrete Laplace noise, independent for every number, by the L1 sensitivity of the batch.

    Each answer, a whole workload included, is `epsilon`-DP (Dwork, McSherry, Nissim and Smith
    2006, with the noise of Ghosh, Roughgarden and Sundararajan 2009).

    >>> from dpsdk.mechanisms import Laplace
    >>> Laplace(epsilon="0.1")
    Laplace(epsilon=0.1)
    """

    reusable = True
    page = "explanation/proofs/measure.md"

    epsilon: Fraction = field(converter=to_epsilon)

    noise: LaplaceNoise = field(
        init=False, eq=False, default=Factory(_laplace_noise, takes_self=True)
    )
    """The noise of an answer."""

    @property
    def _given(self) -> dict[str, Fraction | None]:
        return {"epsilon": self.epsilon}


@built_in("gaussian", {"rho": MAYBE, "epsilon": MAYBE, "delta": MAYBE})
@frozen(repr=False, cache_hash=True, kw_only=True)
class Gaussian(_Independent[GaussianNoise]):
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

    reusable = True
    page = "explanation/proofs/measure.md"

    rho: Fraction | None = field(default=None, converter=rho_if_given)
    epsilon: Fraction | None = field(default=None, converter=epsilon_if_given)
    delta: Fraction | None = field(default=None, converter=_delta_if_given)
    noise: GaussianNoise = field(init=False, eq=False)
    """The noise of an answer."""

    def __attrs_post_init__(self) -> None:
        rho, epsilon, delta = self.rho, self.epsilon, self.delta
        if rho is not None and epsilon is None and delta is None:
            noise = GaussianNoise(rho)
        elif rho is None and epsilon is not None and delta is not None:
            noise = gaussian_for(epsilon, delta)
        else:
            names = [name for name, value in self._given.items() if value is not None]
            expected = "given as rho alone, or as epsilon and delta together"
            raise InvalidArgument("Gaussian", expected, ", ".join(names) or "nothing")
        object.__setattr__(self, "noise", noise)

    @property
    def _given(self) -> dict[str, Fraction | None]:
        return {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}
