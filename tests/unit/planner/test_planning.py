"""Plans of one question: what they promise, what they cost, and that they look at nothing."""

import math
import pickle
import random
import re
import sys
from copy import copy, deepcopy
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from worlds_of_plans import (
    AGES,
    BUDGET,
    COMPOSITIONS,
    DOMAIN,
    ONE,
    QUERIES,
    SEXES,
    Strange,
    an_account,
    best,
    codes,
    session,
    table,
    without_a_table,
)

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import (
    BasicComposition,
    DiscreteGaussianGuarantee,
    PureGuarantee,
    SQLiteLedger,
    ZCDPComposition,
)
from dpsdk.accounting.prices.run import pure_epsilon
from dpsdk.data.engine.snapshot import Snapshot
from dpsdk.errors import InvalidArgument, MissingExtra, NoMechanism, UnsupportedGuarantee
from dpsdk.kernel import Limits
from dpsdk.mechanisms import Gaussian, Laplace, NoisyHistogram, ResidualPlanner
from dpsdk.mechanisms.linear_accuracy import LinearAccuracy
from dpsdk.planner import Curve, Effort, Forecast, Goal, Plan, Plans
from dpsdk.planner.families import families
from dpsdk.planner.reasons import SENTENCES, ratio, reason
from dpsdk.planner.task import Task
from dpsdk.planner.trial import Trials
from dpsdk.queries import Count, LinearQuery, Marginal, Mean, Sum, Threshold, Workload
from dpsdk.release import Cost
from dpsdk.testing import seeded
from worlds import thinned

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("seed", [0, 1, 3, *thinned(range(100, 400), 1000, -1)])
def test_what_an_error_costs_promises_that_error_and_a_looser_one_costs_no_more(seed):
    rng = random.Random(seed)
    asker, kept = an_account(rng)
    query = rng.choice(QUERIES)
    before = None
    for alpha in sorted(10 ** rng.uniform(-0.5, 3) for _ in range(3)):
        plan = best(asker.plan(query, error=alpha))
        assert plan is not None or before is None
        if plan is None:
            continue
        assert plan.promised.error <= alpha
        assert before is None or plan.share_of_remaining <= before
        before = plan.share_of_remaining
        again = asker.plan(query, budget=plan.cost).best
        assert again.promised.error <= alpha
        assert again.share_of_remaining <= plan.share_of_remaining
    del kept


@pytest.mark.parametrize("composition", COMPOSITIONS[:3], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("query", [ONE, AGES], ids=str)
def test_a_plan_is_charged_what_it_says_and_is_as_exact(composition, query):
    own = session(composition)
    for plan in own.plan(query, error=60.0):
        if not plan.feasible:
            continue
        asker = session(composition)
        if isinstance(plan.mechanism, Laplace | Gaussian):
            release = asker.release(query, using=plan.mechanism)
            paid = release.cost
        else:
            with asker.open(plan.mechanism) as channel:
                release = channel.release(query)
            paid = asker.history[0].cost
        assert paid == plan.cost
        assert release.error(0.05) <= plan.promised.error <= 60


def test_plans_of_different_tables_are_the_same_and_nothing_was_read_drawn_charged_or_told():
    events = []
    told = []
    strange = Strange()
    for shift in (0, 1):
        own = Session(table(shift=shift), BUDGET, noise=seeded(1), observer=events.append)
        with without_a_table(), patch.object(type(own._context.noise), "draw", None):
            for query, given in (
                (SEXES, {"error": 5.0}),
                (Mean("age"), {"budget": Budget("0.1", "1e-8")}),
                (strange, {"budget": BUDGET}),
                (ONE, {"error": 9.0}),
            ):
                plans = own.plan(query, **given)
                curve = plans.curve() if query is ONE else None
                told.append((plans, repr(plans), repr(plans.plans), curve, repr(curve)))
        assert own.spent.charges == 0
        assert len(own.history) == 0
    assert not events
    half = len(told) // 2
    assert told[:half] == told[half:]


def test_no_engine_is_asked_and_no_ledger_is_written(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"age": [1, 2, 3] * 40, "b": [True, False, True] * 40})
    data = PrivateData.from_frame(frame, DOMAIN, name="people", collect="marginals")
    place = tmp_path / "spend.db"
    with Session(data, BUDGET, ledger=SQLiteLedger(place)) as own:
        own.answer(ONE, using=Laplace(epsilon="0.1"))
        before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
        with patch.object(Snapshot, "_asked", None):
            share = own.plan(SEXES, error=20.0).best.share_of_remaining
        assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before
        assert 0 < share < 1
        assert own.spent.charges == 1


