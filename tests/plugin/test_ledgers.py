"""A ledger of another author does all that the built-in one does, through public names only."""

import ast
import copy
import json
import pickle
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import settings

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import (
    AnyOf,
    Anytime,
    BasicComposition,
    Books,
    Charge,
    Dataset,
    Decide,
    Decision,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    Ledger,
    Ledgers,
    MemoryLedger,
    Odometer,
    PureGuarantee,
    SQLiteLedger,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.errors import (
    AlreadyCharged,
    BudgetExceeded,
    Closed,
    InvalidArgument,
    LedgerConflict,
    LedgerUnavailable,
    NotCopyable,
    RecordError,
    Reentered,
    UnsupportedGuarantee,
)
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from dpsdk.testing import seeded
from parallel import at_once, count_closed, in_a_child, needs_fork
from spending import Spending
from worlds import QUICK

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

pytest.importorskip("fcntl", reason="the ledger in a file takes a lock of Unix")
from acme_dp.ledger import JSONLedger  # noqa: E402

pytestmark = pytest.mark.thorough

BUDGET = Budget(1, "1e-6")
TENTH = PureGuarantee("0.1")
DOMAIN = Domain(Integer("age", 17, 90))
ADULTS = PrivateData.from_columns({"age": [39, 50, 38]}, DOMAIN, name="adults")
ROWS = Count(normalized=False)


@pytest.fixture(params=["memory", "file", "sqlite"])
def ledger(request, tmp_path, quick_disk) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    if request.param == "sqlite":
        return SQLiteLedger(quick_disk / "spent.db")
    return JSONLedger(tmp_path / "spent.json", sync=False)


@pytest.fixture
def file(tmp_path) -> JSONLedger:
    return JSONLedger(tmp_path / "spent.json", sync=False)


@pytest.fixture(params=["file", "sqlite"])
def durable(request, tmp_path, quick_disk) -> Ledger:
    if request.param == "sqlite":
        return SQLiteLedger(quick_disk / "spent.db")
    return JSONLedger(tmp_path / "spent.json", sync=False)


def opened(ledger: Ledger, *given) -> Odometer:
    return Odometer(BUDGET, *given, ledger=ledger, dataset=Dataset("adults", "replace-one"))


def alone(ledger: Ledger) -> Ledger:
    """A ledger of one table, where others would have one of their own."""
    return ledger.dataset("adults") if isinstance(ledger, Ledgers) else ledger


def shown(odometer: Odometer) -> list[object]:
    """All that an odometer tells."""
    return [
        odometer.spent,
        odometer.remaining,
        odometer.state,
        odometer.charges,
        odometer.count,
        odometer.readings("1e-7"),
        odometer.affords(TENTH),
        odometer.budget,
        odometer.composition,
    ]


# Both ledgers


class SpendingInAFile(Spending):
    def again(self) -> Ledger:
        return JSONLedger(self.folder / "spent.json", sync=False)

    def ledger(self) -> Ledger:
        self.folder = Path(tempfile.mkdtemp(dir=QUICK))
        return self.again()

    def teardown(self) -> None:
        # What the file says is what the odometer said.
        ledger = self.again()
        again = Odometer(self.budget, ledger=ledger)
        assert again.spent.epsilon == self.epsilon
        assert again.state == self.odometer.state
        if isinstance(ledger, SQLiteLedger):
            assert ledger.verify() >= again.count
        shutil.rmtree(self.folder)


class SpendingInSQLite(SpendingInAFile):
    def again(self) -> Ledger:
        return SQLiteLedger(self.folder / "spent.db")


for kind in (SpendingInAFile, SpendingInSQLite):
    kind.TestCase.settings = settings(
        max_examples=6, stateful_step_count=15, deadline=None, derandomize=True
    )
TestSpendingInAFile = SpendingInAFile.TestCase
TestSpendingInSQLite = SpendingInSQLite.TestCase


def test_they_are_ledgers(ledger):
    assert isinstance(ledger, Ledger)
    assert ledger.read() == Books()
    assert list(ledger.charges()) == []
    assert ledger.stored("nothing") is None


def test_a_second_session_goes_on_where_the_first_one_stands(ledger):
    first = opened(ledger)
    first.charge(TENTH, "first")
    first.charge_all([TENTH, DiscreteGaussianGuarantee(10**6, 1, 1)], "together")
    second = opened(ledger)
    assert (first.session, second.session) == (1, 2)
    assert shown(second) == shown(first)
    second.charge(TENTH, "second")
    assert shown(first) == shown(second)
    assert [(one.number, one.label, one.session) for one in first.charges] == [
        (1, "first", 1),
        (2, "together", 1),
        (3, "together", 1),
        (4, "second", 2),
    ]
    assert list(ledger.charges(2)) == list(first.charges[2:])
    # They end on the budget together.
    while second.affords(TENTH):
        second.charge(TENTH, "second")
    with pytest.raises(BudgetExceeded):
        first.charge(TENTH, "first")


def test_what_is_left_out_is_that_of_the_ledger(ledger):
    bound = Anytime("1e-9", "0.02")
    opened(ledger, ZCDPComposition(), bound)
    again = opened(ledger)
    assert again.composition == ZCDPComposition()
    again.charge(PureGuarantee("0.01"), "x")
    assert again.readings("1e-7").anytime == bound.epsilon(again.spent.rho)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"budget": Budget(2, "1e-6")}, "budget"),
        ({"budget": Budget(1, "1e-7")}, "budget"),
        ({"composition": ZCDPComposition()}, "composition"),
        ({"composition": AnyOf((BasicComposition(),))}, "composition"),
        ({"anytime": Anytime("1e-7", 1)}, "anytime"),
        ({"dataset": Dataset("others", "replace-one")}, "dataset"),
        ({"dataset": Dataset("adults", "add-remove")}, "neighbour"),
        ({"dataset": Dataset("adults", "replace-one", 2)}, "rows of a person"),
        ({"dataset": Dataset("adults", "replace-one", 1, "who")}, "column of persons"),
    ],
)
def test_a_ledger_is_bound_and_refuses_what_conflicts(ledger, given, what):
    opened(ledger, BasicComposition()).charge(TENTH, "x")
    before = ledger.read().to_record()
    asked = {"budget": BUDGET, "dataset": Dataset("adults", "replace-one"), **given}
    with pytest.raises(LedgerConflict, match=what) as caught:
        Odometer(**asked, ledger=alone(ledger))
    assert pickle.loads(pickle.dumps(caught.value)) == caught.value  # noqa: S301
    assert ledger.read().to_record() == before


