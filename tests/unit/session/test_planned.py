"""Answers by plans, and by whichever plan is best when nobody names a mechanism."""

import copy
import threading
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from attrs import evolve, frozen

from dpsdk import (
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    Stopped,
    wire,
)
from dpsdk.accounting import BasicComposition, SQLiteLedger
from dpsdk.errors import (
    AnswerLost,
    BudgetExceeded,
    Closed,
    Declined,
    DomainError,
    InvalidArgument,
    NoMechanism,
    PublicSizeRequired,
    QueryError,
    ReleaseFailed,
)
from dpsdk.kernel import LaplaceNoise, Limits
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import MWEM, Laplace, LocalMarginals, Matrix, NoisyHistogram, OnlinePMW, Tree
from dpsdk.observe import Charged, Refused
from dpsdk.planner import Goal, Plan, Reason
from dpsdk.queries import (
    Ball,
    ConvexMinimization,
    Count,
    Marginal,
    Mean,
    Median,
    Query,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.release import Cost, Release
from dpsdk.testing import seeded
from parallel import at_once

DOMAIN = Domain(Integer("age", 17, 32), Categorical("sex", ["F", "M"]))
QUERY = Threshold("age", 20)
WHY = (Reason("cheapest", "words"),)


def data_of(size=4000, name="adults", shift=0, **options):
    columns = {
        "age": [17 + (row * row + shift) % 16 for row in range(size)],
        "sex": ["FM"[row % 2] for row in range(size)],
    }
    return PrivateData.from_columns(columns, DOMAIN, name=name, **options)


DATA = data_of()


def session_of(budget=None, data=DATA, **options):
    return Session(data, budget or Budget(1, "1e-6"), **({"noise": seeded(7)} | options))


def plan_of(mechanism, **changes):
    """A plan as anybody may make one."""
    plan = Plan(mechanism, Cost(), None, None, None, None, None, None, feasible=True, because=WHY)
    return evolve(plan, **changes)


def ledger_at(path):
    return SQLiteLedger(path / "spent.db").dataset("adults")


# By a plan.


def test_a_plan_means_its_mechanism():
    one, other = session_of(), session_of()
    plan = one.plan(QUERY, error=0.05).best
    release = one.release(QUERY, using=plan)
    plain = other.release(QUERY, using=plan.mechanism)
    assert release.raw.tolist() == plain.raw.tolist()
    assert release.cost == plain.cost == plan.cost
    assert release.error() <= 0.05
    assert release.because == plan.because
    assert plain.because == ()
    assert release.payment.by == plan.mechanism
    assert one.history == other.history
    assert one.answer(QUERY, using=plan) == other.answer(QUERY, using=plan.mechanism)


def test_a_plan_is_priced_and_counted_as_its_mechanism_is():
    session = session_of()
    plans = session.plan(QUERY, error=0.05)
    for plan in plans.plans:
        quote, same = (session.quote(QUERY, using=one) for one in (plan, plan.mechanism))
        assert (quote.at_most, quote.bound()) == (same.at_most, same.bound())
        assert quote.at_most == plan.cost
        counted = session.affords(QUERY, using=plan)
        assert counted == session.affords(QUERY, using=plan.mechanism)
    for ask in (session.quote, session.affords):
        with pytest.raises(InvalidArgument, match="using must be a plan of a mechanism"):
            ask(QUERY, using=evolve(plans.best, mechanism=None))
        with pytest.raises(InvalidArgument, match="using must be a mechanism or a plan"):
            ask(QUERY, using=plans)
    assert len(session.history) == 0


OPENED = [
    Tree("age", epsilon="0.1"), NoisyHistogram(epsilon="0.1"), MWEM(QUERY, epsilon="0.1", rounds=2),
    OnlinePMW("0.1", updates=2), LocalMarginals(Marginal("age"), rho="0.001"),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", OPENED, ids=lambda one: type(one).__name__)
def test_a_mechanism_that_has_to_be_opened_is_opened_for_the_one_answer(mechanism):
    query = Marginal("age") if isinstance(mechanism, LocalMarginals) else QUERY
    one, other = session_of(), session_of()
    release = one.release(query, using=plan_of(mechanism))
    with other.open(mechanism) as channel:
        plain = channel.release(query)
    assert release.raw.tolist() == plain.raw.tolist()
    assert one.spent == other.spent
    # One question, that is charged with all of it.
    (receipt,) = one.history
    assert receipt.cost == release.cost
    assert sum(len(each.cost.guarantees) for each in other.history) == len(release.cost.guarantees)
    assert (receipt.query, receipt.mechanism) == (str(query), str(mechanism))
    assert receipt.answered
    assert release.because == WHY
    assert release.payment.by == mechanism
    assert release.mechanism == str(mechanism)
    again = one.release(query, using=plan_of(mechanism))
    assert len(one.history) == 2
    assert again.payment.after.charges == one.spent.charges


def test_the_whole_must_fit_before_anything_is_charged():
    events = []
    session = session_of(Budget(1), composition=BasicComposition(), observer=events.append)
    updates = OnlinePMW(2, updates=4)
    assert session.quote(QUERY, using=updates).at_open.epsilon < 1
    before = session.remaining
    with pytest.raises(BudgetExceeded) as caught:
        session.answer(QUERY, using=plan_of(updates))
    assert caught.value.charges == ()
    assert caught.value.epsilon == 1
    assert caught.value.shortages
    assert (session.spent.charges, session.history, session.remaining) == (0, (), before)
    assert [type(event) for event in events] == [Refused]
    assert events[0].mechanism == str(updates)
    with pytest.raises(BudgetExceeded):
        session.answer(QUERY, using=plan_of(Laplace(2)))
    # A cap is a limit as well, and a smaller plan still passes.
    with session.scope("analyst", "0.5") as scope:
        with pytest.raises(BudgetExceeded, match="analyst"):
            scope.answer(QUERY, using=plan_of(Tree("age", epsilon="0.6")))
        assert scope.answer(QUERY, using=plan_of(Tree("age", epsilon="0.5"))) is not None
    with session.partition("sex") as parts:
        assert parts["F"].answer(
            Count(normalized=False), using=plan_of(Tree("age", epsilon="0.25"))
        )
        with pytest.raises(BudgetExceeded):
            parts["F"].answer(Count(normalized=False), using=plan_of(Tree("age", epsilon="0.3")))


@pytest.mark.thorough
def test_a_plan_may_be_used_anywhere_its_mechanism_may():
    plan = session_of().plan(Marginal("age"), budget=Budget("0.5")).best
    stale = session_of(Budget("0.1", "1e-6"))
    with pytest.raises(BudgetExceeded):
        stale.answer(Marginal("age"), using=plan)
    other = session_of(data=data_of(50, "others", neighbors=Neighbors.ADD_REMOVE))
    count = other.release(Marginal("age", normalized=False), using=plan)
    assert count.payment.table == "others"
    # What is not feasible is done all the same, if it can be.
    worst = session_of().plan(QUERY, error=1e-9)[0]
    assert not worst.feasible
    assert session_of().release(QUERY, using=worst).because == worst.because
    assert isinstance(session_of().scope("s", "0.9").answer(QUERY, using=plan), float)


@frozen
class Own(Plan):
    """A plan of another author."""


def test_only_plans_of_mechanisms_are_taken():
    session = session_of()
    for wrong in (3, "laplace", None, session.open(Laplace("0.1"))):
        with pytest.raises(InvalidArgument, match="using must be a plan of a mechanism"):
            session.answer(QUERY, using=plan_of(wrong))
    for wrong in (3, None, ("cheapest",), [*WHY], (*WHY, None), (Reason(3, "words"),)):
        with pytest.raises(InvalidArgument, match="using must be a plan with reasons"):
            session.answer(QUERY, using=plan_of(Laplace("0.1"), because=wrong))
    for wrong in (3, "laplace", OnlinePMW("0.1", updates=2), Plan):
        with pytest.raises(InvalidArgument, match="using must be a mechanism that answers at once"):
            session.answer(QUERY, using=wrong)
    assert session.spent.charges == 0
    own = Own(Laplace("0.1"), Cost(), None, None, None, None, None, None, True, WHY)
    assert session.release(QUERY, using=own).because == WHY
    with pytest.raises(QueryError):
        session.answer(QUERY, using=plan_of(Matrix(Marginal("sex"), epsilon="0.1")))


def test_a_closed_session_answers_no_plan():
    session = session_of()
    plan, scope = session.plan(QUERY, error=0.05).best, session.scope("s", "0.5")
    scope.close()
    for using in (plan, None, plan_of(Tree("age", epsilon="0.1"))):
        with pytest.raises(Closed, match="scope 's'"):
            scope.answer(QUERY, using=using)
    session.close()
    for using in (plan, None, plan_of(Tree("age", epsilon="0.1"))):
        with pytest.raises(Closed):
            session.answer(QUERY, using=using)
    with pytest.raises(Closed):
        session.plan(QUERY, error=0.05)


def test_nothing_is_open_afterwards(monkeypatch):
    session, opened = session_of(), []
    init = OnlinePMW.open

    def keeping(self, kernel):
        opened.append(kernel)
        return init(self, kernel)

    monkeypatch.setattr(OnlinePMW, "open", keeping)
    session.answer(QUERY, using=plan_of(OnlinePMW("0.1", updates=2)))
    with pytest.raises(Closed):
        opened[0].measure(QUERY.lower(DOMAIN), LaplaceNoise(1))


def test_an_interrupt_in_an_opening_keeps_what_was_learnt(monkeypatch):
    session, rounds = session_of(Budget(10, "1e-6")), []
    mechanism = MWEM(marginals(DOMAIN, 1), epsilon=1, delta="1e-7", rounds=4)

    def observer(event):
        rounds.append(event)

    progress = type(mechanism).open

    def interrupted(self, kernel):
        inner, calls = type(kernel).progress, []

        def counting(kernel, *args, **kwargs):
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return inner(kernel, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(kernel), "progress", counting)
            return progress(self, kernel)

    monkeypatch.setattr(MWEM, "open", interrupted)
    with pytest.raises(Stopped) as caught:
        session.answer(QUERY, using=plan_of(mechanism), request_id="r")
    stopped = caught.value
    assert stopped.why == "interrupt"
    assert len(stopped.paid.guarantees) == session.spent.charges > 0
    with stopped.channel as channel:
        assert 0 <= channel.answer(QUERY) <= 1
    (receipt, free) = session.history
    assert (receipt.answered, receipt.cost) == (False, stopped.paid)
    assert free.cost.nothing
    # It was paid for, and nobody gets it again for nothing, nor pays twice under its name.
    with pytest.raises(AnswerLost):
        session.answer(QUERY, using=plan_of(mechanism), request_id="r")


# Requests.


@pytest.mark.parametrize("mechanism", [Laplace("0.1"), Tree("age", epsilon="0.1")], ids=str)
def test_a_request_by_a_plan_is_charged_once(mechanism, quick_disk):
    def opened():
        return Session(DATA, Budget(1), ledger=ledger_at(quick_disk))

    first = opened().release(QUERY, using=plan_of(mechanism), request_id="a")
    other = opened()
    again = other.release(QUERY, using=plan_of(mechanism), request_id="a")
    assert (again.value, again.cost, again.raw.tolist()) == (
        first.value,
        first.cost,
        first.raw.tolist(),
    )
    assert other.spent.charges == 1
    assert again.because == WHY
    with pytest.raises(InvalidArgument, match="request_id"):
        other.answer(QUERY, using=plan_of(Laplace("0.2")), request_id="a")
    with pytest.raises(InvalidArgument, match="request_id"):
        other.answer(QUERY, request_id="a")
    assert other.spent.charges == 1


def test_a_lost_answer_is_lost_though_nothing_more_would_fit():
    session = session_of(Budget(1), composition=BasicComposition())
    tree = plan_of(Tree("age", epsilon=1))
    session._context.payer.store = failing
    with pytest.raises(ReleaseFailed.__mro__[1]):
        session.answer(QUERY, using=tree, request_id="a")
    assert session.spent.epsilon == 1
    del session._context.payer.store
    for using in (tree, plan_of(Tree("age", epsilon=1))):
        with pytest.raises(AnswerLost):
            session.answer(QUERY, using=using, request_id="a")
    with pytest.raises(BudgetExceeded):
        session.answer(QUERY, using=tree, request_id="b")


def failing(*args):
    raise InvalidArgument("ledger", "one that stores", "one that fails")


def test_a_request_without_a_mechanism_is_the_same_whatever_is_best_by_then(quick_disk):
    def opened():
        return Session(DATA, Budget(1, "1e-6"), ledger=ledger_at(quick_disk))

    session = opened()
    first = session.release(QUERY, request_id="a")
    assert first.because[0].code == "cheapest"
    session.answer(Marginal("age"), using=Laplace("0.7"))
    charges = session.spent.charges
    for asker in (session, opened()):
        again = asker.release(QUERY, request_id="a")
        assert (again.value, again.cost) == (first.value, first.cost)
        assert again.mechanism == first.mechanism
        assert again.because == ()
        assert asker.spent.charges == charges
    with pytest.raises(InvalidArgument, match="request_id"):
        session.answer(Threshold("age", 21), request_id="a")
    with pytest.raises(InvalidArgument, match="request_id"):
        session.answer(QUERY, using=first.payment.by, request_id="a")
    # Nothing is left for a plan, and the answer is given all the same.
    session.answer(QUERY, using=Laplace(session.remaining.epsilon))
    assert opened().answer(QUERY, request_id="a") == first.value
    assert session.spent.charges == charges + 1


# Whatever is best.


def test_the_best_is_the_cheapest_that_promises_a_hundredth_of_the_span():
    session = session_of()
    expected = session.plan(QUERY, error=0.01).best
    release = session.release(QUERY)
    assert release.payment.by == expected.mechanism
    assert release.because == expected.because
    assert release.error(0.05) <= 0.01
    assert release.cost == expected.cost
    assert expected.share_of_remaining <= Fraction(1, 10)
    assert session.history[0].mechanism == str(expected.mechanism)
    count = session.release(Count(normalized=False))
    assert count.error(0.05) <= 40


@pytest.mark.thorough
def test_where_a_hundredth_is_too_dear_it_is_the_best_of_a_tenth():
    session = session_of(data=data_of(300))
    balance, query = session._context.payer.balance, Marginal("age", "sex")
    assert not session.plan(query, error=0.01)[0].feasible
    release = session.release(query)
    share = balance.share(release.cost.runs)
    # Mechanisms whose quotes take long are tried four to a decade.
    assert Fraction(5, 100) < share <= Fraction(1, 10)
    assert float(session.spent.fraction) == pytest.approx(float(share))
    assert release.because[0].code == "least-error"


@pytest.mark.thorough
def test_what_nothing_can_be_promised_of_is_answered_as_well():
    session = session_of()
    mean, median = session.release(Mean("age")), session.release(Median("age"))
    assert mean.error() < 1
    assert 17 <= median.value <= 32
    assert not median.bound().vacuous
    assert mean.because[0].code == median.because[0].code == "least-error"
    private = session_of(data=data_of(neighbors=Neighbors.ADD_REMOVE, max_rows=10**6))
    assert private.release(Mean("age")).error() < 1
    model = ConvexMinimization(LogisticLoss(), features=["age"], label="sex", over=Ball(2))
    assert session.release(model).because


@pytest.mark.thorough
def test_the_best_is_found_from_public_facts_alone():
    one, other = session_of(), session_of(data=data_of(shift=3))
    for query in (QUERY, Marginal("age"), Mean("age")):
        first, second = one.release(query), other.release(query)
        assert first.because == second.because
        assert first.payment.by == second.payment.by
        assert first.cost == second.cost
    assert one.spent == other.spent


def test_repeated_questions_never_use_up_the_budget():
    session = session_of(Budget("0.001"), data=data_of(10**5))
    query = Count(normalized=False)
    fractions = []
    for _ in range(6):
        session.answer(query)
        fractions.append(session.remaining.fraction)
    assert all(after >= 0.9 * before - 1e-9 for before, after in pairwise(fractions))
    assert fractions[-1] > 0.5


def test_where_nothing_can_be_taken_every_reason_is_given():
    session = session_of(Budget("1e-7"), data=data_of(50))
    with pytest.raises(NoMechanism, match=r"Threshold.*no mechanism can be taken") as caught:
        session.answer(QUERY)
    reasons = caught.value.reasons
    assert all(type(one) is Declined for one in reasons)
    assert "vacuous" in {one.code for one in reasons}
    assert any(one.mechanism.startswith("Laplace") for one in reasons)
    assert session.spent.charges == 0
    assert session.history == ()
    assert copy.copy(caught.value).reasons == reasons
    with pytest.raises(DomainError):
        session.answer(Threshold("height", 3))
    with pytest.raises(PublicSizeRequired):
        session_of(data=data_of(neighbors=Neighbors.ADD_REMOVE)).answer(QUERY)
    with pytest.raises(InvalidArgument, match="query"):
        session.answer("how many?")


class Odd(Count):
    """A count of another author, of which nothing can be learnt without an error of its own."""

    def span(self, facts, /):
        raise ZeroDivisionError

    def presumed(self, radii, apart, facts, assumptions, /):
        return np.zeros(0)


class Blind(Query[float]):
    """A query that does not say what its raw numbers are worth."""

    def lower(self, domain, /):
        return Count().lower(domain)

    def lift(self, raw, facts, /):
        return float(raw[0])


def test_queries_of_other_authors_are_answered_as_far_as_they_can_be():
    session = session_of()
    assert session.answer(Odd(normalized=False)) == pytest.approx(4000, abs=100)
    assert session.answer(Blind()) == pytest.approx(4000, abs=100)
    with pytest.raises(NoMechanism):
        session_of(Budget("1e-9")).answer(Odd(normalized=False))


def test_scopes_and_parts_plan_with_what_is_theirs():
    session = session_of(Budget(1))
    with session.scope("small", "0.001") as scope:
        plan = scope.plan(QUERY, budget=Budget(1)).best
        assert plan.share_of_remaining <= 1
        assert scope.release(QUERY, using=plan).cost == plan.cost
        assert scope.remaining.fraction < 0.1
        release = session.release(QUERY)
        assert release.payment.by != plan.mechanism
    with session.partition("sex") as parts:
        release = parts["F"].release(Count(normalized=False))
        assert release.because
        assert "sex F" in release.payment.table


# Reuse.


def test_the_same_question_to_whatever_is_best_is_the_same_question(quick_disk):
    def opened(**options):
        return Session(DATA, Budget(1, "1e-6"), reuse=True, **options)

    for make in (opened, lambda: opened(ledger=ledger_at(quick_disk))):
        session = make()
        first = session.release(QUERY)
        assert not first.reused
        session.answer(Marginal("age"), using=Laplace("0.5"))
        again = session.scope("analyst", "0.5").release(QUERY)
        assert again.reused
        assert again.cost.nothing
        assert again.value == first.value
        # And so is the one to the mechanism that was found.
        named = session.release(QUERY, using=first.payment.by)
        assert (named.reused, named.value) == (True, first.value)
        other = session.release(Threshold("age", 21), using=session.plan(QUERY, error=0.05).best)
        assert not other.reused
    assert make().release(QUERY).value == first.value


def test_an_answer_of_the_best_mechanism_is_reused_for_whatever_is_best():
    session = session_of(reuse=True)
    plan = session.plan(QUERY, error=0.01).best
    first = session.release(QUERY, using=plan)
    other = session_of(reuse=True)
    assert other.release(QUERY).payment.by == plan.mechanism
    # What is left has changed, and perhaps the plan with it.
    again = session.release(QUERY)
    assert again.reused == (again.mechanism == first.mechanism)


def test_threads_that_ask_the_same_pay_once():
    events = []
    session, values = session_of(reuse=True, observer=events.append), []
    start = threading.Barrier(4)

    def ask():
        start.wait()
        values.append(session.release(QUERY, request_id=None).value)

    at_once(lambda _: ask(), range(4))
    assert len(set(values)) == 1
    assert session.spent.charges == 1
    assert sum(isinstance(event, Charged) for event in events) == 1


# Planning.


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "error"), ({"error": 0.1, "budget": Budget(1)}, "error"), ({"error": 0}, "error"),
        ({"error": -1}, "error"), ({"error": float("nan")}, "error"), ({"error": "x"}, "error"),
        ({"error": True}, "error"), ({"budget": 1}, "budget"), ({"budget": "1"}, "budget"),
        ({"error": 0.1, "beta": 0}, "beta"), ({"error": 0.1, "beta": 1}, "beta"),
        ({"error": 0.1, "beta": "x"}, "beta"), ({"error": 0.1, "limits": 3}, "limits"),
        ({"error": 0.1, "assume": 3}, "assume"), ({"error": 10**400}, "error"),
    ],
    ids=repr,
)  # fmt: skip
def test_arguments_that_do_not_go_together_are_refused(given, named):
    session = session_of()
    with pytest.raises(InvalidArgument) as caught:
        session.plan(QUERY, **given)
    assert caught.value.parameter == named
    assert session.spent.charges == 0


