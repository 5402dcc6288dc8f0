"""Planning: every family is tried, judged, and put in its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from attrs import evolve

from dpsdk._checks import described, shown
from dpsdk.accounting import Budget
from dpsdk.accounting.balance import Balance
from dpsdk.accounting.copies import checked_copy
from dpsdk.accuracy import Bound
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.mechanisms import Mechanism
from dpsdk.planner.curve import Curve, curve_of
from dpsdk.planner.families import families
from dpsdk.planner.goal import to_alpha
from dpsdk.planner.grid import A_DECADE
from dpsdk.planner.plan import Plan
from dpsdk.planner.plans import Plans
from dpsdk.planner.reasons import number, reason
from dpsdk.planner.task import Task
from dpsdk.planner.trial import Trial, Trials, in_rows
from dpsdk.release import Cost, Quote
from dpsdk.release.release import Reason

__all__ = [
    "Judged",
    "fitting",
    "for_alpha",
    "for_budget",
    "judged",
    "listed",
    "of_one",
    "reaching",
    "span_of",
]

F = TypeVar("F", bound=Form)

Key: TypeAlias = tuple[float | Fraction, ...]


class Judged(NamedTuple):
    """A plan with its place among others, and with what tells how much better the best one is.

    Parameters
    ----------
    plan
        The plan, without the reasons that compare it with others.
    key
        What it is put in order by; the first of it is its rank, 0 of those that may be taken.
    size
        What it is compared with the best by, as a ratio.
    """

    plan: Plan[Any]
    key: Key
    size: float


def for_alpha(task: Task[Any, F], alpha: float) -> Plans[F]:
    """The cheapest way of each family to be off by no more than alpha."""
    level = to_alpha(alpha)
    trials = [Trials(task, family, task.balance, of_one) for family in families(task)]
    found = [
        one
        for tried in trials
        if (one := reaching(tried, lambda errors: errors[0] <= level, level))
    ]
    return listed(task, found, "cheapest", "dearer", trials)


def for_budget(task: Task[Any, F], budget: Budget | Cost) -> Plans[F]:
    """How far off each family would be for a total, or for what something else costs.

    Of a `Budget`, by what is expected; of a `Cost` by what is promised, as the reverse of
    `for_alpha`: the best of the plans for what a plan costs promises no more of an error than that.
    """
    whole: Budget | None = None
    if isinstance(budget, Cost):
        balance, allowed = task.balance, _share_of(task.balance, budget)
    elif isinstance(budget, Budget):
        whole = Budget(budget.epsilon, budget.delta)
        balance, allowed = task.balance.capped(whole), Fraction(1)
    else:
        raise InvalidArgument("budget", "a Budget or a Cost", shown(budget))
    trials = [Trials(task, family, balance, of_one) for family in families(task)]
    found = [one for tried in trials if (one := _for_total(tried, allowed, whole)) is not None]
    # Without a δ, what would have Gaussian noise may come to be what another family has.
    known: dict[tuple[type, str, str], Judged] = {}
    for one in found:
        known.setdefault((type(one.plan.mechanism), str(one.plan), str(one.plan.cost)), one)
    return listed(task, list(known.values()), "least-error", "less-exact", trials)


def of_one(
    mechanism: Mechanism[Any], quote: Quote, promised: Bound | None, assumed: Bound | None
) -> tuple[float, ...]:
    """The error of a single question, infinite where a bound says no more than the span does."""
    del mechanism, quote
    bounds = [one for one in (promised, assumed) if one is not None and not one.vacuous]
    return (min((one.error for one in bounds), default=math.inf),)


def _share_of(balance: Balance, cost: Cost) -> Fraction:
    """The share of what is left that a cost takes; all of it, if that is not enough for it.

    Raises
    ------
    UnsupportedGuarantee
        If no theorem prices it.
    """
    share = balance.share((checked_copy(run), count) for run, count in cost.runs)
    return Fraction(1) if share is None else share


def fitting(trials: Trials[F], allowed: Fraction) -> Trial[F] | None:
    """The most exact one that takes no more than a share; None if none does."""
    return trials.ladder.around(lambda one: one.share is None or one.share > allowed)[0]


def reaching(
    trials: Trials[F],
    reached: Callable[[tuple[float, ...]], bool],
    alpha: float = -math.inf,
    short: Callable[[Trials[F], Trial[F]], Reason] | None = None,
) -> Judged | None:
    """The plan of a family whose errors are to be small enough.

    The cheapest one that is, if it fits; else the best one that does, with why it is not taken.

    Parameters
    ----------
    trials
        Of the family.
    reached
        Whether errors are small enough.
    alpha
        How small that is, where there is one error.
    short
        Says why the best one does not do, if not in terms of the one error.
    """
    if trials.family.barred is not None:
        return _refused(trials)
    most, first = trials.ladder.around(lambda one: one.share is None or reached(one.errors))
    if first is None or first.share is None:
        return _failed(trials, most, alpha, short or _short)
    reasons: list[Reason] = []
    promised = first.promised
    if promised is None or not reached(_alone(trials, first, promised)):
        reasons.append(reason("assumed-only", words=" and ".join(trials.task.assumes)))
    span = span_of(trials.task)
    if alpha >= span:
        reasons.append(reason("loose-alpha", span=number(span)))
    plan = judged(trials, first, reasons, feasible=True, attainable=None)
    share = plan.share_of_remaining or Fraction(0)
    return Judged(plan, (0, share, _expected(first, plan)), float(share))


def _alone(trials: Trials[F], trial: Trial[F], promised: Bound | None) -> tuple[float, ...]:
    if trial.quote is None:
        return (math.inf,)
    return trials.aims(trial.mechanism, trial.quote, promised, None)


def _failed(
    trials: Trials[F],
    most: Trial[F] | None,
    alpha: float,
    short: Callable[[Trials[F], Trial[F]], Reason],
) -> Judged | None:
    if most is None:
        return _refused(trials)
    # What is only expected is not promised, but may be worth knowing.
    hopeful = None
    if _high(most) <= alpha:
        _, hopeful = trials.hopeful.around(lambda one: one.share is None or _high(one) <= alpha)
    if hopeful is not None and hopeful.share is not None:
        why = reason("promise-only-expected", error=number(_high(hopeful)))
        plan = judged(trials, hopeful, [why], feasible=False, attainable=_error(most))
        return Judged(plan, (1, plan.share_of_remaining or Fraction(0), 0.0), math.inf)
    plan = judged(trials, most, [short(trials, most)], feasible=False, attainable=_error(most))
    return Judged(plan, (2, _error(most) or math.inf, 0.0), math.inf)


def _short(trials: Trials[F], most: Trial[F]) -> Reason:
    """Why the best of a family does not do."""
    bound = most.bound
    if bound is None:
        return _unbounded(trials, most)
    if bound.vacuous:
        return reason("vacuous", error=number(bound.error), span=number(span_of(trials.task)))
    return reason("too-dear", error=number(bound.error))


def _unbounded(trials: Trials[F], trial: Trial[F]) -> Reason:
    why = "no bound" if trial.quote is None else trials.task.bound(trial.quote).kind
    return reason("no-bound", why=why)


def _refused(trials: Trials[F], given: Reason | None = None) -> Judged | None:
    """The plan of a family of which nothing fits, or nothing can be run; the reason, if known."""
    some = trials.some or trials.at(-A_DECADE)
    if some is None:
        return None
    why = given or some.refusal or reason("nothing-left")
    plan = judged(trials, some, [why], feasible=False, attainable=None)
    return Judged(plan, (3, 0.0, 0.0), math.inf)


def _for_total(trials: Trials[F], allowed: Fraction, whole: Budget | None) -> Judged | None:
    """The plan of a family for a total."""
    if trials.family.barred is not None:
        return _refused(trials)
    exact = None if whole is None else trials.of(partial(trials.family.within, whole))
    if exact is not None and (exact.refusal is not None or exact.share is None):
        exact = None
    found = exact
    if exact is None or exact.share != allowed:  # what takes all is not looked for again
        found = fitting(trials, allowed)
        if exact is not None and (found is None or _no_worse(exact, found)):
            found = exact
    if found is None:
        gaussian = trials.family.unit != "epsilon" and whole is not None and not whole.delta
        return _refused(trials, reason("needs-delta") if gaussian else None)
    span = span_of(trials.task)
    median = math.inf if found.forecast is None else found.forecast.median
    bound = found.bound
    reasons: list[Reason] = []
    if bound is not None and bound is found.assumed:
        reasons.append(reason("assumed-only", words=" and ".join(trials.task.assumes)))
    if bound is None:
        reasons.append(_unbounded(trials, found))
    least = min(found.errors, default=math.inf)
    if least == math.inf and not median < span:
        if bound is not None or found.forecast is not None:
            error = median if bound is None else bound.error
            reasons.append(reason("vacuous", error=number(error), span=number(span)))
            plan = judged(trials, found, reasons, feasible=False, attainable=_error(found))
            return Judged(plan, (2, error, 0.0), math.inf)
        # Nothing is known in the unit of the answer, as of a query of another author.
        rows = math.inf if found.quote is None else in_rows(found.quote)
        plan = judged(trials, found, reasons, feasible=True, attainable=None)
        return Judged(plan, (1, rows, 0.0), rows)
    plan = judged(trials, found, reasons, feasible=True, attainable=_error(found))
    if whole is None:
        return Judged(plan, (0, least, median), least)
    # Of equal medians, as of places that are told to a cell, that which is not far off either.
    return Judged(plan, (0, min(median, least), min(least, _high(found))), min(median, least))


def _no_worse(one: Trial[F], other: Trial[F]) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one.errors, other.errors, strict=True))


def judged(
    trials: Trials[F],
    trial: Trial[F],
    reasons: Iterable[Reason],
    *,
    feasible: bool,
    attainable: float | None,
) -> Plan[F]:
    """The plan that a trial amounts to. Nobody else holds what is in it."""
    task = trials.task
    because = list(reasons)
    refused = trial.refusal is not None and trial.share is None
    expected, needs = (None, None) if refused else (trial.forecast, trial.effort)
    if expected is not None and expected.basis == "extrapolated":
        because.append(reason("extrapolated"))
    if needs is not None and needs.seconds >= _SLOW:
        because.append(reason("slow-to-open", seconds=f"{needs.seconds:.2g}"))
    frees = trials.family.frees
    if frees and feasible:
        because.append(reason("answers-more", frees=frees))
    cost = Cost() if refused else trial.cost
    return Plan(
        trial.mechanism,
        cost,
        None if refused else task.balance.share(cost.runs),
        _fresh(trial.promised),
        _fresh(trial.assumed),
        None if expected is None else evolve(expected),
        None if needs is None else needs.seconds,
        None if needs is None else needs.bytes,
        feasible,
        tuple(because),
        task.assumes if trial.assumed is not None else (),
        frees,
        attainable,
    )


_SLOW = 10.0
"""From so many seconds on a plan says what it takes."""


def _fresh(bound: Bound | None) -> Bound | None:
    return None if bound is None else evolve(bound)


def _error(trial: Trial[F] | None) -> float | None:
    """How far off a trial is, if anything is known of that."""
    bound = None if trial is None else trial.bound
    return None if bound is None or not bound.error < math.inf else bound.error


def _high(trial: Trial[F]) -> float:
    return math.inf if trial.forecast is None else trial.forecast.high


def _expected(trial: Trial[F], plan: Plan[F]) -> float:
    """By what plans of one share are put in order."""
    if plan.expected is not None:
        return plan.expected.median
    return min(trial.errors, default=math.inf)


def span_of(task: Task[Any, F]) -> float:
    """The span of the answer, infinite where a query does not tell it."""
    try:
        span = float(task.span)
    except Exception:  # noqa: BLE001  # a query of another author may raise anything
        return math.inf
    return math.inf if math.isnan(span) else span


def listed(
    task: Task[Any, F],
    found: Sequence[Judged],
    best: str,
    other: str,
    trials: Sequence[Trials[F]],
) -> Plans[F]:
    """The plans in their order, each with how it compares to the first."""
    # Of alike ones that of the family which is listed first.
    ordered = sorted(found, key=lambda one: one.key)
    plans: list[Plan[F]] = []
    first = ordered[0] if ordered else None
    for one in ordered:
        plan = one.plan
        if plan.feasible and first is not None:
            if one is first:
                compared = [reason(best)]
            elif one.key[0] == first.key[0] and first.size > 0 and one.size < math.inf:
                compared = [reason(other, times=f"{one.size / first.size:.3g}")]
            else:
                compared = []
            plan = evolve(plan, because=(*compared, *plan.because))
        plans.append(plan)

    def curve() -> Curve:
        return curve_of(trials)

    return Plans(plans, described(task.query), curve)
