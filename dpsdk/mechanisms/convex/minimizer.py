"""`PrivateMinimizer`, as a mechanism."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import shown, to_amount, to_delta
from dpsdk.accounting import Budget
from dpsdk.errors import InvalidArgument
from dpsdk.forms import ConvexForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms.base import OneShot
from dpsdk.mechanisms.convex.corrected import Corrected
from dpsdk.mechanisms.convex.oracle import Oracle
from dpsdk.release import Measurement, Quote
from dpsdk.typing import Real

__all__ = ["PrivateMinimizer"]


def _epsilon(value: Real) -> Fraction:
    return to_amount("epsilon", value)


def _delta(value: Real) -> Fraction:
    return to_delta(value, zero=True)


def _oracle(_: object, __: object, value: Oracle) -> None:
    if not isinstance(value, Oracle):
        raise InvalidArgument("oracle", "an oracle, such as Corrected()", shown(value))


@frozen(eq=False)
class Minimizing:
    """Find the model of each form as it comes."""

    oracle: Oracle
    total: Budget

    def answer(self, form: ConvexForm, kernel: Kernel, /) -> Measurement:
        """The θ that was found, and after it the certified gap of the solver."""
        return self.oracle.minimise(form, kernel, self.total)


@frozen(kw_only=True)
class PrivateMinimizer(OneShot[ConvexForm]):
    """One private model for a total (ε, δ)."""

    epsilon: Fraction = field(converter=_epsilon)
    delta: Fraction = field(default=Fraction(0), converter=_delta)
    oracle: Oracle = field(factory=Corrected, validator=_oracle)

    def quote(self, form: ConvexForm, terms: Terms, /) -> Quote:
        return self.oracle.quote(form, terms, self._total)

    def open(self, kernel: Kernel, /) -> Minimizing:
        del kernel  # nothing is paid to open
        return Minimizing(self.oracle, self._total)

    @property
    def _total(self) -> Budget:
        return Budget(self.epsilon, self.delta)