def test_the_order_is_that_of_what_plans_take_and_the_first_is_the_cheapest():
    plans = session().plan(AGES, error=80.0)
    able = [plan for plan in plans if plan.feasible]
    shares = [plan.share_of_remaining for plan in able]
    assert len(able) > 3
    assert shares == sorted(shares)
    assert codes(plans[0])[0] == "cheapest"
    assert all(codes(plan)[0] == "dearer" for plan in able[1:])
    assert [plan.feasible for plan in plans] == sorted((p.feasible for p in plans), reverse=True)


def test_what_cannot_be_reached_is_listed_with_what_can_be_had():
    plans = session(BasicComposition(), Budget(1)).plan(ONE, error=0.5)
    laplace = next(plan for plan in plans if isinstance(plan.mechanism, Laplace))
    assert not laplace.feasible
    assert codes(laplace) == ["too-dear"]
    # A count of noise of ε = 1 is off by 3 at the most, 19 times in 20.
    assert laplace.mechanism == Laplace(epsilon=1)
    assert laplace.attainable == laplace.promised.error == 3
    assert "off by up to 3" in laplace.because[0].text
    with pytest.raises(NoMechanism):
        _ = plans.best


def test_an_error_above_the_span_is_said_to_be_met_by_a_guess_and_costs_no_more_than_below_it():
    own = session()
    below, above = (own.plan(Threshold("age", 7), error=alpha).best for alpha in (0.999, 50.0))
    assert "loose-alpha" in codes(above)
    assert "loose-alpha" not in codes(below)
    assert above.cost == below.cost
    assert not above.promised.vacuous


def test_a_bound_that_says_nothing_is_no_plan():
    own = session(BasicComposition(), Budget("0.001"))
    for plans in (
        own.plan(Marginal("age"), error=0.9),
        own.plan(Marginal("age"), budget=Budget(1)),
    ):
        plan = next(plan for plan in plans if isinstance(plan.mechanism, Laplace))
        assert codes(plan) == ["vacuous"]
        assert not plan.feasible
        assert plan.promised.vacuous
        assert plan.attainable == plan.promised.error > 1


def test_where_nothing_is_left_nothing_is_planned_but_what_is_free():
    own = session(BasicComposition(), Budget("0.1"))
    own.answer(ONE, using=Laplace(epsilon="0.1"))
    for given in ({"error": 5.0}, {"budget": Budget(1)}, {"budget": Cost((PureGuarantee(1),))}):
        plans = own.plan(ONE, **given)
        assert codes(plans[0]) == ["nothing-left"]
        assert best(plans) is None
    # The number of rows is public, and no neighbour has another.
    columns = {"age": [1, 2, 3], "b": [True, False, True]}
    known = PrivateData.from_columns(columns, DOMAIN, outside="raise")
    own = Session(known, Budget("0.1"), composition=BasicComposition(), noise=seeded(1))
    own.answer(ONE, using=Laplace(epsilon="0.1"))
    free = own.plan(Count(normalized=False), error=1.0).best
    assert free.cost.free
    assert free.share_of_remaining == 0