@pytest.mark.thorough
def test_plans_spend_nothing_and_are_equal_over_tables():
    one, other = session_of(), session_of(data=data_of(shift=5))
    for query, given in [
        (QUERY, {"error": 0.01}), (Marginal("age"), {"budget": Budget("0.3")}),
        (Mean("age"), {"error": 1, "assume": {"inside": 1}}),
        (QUERY, {"error": 0.01, "limits": Limits(seconds=1, bytes=10**9)}),
    ]:  # fmt: skip
        first, second = one.plan(query, **given), other.plan(query, **given)
        assert first == second
        assert repr(first) == repr(second)
        assert wire.dumps(first) == wire.dumps(second)
        assert wire.loads("plans", wire.dumps(first)) == first
    assert one.spent.charges == 0
    assert one.history == ()


def test_a_release_shows_why_its_mechanism_was_chosen():
    session = session_of()
    release = session.release(QUERY)
    assert f"chosen: {release.because[0].text}" in repr(release)
    assert "chosen" not in repr(session.release(QUERY, using=Laplace("0.1")))
    assert isinstance(release, Release)
    assert hash(release)
    assert release != evolve(release, because=())


@pytest.mark.thorough
def test_goals_are_reached_by_one_answer_to_all_of_their_queries():
    ages, count = Workload([Threshold("age", t) for t in range(17, 33)]), Count({"sex": "F"})
    goals = [Goal(ages, 0.05), Goal(count, 0.004)]
    session = session_of(reuse=True)
    plan = session.plan(goals).best
    assert plan == session.plan(reversed(goals)).best
    assert session.plan(iter(goals), beta=0.2).best.cost.rho < plan.cost.rho
    release = session.release(Workload([ages, count]), using=plan)
    assert release.cost == plan.cost
    assert release.because == plan.because
    lift, radii = ages, release.accuracy.radii(0.05, joint=True)
    assert lift.spread(release.raw[:16], radii[:16], session.facts).max() <= 0.05
    assert count.spread(release.raw[16:], radii[16:], session.facts).max() <= 0.004
    other = session.release(Workload([count, ages]), using=plan)
    assert other.cost == plan.cost
    assert session.release(Workload([ages, count]), using=plan).reused
    for given in ({"error": 0.1}, {"budget": Budget(1)}):
        with pytest.raises(InvalidArgument, match="left out, since goals carry their own"):
            session.plan(goals, **given)
    for wrong in ([], [QUERY], "goals", 3, None, [Goal(QUERY, 0.1), 3]):
        with pytest.raises(InvalidArgument, match="goals"):
            session.plan(wrong)
    with pytest.raises(DomainError):
        session.plan([Goal(QUERY, 0.1), Goal(Threshold("height", 3), 0.1)])
