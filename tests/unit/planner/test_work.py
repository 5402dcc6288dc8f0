"""Planning takes bounded work, counted before anything is tried."""

import pytest

from dpsdk import Budget, Categorical, Domain, Integer, Marginal, Planner, Quantile
from dpsdk.errors import TooLarge
from dpsdk.kernel import Limits
from dpsdk.mechanisms import Gaussian
from dpsdk.planner import Goal
from dpsdk.queries import Count, marginals

BUDGET = Budget(1, "1e-6")


def planner(count, size):
    labels = [str(place) for place in range(size)]
    domain = Domain(*(Categorical(f"a{place}", labels) for place in range(count)))
    return domain, Planner(domain, BUDGET, rows=48_842)


def test_a_family_that_takes_too_much_is_not_tried_and_says_so(monkeypatch):
    domain, own = planner(8, 2)
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
    domain, own = planner(8, 3)
    for wanted in ({"error": 0.05}, {"budget": Budget("0.1", "1e-7")}):
        plans = own.plan(marginals(domain, 3), **wanted)
        assert not any(one.code == "too-much-planning" for plan in plans for one in plan.because)


@pytest.mark.parametrize("wanted", [{"error": 0.05}, {"budget": Budget("0.1", "1e-7")}])
def test_what_is_too_large_for_plain_noise_is_refused(wanted):
    domain, own = planner(8, 8)
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
