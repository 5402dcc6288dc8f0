"""How a batch is learnt: how many rounds, what each may cost, and what error may be promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Literal, TypeAlias

from dpsdk._records import evolve, frozen
from dpsdk.accounting import BoundedRangeGuarantee, Budget, Guarantee
from dpsdk.accounting.declared.calibration import fits_all
from dpsdk.accounting.guarantee import whole_of
from dpsdk.accounting.numbers import largest
from dpsdk.accounting.prices.conversion import zcdp_start
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Boxes, Facts, LinearForm
from dpsdk.hypothesis import Start
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Noise, Terms
from dpsdk.mechanisms.arguments import HasTotal
from dpsdk.mechanisms.numeric_sparse import equal_share
from dpsdk.mechanisms.pmw.schedule import COUNT_SHARE, total_of
from dpsdk.release import Cost

__all__ = [
    "OfflinePlan",
    "Parts",
    "Plan",
    "Rule",
    "after_count",
    "by_function",
    "choice_part",
    "choice_share",
    "concentrated",
    "concentrated_choice",
    "fitted",
    "planned",
    "share_of",
    "short",
    "spent",
    "split_rounds",
    "suited_rounds",
]

Rule: TypeAlias = Literal["tuned", "textbook", "averaged", "offline"]

_MOST_ROUNDS = 10_000
"""Each round is charged by itself, and each charge is remembered."""

_ROUNDS = 16
"""The number of rounds where the number of rows is private, which would tell how many suit it."""

_START_SHARE = Fraction(1, 10)
"""The share of the total for the one-way marginals that the tuned rule begins with."""

_CHOICE_SHARE = Fraction(1, 10)
"""The share of a round's ρ for its choice."""

_FUNCTION_SHARE = Fraction(1, 2)
"""The same on weighted records where a part is one function, which says little when measured.

Measured by tests/bench/bench_wide_queries.py.
"""

_PURE_CHOICE_SHARE = Fraction(1, 4)
"""The share of a round's ε for its choice."""

_DIGITS = 10**15


def concentrated(total: HasTotal) -> float:
    """The ρ of zCDP that a total is worth, roughly; 0 where it is pure."""
    if total.rho is not None:
        return float(total.rho)
    if not total.delta or total.epsilon is None:
        return 0.0
    return float(zcdp_start(total.epsilon, total.delta))


@frozen
class Plan:
    """The plan of an opening, all of it public.

    `rounds` choices at `choice` of bounded range each, and as many measurements with `noise`, if
    any; before them the one-way marginals with `start`, if any, or, by the rules that promise an
    error, a private number of rows. With probability 1 - `beta` no
    number of the workload is off by more than `error` rows, where these are not None.
    """

    rule: Rule
    rounds: int
    choice: Fraction
    noise: Noise | None
    start: Noise | None = None
    error: float | None = None
    beta: float | None = None

    @property
    def cost(self) -> Cost:
        """The most that it costs, run by run."""
        start = () if self.start is None else (self.start.cover,)
        choice = BoundedRangeGuarantee(self.choice)
        if self.noise is None:
            return Cost((*start, (choice, self.rounds)))
        # In their order, since a composition may charge a run by what came before it.
        return Cost((*start, *(choice, self.noise.cover) * self.rounds))


@frozen
class OfflinePlan:
    """The plan of an opening, all of it public.

    A number within `threshold` rows of the distribution ends the rounds. Where it is not, the
    distribution is off by `gap` rows at least, for numbers are within `radius` rows. Then no number
    is off by more than `error` rows. All of this holds with probability 1 - `beta`. A private
    number of rows is counted first, with `count`; before that these are for `row_limit` rows.
    The error is infinite where nothing is promised. On weighted records, which `start` buys, the
    gap is -infinity, so that no number ends the rounds.
    """

    rounds: int
    choice: Fraction
    noise: Noise
    gap: float
    radius: float
    error: float
    beta: float
    cost: Cost
    """The most that it costs."""
    count: Noise | None = None
    step: float | None = None
    """By how much every round moves; by how far it is known to be off where None."""
    start: Noise | None = None

    @property
    def threshold(self) -> float:
        """How near a number ends the rounds, in rows."""
        return self.gap + self.radius