def test_a_refusal_changes_nothing_on_any_ledger(ledger):
    odometer = opened(ledger, BasicComposition())
    odometer.charge(TENTH, "x")
    before = ledger.read().to_record(), list(ledger.charges()), shown(odometer)
    for run, error in (
        (PureGuarantee("0.95"), BudgetExceeded),
        (DiscreteGaussianGuarantee(9, 1, 1), UnsupportedGuarantee),
    ):
        with pytest.raises(error):
            odometer.charge_all([TENTH, run], "y", request_id="one")
    assert (ledger.read().to_record(), list(ledger.charges()), shown(odometer)) == before
    # What was refused was not charged, so the request may be tried again.
    assert odometer.charge(TENTH, "z", request_id="one") == 2


def test_what_a_decision_raises_passes_and_takes_nothing(ledger):
    opened(ledger)
    before = ledger.read().to_record()

    class Odd(BaseException):
        pass

    def decide(books: Books) -> Decision:
        raise Odd

    with pytest.raises(Odd):
        ledger.transact(decide)
    assert ledger.read().to_record() == before


# Requests


def test_a_request_is_charged_once_however_often_it_is_tried(ledger):
    odometer = opened(ledger)
    assert odometer.charge_all([TENTH, TENTH], "x", request_id="one") == (1, 2)
    assert odometer.charge(TENTH, "x", request_id="two") == 3
    before = shown(odometer)
    for again in (odometer, opened(ledger), ScopeOdometer(odometer, "scope", "0.5")):
        with pytest.raises(AlreadyCharged) as caught:
            again.charge(PureGuarantee("0.9"), "y", request_id="one")
        assert caught.value == AlreadyCharged("one", (1, 2))
    assert shown(odometer)[:4] == before[:4]
    known = ledger.transact(lambda books: Decision(books), "one")
    assert known.repeated
    assert [one.number for one in known.charges] == [1, 2]
    assert ledger.transact(lambda books: Decision(books), "three") == Decision(ledger.read())
    for bad in ("", " ", 3, "a" * 2000):
        with pytest.raises(InvalidArgument, match="request_id"):
            odometer.charge(TENTH, "x", request_id=bad)


