"""Quotes and plans before there is a table: those of a session over a table of these facts."""

import pytest
from worlds_of_plans import AGES, BUDGET, DOMAIN, ONE, session

from dpsdk import Budget, Categorical, Domain, Integer, Marginal, Neighbors, Planner, Quantile
from dpsdk.accounting import BasicComposition
from dpsdk.errors import DomainError, InvalidArgument, QueryError, TooLarge
from dpsdk.kernel import Limits
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.planner import Goal
from dpsdk.queries import Count, Mean, Threshold, marginals


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


# Planning takes bounded work, counted before anything is tried.


def wide(count, size):
    labels = [str(place) for place in range(size)]
    domain = Domain(*(Categorical(f"a{place}", labels) for place in range(count)))
    return domain, Planner(domain, BUDGET, rows=48_842)


def test_a_family_that_takes_too_much_is_not_tried_and_says_so(monkeypatch):
    domain, own = wide(8, 2)
    monkeypatch.setattr("dpsdk.planner.work._STEPS", 2**23)
    plans = own.plan(marginals(domain, 4), error=0.05)
    assert isinstance(plans.best.mechanism, Gaussian)
    barred = {
        type(plan.mechanism).__name__: plan.because
        for plan in plans
        if plan.because[0].code == "too-much-planning"
    }
    assert "ResidualPlanner" in barred
    assert "steps" in barred["ResidualPlanner"][0].text
    assert "limits=" in barred["ResidualPlanner"][0].text


@pytest.mark.thorough
def test_one_that_takes_little_is_tried_as_before():
    domain, own = wide(8, 3)
    for wanted in ({"error": 0.05}, {"budget": Budget("0.1", "1e-7")}):
        plans = own.plan(marginals(domain, 3), **wanted)
        assert not any(one.code == "too-much-planning" for plan in plans for one in plan.because)


@pytest.mark.parametrize("wanted", [{"error": 0.05}, {"budget": Budget("0.1", "1e-7")}])
def test_what_is_too_large_for_plain_noise_is_refused(wanted):
    domain, own = wide(8, 8)
    with pytest.raises(TooLarge, match=r"planning Marginal.*16,777,216 numbers.*limits=") as told:
        own.plan(Marginal(*domain.names), **wanted)
    assert (told.value.needed, told.value.limit) == (2**24, 2**21)


@pytest.mark.thorough
def test_limits_allow_more_and_never_less(monkeypatch):
    monkeypatch.setattr("dpsdk.planner.work._BYTES", 2**20)
    line = Domain(Integer("x", 0, 2**13))
    own = Planner(line, BUDGET, rows=1000)
    with pytest.raises(TooLarge):
        own.plan(Quantile("x", "0.3"), budget=Budget("0.1"), limits=Limits(1, bytes=1))
    assert own.plan(Quantile("x", "0.3"), budget=Budget("0.1"), limits=Limits())
    own.plan(Count(), error=0.1, limits=Limits(seconds=1e-6, bytes=1))


def test_several_goals_are_bounded_together():
    line = Domain(Integer("x", 0, 2**15 - 1))
    goals = [Goal(Quantile("x", f"0.{place}"), 100) for place in range(11, 60)]
    with pytest.raises(TooLarge, match="49 goals"):
        Planner(line, BUDGET, rows=1000).plan(goals)
