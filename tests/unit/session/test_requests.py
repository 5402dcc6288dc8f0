"""Requests with a name: charged once, drawn once, answered again for free."""

import json
from copy import deepcopy
from datetime import UTC
from fractions import Fraction

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, MemoryLedger, SQLiteLedger
from dpsdk.errors import (
    AnswerLost,
    BudgetExceeded,
    InvalidArgument,
    LedgerDamaged,
    LedgerUnavailable,
    NoBound,
)
from dpsdk.forms import LinearForm
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.losses import LogisticLoss, SVMLoss
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    Laplace,
    Matrix,
    NoisyHistogram,
    PrivateMinimizer,
    Projection,
    SmallDB,
)
from dpsdk.mechanisms.base import OneShot
from dpsdk.queries import (
    Ball,
    ConvexMinimization,
    Count,
    Linear,
    Marginal,
    Mean,
    OneHot,
    Quantile,
    Threshold,
    Workload,
)
from dpsdk.testing import seeded
from parallel import at_once

DATA = PrivateData.from_columns(
    {"age": [17, 18, 18, 20]}, Domain(Integer("age", 17, 24)), name="adults"
)
ROWS = Count(normalized=False)
TENTH = Laplace("0.1")


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, quick_disk):
    if request.param == "memory":
        return MemoryLedger()
    return SQLiteLedger(quick_disk / "spent.db")


def ledger_of(ledger):
    """The ledger of the table."""
    return ledger.dataset("adults") if isinstance(ledger, SQLiteLedger) else ledger


def opened(ledger):
    return Session(DATA, Budget(1), composition=BasicComposition(), ledger=ledger)


@pytest.mark.parametrize("query", [ROWS, Marginal("age"), Threshold("age", 19)], ids=str)
def test_a_retry_gives_the_stored_answer_and_costs_nothing(ledger, query):
    first = opened(ledger).release(query, using=TENTH, request_id="a7")
    for session in (opened(ledger), opened(ledger)):
        again = session.release(query, using=TENTH, request_id="a7")
        assert again == first
        assert str(again) == str(first)
        assert np.array_equal(again.errors(0.1), first.errors(0.1))
        assert session.spent.epsilon == Fraction(1, 10)
        answer = session.answer(query, using=TENTH, request_id="a7")
        assert str(answer) == str(first.value)
    # Under another name it is another draw, and paid.
    session.answer(query, using=TENTH, request_id="a8")
    assert session.spent.epsilon == Fraction(2, 10)
    assert [charge.request_id for charge in ledger.charges()] == ["a7", "a8"]


def test_a_request_whose_answer_was_lost_is_not_drawn_again(ledger, monkeypatch):
    session = opened(ledger)

    def dies(*_):
        raise LedgerUnavailable("x", "killed")

    with monkeypatch.context() as patch:
        patch.setattr("dpsdk.accounting.odometer.Odometer.store", dies)
        with pytest.raises(LedgerUnavailable):
            session.answer(ROWS, using=TENTH, request_id="a7")
    for again in (session, opened(ledger)):
        with pytest.raises(AnswerLost) as caught:
            again.answer(ROWS, using=TENTH, request_id="a7")
        assert caught.value == AnswerLost("a7", (1,))
        assert again.spent.epsilon == Fraction(1, 10)
    assert session.history[-1].answered is False


def test_what_was_refused_was_not_charged_and_may_be_tried_again(ledger):
    session = opened(ledger)
    with pytest.raises(BudgetExceeded):
        session.answer(ROWS, using=Laplace(2), request_id="a7")
    session.answer(ROWS, using=TENTH, request_id="a7")
    assert session.spent.epsilon == Fraction(1, 10)


@pytest.mark.parametrize(
    ("query", "using"), [(Count(), TENTH), (ROWS, Laplace("0.2")), (Marginal("age"), TENTH)]
)
def test_a_name_stays_with_its_question(ledger, query, using):
    session = opened(ledger)
    session.answer(ROWS, using=TENTH, request_id="a7")
    with pytest.raises(InvalidArgument, match="request_id"):
        session.answer(query, using=using, request_id="a7")
    assert session.spent.epsilon == Fraction(1, 10)
    for bad in ("", " ", 7, "a" * 2000):
        with pytest.raises(InvalidArgument, match="request_id"):
            session.answer(query, using=using, request_id=bad)
        with pytest.raises(InvalidArgument, match="request_id"):
            session.open(NoisyHistogram(epsilon="0.1"), request_id=bad)