def test_the_first_answer_to_a_request_stays(ledger):
    odometer = opened(ledger)
    odometer.charge(TENTH, "x", request_id="one")
    # Between charge and store somebody may have died: it stays charged, and has no answer.
    assert ledger.stored("one") is None
    assert odometer.count == 1
    ledger.store("one", b"\0answer")
    ledger.store("one", b"\0answer")
    with pytest.raises(InvalidArgument, match="answer"):
        ledger.store("one", b"another")
    assert ledger.stored("one") == b"\0answer"
    assert ledger.stored("two") is None
    assert odometer.count == 1


def test_threads_end_exactly_on_the_budget_and_each_request_is_charged_once(ledger):
    odometers = [opened(ledger, BasicComposition()) for _ in range(2)]
    part, done, known = PureGuarantee("0.02"), [], []

    def work(place: int) -> None:
        for turn in range(30):
            try:
                done.append(odometers[place % 2].charge(part, "t", request_id=f"{turn}"))
            except AlreadyCharged as error:
                known.append(error.charges)
            except BudgetExceeded:
                continue

    at_once(work, range(4))
    assert sorted(done) == list(range(1, 31))
    assert len(known) == 90
    assert odometers[0].spent.epsilon == Fraction(30, 50)
    assert len({one.request_id for one in ledger.charges()}) == 30


# What ends with objects, and what does not


def test_a_reserve_in_memory_ends_with_its_scope_for_all_sessions():
    ledger = MemoryLedger()
    first, second = opened(ledger), opened(ledger)
    scope = ScopeOdometer(first, "kept", "0.6", reserve=True)
    other = ScopeOdometer(second, "other", "0.2")
    assert second.remaining.epsilon < 1
    del scope
    assert second.remaining.epsilon == 1
    second.charge(TENTH, "x")
    assert len(ledger.read().accounts) == 1
    assert other.spent.charges == 0


def test_a_scope_in_a_durable_ledger_is_found_again_by_its_name(durable):
    first = opened(durable)
    scope = ScopeOdometer(first, "kept", "0.5", reserve=True)
    scope.charge(TENTH, "x")
    before = scope.spent, scope.remaining
    del scope, first
    second = opened(durable)
    assert second.remaining.epsilon < Fraction(9, 10)
    again = ScopeOdometer(second, "kept", "0.5", reserve=True)
    assert (again.spent, again.remaining) == before
    assert [one.label for one in again.charges] == ["x"]
    for cap, reserve in (("0.6", True), (Budget("0.5", "1e-7"), True), ("0.5", False)):
        with pytest.raises(LedgerConflict, match="kept"):
            ScopeOdometer(second, "kept", cap, reserve=reserve)
    again.close()
    assert opened(durable).remaining.epsilon == Fraction(9, 10)
    with pytest.raises(Closed, match="kept"):
        again.charge(TENTH, "late")
    # Its name is free, and its books do not grow.
    fresh = ScopeOdometer(second, "kept", "0.2")
    assert fresh.spent.charges == 0
    assert len(durable.read().accounts) == 1
    with pytest.raises(Closed):
        again.charge(TENTH, "late")


