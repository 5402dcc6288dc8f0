"""Plans for several goals: one mechanism for all of them, or one for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise, product
from typing import Any, NamedTuple, TypeAlias, cast

from dpsdk._checks import described, shown
from dpsdk._records import define, evolve
from dpsdk.accuracy import Accuracy, HalfWidths, Standing
from dpsdk.errors import DpsdkError, InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.mechanisms import Mechanism, OneRun, Parts
from dpsdk.planner.expected import Effort
from dpsdk.planner.families import families, shared
from dpsdk.planner.family import Family
from dpsdk.planner.plan import Plan
from dpsdk.planner.planning import (
    RankedPlan,
    plan_for_errors,
    plans_for_error,
    rank_plans,
    span_of,
    to_plan,
)
from dpsdk.planner.plans import Plans
from dpsdk.planner.reasons import number, reason
from dpsdk.planner.task import Goal, Task
from dpsdk.planner.trial import Aims, Errors, Trial, Trials, beyond_limits, error_of
from dpsdk.planner.work import check_work
from dpsdk.queries import Query, Workload
from dpsdk.release import Quote
from dpsdk.release.release import Reason
from dpsdk.typing import Floats

__all__ = ["for_goals"]

_MOST = 64
"""So many goals at a time."""

_ASSIGNED = 6
"""Of so few goals every way to give each a kind of noise is tried."""


TaskOf: TypeAlias = Callable[[Query[Any, Any], float], Task[Any, Any]]
"""Makes the task of a query, with how likely bounds may fail."""


def for_goals(goals: Iterable[Goal[Any, Any]], task_of: TaskOf, beta: float) -> Plans[Any]:
    """The cheapest ways to keep several errors at once, with probability 1 - beta for all together.

    In whatever order the goals are: plans are for a workload of them in an order of their own.
    """
    wanted = _to_goals(goals)
    if len(wanted) == 1:
        return plans_for_error(task_of(wanted[0].query, beta), wanted[0].alpha)
    tasks = [task_of(goal.query, beta) for goal in wanted]
    check_work(f"{len(wanted):,} goals", [task.form for task in tasks], tasks[0].limits)
    keys = [_key(goal, task) for goal, task in zip(wanted, tasks, strict=True)]
    order = sorted(range(len(wanted)), key=lambda place: (*keys[place], wanted[place].alpha))
    # Which of two equal questions is answered by which part nobody can tell, so both are as exact.
    least: dict[tuple[bytes, str], float] = {}
    for place in order:
        least.setdefault(keys[place], wanted[place].alpha)
    wanted = [Goal(wanted[place].query, least[keys[place]]) for place in order]
    tasks = [tasks[place] for place in order]
    if not all(isinstance(task.form, LinearForm) for task in tasks):
        return _of_all_kinds(wanted, tasks)
    whole = task_of(Workload([goal.query for goal in wanted]), beta)
    alphas = tuple(goal.alpha for goal in wanted)
    trials = [
        Trials(whole, family, whole.balance, _of_each(tasks)) for family in families(whole, 2)
    ]
    found = [_for_all(tried, alphas) for tried in trials]
    found += _for_each(whole, wanted, tasks, task_of, beta)
    loose = _loose(alphas, tasks)
    kept = [_noted(one, loose) for one in found if one is not None]
    return rank_plans(whole, kept, "cheapest", "dearer", ())


def _loose(alphas: Sequence[float], tasks: Sequence[Task[Any, Any]]) -> tuple[float, ...]:
    """The spans of those questions that a guess would answer as well as it is asked for."""
    pairs = [(alpha, span_of(task)) for alpha, task in zip(alphas, tasks, strict=True)]
    return tuple(dict.fromkeys(span for alpha, span in pairs if alpha >= span))


def _noted(one: RankedPlan, loose: Sequence[float]) -> RankedPlan:
    if not loose or not one.plan.feasible:
        return one
    notes = [reason("loose-alpha", span=number(span)) for span in loose]
    return one._replace(plan=evolve(one.plan, because=(*one.plan.because, *notes)))


def _to_goals(goals: Iterable[Goal[Any, Any]]) -> list[Goal[Any, Any]]:
    expected = f"goals, as in [Goal(query, 0.01), ...], at least one and at most {_MOST}"
    if isinstance(goals, str | bytes) or not isinstance(goals, Iterable):
        raise InvalidArgument("goals", expected, shown(goals))
    wanted: list[Goal[Any, Any]] = []
    for goal in goals:
        if not isinstance(goal, Goal):
            raise InvalidArgument("goals", expected, shown(goal))
        wanted.append(goal)
        if len(wanted) > _MOST:
            raise InvalidArgument("goals", expected, "more")
    if not wanted:
        raise InvalidArgument("goals", expected, "none")
    return wanted


def _key(goal: Goal[Any, Any], task: Task[Any, Any]) -> tuple[bytes, str]:
    """A key that tells questions apart, whatever their order."""
    try:
        identity = cast("bytes | None", task.form.identity)
    except DpsdkError:  # of blocks of other authors
        identity = None
    return identity or b"", described(goal.query)


_RadiiOf: TypeAlias = Callable[..., Floats]


@define(eq=False)
class _Stretch(HalfWidths):
    """The accuracy of some of the numbers of an answer: all of them at once, as all of it is."""

    whole: _RadiiOf
    start: int
    stop: int
    kind: str
    standing: Standing

    def radii(self, beta: float, *, joint: bool) -> Floats:
        return self.whole(beta, joint=joint)[self.start : self.stop]


def _of_each(tasks: Sequence[Task[Any, LinearForm]]) -> Aims:
    """The error of each of several goals, if all are answered as one workload."""
    places = list(pairwise(accumulate((task.form.rows for task in tasks), initial=0)))

    def aims(mechanism: Mechanism[Any], quote: Quote, assuming: bool) -> Errors:  # noqa: FBT001
        del mechanism
        parts = _stretches(quote.accuracy, places)
        quotes = [Quote(quote.at_open, quote.at_most, part) for part in parts]
        pairs = zip(tasks, quotes, strict=True)
        return tuple([error_of(task, own, assuming) for task, own in pairs])

    return aims


def _stretches(accuracy: Accuracy, places: Sequence[tuple[int, int]]) -> list[Accuracy]:
    if not isinstance(accuracy, HalfWidths):
        return [accuracy] * len(places)
    whole, kind, standing = cache(accuracy.radii), accuracy.kind, accuracy.standing
    return [_Stretch(whole, start, stop, kind, standing) for start, stop in places]


def _within(alphas: Sequence[float]) -> Callable[[Errors], bool]:
    def reached(errors: Errors) -> bool:
        return all(error <= alpha for error, alpha in zip(errors, alphas, strict=True))

    return reached


def _for_all(trials: Trials[Any], alphas: Sequence[float]) -> RankedPlan | None:
    """One mechanism for the workload of all goals."""

    def short(trials: Trials[Any], most: Trial[Any]) -> Reason:
        pairs = zip(most.errors, alphas, strict=True)
        times = max(error / alpha for error, alpha in pairs)
        if times == math.inf:
            known = None if most.quote is None else trials.task.bound(most.quote)
            if known is not None and known.proven:
                return reason("vacuous-together")
            return reason("no-bound", why="no bound" if known is None else known.kind)
        return reason("too-dear-together", times=number(times))

    found = plan_for_errors(trials, _within(alphas), falls_short=short)
    if found is None or not found.plan.feasible:
        return found
    because = (*found.plan.because, reason("one-for-all"))
    return found._replace(plan=evolve(found.plan, because=because))


class _Part(NamedTuple):
    """The cheapest way of one kind of noise to keep one goal."""

    trials: Trials[Any]
    trial: Trial[Any]
    size: Fraction


def _for_each(
    whole: Task[Any, Any],
    wanted: Sequence[Goal[Any, Any]],
    tasks: Sequence[Task[Any, Any]],
    task_of: TaskOf,
    beta: float,
) -> list[RankedPlan]:
    """A mechanism for each goal, which keeps it at an even share of beta."""
    count = len(wanted)
    apart = [task_of(goal.query, beta / count) for goal in wanted]
    alike = _alike(tasks)
    kinds: list[list[_Part]] = []
    for places in alike:
        alphas = [wanted[place].alpha for place in places]
        kinds.append(_kinds_for([apart[place] for place in places], alphas, 2 * len(alike)))
        if not kinds[-1]:
            return []
    best: tuple[Fraction, str, tuple[_Part, ...]] | None = None
    last: tuple[_Part, ...] | None = None
    for ways in _assignments(kinds):
        known = {place: way for places, way in zip(alike, ways, strict=True) for place in places}
        last = chosen = tuple([known[place] for place in range(count)])
        runs = [run for part in chosen for run in part.trial.cost.runs]
        share = whole.balance.share(runs)
        if share is None:
            continue
        one = share, " ".join(str(part.trial.mechanism) for part in chosen), chosen
        if best is None or one[:2] < best[:2]:
            best = one
    taken = last if best is None else best[2]
    if taken is None:
        return []
    pairs = [(goal.query, part.trial.mechanism) for goal, part in zip(wanted, taken, strict=True)]

    def made(**_: object) -> Parts:
        return Parts(pairs)

    tried = Trials(whole, Family("parts", "epsilon", made), whole.balance, _of_each(tasks))
    trial = tried.of(made)
    if trial is None:
        return []
    plans = tuple([to_plan(one.trials, one.trial, (), feasible=True) for one in taken])
    needs = _effort(plans)
    beyond = None if whole.limits is None else beyond_limits(whole.limits, needs)
    able = best is not None and trial.refusal is None and beyond is None
    why = reason("one-for-each", count=count) if able else reason("not-together")
    why = beyond if beyond is not None else trial.refusal or why
    plan = to_plan(tried, trial, [why], feasible=able)
    plan = evolve(plan, parts=plans)
    if needs is not None:
        plan = evolve(plan, seconds=needs.seconds, bytes=needs.bytes)
    if best is None or not able:
        return [RankedPlan(plan, (2, math.inf, 0.0), math.inf)]
    return [RankedPlan(plan, (0, best[0], math.inf), float(best[0]))]


def _effort(plans: Sequence[Plan[Any]]) -> Effort | None:
    """The effort of all parts: their times together, and the memory of the largest."""
    seconds = [plan.seconds for plan in plans if plan.seconds is not None]
    sizes = [plan.bytes for plan in plans if plan.bytes is not None]
    known = len(seconds) == len(sizes) == len(plans)
    return Effort(sum(seconds), max(sizes)) if known else None


def _alike(tasks: Sequence[Task[Any, LinearForm]]) -> list[list[int]]:
    """The places of questions by their numbers: a count and its share are measured alike."""
    found: dict[object, list[int]] = {}
    for place, task in enumerate(tasks):
        try:
            key: object = task.form.identity
        except DpsdkError:  # of blocks of other authors
            key = place
        found.setdefault(key, []).append(place)
    return list(found.values())


def _kinds_for(tasks: Sequence[Task[Any, Any]], alphas: Sequence[float], parts: int) -> list[_Part]:
    """The cheapest of all families with Laplace noise, and with Gaussian noise, for one form."""

    def aims(mechanism: Mechanism[Any], quote: Quote, assuming: bool) -> Errors:  # noqa: FBT001
        del mechanism, assuming
        return tuple([error_of(one, quote, assuming=True) for one in tasks])

    task, reached = tasks[0], _within(alphas)
    best: dict[str, _Part] = {}
    for family in families(task, parts):
        if family.barred is not None or family.unit == "pair":
            continue
        trials = Trials(task, family, task.balance, aims)
        if not isinstance(_some(family), OneRun):
            continue
        _, first = trials.by_bound.around(lambda one: one.share is None or reached(one.errors))
        if first is None or first.share is None:
            continue
        size = first.cost.epsilon if family.unit == "epsilon" else first.cost.rho
        if size is not None and (family.unit not in best or size < best[family.unit].size):
            best[family.unit] = _Part(trials, first, size)
    return [best[unit] for unit in sorted(best)]


def _some(family: Family) -> Mechanism[Any] | None:
    try:
        return family.at(Fraction(1, 10))
    except DpsdkError:
        return None


def _assignments(kinds: Sequence[Sequence[_Part]]) -> Iterator[tuple[_Part, ...]]:
    """The kind of noise of each goal: every way of few goals, of many the plain ones."""
    if len(kinds) <= _ASSIGNED:
        yield from product(*kinds)
        return
    yield tuple(min(parts, key=lambda part: part.trial.share or 0) for parts in kinds)
    for place in (0, 1):
        if all(len(parts) > place for parts in kinds):
            yield tuple(parts[place] for parts in kinds)


def _of_all_kinds(wanted: Sequence[Goal[Any, Any]], tasks: Sequence[Task[Any, Any]]) -> Plans[Any]:
    """Of goals with models or levels among them: what is opened once and answers all."""
    alphas = tuple(goal.alpha for goal in wanted)
    first = tasks[0]
    found = [
        _for_all(Trials(first, family, first.balance, _of_others(family, tasks)), alphas)
        for family in shared(tasks)
    ]
    return rank_plans(first, [one for one in found if one is not None], "cheapest", "dearer", ())


def _of_others(family: Family, tasks: Sequence[Task[Any, Any]]) -> Aims:
    """The error of each of several goals that one open mechanism answers in turn."""

    def aims(mechanism: Mechanism[Any], quote: Quote, assuming: bool) -> Errors:  # noqa: FBT001
        del quote, assuming
        quotes = [(task, family.quote(mechanism, task)) for task in tasks]
        return tuple([error_of(task, own, assuming=True) for task, own in quotes])

    return aims
