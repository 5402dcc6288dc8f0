"""How far answers of an online run may be off, each by how it came about."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from attrs import field, frozen

from dpsdk.forms import Facts
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
    confidence no higher than its own; else no bound at all. `measured` has the accuracy of the
    numbers measured, by place.
    """

    plan: Plan
    facts: Facts
    origins: Ints
    runs: int
    measured: dict[int, Accuracy]
    promised: bool
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
        rows = self.facts.rows or 1
        # A joint statement shares its failures between the numbers measured and those below.
        part = beta / 2 if joint and self.measured else beta
        promise = self.plan.promise
        trusted = promise is not None and self.promised and beta >= promise.beta
        unchecked = promise.alpha * rows if promise is not None and trusted else np.inf
        radii = np.full(len(self.origins), unchecked)
        below = self.plan.threshold + self.plan.watching.below(
            part, self.facts, max(self.runs, 1) if joint else 1
        )
        radii[self.origins == Origin.BELOW] = min(below, unchecked)
        count = max(len(self.measured), 1) if joint else 1
        for place, accuracy in self.measured.items():
            radii[place] = float(accuracy.radii(part / count, joint=True)[0])
        return radii
