"""How private multiplicative weights begins, spends and decides, all of it from public facts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from itertools import product
from typing import Literal, TypeAlias

from dpsdk._records import evolve, frozen
from dpsdk.accounting import Budget, Guarantee, default_composition
from dpsdk.accounting.declared.calibration import fits_all
from dpsdk.accounting.guarantee import PureGuarantee
from dpsdk.accounting.prices.conversion import zcdp_start
from dpsdk.accounting.prices.covering import cover_of
from dpsdk.accounting.prices.run import zcdp_rho
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, Kronecker, LinearForm
from dpsdk.hypothesis import Hypothesis, Start
from dpsdk.hypothesis.start import opened, share_of
from dpsdk.kernel import (
    Allowance,
    GaussianNoise,
    Kernel,
    LaplaceNoise,
    Measure,
    Noise,
    Terms,
    Watching,
)
from dpsdk.mechanisms.arguments import implying, in_words_of
from dpsdk.mechanisms.numeric_sparse import (
    equal_share,
    law_of_count,
    on_any_lattice,
    split_pure,
    split_watch,
)
from dpsdk.release import Cost

__all__ = [
    "COUNT_FAILURES",
    "COUNT_SHARE",
    "Promise",
    "Rounds",
    "Rule",
    "Schedule",
    "best_promise",
    "counted_rows",
    "missed_by",
    "number_radius",
    "practical",
    "promised",
    "promised_counts",
    "textbook",
    "total_of",
]

Rule: TypeAlias = Literal["exact", "textbook"]
"""The step of the hypothesis, "exact" along one dimension or that of Dwork and Roth (2014)."""

# Measured on Adult by tests/bench/bench_pmw.py --tune: 10,000 rectangles, three seeds, δ = 1e-9. At
# ε = 0.1 and 1, half the height with 22 and 103 updates has mean errors 28 and 25 % below those of
# the whole with the 11 and 51 that suit it best, and maxima 19 % below and 3 % above. Tops that
# noise alone calls for teach something too. Of the shares of start and numbers, from 1/30 to 1/3,
# no other was better at both ε.
_NUMBER_SHARE = Fraction(1, 10)
_HEIGHT_SHARE = 0.5

_SHARES = (Fraction(1, 40), Fraction(1, 10), Fraction(1, 4))
"""The parts of a round that are tried for its number where an error is promised."""

COUNT_SHARE = Fraction(1, 50)
"""The share of the budget that counts the rows, where their number is private."""

COUNT_FAILURES = 0.1
"""The share of a promise's failures that is for the count."""

_FEW = 32
"""The default composition charges a run of pure ε more than its ρ, which tells where runs are few:
a session of just the total might refuse them beside Gaussian ones, and not beside each other."""


@frozen
class Promise:
    """With probability 1 - beta, each of so many answers is off by at most alpha, as a share."""

    alpha: float
    beta: float
    queries: int


@frozen
class Schedule:
    """All that an online run of private multiplicative weights needs to know beforehand.

    `updates` is the number of tops after which it stops to look. `threshold` is in rows; `gap` is
    the share by which a hypothesis is surely off where a top comes; `radius` the share within
    which a measured value is trusted. `start` is the noise of what the start measures. `unit` is
    how many rows one record moves a gap by at the most: 2 for weights from -1 to 1. Where the
    number of rows is private, `count` is the noise with which it is counted first; before that, a
    promise is made only if the count is at `least` so large.
    """

    updates: int
    watching: Watching
    noise: Noise
    threshold: float
    gap: float
    radius: float
    rule: Rule
    start: Noise | None = None
    promise: Promise | None = None
    unit: float = 1.0
    count: Noise | None = None
    least: int | None = None

    def of_signed(self) -> Schedule:
        """The same for functions from -1 to 1, whose halves have a range of 1 as this assumes.

        All that is in rows, or in shares of them, is twice as much.
        """
        promise = self.promise and evolve(self.promise, alpha=2 * self.promise.alpha)
        return evolve(
            self, threshold=2 * self.threshold, gap=2 * self.gap, radius=2 * self.radius,
            unit=2 * self.unit, promise=promise,
        )  # fmt: skip


