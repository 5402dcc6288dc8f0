import gc
import threading
from weakref import ref

import attrs
import numpy as np
import pytest

from dpsdk import Budget, Session
from dpsdk._identity_map import IdentityMap
from dpsdk.accounting import BasicComposition, MemoryLedger, Odometer
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, QueryError
from dpsdk.hypothesis import DenseHypothesis, layout, marginals
from dpsdk.kernel import Kernel, LaplaceNoise, lattice
from dpsdk.mechanisms import MWEM, Gaussian, Laplace, NoisyHistogram, OnlinePMW, SmallDB
from dpsdk.observe import Answered, Charged, Refused
from dpsdk.queries import Above, Count, Linear, Marginal, Query, Sum, Threshold, Workload
from dpsdk.session.memo import FormMemo
from dpsdk.testing.noise import seeded
from parallel import at_once
from worlds import PEOPLE, people, table

DATA = table(people(60, 4))


def opened(epsilon=10):
    return Session(DATA, Budget(epsilon, "1e-6"), noise=seeded(1))


def test_a_channel_answers_like_its_session():
    one, two = opened(), opened()
    queries = [Count(), Marginal("sex"), Threshold("age", 20)]
    with two.open(Laplace(1)) as channel:
        for query in queries:
            assert repr(one.answer(query, using=Laplace(1))) == repr(channel.answer(query))
    assert one.spent == two.spent
    assert one.history == two.history


def test_a_closed_channel_answers_nothing_and_the_session_goes_on():
    session = opened()
    with session.open(Laplace(1)) as channel:
        assert not channel.closed
    assert channel.closed
    assert repr(channel) == "Channel(Laplace(epsilon=1), closed)"
    for ask in (
        lambda: channel.answer(Count()),
        lambda: channel.release(Count()),
        lambda: session.answer(Count(), using=channel),
    ):
        with pytest.raises(Closed, match="the channel to Laplace"):
            ask()
    channel.close()
    assert session.spent.charges == 0
    session.answer(Count(), using=Laplace(1))


@pytest.mark.parametrize(
    "using",
    [
        Laplace(1), NoisyHistogram(epsilon=1), SmallDB(Marginal("sex"), epsilon=1, size=3),
        MWEM(Marginal("sex"), epsilon=1, rounds=1), OnlinePMW(1, updates=1),
    ],
    ids=str,
)  # fmt: skip
def test_a_channel_refuses_forms_of_another_kind_by_a_typed_error(using):
    with opened().open(using) as channel, pytest.raises((InvalidArgument, QueryError)):
        channel.answer(Above(Count(normalized=False), 2))


def test_a_channel_closes_when_its_block_fails():
    session = opened()
    with pytest.raises(ZeroDivisionError), session.open(Laplace(1)) as channel:
        raise ZeroDivisionError
    assert channel.closed


def test_a_channel_of_another_session_is_refused_and_neither_pays():
    one, two = opened(), opened()
    channel = one.open(Laplace(1))
    with pytest.raises(InvalidArgument, match="using"):
        two.answer(Count(), using=channel)
    assert one.spent.charges == two.spent.charges == 0


def test_channels_may_be_used_in_turns():
    session = opened(20)
    laplace, gaussian = session.open(Laplace(1)), session.open(Gaussian(rho="0.001"))
    for _ in range(3):
        laplace.answer(Count())
        gaussian.answer(Count())
    assert [entry.mechanism for entry in session.history] == [
        "Laplace(epsilon=1)",
        "Gaussian(rho=0.001)",
    ] * 3


def test_each_question_is_charged_to_its_own_entry_across_threads():
    session = Session(DATA, Budget(1000))
    barrier = threading.Barrier(8)

    def work(number):
        with session.open(Laplace(number)) as channel:
            barrier.wait(timeout=30)
            for _ in range(10):
                assert channel.release(Count()).cost.epsilon == number

    at_once(work, range(1, 9))
    assert len(session.history) == 80
    for entry in session.history:
        assert entry.mechanism == f"Laplace(epsilon={entry.cost.epsilon})"


class Counting(Query[float]):
    """Counts how often it is lowered."""

    def __init__(self):
        self.lowered = 0

    def lower(self, domain, /):
        self.lowered += 1
        return Count().lower(domain)

    def lift(self, raw, facts, /):
        return float(raw[0])


def test_a_form_is_kept_for_a_query_of_the_package_and_built_each_time_for_others():
    lowered = FormMemo(DATA.facts)
    one, equal = Count(), Count()
    first = lowered.form(one)
    assert lowered.form(one) is first
    assert lowered.form(equal) is not first
    others = [Count() for _ in range(300)]
    for other in others:
        lowered.form(other)
    assert lowered.form(one) is not first
    assert lowered.facts.domain == PEOPLE
    mine = Counting()
    inside = Workload([Count(), mine])
    for query in (mine, inside):
        assert lowered.form(query) is not lowered.form(query)
    assert mine.lowered == 4


