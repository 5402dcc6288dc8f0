"""The best plan of a question for which no mechanism was named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Final, TypeVar, cast

import numpy as np
from attrs import evolve
from typing_extensions import override

from dpsdk._checks import described
from dpsdk.accounting.balance import Balance
from dpsdk.accuracy import Bound, Lifting, bound_of, of_values
from dpsdk.errors import NoMechanism
from dpsdk.forms import Facts, Form, LinearForm, UnwrittenForm
from dpsdk.forms.assumptions import NOTHING
from dpsdk.kernel import Terms
from dpsdk.planner.plan import Plan
from dpsdk.planner.planning import plans_for_budget, plans_for_error
from dpsdk.planner.reasons import reason
from dpsdk.planner.task import Task
from dpsdk.queries.base import Query, lifting
from dpsdk.release import Quote

__all__ = ["best_plan"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

_BETA: Final = 0.05
_PART: Final = Fraction(1, 10)
"""The best plan takes no more of what is left."""

_FINE: Final = 100
"""It is to be off by no more than the answer's span over this."""

_COMPARED: Final = frozenset({"least-error", "less-exact"})
"""Codes of reasons that compare a plan with others."""


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
        if isinstance(form, UnwrittenForm):
            return rows
        return rows * form.largest if isinstance(form, LinearForm) else math.inf


def best_plan(query: Query[A, F], form: F, terms: Terms, account: Balance) -> Plan[F]:
    """The plan that a question gets for which no mechanism was named.

    Of the plans that take a tenth of what is left at the most: the cheapest that promises, at 95%,
    an error of a hundredth of the largest difference of two answers; or else the first of those for
    a tenth of what is left. Where errors depend on the table so that none can be told beforehand,
    as those of means and quantiles, mechanisms are compared by the errors of the raw numbers.
    """
    balance = account.at_most(_PART)
    form = _counted(form)
    task = Task(query, form, terms, balance, _BETA)
    alpha = _aim(lifting(query), form, terms.facts)
    if 0 < alpha < math.inf:
        for plan in plans_for_error(task, alpha):
            if plan.feasible and plan.promised is not None and plan.promised.error <= alpha:
                return plan
    with suppress(NoMechanism):
        return plans_for_budget(task, balance.budget).best
    plans = plans_for_budget(_InRows(query, form, terms, balance, _BETA), balance.budget)
    # What is expected is in the unit of the answer, and compares with nothing here.
    bounded = [plan for plan in plans if plan.feasible and plan.promised is not None]
    if bounded:
        return _least(bounded)
    try:
        return plans.best
    except NoMechanism as none:
        raise NoMechanism(described(query), none.reasons) from None


def _counted(form: F) -> F:
    """The form of counts alone, for a quantile of what has always been read off counts."""
    linear: object = form
    if type(linear) is LinearForm and linear.crossing is not None and not linear.crossing.fine:
        return cast("F", evolve(linear, crossing=None))
    return form


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
            hidden = lift.coarseness(None, radii, facts)
            span = 0.0 if float(of_values(told, hidden, span).max()) >= span else span
            # What bins hide no noise makes less.
            return span / _FINE + (0.0 if hidden is None or not span else float(hidden.max()))
        return span / _FINE
    except Exception:  # noqa: BLE001  # a query of another author may raise anything
        return 0.0