def practical(
    epsilon: Fraction, delta: Fraction, updates: int, queries: int, facts: Facts, *,
    threshold: float | None, share: Fraction, prepaid: bool, numbers: Fraction = _NUMBER_SHARE,
) -> Schedule:  # fmt: skip
    """A schedule for so many updates, without a promise of accuracy."""
    start: Noise | None = None
    count, left = _counting(epsilon, delta, facts, prepaid=prepaid)
    if delta:
        whole, rho = epsilon, implying(zcdp_start, epsilon, delta) * left
        if share:
            start = _gaussian(equal_share(rho * share), prepaid=prepaid)
            rho -= rho * share
        each = equal_share(rho, updates)
        watching, noise = _round(each, numbers, prepaid=prepaid)
        first = start or count
        if prepaid and first is not None and updates <= _FEW:
            paid = [first.cover, *[watching.guarantee, noise.cover] * updates]
            session = default_composition()
            if not fits_all(session, session.begin(Budget(whole, delta)), paid):
                noise = LaplaceNoise(split_pure(each * numbers))
    else:
        epsilon *= left
        if share:
            start = LaplaceNoise(epsilon * share)
            epsilon -= epsilon * share
        measured = epsilon * numbers
        noise = LaplaceNoise(measured / updates)
        if prepaid:
            watching = split_watch(epsilon - measured, updates)
        else:
            watching = split_watch((epsilon - measured) / updates)
    rows = max(facts.row_limit if facts.rows is None else facts.rows, 1)
    # The noise of one gap in `queries` exceeds this by itself, if the share is 1; one in its square
    # root at a share of 1/2.
    scale = float(2 * facts.unit_rows / watching.query_epsilon)
    height = _HEIGHT_SHARE * (scale * math.log(max(queries, 2)))
    if threshold is not None:
        height = threshold * rows
    spread = law_of_count(noise, facts).standard_deviation() / rows
    gap = height / rows / 2
    return Schedule(updates, watching, noise, height, gap, spread, "exact", start, count=count)


def _counting(
    epsilon: Fraction, delta: Fraction, facts: Facts, *, prepaid: bool
) -> tuple[Noise | None, Fraction]:
    """The noise with which a private number of rows is counted, and the share that is left."""
    if facts.replaced:
        return None, Fraction(1)
    if not delta:
        return LaplaceNoise(epsilon * COUNT_SHARE), 1 - COUNT_SHARE
    rho = equal_share(implying(zcdp_start, epsilon, delta) * COUNT_SHARE)
    return _gaussian(rho, prepaid=prepaid), 1 - COUNT_SHARE


def _round(rho: Fraction, share: Fraction, *, prepaid: bool) -> tuple[Watching, Noise]:
    """One round within rho: its watch, and the noise of its number."""
    noise = _gaussian(equal_share(rho * share), prepaid=prepaid)
    return split_watch(split_pure(rho * (1 - share))), noise


def _gaussian(rho: Fraction, *, prepaid: bool) -> GaussianNoise:
    """The noise that costs so much: what is paid beforehand is its cover."""
    return GaussianNoise.covered(rho) if prepaid else GaussianNoise(rho)


def number_radius(noise: Noise, beta: float, numbers: int, facts: Facts) -> float:
    """How far numbers may be off, in rows, whatever the lattice that they are measured on."""
    return law_of_count(noise, facts).radius(beta, numbers) + on_any_lattice(noise, facts)


def missed_by(noise: Noise | None, beta: float, facts: Facts) -> float:
    """How far a count of the rows may be off, with its share of a promise's failures."""
    if noise is None:
        return 0.0
    # It is rounded to an integer.
    return number_radius(noise, beta * COUNT_FAILURES, 1, facts) + 0.5


def promised(
    epsilon: Fraction, delta: Fraction, wanted: Promise, facts: Facts, potential: float, *,
    prepaid: bool, unit: float = 1.0,
) -> Schedule:  # fmt: skip
    """The schedule of the smallest error that can be promised; refused if that exceeds alpha.

    A top comes only where the gap is at least g = sqrt(potential / (2 (c + 1))), so a step of 4 g
    lowers the potential by 2 g² and the (c + 1)-th top is impossible. A gap called below is at
    most g + r + s, by the tails of the threshold's noise (r) and of the gaps' (s). Derived from
    Theorem 4.10 of Dwork and Roth (2014), with Hoeffding's lemma in place of its step. Of a range
    of `unit`, all errors are so many times as large.
    """
    best = best_promise(
        epsilon, delta, wanted.beta, wanted.queries, facts, potential, prepaid=prepaid
    )
    if best is None or best.promise is None or best.promise.alpha > wanted.alpha:
        expected = "larger than any error can be, since nothing can be promised here"
        if best is not None and best.promise is not None:
            least = best.promise.alpha * unit
            step = 10.0 ** (math.floor(math.log10(least)) - 3)
            least = math.ceil(least / step) * step
            expected = f"at least {least:.4g}, the least that can be promised here"
        raise InvalidArgument("alpha", expected, f"{wanted.alpha * unit:g}")
    return best


