"""What is planned: plans of a question, the answer by one of them, and by whichever is best."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final, TypeVar, cast, final

import numpy as np
from attrs import evolve
from typing_extensions import override

from dpsdk._checks import described, shown
from dpsdk._lifetime import Lifetime
from dpsdk.accuracy import Bound, Lifting, bound_of
from dpsdk.errors import AnswerLost, InvalidArgument, NoMechanism
from dpsdk.forms import Facts, Form, LinearForm
from dpsdk.forms.assumptions import NOTHING
from dpsdk.kernel.question import Question
from dpsdk.mechanisms.base import Mechanism
from dpsdk.planner import Goal, Plan, Plans
from dpsdk.planner.planner import Wanted, plans_for
from dpsdk.planner.planning import plans_for_budget, plans_for_error
from dpsdk.planner.reasons import reason
from dpsdk.planner.task import Task
from dpsdk.queries.base import Query, lifting
from dpsdk.release import Quote, Release
from dpsdk.release.release import Reason
from dpsdk.session.channel import Channel, Given, released
from dpsdk.session.context import Context
from dpsdk.session.identity import BEST, Using, question_of
from dpsdk.session.opening import opening_of
from dpsdk.session.stopped import Stopped
from dpsdk.session.stored import Request

__all__ = ["best_plan", "mechanism_of", "plans_of", "release_by_best", "release_by_plan", "said_of"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

_BETA: Final = 0.05
_PART: Final = Fraction(1, 10)
"""Whatever is best takes no more of what is left."""

_FINE: Final = 100
"""It is to be off by no more than the answer's span over this."""

_COMPARED: Final = frozenset({"least-error", "less-exact"})
"""Codes of reasons that compare a plan with others."""

_NAME: Final = "the best plan"
_DIGEST: Final = sha256(b"whatever mechanism is best").hexdigest()
"""Tells requests to whatever is best from requests to a mechanism."""


def plans_of(
    query: Query[A, F] | Iterable[Goal[A, F]], context: Context, wanted: Wanted
) -> Plans[F]:
    """Ways to answer a query, or to reach goals, judged from public facts alone."""
    terms, balance = context.terms, context.payer.balance

    def task_of(query: Query[Any, Any], beta: float, /) -> Task[Any, Any]:
        form = context.forms.form(query)
        return Task(query, form, terms, balance, beta, wanted.assumptions, wanted.limits)

    return plans_for(query, task_of, context.facts, wanted)


def said_of(plan: Plan[F]) -> tuple[Mechanism[F], tuple[Reason, ...]]:
    """The mechanism of a plan, and copies of the reasons that it was given.

    Raises
    ------
    InvalidArgument
        If it has no mechanism, or something else for reasons. Anybody can make a plan.
    """
    mechanism, because = plan.mechanism, cast("object", plan.because)
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("using", "a plan of a mechanism", shown(mechanism))
    reasons: list[Reason] = []
    for one in cast("tuple[object, ...]", because) if isinstance(because, tuple) else (because,):
        code, text = (one.code, one.text) if isinstance(one, Reason) else (None, None)
        if not isinstance(code, str) or not isinstance(text, str):
            raise InvalidArgument("using", "a plan with reasons, each of two texts", shown(one))
        reasons.append(Reason(str.__str__(code), str.__str__(text)))
    return mechanism, tuple(reasons)


def mechanism_of(using: Mechanism[F] | Plan[F]) -> Mechanism[F]:
    """A mechanism, or that of a plan.

    Raises
    ------
    InvalidArgument
        If it is neither.
    """
    mechanism = said_of(using)[0] if isinstance(using, Plan) else using
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("using", "a mechanism or a plan", shown(using))
    return mechanism


class _InRows(Task[A, F]):
    """A task of which errors are judged by those of the raw numbers that answers are made of."""

    @override
    def bound(self, quote: Quote) -> Bound:
        return bound_of(quote.accuracy, lambda radii: radii, self.span, self.beta)

    @override
    def assumed(self, quote: Quote) -> None:
        del quote

    @property
    @override
    def span(self) -> float:
        form, facts = self.form, self.facts
        rows = facts.row_limit if facts.rows is None else facts.rows
        return rows * form.largest if isinstance(form, LinearForm) else math.inf