@pytest.mark.parametrize("beta", [1e-300, 1e-9, 0.5, 1 - 1e-9])
def test_any_beta_will_do(beta):
    plans = session().plan(ONE, error=200.0, beta=beta)
    for plan in plans:
        assert plan.promised is None or plan.promised.beta == beta
    assert beta < 1e-100 or plans.best.promised.error <= 200


@pytest.mark.parametrize(
    "alpha", [0, -1, math.nan, math.inf, True, "few", 10**400, Fraction(1, 10**400)]
)
def test_an_error_is_a_positive_number(alpha):
    with pytest.raises(InvalidArgument, match="error"):
        session().plan(ONE, error=alpha)


@pytest.mark.parametrize("alpha", [5e-324, 1e300])
def test_any_positive_error_is_planned_for(alpha):
    plans = session().plan(ONE, error=alpha)
    assert plans
    assert (best(plans) is None) == (alpha < 1)


def test_a_query_that_says_nothing_of_its_unit_is_ranked_by_its_raw_numbers():
    own = session()
    plans = own.plan(Strange(), budget=BUDGET)
    assert plans.best.feasible
    assert "no-bound" in codes(plans.best)
    assert plans.best.promised is None
    assert best(own.plan(Strange(), error=3.0)) is None


class Rude(LinearQuery[float]):
    """Fails whenever it is asked what its answer would be worth."""

    def __init__(self, what):
        self.what = what

    def lower(self, domain, /):
        return Strange().lower(domain)

    def lift(self, raw, facts, /):
        return float(raw[0])

    def spread(self, raw, radii, facts, /):
        if self.what == "raise":
            raise ZeroDivisionError("private words")
        if self.what == "nothing":
            return np.array([])
        return np.full(len(radii), math.nan)

    def span(self, facts, /):
        if self.what == "span":
            raise KeyError("private words")
        return math.nan


@pytest.mark.parametrize("what", ["raise", "nan", "nothing", "span"])
@pytest.mark.parametrize("given", [{"error": 3.0}, {"budget": BUDGET}], ids=str)
def test_a_query_that_cannot_be_asked_for_its_error_has_plans_with_reasons(what, given):
    plans = session().plan(Rude(what), **given)
    assert plans
    assert all(plan.because for plan in plans)
    assert "private words" not in repr(plans.plans)
    assert isinstance(repr(plans), str)


def test_the_first_for_a_budget_is_the_least_off_and_takes_all_of_it():
    plans = session(BasicComposition()).plan(ONE, budget=Budget("0.3"))
    assert plans.best.mechanism == Laplace(epsilon="0.3")
    assert plans.best.cost.epsilon == Fraction(3, 10)
    assert codes(plans.best) == ["least-error"]
    errors = [plan.promised.error for plan in plans if plan.feasible and plan.promised]
    assert errors == sorted(errors)


@pytest.mark.parametrize("composition", COMPOSITIONS[1:3], ids=lambda one: type(one).__name__)
def test_a_budget_is_kept_by_itself_and_within_what_is_left(composition):
    for budget in (Budget("0.2"), Budget("0.2", "1e-8"), Budget(50, "0.1")):
        own = session(composition)
        fresh = own._context.payer.balance
        for plan in own.plan(AGES, budget=budget):
            if plan.cost.free or not plan.feasible:
                continue
            assert plan.share_of_remaining == fresh.share(plan.cost.runs) <= 1
            assert fresh.capped(budget).fits(plan.cost.runs)


def test_nothing_is_listed_twice_and_what_needs_a_delta_says_so():
    plans = session(BasicComposition()).plan(AGES, budget=Budget("0.3"))
    assert len({str(plan.mechanism) for plan in plans}) == len(plans)
    gaussian = next(plan for plan in plans if isinstance(plan.mechanism, Gaussian))
    assert codes(gaussian) == ["needs-delta"]
    assert all(plan.cost.epsilon == Fraction(3, 10) for plan in plans if plan.feasible)