def best_promise(
    epsilon: Fraction, delta: Fraction, beta: float, queries: int, facts: Facts, potential: float,
    *, prepaid: bool,
) -> Schedule | None:  # fmt: skip
    """The schedule with the smallest error that can be promised at all, if that is below 1."""

    def best(numbers: Iterable[int]) -> Schedule | None:
        promised: dict[float, Schedule] = {}
        for updates, share in product(numbers, _SHARES):
            schedule = _attempt(epsilon, delta, updates, share, facts, prepaid=prepaid)
            found = schedule and _promise(schedule, beta, queries, facts, potential)
            if found is not None and found.promise is not None:
                promised.setdefault(found.promise.alpha, found)
        least = min(promised, default=1.0)
        return promised[least] if least < 1 else None

    coarse = best([2**power for power in range(31)])
    if coarse is None:
        return None
    return best(sorted({max(1, round(coarse.updates * 1.12**power)) for power in range(-6, 7)}))


def _attempt(
    epsilon: Fraction, delta: Fraction, updates: int, share: Fraction, facts: Facts, *,
    prepaid: bool,
) -> Schedule | None:  # fmt: skip
    with suppress(InvalidArgument):
        count, left = _counting(epsilon, delta, facts, prepaid=prepaid)
        if delta:
            each = equal_share(zcdp_start(epsilon, delta) * left, updates)
            watching, noise = _round(each, share, prepaid=prepaid)
        else:
            runs = epsilon * left * (1 - share)
            watching = split_watch(runs, updates) if prepaid else split_watch(runs / updates)
            noise = LaplaceNoise(epsilon * left * share / updates)
        watching.below(0.5, facts)
        return Schedule(updates, watching, noise, 0.0, 0.0, 0.0, "exact", count=count)
    return None


def _promise(
    schedule: Schedule, beta: float, queries: int, facts: Facts, potential: float
) -> Schedule | None:
    rows, part = max(facts.rows or 1, 1), beta / 3
    gap = math.sqrt(potential / (2 * (schedule.updates + 1)))
    runs = 1 if schedule.watching.tops else schedule.updates
    below = schedule.watching.below(part, facts, runs) / rows
    above = schedule.watching.above(part, facts, queries) / rows
    radius = number_radius(schedule.noise, part, schedule.updates, facts) / rows
    if radius >= gap:
        return None
    promise = Promise(gap + below + above, beta, queries)
    threshold = (gap + above) * rows
    return evolve(schedule, threshold=threshold, gap=gap, radius=radius, promise=promise)


def promised_counts(
    epsilon: Fraction, delta: Fraction, wanted: Promise, facts: Facts, potential: float, *,
    prepaid: bool, unit: float = 1.0,
) -> Schedule:  # fmt: skip
    """The schedule that promises alpha for the fewest rows, where their number is private.

    Whatever the count turns out to be, updates and noise are the same. With `facts.rows` the count,
    the promise is made if that is large enough, and is as small as it allows; without, for as many
    rows as there may be at the most, under the condition `least`.
    """

    def best(numbers: Iterable[int]) -> tuple[int, _Counted] | None:
        found: dict[int, _Counted] = {}
        for updates, share in product(numbers, _SHARES):
            schedule = _attempt(epsilon, delta, updates, share, facts, prepaid=prepaid)
            if schedule is None:
                continue
            counted = _Counted.of(schedule, wanted, facts, potential, 1 / unit)
            if counted.gap < wanted.alpha:
                found.setdefault(counted.least(wanted.alpha), counted)
        return min(found.items(), key=lambda item: item[0], default=None)

    chosen = best([2**power for power in range(31)])
    if chosen is not None:
        middle = chosen[1].schedule.updates
        chosen = best(sorted({max(1, round(middle * 1.12**power)) for power in range(-6, 7)}))
    if chosen is None or chosen[0] > facts.row_limit:
        expected = f"so large that it can be promised for at most {facts.row_limit:,} rows"
        if chosen is not None:
            expected += f"; this takes {chosen[0]:,}"
        raise InvalidArgument("alpha", expected, f"{wanted.alpha * unit:g}")
    least, counted = chosen
    return counted.at(facts, wanted, least)


