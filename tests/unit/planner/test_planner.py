"""Quotes and plans before there is a table: those of a session over a table of these facts."""

import pytest
from worlds_of_plans import AGES, BUDGET, DOMAIN, ONE, session

from dpsdk import Budget, Neighbors, Planner
from dpsdk.accounting import BasicComposition
from dpsdk.errors import DomainError, InvalidArgument, QueryError
from dpsdk.mechanisms import Laplace
from dpsdk.planner import Goal
from dpsdk.queries import Count, Mean, Threshold


def planner_of(own, **given):
    facts = own.facts
    return Planner(
        facts.domain, own.budget, rows=facts.rows, neighbors=facts.neighbors,
        max_rows=None if facts.rows is not None else facts.row_limit, **given,
    )  # fmt: skip


@pytest.mark.parametrize("query", [ONE, AGES, Mean("age")], ids=str)
def test_it_quotes_and_plans_as_a_new_session_does(query):
    own = session(budget=BUDGET)
    planner = planner_of(own, composition=own._context.payer.composition)
    laplace = Laplace("0.1")
    assert planner.facts == own.facts
    assert planner.quote(query, using=laplace) == own.quote(query, using=laplace)
    assert planner.affords(query, using=laplace) == own.affords(query, using=laplace)
    assert planner.plan(query, budget=BUDGET) == own.plan(query, budget=BUDGET)
    assumed = {"inside": 0.9}
    told = (
        planner.plan(query, error=60, assume=assumed),
        own.plan(query, error=60, assume=assumed),
    )
    assert told[0] == told[1]
    if told[0][0].feasible:
        best = told[0].best
        assert planner.quote(query, using=best) == own.quote(query, using=best)


def test_goals_are_planned_too():
    own = session(budget=BUDGET)
    goals = [Goal(ONE, 20.0), Goal(Count(normalized=False), 20.0)]
    assert planner_of(own).plan(goals) == own.plan(goals)


def test_rows_are_given_where_they_are_public_and_nowhere_else():
    with pytest.raises(InvalidArgument, match="rows must be given, as it is public"):
        Planner(DOMAIN, BUDGET)
    with pytest.raises(InvalidArgument, match="rows must be left out, as it is private"):
        Planner(DOMAIN, BUDGET, rows=10, neighbors=Neighbors.ADD_REMOVE)
    assert Planner(DOMAIN, BUDGET, neighbors=Neighbors.ADD_REMOVE).facts.rows is None


def test_what_cannot_be_asked_is_refused_as_in_a_session():
    planner = Planner(DOMAIN, Budget(1), rows=10, composition=BasicComposition())
    with pytest.raises((DomainError, QueryError)):
        planner.quote(Threshold("nothing", 1), using=Laplace(1))
    for wrong in ({"using": 3}, {"using": Laplace(1), "assume": 3}):
        with pytest.raises(InvalidArgument):
            planner.quote(ONE, **wrong)
    with pytest.raises(InvalidArgument, match="error must be given, or budget"):
        planner.plan(ONE)
    with pytest.raises(InvalidArgument, match="query must be a query"):
        planner.quote("age", using=Laplace(1))