def test_a_scope_within_a_scope_is_written_and_read(durable):
    odometer = opened(durable, BasicComposition())
    inner = ScopeOdometer(ScopeOdometer(odometer, "outer", "0.5"), "inner", "0.4")
    inner.charge(TENTH, "x")
    second = opened(durable)
    again = ScopeOdometer(ScopeOdometer(second, "outer", "0.5"), "inner", "0.4")
    assert again.remaining == inner.remaining
    assert again.affords(TENTH) == 1
    with pytest.raises(
        LedgerConflict, match=r"within scope .outer.; got one of that name within no other"
    ):
        ScopeOdometer(second, "inner", "0.4")  # of the same name, but within nothing
    outer = again.outer
    assert isinstance(outer, ScopeOdometer)
    outer.close()
    for closed in (again, inner):
        with pytest.raises(Closed, match="outer"):
            closed.charge(TENTH, "late")
    fresh = ScopeOdometer(second, "outer", "0.5")
    assert fresh.affords(TENTH) == 5
    assert [one.name for one in durable.read().accounts.values()] == ["outer"]
    with pytest.raises(Closed):
        inner.charge(TENTH, "late")


@pytest.mark.parametrize("moves", [True, False])
def test_a_division_that_another_session_left_open_ends_with_the_next(durable, moves):
    first = opened(durable, BasicComposition())
    generation = first.generation()
    owner = threading.Event()
    first.divide(generation, 3, moves=moves, owner=owner)
    parts = [PartOdometer(first, f"part {i}", generation, i) for i in range(3)]
    for part, count in zip(parts, (3, 1, 2), strict=True):
        part.charge_all([TENTH] * count, "part")
    with pytest.raises(InvalidArgument, match="partition open"):
        first.divide(first.generation(), 3, moves=moves)
    second = opened(durable)
    if isinstance(durable, SQLiteLedger):  # which can tell whether somebody still has it
        with pytest.raises(LedgerConflict, match="session 1, which has it open"):
            second.divide(second.generation(), 3, moves=moves)
    del owner
    cost = Fraction(5 if moves else 3, 10)
    assert second.spent == first.spent
    assert second.spent.epsilon == cost
    # Its parts may be other rows: they go on from what any kind of neighbours has seen.
    again = second.generation()
    second.divide(again, 3, moves=moves)
    assert again != generation
    assert durable.read().division.generation == again
    part = PartOdometer(second, "part 1", again, 1)
    assert part.spent.epsilon == cost
    part.charge(TENTH, "part")
    assert first.spent.epsilon == second.spent.epsilon == cost + Fraction(1, 10)
    with pytest.raises(Closed, match="part 0"):
        parts[0].charge(TENTH, "late")
    first.merge(generation)
    assert durable.read().division.generation == again
    second.merge(again)
    assert durable.read().division is None
    assert second.spent.epsilon == cost + Fraction(1, 10)


def test_books_of_any_session_are_read_back_as_they_were(ledger):
    """Random sessions; the books after each step are the same after a walk through JSON."""
    rng = random.Random(5)
    odometer = opened(ledger)
    scopes: list[ScopeOdometer] = []
    for turn in range(40):
        kind = rng.randrange(5)
        if kind == 0 and len(scopes) < 4:
            cap = rng.choice([Fraction(rng.randint(1, 20), 100), Budget("0.05", "1e-8")])
            with suppress(BudgetExceeded):
                scopes.append(ScopeOdometer(odometer, f"s{turn}", cap, reserve=rng.random() < 0.5))
        elif kind == 1 and scopes:
            scopes.pop(rng.randrange(len(scopes))).close()
        elif kind == 2:
            division = ledger.read().division
            if division is None:
                odometer.divide(odometer.generation(), 5, moves=rng.random() < 0.5)
            elif rng.random() < 0.3:
                odometer.merge(division.generation)
        else:
            division = ledger.read().division
            payers: list[Odometer] = [odometer, *scopes]
            if division is not None:
                payers += [
                    PartOdometer(odometer, "p", division.generation, rng.randrange(5))
                    for _ in range(3)
                ]
            run = rng.choice(
                [PureGuarantee("0.01"), PureGuarantee("0.2"), DiscreteGaussianGuarantee(9999, 1, 1)]
            )
            with suppress(BudgetExceeded):
                rng.choice(payers).charge(run, "x")
        books = ledger.read()
        record = json.loads(json.dumps(books.to_record()))
        back = Books.from_record(record)
        assert back.to_record() == record
        assert back._replace(division=None) == books._replace(division=None)
    assert ledger.read().runs == len(ledger.charges()) > 5