def test_threads_that_ask_at_once_are_charged_once(ledger):
    sessions = [opened(ledger) for _ in range(2)]
    answers = set()
    lost = []

    def ask(session):
        try:
            answers.add(session.answer(ROWS, using=TENTH, request_id="a7"))
        except AnswerLost as error:
            lost.append(error)

    at_once(ask, [sessions[i % 2] for i in range(6)])
    assert len(answers) == 1
    assert sessions[0].spent.epsilon == Fraction(1, 10)
    assert sessions[1].answer(ROWS, using=TENTH, request_id="a7") in answers


def test_a_channel_is_paid_once_and_lost_to_others(ledger):
    session, mechanism = opened(ledger), NoisyHistogram(epsilon="0.1")
    channel = session.open(mechanism, request_id="h")
    assert session.open(mechanism, request_id="h") is channel
    with pytest.raises(InvalidArgument, match="request_id"):
        session.open(NoisyHistogram(epsilon="0.2"), request_id="h")
    answer = channel.answer(ROWS)
    assert channel.answer(ROWS, request_id="free") == answer
    # The answer outlives the channel.
    channel.close()
    for again in (session, opened(ledger)):
        with pytest.raises(AnswerLost) as caught:
            again.open(mechanism, request_id="h")
        assert caught.value == AnswerLost("h", (1,))
        assert again.spent.epsilon == Fraction(1, 10)


def test_channels_that_were_closed_are_let_go_of(monkeypatch):
    monkeypatch.setattr("dpsdk.session.query_interface._KEPT_CHANNELS", 3)
    session = opened(MemoryLedger())
    kept = session.open(TENTH, request_id="kept")
    for number in range(20):
        session.open(TENTH, request_id=str(number)).close()
    assert len(session._requests) <= 6
    assert session.open(TENTH, request_id="kept") is kept


def test_scopes_share_the_names_of_their_ledger(ledger):
    session = opened(ledger)
    answer = session.scope("weekly", "0.5").answer(ROWS, using=TENTH, request_id="a7")
    assert session.answer(ROWS, using=TENTH, request_id="a7") == answer
    with session.partition("age") as parts, pytest.raises(InvalidArgument, match="request_id"):
        parts[18].answer(ROWS, using=TENTH, request_id="a7")


def test_bounds_that_are_not_kept_are_said_to_be_missing(ledger):
    session = opened(ledger)
    channel = session.open(SmallDB(Marginal("age"), epsilon="0.5"))
    release = channel.release(Marginal("age"), request_id="m")
    assert release.bound().proven
    again = channel.release(Marginal("age"), request_id="m")
    assert str(again.value) == str(release.value)
    assert again.cost == release.cost
    with pytest.raises(NoBound, match="not stored"):
        again.error()
    assert "not stored" in again.bound().kind


def test_gaussian_noise_keeps_its_bound(quick_disk):
    ledger = SQLiteLedger(quick_disk / "spent.db")
    session = Session(DATA, Budget(1, "1e-6"), ledger=ledger)
    first = session.release(Marginal("age"), using=Gaussian(rho="0.01"), request_id="g")
    again = session.release(Marginal("age"), using=Gaussian(rho="0.01"), request_id="g")
    assert again == first
    assert again.error() == first.error()


def test_what_is_no_answer_is_refused(ledger):
    session = opened(ledger)
    session.answer(ROWS, using=TENTH, request_id="a7")
    good = json.loads(ledger.stored("a7"))
    for place, change in enumerate((
        {"tag": "answer.9"}, {"numbers": ["zz"]}, {"numbers": ["00"]}, {"source": "guessed"},
        {"accuracy": {}}, {"accuracy": {**good["accuracy"], "step": "1.0"}},
        {"accuracy": {**good["accuracy"], "law": "cauchy 1"}},
        {"accuracy": {**good["accuracy"], "law": "laplace -1"}},
    )):  # fmt: skip
        ledger.store(f"x{place}", json.dumps({**good, **change}).encode())
        with pytest.raises(LedgerDamaged, match="no answer"):
            session.answer(ROWS, using=TENTH, request_id=f"x{place}")
    ledger.store("y", b"\xff\0")
    with pytest.raises(LedgerDamaged, match="no answer"):
        session.answer(ROWS, using=TENTH, request_id="y")
    assert session.spent.epsilon == Fraction(1, 10)


NAMED = [
    (Workload([Count({"age": 18})]), Workload([Count({"age": 19})])),
    (Workload([Count()]), Workload([Count(normalized=False)])),
    (Workload([Count({"age": a}) for a in (18, 19)]), Workload([Count({"age": 18})] * 2)),
    (Linear(np.eye(8)[1]), Linear(np.eye(8)[2])),
    (Linear(lambda row: float(row["age"] > 18)), Linear(lambda row: float(row["age"] > 19))),
    (Workload([Marginal("age")] * 2), Workload([Marginal("age"), Workload([Marginal("age")])])),
]


