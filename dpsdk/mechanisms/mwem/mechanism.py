"""MWEM and offline private multiplicative weights, as mechanisms."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown, to_beta, to_count, to_flag
from dpsdk._records import evolve, field, frozen
from dpsdk.accuracy import Accuracy, NoAccuracy
from dpsdk.codec import INTEGER, NUMBER, Choice, Member
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import Boxes, Facts, GapForm, LinearForm, Lowers
from dpsdk.forms.gap import weight_range
from dpsdk.hypothesis.dense import CELL_LIMIT
from dpsdk.hypothesis.fit import FIT_LIMIT
from dpsdk.hypothesis.start import START
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Select, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    BETA,
    COUNT,
    NO,
    QUERY,
    SHARE,
    TOTAL,
    HasTotal,
    check_shares,
    share_if_given,
    to_workload,
)
from dpsdk.mechanisms.base import DistributionMechanism, MeasuresOnce, built_in
from dpsdk.mechanisms.fitted import learn
from dpsdk.mechanisms.mwem.learners import (
    Certifying,
    Marginals,
    MWEMStrategy,
    OneByOne,
    OnRecords,
    Promised,
    alike,
    one_way,
)
from dpsdk.mechanisms.mwem.plan import (
    OfflinePlan,
    Parts,
    Plan,
    Rule,
    after_count,
    by_function,
    choice_share,
    concentrated,
    concentrated_choice,
    planned,
    share_of,
    short,
    spent,
    suited_rounds,
)
from dpsdk.mechanisms.numeric_sparse import midway
from dpsdk.mechanisms.pmw.schedule import (
    COUNT_FAILURES,
    counted_rows,
    missed_by,
    number_radius,
)
from dpsdk.mechanisms.sampled import (
    Sampled,
    check_records,
    notes_from,
    start_beyond,
    to_records,
)
from dpsdk.release import Cost, Note, Quote
from dpsdk.typing import Real

__all__ = ["LearnsWorkload", "MWEM", "OfflinePMW"]

_MOST_ROUNDS = 10_000
_MOST_STEPS = 10_000


def _to_average(value: bool) -> bool:  # noqa: FBT001  # a reader of an argument
    return to_flag("average", value)


def _at_most(parameter: str, value: int, most: int) -> int:
    count = to_count(parameter, value)
    if count > most:
        raise InvalidArgument(parameter, f"an integer from 1 to {most:,}", shown(value))
    return count


def _share(value: float | None) -> float | None:
    return share_if_given("alpha", value)


def _rounds(value: int | None) -> int | None:
    return None if value is None else _at_most("rounds", value, _MOST_ROUNDS)


def _steps(value: int) -> int:
    return _at_most("steps", value, _MOST_STEPS)


BESIDE = NoAccuracy("the promise is about the functions of the workload alone")


@frozen(repr=False)
class LearnsWorkload(DistributionMechanism, MeasuresOnce[LinearForm], HasTotal):
    """A mechanism that learns a workload while it is opened, for a total."""

    workload: Lowers[LinearForm] = field(converter=to_workload)

    @property
    def _pure(self) -> bool:
        return self.rho is None and not self.delta

    @abstractmethod
    def _begins(self, facts: Facts) -> Sampled | None:
        """The records to start from, by public facts where nothing was given; None for cells."""

    @override
    def notes(self, facts: Facts, /) -> tuple[Note, ...]:
        return notes_from(self._begins(facts))

    def _form(self, terms: Terms) -> LinearForm:
        """The form of the workload, of weights from -1 to 1."""
        form = self.workload.lower(facts_of(terms).domain)
        check_shares(form, type(self).__name__)
        return form

    def _promising(self, terms: Terms) -> LinearForm:
        """The same where an error is promised."""
        form = self._form(terms)
        if not terms.facts.replaced and terms.facts.outside:
            reason = (
                "what it promises is about the rows within the domain, which are counted where the "
                'number of rows is private, so load the table with outside="apart"'
            )
            raise PublicSizeRequired(repr(self), reason)
        return form


@built_in(
    "mwem",
    {
        "workload": QUERY,
        **TOTAL,
        "rounds": COUNT,
        "average": NO,
        "steps": Member(INTEGER, 40),
        "start": evolve(START, quiet=True),
        "rule": Member(
            Choice[str]("tuned", "textbook", "averaged"), "tuned", of="_rule", key="_rule"
        ),
        "beta": Member(NUMBER, 0.05, of="_beta", key="_beta"),
    },
)
@frozen(repr=False)
class MWEM(LearnsWorkload):
    """Learn a workload that is known beforehand, and answer it from a public distribution.

    Each round chooses, by the exponential mechanism, the part of the workload that the distribution
    answers worst, measures it, and moves the distribution. All of it is paid while the channel
    opens; what is asked then is free, whether it is in the workload or not (Hardt, Ligett and
    McSherry 2012). A part is a block of the workload's form, such as a whole marginal, since
    disjoint cells cost as much as one; of `Rectangles` each is a part by itself. All parts measured
    so far are fitted again each round. Nothing is promised of the error; the rules below promise
    one.

    A universe of more than 2^24 cells is learnt on weighted records (`start`). Functions weigh rows
    from -1 to 1. Where the number of rows is private it is estimated from what is measured, and the
    universe has at most 2^24 cells.

    Parameters
    ----------
    workload
        A query, or a `Workload` of queries.
    epsilon, delta
        What the opening may cost, by the composition of the session. With δ = 0 it is pure: noise
        is Laplace, and costs add up.
    rho
        Instead: what it may cost in zCDP.
    rounds
        How many parts are chosen; from public facts if left out.
    average
        Whether the average of all rounds answers, and not the last one, which is mostly better.
    steps
        How often at the most a round moves the distribution towards all that was measured. Free.
        Weighted records take up to 8 passes instead.
    start
        `Sampled()` or "marginals" for a universe of any size: weighted records that resemble
        marginals, which nine tenths of the total pay for. It takes a δ above 0 or a ρ, and a public
        number of rows. By default where there are more than 2^24 cells.

    >>> from dpsdk.mechanisms import MWEM
    >>> from dpsdk.queries import Marginal
    >>> MWEM(Marginal("sex", "income"), epsilon=1, delta=1e-9)
    MWEM(Marginal('sex', 'income'), epsilon=1, delta=1e-09)
    """

    page = "explanation/proofs/mwem.md"

    rounds: int | None = field(default=None, converter=_rounds, kw_only=True)
    average: bool = field(default=False, converter=_to_average, kw_only=True)
    steps: int = field(default=40, converter=_steps, kw_only=True)
    start: Sampled | None = field(default=None, converter=to_records, kw_only=True)
    _rule: Rule = field(default="tuned", kw_only=True, alias="_rule")
    _beta: float = field(default=0.05, converter=to_beta, kw_only=True, alias="_beta")

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_records(self.start, pure=self._pure)
        if self.start is not None and (self.average or self._rule != "tuned"):
            expected = "left out with an average or a promise, for which records are none"
            raise InvalidArgument("start", expected, shown(self.start))

    @override
    def _begins(self, facts: Facts) -> Sampled | None:
        if self.start is not None or self.average or self._rule != "tuned":
            return self.start
        return start_beyond(facts, FIT_LIMIT, pure=self._pure)

    @classmethod
    def textbook(
        cls,
        workload: Lowers[LinearForm],
        epsilon: Real,
        *,
        rounds: int | None = None,
        beta: float = 0.05,
    ) -> MWEM:
        """The algorithm as it is mostly printed, one function a round, in pure DP.

        Half of ε / rounds goes to the choice, half to a Laplace number, which is brought into the
        range of its function; weights are multiplied by exp(f · (number - answer) / 2); the average
        of all distributions before a move answers. Corrected: functions from 0 to 1 move by one
        row, from -1 to 1 by two. With probability 1 - `beta` no number of the workload is off by
        more than promised (docs/explanation/proofs/mwem.md), which says something for large tables
        only. A private number of rows is counted first, with a fiftieth of the total, which takes a
        table that has no row outside the domain; the promise is about counts then. `rounds` left
        out are those that make the promise the smallest, for `max_rows` rows if need be.
        """
        return cls(workload, epsilon=epsilon, rounds=rounds, _rule="textbook", _beta=beta)

    @classmethod
    def averaged(
        cls,
        workload: Lowers[LinearForm],
        epsilon: Real | None = None,
        delta: Real = 0,
        *,
        rho: Real | None = None,
        rounds: int | None = None,
        beta: float = 0.05,
    ) -> MWEM:
        """Choices alone, without any measurement.

        Each round chooses a function, or its negation, that the distribution answers too low by the
        most, and moves along it by a step that is fixed beforehand; the average of all
        distributions before a move answers. `rounds` and `beta` are as for `textbook`.
        """
        return cls(
            workload, epsilon=epsilon, delta=delta, rho=rho, rounds=rounds,
            _rule="averaged", _beta=beta,
        )  # fmt: skip

    @override
    def _stated(
        self, query: Lowers[LinearForm] | None, beta: float | None
    ) -> tuple[Lowers[LinearForm], float]:
        return query or self.workload, self._beta if beta is None else beta

    def plan(self, terms: Terms) -> Plan:
        """How a channel on such terms would spend, and what it promises. Public, spends nothing.

        Raises
        ------
        QueryError, DomainError
            If the workload cannot be put to such a table, or has other weights than from -1 to 1.
        PublicSizeRequired
            If an error is to be promised, the number of rows is private, and some may lie outside.
        InvalidArgument
            If nothing can be answered for so little.
        """
        return self._planned(self._lowered(terms), terms)

    def _lowered(self, terms: Terms) -> LinearForm:
        if self._rule != "tuned":
            return self._promising(terms)
        # Boxes come in one block for speed, and need not be alike: each is a part by itself. On
        # records they stay together, where there may be very many.
        form = self._form(terms)
        together = by_function(form) and self._begins(facts_of(terms)) is not None
        return form if together else form.apart()

    def _planned(self, form: LinearForm, terms: Terms) -> Plan:
        with self._in_words():
            parts = self._parts(form, terms)
            plan = planned(self._rule, self, self.rounds, form, self._beta, parts)
            return plan if self._rule == "tuned" else _promising(plan, form, self._beta, terms)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_shares(form, "MWEM")
        workload = self._lowered(terms)
        plan = self._planned(workload, terms)
        accuracy: Accuracy = NoAccuracy("read off a distribution fitted to noisy answers")
        if plan.error is not None and plan.beta is not None:
            accuracy = Promised(workload, plan.error, plan.beta).accuracy(form, BESIDE)
        cost = self._parts(workload, terms).cost(plan)
        return Quote(cost, cost, accuracy)

    def _parts(self, form: LinearForm, terms: Terms) -> Parts:
        parts, start = _parts(form, terms), self._begins(facts_of(terms))
        return parts if start is None else evolve(parts, start=start)

    def open(self, kernel: Kernel, /) -> MWEMStrategy:
        terms = kernel.terms
        form = self._lowered(terms)
        plan = self._planned(form, terms)
        with self._in_words():
            start = self._begins(terms.facts)
            if start is not None:
                return learn(kernel, plan.rounds, OnRecords(form, plan, terms, start))
            if plan.rule == "tuned":
                parts = Marginals(form, plan, terms, steps=self.steps, average=self.average)
                return learn(kernel, plan.rounds, parts)
            # All that can be refused comes first, so that a refusal costs nothing.
            learner = OneByOne(form, plan, terms.facts)
            if plan.start is not None:
                rows = counted_rows(kernel, plan.start)
                learner.counted(rows, _promising(plan, form, self._beta, terms, rows))
            return learn(kernel, plan.rounds, learner)

    def __repr__(self) -> str:
        given = [shown(self.workload), self._total]
        if self.rounds is not None:
            given.append(f"rounds={self.rounds}")
        if self.average:
            given.append("average=True")
        if self.start is not None:
            given.append(f"start={self.start!r}")
        return f"MWEM{'' if self._rule == 'tuned' else f'.{self._rule}'}({', '.join(given)})"


def _parts(form: LinearForm, terms: Terms) -> Parts:
    """The parts that the tuned rule measures: the one-way marginals, and one part of each price."""
    if form.integral and by_function(form):
        _, first = np.unique(np.stack(form.extents()), axis=1, return_index=True)
        return Parts(one_way(form), [form.row(place) for place in sorted(first.tolist())], terms)
    parts: dict[object, LinearForm] = {}
    for place, block in enumerate(form.apart().blocks):
        part = LinearForm(form.domain, (block,))
        parts.setdefault(alike(part, place), part)
    return Parts(one_way(form), tuple(parts.values()), terms)


def _size(facts: Facts) -> float:
    """The number of rows; as many as there may be, where it is private."""
    return float(max(facts.row_limit if facts.rows is None else facts.rows, 1))


def _gaps(form: LinearForm, facts: Facts) -> GapForm:
    """Gaps that a choice costs as much as any that a round has."""
    if facts.replaced:
        return midway(form)
    return GapForm(form, np.zeros(form.rows), np.full(form.rows, _size(facts)))


def _promising(
    plan: Plan, form: LinearForm, beta: float, terms: Terms, counted: int | None = None
) -> Plan:
    """The plan with the error of its theorem, at these very parameters."""
    facts, rounds = terms.facts, plan.rounds
    rows, missed = float(counted or _size(facts)), missed_by(plan.start, beta, facts)
    left = beta if plan.start is None else beta * (1 - COUNT_FAILURES)
    potential = math.log(facts.domain.size + facts.outside)
    gaps, (low, high) = _gaps(form, facts), weight_range(form)
    if plan.noise is None:
        signed = evolve(gaps, absolute=False)
        choice = Select(signed, plan.choice, opposites=True).price(terms).accuracy
        short = choice.error(left / rounds)
        error = short + missed + (high - low) * rows * math.sqrt(potential / (2 * rounds))
        return evolve(plan, error=error * (1 + 1e-9), beta=beta)
    short = Select(gaps, plan.choice).price(terms).accuracy.error(left / (2 * rounds))
    noise = number_radius(plan.noise, left / 2, rounds, facts) * gaps.sensitivity
    learnt = math.hypot(rows * math.sqrt(4 * potential / rounds), noise + missed)
    return evolve(plan, error=(short + missed + learnt) * (1 + 1e-9), beta=beta)


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
    rounds: int | None = field(default=None, converter=_rounds, kw_only=True)
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
        most = _MOST_FITTED if self.delta else _MOST_ROUNDS
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
            return self._at(_size(facts), whole, form, terms)

    def _on_records(self, start: Sampled, form: LinearForm, terms: Terms) -> OfflinePlan:
        """The plan that has no theorem: no number is so near that it ends the rounds."""
        facts, parts = terms.facts, Parts(start, _alike(form, terms.facts), terms)
        with self._in_words():
            rounds = self.rounds or suited_rounds(self, form.rows, facts)
            plan = planned("tuned", self, rounds, form, self.beta, parts)
            noise = plan.noise or LaplaceNoise(plan.choice)
            unit = _gaps(form, facts).sensitivity
            radius = number_radius(noise, self.beta, rounds, facts) * unit
            return OfflinePlan(
                rounds, plan.choice, noise, -math.inf, radius, math.inf, self.beta,
                parts.cost(plan), start=plan.start,
            )  # fmt: skip

    def _at(self, rows: float, plan: OfflinePlan, form: LinearForm, terms: Terms) -> OfflinePlan:
        """The plan with what is promised of a table of so many rows."""
        facts, rounds, gaps = terms.facts, plan.rounds, _gaps(form, terms.facts)
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
    learning = _size(facts) * math.sqrt(potential / (2 * rounds))
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
    share = Fraction(round(256 * choice_share(*_errors(1.0, options, numbers))), 256)
    share = min(max(share, Fraction(1, 256)), Fraction(255, 256))

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
