"""A release as a record has what a reader needs to judge it, and is equal after a round trip."""

import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve

from dpsdk import Budget, Neighbors, PrivateData, Session, SyntheticData, wire
from dpsdk.accounting import BasicComposition, SQLiteLedger, default_composition
from dpsdk.errors import InvalidArgument, WireError
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    Laplace,
    NumericSparse,
    OnlinePMW,
    PrivateMinimizer,
    ResidualPlanner,
)
from dpsdk.queries import (
    Above,
    Ball,
    ConvexMinimization,
    Count,
    Linear,
    Marginal,
    Mean,
    NumericAbove,
    Rectangles,
    Threshold,
    Workload,
)
from dpsdk.testing import seeded
from dpsdk.wire import ReleaseRecord
from worlds import PEOPLE

COLUMNS = {
    "age": [17, 18, 20, 24] * 50,
    "sex": ["Female", "Male"] * 100,
    "hours": [0.5, 12, 30, 35] * 50,
    "member": [True, False, False, True] * 50,
}
MODEL = ConvexMinimization(LogisticLoss(), features=["age"], label="member", over=Ball(8))
WORKLOAD = Workload([Threshold("age", 20), Marginal("sex", "member")])
COUNT, TENTH = Marginal("age", normalized=False), Laplace("0.1")


def opened(**options):
    data = PrivateData.from_columns(COLUMNS, PEOPLE, **options)
    return Session(data, Budget(10, "1e-6"), noise=seeded(1))


def release_of(query, using, **options):
    session = opened(**options)
    if not isinstance(using, Laplace | Gaussian | PrivateMinimizer):
        using = session.open(using)
    return session.release(query, using=using)


RELEASES = {
    "number": (Threshold("age", 20), Laplace(0.1), {}),
    "count": (Count(normalized=False), Laplace("0.1"), {"neighbors": Neighbors.ADD_REMOVE}),
    "several rows": (Count(normalized=False), Laplace("0.1"), {"unit_rows": 3}),
    "nothing known": (Mean("hours", where={"age": 23}), Laplace("0.001"), {}),
    "table": (Marginal("sex", "member"), Gaussian(rho="0.1"), {}),
    "several": (WORKLOAD, Gaussian(epsilon=1, delta="1e-9"), {}),
    "array": (Rectangles("age", lower=[0, 2], upper=[1, 5]), Laplace(1), {}),
    "truth": (Above(Threshold("age", 20), 0.5), NumericSparse(epsilon=1, tops=1), {}),
    "none": (NumericAbove(Threshold("age", 20), 1), NumericSparse(epsilon=9, tops=1), {}),
    "hypothesis": (WORKLOAD, MWEM(WORKLOAD, epsilon=1, rounds=2), {}),
    "model": (MODEL, PrivateMinimizer(epsilon=1, delta="1e-9"), {}),
    "function": (Linear(lambda record: record["age"] / 30, ["age"]), Laplace(1), {}),
}


@pytest.mark.thorough(quick=8)
@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_equal_after_a_round_trip(name):
    query, using, options = RELEASES[name]
    release = release_of(query, using, **options)
    record = ReleaseRecord.of(release)
    text = wire.dumps(record)
    back = wire.loads("release", text)
    assert back == record
    assert wire.dumps(back) == text
    assert wire.digest(back) == wire.digest(record)
    assert wire.loads("release", wire.dumps(release)) == ReleaseRecord.of(release)
    assert back.cost == release.cost
    assert (back.epsilon, back.rho) == (release.cost.epsilon, release.cost.rho)
    assert back.joint == release.bound(0.05)
    assert back.query == release.query
    assert back.query_digest == wire.digest(query, domain=PEOPLE)
    assert back.domain == wire.digest(PEOPLE)
    assert back.by == using
    assert back.by_digest == wire.digest(using)
    assert not back.private


def test_a_record_says_on_what_an_answer_rests():
    session = opened()
    release = session.release(Marginal("sex"), using=Laplace(Fraction(1, 3)))
    record = ReleaseRecord.of(release)
    assert wire.loads("release", wire.dumps(record)) == record
    data = wire.to_json(record)
    assert data["epsilon"] == {"exact": "1/3", "float": 1 / 3}
    assert data["noise"]["law"] == "discrete-laplace"
    assert data["noise"]["size"] == {"exact": "6", "float": 6}
    assert data["sensitivity"] == {"kind": "sensitivity", "norm": "l1", "steps": 2, "exact": True}
    assert data["neighbors"] == "replace-one"
    assert (data["rows"], data["unit_rows"], data["outside"]) == (200, 1, True)
    assert data["joint"]["standing"] == "proven"
    assert not data["joint"]["vacuous"]
    assert data["each"] == release.errors().tolist()
    assert data["answer"]["numbers"] == release.value.values.tolist()
    assert (data["source"], data["account"], data["table"]) == ("measured", "", "data")
    assert data["by"] == {"kind": "mechanism.laplace", "epsilon": "1/3"}
    assert data["before"]["charges"] == 0
    assert data["after"]["epsilon"] == "1/3"
    assert data["budget"]["delta"] == "1/1000000"
    assert data["composition"]["kind"] == "composition.any-of"


