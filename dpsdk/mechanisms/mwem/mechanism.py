"""`MWEM`: multiplicative weights with the exponential mechanism, for a known workload."""

from __future__ import annotations

import math

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown, to_beta, to_count, to_flag
from dpsdk._records import evolve, field, frozen
from dpsdk.accuracy import Accuracy, NoAccuracy
from dpsdk.codec import INTEGER, NUMBER, Choice, Member
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm, Lowers
from dpsdk.forms.gap import weight_range
from dpsdk.hypothesis.fit import FIT_LIMIT
from dpsdk.hypothesis.start import START
from dpsdk.kernel import Kernel, Select, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    COUNT,
    NO,
    QUERY,
    TOTAL,
    check_shares,
)
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.fitted import learn
from dpsdk.mechanisms.mwem.known import BESIDE, LearnsWorkload, gaps_of, size_of, to_rounds
from dpsdk.mechanisms.mwem.learners import (
    Marginals,
    MWEMStrategy,
    OneByOne,
    OnRecords,
    Promised,
    alike,
    one_way,
)
from dpsdk.mechanisms.mwem.plan import (
    Parts,
    Plan,
    Rule,
    by_function,
    planned,
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
from dpsdk.release import Quote
from dpsdk.typing import Real

__all__ = ["MWEM"]

_MOST_STEPS = 10_000


def _to_average(value: bool) -> bool:  # noqa: FBT001  # a reader of an argument
    return to_flag("average", value)


def _steps(value: int) -> int:
    return to_count("steps", value, most=_MOST_STEPS)


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

    rounds: int | None = field(default=None, converter=to_rounds, kw_only=True)
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


def _promising(
    plan: Plan, form: LinearForm, beta: float, terms: Terms, counted: int | None = None
) -> Plan:
    """The plan with the error of its theorem, at these very parameters."""
    facts, rounds = terms.facts, plan.rounds
    rows, missed = float(counted or size_of(facts)), missed_by(plan.start, beta, facts)
    left = beta if plan.start is None else beta * (1 - COUNT_FAILURES)
    potential = math.log(facts.domain.size + facts.outside)
    gaps, (low, high) = gaps_of(form, facts), weight_range(form)
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