@pytest.mark.parametrize(("moves", "parts"), [(False, 3000), (True, 60), (True, 1), (False, 1)])
def test_a_large_division_is_read_back_as_it_was(moves, parts):
    ledger = MemoryLedger()
    odometer = Odometer(Budget(1), BasicComposition(), ledger=ledger)
    generation = odometer.generation()
    odometer.divide(generation, parts, moves=moves)
    for part in range(0, parts, 1 if moves else 2):
        run = PureGuarantee(Fraction(1 + part % 7, 1000))
        PartOdometer(odometer, "part", generation, parts - 1 - part).charge(run, "x")
    books = ledger.read()
    back = Books.from_record(json.loads(json.dumps(books.to_record())))
    before, after = books.division, back.division
    assert (before.parts, before.moves, before.places) == (after.parts, after.moves, after.places)
    assert before.bundles == after.bundles
    assert (before.kinds == after.kinds).all()
    assert before.kinds.shape == after.kinds.shape
    # What became equal by a charge of all is still read.
    odometer.charge(PureGuarantee("0.1"), "x")
    equal = evolve(after, bundles=(after.bundles[0],) * len(after.bundles))
    same = back._replace(division=equal)
    assert Books.from_record(same.to_record()).division.bundles == equal.bundles


def test_books_that_no_session_can_have_are_refused(file):
    odometer = opened(file)
    ScopeOdometer(odometer, "s", "0.5").charge(TENTH, "x")
    odometer.divide(odometer.generation(), 2, moves=True)
    generation = file.read().division.generation
    PartOdometer(odometer, "p", generation, 0).charge(TENTH, "x")
    record = file.read().to_record()
    text = json.dumps(record)

    def refused(change):
        other = json.loads(text)
        change(other)
        assert other != record
        with pytest.raises(RecordError):
            Books.from_record(other)

    def state(other):
        return other["division"]["bundles"][0][0]["state"]

    def member(other):
        return state(other)["parts"][0]

    refused(lambda o: member(o).update(spent=["9" * 200, "0"]))
    refused(lambda o: member(o).update(limit=["9" * 200, "0"]))
    refused(lambda o: member(o).update(limit=[]))
    refused(lambda o: state(o).update(parts=[]))
    refused(lambda o: state(o).update(reach="9"))
    refused(lambda o: state(o)["parts"].__setitem__(0, "never"))
    refused(lambda o: o.update(binding=None))
    refused(lambda o: o.update(sessions=0))
    refused(lambda o: o.update(lines=o["division"]["bundles"][0]))
    refused(lambda o: o.update(division=None))
    refused(lambda o: o["division"].update(places=[0, 0]))
    refused(lambda o: o["division"].update(places=[7]))
    refused(lambda o: o["division"].update(kinds=["0 1", "0 1"]))
    refused(lambda o: o["division"].update(kinds=["0 9", "9 0"]))
    refused(lambda o: o["division"].update(kinds=["0"]))
    refused(lambda o: o["division"].update(kinds=["x y", "y x"]))
    refused(lambda o: o["division"].update(kinds=["9" * 30 + " 0", "0 0"]))
    for kinds in (["00 0", "0 0"], ["0 0 0 0"], ["0  0", "0 0"], ["0 0", "0"], ["-2 0", "0 0"]):
        refused(lambda o, kinds=kinds: o["division"].update(kinds=kinds))
    refused(lambda o: o["division"].update(bundles=[[]]))
    refused(lambda o: o["division"].update(bundles=[]))
    refused(lambda o: o["binding"]["budget"].update(epsilon="1/9"))
    refused(lambda o: o["binding"]["start"].update(spent=["1"]))
    refused(lambda o: o["binding"]["start"]["parts"][0].update(limit=["9" * 80, "0"]))
    refused(lambda o: o["accounts"].append(o["accounts"][0]))
    refused(lambda o: o["accounts"][0]["account"].update(runs=99))
    refused(lambda o: o["accounts"][0]["account"]["start"].update(parts=[]))
    assert Books.from_record(json.loads(text)).to_record() == record


# Memory