def test_where_a_rho_has_no_price_pairs_are_planned():
    own = session(BasicComposition(), Budget(4, "1e-6"))
    plan = next(p for p in own.plan(SEXES, error=20.0) if isinstance(p.mechanism, Gaussian))
    assert plan.feasible
    # As much of what is left of the ε as of the δ.
    assert plan.mechanism.delta / plan.mechanism.epsilon == Fraction(1, 4 * 10**6)
    assert plan.share_of_remaining == plan.mechanism.epsilon / 4
    release = own.release(SEXES, using=plan.mechanism)
    assert release.cost == plan.cost
    assert own.spent.charges == 1


def test_a_cost_that_is_more_than_what_is_left_is_all_that_is_left():
    own = session(BasicComposition(), Budget("0.5"))
    plan = own.plan(ONE, budget=Cost((PureGuarantee(3),))).best
    assert Fraction(48, 100) < plan.cost.epsilon <= Fraction(1, 2)


def test_a_cost_without_a_price_and_what_is_no_budget_are_refused():
    own = session(BasicComposition(), Budget(1))
    with pytest.raises(UnsupportedGuarantee):
        own.plan(ONE, budget=Cost((DiscreteGaussianGuarantee(1000, 1, 1),)))
    with pytest.raises(InvalidArgument, match="budget"):
        own.plan(ONE, budget=0.3)


def test_costs_are_compared_by_the_sessions_own_composition():
    own = session(ZCDPComposition())
    cost = own.plan(AGES, error=60.0).best.cost
    for plan in own.plan(AGES, budget=cost):
        if plan.feasible:
            share = own._context.payer.balance.share
            assert share(plan.cost.runs) <= share(cost.runs)


def test_what_is_beyond_limits_is_listed_as_such_and_others_are_within_them():
    def effort(task, family):
        large = family.code.startswith(("tree", "matrix"))
        return Effort(100.0 if large else 0.001, 10**9 if family.code == "laplace" else 100)

    with patch("dpsdk.planner.trial.effort", effort):
        own = session()
        plans = own.plan(AGES, error=60.0, limits=Limits(seconds=10, bytes=10**6))
        dear = own.plan(AGES, error=60.0)
        by_budget = own.plan(AGES, budget=BUDGET, limits=Limits(seconds=10, bytes=10**6))
    for one in (plans, by_budget):
        for plan in one:
            code = "too-slow" if str(plan.mechanism).startswith(("Tree", "Matrix")) else None
            code = "too-large" if isinstance(plan.mechanism, Laplace) else code
            assert (code in codes(plan)) == (code is not None)
            assert code is None or not plan.feasible
    assert any(plan.feasible and "slow-to-open" in codes(plan) for plan in dear)


def test_what_is_only_expected_is_no_promise_and_no_plan_to_be_taken():
    def forecast(task, family, quote):
        return Forecast(1.0, 0.5, 2.0, "extrapolated") if family.code == "mwem" else None

    with patch("dpsdk.planner.trial.forecast", forecast):
        plans = session(budget=Budget("0.2", "1e-6")).plan(
            Marginal("age", "b", normalized=False), error=3.0
        )
    found = [plan for plan in plans if "promise-only-expected" in codes(plan)]
    assert len(found) == 1
    assert not found[0].feasible
    assert found[0] is plans[0]
    assert found[0].expected == Forecast(1.0, 0.5, 2.0, "extrapolated")
    assert "extrapolated" in codes(found[0])


def test_a_forecast_decides_what_comes_first_for_a_budget_and_a_promise_for_a_cost():
    def forecast(task, family, quote):
        return Forecast(1e-3 if family.code == "mwem" else 1.0, 1e-4, 2.0, "calibrated")

    query = Marginal("age", "b", normalized=False)
    with patch("dpsdk.planner.trial.forecast", forecast):
        own = session()
        assert str(own.plan(query, budget=BUDGET).best.mechanism).startswith("MWEM")
        cost = own.plan(query, error=50.0).best.cost
        assert own.plan(query, budget=cost).best.promised.error <= 50