@frozen(eq=False)
class Parts:
    """The parts that the rounds of a plan measure, by their cost under some terms."""

    start: LinearForm | Start | None
    """What is measured before the first round, or a start that measures."""
    forms: Sequence[LinearForm]
    """All that a round may measure, or one of the dearest; none if they may cost differently."""
    terms: Terms

    def cost(self, plan: Plan) -> Cost:
        """The most that a plan costs: run by run and to the digit where parts cost the same.

        Of discrete Gaussians on several lattices none is the dearest by every composition, so the
        cover of their noise stands for parts that differ. Parts that no row moves are free.
        """
        if GaussianNoise not in {type(plan.noise), type(plan.start)}:
            return plan.cost
        if plan.noise is None:
            return self.cost_by_covers(plan)
        priced = {self._price(form, plan.noise) for form in self.forms}
        dear = {run for run in priced if not run.free} or priced
        return self._of_runs(plan, dear.pop()) if len(dear) == 1 else self.cost_by_covers(plan)

    def cost_by_one(self, plan: Plan) -> Cost:
        """The same, priced by one part, as if all were alike."""
        if not isinstance(plan.noise, GaussianNoise) or self._one is None:
            return self.cost(plan)
        return self._of_runs(plan, self._price(self._one, plan.noise))

    def cost_by_covers(self, plan: Plan) -> Cost:
        """The same, as if no two were alike."""
        rounds = plan.cost.guarantees[int(plan.start is not None) :]
        return Cost((*self._before(plan), *rounds))

    @cached_property
    def _one(self) -> LinearForm | None:
        """A part that is not free, if there is one."""
        noise = GaussianNoise(1)
        return next((form for form in self.forms if not self._price(form, noise).free), None)

    def _of_runs(self, plan: Plan, run: Guarantee) -> Cost:
        choice = BoundedRangeGuarantee(plan.choice)
        return Cost((*self._before(plan), *(choice, run) * plan.rounds))

    def _before(self, plan: Plan) -> tuple[Guarantee, ...]:
        if plan.start is not None and plan.rule != "tuned":
            return (self._price(total_of(self.terms.facts), plan.start),)
        if plan.start is None or self.start is None:
            return ()
        if isinstance(self.start, Start):
            return self.start.price(plan.start, self.terms)
        return (self._price(self.start, plan.start),)

    def _price(self, form: LinearForm, noise: Noise) -> Guarantee:
        return Measure(form, noise).price(self.terms).guarantee


def fitted(split: Callable[[Fraction], Plan], total: HasTotal, parts: Parts) -> Plan:
    """The largest plan that fits an (ε, δ) by the composition of the session, to nine digits."""
    budget = Budget(total.epsilon or 0, total.delta)
    composition = parts.terms.composition
    begun = composition.begin(budget)
    guess = Fraction(concentrated(total)) or Fraction(1)

    def within(cost: Callable[[Plan], Cost]) -> Plan | None:
        def fits(scale: Fraction) -> bool:
            plan = split(scale)
            if plan.noise is not None:
                return fits_all(composition, begun, cost(plan).guarantees)
            state = begun
            if plan.start is not None:
                counted = composition.charge(begun, whole_of(cost(plan).guarantees[0]))
                if counted is None:
                    return False
                state = counted
            alike = composition.capacity(state, BoundedRangeGuarantee(plan.choice))
            return alike is None or alike >= plan.rounds

        scale = largest(fits, guess)
        return split(scale) if scale else None

    # One price a step, and all of them at the end.
    plan = within(parts.cost_by_one)
    if plan is not None and parts.cost(plan) != parts.cost_by_one(plan):
        plan = within(parts.cost_by_covers)
    if plan is None:
        expected = "large enough that the rounds fit by the composition of the session"
        raise InvalidArgument("epsilon and delta", expected, str(budget))
    return plan


def by_function(form: LinearForm) -> bool:
    """True if a round chooses functions and no blocks: boxes come in blocks for speed alone."""
    return all(isinstance(block, Boxes) or block.rows == 1 for block in form.blocks)


def planned(
    rule: Rule, total: HasTotal, rounds: int | None, form: LinearForm, beta: float, parts: Parts
) -> Plan:
    """The plan of a workload, without the promise of its error."""
    count = rounds or _rounds(rule, total, form, beta, parts.terms.facts)
    split = _SPLITS[rule]
    if isinstance(parts.start, Start):
        chosen = _FUNCTION_SHARE if by_function(form) else _CHOICE_SHARE
        split = partial(_tuned, before=parts.start.share, chosen=chosen)
    if rule != "tuned" and not parts.terms.facts.replaced:
        split = after_count(split)
    return spent(split, total, count, parts)


def spent(
    split: Callable[[Fraction, int, bool], Plan], total: HasTotal, rounds: int, parts: Parts
) -> Plan:
    """The plan that spends a total on so many rounds."""
    pure = total.rho is None and not total.delta
    if pure and total.epsilon is not None:
        return split(total.epsilon, rounds, True)
    if total.rho is not None:
        return split(total.rho, rounds, False)
    return fitted(lambda scale: split(scale, rounds, False), total, parts)


def after_count(
    split: Callable[[Fraction, int, bool], Plan],
) -> Callable[[Fraction, int, bool], Plan]:
    """The same after a count of the rows, whose number is private."""

    def counting(amount: Fraction, rounds: int, pure: bool) -> Plan:  # noqa: FBT001  # as below
        own = share_of(amount * COUNT_SHARE)
        plan = split(amount - own, rounds, pure)
        return evolve(plan, start=LaplaceNoise(own) if pure else GaussianNoise(short(own)))

    return counting


def share_of(total: Fraction, parts: int = 1) -> Fraction:
    """One of so many equal parts, rounded down; refused if nothing is left of it."""
    share = equal_share(total, parts)
    if not share:
        raise InvalidArgument("scale", "finite", "shares of next to nothing")
    return share