def test_a_ledger_in_memory_cannot_be_copied_and_shows_copies():
    ledger = MemoryLedger()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyable):
            copied(ledger)
    odometer = opened(ledger)
    odometer.charge(TENTH, "x")


def test_a_decision_within_a_decision_is_refused(ledger):
    odometer, met = opened(ledger, BasicComposition()), []

    class Meddling(Odometer):
        def _check(self, books):
            try:
                odometer.charge(TENTH, "inner")
            except Reentered as error:
                met.append(error)

    meddling = Meddling.__new__(Meddling)
    vars(meddling).update(vars(odometer))
    meddling.charge(TENTH, "outer")
    assert len(met) == 1
    assert odometer.count == 1


# Sessions


def test_a_session_goes_on_with_what_an_earlier_one_left(ledger):
    def session() -> Session:
        return Session(ADULTS, BUDGET, ledger=ledger)

    first = session()
    first.answer(ROWS, using=Laplace("0.1"))
    first.answer(Count(), using=Laplace("0.2"))
    spent, remaining, history = first.spent, first.remaining, first.history
    assert [one.answered for one in history] == [True, True]
    second = session()
    assert (second.spent, second.remaining) == (spent, remaining)
    assert [(one.query, one.mechanism, one.cost) for one in second.history] == [
        (one.query, one.mechanism, one.cost) for one in history
    ]
    assert [one.answered for one in second.history] == [None, None]
    assert str(second.history[0]) == str(history[0])
    assert second.affords(ROWS, using=Laplace("0.1")) == first.affords(ROWS, using=Laplace("0.1"))
    assert second.readings("1e-7") == first.readings("1e-7")
    # Questions of the two are told apart, though both count from one.
    release = second.release(ROWS, using=Laplace("0.1"))
    assert release.cost.epsilon == Fraction(1, 10)
    assert [one.answered for one in second.history] == [None, None, True]
    assert [one.answered for one in first.history] == [True, True, None]
    assert sum(len(one.cost.guarantees) for one in first.history) == first.spent.charges
    with pytest.raises(BudgetExceeded):
        first.answer(ROWS, using=Laplace("0.9"))


def test_scopes_and_partitions_of_a_session_are_in_its_ledger(durable):
    data = PrivateData.from_columns(
        {"age": [39, 50, 38]}, DOMAIN, name="adults", neighbors=Neighbors.ADD_REMOVE
    )

    def session() -> Session:
        return Session(data, Budget(1), composition=BasicComposition(), ledger=durable)

    first = session()
    first.scope("weekly", "0.3").answer(ROWS, using=Laplace("0.2"))
    parts = first.partition("age")
    parts[39].answer(ROWS, using=Laplace("0.4"))
    second = session()
    with pytest.raises(BudgetExceeded):
        second.scope("weekly", "0.3").answer(ROWS, using=Laplace("0.2"))
    if isinstance(durable, SQLiteLedger):  # which can tell whether somebody still has it
        with pytest.raises(LedgerConflict, match="session 1, which has it open"):
            second.partition("age")
        parts.close()
    with second.partition("age") as again:
        assert again[40].spent.epsilon == Fraction(6, 10)
        again[40].answer(ROWS, using=Laplace("0.2"))
        again[41].answer(ROWS, using=Laplace("0.2"))
    assert first.spent.epsilon == second.spent.epsilon == Fraction(8, 10)
    with pytest.raises(Closed):
        parts[39].answer(ROWS, using=Laplace("0.1"))
    with second.scope("weekly", "0.3") as scope:
        assert scope.spent.fraction == pytest.approx(2 / 3)


