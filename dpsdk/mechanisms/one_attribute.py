"""What mechanisms have in common that measure one attribute once, and answer from that."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import shown, to_name
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel import Kernel, Noise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.base import Mechanism, Single
from dpsdk.mechanisms.estimates import Estimate, Reconstruction, measured, quoted, single
from dpsdk.mechanisms.total import (
    noise_for,
    to_epsilon,
    to_rho,
    to_zero_delta,
    total_in_words,
)
from dpsdk.release import Measurement, NoiseAccuracy, Quote

__all__ = ["OneAttribute"]


def _to_attribute(value: str) -> str:
    return to_name("attribute", value)


@frozen(repr=False, cache_hash=True)
class OneAttribute(Mechanism[LinearForm]):
    """A mechanism that measures one attribute when it is opened, for a total, and never again."""

    attribute: str = field(converter=_to_attribute)
    epsilon: Fraction | None = field(default=None, converter=to_epsilon, kw_only=True)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta, kw_only=True)
    rho: Fraction | None = field(default=None, converter=to_rho, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._noise()

    @abstractmethod
    def _over(self, facts: Facts, noise: Noise) -> Reconstruction:
        """What is measured of such a table, and how cells follow from it."""

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        noise = self._noise()
        return quoted(form, terms, repr(self), self._over(facts_of(terms), noise), noise)

    def open(self, kernel: Kernel, /) -> Estimate:
        noise = self._noise()
        return measured(kernel, repr(self), self._over(kernel.facts, noise), noise)

    def single(self, form: LinearForm, terms: Terms, /) -> Single[Measurement[NoiseAccuracy]]:
        """The one run that an answer takes."""
        noise, facts = self._noise(), facts_of(terms)
        return single(form, facts, repr(self), self._over(facts, noise), noise)

    def _noise(self) -> Noise:
        return noise_for(type(self).__name__, self.epsilon, self.delta, self.rho)

    def __repr__(self) -> str:
        total = total_in_words(self.epsilon, self.delta, self.rho)
        return f"{type(self).__name__}({shown(self.attribute)}, {total})"
