"""Offline private multiplicative weights: learn until no function is known to be off by much."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown, to_beta
from dpsdk._records import field, frozen
from dpsdk.forms import Boxes, Facts, GapForm, LinearForm
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Select, Terms
from dpsdk.mechanisms.arguments import BETA, QUERY, TOTAL, HasTotal, check_shares
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.fitted import learn
from dpsdk.mechanisms.mwem.learners import Certifying, MWEMStrategy, Promised
from dpsdk.mechanisms.mwem.mechanism import BESIDE, LearnsWorkload
from dpsdk.mechanisms.mwem.plan import (
    OfflinePlan,
    Parts,
    Plan,
    concentrated,
    concentrated_choice,
    fitted,
    share_of,
    short,
)
from dpsdk.mechanisms.pmw.schedule import number_radius
from dpsdk.release import Cost, Quote

__all__ = ["OfflinePMW"]


_MOST_FITTED = 1_000
"""No more rounds are fitted to an (ε, δ), which is tried out charge by charge."""


@built_in("offline-pmw", {"workload": QUERY, **TOTAL, "beta": BETA})
@frozen(repr=False)
class OfflinePMW(LearnsWorkload):
    """Learn a workload that is known beforehand, one function a round, until it is known well.

    Each round chooses the function that the distribution answers worst, among all of them, and
    measures it. If the number is near the distribution, that is the answer, and
    later rounds are not paid; else the distribution learns it. With probability 1 - `beta` no
    number of the workload is off by more than promised (docs/explanation/proofs/mwem.md), which
    says something for large tables only (Hardt and Rothblum 2010; Gupta, Roth and Ullman 2012).

    Parameters
    ----------
    workload
        A query, or a `Workload` of queries; the number of rows must be public.
    epsilon, delta
        What the opening may cost at the most, by the composition of the session. With δ = 0 it is
        pure, and numbers have Laplace noise.
    rho
        Instead: what it may cost in zCDP, with Gaussian noise. With δ above 0 there are at most
        1,000 rounds; a ρ may have ten times as many, which suits tables of millions of rows.
    beta
        How likely the promise may fail, strictly between 0 and 1.

    >>> from dpsdk.mechanisms import OfflinePMW
    >>> from dpsdk.queries import Marginal
    >>> OfflinePMW(Marginal("sex", "income"), epsilon=1)
    OfflinePMW(Marginal('sex', 'income'), epsilon=1)
    """

    page = "explanation/proofs/mwem.md"

    beta: float = field(default=0.05, converter=to_beta, kw_only=True)

    def plan(self, terms: Terms) -> OfflinePlan:
        """How a channel on such terms would spend, and what it promises. Public, spends nothing.

        Raises
        ------
        QueryError, DomainError
            If the workload cannot be put to such a table, or has other weights than from 0 to 1.
        PublicSizeRequired
            If the number of rows is private.
        InvalidArgument
            If nothing can be answered for so little.
        """
        return self._planned(self._promising(terms), terms)

    def _planned(self, form: LinearForm, terms: Terms) -> OfflinePlan:
        facts = terms.facts
        rows = float(facts.rows or 1)
        potential = math.log(facts.domain.size + facts.outside)
        counts = sorted({round(1.05**power) for power in range(190)})
        rounds = min(
            [count for count in counts if count <= _MOST_FITTED or not self.delta],
            key=lambda count: _rough(self, count, form, self.beta, facts, potential),
        )
        # So that this many moves would use up more than all of the potential.
        gap = rows * math.sqrt(potential / (2 * rounds)) * (1 + 1e-9)
        with self._in_words():
            plan, cost = _spent(self, rounds, form, self.beta, terms)
            noise = plan.noise or LaplaceNoise(plan.choice)
            gaps = GapForm.around(form, np.full(form.rows, 0.5))
            choice = Select(gaps, plan.choice).price(terms).accuracy
            radius = number_radius(noise, self.beta / 2, rounds, facts)
        missed = choice.error(self.beta / (2 * rounds))
        bound = (gap + 2 * radius + missed) * (1 + 1e-9)
        return OfflinePlan(rounds, plan.choice, noise, gap, radius, bound, self.beta, cost)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_shares(form, "OfflinePMW")
        workload = self._promising(terms)
        plan = self._planned(workload, terms)
        accuracy = Promised(workload, plan.error, plan.beta).accuracy(form, BESIDE)
        return Quote(plan.cost, plan.cost, accuracy)

    def open(self, kernel: Kernel, /) -> MWEMStrategy:
        terms = kernel.terms
        form = self._promising(terms)
        plan = self._planned(form, terms)
        return learn(kernel, plan.rounds, Certifying(form, plan, terms.facts))

    def __repr__(self) -> str:
        return f"OfflinePMW({shown(self.workload)}, {self._total})"


def _rough(
    total: HasTotal, rounds: int, form: LinearForm, beta: float, facts: Facts, potential: float
) -> float:
    """About what may be promised for so many rounds, in rows."""
    learning = float(facts.rows or 1) * math.sqrt(potential / (2 * rounds))
    options, numbers = math.log(2 * form.rows * rounds / beta), math.log(2 * rounds / beta)
    if concentrated(total):
        choice, number = _errors(concentrated(total) / rounds, options, numbers)
        share = _choice_share(choice, number)
        noisy = choice / math.sqrt(share) + number / math.sqrt(1 - share)
    else:
        noisy = 4 * rounds / float(total.epsilon or 1) * (options + numbers)
    return learning + noisy * facts.unit_rows


def _errors(rho: float, options: float, numbers: float) -> tuple[float, float]:
    """The errors of a choice and of twice a number, each if it had all of a round's ρ."""
    return options / math.sqrt(2 * rho), 2 * math.sqrt(numbers / rho)


def _choice_share(choice: float, number: float) -> float:
    """The part of a round's ρ for its choice that makes the sum of both errors the least."""
    return 1 / (1 + math.pow(number / choice, 2 / 3))


def _spent(
    total: HasTotal, rounds: int, form: LinearForm, beta: float, terms: Terms
) -> tuple[Plan, Cost]:
    """How a round is paid, and what all of them cost at the most."""
    parts = Parts(None, _alike(form, terms.facts), terms)
    options, numbers = math.log(2 * form.rows * rounds / beta), math.log(2 * rounds / beta)
    share = Fraction(round(256 * _choice_share(*_errors(1.0, options, numbers))), 256)
    share = min(max(share, Fraction(1, 256)), Fraction(255, 256))

    def split(amount: Fraction) -> Plan:
        each = share_of(amount, rounds)
        choice = concentrated_choice(each * share)
        return Plan("offline", rounds, choice, GaussianNoise(short(each * (1 - share))))

    if total.rho is not None:
        plan = split(total.rho)
    elif total.delta:
        plan = fitted(split, total, parts)
    else:
        each = share_of(total.epsilon or Fraction(0), 2 * rounds)
        plan = Plan("offline", rounds, each, LaplaceNoise(each))
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