def test_every_reason_is_one_that_is_listed():
    own = session()
    for query in (ONE, Mean("age"), Strange()):
        for given in ({"error": 1e-9}, {"budget": Budget("0.1")}):
            for plan in own.plan(query, **given):
                assert plan.because
                assert set(codes(plan)) <= set(SENTENCES)
                assert all(reason.text for reason in plan.because)


def test_a_plan_tells_what_is_free_afterwards():
    plans = session().plan(AGES, error=60.0)
    histogram = next(plan for plan in plans if isinstance(plan.mechanism, NoisyHistogram))
    assert "answers-more" in codes(histogram)
    assert histogram.free_afterwards
    assert isinstance(histogram, Plan)
    tables = session(budget=Budget(1, "1e-6")).plan(Marginal("age"), error=60.0)
    residual = next(plan for plan in tables if isinstance(plan.mechanism, ResidualPlanner))
    assert residual.free_afterwards == "every linear query on attributes of the table"


def test_noise_that_is_added_up_once_for_all_amounts_is_that_of_each():
    own = session(budget=Budget(4, "1e-6"))
    context = own._context
    task = Task(AGES, context.forms.form(AGES), context.terms, context.payer.balance, 0.05)
    shared = 0
    for family in families(task):
        trials = Trials(task, family, task.balance)
        for place in (-200, -150, -100):
            trial = trials.at(place)
            if trial is None or trial.share is None:
                continue
            alone = task.bound(family.quote(trial.mechanism, task))
            assert trial.promised == (alone if alone.proven else None)
            shared += isinstance(trial.quote.accuracy, LinearAccuracy)
    assert shared >= 6


def test_means_of_groups_are_told_of_sums_and_counts_that_cost_one_price():
    own = session(budget=Budget(4, "1e-6"))
    means = Workload(Mean("age", where={"b": value}) for value in (True, False))
    hint = "Mean('age', by='b') is one query for all groups"
    plans = own.plan(means, budget=Budget(1, "1e-6"))
    vacuous = [plan for plan in plans if plan.promised is not None and plan.promised.vacuous]
    assert vacuous
    assert all(any(hint in one.text for one in plan.because) for plan in vacuous)
    release = own.release(means, using=Laplace(epsilon="0.001"))
    assert release.bound().vacuous
    assert hint in repr(release)
    assert "Mean(&#x27;age&#x27;, by=&#x27;b&#x27;) is one query" in release._repr_html_()
    sums = Workload(Sum("age", where={"b": value}) for value in (True, False))
    together = Workload([sums, Marginal("b")])
    (run,) = own.quote(together, using=Laplace(epsilon="0.1")).at_most.guarantees
    assert pure_epsilon(run) == Fraction(1, 10)
    assert not own.quote(together, using=Laplace(epsilon="0.1")).bound().vacuous
    for other in (Workload([Mean("age"), Mean("age")]), Mean("age", where={"b": True})):
        assert "have bounds beforehand" not in repr(own.release(other, using=Laplace("0.001")))


# Plans as a value: a sequence, a table, a curve.


def test_plans_are_a_sequence_with_a_best():
    plans = session().plan(SEXES, error=20.0)
    assert plans[0] is plans.best
    assert list(plans) == list(plans[:]) == [plans[place] for place in range(len(plans))]
    assert plans[-1] in plans
    assert plans == Plans(plans.plans, plans.question)
    assert hash(plans) == hash(Plans(plans.plans, plans.question))


def test_plans_are_copied_and_pickled():
    plans = session().plan(SEXES, error=20.0)
    assert copy(plans) is deepcopy(plans) is plans
    again = pickle.loads(pickle.dumps(plans))  # noqa: S301  # made above
    assert again == plans
    assert repr(again) == repr(plans)
    assert again.curve() == Curve(())


def test_no_plans_have_no_best():
    assert len(Plans([])) == 0
    with pytest.raises(NoMechanism, match="a question"):
        _ = Plans([], "a question").best
    assert Plans([]).curve() == Curve(())
    assert repr(Curve(())) == "no points"