@pytest.mark.thorough(quick=8)
@pytest.mark.parametrize(("asked", "other"), NAMED, ids=str)
def test_questions_that_call_themselves_the_same_are_told_apart(ledger, asked, other):
    session = opened(ledger)
    first = session.release(asked, using=TENTH, request_id="a7")
    with pytest.raises(InvalidArgument, match="request_id"):
        opened(ledger).answer(other, using=TENTH, request_id="a7")
    assert opened(ledger).release(asked, using=TENTH, request_id="a7") == first
    assert session.spent.epsilon == Fraction(1, 10)


def test_models_are_told_apart_by_loss_features_and_set(ledger):
    domain = Domain(Integer("age", 17, 24), Categorical("sex", ["F", "M"]))
    columns = {"age": [17, 18, 18, 20], "sex": list("FMFM")}
    data = PrivateData.from_columns(columns, domain, name="adults")
    session = Session(data, Budget(1), composition=BasicComposition(), ledger=ledger)
    channel = session.open(NoisyHistogram(epsilon="0.1"))
    asked = ConvexMinimization(LogisticLoss(), features=["age"], label="sex", over=Ball(1))
    first = channel.answer(asked, request_id="m")
    assert str(channel.answer(asked, request_id="m")) == str(first)
    for other in (
        ConvexMinimization(LogisticLoss(), features=["age"], label="sex", over=Ball(2)),
        ConvexMinimization(LogisticLoss(), features=[OneHot("age")], label="sex", over=Ball(1)),
        ConvexMinimization(SVMLoss(), features=["age"], label="sex", over=Ball(1)),
    ):
        with pytest.raises(InvalidArgument, match="request_id"):
            channel.answer(other, request_id="m")


def test_a_seeded_answer_is_not_given_for_a_private_one():
    ledger = MemoryLedger()
    for first, second, name in ((seeded(1), None, "a"), (None, seeded(1), "b")):
        session = Session(DATA, Budget(1), ledger=ledger, noise=first)
        session.answer(ROWS, using=TENTH, request_id=name)
        other = Session(DATA, Budget(1), ledger=ledger, noise=second)
        with pytest.raises(InvalidArgument, match="request_id"):
            other.release(ROWS, using=TENTH, request_id=name)


def test_openings_are_told_apart_by_what_mechanisms_hold(ledger):
    session = opened(ledger)
    kinds = [Matrix(Workload([Threshold("age", age)]), epsilon="0.1") for age in (18, 18, 19)]
    channel = session.open(kinds[0], request_id="m")
    assert session.open(kinds[1], request_id="m") is channel
    with pytest.raises(InvalidArgument, match="request_id"):
        session.open(kinds[2], request_id="m")


def test_events_and_history_say_which_scope_asked_for_which_request_and_when(ledger):
    events = []
    session = Session(
        DATA, Budget(1), composition=BasicComposition(), ledger=ledger, observer=events.append
    )
    session.answer(ROWS, using=TENTH)
    scope = session.scope("weekly", "0.5")
    scope.answer(ROWS, using=TENTH, request_id="a7")
    with pytest.raises(BudgetExceeded):
        scope.answer(ROWS, using=Laplace("0.9"), request_id="a8")
    scope.open(NoisyHistogram(epsilon="0.1"), request_id="a9")
    told = [(type(one).__name__, one.scope, one.request_id) for one in events]
    assert told == [
        ("Opened", "", ""), ("Charged", "", ""), ("Answered", "", ""), ("Opened", "weekly", ""),
        ("Charged", "weekly", "a7"), ("Answered", "weekly", "a7"), ("Opened", "weekly", ""),
        ("Refused", "weekly", "a8"), ("Charged", "weekly", "a9"), ("Opened", "weekly", "a9"),
    ]  # fmt: skip
    assert all(one.at is not None and one.at.tzinfo is UTC for one in events)
    receipts = [("", ""), ("weekly", "a7"), ("weekly", "a9")]
    for known in (session, opened(ledger)):
        assert [(one.scope, one.request_id) for one in known.history] == receipts
        assert [one.at for one in known.history] == [one.at for one in ledger_of(ledger).charges()]
    assert "in scope 'weekly'" in str(session.history[1])
    # A retry is no new question.
    session.answer(ROWS, using=TENTH, request_id="a7")
    assert len(events) == len(told)
    assert len(session.history) == len(receipts)


