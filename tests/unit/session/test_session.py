import copy
import itertools
import pickle
import threading
from fractions import Fraction

import pytest
from attrs import evolve, field, frozen

import dpsdk.kernel.access as access
from dpsdk import Budget, Neighbors, Session
from dpsdk.accounting import (
    AdvancedComposition,
    Anytime,
    BasicComposition,
    Readings,
    ZCDPComposition,
)
from dpsdk.errors import (
    BudgetExceeded,
    Closed,
    InvalidArgument,
    NoMechanism,
    Redacted,
    ReleaseFailed,
    UnsupportedGuarantee,
)
from dpsdk.forms import LinearForm
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure
from dpsdk.mechanisms import Gaussian, Laplace, Mechanism, OneShot
from dpsdk.observe import Answered, Charged, Opened, Refused
from dpsdk.queries import (
    Answers,
    Count,
    Linear,
    Marginal,
    MarginalTable,
    Mean,
    Query,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.release import Cost, Quote, Release
from dpsdk.testing.noise import seeded
from parallel import at_once, count_closed, in_a_child, needs_fork
from worlds import PEOPLE, QUIET, people, quiet, table

DATA = table(people(60, 4))
TENTH = Laplace("0.1")


def opened(epsilon=1, delta=0, **given):
    return Session(DATA, Budget(epsilon, delta), **{"noise": seeded(1), **given})


@frozen
class Keeping(Mechanism[LinearForm]):
    """A mechanism that keeps state: it pays when it opens, and gives its first numbers again."""

    noise: LaplaceNoise = field(factory=lambda: LaplaceNoise("0.2"))
    faulty: bool = False

    def quote(self, form, terms, /):
        pricing = Measure(form, self.noise).price(terms)
        return Quote(Cost((pricing.guarantee,)), Cost((pricing.guarantee,)), pricing.accuracy)

    def open(self, kernel, /):
        measured = kernel.measure(Count().lower(kernel.facts.domain), self.noise)
        if self.faulty:
            raise ValueError("no strategy")

        class Strategy:
            def answer(self, form, kernel, /):
                return measured

        return Strategy()


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        (Count(), float), (Threshold("age", 20), float), (Sum("hours"), float),
        (Mean("age"), float), (Linear(lambda r: 0.5, ["sex"]), float),
        (Marginal("sex", "age"), MarginalTable), (Workload([Count()]), Answers),
    ],
)  # fmt: skip
def test_answers_have_the_type_that_their_query_promises(query, kind):
    session = opened(10)
    assert type(session.answer(query, using=TENTH)) is kind
    release = session.release(query, using=TENTH)
    assert isinstance(release, Release)
    assert type(release.value) is kind
    low, high = release.interval()
    assert type(low) is type(high) is kind
    assert type(release.error()) is float
    with session.open(TENTH) as channel:
        assert type(channel.answer(query)) is kind


def test_a_refusal_leaves_the_session_as_it_was_and_a_smaller_request_passes():
    session = opened()
    session.answer(Count(), using=Laplace("0.7"))
    before = session.spent, session.remaining, session.history, repr(session)
    with pytest.raises(BudgetExceeded) as caught:
        session.answer(Count(), using=Laplace("0.4"))
    assert (session.spent, session.remaining, session.history, repr(session)) == before
    assert "0.7" in caught.value.spent
    session.answer(Count(), using=Laplace("0.3"))
    assert session.spent.epsilon == 1
    assert session.remaining.epsilon == 0
    assert session.remaining.fraction == 0
    with pytest.raises(BudgetExceeded):
        session.answer(Count(), using=Laplace("1e-12"))


def test_ten_tenths_make_one():
    session = opened(1, composition=BasicComposition())
    for _ in range(10):
        session.answer(Count(), using=Laplace(0.1))
    assert session.spent.epsilon == session.budget.epsilon == 1
    with pytest.raises(BudgetExceeded):
        session.answer(Count(), using=Laplace(0.1))


