"""The same question to the same mechanism: the same answer, for free, where a session says so."""

import gc
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer, SQLiteLedger
from dpsdk.errors import AnswerLost, BudgetExceeded, Closed, InvalidArgument, LedgerUnavailable
from dpsdk.forms import LinearForm
from dpsdk.losses import LogisticLoss, SVMLoss
from dpsdk.mechanisms import Gaussian, Laplace, NoisyHistogram, PrivateMinimizer, Projection
from dpsdk.mechanisms.base import OneShot
from dpsdk.observe import Answered
from dpsdk.queries import (
    Ball,
    ConvexMinimization,
    Count,
    Linear,
    Marginal,
    Median,
    Query,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.session.reuse import Reuse
from dpsdk.testing import seeded
from dpsdk.testing.interrupts import interrupted
from parallel import at_once, held

DOMAIN = Domain(Integer("age", 17, 24), Categorical("sex", ["F", "M"]))
DATA = PrivateData.from_columns(
    {"age": [17, 18, 18, 20] * 50, "sex": list("FMFM") * 50}, DOMAIN, name="adults"
)
TENTH = Laplace("0.1")
ROWS = Count(normalized=False)


def opened(ledger=None, budget=10, **more):
    return Session(
        DATA, Budget(budget, "1e-6"), composition=BasicComposition(), ledger=ledger, reuse=True,
        **more,
    )  # fmt: skip


def older(row):
    return float(row["age"] > 18)


def also_older(row):
    return 1.0 if row["age"] >= 19 else 0.0


SAME = [
    (ROWS, Count(normalized=False)),
    (Linear(older), Linear(also_older)),
    (Workload([Count({"age": 18}, normalized=False)]), Count({"age": 18}, normalized=False)),
    (Marginal("age"), Workload([Marginal("age")])),
]


@pytest.mark.parametrize(("first", "second"), SAME, ids=str)
def test_the_same_numbers_are_paid_once_whatever_asks_for_them(first, second):
    session = opened()
    one = session.release(first, using=TENTH)
    two = session.release(second, using=Laplace(Fraction(1, 10)))
    assert (one.reused, two.reused) == (False, True)
    assert two.cost.nothing
    assert not one.cost.nothing
    assert session.spent.charges == 1
    assert np.array_equal(one._measurement.values, two._measurement.values)
    assert two.accuracy == one.accuracy
    assert "cost nothing, reused" in repr(two)
    assert "reused" not in repr(one)
    if first == second:
        assert np.array_equal(session.answer(first, using=TENTH), one.value)
        assert two.interval(0.1) == one.interval(0.1)
    assert session.spent.charges == 1


def test_without_reuse_every_answer_is_drawn_and_paid():
    session = Session(DATA, Budget(10, "1e-6"), composition=BasicComposition())
    releases = [session.release(ROWS, using=TENTH) for _ in range(2)]
    assert not any(release.reused for release in releases)
    assert session.spent.charges == 2
    with pytest.raises(InvalidArgument, match="reuse"):
        Session(DATA, Budget(1), reuse=1)


MODEL = ConvexMinimization(LogisticLoss(), features=["age"], label="sex", over=Ball(1))
OTHERS = [
    (Count({"age": 18}), TENTH),
    (ROWS, Laplace(Fraction(1, 10) + Fraction(1, 10**12))),
    (ROWS, Gaussian(epsilon="0.1", delta="1e-8")),
    (ROWS, Projection(epsilon="0.1")),
    (ROWS, Projection(epsilon="0.1000000001")),
    (Threshold("age", 18), TENTH),
    (Threshold("age", 19), TENTH),
    (Linear(lambda row: float(row["age"] > 20)), TENTH),
    (Linear(lambda row: float(row["age"] > 21)), TENTH),
    (Workload([Count({"age": a}) for a in (18, 19)]), TENTH),
    (Workload([Count({"age": a}) for a in (19, 18)]), TENTH),
    (MODEL, PrivateMinimizer(epsilon="0.1", delta="1e-8")),
    (MODEL, PrivateMinimizer(epsilon="0.10000000001", delta="1e-8")),
    *[
        (
            ConvexMinimization(loss, features=["age"], label="sex", over=over),
            PrivateMinimizer(epsilon="0.1", delta="1e-8"),
        )
        for loss, over in ((LogisticLoss(), Ball(1 + 1e-12)), (SVMLoss(), Ball(1)))
    ],
]


def test_all_else_is_another_question():
    session = opened(budget=100)
    known = []
    for count, (query, using) in enumerate(OTHERS, start=1):
        assert not session.release(query, using=using).reused, (query, using)
        known.append((query, using))
        assert len([one for one in session.history if not one.cost.nothing]) == count
    spent = session.spent
    for query, using in known:
        again = session.release(query, using=using)
        assert again.reused, (query, using)
        assert str(session.answer(query, using=using)) == str(again.value)
    assert session.spent == spent


def test_a_quote_and_what_fits_know_what_is_free():
    session = opened(budget=0.1)
    assert session.affords(ROWS, using=TENTH) == 1
    before = session.quote(ROWS, using=TENTH)
    release = session.release(ROWS, using=TENTH)
    quote = session.quote(ROWS, using=TENTH)
    assert quote.at_most.nothing
    assert quote.error(0.1) == release.error(0.1) == before.error(0.1)
    assert session.affords(ROWS, using=TENTH) is None
    assert session.affords(Count({"age": 18}), using=TENTH) == 0
    # Also once nothing is left.
    assert session.answer(ROWS, using=TENTH) == release.value
    with pytest.raises(BudgetExceeded):
        session.answer(Count({"age": 18}), using=TENTH)


def test_a_query_that_settles_its_numbers_settles_them_again():
    session = opened()
    first = session.release(Median("age"), using=Laplace(1))
    again = session.release(Median("age"), using=Laplace(1))
    assert again.reused
    assert again.value == first.value
    assert again.interval() == first.interval()


def test_receipts_and_events_say_that_it_cost_nothing():
    events = []
    session = opened(observer=events.append)
    session.answer(ROWS, using=TENTH)
    session.scope("weekly", "0.5").answer(ROWS, using=TENTH)
    one, two = session.history
    assert (one.cost.nothing, two.cost.nothing) == (False, True)
    assert (two.query, two.mechanism, two.scope, two.answered) == (
        one.query, one.mechanism, "weekly", True,
    )  # fmt: skip
    told = [(one.scope, one.reused) for one in events if isinstance(one, Answered)]
    assert told == [("", False), ("weekly", True)]


def test_scopes_reuse_each_others_answers_and_parts_their_own():
    session = opened()
    answer = session.scope("one", "0.5").answer(ROWS, using=TENTH)
    assert session.scope("two", "0.5").answer(ROWS, using=TENTH) == answer
    for expected in (False, True):
        with session.partition("sex") as parts:
            releases = [parts[label].release(ROWS, using=TENTH) for label in "FM"]
            assert [one.reused for one in releases] == [expected, expected]
            values = {float(one.value) for one in releases}
    with session.partition("age") as parts:
        assert not parts[18].release(ROWS, using=TENTH).reused
    assert len(values) <= 2
    assert session.answer(ROWS, using=TENTH) == answer


def test_open_channels_draw_anew():
    session = opened()
    channel = session.open(TENTH)
    releases = [session.release(ROWS, using=channel) for _ in range(2)]
    releases += [channel.release(ROWS), channel.release(ROWS)]
    assert not any(one.reused for one in releases)
    assert session.spent.charges == 4
    histogram = session.open(NoisyHistogram(epsilon="0.1"))
    assert not session.release(ROWS, using=histogram).reused


@frozen
class Mine(OneShot[LinearForm]):
    """A mechanism of another author, which calls itself as it likes."""

    def quote(self, form, terms, /):
        return TENTH.quote(form, terms)

    def open(self, kernel, /):
        return TENTH.open(kernel)

    def __repr__(self):
        return repr(TENTH)


class Below(Laplace):
    """A class below one of the package's."""

    def quote(self, form, terms, /):
        return Laplace("0.1").quote(form, terms)


def test_what_other_authors_made_is_asked_anew():
    session = opened()
    session.answer(ROWS, using=TENTH)
    for using in (Mine(), Below("0.1")):
        for _ in range(2):
            assert not session.release(ROWS, using=using).reused
    assert session.spent.charges == 5


def test_a_question_that_failed_is_asked_anew(monkeypatch):
    session = opened(budget=0.3)
    with pytest.raises(BudgetExceeded):
        session.answer(ROWS, using=Laplace(5))
    with monkeypatch.context() as patch:
        patch.setattr(Query, "lift", None, raising=False)
        patch.setattr(Count, "lift", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.answer(ROWS, using=TENTH)
    # It was drawn and paid for, and is there still.
    assert session.release(ROWS, using=TENTH).reused
    with pytest.raises(BudgetExceeded):
        session.answer(ROWS, using=Laplace(5))


def test_a_closed_session_reuses_nothing():
    session = opened()
    session.answer(ROWS, using=TENTH)
    session.close()
    with pytest.raises(Closed):
        session.answer(ROWS, using=TENTH)


@pytest.mark.thorough
def test_threads_that_ask_at_once_are_charged_once(monkeypatch):
    session = opened(budget=100)
    start, second = threading.Barrier(4), threading.Event()
    charge, charging, answers = Odometer.charge_all, list[int](), list[float]()

    def slow(self, *arguments, **more):
        charging.append(threading.get_ident())
        if len(charging) > 1:
            second.set()
        # Whoever did not wait comes here meanwhile.
        second.wait(0.2)
        return charge(self, *arguments, **more)

    monkeypatch.setattr(Odometer, "charge_all", slow)

    def ask():
        start.wait()
        answers.append(session.answer(ROWS, using=TENTH))

    at_once(lambda _: ask(), range(4))
    assert len(charging) == session.spent.charges == 1
    assert len(answers) == 4
    assert len(set(answers)) == 1
    assert len(session.history) == 4


def test_who_waits_for_one_that_is_refused_asks_for_himself(monkeypatch):
    session = opened(budget=0.3)
    begun, go = held(monkeypatch)
    refusals = []

    def ask():
        try:
            session.answer(ROWS, using=Laplace(5))
        except BudgetExceeded as refused:
            refusals.append(refused)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    threads[0].start()
    assert begun.wait(60)
    for thread in threads[1:]:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(60)
    assert len(refusals) == 3


def test_an_observer_that_asks_the_same_gets_the_answer():
    found = []
    sessions = []

    def ask(event):
        if isinstance(event, Answered) and not event.reused and len(found) < 3:
            found.append(sessions[0].answer(ROWS, using=TENTH))

    sessions.append(opened(observer=ask))
    answer = sessions[0].answer(ROWS, using=TENTH)
    assert found == [answer]
    assert sessions[0].spent.charges == 1


def test_an_observer_may_wait_for_a_thread_that_asks_the_same():
    found = []
    sessions = []

    def ask(event):
        if isinstance(event, Answered) and not event.reused:
            other = threading.Thread(target=lambda: found.append(again()), daemon=True)
            other.start()
            other.join(20)

    def again():
        return sessions[0].answer(ROWS, using=TENTH)

    sessions.append(opened(observer=ask))
    answer = again()
    assert found == [answer]
    assert sessions[0].spent.charges == 1
    reuse = sessions[0]._context.reuse
    assert reuse is not None
    assert reuse._asked == {}


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("step", [41, pytest.param(1, marks=pytest.mark.audit)])
@pytest.mark.parametrize("request_id", [None, "a7"])
def test_an_interrupt_at_any_moment_leaves_nobody_waiting_and_nothing_drawn_twice(request_id, step):
    opened().answer(ROWS, using=TENTH)
    came, place = True, 1
    while came:
        session = opened()
        came = interrupted(
            lambda session=session: session.answer(ROWS, using=TENTH, request_id=request_id), place
        )
        reuse = session._context.reuse
        assert reuse is not None
        assert not any(turn.locked() for turn in reuse._asked.values())
        kept, spent = bool(reuse._known), session.spent.charges
        try:
            release = session.release(ROWS, using=TENTH, request_id=request_id)
        except AnswerLost:
            assert spent == 1
        else:
            expected = 1 if request_id else spent + (not kept)
            assert session.spent.charges == expected
            assert kept <= (release.reused or request_id is not None)
        assert reuse._asked == {}
        place += step


def test_an_answer_that_its_request_could_not_store_is_not_lost(monkeypatch):
    session = opened()
    with monkeypatch.context() as patch:

        def fails(*_):
            raise LedgerUnavailable("x", "gone")

        patch.setattr("dpsdk.accounting.odometer.Odometer.store", fails)
        with pytest.raises(LedgerUnavailable):
            session.answer(ROWS, using=TENTH, request_id="a7")
    release = session.release(ROWS, using=TENTH, request_id="a7")
    assert release.reused
    assert session.release(ROWS, using=TENTH, request_id="a7").value == release.value
    assert session.spent.charges == 1


def nothing():
    """No answer is known."""


def test_sessions_that_ask_each_other_from_within_wait_for_nobody():
    one, other, both = Reuse(), Reuse(), threading.Barrier(2, timeout=60)
    asked = []

    def ask(first, second):
        def within():
            both.wait()  # so that each is within its question when it asks the other session
            return second.settle("the same", nothing, both.wait)

        asked.append(first.settle("the same", nothing, within))

    at_once(lambda pair: ask(*pair), ((one, other), (other, one)))
    assert sorted(asked) == [0, 1]


def test_who_is_done_with_a_question_waits_for_others_again():
    reuse = Reuse()
    turn = reuse.settle("one", nothing, lambda: reuse._asked["one"])
    with turn:  # as one who waited for the first question has its lock
        assert reuse.settle("two", nothing, lambda: list(reuse._asked)) == ["two"]


def test_questions_within_questions_wait_for_nobody():
    reuse = Reuse()

    def asked(question, ask):
        return lambda: reuse.settle(question, nothing, ask)

    assert asked("one", asked("two", asked("one", lambda: "here")))() == "here"

    def interrupted():
        raise KeyboardInterrupt

    # Whatever ended it, it is over.
    with pytest.raises(KeyboardInterrupt):
        reuse.settle("one", nothing, interrupted)
    assert reuse.settle("one", nothing, lambda: "again") == "again"
    assert reuse._asked == {}


def test_an_interrupt_at_any_call_leaves_nobody_waiting_for_who_holds_it():
    held = []
    done = False
    while not done:
        reuse, left = Reuse(), len(held)

        def trace(*_):
            nonlocal left
            left -= 1
            if left == -1:
                raise KeyboardInterrupt

        sys.settrace(trace)
        try:
            reuse.settle("the same", nothing, lambda: 1)
            done = True
        except KeyboardInterrupt as error:
            held.append(error)  # with all of its frames
        finally:
            sys.settrace(None)
        other = threading.Thread(
            target=reuse.settle, args=("the same", nothing, lambda: 2), daemon=True
        )
        other.start()
        other.join(timeout=60)
        assert not other.is_alive()
    assert len(held) >= 5


def test_memory_is_bounded_and_what_is_forgotten_is_paid_anew(monkeypatch):
    monkeypatch.setattr("dpsdk.session.reuse._MOST", 3)
    session = opened(budget=100)
    asked = [Count({"age": age}, normalized=False) for age in range(17, 22)]
    for query in asked:
        session.answer(query, using=TENTH)
    reuse = session._context.reuse
    assert reuse is not None
    assert len(reuse._known) == 3
    assert [session.release(query, using=TENTH).reused for query in asked[2:]] == [True] * 3
    assert not session.release(asked[0], using=TENTH).reused
    monkeypatch.setattr("dpsdk.session.reuse._MOST_BYTES", 1200)
    session.answer(Marginal("age"), using=TENTH)
    assert reuse._bytes <= 1200
    assert reuse._bytes == sum(one.values.nbytes + 512 for one in reuse._known.values())
    monkeypatch.setattr("dpsdk.session.reuse._MOST_BYTES", 10)
    for _ in range(2):
        assert not session.release(Threshold("age", 20), using=TENTH).reused


def test_seeded_answers_are_reused_as_such():
    session = opened(noise=seeded(1))
    one, two = (session.release(ROWS, using=TENTH) for _ in range(2))
    assert two.reused
    assert not one.private
    assert not two.private


@pytest.mark.thorough
def test_sessions_on_a_durable_ledger_reuse_each_others_answers(quick_disk):
    path = quick_disk / "spent.db"
    first = opened(SQLiteLedger(path))
    wide = Gaussian(epsilon="0.1", delta="1e-8")
    asked = [(ROWS, TENTH), (Marginal("age"), wide)]
    releases = [first.release(query, using=using) for query, using in asked]
    scope = first.scope("weekly", "0.5")
    hidden = scope.release(Sum("age"), using=TENTH)
    spent = first.spent
    del first, scope
    gc.collect()
    second = opened(SQLiteLedger(path))
    for before, (query, using) in zip(releases, asked, strict=True):
        again = second.release(query, using=using)
        assert again.reused
        assert str(again.value) == str(before.value)
        assert again.error() == before.error()
        assert second.quote(query, using=using).at_most.nothing
    assert second.scope("other", "0.1").answer(Sum("age"), using=TENTH) == hidden.value
    assert second.spent == spent
    # One that reuses nothing draws anew, and one of another kind of table is another question.
    plain = Session(DATA, Budget(10, "1e-6"), ledger=SQLiteLedger(path))
    assert not plain.release(ROWS, using=TENTH).reused
    assert SQLiteLedger(path).verify() > 0


def test_a_table_that_was_read_in_another_way_is_another(quick_disk):
    path = quick_disk / "spent.db"
    first = opened(SQLiteLedger(path))
    first.answer(Marginal("sex"), using=TENTH)
    with first.partition("sex") as parts:
        parts["F"].answer(Marginal("age"), using=TENTH)
    columns = {"age": [17, 18, 18, 20] * 50, "sex": list("FMFM") * 50}
    turned = Domain(Integer("age", 17, 24), Categorical("sex", ["M", "F"]))
    for domain, reused in ((turned, False), (DOMAIN, True)):
        data = PrivateData.from_columns(columns, domain, name="adults")
        second = Session(data, Budget(10, "1e-6"), ledger=SQLiteLedger(path), reuse=True)
        assert second.release(Marginal("sex"), using=TENTH).reused is reused
        with second.partition("sex") as parts:
            assert parts["F"].release(Marginal("age"), using=TENTH).reused is reused


def test_a_request_may_be_answered_by_an_answer_that_was_given_before(quick_disk):
    session = opened(SQLiteLedger(quick_disk / "spent.db"))
    answer = session.answer(ROWS, using=TENTH)
    again = session.release(ROWS, using=TENTH, request_id="a7")
    assert again.reused
    assert again.value == answer
    retried = session.release(ROWS, using=TENTH, request_id="a7")
    assert retried.value == answer
    assert retried.cost.nothing
    # And the other way round.
    first = session.answer(Sum("age"), using=TENTH, request_id="a8")
    assert session.answer(Sum("age"), using=TENTH) == first
    assert session.spent.charges == 2
    # The name stays with its question.
    with pytest.raises(InvalidArgument, match="request_id"):
        session.answer(Sum("age"), using=TENTH, request_id="a7")


def test_an_answer_that_cannot_be_stored_is_given_all_the_same(quick_disk, monkeypatch):
    session = opened(SQLiteLedger(quick_disk / "spent.db"))

    def full(*_):
        raise LedgerUnavailable("x", "full")

    monkeypatch.setattr("dpsdk.accounting.odometer.Odometer.store", full)
    answer = session.answer(ROWS, using=TENTH)
    assert session.answer(ROWS, using=TENTH) == answer
    assert session.spent.charges == 1


def test_a_stored_name_of_another_question_is_no_answer(quick_disk):
    session = opened(SQLiteLedger(quick_disk / "spent.db"))
    session.answer(ROWS, using=TENTH)
    reuse = session._context.reuse
    assert reuse is not None
    (name,) = reuse._known
    other = opened(SQLiteLedger(quick_disk / "other.db"))
    other.answer(Sum("age"), using=TENTH, request_id=f"reuse {name}")
    assert not other.release(ROWS, using=TENTH).reused
    assert other.release(ROWS, using=TENTH).reused
