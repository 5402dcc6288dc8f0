"""The sparse vector: many yes-or-no questions, of which only few may be answered yes."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from dpsdk._checks import shown, to_count, to_positive
from dpsdk._locks import ExclusiveLock
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.accounting.guarantee import PureGuarantee
from dpsdk.accounting.prices.conversion import zcdp_start
from dpsdk.accounting.prices.run import zcdp_rho
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.codec import AMOUNT, INTEGER, Choice, Member
from dpsdk.errors import Closed, InvalidArgument
from dpsdk.forms import Facts, GapForm, LinearForm
from dpsdk.forms.gap import weight_range
from dpsdk.kernel import (
    GaussianNoise,
    Kernel,
    LaplaceNoise,
    Measure,
    Noise,
    Terms,
    Top,
    Watch,
    Watching,
)
from dpsdk.kernel.lattice import allowed_bits, finest
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    ZERO,
    check_gap,
    implying,
    in_words_of,
    to_epsilon,
    to_zero_delta,
)
from dpsdk.mechanisms.base import Mechanism, built_in
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpsdk.release import Cost, HalfWidths, Measurement, Quote, Standing
from dpsdk.typing import Floats

__all__ = [
    "NumberPricing",
    "NumericSparse",
    "SparseSchedule",
    "equal_share",
    "fine",
    "law_of_count",
    "midway",
    "moving_row",
    "on_any_lattice",
    "price_any",
    "split_pure",
    "split_watch",
    "watch_within",
]

_PRICED = 64
"""Of so many functions each is priced by itself; more are bounded together where that is proven."""


def law_of_count(noise: Noise, facts: Facts) -> NoiseLaw:
    """The law of a number that each row of a person moves by 1 at the most."""
    if isinstance(noise, LaplaceNoise):
        return DiscreteLaplace(facts.unit_rows / noise.epsilon)
    return DiscreteGaussian(facts.unit_rows**2 / (2 * noise.rho))


def on_any_lattice(noise: Noise, facts: Facts) -> float:
    """By how much more than a count a number may be off on a lattice of its own, in rows."""
    most = facts.row_limit * 2.0 ** -min(finest(math.inf) + 1, allowed_bits(facts.row_limit))
    return 1 + max(law_of_count(noise, facts).standard_deviation() / 1000, most)


def fine(form: LinearForm) -> bool:
    """True if the lattice of each of these functions is as fine as sums of shares allow."""
    return form.integral or (form.reach <= 1 and form.uneven == 1)


def moving_row(form: LinearForm, facts: Facts) -> int:
    """The function that a row changes most: what no row changes is measured for nothing."""
    low, high = form.extents()
    if facts.outside or facts.rows is None:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    return int((high - low).argmax())


@frozen
class NumberPricing:
    """The most that measuring one of several functions costs, and its error."""

    guarantee: Guarantee
    accuracies: tuple[HalfWidths, ...]
    """Those that the number may have; the widest of them bounds it."""


def price_any(form: LinearForm, noise: Noise, terms: Terms) -> NumberPricing:
    """Price measuring one function of a form with weights from -1 to 1. Spends nothing."""
    facts = terms.facts
    most = Measure(form.row(moving_row(form, facts)), noise).price(terms)
    if form.integral or form.rows == 1:
        return NumberPricing(most.guarantee, (most.accuracy,))
    if form.rows > _PRICED and fine(form):
        unit = midway(form).sensitivity
        slack = on_any_lattice(noise, facts) * unit
        bound = NoiseAccuracy(law_of_count(noise, facts), 1, unit, slack)
        return NumberPricing(most.guarantee, (bound,))
    rows = [form.row(number) for number in range(form.rows)]
    parts = dict.fromkeys([Measure(row, noise).price(terms).accuracy for row in rows])
    return NumberPricing(most.guarantee, tuple(parts))


Numbers: TypeAlias = Literal["measured", "gap"]

_PURE_STEPS = 10**12
"""So many steps of ε to one."""


def _tops(value: int) -> int:
    return to_count("tops", value)


def split_watch(epsilon: Fraction, tops: int | None = None) -> Watching:
    """Split ε between the noise of the threshold and that of the gaps, for the least variance.

    The noise has scales in proportion to 1 / ε1 and 2 / ε2. With one top, ε1 + ε2 = ε and
    ε2 = 2^(2/3) ε1; with more tops under one threshold, ε1 + c ε2 = ε and c ε2 = (2c)^(2/3) ε1
    (Lyu, Su and Li 2017).
    """
    count = tops or 1
    ratio = Fraction(round((2 * count) ** (2 / 3) * 2**20), 2**20)
    threshold = epsilon / (1 + ratio)
    return Watching(threshold, (epsilon - threshold) / count, tops)


def equal_share(total: Fraction, parts: int = 1) -> Fraction:
    """One of so many equal parts, rounded down, so that together they never exceed the total."""
    return Fraction(math.floor(total / parts * 10**40), 10**40)


def split_pure(rho: Fraction) -> Fraction:
    """The largest ε, rounded down, of a pure run that costs no more than ρ of zCDP."""
    checked = to_positive("rho", rho)
    return Fraction(_split_pure(checked.numerator, checked.denominator), _PURE_STEPS)


@lru_cache(maxsize=1024)
def _split_pure(numerator: int, denominator: int) -> int:
    """The same in steps, from plain integers to one, so that nobody can change what is kept."""
    rho = Fraction(numerator, denominator)
    high = Fraction(max(1, math.ceil(2 * rho) + 1))
    # ε tanh(ε / 2) is at least the smaller of ε² / 4 and ε / 2, so 2 sqrt(ρ) + 2 ρ is too much.
    high += Fraction(math.isqrt(math.ceil(4 * rho)) + 1)
    low = Fraction(0)
    for _ in range(60):
        middle = (low + high) / 2
        if zcdp_rho(PureGuarantee(middle)) <= rho:
            low = middle
        else:
            high = middle
    return math.floor(low * _PURE_STEPS)


@frozen
class SparseSchedule:
    """How a sparse vector spends: its watch, and the noise of numbers, if any are measured."""

    watching: Watching
    noise: Noise | None


def watch_within(epsilon: Fraction, delta: Fraction, tops: int, share: Fraction) -> SparseSchedule:
    """A schedule for so many tops within (ε, δ); `share` of it goes to measured numbers."""
    if not delta:
        numbers = epsilon * share
        noise = LaplaceNoise(numbers / tops) if share else None
        return SparseSchedule(split_watch(epsilon - numbers, tops), noise)
    rho = equal_share(implying(zcdp_start, epsilon, delta), tops)
    run = split_pure(rho * (1 - share))
    noise_each = GaussianNoise(equal_share(rho * share)) if share else None
    return SparseSchedule(split_watch(run), noise_each)


@built_in(
    "numeric-sparse",
    {
        "epsilon": AMOUNT,
        "delta": ZERO,
        "tops": INTEGER,
        "numbers": Member(Choice[str]("measured", "gap"), "measured"),
    },
)
@frozen(repr=False, cache_hash=True)
class NumericSparse(Mechanism[GapForm]):
    """Answer any number of "is it above?", until `tops` of them were answered yes.

    The whole stream is (ε, δ)-DP, however many questions were answered no. Questions are `Above`
    and `NumericAbove`; after the last top the channel is closed. The numbers of `NumericAbove` are
    measured, with a part of the budget, or, with `numbers="gap"`, read off the noise of the
    comparison for free, which is biased by having been selected.

    With δ = 0 one threshold serves all tops, paid when the first question comes. With δ > 0 each
    top has a run of its own, paid when it opens: an easy stream costs little. Dwork and Roth (2014,
    section 3.6), with the noise of `kernel.watch`.

    >>> from dpsdk.mechanisms import NumericSparse
    >>> NumericSparse(epsilon=1, tops=3)
    NumericSparse(epsilon=1, delta=0, tops=3)
    """

    page = "explanation/proofs/watch.md"

    epsilon: Fraction = field(converter=to_epsilon)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta)
    tops: int = field(kw_only=True, converter=_tops)
    numbers: Numbers = field(default="measured", kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.numbers, str) or self.numbers not in ("measured", "gap"):
            raise InvalidArgument("numbers", '"measured" or "gap"', shown(self.numbers))

    @property
    def schedule(self) -> SparseSchedule:
        """How the budget is split. Two ninths go to measured numbers, as Dwork and Roth have it."""
        share = Fraction(2, 9) if self.numbers == "measured" else Fraction(0)
        with in_words_of(epsilon=self.epsilon, delta=self.delta):
            return watch_within(self.epsilon, self.delta, self.tops, share)

    def quote(self, form: GapForm, terms: Terms, /) -> Quote:
        check_gap(form, "NumericSparse")
        schedule, facts = self.schedule, facts_of(terms)
        with in_words_of(epsilon=self.epsilon, delta=self.delta):
            run = schedule.watching.price(terms)
        # One answer may use up to so many runs, and measure as many numbers.
        most = min(form.rows, self.tops)
        costs = [run.guarantee] * (1 if schedule.watching.tops else most)
        accuracy = SparseAccuracy.of(self.tops, schedule, form, facts, most)
        if accuracy.measures and schedule.noise is not None:
            pricing = price_any(form.form, schedule.noise, terms)
            costs += [pricing.guarantee] * most
            accuracy = evolve(accuracy, number=pricing.accuracies)
        return Quote(Cost(), Cost(tuple(costs)), accuracy)

    def open(self, kernel: Kernel, /) -> _Sparse:
        schedule = self.schedule
        with in_words_of(epsilon=self.epsilon, delta=self.delta):
            return _Sparse(self, schedule, kernel.watch(schedule.watching))

    def __repr__(self) -> str:
        numbers = "" if self.numbers == "measured" else ', numbers="gap"'
        return (
            f"NumericSparse(epsilon={float(self.epsilon):g}, delta={float(self.delta):g}, "
            f"tops={self.tops}{numbers})"
        )


def midway(form: LinearForm) -> GapForm:
    """Gaps of a form from the middle of what its shares may be."""
    return GapForm.around(form, np.full(form.rows, sum(weight_range(form)) / 2))


def drift_of(watching: Watching, gap: GapForm, facts: Facts) -> float:
    """How much further than usual rounding may move gaps, in multiples of their unit."""
    return watching.rounding(facts, gap) - watching.rounding(facts)


@frozen
class SparseAccuracy(HalfWidths):
    """How far from its level a query may be on the other side than the answer says.

    And for numbers that were measured, how far off these are. `run` is the number of the last run
    that was open, of `runs` at the most; `drift` is by how much more than usual rounding may move
    gaps, and `unit` how far a record moves one at the most. Where what is above is measured
    (`measures`), `measured` has the accuracy of these numbers, by place, and `number` that of any
    number, while it is not known which will be measured.

    Failures are shared: half go to the bound of answers "below", half to what was above. The
    bounds of "below" hold for all runs together, since a run whose threshold came out high lives
    longer than others and is more likely to be the one that a question meets
    (docs/explanation/proofs/watch.md).
    """

    watching: Watching
    facts: Facts
    rows: int
    drift: float
    run: int
    runs: int
    measures: bool = field(kw_only=True)
    unit: float = field(default=1.0, kw_only=True)
    measured: dict[int, HalfWidths] = field(factory=dict[int, HalfWidths], kw_only=True, hash=False)
    number: tuple[HalfWidths, ...] = field(default=(), kw_only=True)
    kind: str = field(init=False, default="exact tails of the threshold's and the gaps' noise")
    standing: Standing = field(init=False, default="proven")

    @classmethod
    def of(
        cls, tops: int, schedule: SparseSchedule, form: GapForm, facts: Facts, run: int
    ) -> SparseAccuracy:
        """The accuracy of a form, where no number is measured yet."""
        drift, unit = drift_of(schedule.watching, form, facts), form.moved(facts)
        measures = form.numeric and schedule.noise is not None
        parts = form.rows, drift, run, tops
        return cls(schedule.watching, facts, *parts, measures=measures, unit=unit)

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        rows, mean = self.rows, self.watching.mean_noise(self.facts)
        asked = rows if joint else 1
        runs = 1 if self.watching.tops else self.runs
        below = self.watching.below_in(self.run, beta / 2, self.facts, runs) + self.drift + mean
        most = min(rows, self.runs) if joint else 1
        if self.number:  # whichever it will be
            each = beta / 2 / most
            above = max(float(one.radii(each, joint=False).max()) for one in self.number)
        elif self.measures:  # what was above has a number of its own
            above = 0.0
        else:
            above = self.watching.above(beta / 2, self.facts, asked) + self.drift - mean
        if not self.number:  # whose error is in rows already
            above *= self.unit
        radii = np.full(rows, max(below * self.unit, above, 0.0))
        for place, accuracy in self.measured.items():
            radii[place] = float(accuracy.radii(beta / 2 / most, joint=True)[0])
        return radii


@frozen
class _Sparse:
    mechanism: NumericSparse
    schedule: SparseSchedule
    watch: Watch
    lock: ExclusiveLock = field(
        factory=lambda: ExclusiveLock("a sparse vector"), eq=False, repr=False
    )

    def answer(self, form: GapForm, kernel: Kernel, /) -> Measurement:
        check_gap(form, "NumericSparse")
        # In turns: two questions at once could both come before the last top.
        return self.lock.run(lambda: self._answer(form, kernel))

    def _answer(self, form: GapForm, kernel: Kernel) -> Measurement:
        values = np.full(form.rows, np.nan)
        measured: dict[int, HalfWidths] = {}
        place = run = 0
        while place < form.rows:
            tops = self.mechanism.tops
            if self.watch.tops >= tops:
                answers = "1 answer" if tops == 1 else f"{tops} answers"
                raise Closed(f"the sparse vector, after {answers} above")
            run = self.watch.tops + 1
            top = self._first_above(form, place, kernel)
            if top is None:
                break
            place = top.place + 1
            # The threshold was raised by the mean of the noise, so the excess is about the gap.
            values[top.place] = 0.0 if top.excess is None else top.excess
            if form.numeric and self.schedule.noise is not None:
                number = kernel.measure(form.form.row(top.place), self.schedule.noise)
                rows = kernel.facts.rows or 0
                known = form.rates[top.place] * rows + form.offsets[top.place]
                values[top.place] = number.values[0] - known
                measured[top.place] = number.accuracy
        tops, runs = self.mechanism.tops, max(run, 1)
        accuracy = SparseAccuracy.of(tops, self.schedule, form, kernel.facts, runs)
        return Measurement(values, evolve(accuracy, measured=measured))

    def _first_above(self, form: GapForm, place: int, kernel: Kernel) -> Top | None:
        given = self.mechanism
        try:
            with in_words_of(epsilon=given.epsilon, delta=given.delta):
                mean = self.schedule.watching.mean_noise(kernel.facts) * form.moved(kernel.facts)
                return self.watch.first_above(form, mean, place, kernel=kernel)
        except InvalidArgument as error:
            if error.parameter != "offsets":
                raise
            raise InvalidArgument("level", error.expected, "one beyond that") from None