@frozen
class _Counted:
    """A schedule for a private number of rows, with the tails of its noise in rows.

    `missed` is how far the count may be off, `largest` the largest weight in size.
    """

    schedule: Schedule
    gap: float
    below: float
    above: float
    number: float
    missed: float
    largest: float

    @classmethod
    def of(
        cls, schedule: Schedule, wanted: Promise, facts: Facts, potential: float, largest: float
    ) -> _Counted:
        part, updates = wanted.beta * (1 - COUNT_FAILURES) / 3, schedule.updates
        runs = 1 if schedule.watching.tops else updates
        count = schedule.count or schedule.noise
        return cls(
            schedule,
            math.sqrt(potential / (2 * (updates + 1))),
            schedule.watching.below(part, facts, runs),
            schedule.watching.above(part, facts, wanted.queries),
            number_radius(schedule.noise, part, updates, facts),
            missed_by(count, wanted.beta, facts),
            largest,
        )

    @property
    def _drift(self) -> float:
        """By how much a miscount may move gaps of the size of `gap`, in rows."""
        return self.missed * (self.gap + self.largest)

    def least(self, alpha: float) -> int:
        """The least count for which alpha, above the gap, can be promised."""
        answers = (self._drift + self.below + self.above) / (alpha - self.gap)
        numbers = (self.number + self.missed * self.largest) / self.gap
        return math.floor(max(answers, numbers, self.missed) * (1 + 1e-9)) + 1

    def at(self, facts: Facts, wanted: Promise, least: int) -> Schedule:
        """The schedule for so many rows, of which a promise takes at least so many."""
        rows = max(facts.row_limit if facts.rows is None else facts.rows, 1)
        threshold = self.gap * rows + self._drift + self.above
        promise: Promise | None = wanted
        if facts.rows is not None:
            alpha = (threshold + self.below) / rows
            promise = evolve(wanted, alpha=alpha) if rows >= least else None
        return evolve(
            self.schedule,
            threshold=threshold,
            gap=self.gap,
            radius=(self.number + self.missed * self.largest) / rows,
            promise=promise,
            least=least if facts.rows is None else None,
        )


def _failures(
    watching: Watching, noise: Noise, radius: float, updates: int, queries: int, facts: Facts
) -> float:
    """A bound of the probability that some noise of a stream exceeds a radius, in rows."""
    row = 1 << watching.lattice_bits(facts)
    steps = math.floor((radius - watching.rounding(facts)) * row)
    if steps < 0:
        return 1.0
    threshold = watching.threshold_noise(facts, row).tail(steps)
    gaps = watching.query_noise(facts, row).tail(steps)
    own = radius - on_any_lattice(noise, facts)
    number = law_of_count(noise, facts).tail(math.floor(own)) if own >= 0 else 1.0
    return updates * threshold + queries * gaps + updates * number


def textbook(
    epsilon: Fraction, delta: Fraction, wanted: Promise, facts: Facts, potential: float
) -> Schedule:
    """Algorithm 6 of Dwork and Roth (2014), with its constants.

    c = 4 ln|X| / α² tops; NumericSparse splits ε as they do and its noise has their scales,
    one-sided; the step is α / 2. Corrected: k = 2 |Q| in both modes, noise for sensitivity 1 / n
    (as many times that as one person may have rows), the scale of ε₂, and an error of 3 α only
    where the accuracy of the sparse vector is at most α; then the threshold is 2 α, else the
    printed one. That accuracy is taken from the exact tails as well: the printed constants for
    δ > 0 leave out that c numbers with the noise of ε₂ need more than a few thresholds do.
    """
    alpha, beta, queries = wanted.alpha, wanted.beta, wanted.queries
    rows, k = max(facts.rows or 1, 1), 2 * queries
    updates = max(1, math.floor(4 * potential / alpha**2))
    exact = Fraction(updates)
    if delta:
        root = Fraction(math.sqrt(512))
        first, second = epsilon * root / (root + 1), epsilon * 2 / (root + 1)
        spread = Fraction(math.sqrt(32 * updates * math.log(2 / float(delta))))
        run, number = 2 * first / spread, second / spread
        factor = (2 + 32 * math.sqrt(2)) * math.sqrt(updates * math.log(2 / float(delta)))
    else:
        run, number = Fraction(8, 9) * epsilon / exact, epsilon / (9 * exact)
        factor = 18.0 * updates
    logs = math.log(k) + math.log(4 * updates / beta)
    printed = factor * logs * facts.unit_rows / (float(epsilon) * rows)
    watching, noise = Watching(run / 2, run / 2), LaplaceNoise(number)
    kept = printed / 2 <= alpha and (
        _failures(watching, noise, alpha * rows, updates, queries, facts) <= beta
    )
    threshold = max(2 * alpha, printed) if kept else printed
    promise = Promise(3 * alpha, beta, queries) if kept else None
    if delta:
        # The advanced composition there counts on a small ε; what is claimed must hold.
        rho = updates * (zcdp_rho(watching.guarantee) + zcdp_rho(PureGuarantee(number)))
        if rho > zcdp_start(epsilon, delta):
            expected = f"small enough for the textbook constants, as at delta={float(delta):g}"
            raise InvalidArgument("epsilon", expected, f"{float(epsilon):g}")
    radius, height = alpha if kept else printed / 2, threshold * rows
    return Schedule(updates, watching, noise, height, alpha, radius, "textbook", None, promise)


