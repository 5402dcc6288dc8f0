"""How a batch is learnt, round by round, and what answers then.

A round that fails leaves what was learnt before it as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import count, pairwise
from typing import Generic, TypeVar, cast

import numpy as np

from dpsdk._records import evolve, frozen
from dpsdk.accuracy import Accuracy, NoAccuracy, PromisedAccuracy
from dpsdk.errors import TooLarge
from dpsdk.forms import Facts, GapForm, Identity, Kronecker, LinearForm
from dpsdk.forms.gap import weight_range
from dpsdk.hypothesis import DenseHypothesis, Distribution, Records, Start
from dpsdk.hypothesis.start import opened
from dpsdk.kernel import Kernel, Measure, Noise, Select, Terms
from dpsdk.learning import EntropicFit, near_side_target, step_towards
from dpsdk.mechanisms.arguments import check_linear
from dpsdk.mechanisms.fitted import Learner
from dpsdk.mechanisms.mwem.plan import OfflinePlan, Plan, by_function
from dpsdk.mechanisms.numeric_sparse import midway
from dpsdk.noise import DiscreteGaussian
from dpsdk.release import Measurement, NoiseAccuracy
from dpsdk.typing import Floats

__all__ = [
    "Certifying",
    "MWEMStrategy",
    "Marginals",
    "OnRecords",
    "OneByOne",
    "Promised",
    "alike",
    "one_way",
]

_STILL = 1e-12

_SETTLING = 5
"""So many passes fit the one-way marginals, and what there is after the last round."""

_LEAST_DEVIATION = 0.01
"""In rows. Numbers without noise, which no row changes, are fitted as if they had so much."""

_UNPROVEN = (
    "read off a distribution that was fitted to noisy answers",
    "open MWEM.textbook or MWEM.averaged, which promise an error, or a mechanism that measures",
)
_BESIDE = (
    "the promise is about the functions of the workload, and this asks for others",
    "open a channel for a workload that has them, or use a mechanism that measures",
)


@frozen(eq=False)
class Promised:
    """An error in rows that holds, with probability 1 - beta, for all functions of a workload."""

    workload: LinearForm
    error: float
    beta: float

    @cached_property
    def _known(self) -> frozenset[bytes]:
        return frozenset(self.workload.row_identities())

    def covers(self, form: LinearForm) -> bool:
        """True if all functions of a form are known to be in the workload."""
        try:
            return self._known.issuperset(form.row_identities())
        except TooLarge:
            return False

    def accuracy(self, form: LinearForm, beside: NoAccuracy) -> Accuracy:
        """The promise for a form; `beside` for one of other functions."""
        if not self.covers(form):
            return beside
        return PromisedAccuracy(self.error, self.beta, form.rows)


@frozen(eq=False)
class MWEMStrategy:
    """Answers every linear form from the distribution that was learnt. Costs nothing."""

    distribution: Distribution
    rows: float
    chosen: tuple[int, ...]
    promise: Promised | None = None

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows, read off the distribution."""
        del kernel
        check_linear(form, "MWEM")
        accuracy: Accuracy = NoAccuracy(*_UNPROVEN)
        if self.promise is not None:
            accuracy = self.promise.accuracy(form, NoAccuracy(*_BESIDE))
        return Measurement(self.distribution.answers(form) * self.rows, accuracy, "fitted")


def one_way(form: LinearForm) -> LinearForm:
    """The marginals of single attributes that a form touches; the number of rows if it has none."""
    domain = form.domain
    blocks = [Kronecker.of(domain, {name: Identity(domain[name].size)}) for name in form.names]
    return LinearForm(domain, blocks or [Kronecker((), ())])


@frozen(eq=False)
class _Fitted:
    """The state after a round; `total` is the sum of the distributions after all rounds."""

    fit: EntropicFit
    rows: float
    total: Floats | None
    chosen: tuple[int, ...]
    started: bool = False