def test_forms_are_kept_by_the_bytes_that_they_take_and_while_their_queries_live(monkeypatch):
    queries = [Linear(np.ones(PEOPLE.shape)) for _ in range(20)]
    size = queries[0].lower(PEOPLE).nbytes
    monkeypatch.setattr(FormMemo, "_KEPT_BYTES", 10 * size)
    lowered = FormMemo(DATA.facts)
    forms = [ref(lowered.form(query)) for query in queries]
    gc.collect()
    kept = [form() is not None for form in forms]
    assert 1 <= sum(kept) < 10
    assert kept[-1]
    queries.clear()
    lowered.form(Count())
    gc.collect()
    assert not any(form() is not None for form in forms)
    monkeypatch.setattr(FormMemo, "_KEPT_BYTES", size // 2)
    wide, lowered = Linear(np.ones(PEOPLE.shape)), FormMemo(DATA.facts)
    assert lowered.form(wide) is not lowered.form(wide)


def test_nothing_that_is_kept_by_form_grows_without_bound(monkeypatch):
    queries = [Threshold("age", t) for t in range(17, 27)] + [Marginal("sex"), Sum("age")]
    queries += [Workload([query, Count()]) for query in queries]
    forms = [query.lower(PEOPLE) for query in queries]
    few = {
        lattice: ("_prepared", IdentityMap(4, 2**20)),
        layout: ("_known", IdentityMap(100, 2**12)),
        marginals: ("_known", IdentityMap(4, 2**12)),
    }

    def answers():
        kernel = Kernel(DATA, Odometer(Budget(10**6), BasicComposition()), seeded(3), "x")
        measured = [kernel.measure(form, LaplaceNoise(1)).values for form in forms * 2]
        hypothesis = DenseHypothesis.uniform(PEOPLE)
        public = [hypothesis.answers(form) for form in forms * 2]
        return np.concatenate(measured + public)

    before = answers()
    for module, (name, memo) in few.items():
        monkeypatch.setattr(module, name, memo)
    assert (answers() == before).all()
    for _, memo in few.values():
        assert memo.size <= 2**20
        assert 1 <= len(memo) < 12


class Kept(Query[float]):
    """Counts the people of an age that it looks up in what it holds."""

    def lower(self, domain, /):
        return Count({"age": self.age()}).lower(domain)

    def lift(self, raw, facts, /):
        return float(raw[0])


class InDict(Kept):
    def __init__(self, held):
        self.held = held

    def age(self):
        return int(self.held[0])


@attrs.frozen(eq=False)
class InField(Kept):
    held: object

    def age(self):
        return int(self.held[0])


@pytest.mark.parametrize("kind", [InDict, InField])
def test_a_query_that_holds_what_changed_is_lowered_anew(kind):
    lowered, held = FormMemo(DATA.facts), [20]
    query = kind(held)
    before = lowered.form(query).identity
    held[0] = 21
    assert lowered.form(query).identity == kind([21]).lower(PEOPLE).identity != before


@pytest.mark.parametrize(
    "query",
    [
        Count(), Count({"sex": "Male"}), Threshold("age", 30), Marginal("age", "sex"),
        Workload([Count(), Marginal("sex")]), Sum("age"), Above(Count(), 0.5),
        Linear(lambda record: float(record["age"] > 30), attributes=["age"]),
        Linear(np.ones(PEOPLE.shape)),
    ],
)  # fmt: skip
def test_a_query_of_values_that_stay_is_lowered_once(query):
    lowered = FormMemo(DATA.facts)
    assert lowered.form(query) is lowered.form(query)


class Failing:
    """A ledger whose charges cannot be read at times."""

    durable = False

    def __init__(self):
        self.kept, self.fails = MemoryLedger(), False

    def transact(self, decide, request_id=None):
        return self.kept.transact(decide, request_id)

    def read(self):
        return self.kept.read()

    def charges(self, since=0):
        if self.fails:
            raise OSError
        return self.kept.charges(since)

    def store(self, request_id, answer):
        raise NotImplementedError

    def stored(self, request_id):
        raise NotImplementedError


def test_a_ledger_that_cannot_be_read_hides_no_error_and_no_event():
    ledger, events = Failing(), []
    composition = BasicComposition()
    session = Session(
        DATA, Budget(1), composition=composition, noise=seeded(1), ledger=ledger,
        observer=events.append,
    )  # fmt: skip
    channel = session.open(Laplace("0.6"))
    events.clear()
    ledger.fails = True
    assert isinstance(channel.answer(Count()), float)
    with pytest.raises(BudgetExceeded):
        channel.answer(Count())
    assert [type(event) for event in events] == [Charged, Answered, Refused]
    ledger.fails = False
    assert [receipt.answered for receipt in session.history] == [True]
