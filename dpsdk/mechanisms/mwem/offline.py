"""`OfflinePMW`: private multiplicative weights for a known workload, with a promise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown, to_beta
from dpsdk._records import evolve, field, frozen
from dpsdk.accuracy import Accuracy, NoAccuracy
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Boxes, Facts, LinearForm, Lowers
from dpsdk.forms.gap import weight_range
from dpsdk.hypothesis.dense import CELL_LIMIT
from dpsdk.hypothesis.start import START
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Select, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    BETA,
    COUNT,
    QUERY,
    SHARE,
    TOTAL,
    HasTotal,
    check_shares,
    share_if_given,
)
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.fitted import learn
from dpsdk.mechanisms.mwem.known import (
    BESIDE,
    MOST_ROUNDS,
    LearnsWorkload,
    gaps_of,
    size_of,
    to_rounds,
)
from dpsdk.mechanisms.mwem.learners import (
    Certifying,
    MWEMStrategy,
    OnRecords,
    Promised,
)
from dpsdk.mechanisms.mwem.plan import (
    OfflinePlan,
    Parts,
    Plan,
    after_count,
    choice_part,
    choice_share,
    concentrated,
    concentrated_choice,
    planned,
    share_of,
    short,
    spent,
    suited_rounds,
)
from dpsdk.mechanisms.pmw.schedule import (
    COUNT_FAILURES,
    counted_rows,
    missed_by,
    number_radius,
)
from dpsdk.mechanisms.sampled import (
    Sampled,
    check_records,
    start_beyond,
    to_records,
)
from dpsdk.release import Cost, Quote
from dpsdk.typing import Real

__all__ = ["OfflinePMW"]


def _share(value: float | None) -> float | None:
    return share_if_given("alpha", value)


_ON_RECORDS = "read off weighted records, of which there is no theorem"

_MOST_FITTED = 1_000
"""No more rounds are fitted to an (ε, δ), which is tried out charge by charge."""


@built_in(
    "offline-pmw",
    {
        "workload": QUERY,
        **TOTAL,
        "beta": BETA,
        "rounds": evolve(COUNT, quiet=True),
        "start": evolve(START, quiet=True),
        "alpha": evolve(SHARE, quiet=True, of="_alpha", key="_alpha"),
    },
)
@frozen(repr=False)
class OfflinePMW(LearnsWorkload):
    """Learn a workload that is known beforehand, one function a round, until it is known well.

    Each round chooses the function that the distribution answers worst, among all of them, and
    measures it. If the number is near the distribution, that is the answer, and
    later rounds are not paid; else the distribution learns it. With probability 1 - `beta` no
    number of the workload is off by more than promised (docs/explanation/proofs/mwem.md), which
    says something for large tables only (Hardt and Rothblum 2010; Gupta, Roth and Ullman 2012).

    Over more than 2^28 cells it learns on weighted records (`start`). There is no theorem for them,
    since what no record shows cannot be learnt: nothing is promised, and all rounds are paid.

    Parameters
    ----------
    workload
        A query, or a `Workload` of queries. A private number of rows is counted first, with a
        fiftieth of the total, which takes a table that has no row outside the domain; the number of
        rounds is then one that suits `max_rows` rows.
    epsilon, delta
        What the opening may cost at the most, by the composition of the session. With δ = 0 it is
        pure, and numbers have Laplace noise.
    rho
        Instead: what it may cost in zCDP, with Gaussian noise. With δ above 0 there are at most
        1,000 rounds; a ρ may have ten times as many, which suits tables of millions of rows.
    beta
        How likely the promise may fail, strictly between 0 and 1.
    rounds
        How many functions are measured at the most; from public facts if left out.
    start
        `Sampled()` or "marginals", as of `MWEM`; by default where there are more than 2^28 cells.

    >>> from dpsdk.mechanisms import OfflinePMW
    >>> from dpsdk.queries import Marginal
    >>> OfflinePMW(Marginal("sex", "income"), epsilon=1)
    OfflinePMW(Marginal('sex', 'income'), epsilon=1)
    """

    page = "explanation/proofs/mwem.md"

    beta: float = field(default=0.05, converter=to_beta, kw_only=True)
    rounds: int | None = field(default=None, converter=to_rounds, kw_only=True)
    start: Sampled | None = field(default=None, converter=to_records, kw_only=True)
    _alpha: float | None = field(default=None, converter=_share, kw_only=True, alias="_alpha")

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_records(self.start, pure=self._pure)
        if self._alpha is not None and (self.start is not None or self.rounds is not None):
            expected = "left out with an alpha, which sets the rounds and which records cannot have"
            raise InvalidArgument("start and rounds", expected, "given")

    @override
    def _begins(self, facts: Facts) -> Sampled | None:
        if self.start is not None or self._alpha is not None:
            return self.start
        return start_beyond(facts, CELL_LIMIT, pure=self._pure)

    @classmethod
    def textbook(
        cls,
        workload: Lowers[LinearForm],
        epsilon: Real | None = None,
        delta: Real = 0,
        *,
        alpha: float,
        beta: float = 0.05,
        rho: Real | None = None,
    ) -> OfflinePMW:
        """The algorithm with the step and the stop that are printed, for an alpha given beforehand.

        There are 4 ln|X| / alpha² rounds and one more, each moves by the root of ln|X| over their
        number, and a number within 2 alpha of the distribution ends them. Corrected: the error is
        then not alpha, but 2 alpha and what the noise of a number and of a choice may add. It is
        promised where the noise of all numbers stays within alpha, with probability 1 - `beta`, by
        its exact tails; elsewhere it runs, and promises nothing. (Hardt and Rothblum 2010; Gupta,
        Roth and Ullman 2012.)
        """
        return cls(workload, epsilon=epsilon, delta=delta, rho=rho, beta=beta, _alpha=alpha)

    @override
    def _stated(
        self, query: Lowers[LinearForm] | None, beta: float | None
    ) -> tuple[Lowers[LinearForm], float]:
        return query or self.workload, self.beta if beta is None else beta

    def plan(self, terms: Terms) -> OfflinePlan:
        """How a channel on such terms would spend, and what it promises. Public, spends nothing.

        Raises
        ------
        QueryError, DomainError
            If the workload cannot be put to such a table, or has other weights than from -1 to 1.
        PublicSizeRequired
            If the number of rows is private, and some may lie outside the domain.
        InvalidArgument
            If nothing can be answered for so little.
        """
        return self._planned(self._promising(terms), terms)

    def _planned(self, form: LinearForm, terms: Terms) -> OfflinePlan:
        facts = terms.facts
        start, potential = self._begins(facts), math.log(facts.domain.size + facts.outside)
        most = _MOST_FITTED if self.delta else MOST_ROUNDS
        if (self.rounds or 0) > most:
            raise InvalidArgument("rounds", f"at most {most:,} with a delta", f"{self.rounds:,}")
        if start is not None:
            return self._on_records(start, form, terms)
        if self.rounds is not None:
            rounds = self.rounds
        elif self._alpha is None:
            counts = sorted({round(1.05**power) for power in range(190)})
            rounds = min(
                [count for count in counts if count <= most or not self.delta],
                key=lambda count: _rough(self, count, form, self.beta, facts, potential),
            )
        else:
            rounds = math.floor(min(4 * potential / self._alpha**2, most)) + 1
            if rounds > most:
                expected = f"so large that {most:,} rounds are enough"
                raise InvalidArgument("alpha", expected, f"{self._alpha:g}")
        with self._in_words():
            plan, cost = _spent(self, rounds, form, self.beta, terms)
            noise = plan.noise or LaplaceNoise(plan.choice)
            whole = OfflinePlan(
                rounds, plan.choice, noise, 0.0, 0.0, 0.0, self.beta, cost, plan.start,
                None if self._alpha is None else math.sqrt(potential / rounds),
            )  # fmt: skip
            return self._at(size_of(facts), whole, form, terms)

    def _on_records(self, start: Sampled, form: LinearForm, terms: Terms) -> OfflinePlan:
        """The plan that has no theorem: no number is so near that it ends the rounds."""
        facts, parts = terms.facts, Parts(start, _alike(form, terms.facts), terms)
        with self._in_words():
            rounds = self.rounds or suited_rounds(self, form.rows, facts)
            plan = planned("tuned", self, rounds, form, self.beta, parts)
            noise = plan.noise or LaplaceNoise(plan.choice)
            unit = gaps_of(form, facts).sensitivity
            radius = number_radius(noise, self.beta, rounds, facts) * unit
            return OfflinePlan(
                rounds, plan.choice, noise, -math.inf, radius, math.inf, self.beta,
                parts.cost(plan), start=plan.start,
            )  # fmt: skip

    def _at(self, rows: float, plan: OfflinePlan, form: LinearForm, terms: Terms) -> OfflinePlan:
        """The plan with what is promised of a table of so many rows."""
        facts, rounds, gaps = terms.facts, plan.rounds, gaps_of(form, terms.facts)
        missed = missed_by(plan.count, self.beta, facts)
        part = self.beta * (1 if plan.count is None else 1 - COUNT_FAILURES) / 2
        # So that this many moves would use up more than all of the potential.
        potential, (low, high) = math.log(facts.domain.size + facts.outside), weight_range(form)
        gap = (high - low) * rows * math.sqrt(potential / (2 * rounds)) * (1 + 1e-9)
        short = Select(gaps, plan.choice).price(terms).accuracy.error(part / rounds)
        noise = number_radius(plan.noise, part, rounds, facts) * gaps.sensitivity
        radius = noise + missed
        if self._alpha is not None:
            gap = 2 * self._alpha * rows - radius
        error = (gap + 2 * noise + missed + short) * (1 + 1e-9)
        if self._alpha is not None and radius > self._alpha * rows:
            error = math.inf
        return evolve(plan, gap=gap, radius=radius, error=error)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_shares(form, "OfflinePMW")
        workload = self._promising(terms)
        plan = self._planned(workload, terms)
        accuracy: Accuracy = NoAccuracy("the noise of its numbers may exceed its alpha")
        if self._begins(facts_of(terms)) is not None:
            accuracy = NoAccuracy(_ON_RECORDS)
        elif self._alpha is not None and plan.count is not None:
            accuracy = NoAccuracy("whether it promises an error depends on the number of rows")
        elif plan.error < math.inf:
            accuracy = Promised(workload, plan.error, plan.beta).accuracy(form, BESIDE)
        return Quote(plan.cost, plan.cost, accuracy)

    def open(self, kernel: Kernel, /) -> MWEMStrategy:
        terms = kernel.terms
        form = self._promising(terms)
        plan, start = self._planned(form, terms), self._begins(terms.facts)
        if start is not None:
            with self._in_words():
                learner_on = OnRecords(form, plan, terms, start, whole=False)
                return learn(kernel, plan.rounds, learner_on)
        learner = Certifying(form, plan, terms.facts)
        if plan.count is not None:
            rows = counted_rows(kernel, plan.count)
            learner.counted(rows, self._at(rows, plan, form, terms))
        return learn(kernel, plan.rounds, learner)

    def __repr__(self) -> str:
        if self._alpha is None:
            others = {"rounds": self.rounds, "start": self.start}
            told = [f", {name}={value!r}" for name, value in others.items() if value is not None]
            return f"OfflinePMW({shown(self.workload)}, {self._total}{''.join(told)})"
        given = f"{shown(self.workload)}, {self._total}, alpha={self._alpha:g}"
        return f"OfflinePMW.textbook({given})"


def _rough(
    total: HasTotal, rounds: int, form: LinearForm, beta: float, facts: Facts, potential: float
) -> float:
    """About what may be promised for so many rounds, in rows."""
    learning = size_of(facts) * math.sqrt(potential / (2 * rounds))
    options, numbers = math.log(2 * form.rows * rounds / beta), math.log(2 * rounds / beta)
    if concentrated(total):
        choice, number = _errors(concentrated(total) / rounds, options, numbers)
        share = choice_share(choice, number)
        noisy = choice / math.sqrt(share) + number / math.sqrt(1 - share)
    else:
        noisy = 4 * rounds / float(total.epsilon or 1) * (options + numbers)
    return learning + noisy * facts.unit_rows


def _errors(rho: float, options: float, numbers: float) -> tuple[float, float]:
    """The errors of a choice and of twice a number, each if it had all of a round's ρ."""
    return options / math.sqrt(2 * rho), 2 * math.sqrt(numbers / rho)


