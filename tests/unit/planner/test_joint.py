"""Plans of several goals: what they keep, and what they take."""

import random
from fractions import Fraction
from itertools import accumulate, pairwise, permutations
from unittest.mock import patch

import numpy as np
import pytest
from worlds_of_plans import (
    AGES,
    COMPOSITIONS,
    ONE,
    SEXES,
    YEARS,
    Strange,
    an_account,
    best,
    codes,
    session,
    without_a_table,
)

from dpsdk import Budget
from dpsdk.accounting import BasicComposition
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Ball
from dpsdk.kernel import Limits
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import Laplace, Parts
from dpsdk.planner import Effort, Goal
from dpsdk.queries import Above, ConvexMinimization, Threshold, Workload
from worlds import thinned

pytestmark = pytest.mark.thorough

AMPLE = Budget(4, "1e-6")
THREE = [Goal(AGES, 60.0), Goal(SEXES, 8.0), Goal(YEARS, 300.0)]


def test_the_order_of_goals_changes_nothing():
    own = session(budget=AMPLE)
    found = [own.plan(order) for order in list(permutations(THREE))[::3]]
    assert all(one == found[0] and repr(one) == repr(found[0]) for one in found)
    assert len({repr(one.plans) for one in found}) == 1
    assert isinstance(found[0].best.mechanism, Parts)


@pytest.mark.parametrize("seed", [0, 1, *thinned(range(100, 300), 1000, -1)])
def test_every_goal_is_kept_at_a_joint_beta_and_by_no_more_than_the_parts_take(seed):
    rng = random.Random(seed)
    asker, kept = an_account(rng)
    goals = [
        Goal(query, alpha * 10 ** rng.uniform(0, 1))
        for query, alpha in rng.sample([(ONE, 4.0), (SEXES, 4.0), (AGES, 30.0), (YEARS, 300.0)], 2)
    ]
    plan = best(asker.plan(goals))
    if plan is None:
        return
    balance = asker._context.payer.balance
    assert plan.share_of_remaining == balance.share(plan.cost.runs)
    for goal in goals:
        form = goal.query.lower(asker.domain)
        if isinstance(plan.mechanism, Parts):
            (mechanism,) = [one for query, one in plan.mechanism.parts if query is goal.query]
            quote, beta = mechanism.quote(form, asker._context.terms), 0.05 / len(goals)
        else:
            quote, beta = plan.mechanism.quote(form, asker._context.terms), 0.05
        assert quote.for_query(goal.query, asker.facts).bound(beta).error <= goal.alpha
    # Each by itself, one after the other, at an even share of beta.
    singles = [
        best(asker.plan(goal.query, error=goal.alpha, beta=0.05 / len(goals))) for goal in goals
    ]
    shares = balance.share([run for one in singles if one for run in one.cost.runs])
    if all(singles) and shares is not None:
        assert plan.share_of_remaining <= shares
    # A looser goal never costs more.
    loose = asker.plan([Goal(goals[0].query, 3 * goals[0].alpha), *goals[1:]]).best
    assert loose.share_of_remaining <= plan.share_of_remaining
    del kept


@pytest.mark.parametrize("composition", COMPOSITIONS[:2], ids=lambda one: type(one).__name__)
def test_what_is_planned_is_charged_and_promised(composition):
    goals = THREE[:2]
    plan = session(composition, AMPLE).plan(goals).best
    for order in (goals, goals[::-1]):
        own = session(composition, AMPLE)
        release = own.release(Workload([goal.query for goal in order]), using=plan.mechanism)
        assert release.cost == plan.cost
        assert release.error(0.05) == plan.promised.error
        assert own.spent.charges == len(plan.parts) == 2
    assert [part.cost for part in plan.parts] == [
        type(plan.cost)((run,)) for run in plan.cost.guarantees
    ]


def test_one_goal_is_a_question():
    own = session()
    assert own.plan([Goal(ONE, 5.0)]) == own.plan(ONE, error=5.0)


def test_one_mechanism_for_all_is_taken_where_that_is_cheaper():
    # Tables of one attribute and its coarser questions: what answers one answers the other.
    goals = [Goal(AGES, 40.0), Goal(Workload(AGES.queries[5:9]), 40.0)]
    plan = session().plan(goals).best
    assert not plan.parts
    assert "one-for-all" in codes(plan)


def test_what_does_not_fit_together_is_listed():
    own = session(BasicComposition(), Budget("0.2"))
    assert own.plan(ONE, error=18.0).best
    assert own.plan(SEXES, error=40.0).best
    plans = own.plan([Goal(ONE, 24.0), Goal(SEXES, 49.0), Goal(YEARS, 600.0)])
    assert best(plans) is None
    reasons = {code for plan in plans for code in codes(plan)}
    assert "too-dear-together" in reasons