def test_a_durable_ledger_refuses_what_must_not_last(durable):
    unnamed = PrivateData.from_columns({"age": [39]}, DOMAIN)
    with pytest.raises(InvalidArgument, match="name"):
        Session(unnamed, BUDGET, ledger=durable)
    with pytest.raises(InvalidArgument, match="noise"):
        Session(ADULTS, BUDGET, ledger=durable, noise=seeded(1))

    class Mine(BasicComposition):
        pass

    for composition in (Mine(), AnyOf((Mine(), EnvelopeComposition()))):
        with pytest.raises(InvalidArgument, match="composition"):
            Session(ADULTS, BUDGET, ledger=durable, composition=composition)
    assert durable.read() == Books()
    # In memory all of these are welcome.
    for data, given in (
        (unnamed, {}),
        (ADULTS, {"noise": seeded(1)}),
        (ADULTS, {"composition": Mine()}),
    ):
        Session(data, BUDGET, ledger=MemoryLedger(), **given)
    for bad in (JSONLedger, object(), "spent.json", {}):
        with pytest.raises(InvalidArgument, match="ledger"):
            Session(ADULTS, BUDGET, ledger=bad)
        with pytest.raises(InvalidArgument, match="ledger"):
            Odometer(BUDGET, ledger=bad)


def test_a_session_on_a_ledger_of_something_else_is_refused(ledger):
    Session(ADULTS, BUDGET, ledger=ledger)
    moving = PrivateData.from_columns(
        {"age": [39]}, DOMAIN, name="adults", neighbors=Neighbors.ADD_REMOVE
    )
    other = PrivateData.from_columns({"age": [39]}, DOMAIN, name="others")
    for data, budget, composition, what in (
        (moving, BUDGET, None, "neighbour"),
        (other, BUDGET, None, "dataset"),
        (ADULTS, Budget(2, "1e-6"), None, "budget"),
        (ADULTS, BUDGET, BasicComposition(), "composition"),
    ):
        with pytest.raises(LedgerConflict, match=what):
            Session(data, budget, composition=composition, ledger=alone(ledger))
    assert Session(ADULTS, BUDGET, composition=default_composition(), ledger=ledger).spent


@needs_fork
def test_a_forked_process_opens_an_odometer_of_its_own(durable):
    odometer = opened(durable)

    def work() -> int:
        closed = count_closed(lambda: odometer.charge(TENTH, "inherited"))
        opened(durable).charge(TENTH, "its own")
        return closed

    assert in_a_child(work) == 1
    assert [one.label for one in odometer.charges] == ["its own"]


