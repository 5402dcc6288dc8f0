"""Online private multiplicative weights at work: look, answer, and learn from what was wrong."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np

from dpsdk._arrays import frozen_integers
from dpsdk._locks import ExclusiveLock
from dpsdk._records import cmp_using, define, field, frozen
from dpsdk.errors import BudgetExceeded, InvalidArgument, UnsupportedGuarantee
from dpsdk.forms import Facts, GapForm, LinearForm
from dpsdk.forms.gap import weight_range
from dpsdk.hypothesis import Hypothesis
from dpsdk.kernel import Allowance, Kernel, Measure, Watching
from dpsdk.learning import PotentialMeter, Replay, near_side_target, step_towards, textbook_step
from dpsdk.mechanisms.arguments import check_shares
from dpsdk.mechanisms.numeric_sparse import drift_of, fine, midway, on_any_lattice
from dpsdk.mechanisms.pmw.schedule import Schedule
from dpsdk.release import HalfWidths, Measurement, Standing
from dpsdk.typing import Floats, Ints

__all__ = ["OnlineStrategy", "Origin", "Stream", "StreamAccuracy"]

_PART = 2048
"""So many numbers are answered at once between two updates."""


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
    is by how much more than usual rounding may move gaps, in their unit; `run` is the number of the
    last run that was open; `measured` has the accuracy of the numbers measured, by place;
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
    origins: Ints = field(converter=frozen_integers, eq=cmp_using(eq=np.array_equal), hash=False)
    run: int
    measured: dict[int, HalfWidths] = field(hash=False)
    promised: bool
    number: tuple[HalfWidths, ...] = ()
    kind: str = field(init=False, default="")
    standing: Standing = field(init=False, default="proven")

    def __attrs_post_init__(self) -> None:
        unchecked = self.origins == Origin.UNCHECKED
        standing: Standing = "proven"
        kind = "exact tails of the noise of thresholds and numbers"
        if unchecked.any() and self.promised:
            standing, kind = "promised", "potential argument: no gap larger than promised is left"
            if self.schedule.least is not None:
                kind += f", if {self.schedule.least:,} rows or more are counted"
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
        if not self.number and not (self.origins == Origin.UNCHECKED).all():
            advice = "read errors(beta), which has the bounds of the others"
        return self._unchecked, advice

    @property
    def _unchecked(self) -> str:
        """Why nothing is known of what nobody checked."""
        if self.number:
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
            below = min(below, schedule.threshold + own * schedule.unit)
        # No answer has more numbers measured, however many it turned out to have.
        each = part / (min(len(self.origins), schedule.updates) if joint else 1)
        if self.number:
            below = max(below, *[self._number(one, each, number) for one in self.number])
            radii = np.maximum(radii, below)
        radii[self.origins == Origin.BELOW] = below
        for place, accuracy in self.measured.items():
            radii[place] = self._number(accuracy, each, number)
        return radii

    @staticmethod
    def _number(accuracy: HalfWidths, beta: float, promised: float) -> float:
        """How far a measured number may be off: by its own noise, or by the event of a promise."""
        return min(promised, float(accuracy.radii(beta, joint=True)[0])) if beta > 0 else promised


class Stream:
    """A public hypothesis, and the kernel's watch that finds where a table disagrees with it."""

    def __init__(
        self,
        kernel: Kernel,
        watching: Watching,
        hypothesis: Hypothesis,
        allowance: Allowance | None = None,
    ) -> None:
        self._facts = kernel.facts
        self._hypothesis = hypothesis
        self._allowance = allowance
        self._watch = kernel.watch(watching, allowance=allowance)
        self._spent = False
        self._lock = ExclusiveLock("an online hypothesis")

    @property
    def distribution(self) -> Hypothesis:
        """The same as `hypothesis`."""
        return self.hypothesis

    @property
    def hypothesis(self) -> Hypothesis:
        """The public distribution as it stands; a copy, which later answers do not change."""
        return self._lock.run(self._hypothesis.copy)

    @property
    def updates(self) -> int:
        """How many answers the hypothesis has learnt from so far."""
        return self._watch.tops


@define(eq=False)
class _Answers:
    """The numbers of one answer while they are found."""

    values: Floats
    origins: Ints
    measured: dict[int, HalfWidths] = field(factory=dict[int, HalfWidths])
    run: int = 1