def test_goals_without_a_unit_are_listed_with_reasons():
    plans = session().plan([Goal(Strange(), 5.0), Goal(ONE, 5.0)])
    assert best(plans) is None
    assert all(plan.because for plan in plans)


def test_equal_questions_are_answered_alike():
    # Nobody could tell which of them may be less exact.
    plan = session(budget=AMPLE).plan([Goal(ONE, 5.0), Goal(ONE, 50.0)]).best
    assert plan.promised.error <= 5


@pytest.mark.parametrize("goals", [[], "goals", [ONE], 3, [Goal(ONE, 1.0), None]], ids=repr)
def test_goals_are_goals(goals):
    with pytest.raises(InvalidArgument, match="goals"):
        session().plan(goals)


def test_there_are_at_most_64_goals():
    many = (Goal(ONE, 1.0 + place) for place in range(10**9))
    with pytest.raises(InvalidArgument, match="goals"):
        session().plan(many)


def test_a_goal_that_a_guess_would_keep_is_told():
    tight, loose = (session(budget=AMPLE).plan([Goal(ONE, 8.0), Goal(SEXES, alpha)]).best
                    for alpha in (299.0, 300.0))  # fmt: skip
    assert "loose-alpha" not in codes(tight)
    assert "loose-alpha" in codes(loose)


def test_many_goals_are_planned():
    goals = [Goal(ONE, 40.0 + place) for place in range(8)]
    assert session().plan(goals).best.promised.error <= 40


def test_models_and_levels_are_planned_with_what_answers_all():
    model = ConvexMinimization(LogisticLoss(), features=["age"], label="b", over=Ball(1))
    plans = session().plan([Goal(model, 0.2), Goal(SEXES, 20.0)])
    assert all(plan.because for plan in plans)
    levels = [Goal(Above(ONE, 100), 60.0), Goal(Above(ONE, 200), 60.0)]
    plans = session().plan(levels)
    assert plans
    assert all(plan.because for plan in plans)


def test_nothing_is_read_for_goals():
    own = session()
    with without_a_table():
        plans = own.plan(THREE)
    assert own.spent.charges == 0
    assert plans == session(shift=1).plan(THREE)


def test_limits_hold_for_all_parts_together():
    def effort(task, family):
        del task, family
        return Effort(4.0, 1000)

    with patch("dpsdk.planner.trial.effort", effort):
        (able,) = [p for p in session(budget=AMPLE).plan(THREE[:2]) if p.parts]
        plans = session(budget=AMPLE).plan(THREE[:2], limits=Limits(seconds=6))
    assert able.feasible
    assert (able.seconds, able.bytes) == (8.0, 1000)
    (slow,) = [plan for plan in plans if plan.parts]
    assert not slow.feasible
    assert codes(slow) == ["too-slow"]


def test_the_cheapest_kind_of_noise_is_found_for_each():
    plan = session(budget=AMPLE).plan(THREE).best
    parts = dict(plan.mechanism.parts)
    assert set(parts) == {AGES, SEXES, YEARS}
    assert not any(isinstance(parts[query], Laplace) for query in (AGES, SEXES))
    total = sum((part.cost.rho for part in plan.parts), Fraction(0))
    assert total == plan.cost.rho


A, B = (Threshold("age", place) for place in (3, 7))


@pytest.mark.parametrize(
    "goals",
    [
        [Goal(Threshold("age", 3, normalized=False), 50.0), Goal(A, 1 / 300)],
        [Goal(A, 0.01), Goal(B, 0.01), Goal(Workload([A, B]), 0.1)],
        [Goal(A, 0.01), Goal(Workload([A, B]), 0.1)],
    ],
    ids=["one question in two units", "two and both", "one and both"],
)
def test_goals_are_kept_whatever_order_they_are_asked_in(goals):
    own = session(budget=Budget(400, "1e-6"))
    feasible = [plan for plan in own.plan(goals) if plan.feasible]
    assert feasible
    for order in permutations(goals):
        asked = Workload([goal.query for goal in order])
        ends = list(accumulate((goal.query.lower(own.domain).rows for goal in order), initial=0))
        for plan in feasible:
            radii = own.quote(asked, using=plan.mechanism).accuracy.radii(0.05, joint=True)
            for goal, (start, stop) in zip(order, pairwise(ends), strict=True):
                raw = np.full(stop - start, np.nan)
                error = goal.query.spread(raw, radii[start:stop], own.facts).max()
                assert error <= goal.alpha * (1 + 1e-9)


def test_a_bound_that_says_nothing_of_some_goal_is_not_taken_for_none():
    own = session(BasicComposition(), budget=Budget("0.001"))
    told = {code for plan in own.plan([Goal(AGES, 5.0), Goal(SEXES, 5.0)]) for code in codes(plan)}
    assert "vacuous-together" in told
    assert "no-bound" not in told
