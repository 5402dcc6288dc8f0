"""Planning of one question: every family is tried, judged, and put in its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from attrs import evolve

from dpsdk._checks import described, shown
from dpsdk.accounting import Budget
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.planner.curve import curve_of
from dpsdk.planner.families import families
from dpsdk.planner.plan import Plan
from dpsdk.planner.plans import Plans
from dpsdk.planner.reasons import number, ratio, reason
from dpsdk.planner.search import A_DECADE
from dpsdk.planner.task import Task, to_error
from dpsdk.planner.trial import Trial, Trials, error_in_rows
from dpsdk.planner.work import check_work
from dpsdk.queries.base import lifting
from dpsdk.release import Cost
from dpsdk.release.release import Reason

__all__ = [
    "RankedPlan",
    "plan_for_errors",
    "plans_for_budget",
    "plans_for_error",
    "rank_plans",
    "span_of",
    "to_plan",
]

F = TypeVar("F", bound=Form)

Key: TypeAlias = tuple[float | Fraction, ...]

_SLOW = 10.0
"""From so many seconds on a plan says what it takes."""


class RankedPlan(NamedTuple):
    """A plan, without the reasons that compare it with others, and its place among them.

    The first of `key` is the rank, 0 of those that may be taken; `size` is what it is compared with
    the best by, as a ratio.
    """

    plan: Plan[Any]
    key: Key
    size: float


def plans_for_error(task: Task[Any, F], error: float) -> Plans[F]:
    """Return the cheapest way of each family to be off by no more than an error."""
    level = to_error("error", error)
    check_work(described(task.query), [task.form], task.limits)
    trials = [Trials(task, family, task.balance) for family in families(task)]
    ranked = [
        plan
        for tried in trials
        if (plan := plan_for_errors(tried, lambda errors: errors[0] <= level, level))
    ]
    return rank_plans(task, ranked, "cheapest", "dearer", trials)


def plans_for_budget(task: Task[Any, F], budget: Budget | Cost) -> Plans[F]:
    """Return how far off each family would be for a total, or for what something else costs.

    Of a `Budget`, in the order of what is expected; of a `Cost` in that of what is promised, as the
    reverse of `plans_for_error`: the best of the plans for what a plan costs promises no larger
    error.
    """
    whole: Budget | None = None
    if isinstance(budget, Cost):
        share = task.balance.share(budget.runs)
        balance, allowed = task.balance, Fraction(1) if share is None else share
    elif isinstance(budget, Budget):
        whole = budget
        balance, allowed = task.balance.capped(whole), Fraction(1)
    else:
        raise InvalidArgument("budget", "a Budget or a Cost", shown(budget))
    check_work(described(task.query), [task.form], task.limits)
    trials = [Trials(task, family, balance) for family in families(task)]
    ranked = [plan for tried in trials if (plan := _plan_for_total(tried, allowed, whole))]
    # Without a δ, what would have Gaussian noise may come to be what another family has.
    distinct: dict[tuple[type, str, str], RankedPlan] = {}
    for one in ranked:
        distinct.setdefault((type(one.plan.mechanism), str(one.plan), str(one.plan.cost)), one)
    return rank_plans(task, list(distinct.values()), "least-error", "less-exact", trials)


def plan_for_errors(
    trials: Trials[F],
    reached: Callable[[tuple[float, ...]], bool],
    error: float = -math.inf,
    falls_short: Callable[[Trials[F], Trial[F]], Reason] | None = None,
) -> RankedPlan | None:
    """Return the plan of a family whose errors are to be small enough, as `reached` says.

    The cheapest one that is, if it fits; else the best one that does, with why it is not taken:
    because its `error` is larger, or what `falls_short` says where there are several.
    """
    if trials.family.barred is not None:
        return _refused(trials)
    most, first = trials.by_bound.around(lambda one: one.share is None or reached(one.errors))
    if first is None or first.share is None:
        return _failed(trials, most, error, falls_short or _falls_short)
    reasons: list[Reason] = []
    promised, quote = first.promised, first.quote
    if (
        promised is None
        or quote is None
        or not reached(trials.errors(first.mechanism, quote, promised, None))
    ):
        reasons.append(reason("assumed-only", words=" and ".join(trials.task.assumes)))
    span = span_of(trials.task)
    if error >= span:
        reasons.append(reason("loose-alpha", span=number(span)))
    plan = to_plan(trials, first, reasons, feasible=True)
    share = plan.share_of_remaining or Fraction(0)
    off = min(first.errors, default=math.inf) if plan.expected is None else plan.expected.median
    return RankedPlan(plan, (0, share, off), float(share))


def _failed(
    trials: Trials[F],
    most: Trial[F] | None,
    error: float,
    falls_short: Callable[[Trials[F], Trial[F]], Reason],
) -> RankedPlan | None:
    if most is None:
        return _refused(trials)
    attainable = _finite_error(most)
    # What is only expected is not promised, but may be worth knowing.
    if _high(most) <= error:
        _, hoped = trials.by_forecast.around(lambda one: one.share is None or _high(one) <= error)
        if hoped is not None and hoped.share is not None:
            why = reason("promise-only-expected", error=number(_high(hoped)))
            plan = to_plan(trials, hoped, [why], feasible=False, attainable=attainable)
            return RankedPlan(plan, (1, plan.share_of_remaining or Fraction(0), 0.0), math.inf)
    why = _missing(trials.task, most) or falls_short(trials, most)
    plan = to_plan(trials, most, [why], feasible=False, attainable=attainable)
    return RankedPlan(plan, (2, math.inf if attainable is None else attainable, 0.0), math.inf)


def _falls_short(trials: Trials[F], most: Trial[F]) -> Reason:
    """Return why the best of a family does not do."""
    bound = most.bound
    if bound is None:
        return _no_bound(trials, most)
    if bound.vacuous:
        return reason("vacuous", error=number(bound.error), span=number(span_of(trials.task)))
    if bound.bins:
        return reason("too-coarse", error=number(bound.error), bins=number(bound.bins))
    return reason("too-dear", error=number(bound.error))


def _missing(task: Task[Any, F], trial: Trial[F]) -> Reason | None:
    """Return which assumptions a bound needs, where it says nothing without them."""
    if trial.bound is None or not trial.bound.vacuous or not task.missing:
        return None
    return reason("needs-assumption", keys=_assumed(task.missing))


def _assumed(keys: Iterable[str]) -> str:
    return ", ".join([f'"{key}": ...' for key in keys])


def _no_bound(trials: Trials[F], trial: Trial[F]) -> Reason:
    if trial.quote is None:
        return reason("no-bound", why="no bound")
    bound, keys = trials.task.bound(trial.quote), trials.task.missing
    if bound.ranks is None or not keys:
        return reason("no-bound", why=bound.kind)
    return reason("only-ranks", rows=number(bound.ranks), keys=_assumed(keys))


def _refused(trials: Trials[F], given: Reason | None = None) -> RankedPlan | None:
    """Return the plan of a family of which nothing fits, or nothing can be run."""
    some = trials.some or trials.at(-A_DECADE)
    if some is None:
        return None
    why = given or some.refusal or reason("nothing-left")
    return RankedPlan(to_plan(trials, some, [why], feasible=False), (3, 0.0, 0.0), math.inf)


def _plan_for_total(
    trials: Trials[F], allowed: Fraction, whole: Budget | None
) -> RankedPlan | None:
    """Return the plan of a family for a total."""
    if trials.family.barred is not None:
        return _refused(trials)
    found = _trial_for_total(trials, allowed, whole)
    if found is None:
        gaussian = trials.family.unit != "epsilon" and whole is not None and not whole.delta
        return _refused(trials, reason("needs-delta") if gaussian else None)
    span, bound, expected = span_of(trials.task), found.bound, found.forecast
    median = math.inf if expected is None else expected.median
    reasons: list[Reason] = []
    if bound is None:
        reasons.append(_no_bound(trials, found))
    elif bound is found.assumed:
        reasons.append(reason("assumed-only", words=" and ".join(trials.task.assumes)))
    least = min(found.errors, default=math.inf)
    attainable = _finite_error(found)
    if least == math.inf and not median < span:
        if bound is not None:
            vacuous = reason("vacuous", error=number(bound.error), span=number(span))
            reasons.append(_missing(trials.task, found) or vacuous)
        if expected is not None:
            error = median if bound is None else bound.error
            plan = to_plan(trials, found, reasons, feasible=False, attainable=attainable)
            return RankedPlan(plan, (2, error, 0.0), math.inf)
        # Nothing is known in the unit of the answer, as of means and models.
        rows = math.inf if found.quote is None else error_in_rows(found.quote)
        return RankedPlan(to_plan(trials, found, reasons, feasible=True), (1, rows, 0.0), rows)
    plan = to_plan(trials, found, reasons, feasible=True, attainable=attainable)
    if whole is None:
        return RankedPlan(plan, (0, least, median), least)
    size = min(median, least)
    return RankedPlan(plan, (0, size, min(least, _high(found))), size)


def _trial_for_total(trials: Trials[F], allowed: Fraction, whole: Budget | None) -> Trial[F] | None:
    """Return the best of a family for a total: that made for it, or the best of the grid."""
    exact = None if whole is None else trials.of(partial(trials.family.within, whole))
    if exact is not None and (exact.refusal is not None or exact.share is None):
        exact = None
    if exact is not None and exact.share == allowed:  # what takes all is not looked for again
        return exact
    found = trials.by_bound.around(lambda one: one.share is None or one.share > allowed)[0]
    if exact is None or found is None:
        return exact or found
    no_worse = all(mine <= own for mine, own in zip(exact.errors, found.errors, strict=True))
    return exact if no_worse else found


def to_plan(
    trials: Trials[F],
    trial: Trial[F],
    reasons: Iterable[Reason],
    *,
    feasible: bool,
    attainable: float | None = None,
) -> Plan[F]:
    """Return the plan that a trial amounts to."""
    task = trials.task
    because = list(reasons)
    refused = trial.refusal is not None and trial.share is None
    expected, needs = (None, None) if refused else (trial.forecast, trial.effort)
    if expected is not None and expected.basis == "extrapolated":
        because.append(reason("extrapolated"))
    if needs is not None and needs.seconds >= _SLOW:
        because.append(reason("slow-to-open", seconds=f"{needs.seconds:.2g}"))
    lift = lifting(task.query)
    if lift is not None and lift.advice and trial.bound is not None and trial.bound.vacuous:
        because.append(reason("ask-otherwise", advice=lift.advice))
    frees = trials.family.frees
    if frees and feasible:
        because.append(reason("answers-more", frees=frees))
    cost = Cost() if refused else trial.cost
    return Plan(
        trial.mechanism,
        cost,
        None if refused else task.balance.share(cost.runs),
        trial.promised,
        trial.assumed,
        expected,
        None if needs is None else needs.seconds,
        None if needs is None else needs.bytes,
        feasible,
        tuple(because),
        task.assumes if trial.assumed is not None else (),
        frees,
        attainable,
    )


def _finite_error(trial: Trial[F]) -> float | None:
    """Return how far off a trial is, if anything is known of that."""
    bound = trial.bound
    return None if bound is None or not bound.error < math.inf else bound.error


def _high(trial: Trial[F]) -> float:
    return math.inf if trial.forecast is None else trial.forecast.high


def span_of(task: Task[Any, F]) -> float:
    """Return the span of the answer, infinite where a query does not tell it."""
    try:
        span = float(task.span)
    except Exception:  # noqa: BLE001  # a query of another author may raise anything
        return math.inf
    return math.inf if math.isnan(span) else span


def rank_plans(
    task: Task[Any, F],
    plans: Sequence[RankedPlan],
    best: str,
    other: str,
    trials: Sequence[Trials[F]],
) -> Plans[F]:
    """Return plans in their order, each with how it compares to the first.

    Of alike ones that of the family which is listed first comes first.
    """
    ordered = sorted(plans, key=lambda one: one.key)
    compared: list[Plan[F]] = []
    for one in ordered:
        plan, first = one.plan, ordered[0]
        if plan.feasible:
            reasons: list[Reason] = []
            if one is first:
                reasons = [reason(best)]
            elif one.key[0] == first.key[0] and first.size > 0 and one.size < math.inf:
                reasons = [reason(other, times=ratio(one.size / first.size))]
            plan = evolve(plan, because=(*reasons, *plan.because))
        compared.append(plan)
    return Plans(compared, described(task.query), partial(curve_of, trials))
