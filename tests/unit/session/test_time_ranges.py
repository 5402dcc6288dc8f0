"""A session on a table with periods: what is asked of which time, and what it leaves of others."""

import threading
from datetime import date, datetime, timedelta

import numpy as np
import pytest

from dpsdk import (
    Budget,
    Categorical,
    Date,
    Domain,
    Integer,
    Periods,
    PrivacyUnit,
    PrivateData,
    Session,
)
from dpsdk.accounting import MemoryLedger, Odometer, SQLiteLedger
from dpsdk.domain.periods import period_text
from dpsdk.errors import (
    BudgetExceeded,
    InvalidArgument,
    LedgerConflict,
    NoMechanism,
    QueryError,
    UnknownLabel,
)
from dpsdk.mechanisms import Gaussian, Laplace, NoisyHistogram, OnlinePMW
from dpsdk.planner import Planner
from dpsdk.queries import Between, Count, CountPersons, Marginal, Mean
from dpsdk.release import ByPeriod
from dpsdk.testing import seeded

MAY = date(2026, 5, 1)
ROWS = 900


def day(number):
    return MAY + timedelta(days=number - 1)


def visits(days=31, *, first=MAY, unit=None, cells=1, **given):
    noise = np.random.default_rng(3)
    columns = {
        "visited": [first + timedelta(days=int(one)) for one in noise.integers(0, days, ROWS)],
        "sex": noise.choice(["F", "M"], ROWS).tolist(),
        "age": noise.integers(0, 100, ROWS).tolist(),
        "who": noise.integers(0, 300, ROWS).astype(str).tolist(),
    }
    when = Date("visited", first, first + timedelta(days=days - 1))
    domain = Domain(when, Categorical("sex", ["F", "M"]), Integer("age", 0, 99))
    return PrivateData.from_columns(
        columns, domain, name="visits", periods=Periods("visited", days=cells), unit=unit, **given
    )


def session(data=None, budget=None, **given):
    return Session(data or visits(), budget or Budget(1, "1e-6"), noise=seeded(1), **given)


def count(**where):
    return Count(where or None, normalized=False)


def left(one, *days):
    return [one.between(day(d), day(d)).remaining.fraction for d in days]


def test_what_is_asked_of_a_week_leaves_the_other_days():
    one = session()
    week = one.between(day(1), day(7))
    assert week.domain["visited"].size == 7
    table = week.answer(Marginal("visited", "sex", normalized=False), using=Laplace(1))
    assert table.values.shape == (7, 2)
    assert left(one, 1, 7, 8, 31) == [0.0, 0.0, 1.0, 1.0]
    assert [(s.first, s.last, s.spent.charges) for s in one.periods()] == [
        (day(1), day(7), 1), (day(8), day(31), 0),
    ]  # fmt: skip
    assert one.periods(day(3), day(4))[0].remaining.fraction == 0.0
    with pytest.raises(BudgetExceeded):
        week.answer(count(), using=Laplace("0.01"))
    # Parts of different periods do not add up.
    for number in range(8, 32):
        one.between(day(number), day(number)).answer(count(), using=Laplace(1))


def test_a_question_that_is_bounded_in_time_needs_no_range():
    one = session()
    when = {"visited": Between(day(3), day(5))}
    one.answer(Marginal("sex", where=when, normalized=False), using=Laplace("0.5"))
    assert left(one, 2, 3, 5, 6) == [1.0, 0.5, 0.5, 1.0]
    one.answer(count(visited=day(9)), using=Gaussian(rho="0.001"))
    assert left(one, 8, 10) == [1.0, 1.0]
    assert left(one, 9)[0] < 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda one: one.answer(count(), using=Laplace("0.1")),
        lambda one: one.answer(Marginal("visited", normalized=False), using=Laplace("0.1")),
        lambda one: one.release(Mean("age")),
        lambda one: one.open(OnlinePMW("0.1", updates=3)).answer(count()),
        lambda one: one.answer(
            Marginal("sex", normalized=False), using=NoisyHistogram(epsilon="0.1")
        ),
        lambda one: one.scope("team", "0.5").answer(count(), using=Laplace("0.1")),
    ],
)
def test_a_question_about_all_of_time_is_refused_with_advice_and_costs_nothing(ask):
    one = session()
    with pytest.raises((InvalidArgument, NoMechanism), match="between"):
        ask(one)
    assert one.spent.charges == 0
    assert one.between(None, None).answer(count(), using=Laplace(1)) > 0