@pytest.mark.parametrize(
    ("composition", "delta"),
    [(None, 0), (None, "1e-6"), (BasicComposition(), 0), (ZCDPComposition(), "1e-6"),
     (AdvancedComposition("1e-7"), "1e-6")],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("mechanism", [TENTH, Laplace("0.03"), Gaussian(rho="0.002")], ids=str)
def test_affords_is_what_fits(composition, delta, mechanism):
    session = opened(1, delta, composition=composition)
    try:
        promised = session.affords(Marginal("sex"), using=mechanism)
    except UnsupportedGuarantee:
        with pytest.raises(UnsupportedGuarantee):
            session.answer(Marginal("sex"), using=mechanism)
        return
    for left in range(promised, 0, -1):
        if left % 50 == 1:
            assert session.affords(Marginal("sex"), using=mechanism) == left
        session.answer(Marginal("sex"), using=mechanism)
    assert session.affords(Marginal("sex"), using=mechanism) == 0
    with pytest.raises(BudgetExceeded):
        session.answer(Marginal("sex"), using=mechanism)


@frozen
class Twofold(OneShot[LinearForm]):
    """Two measurements an answer, of different noise."""

    first: LaplaceNoise
    second: LaplaceNoise | GaussianNoise

    def quote(self, form, terms, /):
        pricings = [Measure(form, noise).price(terms) for noise in (self.first, self.second)]
        cost = Cost(tuple(pricing.guarantee for pricing in pricings))
        return Quote(Cost(()), cost, pricings[0].accuracy)

    def open(self, kernel, /):
        noises = self.first, self.second

        class Strategy:
            def answer(self, form, kernel, /):
                first, _ = (kernel.measure(form, noise) for noise in noises)
                return first

        return Strategy()


@pytest.mark.thorough(quick=5)
@pytest.mark.parametrize(
    "composition", [None, BasicComposition(), ZCDPComposition(), AdvancedComposition()], ids=str
)
@pytest.mark.parametrize("second", [LaplaceNoise("0.07"), GaussianNoise("0.0003")], ids=str)
def test_affords_counts_answers_that_cost_several_runs(composition, second):
    mechanism = Twofold(LaplaceNoise("0.01"), second)
    session = opened(1, "1e-6", composition=composition)
    if isinstance(composition, BasicComposition) and isinstance(second, GaussianNoise):
        with pytest.raises(UnsupportedGuarantee):
            session.affords(Count(), using=mechanism)
        return
    promised = session.affords(Count(), using=mechanism)
    assert promised > 2
    for left in range(promised, 0, -1):
        assert session.affords(Count(), using=mechanism) == left
        session.answer(Count(), using=mechanism)
    assert session.affords(Count(), using=mechanism) == 0
    with pytest.raises(BudgetExceeded):
        session.answer(Count(), using=mechanism)


def test_a_gaussian_after_too_much_pure_spending_does_not_fit():
    session = opened(1, "1e-6")
    session.answer(Count(), using=Laplace("0.9"))
    with pytest.raises(BudgetExceeded):
        session.answer(Count(), using=Gaussian(rho="0.0001"))
    assert session.affords(Count(), using=Gaussian(rho="0.0001")) == 0


def test_a_session_reads_a_bound_that_was_fixed_before_its_first_answer():
    bound = Anytime(delta=1e-6, around="0.01")
    session = opened(1, "1e-6", anytime=bound)
    assert session.readings(1e-6).anytime == 0.0
    for _ in range(3):
        session.answer(Count(), using=TENTH)
    readings = session.readings(1e-6)
    assert isinstance(readings, Readings)
    assert readings.always == session.budget
    assert readings.anytime == bound.epsilon(session.spent.rho)
    assert readings.declared == pytest.approx(0.3, rel=1e-4)
    assert opened().readings(1e-6).anytime is None
    with pytest.raises(InvalidArgument, match="delta"):
        session.readings(0)


def test_a_question_that_no_record_moves_is_free_for_ever():
    data = table(people(60, 4, stray=False), outside="raise")
    session = Session(data, Budget(1), noise=seeded(1))
    assert session.affords(Count(), using=TENTH) is None
    assert session.release(Count(), using=TENTH).cost.free
    assert session.answer(Count(), using=TENTH) == 1.0
    assert session.spent.epsilon == 0


@pytest.mark.parametrize("mechanism", [TENTH, Gaussian(rho="0.01")], ids=str)
@pytest.mark.parametrize(
    "query", [Count(), Marginal("sex", "age"), Sum("age"), Workload([Count(), Marginal("hours")])]
)
def test_a_quote_spends_and_reads_nothing_and_is_what_the_release_then_says(
    query, mechanism, monkeypatch
):
    session = opened(1, "1e-6")
    before = session.spent, session.remaining, session.history
    with monkeypatch.context() as patch:
        patch.setattr(access, "open_histogram", None)
        patch.setattr(session._context.noise.__class__, "draw", None)
        quote = session.quote(query, using=mechanism)
        errors = [quote.error(beta) for beta in (0.01, 0.05, 0.5)]
        bound = quote.bound()
        repr(quote)
        session.affords(query, using=mechanism)
    assert (session.spent, session.remaining, session.history) == before
    release = session.release(query, using=mechanism)
    assert errors == [release.error(beta) for beta in (0.01, 0.05, 0.5)]
    assert bound == release.bound()
    assert quote.at_most == release.cost
    assert quote.at_open.free


def test_a_quote_of_a_mean_promises_no_more_than_its_range():
    session = opened(10)
    quote = session.quote(Mean("age"), using=TENTH)
    assert quote.error() == 7
    assert quote.bound().vacuous
    assert quote.at_most == session.release(Mean("age"), using=TENTH).cost


def test_the_history_has_every_release_in_order():
    session = opened(1)
    release = session.release(Count({"sex": "Male"}), using=TENTH)
    session.answer(Marginal("sex"), using=Laplace("0.2"))
    with pytest.raises(BudgetExceeded):
        session.answer(Count(), using=Laplace(5))
    first, second = session.history
    assert (first.query, first.mechanism) == (release.query, "Laplace(epsilon=0.1)")
    assert first.cost == release.cost
    assert first.answered
    assert second.cost.epsilon == Fraction(1, 5)
    assert isinstance(session.history, tuple)
    total = sum(entry.cost.epsilon for entry in session.history)
    assert total == session.spent.epsilon


def test_receipts_stay_what_they_are_while_others_come():
    session = opened()
    session.answer(Count(), using=Laplace("0.1"))
    first = session.history
    assert session.history is first
    session.answer(Count(), using=Laplace("0.2"))
    assert session.history[0] is first[0]
    assert [str(one.cost.epsilon) for one in session.history] == ["1/10", "1/5"]


def test_a_charge_that_came_to_nothing_stays_in_the_history(monkeypatch):
    session = opened(1)

    def broken(owner):
        raise ValueError("secret")

    monkeypatch.setattr(access, "open_histogram", broken)
    with pytest.raises(ReleaseFailed):
        session.answer(Count(), using=TENTH)
    (entry,) = session.history
    assert not entry.answered
    assert entry.cost.epsilon == session.spent.epsilon == Fraction(1, 10)


def test_opening_that_fails_after_paying_is_an_entry_without_an_answer():
    session = opened(1)
    with pytest.raises(ValueError, match="no strategy"):
        session.open(Keeping(faulty=True))
    (entry,) = session.history
    assert not entry.answered
    assert entry.query == ""
    assert session.spent.epsilon == Fraction(1, 5)


def test_a_session_prints_what_was_spent_and_what_is_left():
    session = opened(1)
    session.answer(Count(), using=TENTH)
    text = repr(session)
    assert "1 charge)" in text
    assert "epsilon 0.1" in text
    assert "0.9" in text
    assert "NOT PRIVATE" in text
    session.close()
    assert "closed" in repr(session)
    assert "NOT PRIVATE" not in repr(Session(DATA, Budget(1)))


def test_a_closed_session_answers_nothing_more_through_any_door():
    session = opened(1)
    channel = session.open(TENTH)
    channel.answer(Count())
    with session:
        session.answer(Count(), using=TENTH)
    spent = session.spent
    for ask in (
        lambda: session.answer(Count(), using=TENTH),
        lambda: session.release(Count(), using=TENTH),
        lambda: session.open(TENTH),
        lambda: session.answer(Count(), using=channel),
        lambda: channel.answer(Count()),
        lambda: channel.release(Count()),
    ):
        with pytest.raises(Closed, match="the session"):
            ask()
    assert session.spent == spent
    session.close()


@pytest.mark.parametrize("using", [Keeping(), Laplace, "laplace", 0.1, object()])
def test_using_takes_a_one_shot_mechanism_or_an_open_channel_only(using):
    session = opened(1)
    with pytest.raises(InvalidArgument) as caught:
        session.answer(Count(), using=using)
    assert caught.value.parameter == "using"
    assert session.spent.charges == 0


def test_a_mechanism_need_not_be_named_but_must_be_found():
    assert opened().release(Count(normalized=False)).because
    with pytest.raises(NoMechanism, match="Count"):
        opened(Fraction(1, 10**9)).answer(Count())


def test_what_is_no_query_or_mechanism_is_refused():
    session = opened()
    for query in ("count", None, Count, Count().lower(PEOPLE)):
        with pytest.raises(InvalidArgument, match="query"):
            session.answer(query, using=TENTH)
    for using in (None, "x", session.open(TENTH)):
        with pytest.raises(InvalidArgument, match="using"):
            session.quote(Count(), using=using)
        with pytest.raises(InvalidArgument, match="using"):
            session.affords(Count(), using=using)
    with pytest.raises(InvalidArgument, match="mechanism"):
        session.open("laplace")
    assert session.spent.charges == 0


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: Session("data", Budget(1)), "data"),
        (lambda: Session(DATA, 1), "budget"),
        (lambda: Session(DATA, Budget(1), composition="basic"), "composition"),
        (lambda: Session(DATA, Budget(1), noise=7), "noise"),
        (lambda: Session(DATA, Budget(1), anytime=1e-6), "anytime"),
    ],
)
def test_a_session_is_made_of_a_table_and_a_budget(make, parameter):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.parameter == parameter