def _spent(
    total: HasTotal, rounds: int, form: LinearForm, beta: float, terms: Terms
) -> tuple[Plan, Cost]:
    """How a round is paid, and what all of them cost at the most."""
    parts = Parts(None, _alike(form, terms.facts), terms)
    options, numbers = math.log(2 * form.rows * rounds / beta), math.log(2 * rounds / beta)
    share = choice_part(*_errors(1.0, options, numbers))

    def split(amount: Fraction, rounds: int, pure: bool) -> Plan:  # noqa: FBT001  # as of the others
        if pure:
            each = share_of(amount, 2 * rounds)
            return Plan("offline", rounds, each, LaplaceNoise(each))
        each = share_of(amount, rounds)
        choice = concentrated_choice(each * share)
        return Plan("offline", rounds, choice, GaussianNoise(short(each * (1 - share))))

    plan = spent(split if terms.facts.replaced else after_count(split), total, rounds, parts)
    return plan, parts.cost(plan)


def _alike(form: LinearForm, facts: Facts) -> tuple[LinearForm, ...]:
    """A function that all others cost as much as, or nothing; none where they are not known to."""
    low, high = form.extents()
    if facts.outside:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    moves = high - low
    moved = moves > 0
    same = not moved.any() or bool((moves[moved] == moves[moved][0]).all())
    # A block of boxes is answered by more steps than one box, which alone is measured.
    plain = form.integral and all(
        isinstance(block, Boxes) or block.reach == 1.0 for block in form.blocks
    )
    return (form.row(int(np.argmax(moves))),) if same and plain else ()