def test_what_does_more_than_measure_touches_all_of_its_range():
    one = session()
    stream = one.between(day(1), day(10)).open(OnlinePMW("0.2", updates=3))
    stream.answer(Count({"visited": day(2), "sex": "F"}, normalized=False))
    assert len(set(left(one, 1, 2, 10))) == 1
    assert left(one, 2)[0] < 1
    assert left(one, 11) == [1.0]


def test_a_range_is_planned_for_and_all_of_time_is_advised_against():
    one, asked = session(), Marginal("sex", normalized=False)
    week = one.between(day(1), day(7))
    plan = week.plan(asked, error=20).best
    week.release(asked, using=plan)
    assert left(one, 7, 8) == [pytest.approx(1 - float(plan.share_of_remaining)), 1.0]
    for plans in (one.plan(asked, error=20), one.plan(asked, budget=Budget("0.1", "1e-7"))):
        assert {why.code for plan in plans for why in plan.because} == {"all-of-time"}
        assert "session.between" in str(plans)
    # What measures these days alone can be taken on the session, and what reads all rows cannot.
    when = {"visited": Between(day(3), day(5))}
    bounded = Marginal("sex", where=when, normalized=False)
    plans = one.plan(bounded, error=20)
    one.release(bounded, using=plans.best)
    assert left(one, 2, 6)[1] == left(one, 7)[0]


def test_a_planner_of_facts_with_periods_needs_no_account_of_them():
    one, asked = session(), Marginal("sex", normalized=False)
    for desk in (one.between(day(1), day(7)), one.between(day(9), day(9))):
        planner = Planner.of(desk.facts, Odometer(one.budget))
        mine, own = planner.plan(asked, error=20), desk.plan(asked, error=20)
        assert [str(plan) for plan in mine] == [str(plan) for plan in own]
        assert mine.best.share_of_remaining == own.best.share_of_remaining
        using = Laplace("0.1")
        quoted = planner.quote(asked, using=using).at_most
        assert quoted == desk.quote(asked, using=using).at_most
        assert planner.affords(asked, using=using) == desk.affords(asked, using=using)


def test_a_refusal_tells_which_days_refuse_and_which_would_not():
    one = session()
    one.between(day(5), day(6)).answer(count(), using=Laplace("0.9"))
    with pytest.raises(BudgetExceeded) as caught:
        one.between(day(1), day(20)).answer(count(), using=Laplace("0.5"))
    text = str(caught.value)
    assert "2 periods of 'visited'" in text
    assert "the first 2026-05-05" in text
    assert "2026-05-07 to 2026-05-20" in text
    assert left(one, 1, 5, 20) == [1.0, pytest.approx(0.1), 1.0]


def test_the_promise_is_where_people_look():
    one = session(visits(unit=PrivacyUnit("who", max_rows=2)))
    release = one.between(day(1), day(7)).release(count(), using=Laplace("0.1"))
    (note,) = [one for one in release.notes if isinstance(one, ByPeriod)]
    for told in (str(note), repr(one), one._repr_html_(), str(release)):
        for words in ("one period of", "who has rows in j", "from 15 periods on", "share"):
            assert words in told
    assert "one period of 'visited'" in one.facts.unit
    assert "up to 2 rows" in one.facts.unit
    assert "nothing from" not in str(ByPeriod("visited", Budget(1)))


def test_scopes_and_sessions_share_the_periods_and_a_cap_holds_in_each():
    ledger = MemoryLedger()
    one, two = session(ledger=ledger), session(ledger=ledger)
    with one.scope("team", "0.5") as team:
        team.between(day(1), day(2)).answer(count(), using=Laplace("0.4"))
        with pytest.raises(BudgetExceeded):
            team.between(day(2), day(3)).answer(count(), using=Laplace("0.2"))
        team.between(day(3), day(4)).answer(count(), using=Laplace("0.4"))
    assert left(two, 1, 3, 5) == [pytest.approx(0.6), pytest.approx(0.6), 1.0]


def test_the_next_load_goes_on_with_the_days_that_it_has(tmp_path):
    path = tmp_path / "spent.db"

    def opened(data, **given):
        return Session(data, Budget(1, "1e-6"), ledger=SQLiteLedger(path), **given)

    opened(visits(10)).between(day(9), day(10)).answer(count(), using=Laplace("0.5"))
    later = opened(visits(10, first=day(6)))
    assert left(later, 8, 9, 10, 11) == [1.0, 0.5, 0.5, 1.0]
    with pytest.raises(LedgerConflict, match="periods"):
        opened(visits(cells=7))
    with pytest.raises(InvalidArgument, match="reuse"):
        opened(visits(), reuse=True)