def test_a_mechanism_that_keeps_state_pays_when_it_opens():
    session = opened(1)
    with session.open(Keeping()) as channel:
        assert session.spent.epsilon == Fraction(1, 5)
        first = channel.release(Count())
        assert session.answer(Count(), using=channel) == first.value
        assert first.cost.free
    assert session.spent.epsilon == Fraction(1, 5)
    assert [entry.query for entry in session.history] == ["", "Count()", "Count()"]
    with pytest.raises(BudgetExceeded):
        opened("0.1").open(Keeping())


def test_the_relation_and_the_domain_are_those_of_the_table():
    session = Session(table(people(9, 1), Neighbors.ADD_REMOVE, max_rows=20), Budget(2))
    assert session.domain == PEOPLE
    assert session.facts.neighbors is Neighbors.ADD_REMOVE
    assert session.facts.rows is None
    assert session.budget == Budget(2)
    assert "private rows" in repr(session)


# Noise.


def test_seeded_noise_repeats_and_marks_every_release():
    queries = [Count(), Marginal("age", "sex"), Threshold("age", 20)] * 3

    def run(seed):
        session = opened(10, noise=seeded(seed))
        releases = [session.release(q, using=TENTH) for q in queries]
        assert all(not release.private for release in releases)
        return [repr(release.value) for release in releases]

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_the_systems_noise_is_the_default_does_not_repeat_and_carries_no_mark():
    def run():
        session = Session(DATA, Budget(10))
        releases = [session.release(Marginal("age", "sex"), using=TENTH) for _ in range(5)]
        assert all(release.private for release in releases)
        assert "NOT PRIVATE" not in repr(releases[0])
        return [release.value.values.tolist() for release in releases]

    assert run() != run()


