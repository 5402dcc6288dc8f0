"""Planning: every family is tried, judged, and put in its place."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeVar

from dpsdk._checks import shown
from dpsdk.accounting import Budget
from dpsdk.errors import DpsdkError, InvalidArgument
from dpsdk.forms import Form
from dpsdk.mechanisms import Mechanism
from dpsdk.planner.families import Family, families
from dpsdk.planner.forecasting import effort, forecast
from dpsdk.planner.grid import amount, below, least
from dpsdk.planner.plan import Plan
from dpsdk.planner.plans import Plans
from dpsdk.planner.task import Task
from dpsdk.release import Cost, Quote, Reason

__all__ = ["for_alpha", "for_budget"]

F = TypeVar("F", bound=Form)

_LEAST = below(Fraction(1, 10**9))
_MOST = below(Fraction(10**4))


def for_alpha(task: Task[Any, F], alpha: float) -> Plans[F]:
    """The cheapest way of each family to be off by no more than alpha."""
    return Plans([_reaching(task, family, alpha) for family in families(task)])


def for_budget(task: Task[Any, F], budget: Budget | Cost) -> Plans[F]:
    """How far off each family would be for a total."""
    if not isinstance(budget, Budget):
        raise InvalidArgument("budget", "a Budget", shown(budget))
    return Plans([_judged(task, family, family.within(budget)) for family in families(task)])


def _reaching(task: Task[Any, F], family: Family, alpha: float) -> Plan[F]:
    def fits(index: int) -> bool:
        quote = _quote(task, family.at(amount(index)))
        return isinstance(quote, Quote) and task.balance.fits(quote.at_most.runs)

    def reaches(index: int) -> bool:
        quote = _quote(task, family.at(amount(index)))
        if not isinstance(quote, Quote):
            return False
        bound = task.bound(quote)
        return bound.proven and bound.error <= alpha

    highest = least(lambda index: not fits(index), _LEAST, _MOST)
    top = _MOST if highest is None else highest - 1
    place = least(reaches, _LEAST, top)
    if place is None:
        return _judged(task, family, family.at(amount(max(top, _LEAST))), missed=True)
    return _judged(task, family, family.at(amount(place)))


def _judged(
    task: Task[Any, F], family: Family, mechanism: Mechanism[Any], *, missed: bool = False
) -> Plan[F]:
    quote = _quote(task, mechanism)
    if not isinstance(quote, Quote):
        reason = Reason("refused", str(quote))
        return Plan(mechanism, Cost(), None, None, None, None, None, None, False, (reason,))
    bound, needs = task.bound(quote), effort(task, family, quote)
    share = task.balance.share(quote.at_most.runs)
    reasons: list[Reason] = []
    if missed:
        reasons.append(Reason("too-dear", "what is left does not reach so far"))
    return Plan(
        mechanism,
        quote.at_most,
        share,
        bound if bound.proven else None,
        None,
        forecast(task, family, quote),
        None if needs is None else needs.seconds,
        None if needs is None else needs.bytes,
        share is not None and not missed,
        tuple(reasons),
        free_afterwards=family.frees,
    )


def _quote(task: Task[Any, F], mechanism: Mechanism[Any]) -> Quote | DpsdkError:
    try:
        return mechanism.quote(task.form, task.terms)
    except DpsdkError as refusal:
        return refusal


def _ranked(plans: Sequence[Plan[F]]) -> Sequence[Plan[F]]:
    return sorted(plans, key=lambda plan: (not plan.feasible, plan.share_of_remaining or 1))
