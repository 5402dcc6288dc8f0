"""One round of learning a batch, by each rule. One that fails leaves what was learnt as it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from attrs import frozen

from dpsdk.errors import BudgetExceeded
from dpsdk.forms import Facts, GapForm, Identity, Kronecker, LinearForm
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.kernel import Kernel, Measure, Noise, Select, Terms
from dpsdk.learning import EntropicFit
from dpsdk.mechanisms.base import Unfinished
from dpsdk.mechanisms.mwem.plan import Plan
from dpsdk.mechanisms.mwem.strategy import MWEMStrategy, Promised
from dpsdk.noise import DiscreteGaussian
from dpsdk.release import NoiseAccuracy
from dpsdk.typing import Floats

__all__ = ["Learner", "Marginals", "OneByOne", "learn", "one_way"]

_SETTLING = 5
"""So many passes fit the one-way marginals, and what there is after the last round."""

_LEAST_DEVIATION = 0.01
"""In rows. Numbers without noise, which no row changes, are fitted as if they had so much."""


class Learner(Protocol):
    """What a batch is learnt with, round by round."""

    @property
    def learnt(self) -> bool:
        """Whether anything was released to it."""
        ...

    @property
    def begun(self) -> bool:
        """Whether anything was paid for."""
        ...

    @property
    def done(self) -> bool:
        """Whether further rounds are not worth their price."""
        ...

    def round(self, kernel: Kernel) -> None:
        """Choose, measure and learn."""
        ...

    def strategy(self, *, finished: bool) -> MWEMStrategy:
        """What answers now."""
        ...


def learn(kernel: Kernel, rounds: int, learner: Learner) -> MWEMStrategy:
    """All rounds, unless somebody stops them.

    Raises
    ------
    Unfinished
        If the opening was stopped, interrupted once something was learnt, or out of budget once
        something was paid for.
    """
    try:
        for done in range(rounds):
            if kernel.progress(done, rounds, "rounds"):
                raise Unfinished(learner.strategy(finished=False), "stop")
            # A refusal that the stop meets with questions of its own is for the caller.
            try:
                learner.round(kernel)
            except BudgetExceeded:
                if not learner.begun:
                    raise
                raise Unfinished(learner.strategy(finished=False), "budget") from None
            if learner.done:
                break
        strategy = learner.strategy(finished=True)
        kernel.progress(rounds, rounds, "rounds")
    except KeyboardInterrupt:
        if not learner.learnt:
            raise
        raise Unfinished(learner.strategy(finished=False), "interrupt") from None
    return strategy


def one_way(form: LinearForm) -> LinearForm:
    """The marginals of single attributes that a form touches; the number of rows if it has none."""
    domain = form.domain
    blocks = [Kronecker.of(domain, {name: Identity(domain[name].size)}) for name in form.names]
    return LinearForm(domain, blocks or [Kronecker((), ())])


@frozen(eq=False)
class _Fitted:
    """What stands after a round; `total` is the sum of the distributions after all rounds."""

    fit: EntropicFit
    rows: float
    total: Floats | None
    chosen: tuple[int, ...]
    started: bool = False


class Marginals:
    """Choose whole blocks, such as marginals, measure them, and fit all that was released."""

    def __init__(
        self, form: LinearForm, plan: Plan, terms: Terms, *, steps: int, average: bool
    ) -> None:
        if plan.noise is None or plan.start is None:
            message = "a plan without noise"
            raise ValueError(message)
        facts = terms.facts
        self._facts = facts
        self._form = form
        self._plan = plan
        self._steps = steps
        self._noise: Noise = plan.noise
        self._blocks = [LinearForm(form.domain, (block,)) for block in form.blocks]
        self._start = Measure(one_way(form), plan.start)
        ends = np.cumsum([0, *[block.rows for block in form.blocks]]).tolist()
        self._groups = [slice(*pair) for pair in pairwise(ends)]
        for block in form.blocks:
            EntropicFit.check(block)
        # Priced beforehand, so that what cannot be measured is refused before anything is paid.
        self._start.price(terms)
        self._penalties = _expected(self._blocks, self._noise, terms)
        gaps = GapForm.around(form, np.full(form.rows, 0.5))
        priced = Select(gaps, plan.choice, groups=self._groups, penalties=self._penalties)
        priced.price(terms)
        self._average = average
        # One field, so that an interrupt finds all of a round or nothing.
        fit = EntropicFit(form.domain, outside=facts.outside)
        self._state = _Fitted(fit, float(facts.rows or 0), None, ())

    @property
    def learnt(self) -> bool:
        """Whether the start was measured."""
        return self._state.started

    @property
    def begun(self) -> bool:
        """The same, since the start is what is paid first."""
        return self._state.started

    @property
    def done(self) -> bool:
        """Never before the last round."""
        return False

    def begin(self, kernel: Kernel) -> None:
        """Measure the one-way marginals, and how many rows there are where that is private."""
        numbers = kernel.run(self._start)
        rows, start = self._state.rows, 0
        blocks = self._start.form.blocks
        if self._facts.rows is None:
            rows = max(1.0, float(numbers.values.sum()) / len(blocks))
        fit = self._state.fit.copy()
        for block in blocks:
            part = numbers.values[start : start + block.rows]
            start += block.rows
            fit.add(block, part / rows, _deviation(numbers.accuracy) / rows)
        # What was paid for is kept, though an interrupt may come while it is fitted.
        self._state = _Fitted(fit.copy(), rows, None, (), started=True)
        self._settle(fit)
        self._state = _Fitted(fit, rows, None, (), started=True)

    def round(self, kernel: Kernel) -> None:
        """The block that is off the most, as far as noise tells, is measured and fitted."""
        if not self._state.started:
            self.begin(kernel)
        state = self._state
        hypothesis = state.fit.hypothesis()
        rates = np.clip(hypothesis.answers(self._form), 0.0, 1.0)
        gaps = GapForm.around(self._form, rates)
        chosen = kernel.select(
            gaps, self._plan.choice, groups=self._groups, penalties=self._penalties
        )
        numbers = kernel.measure(self._blocks[chosen], self._noise)
        fit = state.fit.copy()
        deviation = _deviation(numbers.accuracy) / state.rows
        fit.add(self._form.blocks[chosen], numbers.values / state.rows, deviation)
        fit.run(self._steps)
        total = state.total
        if self._average:
            weights = fit.weights()
            total = weights if total is None else total + weights
        self._state = _Fitted(fit, state.rows, total, (*state.chosen, chosen), started=True)

    def _settle(self, fit: EntropicFit) -> None:
        """Some more passes, where few rounds make few of them."""
        for _ in range(_SETTLING):
            fit.run(self._steps)

    def strategy(self, *, finished: bool) -> MWEMStrategy:
        """The last distribution, fitted some more at the end; or the average of all."""
        state = self._state
        domain, rows, chosen = self._form.domain, max(state.rows, 1.0), state.chosen
        if state.total is not None:
            weights = state.total / len(chosen)
            mass = max(0.0, 1.0 - float(weights.sum())) if self._facts.outside else None
            return MWEMStrategy(DenseHypothesis.from_weights(domain, weights, mass), rows, chosen)
        fit = state.fit.copy()
        if finished:
            self._settle(fit)
        return MWEMStrategy(fit.hypothesis(), rows, chosen)


@frozen(eq=False)
class _Averaged:
    """What stands after a round, and the sum of what stood before it and all others."""

    hypothesis: DenseHypothesis
    total: Floats
    chosen: tuple[int, ...]


class OneByOne:
    """Choose one function a round, and learn it by one step; the average of all rounds answers."""

    def __init__(self, form: LinearForm, plan: Plan, facts: Facts) -> None:
        self._form = form
        self._plan = plan
        self._facts = facts
        self._rows = float(facts.rows or 1)
        self._begun = False
        # One field, so that an interrupt finds all of a round or nothing.
        self._state = _Averaged(
            DenseHypothesis.uniform(form.domain, outside=facts.outside),
            np.zeros(form.domain.shape),
            (),
        )

    @property
    def learnt(self) -> bool:
        """Whether a round is over."""
        return bool(self._state.chosen)

    @property
    def begun(self) -> bool:
        """Whether a choice was paid for."""
        return self._begun

    @property
    def done(self) -> bool:
        """Never before the last round."""
        return False

    def round(self, kernel: Kernel) -> None:
        """Learn the function that is off the most, as far as noise tells."""
        form, plan, state = self._form, self._plan, self._state
        rates = state.hypothesis.answers(form)
        clipped = np.clip(rates, 0.0, 1.0)
        hypothesis = state.hypothesis.copy()
        if plan.noise is None:
            gaps = GapForm(form, clipped, np.zeros(form.rows), absolute=False)
            chosen = kernel.select(gaps, plan.choice, opposites=True)
            place = chosen % form.rows
            potential = math.log(form.domain.size + self._facts.outside)
            rate = math.sqrt(8 * potential / plan.rounds)
            step = rate if chosen < form.rows else -rate
        else:
            place = chosen = kernel.select(GapForm.around(form, clipped), plan.choice)
            self._begun = True
            number = kernel.measure(form.row(place), plan.noise)
            value = min(max(float(number.values[0]) / self._rows, 0.0), 1.0)
            # As printed for functions in [-1, 1]; half of what is proven to gain the most there.
            step = (value - float(rates[place])) / 2
        hypothesis.shift(form.row(place), step, float(rates[place]))
        # What stood before this round counts, as in the proof.
        total = state.total + state.hypothesis.table(form.domain.names)
        self._state = _Averaged(hypothesis, total, (*state.chosen, chosen))

    def strategy(self, *, finished: bool) -> MWEMStrategy:
        """The average of what stood before each round."""
        plan, facts, state = self._plan, self._facts, self._state
        if not state.chosen:
            return MWEMStrategy(state.hypothesis, self._rows, ())
        weights = state.total / len(state.chosen)
        mass = max(0.0, 1.0 - float(weights.sum())) if facts.outside else None
        distribution = DenseHypothesis.from_weights(self._form.domain, weights, mass)
        promise: Promised | None = None
        if finished and plan.error is not None and plan.beta is not None:
            promise = Promised(self._form, plan.error, plan.beta)
        return MWEMStrategy(distribution, self._rows, state.chosen, promise)


def _expected(blocks: Sequence[LinearForm], noise: Noise, terms: Terms) -> list[int]:
    """The noise that measuring a block would bring, summed over its functions, in whole rows."""
    known: dict[tuple[float, float], int] = {}
    penalties: list[int] = []
    for block in blocks:
        # What one function of whole numbers costs depends on its ends alone.
        alike = block.limits if block.rows == 1 and block.integral else None
        penalty = None if alike is None else known.get(alike)
        if penalty is None:
            priced = Measure(block, noise).price(terms)
            penalty = round(_mean_noise(priced.accuracy) * block.rows)
            if alike is not None:
                known[alike] = penalty
        penalties.append(penalty)
    return penalties


def _deviation(accuracy: NoiseAccuracy) -> float:
    return max(_LEAST_DEVIATION, accuracy.law.standard_deviation() * accuracy.step)


def _mean_noise(accuracy: NoiseAccuracy) -> float:
    """The mean absolute noise of a number, in rows."""
    share = math.sqrt(2 / math.pi if isinstance(accuracy.law, DiscreteGaussian) else 0.5)
    return share * accuracy.law.standard_deviation() * accuracy.step