def best_plan(query: Query[A, F], form: F, context: Context) -> Plan[F]:
    """The plan that a question gets for which no mechanism was named.

    Of the plans that take a tenth of what is left at the most: the cheapest that promises, at 95%,
    an error of a hundredth of the largest difference of two answers; or else the first of those for
    a tenth of what is left. Where errors depend on the table so that none can be told beforehand,
    as those of means and quantiles, mechanisms are compared by the errors of the raw numbers.

    Raises
    ------
    NoMechanism
        If there is none of either.
    """
    balance = context.payer.balance.at_most(_PART)
    task = Task(query, form, context.terms, balance, _BETA)
    alpha = _aim(lifting(query), form, context.facts)
    if 0 < alpha < math.inf:
        for plan in plans_for_error(task, alpha):
            if plan.feasible and plan.promised is not None and plan.promised.error <= alpha:
                return plan
    with suppress(NoMechanism):
        return plans_for_budget(task, balance.budget).best
    plans = plans_for_budget(_InRows(query, form, context.terms, balance, _BETA), balance.budget)
    # What is expected is in the unit of the answer, and compares with nothing here.
    bounded = [plan for plan in plans if plan.feasible and plan.promised is not None]
    if bounded:
        return _least(bounded)
    try:
        return plans.best
    except NoMechanism as none:
        raise NoMechanism(described(query), none.reasons) from None


def _least(plans: Sequence[Plan[F]]) -> Plan[F]:
    """The plan of the least bound, with that for a reason."""
    best = min(plans, key=lambda plan: math.inf if plan.promised is None else plan.promised.error)
    others = [one for one in best.because if one.code not in _COMPARED]
    return evolve(best, because=(reason("least-error"), *others))


def _aim(lift: Lifting[object] | None, form: Form, facts: Facts) -> float:
    """How far off an answer may be that nobody set an error for; 0 where none can be promised."""
    try:
        if lift is None:
            return 0.0
        span = float(lift.span(facts))
        if isinstance(form, LinearForm):
            # What nothing could be told of even if no noise were added.
            radii = np.zeros(form.rows)
            told = lift.presumed(radii, radii.copy, facts, NOTHING)
            span = 0.0 if float(told.max()) >= span else span
        return span / _FINE
    except Exception:  # noqa: BLE001  # a query of another author may raise anything
        return 0.0


def release_by_plan(
    query: Query[A, F],
    mechanism: Mechanism[F],
    because: tuple[Reason, ...],
    context: Context,
    request_id: str | None,
) -> Release[A]:
    """The answer by a plan whose mechanism has to be opened, for this one answer."""
    channel = opening_of(mechanism, context).channel()
    with _closing(channel):
        return released(channel, query, request_id, None, because)


def release_by_best(query: Query[A, F], context: Context, request_id: str | None) -> Release[A]:
    """The answer by whatever is best."""
    channel = _Best[F](context)
    with _closing(channel):
        return channel.asked(query, request_id)


@contextmanager
def _closing(channel: Channel[F]) -> Generator[None]:
    """Close a channel after its one answer; not if another goes on with what it has learnt."""
    try:
        yield
    except Stopped:
        raise
    except BaseException:
        channel.close()
        raise
    channel.close()


@final
class _Best(Channel[F]):
    """A channel for one answer by whatever is best, which is settled when it has to be asked.

    An answer that was given before, to the same request or the same question, is given again
    whatever would be best by now.
    """

    __slots__ = ("_outer", "plan")

    def __init__(self, context: Context) -> None:
        self._outer = context
        self._context = context.until(Lifetime(_NAME, context.lifetime))
        self._name, self._access = _NAME, self._context.access(_NAME)
        self._using = Using(_NAME, BEST, context.facts.domain, _DIGEST)
        self.plan: Plan[F] | None = None

    def asked(self, query: Query[A, F], request_id: str | None) -> Release[A]:
        """The answer."""
        given = self._asked(query, request_id, BEST)
        plan = self.plan
        return self._released(query, given, () if plan is None else plan.because)

    @override
    def _put(
        self,
        query: Query[A, F],
        form: F,
        label: str,
        request: Request | None,
        same: tuple[str, ...],
        ended: list[Question],
    ) -> Given[A]:
        outer = self._outer
        try:
            with outer.history.working("planning"):
                plan = best_plan(query, form, outer)
        except NoMechanism:
            if request is not None and (charges := request.charges()):
                numbers = tuple(charge.number for charge in charges)
                raise AnswerLost(request.name, numbers) from None
            raise
        self.plan = plan
        opening = opening_of(plan.mechanism, outer, _DIGEST)
        # From here on this is the channel to that mechanism.
        self._strategy, self._access, self._context = opening, opening.access, opening.context
        self._name = opening.using.name
        own = None if not same else question_of(outer.place, plan.mechanism, form)
        if own is None or outer.reuse is None:
            return super()._put(query, form, label, request, same, ended)
        known = outer.reuse.find(own, outer.payer)
        if known is None:
            return super()._put(query, form, label, request, (*same, own), ended)
        for one in same:
            outer.reuse.keep(one, outer.payer, known)
        return self._reused(query, known, label, request, ended)

    @override
    def _called(self, given: Given[A]) -> str:
        return self._name if given.by is None else given.by()