def test_plans_read_as_a_table():
    plans = session().plan(ONE, error=3.0)
    lines = repr(plans).splitlines()
    assert lines[0] == f"Plans for {ONE!r}"
    assert lines[1].split() == ["mechanism", "share", "promised", "expected", "because"]
    assert len(lines) == 2 + len(plans)
    for line, plan in zip(lines[2:], plans, strict=True):
        assert line.startswith(str(plan.mechanism))
        assert plan.because[0].text in line
        assert ("  no: " in line) == (not plan.feasible)


@pytest.mark.parametrize("backend", ["polars", "pandas", "pyarrow"])
def test_plans_and_curves_become_frames(backend):
    pytest.importorskip(backend)
    nw = pytest.importorskip("narwhals.stable.v2")
    plans = session().plan(ONE, error=3.0)
    frame = nw.from_native(plans.to_frame(backend=backend))
    assert frame.shape == (len(plans), len(plans.to_columns()))
    assert frame["mechanism"].to_list() == [str(plan.mechanism) for plan in plans]
    assert frame["feasible"].to_list() == [plan.feasible for plan in plans]
    curve = plans.curve()
    assert nw.from_native(curve.to_frame(backend=backend)).shape == (len(curve.points), 5)


def test_other_libraries_are_refused_and_missing_ones_named():
    plans = session().plan(ONE, error=3.0)
    for frame in (plans.to_frame, plans.curve().to_frame):
        with pytest.raises(InvalidArgument, match="backend"):
            frame(backend="numpy")
        with patch.dict(sys.modules, {"narwhals.stable.v2": None}), pytest.raises(MissingExtra):
            frame()


def test_a_curve_falls_with_what_is_taken():
    plans = session(BasicComposition()).plan(AGES, error=80.0)
    curve = plans.curve()
    codes = dict.fromkeys(point.family for point in curve.points)
    assert 1 < len(codes) <= 4
    for code in codes:
        points = [point for point in curve.points if point.family == code]
        for one, other in pairwise(points):
            assert one.share < other.share <= 1
            assert one.error > other.error
    best = [point for point in curve.points if point.family == curve.points[0].family]
    assert best[-1].error == min(point.error for point in curve.points)
    assert curve == plans.curve()
    assert len(repr(curve).splitlines()) > len(codes)


def test_a_plan_for_goals_shows_its_parts():
    own = session(budget=Budget(4, "1e-6"))
    plan = own.plan([Goal(AGES, 60.0), Goal(SEXES, 8.0)]).best
    assert len(plan.parts) == 2
    assert "Parts(" in repr(plan)


def test_the_reference_tells_every_code():
    page = Path(__file__).parents[3] / "docs" / "reference" / "planner.md"
    told = re.findall(r"^\| (`.*?) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`([a-z-]+)`", " ".join(told))) == sorted(SENTENCES)


@pytest.mark.parametrize(
    ("size", "text"),
    [(2.3333, "2.33 times"), (1.0004, "1.0004 times"), (1.0, "just"), (123.4, "123 times")],
)
def test_a_ratio_has_the_digits_that_tell_it_from_once(size, text):
    assert ratio(size) == text
    told = f"takes {text} as much of what is left as the cheapest"
    assert reason("dearer", times=ratio(size)).text == told


def test_a_table_of_plans_tells_a_reason_that_several_have_once():
    data = PrivateData.from_columns({"age": [1, 2, 3]}, Domain(Integer("age", 0, 9)))
    plans = Session(data, Budget(1)).plan(Mean("age"), error=0.1)
    assert {plan.because[0].code for plan in plans} == {"needs-assumption"}
    whole = "no: needs-assumption: a bound beforehand depends on the table"
    for shown in (repr(plans), plans._repr_html_()):
        assert shown.count(whole) == 1
        assert shown.count("no: needs-assumption, as above") == len(plans) - 1 > 0
