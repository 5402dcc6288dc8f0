"""Offline private multiplicative weights: learn until no function is known to be off by much."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown, to_amount, to_beta
from dpsdk.accounting import BoundedRangeGuarantee
from dpsdk.accuracy import Accuracy, NoAccuracy, PromisedAccuracy
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import Facts, GapForm, LinearForm, Lowers
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.kernel import Kernel, LaplaceNoise, Select, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.learning import step_towards
from dpsdk.mechanisms.base import DistributionMechanism
from dpsdk.mechanisms.mwem.learners import learn
from dpsdk.mechanisms.mwem.plan import share_of
from dpsdk.mechanisms.mwem.strategy import MWEMStrategy, Promised
from dpsdk.mechanisms.pmw.schedule import number_radius
from dpsdk.mechanisms.refusals import check_shares, in_words
from dpsdk.mechanisms.workload import to_workload
from dpsdk.release import Cost, Quote
from dpsdk.typing import Real

__all__ = ["OfflinePMW", "OfflinePlan"]


def _epsilon(value: Real) -> Fraction:
    return to_amount("epsilon", value)


@frozen
class OfflinePlan:
    """What an opening will do, all of it public.

    At most `rounds`, each a choice and a number at `each` of ε. A number within `threshold` rows of
    the distribution ends them. Where it is not, the distribution is off by `gap` rows at least,
    for numbers are within `radius` rows. Then no number is off by more than `error` rows. All of
    this holds with probability 1 - `beta`.
    """

    rounds: int
    each: Fraction
    gap: float
    radius: float
    error: float
    beta: float

    @property
    def threshold(self) -> float:
        """How near a number ends the rounds, in rows."""
        return self.gap + self.radius

    @property
    def cost(self) -> Cost:
        """What it comes to at the most."""
        number = LaplaceNoise(self.each).cover
        return Cost((BoundedRangeGuarantee(self.each), number) * self.rounds)


@frozen(repr=False, eq=False)
class OfflinePMW(DistributionMechanism):
    """Learn a workload that is known beforehand, one function a round, until it is known well.

    Each round chooses the function that the distribution answers worst, among all of them, and
    measures it with Laplace noise. If the number is near the distribution, that is the answer, and
    later rounds are not paid; else the distribution learns it. With probability 1 - `beta` no
    number of the workload is off by more than promised (docs/explanation/proofs/mwem.md), which
    says something for large tables only (Hardt and Rothblum 2010; Gupta, Roth and Ullman 2012).

    Parameters
    ----------
    workload
        A query, or a `Workload` of queries; the number of rows must be public.
    epsilon
        What the opening may cost at the most, in pure privacy.
    beta
        How likely the promise may fail, strictly between 0 and 1.

    >>> from dpsdk.mechanisms import OfflinePMW
    >>> from dpsdk.queries import Marginal
    >>> OfflinePMW(Marginal("sex", "income"), epsilon=1)
    OfflinePMW(Marginal('sex', 'income'), epsilon=1)
    """

    workload: Lowers[LinearForm] = field(converter=to_workload)
    epsilon: Fraction = field(converter=_epsilon, kw_only=True)
    beta: float = field(default=0.05, converter=to_beta, kw_only=True)

    def plan(self, terms: Terms) -> OfflinePlan:
        """How a channel on such terms would spend, and what it promises. Public, spends nothing.

        Raises
        ------
        QueryError, DomainError
            If the workload cannot be put to such a table, or has other weights than from 0 to 1.
        PublicSizeRequired
            If the number of rows is private.
        """
        return self._planned(self._lowered(terms), terms)

    def _lowered(self, terms: Terms) -> LinearForm:
        facts = facts_of(terms)
        form = self.workload.lower(facts.domain)
        check_shares(form, "OfflinePMW")
        if facts.rows is None:
            reason = "its promise is about shares of the rows, so it needs their number"
            raise PublicSizeRequired(repr(self), reason)
        return form

    def _planned(self, form: LinearForm, terms: Terms) -> OfflinePlan:
        facts = terms.facts
        rows = float(facts.rows or 1)
        potential = math.log(facts.domain.size + facts.outside)

        def rough(rounds: int) -> float:
            scale = 2 * rounds * facts.unit_rows / float(self.epsilon)
            tails = math.log(2 * form.rows * rounds / self.beta) + math.log(2 * rounds / self.beta)
            return rows * math.sqrt(potential / (2 * rounds)) + 2 * scale * tails

        rounds = min(sorted({round(1.05**power) for power in range(190)}), key=rough)
        # So that this many moves would use up more than all of the potential.
        gap = rows * math.sqrt(potential / (2 * rounds)) * (1 + 1e-9)
        try:
            each = share_of(self.epsilon, 2 * rounds)
            gaps = GapForm.around(form, np.full(form.rows, 0.5))
            choice = Select(gaps, each).price(terms).accuracy
            radius = number_radius(LaplaceNoise(each), self.beta / 2, rounds, facts)
        except InvalidArgument as error:
            raise in_words(error, epsilon=self.epsilon) from None
        short = choice.error(self.beta / (2 * rounds))
        bound = (gap + 2 * radius + short) * (1 + 1e-9)
        return OfflinePlan(rounds, each, gap, radius, bound, self.beta)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_shares(form, "OfflinePMW")
        workload = self._lowered(terms)
        plan = self._planned(workload, terms)
        accuracy: Accuracy = NoAccuracy("the promise is about the functions of the workload alone")
        if frozenset(workload.row_identities()).issuperset(form.row_identities()):
            accuracy = PromisedAccuracy(plan.error, plan.beta, form.rows)
        return Quote(plan.cost, plan.cost, accuracy)

    def open(self, kernel: Kernel, /) -> MWEMStrategy:
        terms = kernel.terms
        form = self._lowered(terms)
        plan = self._planned(form, terms)
        return learn(kernel, plan.rounds, Certifying(form, plan, terms.facts))

    def __repr__(self) -> str:
        return f"OfflinePMW({shown(self.workload)}, epsilon={float(self.epsilon):g})"


@frozen(eq=False)
class _Standing:
    """What stands after a round."""

    hypothesis: DenseHypothesis
    chosen: tuple[int, ...] = ()
    certified: bool = False


class Certifying:
    """Choose one function a round, and learn it unless its number is near the distribution."""

    def __init__(self, form: LinearForm, plan: OfflinePlan, facts: Facts) -> None:
        self._form = form
        self._plan = plan
        self._rows = float(facts.rows or 1)
        # One field, so that an interrupt finds all of a round or nothing.
        self._state = _Standing(DenseHypothesis.uniform(form.domain, outside=facts.outside))

    @property
    def learnt(self) -> bool:
        """Whether a round is over."""
        return bool(self._state.chosen)

    @property
    def done(self) -> bool:
        """Whether the last number was near the distribution."""
        return self._state.certified

    def round(self, kernel: Kernel) -> None:
        """Look at the function that is off the most, as far as noise tells."""
        form, plan, state = self._form, self._plan, self._state
        rates = state.hypothesis.answers(form)
        place = kernel.select(GapForm.around(form, np.clip(rates, 0.0, 1.0)), plan.each)
        row, rate = form.row(place), float(rates[place])
        number = float(kernel.measure(row, LaplaceNoise(plan.each)).values[0])
        chosen = (*state.chosen, place)
        if abs(number - rate * self._rows) <= plan.threshold:
            self._state = _Standing(state.hypothesis, chosen, certified=True)
            return
        hypothesis = state.hypothesis.copy()
        value, radius, gap = (x / self._rows for x in (number, plan.radius, plan.gap))
        step_towards(hypothesis, row, value, radius, gap, answer=rate)
        self._state = _Standing(hypothesis, chosen)

    def strategy(self, *, finished: bool) -> MWEMStrategy:
        """The distribution as it stands; what it promises holds once a number was near it."""
        del finished
        state, plan = self._state, self._plan
        promise = Promised(self._form, plan.error, plan.beta) if state.certified else None
        return MWEMStrategy(state.hypothesis.copy(), self._rows, state.chosen, promise)