def test_a_ledger_begun_without_periods_is_never_given_them(tmp_path):
    path, data = tmp_path / "spent.db", visits()
    plain = PrivateData.from_counts(
        np.ones(data.domain.size), data.domain, name="visits", neighbors=data.neighbors
    )
    Session(plain, Budget(1), ledger=SQLiteLedger(path))
    with pytest.raises(LedgerConflict, match="periods"):
        Session(data, Budget(1), ledger=SQLiteLedger(path))


def test_bad_ranges_are_refused_in_words():
    one = session()
    with pytest.raises(UnknownLabel):
        one.between(day(1) - timedelta(days=1), None)
    with pytest.raises(InvalidArgument, match="last"):
        one.between(day(3), day(2))
    with pytest.raises(InvalidArgument, match="partition"):
        one.partition("sex")
    people = session(visits(unit=PrivacyUnit("who", max_rows=2)))
    with pytest.raises(QueryError, match="periods"):
        people.between(day(1), day(1)).answer(CountPersons(), using=Laplace(1))
    plain = PrivateData.from_columns({"age": [1]}, Domain(Integer("age", 0, 9)))
    for ask in (lambda s: s.between(None, None), lambda s: s.periods()):
        with pytest.raises(InvalidArgument, match="periods="):
            ask(Session(plain, Budget(1)))


def test_a_week_that_a_range_cuts_is_charged_as_a_whole():
    one = session(visits(cells=7))
    # Friday the first to Sunday the third, and the Monday behind it.
    one.between(day(2), day(4)).answer(count(), using=Laplace(1))
    assert left(one, 1, 3, 4, 10, 11) == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_a_range_within_a_range_charges_its_own_days():
    one = session()
    week = one.between(day(1), day(7))
    two = week.between(day(3), day(4))
    two.answer(Marginal("visited", normalized=False), using=Laplace(1))
    assert left(one, 2, 3, 4, 5) == [1.0, 0.0, 0.0, 1.0]
    assert two.domain["visited"].labels == (day(3), day(4))


def test_answers_are_those_of_the_days_alone():
    data = visits()
    one = session(data, Budget(10**9, "0.1"))
    whole = one.between(None, None).answer(
        Marginal("visited", "sex", normalized=False), using=Laplace(10**8)
    )
    part = one.between(day(8), day(14)).answer(
        Marginal("visited", "sex", normalized=False), using=Laplace(10**8)
    )
    assert np.allclose(part.values, whole.values[7:14], atol=0.5)
    cut = one.between(day(8), day(14)).answer(
        Marginal("sex", where={"visited": Between(day(9), day(10))}, normalized=False),
        using=Laplace(10**8),
    )
    assert np.allclose(cut.values, whole.values[8:10].sum(axis=0), atol=0.5)


def test_threads_that_ask_overlapping_days_never_pass_a_budget_together():
    one = session(budget=Budget(1))
    passed = []
    start = threading.Barrier(4)

    def ask(first):
        desk = one.between(day(first), day(first + 3))
        start.wait()
        for _ in range(6):
            try:
                desk.answer(count(), using=Laplace("0.25"))
            except BudgetExceeded:
                continue
            passed.append(first)

    threads = [threading.Thread(target=ask, args=(first,)) for first in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(1, 8):
        spent = sum(first <= number <= first + 3 for first in passed) / 4
        assert spent <= 1
        assert left(one, number) == [pytest.approx(1 - spent)]


def test_a_description_says_whom_a_period_protects():
    people = visits(unit=PrivacyUnit("who", max_rows=2))
    for data, whom in ((visits(), "one row, of one period"), (people, "all rows of one person of")):
        one = Session(data, Budget(1, "1e-6"))
        release = one.between(day(1), day(7)).release(count(), using=Laplace("0.1"))
        told = repr(release.metadata())
        assert whom in told
        # In the guarantee itself, and not among the notes alone.
        assert told.count("who has rows in j of them") == 2
    assert '"kind": "note.by-period"' in release.metadata().to_json()


@pytest.mark.parametrize(
    ("one", "given"),
    [
        (Date("a: b, zone", date(2026, 5, 1), date(2026, 7, 1)), {"days": 7}),
        (Date("t", date(2026, 5, 1), date(2026, 7, 1), unit="week"), {}),
        (Date("t", date(2026, 5, 1), date(2026, 7, 1), unit="month"), {"width": 2}),
        (Date("t", datetime(2026, 5, 1, 3), datetime(2026, 5, 2), unit="hour"), {}),
        (Integer("t", -7, 90), {"width": 10, "origin": 3}),
    ],
)
def test_a_rule_in_words_calls_periods_as_the_periods_do(one, given):
    periods = Periods(one.name, **given)
    for number in periods.range(one):
        assert period_text(periods.rule(one), number) == periods.text(one, number)
    assert period_text("a rule of somebody else", 7) == "7"