# Observers.


def test_an_observer_hears_what_happens_in_order_and_nothing_private():
    events = []
    session = opened(1, observer=events.append)
    session.answer(Count(), using=TENTH)
    session.answer(Count(), using=TENTH)
    with pytest.raises(BudgetExceeded):
        session.answer(Count(), using=Laplace(5))
    kinds = [type(event) for event in events]
    assert kinds == [Opened, Charged, Answered, Charged, Answered, Opened, Refused]
    assert events[1].query == events[2].query == "Count()"
    assert [event.number for event in events if isinstance(event, Charged)] == [1, 2]
    other = []
    neighbour = Session(
        table([{**people(60, 4)[0], "age": 24}, *people(60, 4)[1:]]),
        Budget(1), noise=seeded(1), observer=other.append,
    )  # fmt: skip
    neighbour.answer(Count(), using=TENTH)
    assert other == events[:3]
    told = [repr([evolve(event, at=None) for event in some]) for some in (other, events[:3])]
    assert told[0] == told[1]


def test_an_observer_that_raises_loses_no_answer_that_was_paid_for():
    def angry(event):
        raise ValueError(type(event).__name__)

    session = opened(1, observer=angry)
    assert isinstance(session.answer(Count(), using=TENTH), float)
    assert session.history[0].answered
    with session.open(Keeping()) as channel:
        assert isinstance(channel.answer(Count()), float)
    with pytest.raises(ValueError, match="Refused"):
        session.answer(Count(), using=Laplace(5))
    assert session.spent.epsilon == Fraction(3, 10)


