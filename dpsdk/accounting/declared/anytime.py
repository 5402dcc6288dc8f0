"""Bounds of the spending at a moment that may depend on the answers."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpsdk._checks import to_positive, to_probability, whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.numbers import (
    UP,
    float_up,
    fraction_down,
    fraction_up,
    ln_up,
    sqrt_up,
    to_nonnegative,
)
from dpsdk.codec import AMOUNT, Recorded, written
from dpsdk.typing import Real

__all__ = ["Anytime"]


def _delta(value: Real) -> Fraction:
    return to_probability("delta", value)


def _around(value: Real) -> Fraction:
    return to_positive("around", value)


@written("anytime", {"delta": AMOUNT, "around": AMOUNT})
@frozen
class Anytime(Recorded):
    """A bound on ε that holds at all times at once, so also at a stop chosen by the answers.

    With probability 1 - δ the privacy loss L stays, at every moment, at or below
    V/2 + √(2 (V + g) ln(1/2 + √((V + g)/g) / (2δ))) for V twice the sum of ρ so far.

    Parameters
    ----------
    delta
        Strictly between 0 and 1. Fix it, as `around`, before the first run.
    around
        The sum of ρ at which the bound should be sharpest; g is a thirty-first part of its double.

    Notes
    -----
    A half-normal mixture of supermartingales and Ville's inequality;
    docs/explanation/proofs/composition-anytime.md has the proof. Leaks come on top of δ.
    """

    delta: Fraction = field(converter=_delta, repr=whole_repr)
    around: Fraction = field(converter=_around, repr=whole_repr)

    def epsilon(self, rho: Real) -> float:
        """The ε at the moment when the sum of ρ is `rho`, rounded up.

        Raises `InvalidArgument` if `rho` is negative or not finite.
        """
        spent = to_nonnegative("rho", rho)
        if not spent:
            return 0.0
        g, v = 2 * self.around / 31, 2 * spent
        growth = UP.divide(sqrt_up(fraction_up((v + g) / g)), fraction_down(2 * self.delta))
        log = ln_up(UP.add(Decimal("0.5"), growth))
        width = sqrt_up(UP.multiply(fraction_up(2 * (v + g)), log))
        return float_up(UP.add(fraction_up(spent), width))