def spending(session, query=COUNT, using=TENTH, *, asker=None, **options):
    """A record, and what the session had spent before and after it."""
    before = session.spent
    release = (session if asker is None else asker).release(query, using=using, **options)
    after = session.spent
    session.answer(COUNT, using=Laplace("0.3"))
    return ReleaseRecord.of(release), before, after


def test_a_record_has_what_was_spent_before_and_after():
    session = opened(name="visits")
    session.answer(COUNT, using=TENTH)
    record, before, after = spending(session)
    assert (record.before, record.after) == (before, after)
    assert (record.before.charges, record.after.charges) == (1, 2)
    assert (record.account, record.table) == ("", "visits")
    assert (record.budget, record.composition) == (session.budget, default_composition())
    several = ResidualPlanner(WORKLOAD, rho="0.1")
    with session.open(several) as channel:
        free, *_ = spending(session, WORKLOAD, channel)
    assert (free.before, free.after, free.by) == (None, None, several)
    assert free.budget == session.budget


def test_a_scope_and_a_part_are_named_and_the_budget_is_the_sessions():
    session = opened(neighbors=Neighbors.ADD_REMOVE)
    scope = session.scope("analyst", 0.5)
    record, before, after = spending(session, asker=scope)
    assert (record.before, record.after) == (before, after)
    assert (record.account, record.table) == ("analyst", "data")
    assert record.after.guarantee == record.budget == session.budget
    with session.scope("inner", 0.1) as inner:
        assert spending(session, asker=inner)[0].account == "inner"
    with session.partition("sex") as parts:
        # Another part was dearer, so that this charge does not show on the whole.
        parts["Male"].answer(COUNT, using=Laplace(1))
        record, before, after = spending(session, asker=parts["Female"])
    assert (record.before, record.after) == (before, after)
    assert record.before.epsilon == record.after.epsilon
    assert record.before.charges == record.after.charges - 1
    assert (record.account, record.table) == ("", "data, sex Female")


