"""Several honest answers to "how much was spent", each with the condition under which it holds."""

from __future__ import annotations

from fractions import Fraction

from attrs import frozen

from dpsdk.accounting.budget import Budget
from dpsdk.accounting.figures import figure

__all__ = ["Readings"]


@frozen(repr=False)
class Readings:
    """What the runs so far cost, read in four ways.

    Parameters
    ----------
    delta
        The δ of the figures `level` and `planned`.
    always
        What the session keeps whatever is asked next. Needs no condition.
    anytime
        The ε of the odometer's `Anytime` bound, at the δ fixed there: it holds also if this moment
        was chosen by the answers. None without such a bound, or once a run may have leaked.
    level
        The ε of the sum of ρ: holds if it was settled beforehand to spend no more than that.
    planned
        The least ε of a `Plan` of the same runs: holds only if neither the runs nor their
        parameters were chosen by earlier answers.
    """

    delta: Fraction
    always: Budget
    anytime: float | None
    level: float
    planned: float

    def __repr__(self) -> str:
        anytime = "none" if self.anytime is None else f"{self.anytime:.5g}"
        return (
            f"Readings(always {self.always}; anytime epsilon {anytime};\n"
            f"    at delta {figure(self.delta)}: level epsilon {self.level:.5g}, "
            f"planned epsilon {self.planned:.5g})"
        )
