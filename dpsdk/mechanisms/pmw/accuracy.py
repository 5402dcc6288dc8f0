"""How far answers of an online run may be off, each by how it came about."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import kept_places
from dpsdk.forms import Facts
from dpsdk.mechanisms.pmw.schedule import Schedule
from dpsdk.release import HalfWidths, Standing
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


@frozen
class StreamAccuracy(HalfWidths):
    """Measured numbers by their noise, those called below by the threshold and its noise.

    Numbers that nobody checked have the error that the schedule promised, where it did and for a
    confidence no higher than its own; else no bound at all, beside others that keep theirs. `drift`
    is by how much more than usual rounding may move gaps of the form, in rows; `run` is the number
    of the last run that was open; `measured` has the accuracy of the numbers measured, by place;
    `number` that of any number, while it is not known which will be measured. Then `origins` says
    which may come unchecked, and their bounds are the widest of all three.

    Which of these a number is depends on noise. So each kind has a share of the failures that is
    fixed beforehand, whichever kinds the answer turns out to have, and `beta` is spent once
    (docs/explanation/proofs/pmw.md, "Bounds of single answers"). The bounds of "below" hold for all
    runs together: a run whose threshold came out high lives longer than others
    (docs/explanation/proofs/watch.md).
    """

    schedule: Schedule
    facts: Facts
    drift: float
    origins: Ints = field(converter=kept_places, eq=cmp_using(eq=np.array_equal), hash=False)
    run: int
    measured: dict[int, HalfWidths] = field(hash=False)
    promised: bool
    number: HalfWidths | None = None
    kind: str = field(init=False, default="")
    standing: Standing = field(init=False, default="proven")

    def __attrs_post_init__(self) -> None:
        unchecked = self.origins == Origin.UNCHECKED
        standing: Standing = "proven"
        kind = "exact tails of the noise of thresholds and numbers"
        if unchecked.any() and self.promised:
            standing, kind = "promised", "potential argument: no gap larger than promised is left"
        elif unchecked.all():
            standing, kind = "none", self._unchecked
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "standing", standing)

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound at this beta, and what may be done about it."""
        promise = self.schedule.promise
        if self.promised and promise is not None:
            why = f"the promise about answers that nobody checked says nothing at beta={beta:g}"
            return why, f"ask at a beta of at least {promise.beta:g}"
        advice = "open a channel with more updates, or with a promise: alpha=, beta= and queries="
        if self.number is None and not (self.origins == Origin.UNCHECKED).all():
            advice = "read errors(beta), which has the bounds of the others"
        return self._unchecked, advice

    @property
    def _unchecked(self) -> str:
        """Why nothing is known of what nobody checked."""
        if self.number is not None:
            return "the hypothesis may answer unchecked, when the updates are used up"
        count, entries = int((self.origins == Origin.UNCHECKED).sum()), len(self.origins)
        some = "" if count == entries else f" {count:,} of {entries:,} numbers"
        return f"the hypothesis answered{some} unchecked"

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        schedule, rows = self.schedule, self.facts.rows or 1
        part, below, number, unchecked = beta / 2, math.inf, math.inf, math.inf
        promise = schedule.promise
        if promise is not None and beta >= promise.beta:
            # One event bounds thresholds and numbers of the whole stream, promised on or not.
            part = (beta - promise.beta) / 2
            below, number = promise.alpha * rows, schedule.radius * rows
            unchecked = below if self.promised else math.inf
        radii = np.full(len(self.origins), unchecked)
        if part > 0:
            # Any run of the stream may be the one that was open: the noise decides that, too.
            runs = 1 if schedule.watching.tops is not None else schedule.updates
            own = schedule.watching.below_in(self.run, part, self.facts, runs) + self.drift
            below = min(below, schedule.threshold + own)
        # No answer has more numbers measured, however many it turned out to have.
        each = part / (min(len(self.origins), schedule.updates) if joint else 1)
        if self.number is not None:
            below = max(below, self._number(self.number, each, number))
            radii = np.maximum(radii, below)
        radii[self.origins == Origin.BELOW] = below
        for place, accuracy in self.measured.items():
            radii[place] = self._number(accuracy, each, number)
        return radii

    @staticmethod
    def _number(accuracy: HalfWidths, beta: float, promised: float) -> float:
        """How far a measured number may be off: by its own noise, or by the event of a promise."""
        return min(promised, float(accuracy.radii(beta, joint=True)[0])) if beta > 0 else promised
