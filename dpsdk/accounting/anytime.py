"""What has been spent at a moment that may depend on the answers."""

from __future__ import annotations

import math
from fractions import Fraction

from attrs import field, frozen

from dpsdk._checks import shown, to_fraction, to_positive, to_probability
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = ["Anytime"]

_SLACK = 1.0 + 1e-12


def _delta(value: Real) -> Fraction:
    return to_probability("delta", value)


def _around(value: Real) -> Fraction:
    return to_positive("around", value)


@frozen
class Anytime:
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

    delta: Fraction = field(converter=_delta)
    around: Fraction = field(converter=_around)

    def epsilon(self, rho: Real) -> float:
        """The ε at the moment when the sum of ρ is `rho`.

        Raises
        ------
        InvalidArgument
            If `rho` is negative or not finite.
        """
        spent = to_fraction("rho", rho, "a finite number, at least 0")
        if spent < 0:
            raise InvalidArgument("rho", "a finite number, at least 0", shown(rho))
        g = 2.0 * float(self.around) / 31.0
        v = 2.0 * float(spent)
        if not v:
            return 0.0
        log = math.log(0.5 + math.sqrt((v + g) / g) / (2.0 * float(self.delta)))
        return (v / 2.0 + math.sqrt(2.0 * (v + g) * log)) * _SLACK