def total_of(facts: Facts) -> LinearForm:
    """The number of rows within the domain."""
    return LinearForm(facts.domain, (Kronecker((), ()),))


def counted_rows(kernel: Kernel, noise: Noise, allowance: Allowance | None = None) -> int:
    """The number of rows, measured: an integer that a table may have, and public from then on."""
    facts = kernel.facts
    number = kernel.measure(total_of(facts), noise, allowance=allowance).values[0]
    return min(max(round(float(number)), 1), max(facts.row_limit, 1))


_PREPAID_LIMIT = 10_000
"""Each prepaid round is charged by itself, and each charge is remembered."""


@frozen
class Rounds:
    """The start of a stream, and after it watches that each end with a measurement."""

    schedule: Schedule
    start: Start

    def check(self, terms: Terms, epsilon: Fraction, delta: Fraction) -> None:
        """Refuse noise that does not fit the lattices of a kernel, in words of ε and δ."""
        schedule = self.schedule
        with in_words_of(epsilon=epsilon, delta=delta):
            schedule.watching.price(terms)
            Measure(total_of(terms.facts), schedule.noise).price(terms)
            self.opening(terms)

    def opening(self, terms: Terms) -> tuple[Guarantee, ...]:
        """The price of finding the first hypothesis."""
        noise, count = self.schedule.start, self.schedule.count
        start = () if noise is None else self.start.price(noise, terms)
        if count is None:
            return start
        return (*start, Measure(total_of(terms.facts), count).price(terms).guarantee)

    def prepaid(self, terms: Terms) -> Cost:
        """The guarantee that pays for the whole stream beforehand, whatever will be measured."""
        opening = tuple(map(cover_of, self.opening(terms)))
        return self.whole(opening, self.schedule.noise.cover)

    def whole(self, opening: tuple[Guarantee, ...], measured: Guarantee) -> Cost:
        """The runs of a whole stream: its start, its watches, and what each top measures."""
        schedule = self.schedule
        watches = 1 if schedule.watching.tops is not None else schedule.updates
        rounds = (schedule.watching.guarantee, watches), (measured, schedule.updates)
        return Cost((*opening, *rounds))

    def counted(self, kernel: Kernel, allowance: Allowance | None) -> Facts:
        """The facts with the number of rows; counted, if it is private, and public then."""
        facts, noise = kernel.facts, self.schedule.count
        if noise is None:
            return facts
        return evolve(facts, rows=counted_rows(kernel, noise, allowance))

    def begin(
        self, kernel: Kernel, *, prepaid: bool, name: str
    ) -> tuple[Hypothesis, Allowance | None]:
        """The first hypothesis, and what pays for the rounds if all are paid now."""
        start, schedule = self.start, self.schedule
        # All that can be refused comes first, so that a refusal costs nothing.
        start.check(kernel.facts)
        hypothesis = None if share_of(start) else opened(start, kernel)
        allowance: Allowance | None = None
        if prepaid:
            if schedule.updates > _PREPAID_LIMIT:
                advice = "leave prepaid out, or ask for fewer updates"
                raise TooLarge(name, schedule.updates, _PREPAID_LIMIT, "prepaid rounds", advice)
            allowance = kernel.allowance(self.prepaid(kernel.terms).guarantees)
        if hypothesis is None:
            hypothesis = opened(start, kernel, schedule.start, allowance)
        return hypothesis, allowance