class OnlineStrategy(Stream):
    """Answers from a public hypothesis while it is close to the rows, and improves it where not."""

    def __init__(
        self,
        kernel: Kernel,
        schedule: Schedule,
        hypothesis: Hypothesis,
        *,
        replay: bool,
        raises: bool,
        allowance: Allowance | None = None,
        facts: Facts | None = None,
    ) -> None:
        super().__init__(kernel, schedule.watching, hypothesis, allowance)
        self._schedule, self._facts = schedule, facts or kernel.facts
        self._replay = Replay() if replay and schedule.rule == "exact" else None
        self._meter = PotentialMeter(hypothesis.kl_cap())
        self._raises = raises
        self._asked = 0

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows, from the hypothesis or measured."""
        check_shares(form, "OnlinePMW", signed=self._schedule.unit > 1)
        self._check(form, kernel)
        return self._lock.run(lambda: self._answered(form, kernel))

    def _answered(self, form: LinearForm, kernel: Kernel) -> Measurement:
        self._hypothesis.check(form)
        origins = np.full(form.rows, int(Origin.UNCHECKED), dtype=np.int64)
        answers, start = _Answers(np.empty(form.rows), origins), 0
        # In parts, since what comes after an update is answered anew.
        for part in form.pieces(_PART) if form.rows > _PART else (form,):
            self._answer(part, answers, start, kernel)
            start += part.rows
        schedule, promised = self._schedule, self._promised()
        drift = drift_of(schedule.watching, midway(form), self._facts)
        accuracy = StreamAccuracy(
            schedule, self._facts, drift, origins, answers.run, answers.measured, promised
        )
        whole = bool((origins == Origin.MEASURED).all())
        return Measurement(answers.values, accuracy, "measured" if whole else "hypothesis")

    def _check(self, form: LinearForm, kernel: Kernel) -> None:
        """Refuse what a promise does not cover: it counts on weights that round by half a step."""
        watching, facts, noise = self._schedule.watching, self._facts, self._schedule.noise
        if self._schedule.promise is None:
            return
        coarse = watching.rounding(facts, midway(form)) > watching.rounding(facts) * (1 + 1e-9)
        if not coarse and not fine(form):
            most = (on_any_lattice(noise, facts) - 1) * self._schedule.unit
            rows = map(form.row, range(form.rows))
            coarse = any(
                Measure(row, noise).price(kernel.terms).accuracy.bias > most for row in rows
            )
        if coarse:
            expected = "products of weights on fewer cells, which a promise can round finely"
            raise InvalidArgument("form", expected, f"{form.rows} functions")

    def _answer(self, form: LinearForm, answers: _Answers, start: int, kernel: Kernel) -> None:
        rows = float(self._facts.rows or 0)
        self._asked += form.rows
        rates = self._hypothesis.answers(form)
        values = answers.values[start : start + form.rows]
        origins = answers.origins[start : start + form.rows]
        values[:] = rates * rows
        place = 0
        while place < form.rows and self._looks():
            shares = np.clip(rates, *weight_range(form))
            gap = GapForm.around(form, shares)
            if not self._facts.replaced:
                # From public counts: nothing is divided by a private number of rows.
                gap = GapForm(form, np.zeros(form.rows), shares * rows)
            answers.run = self._watch.tops + 1
            try:
                top = self._watch.first_above(gap, self._schedule.threshold, place, kernel=kernel)
                origins[place : form.rows if top is None else top.place] = Origin.BELOW
                if top is None:
                    return
                place = top.place
                row = form.row(place)
                number = kernel.measure(row, self._schedule.noise, allowance=self._allowance)
            except (BudgetExceeded, UnsupportedGuarantee):
                if self._raises:
                    raise
                self._spent = True
                return
            values[place] = number.values[0]
            origins[place] = Origin.MEASURED
            answers.measured[start + place] = number.accuracy
            self._learn(row, float(rates[place]), float(number.values[0]) / rows)
            place += 1
            rates = self._hypothesis.answers(form)
            values[place:] = rates[place:] * rows

    def _looks(self) -> bool:
        """True if another run may be opened: tops are left, and so is something to learn."""
        schedule = self._schedule
        done = schedule.promise is not None and self._meter.exhausted(schedule.gap, schedule.unit)
        return not (self._spent or done or self._watch.tops >= self._schedule.updates)

    def _promised(self) -> bool:
        """True if the promise covers answers that nobody checked."""
        promise = self._schedule.promise
        return promise is not None and not self._spent and self._asked <= promise.queries

    def _learn(self, row: LinearForm, answer: float, value: float) -> None:
        schedule, hypothesis = self._schedule, self._hypothesis
        low, high = weight_range(row)
        value = min(max(value, low), high)
        if schedule.rule == "textbook":
            step = textbook_step(schedule.gap) / schedule.unit**2
            hypothesis.shift(row, step if value >= answer else -step, answer)
            return
        if schedule.promise is not None:
            radius, gap, meter = schedule.radius, schedule.gap, self._meter
            step_towards(hypothesis, row, value, radius, gap, answer=answer, meter=meter)
        else:
            hypothesis.move_to(row, near_side_target(answer, value, schedule.radius), answer)
        if self._replay is not None:
            self._replay.remember(row, value, schedule.radius)
            self._replay.run(hypothesis, self._meter)