def test_a_stranger_uses_public_modules_only():
    tree = ast.parse((HERE / "acme_dp" / "ledger.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name and name.startswith("dpsdk")} == {
        "dpsdk.accounting",
        "dpsdk.errors",
    }


# The tests of odometers, scopes and parts, on a ledger that is not the built-in one


class PassingLedger(JSONLedger):
    """Keeps nothing beyond its process, so that scopes end with the objects that stand for them."""

    @property
    def durable(self) -> bool:
        return False


@pytest.mark.parametrize(
    "name",
    [
        "test_odometer.test_charges_are_numbered_from_one_and_remembered",
        "test_odometer.test_a_tenth_ten_times_fills_one_and_no_more",
        "test_odometer.test_refusal_changes_nothing_and_says_what_is_left",
        "test_odometer.test_several_runs_are_charged_all_or_none",
        "test_odometer.test_an_unsupported_run_changes_nothing",
        "test_odometer.test_spent_sums_what_the_runs_are_proven_to_cost",
        "test_odometer.test_it_cannot_be_copied_or_pickled",
        "test_odometer.test_a_refusal_by_the_leaks_of_several_counts_names_their_share",
        "test_odometer.test_a_part_and_a_scope_read_books_that_are_charged",
        "test_nested.test_scopes_nest",
        "test_nested.test_a_refusal_by_the_cap_names_the_scope_and_changes_nothing",
        "test_nested.test_reserves_never_promise_more_than_there_is",
        "test_nested.test_parts_cost_their_maximum_where_a_row_is_in_one_part",
        "test_nested.test_parts_cost_the_two_dearest_where_a_row_may_move",
        "test_nested.test_charges_of_the_session_count_for_every_part",
        "test_nested.test_one_part_alone_is_the_whole_session",
    ],
)
def test_what_odometers_pass_in_memory_they_pass_on_a_ledger_of_another_author(
    name, tmp_path, monkeypatch
):
    made = iter(range(10**6))

    def ledger() -> Ledger:
        return PassingLedger(tmp_path / f"{next(made)}.json", sync=False)

    module, _, test = name.partition(".")
    monkeypatch.syspath_prepend(HERE.parent / "unit" / "accounting")
    monkeypatch.setattr("dpsdk.accounting.odometer.MemoryLedger", ledger)
    getattr(import_module(module), test)()
    assert next(made) > 0


class MeddlingLedger(PassingLedger):
    """Lets something else happen in the middle of a transaction, as a finaliser might."""

    meddle: Callable[[], object] | None = None

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        def meddled(books: Books) -> Decision:
            meddle, self.meddle = self.meddle, None
            if meddle is not None:
                meddle()
            return decide(books)

        return super().transact(meddled, request_id)


def test_what_a_finaliser_closes_within_a_transaction_is_not_lost(tmp_path):
    ledger = MeddlingLedger(tmp_path / "spent.json", sync=False)
    odometer = opened(ledger, BasicComposition())
    scope = ScopeOdometer(odometer, "kept", "0.5", reserve=True)
    dropped = [ScopeOdometer(odometer, "dropped", "0.2", reserve=True)]
    owner = [threading.Event()]
    odometer.divide(odometer.generation(), 2, moves=False, owner=owner[0])

    def meddle() -> None:
        scope.close()
        dropped.clear()
        owner.clear()

    ledger.meddle = meddle
    odometer.charge(TENTH, "x")
    assert odometer.remaining.epsilon == Fraction(9, 10)
    odometer.charge(TENTH, "y")
    books = ledger.read()
    assert books.division is None
    assert [account.name for account in books.accounts.values()] == ["kept"]
    assert odometer.spent.epsilon == Fraction(2, 10)


def test_threads_of_one_session_are_in_a_ledger_together(tmp_path):
    """So that a ledger can write the decisions of several threads at once."""

    class Gathering(PassingLedger):
        barrier = threading.Barrier(3)

        def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
            if request_id is not None:
                self.barrier.wait(timeout=60)
            return super().transact(decide, request_id)

    odometer = opened(Gathering(tmp_path / "spent.json", sync=False))
    threads = [
        threading.Thread(target=odometer.charge, args=(TENTH, "x"), kwargs={"request_id": str(i)})
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert odometer.count == 3


def test_a_ledger_that_loses_charges_is_told(tmp_path):
    class Forgetful(PassingLedger):
        def charges(self, since: int = 0) -> Sequence[Charge]:
            return super().charges(since)[:-1]

    odometer = opened(Forgetful(tmp_path / "spent.json", sync=False))
    odometer.charge(TENTH, "x")
    with pytest.raises(InvalidArgument, match="ledger"):
        _ = odometer.charges


def test_what_the_system_says_to_a_ledger_is_typed_and_not_told(tmp_path):
    """A text of the system may tell how a server is reached."""

    class Failing(PassingLedger):
        fails = False

        def __getattribute__(self, name: str) -> object:
            if name in {"transact", "read", "charges", "store", "stored"} and type(self).fails:
                raise ConnectionRefusedError(111, "postgresql://me:secret@host")
            return super().__getattribute__(name)

    odometer = opened(Failing(tmp_path / "spent.json", sync=False))
    Failing.fails = True
    for attempt in (
        lambda: odometer.charge(TENTH, "x"),
        lambda: odometer.spent,
        lambda: odometer.charges,
        lambda: odometer.store("a", b"7"),
        lambda: odometer.stored("a"),
    ):
        with pytest.raises(LedgerUnavailable) as caught:
            attempt()
        assert str(caught.value) == "the ledger Failing cannot be used: ConnectionRefusedError"
        assert caught.value.__suppress_context__
    Failing.fails = False
    assert odometer.charge(TENTH, "x") == 1


def test_what_a_decision_raises_is_not_taken_for_its_ledger():
    class Odd(BasicComposition):
        def charge(self, state, guarantee):
            raise BlockingIOError("of the composition")

    class InMemory(JSONLedger):
        """Writes nothing, and is none of the package."""

        books = Books()
        durable = False

        def __init__(self) -> None: ...

        def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
            decision = decide(self.books)
            self.books = decision.books
            return decision

    ledger = InMemory()
    with pytest.raises(BlockingIOError, match="of the composition"):
        opened(ledger, Odd()).charge(TENTH, "x")