# Threads and processes.


@pytest.mark.thorough
def test_sixteen_threads_end_exactly_on_the_budget():
    threads, tries, fits = 16, 40, 400
    session = opened(fits, composition=BasicComposition(), noise=None)
    barrier = threading.Barrier(threads)
    outcomes = []

    def work(number):
        mine = []
        channel = session.open(Laplace(1)) if number % 2 else None
        barrier.wait(timeout=30)
        for turn in range(tries):
            query = (Count(), Marginal("age", "sex"), Threshold("age", 17 + turn % 8))[turn % 3]
            try:
                session.answer(query, using=channel or Laplace(1))
                mine.append(True)
            except BudgetExceeded:
                mine.append(False)
        outcomes.append(mine)

    at_once(work, range(threads))
    answered = list(itertools.chain(*outcomes))
    assert len(answered) == threads * tries
    assert sum(answered) == fits
    assert session.spent.epsilon == fits
    assert len(session.history) == fits
    assert sum(entry.cost.epsilon for entry in session.history) == fits
    assert all(len(entry.cost.guarantees) == 1 for entry in session.history)


@needs_fork
def test_a_forked_child_cannot_spend_the_budget_again():
    session = opened(1, "1e-6", noise=None)
    channel = session.open(TENTH)
    channel.answer(Count())

    def child():
        closed = count_closed(
            lambda: session.answer(Count(), using=TENTH),
            lambda: channel.answer(Count()),
            lambda: session.answer(Marginal("sex"), using=Gaussian(rho="0.001")),
        )
        return 10 * session.spent.charges + closed

    assert in_a_child(child) == 13
    session.answer(Count(), using=TENTH)
    assert session.spent.charges == 2


@pytest.mark.parametrize("look", [copy.copy, copy.deepcopy, pickle.dumps])
def test_sessions_channels_scopes_and_parts_are_not_copied(look):
    session = opened()
    scope, parts = session.scope("copy", share=1), session.partition("sex")
    for thing in (session, session.open(TENTH), scope, parts["Male"]):
        with pytest.raises(Redacted):
            look(thing)


def test_a_query_of_a_stranger_may_fail_to_lift_and_stays_charged():
    class Odd(Query[float]):
        def lower(self, domain, /):
            return Count().lower(domain)

        def lift(self, raw, facts, /):
            raise RuntimeError("odd")

    session = opened()
    with pytest.raises(RuntimeError, match="odd"):
        session.answer(Odd(), using=TENTH)
    assert session.spent.epsilon == Fraction(1, 10)
    assert not session.history[0].answered


@pytest.mark.thorough
def test_many_queries_and_mechanisms_are_not_kept_for_ever():
    session = quiet(DATA)
    for number in range(600):
        session.answer(Count({"age": {17, 17 + number % 8}}), using=QUIET)
        session.answer(Count(), using=Laplace(1 + Fraction(number, 1000)))
    assert len(session._channels) <= 256
    assert len(session._context.forms._known) <= 256
