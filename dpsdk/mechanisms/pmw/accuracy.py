"""How far answers of an online run may be off, each by how it came about."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from attrs import field, frozen

from dpsdk.forms import Facts, LinearForm
from dpsdk.mechanisms.pmw.plan import Plan
from dpsdk.release import Accuracy
from dpsdk.typing import Floats, Ints

__all__ = ["Origin", "StreamAccuracy"]


class Origin(IntEnum):
    """How one number of an answer came about."""

    MEASURED = 0
    """Its gap was above the threshold, so it was measured."""

    BELOW = 1
    """Its gap was called below the threshold, so the hypothesis answered."""

    UNCHECKED = 2
    """The hypothesis answered, and nobody looked."""


@frozen(eq=False)
class StreamAccuracy(Accuracy):
    """Measured numbers by their noise, those called below by the threshold and its noise.

    Numbers that nobody checked have the error that the plan promised, where it did and for a
    confidence no higher than its own; else no bound at all. `run` is the number of the last run
    that was open; `measured` has the accuracy of the numbers measured, by place; `number` that of
    any number, while it is not known which will be measured.

    Where the promise holds, all comes from its one event. Elsewhere failures are shared between
    numbers called below and numbers measured, since which of them one becomes depends on the noise.
    The bounds of "below" hold for all runs together: a run whose threshold came out high lives
    longer than others (docs/explanation/proofs/watch.md).
    """

    plan: Plan
    facts: Facts
    form: LinearForm
    origins: Ints
    run: int
    measured: dict[int, Accuracy]
    promised: bool
    number: Accuracy | None = None
    kind: str = field(init=False, default="")
    proven: bool = field(init=False, default=True)

    def __attrs_post_init__(self) -> None:
        unchecked = bool((self.origins == Origin.UNCHECKED).any())
        if not unchecked:
            kind = "exact tails of the noise of thresholds and numbers"
        elif self.promised:
            kind = "potential argument: no gap larger than promised is left"
        else:
            kind = "none: the hypothesis answered unchecked"
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "proven", not unchecked or self.promised)

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        rows, plan = self.facts.rows or 1, self.plan
        below = unchecked = number = np.inf
        most = min(len(self.origins), plan.updates) if joint else 1
        if plan.promise is not None and self.promised and beta >= plan.promise.beta:
            # One event has all of it: what was measured, what was below, and what came after.
            below = unchecked = plan.promise.alpha * rows
            number = plan.radius * rows
        else:
            runs = 1 if plan.watching.tops else plan.updates
            below = plan.threshold + plan.watching.below_in(
                self.run, beta / 2, self.facts, runs, self.form
            )
        if self.number is not None:
            below = max(below, float(self.number.radii(beta / 2 / most, joint=True)[0]))
        radii = np.full(len(self.origins), unchecked)
        radii[self.origins == Origin.BELOW] = below
        for place, accuracy in self.measured.items():
            own = float(accuracy.radii(beta / 2 / most, joint=True)[0])
            radii[place] = own if number == np.inf else number
        return radii