def test_what_others_spend_on_a_ledger_is_in_a_record(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger")
    data = PrivateData.from_columns(COLUMNS, PEOPLE, name="visits")
    one, other = (Session(data, Budget(10, "1e-6"), ledger=ledger) for _ in range(2))
    other.answer(COUNT, using=Laplace(1))
    record, before, after = spending(one, asker=one.scope("analyst", 0.5), request_id="r")
    assert (record.before, record.after) == (before, after)
    assert record.before.epsilon == 1
    again = ReleaseRecord.of(other.release(COUNT, using=TENTH, request_id="r"))
    # Given again: to whoever paid, and from when that was is not known any more.
    assert (again.account, again.before, again.after) == ("analyst", None, None)
    assert (again.cost, again.answer) == (record.cost, record.answer)
    assert not again.reused


def test_a_record_tells_that_an_answer_was_reused():
    session = Session(PrivateData.from_columns(COLUMNS, PEOPLE), Budget(10), reuse=True)
    first = ReleaseRecord.of(session.release(COUNT, using=TENTH))
    again = ReleaseRecord.of(session.scope("analyst", 0.5).release(COUNT, using=TENTH))
    assert wire.loads("release", wire.dumps(again)) == again
    assert (first.reused, again.reused) == (False, True)
    assert (again.account, again.runs, again.before) == ("analyst", (), None)
    assert again.answer == first.answer


def test_a_record_says_which_mechanism_was_asked():
    session, using = opened(), Laplace("0.1")
    release = session.release(COUNT, using=using)
    assert ReleaseRecord.of(release).by == Laplace("0.1")
    assert ReleaseRecord.of(session.release(COUNT, using=Laplace("0.1"))).by == Laplace("0.1")
    fine = Laplace(Fraction(1, 10) + Fraction(1, 10**12))
    assert ReleaseRecord.of(session.release(COUNT, using=fine)).by == fine

    class Mine(Laplace):
        __slots__ = ()

    mine = ReleaseRecord.of(session.release(COUNT, using=Mine(1)))
    assert (mine.by, mine.by_digest) == (None, None)
    long = MWEM(Workload([Threshold("age", 20)] * 1000), epsilon=1, rounds=1)
    with session.open(long) as channel:
        record = ReleaseRecord.of(channel.release(COUNT))
    assert (record.by, record.by_digest) == (None, wire.digest(long))
    start = SyntheticData(PEOPLE, [[0, 1, 0, 0], [5, 0, 1, 0]])
    with session.open(OnlinePMW(1, updates=3, start=start)) as channel:
        release = channel.release(COUNT)
    unknown = wire.loads("release", wire.dumps(release))
    assert (unknown.by, unknown.by_digest) == (
        None,
        wire.digest(OnlinePMW(1, updates=3, start=start)),
    )
    known = wire.Catalogue.shipped().knowing(start)
    record = ReleaseRecord.of(release, allow=known)
    assert record.by == OnlinePMW(1, updates=3, start=start)
    assert wire.loads("release", wire.dumps(record, allow=known), allow=known) == record


def test_what_has_no_written_form_is_left_out_of_a_record():
    class Own(BasicComposition):
        pass

    data = PrivateData.from_columns(COLUMNS, PEOPLE)
    release = Session(data, Budget(1), composition=Own()).release(COUNT, using=TENTH)
    record = ReleaseRecord.of(release)
    assert record.composition is None
    assert record.after.epsilon == Fraction(1, 10)
    assert wire.loads("release", wire.dumps(record)) == record
    few = ReleaseRecord.of(release, allow=wire.Catalogue.shipped().only("query.threshold"))
    assert (few.question, few.by, few.domain) == (None, None, record.domain)
    assert wire.loads("release", wire.dumps(few)) == few


def test_a_payment_says_when_it_was_and_a_pickled_release_has_the_same_record():
    release = opened().release(COUNT, using=TENTH)
    assert repr(release.payment).startswith("Payment(the session, after it ")
    again = pickle.loads(pickle.dumps(release))  # noqa: S301
    assert ReleaseRecord.of(again) == ReleaseRecord.of(release)


def test_sensitivities_are_those_that_were_paid_for():
    gaussian = ReleaseRecord.of(release_of(Marginal("sex"), Gaussian(rho="0.1")))
    assert gaussian.sensitivity.norm == "l2-squared"
    assert gaussian.sensitivity.steps * gaussian.noise.step**2 == 2
    assert gaussian.sensitivity.exact
    table = Marginal("sex", normalized=False)
    added = release_of(table, Laplace(1), neighbors=Neighbors.ADD_REMOVE)
    assert ReleaseRecord.of(added, beta=0.5).sensitivity.steps == 1
    three = ReleaseRecord.of(release_of(Count(), Laplace(1), unit_rows=3))
    assert (three.sensitivity.steps, three.unit_rows) == (3, 3)
    rounded = ReleaseRecord.of(release_of(RELEASES["function"][0], Laplace(1)))
    assert rounded.noise.bias > 0
    assert rounded.sensitivity.exact is False
    assert ReleaseRecord.of(release_of(MODEL, RELEASES["model"][1])).sensitivity is None


def test_a_question_of_another_author_is_known_by_its_words_alone():
    class Mine(Threshold):
        pass

    record = ReleaseRecord.of(release_of(Mine("age", 20), Laplace(1)))
    assert (record.question, record.query_digest) == (None, None)
    assert record.sensitivity.exact is None
    assert wire.loads("release", wire.dumps(record)) == record
    told = ReleaseRecord.of(release_of(Mine("age", 20), Laplace(1)), question=Threshold("age", 20))
    assert told.query_digest == wire.digest(Threshold("age", 20))


def test_an_answer_without_a_number_has_none_in_its_record():
    record = ReleaseRecord.of(release_of(*RELEASES["nothing known"][:2]))
    assert np.isnan(record.answer.numbers).all()
    assert wire.to_json(record)["answer"]["numbers"] == [None]
    assert record.joint.vacuous
    model = ReleaseRecord.of(release_of(*RELEASES["model"][:2]))
    assert model.answer.names == ("age",)
    assert wire.to_json(model)["each"] is None


def test_figures_that_do_not_belong_together_are_refused():
    data = wire.to_json(release_of(Threshold("age", 20), Laplace(0.1)))
    assert wire.from_json("release", data)
    for change in (
        {"epsilon": {"exact": "1/10", "float": 0.2}}, {"epsilon": {"exact": "1/10"}}, {"rho": None},
        {"runs": [data["runs"][0] | {"count": 0}]},
        {"domain": "0"}, {"query_digest": "G" * 64}, {"neighbors": "replace"}, {"more": 1},
        {"answer": data["answer"] | {"shape": [2]}},
        {"answer": data["answer"] | {"shape": [-1, -1]}},
        {"answer": data["answer"] | {"parts": [data["answer"]]}}, {"rows": -1}, {"unit_rows": 0},
        {"answer": data["answer"] | {"names": ["a"]}},
        {"answer": data["answer"] | {"stands_for": "truth", "numbers": [0.5]}},
        {"answer": data["answer"] | {"stands_for": "day", "numbers": [], "names": ["now"]}},
        {"answer": data["answer"] | {"shape": [1]}},
        {"joint": data["joint"] | {"error": "-infinity"}},
    ):  # fmt: skip
        with pytest.raises(WireError):
            wire.from_json("release", data | change)
    with pytest.raises(InvalidArgument, match="release"):
        ReleaseRecord.of(data)


def test_a_release_gives_out_copies():
    release = release_of(Marginal("sex"), Laplace(1))
    release.raw[:] = 0.0
    assert release.raw.any()
    record = ReleaseRecord.of(release)
    with pytest.raises(ValueError, match="read-only"):
        record.answer.numbers[0] = 3.0
    assert evolve(record) == record
    assert json.loads(wire.dumps(record))["answer"]["stands_for"] == "table"
    assert not math.isnan(record.answer.numbers[0])