def test_every_charge_of_a_question_says_for_which_request_it_was(ledger):
    session = opened(ledger)
    learner = MWEM(Marginal("age"), rounds=2, epsilon="0.5")
    session.open(learner, request_id="a7")
    charges = ledger_of(ledger).charges()
    assert len(charges) > 1
    assert {one.request_id for one in charges} == {"a7"}
    with pytest.raises(AnswerLost):
        opened(ledger).open(learner, request_id="a7")


DOMAIN = Domain(Integer("age", 17, 24), Categorical("sex", ["F", "M"]))
COLUMNS = {"age": [17, 18, 18, 20], "sex": list("FMFM")}
PEOPLE = PrivateData.from_columns(COLUMNS, DOMAIN, name="adults")
HAIR = Fraction(1, 10**12)
PENNY = {"epsilon": "0.1", "delta": "1e-9"}


def model(radius):
    return ConvexMinimization(LogisticLoss(), features=["age"], label="sex", over=Ball(radius))


@frozen
class Named(OneShot[LinearForm]):
    """A mechanism of another author, that does not call itself by its parameters."""

    amount: Fraction

    def quote(self, form, terms, /):
        return Laplace(self.amount).quote(form, terms)

    def open(self, kernel, /):
        return Laplace(self.amount).open(kernel)

    def __str__(self):
        return "Named"


def asked_with(query, using):
    return lambda session: session.answer(query, using=using, request_id="a7")


def opening(mechanism, query=ROWS):
    return lambda session: session.open(mechanism).answer(query, request_id="a7")


def pairs(kind, make):
    return pytest.param(*[kind(*make(amount)) for amount in (Fraction(0), HAIR)], id=str(make(0)))


TENTH_OF_ONE = Fraction(1, 10)
CLOSE = [
    pairs(asked_with, lambda more: (ROWS, Laplace(TENTH_OF_ONE + more))),
    pairs(asked_with, lambda more: (ROWS, Gaussian(rho=TENTH_OF_ONE + more))),
    pairs(asked_with, lambda more: (ROWS, Gaussian(epsilon=TENTH_OF_ONE + more, delta="1e-9"))),
    pairs(asked_with, lambda more: (ROWS, Projection(epsilon=TENTH_OF_ONE + more))),
    pairs(asked_with, lambda more: (ROWS, Named(TENTH_OF_ONE + more))),
    pairs(asked_with, lambda more: (model(1), PrivateMinimizer(**{**PENNY, "delta": 1e-9 + more}))),
    pairs(asked_with, lambda more: (model(1 + float(more)), PrivateMinimizer(**PENNY))),
    pairs(asked_with, lambda more: (Quantile("age", Fraction(1, 3) + more), Laplace("0.1"))),
    pairs(opening, lambda more: (NoisyHistogram(epsilon=TENTH_OF_ONE + more),)),
    pairs(opening, lambda more: (MWEM(Marginal("age"), rounds=1, epsilon=TENTH_OF_ONE + more),)),
    pairs(opening, lambda more: (MWEM(Marginal("sex" if more else "age"), rounds=1, epsilon=1),)),
    pairs(opening, lambda more: (MWEM(
        Workload([Linear(lambda row: float(row["age"] > (18 + bool(more))))]), rounds=1, epsilon=1,
    ),)),
]  # fmt: skip


@pytest.mark.thorough(quick=5)
@pytest.mark.parametrize(("asked", "other"), CLOSE)
def test_a_name_stays_with_its_parameters_to_their_last_digit(asked, other):
    ledger = MemoryLedger()

    def session():
        return Session(PEOPLE, Budget(10, "1e-6"), ledger=ledger)

    first = asked(session())
    assert str(asked(session())) == str(first)
    charges = len(ledger.charges())
    with pytest.raises(InvalidArgument, match="request_id"):
        other(session())
    # What the other opened was paid for, and nothing but that.
    assert len({charge.request_id for charge in ledger.charges()[charges:]} - {""}) == 0


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("reuse", [False, True])
def test_a_table_that_was_read_in_another_way_is_another(quick_disk, reuse):
    turned = Domain(Integer("age", 17, 24), Categorical("sex", ["M", "F"]))
    wider = Domain(Integer("age", 17, 25), Categorical("sex", ["F", "M"]))
    more = {name: column * 2 for name, column in COLUMNS.items()}
    tables = [
        PrivateData.from_columns(columns, domain, name="adults")
        for columns, domain in ((COLUMNS, turned), (COLUMNS, wider), (more, DOMAIN))
    ]
    path = quick_disk / "spent.db"

    def asked(data, part):
        session = Session(data, Budget(1), ledger=SQLiteLedger(path), reuse=reuse)
        query = Marginal("sex", normalized=False)
        if not part:
            return str(session.answer(query, using=TENTH, request_id="whole"))
        with session.partition("age") as parts:
            return str(parts[18].answer(query, using=TENTH, request_id="part"))

    for part in (False, True):
        first = asked(PEOPLE, part)
        for data in tables:
            with pytest.raises(InvalidArgument, match="request_id"):
                asked(data, part)
        assert asked(PrivateData.from_columns(COLUMNS, DOMAIN, name="adults"), part) == first


