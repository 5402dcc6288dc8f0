"""Online private multiplicative weights at work: look, answer, and learn from what was wrong."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from dpsdk.errors import (
    BudgetExceeded,
    InvalidArgument,
    UnsupportedGuarantee,
)
from dpsdk.forms import GapForm, LinearForm
from dpsdk.hypothesis import Hypothesis
from dpsdk.kernel import Allowance, Kernel, Measure
from dpsdk.learning import (
    PotentialMeter,
    Replay,
    near_side_target,
    step_towards,
    textbook_step,
)
from dpsdk.mechanisms.numbers import fine, on_any_lattice
from dpsdk.mechanisms.numeric_sparse import drift_of
from dpsdk.mechanisms.pmw.accuracy import Origin, StreamAccuracy
from dpsdk.mechanisms.pmw.schedule import Schedule
from dpsdk.mechanisms.pmw.stream import Stream
from dpsdk.mechanisms.refusals import check_shares
from dpsdk.release import HalfWidths, Measurement
from dpsdk.typing import Floats, Ints

__all__ = ["OnlineStrategy"]

_PART = 2048
"""So many numbers are answered at once between two updates."""


class _Answers:
    """The numbers of one answer while they are found."""

    def __init__(self, rows: int) -> None:
        self.values: Floats = np.empty(rows)
        self.origins: Ints = np.full(rows, int(Origin.UNCHECKED), dtype=np.int64)
        self.measured: dict[int, HalfWidths] = {}
        self.run = 1


class OnlineStrategy(Stream):
    """Answers from a public hypothesis while it is close to the rows, and improves it where not.

    Each number of a form is compared with the hypothesis by the kernel's `watch`. A gap called
    below the threshold is answered by the hypothesis, free; the first one above is measured, and
    the hypothesis learns it. Calls take turns. Runs come out of `allowance` first, if one is given.
    """

    def __init__(
        self,
        kernel: Kernel,
        schedule: Schedule,
        hypothesis: Hypothesis,
        *,
        replay: bool,
        raises: bool,
        allowance: Allowance | None = None,
    ) -> None:
        super().__init__(kernel, schedule.watching, hypothesis, allowance)
        self._schedule = schedule
        self._replay = Replay() if replay and schedule.rule == "exact" else None
        self._meter = PotentialMeter(hypothesis.kl_cap())
        self._raises = raises
        self._asked = 0

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows, from the hypothesis or measured."""
        check_shares(form, "OnlinePMW")
        self._check(form, kernel)
        return self._lock.run(lambda: self._answered(form, kernel))

    def _answered(self, form: LinearForm, kernel: Kernel) -> Measurement:
        self._hypothesis.check(form)
        answers = _Answers(form.rows)
        start = 0
        # In parts, since what comes after an update is answered anew.
        for part in form.pieces(_PART) if form.rows > _PART else (form,):
            self._answer(part, answers, start, kernel)
            start += part.rows
        accuracy = StreamAccuracy(
            self._schedule,
            self._facts,
            drift_of(self._schedule.watching, form, self._facts),
            answers.origins,
            answers.run,
            answers.measured,
            self._promised(),
        )
        whole = bool((answers.origins == Origin.MEASURED).all())
        return Measurement(answers.values, accuracy, "measured" if whole else "hypothesis")

    def _check(self, form: LinearForm, kernel: Kernel) -> None:
        """Refuse what a promise does not cover: it counts on weights that round by half a step."""
        watching, facts = self._schedule.watching, self._facts
        if self._schedule.promise is None:
            return
        coarse = watching.rounding(facts, form) > watching.rounding(facts) * (1 + 1e-9)
        if coarse or not self._rounds_finely(form, kernel):
            expected = "products of weights on fewer cells, which a promise can round finely"
            raise InvalidArgument("form", expected, f"{form.rows} functions")

    def _rounds_finely(self, form: LinearForm, kernel: Kernel) -> bool:
        """Whether each function, if it is measured, rounds as the promise counts on."""
        if fine(form):
            return True
        noise, terms = self._schedule.noise, kernel.terms
        most = on_any_lattice(noise, self._facts) - 1
        rows = map(form.row, range(form.rows))
        return all(Measure(row, noise).price(terms).accuracy.bias <= most for row in rows)

    def _answer(self, form: LinearForm, answers: _Answers, start: int, kernel: Kernel) -> None:
        rows = float(self._facts.rows or 0)
        self._asked += form.rows
        rates = self._hypothesis.answers(form)
        values = answers.values[start : start + form.rows]
        origins = answers.origins[start : start + form.rows]
        values[:] = rates * rows
        place = 0
        while place < form.rows and self._looks():
            gap = GapForm.around(form, np.clip(rates, 0.0, 1.0))
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
        """Whether another run may be opened: tops are left, and so is something to learn."""
        done = self._schedule.promise is not None and self._meter.exhausted(self._schedule.gap)
        return not (self._spent or done or self._watch.tops >= self._schedule.updates)

    def _promised(self) -> bool:
        """Whether the promise covers answers that nobody checked."""
        promise = self._schedule.promise
        return promise is not None and not self._spent and self._asked <= promise.queries

    def _learn(self, row: LinearForm, answer: float, value: float) -> None:
        schedule, hypothesis = self._schedule, self._hypothesis
        value = min(max(value, 0.0), 1.0)
        if schedule.rule == "textbook":
            step = textbook_step(schedule.gap)
            hypothesis.shift(row, step if value >= answer else -step, answer)
            return
        if schedule.promise is not None:
            step_towards(
                hypothesis,
                row,
                value,
                schedule.radius,
                schedule.gap,
                answer=answer,
                meter=self._meter,
            )
        else:
            hypothesis.move_to(row, near_side_target(answer, value, schedule.radius), answer)
        if self._replay is not None:
            # A copy, since whoever asked holds the parts of this one.
            own = LinearForm(row.domain, deepcopy(row.blocks))
            self._replay.remember(own, value, schedule.radius)
            self._replay.run(hypothesis, self._meter)