def _tuned(
    amount: Fraction,
    rounds: int,
    pure: bool,  # noqa: FBT001  # the kind of amount
    before: Fraction = _START_SHARE,
    chosen: Fraction = _CHOICE_SHARE,
) -> Plan:
    return split_rounds(amount, rounds, pure, before, _PURE_CHOICE_SHARE if pure else chosen)


def split_rounds(
    amount: Fraction,
    rounds: int,
    pure: bool,  # noqa: FBT001  # the kind of amount
    before: Fraction,
    chosen: Fraction,
) -> Plan:
    """An amount of which a start has one share, and of each round the choice another."""
    each, start = share_of(amount * (1 - before), rounds), amount * before
    first: Noise | None = None
    if pure:
        choice = share_of(each * chosen)
        first = LaplaceNoise(share_of(start)) if before else None
        return Plan("tuned", rounds, choice, LaplaceNoise(each - choice), first)
    choice = concentrated_choice(each * chosen)
    first = GaussianNoise(short(start)) if before else None
    return Plan("tuned", rounds, choice, GaussianNoise(short(each * (1 - chosen))), first)


def _textbook(amount: Fraction, rounds: int, pure: bool) -> Plan:  # noqa: FBT001  # as above
    if not pure:
        raise InvalidArgument("delta", "0, as the algorithm is printed", "another")
    each = share_of(amount, 2 * rounds)
    return Plan("textbook", rounds, each, LaplaceNoise(each))


def _averaged(amount: Fraction, rounds: int, pure: bool) -> Plan:  # noqa: FBT001  # as above
    each = share_of(amount, rounds)
    return Plan("averaged", rounds, each if pure else concentrated_choice(each), None)


_SPLITS: dict[Rule, Callable[[Fraction, int, bool], Plan]] = {
    "tuned": _tuned,
    "textbook": _textbook,
    "averaged": _averaged,
}


def short(amount: Fraction) -> Fraction:
    """An amount of few digits, rounded down, so that what follows from it is quick."""
    scale = _DIGITS * max(1, math.ceil(1 / amount))
    return Fraction(math.floor(amount * scale), scale)


def concentrated_choice(rho: Fraction) -> Fraction:
    """The ε of bounded range, rounded down, that costs no more than ρ: ε² / 8."""
    scale = _DIGITS * max(1, math.ceil(1 / rho))
    return Fraction(math.isqrt(math.floor(8 * rho * scale**2)), scale)


def _strength(facts: Facts) -> float:
    return float(max(facts.rows or facts.row_limit, 1)) / facts.unit_rows


def suited_rounds(total: HasTotal, parts: int, facts: Facts) -> int:
    """How many rounds of the tuned rule suit a total and so many parts."""
    # Measured on Adult by tests/bench/bench_mwem.py: 20 rounds at 48,842 rows and (1, 1e-9), 8
    # at (0.1, 1e-9).
    each = math.sqrt(concentrated(total)) or float(total.epsilon or 0) / 30
    wanted = _ROUNDS if facts.rows is None else round(0.64 * math.pow(_strength(facts) * each, 0.4))
    return max(1, min(_MOST_ROUNDS, 4 * parts, wanted))


def choice_share(choice: float, number: float) -> float:
    """The part of a round's ρ for its choice that makes the sum of both errors the least.

    They are what each would be if it had all of it, and go with the root of that.
    """
    return 1 / (1 + math.pow(number / choice, 2 / 3))


def choice_part(choice: float, number: float) -> Fraction:
    """The same in whole parts of 256, of which each has one at least."""
    return Fraction(min(max(round(256 * choice_share(choice, number)), 1), 255), 256)


def _rounds(rule: Rule, total: HasTotal, form: LinearForm, beta: float, facts: Facts) -> int:
    """How many rounds suit a total, from public facts."""
    if rule == "tuned":
        parts = form.rows if by_function(form) else len(form.blocks)
        return suited_rounds(total, parts, facts)
    rows = _strength(facts)
    potential = math.log(facts.domain.size + facts.outside)
    candidates = sorted({min(_MOST_ROUNDS, round(1.05**power)) for power in range(190)})
    return min(
        candidates, key=lambda count: _bound(rule, total, count, form.rows, potential, rows, beta)
    )


def _bound(
    rule: Rule,
    total: HasTotal,
    rounds: int,
    options: int,
    potential: float,
    rows: float,
    beta: float,
) -> float:
    """The error, as a share, that may be promised for so many rounds, up to rounding."""
    if rule == "textbook":
        scale = 2 * rounds / float(total.epsilon or 1)
        choice = 2 * scale * math.log(2 * options * rounds / beta) / rows
        number = scale * math.log(2 * rounds / beta) / rows
        return choice + math.sqrt(4 * potential / rounds + number**2)
    rho = concentrated(total)
    epsilon = math.sqrt(8 * rho / rounds) if rho else float(total.epsilon or 1) / rounds
    choice = 2 * math.log(2 * options * rounds / beta) / (epsilon * rows)
    return choice + math.sqrt(potential / (2 * rounds))