class Marginals(Learner[MWEMStrategy]):
    """Choose whole blocks, such as marginals, measure them, and fit all that was released."""

    def __init__(
        self, form: LinearForm, plan: Plan, terms: Terms, *, steps: int, average: bool
    ) -> None:
        if plan.noise is None or plan.start is None:
            raise ValueError("a plan without noise")
        facts = terms.facts
        self._facts, self._form, self._plan = facts, form, plan
        self._steps, self._average = steps, average
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
        Select(midway(form), plan.choice, groups=self._groups, penalties=self._penalties).price(
            terms
        )
        # One field, so that an interrupt finds all of a round or nothing.
        fit = EntropicFit(form.domain, outside=facts.outside)
        self._state = _Fitted(fit, float(facts.rows or 0), None, ())

    @property
    def learnt(self) -> bool:
        return self._state.started

    @property
    def begun(self) -> bool:  # type: ignore[override]  # the start is what is paid first
        return self._state.started

    def _begin(self, kernel: Kernel) -> None:
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
        self._state = evolve(self._state, fit=fit)

    def round(self, kernel: Kernel) -> None:
        """The block that is off the most, as far as noise tells, is measured and fitted."""
        if not self._state.started:
            self._begin(kernel)
        state, plan = self._state, self._plan
        rates = np.clip(state.fit.hypothesis().answers(self._form), *weight_range(self._form))
        gaps = GapForm.around(self._form, rates)
        chosen = kernel.select(gaps, plan.choice, groups=self._groups, penalties=self._penalties)
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
        rows, chosen = max(state.rows, 1.0), state.chosen
        if state.total is not None:
            average = _average(self._form, state.total, len(chosen), self._facts)
            return MWEMStrategy(average, rows, chosen)
        fit = state.fit.copy()
        if finished:
            self._settle(fit)
        return MWEMStrategy(fit.hypothesis(), rows, chosen)


_SWEEPS = 8
"""So many passes bring records to all that was measured, unless nothing moves before."""


@frozen(eq=False)
class _Measured:
    """A block, its numbers as shares, and how far they are trusted to be off."""

    form: LinearForm
    values: Floats
    radius: float

    @classmethod
    def of(cls, records: Records, name: str) -> _Measured:
        """The marginal of an attribute as it stands, which moves towards numbers would spoil."""
        domain = records.domain
        form = LinearForm(domain, [Kronecker.of(domain, {name: Identity(domain[name].size)})])
        return cls(form, records.answers(form), 0.0)

    def moves(self, records: Records) -> bool:
        """Bring records to the near side of each number; True if that changed any."""
        now = records.answers(self.form)
        off = self.values - now
        target = now + np.sign(off) * np.maximum(np.abs(off) - self.radius, 0.0)
        if not (np.abs(target - now) > _STILL).any():
            return False
        (block,) = self.form.blocks
        if block.table and block.rows > 1:
            if (target := np.maximum(target, 0.0)).any():
                records.rake(block.names, target.reshape(block.shape))
            return True
        steps = [
            records.move_to(row, near_side_target(records.answer(row), value, self.radius))
            for row, value in zip(
                map(self.form.row, range(self.form.rows)), self.values.tolist(), strict=True
            )
        ]
        return any(steps)


