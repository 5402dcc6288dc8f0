"""The privacy budget of a session."""

from __future__ import annotations

from fractions import Fraction

from dpsdk._checks import to_amount, to_delta, whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.numbers import as_text
from dpsdk.codec import AMOUNT, Member, Recorded, written
from dpsdk.typing import Real

__all__ = ["Budget"]


def _epsilon(value: Real) -> Fraction:
    return to_amount("epsilon", value)


def _delta(value: Real) -> Fraction:
    return to_delta(value, zero=True)


@written("budget", {"epsilon": AMOUNT, "delta": Member(AMOUNT, Fraction(0))})
@frozen(repr=False, cache_hash=True)
class Budget(Recorded):
    """A pair (ε, δ): the differential privacy that the whole session keeps.

    Parameters
    ----------
    epsilon
        Positive and finite. Floats and text are read as the decimal that they print as, so that
        0.1 ten times is 1.
    delta
        In [0, 1); 0 asks for pure differential privacy.

    Raises
    ------
    InvalidArgument
        Names the parameter that is out of range.
    """

    epsilon: Fraction = field(converter=_epsilon, repr=whole_repr)
    delta: Fraction = field(default=Fraction(0), converter=_delta, repr=whole_repr)

    def __str__(self) -> str:
        if not self.delta:
            return f"{as_text(self.epsilon, up=True)}-DP"
        return f"({as_text(self.epsilon, up=True)}, {as_text(self.delta, up=True)})-DP"

    def __repr__(self) -> str:
        return f"Budget(epsilon={as_text(self.epsilon)}, delta={as_text(self.delta)})"
