"""Online private multiplicative weights at work: look, answer, and learn from what was wrong."""

from __future__ import annotations

from threading import Lock

import numpy as np

from dpsdk.errors import BudgetExceeded, PublicSizeRequired, UnsupportedGuarantee
from dpsdk.forms import GapForm, Identity, Kronecker, LinearForm
from dpsdk.hypothesis import DenseHypothesis, Hypothesis
from dpsdk.kernel import Kernel
from dpsdk.learning import (
    PotentialMeter,
    Replay,
    hoeffding_step,
    near_side_target,
    textbook_step,
)
from dpsdk.mechanisms.pmw.accuracy import Origin, StreamAccuracy
from dpsdk.mechanisms.pmw.plan import Plan
from dpsdk.release import Accuracy, Measurement
from dpsdk.typing import Floats

__all__ = ["OnlineStrategy", "noisy_product", "one_way_marginals"]

_START_BLEND = 1e-3
"""A noisy product keeps so much of the uniform distribution, so that nothing is impossible."""


class OnlineStrategy:
    """Answers from a public hypothesis while it is close to the rows, and improves it where not.

    Each number of a form is compared with the hypothesis by the kernel's `watch`. A gap called
    below the threshold is answered by the hypothesis, free; the first one above is measured, and
    the hypothesis learns it. Calls take turns.
    """

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        hypothesis: Hypothesis,
        *,
        replay: bool,
        raises: bool,
    ) -> None:
        self._kernel = kernel
        self._plan = plan
        self._hypothesis = hypothesis
        self._watch = kernel.watch(plan.watching)
        self._replay = Replay() if replay and plan.rule == "exact" else None
        self._meter = PotentialMeter(hypothesis.kl_cap())
        self._raises = raises
        self._spent = False
        self._asked = 0
        self._lock = Lock()

    @property
    def hypothesis(self) -> Hypothesis:
        """The public distribution as it stands; a copy, which later answers do not change."""
        with self._lock:
            return self._hypothesis.copy()

    @property
    def updates(self) -> int:
        """How many numbers the hypothesis has learnt so far."""
        return self._watch.tops

    def answer(self, form: LinearForm, /) -> Measurement:
        """Counts of rows, from the hypothesis or measured."""
        with self._lock:
            return self._answer(form)

    def _answer(self, form: LinearForm) -> Measurement:
        facts = self._kernel.facts
        rows = float(facts.rows or 0)
        rates = self._hypothesis.answers(form)
        values = rates * rows
        origins = np.full(form.rows, int(Origin.UNCHECKED), dtype=np.int64)
        measured: dict[int, Accuracy] = {}
        runs, place = 0, 0
        self._asked += form.rows
        while place < form.rows and self._looks():
            gap = GapForm.around(form, np.clip(rates, 0.0, 1.0))
            try:
                top = self._watch.first_above(gap, self._plan.threshold, place)
                runs += 1
                checked = form.rows if top is None else top.place
                origins[place:checked] = Origin.BELOW
                if top is None:
                    break
                place = top.place
                row = form.row(place)
                number = self._kernel.measure(row, self._plan.noise)
            except (BudgetExceeded, UnsupportedGuarantee):
                if self._raises:
                    raise
                self._spent = True
                break
            values[place] = number.values[0]
            origins[place] = Origin.MEASURED
            measured[place] = number.accuracy
            self._learn(row, float(rates[place]), float(number.values[0]) / rows)
            place += 1
            rates = self._hypothesis.answers(form)
            values[place:] = rates[place:] * rows
        accuracy = StreamAccuracy(self._plan, facts, origins, runs, measured, self._promised())
        whole = bool((origins == Origin.MEASURED).all())
        return Measurement(values, accuracy, "measured" if whole else "hypothesis")

    def _looks(self) -> bool:
        """Whether another run may be opened: tops are left, and so is something to learn."""
        done = self._plan.promise is not None and self._meter.exhausted(self._plan.gap)
        return not (self._spent or done or self._watch.tops >= self._plan.updates)

    def _promised(self) -> bool:
        """Whether the promise covers answers that nobody checked."""
        promise = self._plan.promise
        return promise is not None and not self._spent and self._asked <= promise.queries

    def _learn(self, row: LinearForm, answer: float, value: float) -> None:
        low, high = row.limits
        value = min(max(value, min(low, 0.0)), high)
        plan, hypothesis = self._plan, self._hypothesis
        direction = 1.0 if value >= answer else -1.0
        if plan.rule == "textbook":
            hypothesis.shift(row, direction * textbook_step(plan.gap), answer)
            return
        known = max(plan.gap, abs(value - answer) - plan.radius)
        if plan.promise is not None:
            hypothesis.shift(row, direction * hoeffding_step(known), answer)
            self._meter.add(2 * known**2)
        else:
            hypothesis.move_to(row, near_side_target(answer, value, plan.radius), answer)
        if self._replay is not None:
            self._replay.keep(row, value, plan.radius)
            self._replay.run(hypothesis)


def one_way_marginals(kernel: Kernel) -> LinearForm:
    """All marginals of one attribute, in one form."""
    domain = kernel.facts.domain
    blocks = [Kronecker.of(domain, {name: Identity(domain[name].size)}) for name in domain.names]
    return LinearForm(domain, blocks)


def noisy_product(kernel: Kernel, plan: Plan) -> Hypothesis:
    """The product of noisy one-way marginals, a little blended with the uniform distribution.

    Raises
    ------
    BudgetExceeded
        If measuring them does not fit. Nothing was charged.
    """
    facts = kernel.facts
    if facts.rows is None or plan.start is None:
        raise PublicSizeRequired("OnlinePMW", "it needs a public number of rows")
    numbers = kernel.measure(one_way_marginals(kernel), plan.start).values / facts.rows
    tables: dict[str, Floats] = {}
    masses: list[float] = []
    start = 0
    for attribute in facts.domain.attributes:
        table = np.clip(numbers[start : start + attribute.size], 0.0, None)
        start += attribute.size
        mass = float(table.sum())
        masses.append(min(mass, 1.0))
        tables[attribute.name] = table / mass if mass > 0 else np.ones(attribute.size)
    outside = 1.0 - float(np.mean(masses)) if facts.outside else 0.0
    hypothesis = DenseHypothesis.product(facts.domain, tables, outside)
    hypothesis.blend(_START_BLEND)
    return hypothesis