class OnRecords(Learner[MWEMStrategy]):
    """Choose blocks and measure them, as `Marginals` does, and move weighted records to them.

    Or single functions, where blocks are not to be measured `whole`.
    """

    def __init__(
        self,
        form: LinearForm,
        plan: Plan | OfflinePlan,
        terms: Terms,
        start: Start,
        *,
        whole: bool = True,
    ) -> None:
        if plan.noise is None:
            raise ValueError("a plan without noise")
        self._form, self._plan, self._start = form, plan, start
        self._noise: Noise = plan.noise
        self._rows = float(terms.facts.rows or 1)
        self._blocks: list[LinearForm] = []
        self._groups: list[slice] | None = None
        self._penalties: list[int] | None = None
        if whole and not by_function(form):
            self._blocks = [LinearForm(form.domain, (block,)) for block in form.blocks]
            ends = np.cumsum([0, *[block.rows for block in form.blocks]]).tolist()
            self._groups = [slice(*pair) for pair in pairwise(ends)]
            self._penalties = _expected(self._blocks, self._noise, terms)
        # What cannot be is refused before anything is paid.
        start.check(terms.facts)
        Select(midway(form), plan.choice, groups=self._groups, penalties=self._penalties).price(
            terms
        )
        self._records: Records | None = None
        self._single: tuple[_Measured, ...] = ()
        self._learnt: tuple[tuple[int, _Measured], ...] = ()

    @property
    def learnt(self) -> bool:
        return self._records is not None

    @property
    def begun(self) -> bool:  # type: ignore[override]  # the start is what is paid first
        return self.learnt

    def round(self, kernel: Kernel) -> None:
        """The part that is off the most, as far as noise tells, is measured and learnt."""
        if self._records is None:
            self._records = cast("Records", opened(self._start, kernel, self._plan.start))
            self._single = tuple(map(partial(_Measured.of, self._records), self._form.domain.names))
        rates = np.clip(self._records.answers(self._form), *weight_range(self._form))
        gaps = GapForm.around(self._form, rates)
        chosen = kernel.select(
            gaps, self._plan.choice, groups=self._groups, penalties=self._penalties
        )
        part = self._blocks[chosen] if self._blocks else self._form.row(chosen)
        numbers = kernel.measure(part, self._noise)
        values = np.clip(numbers.values / self._rows, *weight_range(part))
        new = _Measured(part, values, _deviation(numbers.accuracy) / self._rows)
        self._learnt = (*self._learnt, (chosen, new))
        records, measured = self._records.copy(), [one for _, one in self._learnt]
        for _ in range(_SWEEPS):
            moved = [one.moves(records) for one in (*self._single, *measured)]
            if not any(moved):
                break
        self._records = records

    def strategy(self, *, finished: bool) -> MWEMStrategy:
        del finished
        if self._records is None:
            raise ValueError("nothing was learnt")
        chosen = tuple([place for place, _ in self._learnt])
        return MWEMStrategy(self._records.copy(), self._rows, chosen)


@frozen(eq=False)
class _LearningState:
    """The state after a round; `total` is the sum of the states before it and all others."""

    hypothesis: DenseHypothesis
    chosen: tuple[int, ...] = ()
    total: Floats | float = 0.0
    certified: bool = False


P = TypeVar("P", bound=Plan | OfflinePlan)


class _Functions(Learner[MWEMStrategy], Generic[P]):
    """Choose one function a round, the one that is off the most, as far as noise tells."""

    def __init__(self, form: LinearForm, plan: P, facts: Facts) -> None:
        self._form, self._facts = form, facts
        self._plan: P = plan
        self._rows = float(facts.rows or 1)
        # One field, so that an interrupt finds all of a round or nothing.
        self._state = _LearningState(DenseHypothesis.uniform(form.domain, outside=facts.outside))

    @property
    def learnt(self) -> bool:
        return bool(self._state.chosen)

    def counted(self, rows: float, plan: P) -> None:
        """Told the number of rows, where that is private and was paid for, and the plan for it."""
        self._rows, self._plan = rows, plan
        self.begun: bool = True

    def _gaps(self, rates: Floats, *, absolute: bool = True) -> GapForm:
        """How far the rows are from rates, or, where their number is private, from counts."""
        if self._facts.replaced:
            return GapForm(self._form, rates, np.zeros(len(rates)), absolute=absolute)
        return GapForm(self._form, np.zeros(len(rates)), rates * self._rows, absolute=absolute)