def older(row):
    return float(row["age"] > 18)


SAME = [
    (Linear(lambda row: float(row["age"] >= 19)), Linear(older)),
    (Linear(older, attributes=["age"]), Linear(older, attributes=["age"])),
    (Linear(older, attributes=["age"]), Linear([0, 0, 1, 1, 1, 1, 1, 1], attributes=["age"])),
    (Count({"age": {17, 18, 20}}), Count({"age": {20, 18, 17}})),
    (Workload([Linear(older), ROWS]), Workload([Linear(lambda row: float(older(row))), ROWS])),
]


@pytest.mark.thorough(quick=7)
@pytest.mark.parametrize(("asked", "same"), SAME, ids=str)
def test_a_function_is_told_by_its_table_and_a_set_in_any_order(ledger, asked, same):
    def session():
        return Session(PEOPLE, Budget(1), ledger=ledger)

    first = session().answer(asked, using=TENTH, request_id="a7")
    assert str(session().answer(same, using=TENTH, request_id="a7")) == str(first)


class Silent:
    """Says nothing of itself."""

    def __repr__(self):
        raise ZeroDivisionError


@frozen
class Held(Named):
    """A mechanism of another author that holds whatever it is given."""

    what: object = None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(2000.0), np.arange(2000.0) + np.eye(2000)[700]),
        (np.array(["a", "b"]), np.array(["a", "c"])),
        (np.array([None, {1, 2}]), np.array([None, {1, 3}])),
        (np.longdouble(1), np.longdouble(1) + np.finfo(np.longdouble).eps),
        (np.float64(0.1), np.float64(0.1) + 1e-16),
        ({"a": [0.1, 2]}, {"a": [0.1 + 1e-16, 2]}),
        (DATA.domain, DOMAIN),
        (Silent(), None),
        (DenseHypothesis.uniform(DOMAIN), DenseHypothesis.uniform(DATA.domain)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_mechanism_of_another_author_counts_by_what_it_holds(one, other):
    ledger = MemoryLedger()

    def asked(what):
        session = Session(PEOPLE, Budget(1), ledger=ledger)
        return session.answer(ROWS, using=Held(TENTH_OF_ONE, what), request_id="a7")

    assert asked(deepcopy(one)) == asked(one)
    with pytest.raises(InvalidArgument, match="request_id"):
        asked(other)
    assert len(ledger.charges()) == 1


def test_a_request_of_another_question_says_what_was_asked_before():
    domain = Domain(Integer("age", 0, 9))
    data = PrivateData.from_columns({"age": list(range(10))}, domain, name="people")
    session = Session(data, Budget(1))
    scope = session.scope("a, b", "0.5")
    scope.answer(Count(normalized=False), using=Laplace("0.1"), request_id="r")

    def got(ask):
        with pytest.raises(InvalidArgument, match="request_id") as refused:
            ask()
        return refused.value.got

    asked = "Count(normalized=False) by Laplace(epsilon=0.1)"
    before = f"'r', which has the answer to {asked} in scope 'a, b', for 0.1-DP, discrete Laplace"
    other = got(lambda: session.answer(Mean("age"), using=Laplace("0.2"), request_id="r"))
    assert other == f"{before}; this asks for Mean('age') by Laplace(epsilon=0.2)"
    with session.open(NoisyHistogram(epsilon="0.1"), request_id="o") as channel:
        channel.answer(Count(), request_id="free")
        told = got(lambda: channel.answer(Mean("age"), request_id="free"))
        assert "that was free; this asks for Mean('age') by NoisyHistogram(epsilon=0.1)" in told
        told = got(lambda: session.open(NoisyHistogram(epsilon="0.2"), request_id="o"))
        assert "NoisyHistogram(epsilon=0.1); this is NoisyHistogram(epsilon=0.2)" in told
    with session.partition("age") as parts:
        count = Count(normalized=False)
        parts[2].answer(count, using=Laplace("0.1"), request_id="q")
        told = got(lambda: parts[1].answer(count, using=Laplace("0.1"), request_id="q"))
    assert told.endswith("of another table, another kind of noise or other numbers")