class OneByOne(_Functions[Plan]):
    """Learn each function by one step; the average of what stood before each round answers."""

    def round(self, kernel: Kernel) -> None:
        form, plan, state = self._form, self._plan, self._state
        rates = state.hypothesis.answers(form)
        low, high = weight_range(form)
        clipped, width = np.clip(rates, low, high), high - low
        hypothesis = state.hypothesis.copy()
        if plan.noise is None:
            gaps = self._gaps(clipped, absolute=False)
            chosen = kernel.select(gaps, plan.choice, opposites=True)
            place = chosen % form.rows
            potential = math.log(form.domain.size + self._facts.outside)
            rate = math.sqrt(8 * potential / plan.rounds) / width
            step = rate if chosen < form.rows else -rate
        else:
            place = chosen = kernel.select(self._gaps(clipped), plan.choice)
            self.begun = True
            number = kernel.measure(form.row(place), plan.noise)
            value = min(max(float(number.values[0]) / self._rows, low), high)
            # As printed for functions in [-1, 1]; half of what is proven to gain the most there.
            step = (value - float(rates[place])) / 2
        hypothesis.shift(form.row(place), step, float(rates[place]))
        # What stood before this round counts, as in the proof.
        total = state.total + state.hypothesis.table(form.domain.names)
        self._state = _LearningState(hypothesis, (*state.chosen, chosen), total)

    def strategy(self, *, finished: bool) -> MWEMStrategy:
        plan, state = self._plan, self._state
        if not state.chosen:
            return MWEMStrategy(state.hypothesis, self._rows, ())
        average = _average(self._form, np.asarray(state.total), len(state.chosen), self._facts)
        promise: Promised | None = None
        if finished and plan.error is not None and plan.beta is not None:
            promise = Promised(self._form, plan.error, plan.beta)
        return MWEMStrategy(average, self._rows, state.chosen, promise)


class Certifying(_Functions[OfflinePlan]):
    """Learn each function unless its number is near the distribution, which ends the rounds."""

    @property
    def done(self) -> bool:
        return self._state.certified

    def round(self, kernel: Kernel) -> None:
        form, plan, state = self._form, self._plan, self._state
        rates = state.hypothesis.answers(form)
        clipped = np.clip(rates, *weight_range(form))
        place = kernel.select(self._gaps(clipped), plan.choice)
        self.begun = True
        row, rate = form.row(place), float(rates[place])
        number = float(kernel.measure(row, plan.noise).values[0])
        chosen = (*state.chosen, place)
        if abs(number - rate * self._rows) <= plan.threshold:
            self._state = _LearningState(state.hypothesis, chosen, certified=True)
            return
        hypothesis = state.hypothesis.copy()
        value, radius, gap = (x / self._rows for x in (number, plan.radius, plan.gap))
        if plan.step is None:
            step_towards(hypothesis, row, value, radius, gap, answer=rate)
        else:
            hypothesis.shift(row, math.copysign(plan.step, value - rate), rate)
        self._state = _LearningState(hypothesis, chosen)

    def strategy(self, *, finished: bool) -> MWEMStrategy:
        """The distribution as it stands; what it promises holds once a number was near it."""
        del finished
        state, plan = self._state, self._plan
        proven = state.certified and plan.error < math.inf
        promise = Promised(self._form, plan.error, plan.beta) if proven else None
        return MWEMStrategy(state.hypothesis.copy(), self._rows, state.chosen, promise)


def _average(form: LinearForm, total: Floats, rounds: int, facts: Facts) -> DenseHypothesis:
    """The average of so many distributions with such a sum."""
    weights = total / rounds
    mass = max(0.0, 1.0 - float(weights.sum())) if facts.outside else None
    return DenseHypothesis.from_weights(form.domain, weights, mass)


def alike(block: LinearForm, place: int) -> object:
    """A key for blocks that cost alike: one function of whole numbers costs by its ends alone."""
    return block.limits if block.rows == 1 and block.integral else place


def _expected(blocks: Sequence[LinearForm], noise: Noise, terms: Terms) -> list[int]:
    """The noise that measuring a block would bring, summed over its functions, in whole rows."""
    known: dict[object, int] = {}
    keys = list(map(alike, blocks, count()))
    for block, key in zip(blocks, keys, strict=True):
        if key not in known:
            accuracy = Measure(block, noise).price(terms).accuracy
            share = math.sqrt(2 / math.pi if isinstance(accuracy.law, DiscreteGaussian) else 0.5)
            mean = share * accuracy.law.standard_deviation() * accuracy.step
            known[key] = round(mean * block.rows)
    return [known[key] for key in keys]


def _deviation(accuracy: NoiseAccuracy) -> float:
    return max(_LEAST_DEVIATION, accuracy.law.standard_deviation() * accuracy.step)
