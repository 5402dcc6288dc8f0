"""Progress is told while a strategy works, where nobody waits, and never from behind the wall."""

import threading
from contextlib import suppress

import pytest
from attrs import field, frozen

from dpsdk import Budget, Session
from dpsdk._locks import ExclusiveLock
from dpsdk.accounting import BasicComposition, MemoryLedger, Odometer, PureGuarantee
from dpsdk.errors import Closed, InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, LaplaceNoise
from dpsdk.mechanisms import Laplace, OneShot
from dpsdk.observe import Answered, Charged, Opened, Progress, Refused
from dpsdk.queries import Count
from dpsdk.testing import seeded
from worlds import people, table

DATA = table(people(40, 9))


@frozen
class Working(OneShot[LinearForm]):
    """Does what it is told before it measures."""

    work: object = field(eq=False)

    def quote(self, form, terms, /):
        raise NotImplementedError

    def open(self, kernel, /):
        return self

    def answer(self, form, kernel, /):
        self.work(kernel)
        return kernel.measure(form, LaplaceNoise("0.1"))

    def __repr__(self):
        return "Working"


def asked(work, observer=None, epsilon=1):
    """All events of one question whose strategy does some work, and when each was told."""
    events = []

    def told(event):
        events.append(event)
        if observer is not None:
            observer(event)

    session = Session(DATA, Budget(epsilon), noise=seeded(1), observer=told)
    try:
        session.answer(Count(), using=Working(lambda kernel: work(kernel, events)))
    finally:
        events.append(session)
    return events


def only(events):
    return [event.done for event in events if type(event) is Progress]


def test_it_is_told_while_the_strategy_works_and_in_order():
    seen = []

    def work(kernel, events):
        kernel.progress(0, 3, "rounds")
        kernel.measure(Count().lower(kernel.facts.domain), LaplaceNoise("0.1"))
        kernel.progress(1, 3, "rounds")
        seen.extend(events)
        kernel.progress(3, 3, "rounds")

    events = asked(work)[:-1]
    assert [type(event) for event in seen] == [Opened, Progress, Charged, Progress]
    assert [type(event) for event in events[4:]] == [Progress, Charged, Answered]
    assert seen[1] == Progress(repr(Count()), "Working", 0, 3, "rounds")


def test_it_costs_nothing_and_is_no_line_of_the_history():
    events = asked(lambda kernel, _: [kernel.progress(n, 10) for n in range(11)])
    session = events[-1]
    assert session.spent.charges == len(session.history) == 1


@pytest.mark.thorough
def test_how_often_it_is_told_depends_on_counts_alone():
    def thousands(kernel, _):
        for done in range(100_001):
            kernel.progress(done, 100_000)

    def endless(kernel, _):
        for done in range(1025):
            kernel.progress(done)

    assert only(asked(thousands)) == list(range(0, 100_001, 1000))
    assert only(asked(endless)) == [0] + [2**k for k in range(11)]
    assert only(asked(lambda kernel, _: [kernel.progress(n, 9) for n in (4, 2, 4, 5)])) == [4, 5]


def test_units_are_told_apart():
    def work(kernel, _):
        for done in range(3):
            kernel.progress(done, 2, "outer")
            kernel.progress(done, 2, "inner")

    told = [(e.unit, e.done) for e in asked(work) if type(e) is Progress]
    assert told == [(unit, done) for done in range(3) for unit in ("outer", "inner")]


def test_it_is_not_told_while_a_turn_is_held():
    lock, seen = ExclusiveLock("a strategy"), []

    def work(kernel, events):
        lock.run(lambda: kernel.progress(1, 4))
        seen.append(only(events))
        kernel.progress(2, 4)
        seen.append(only(events))
        lock.run(lambda: kernel.progress(3, 4))

    assert only(asked(work)) == [1, 2, 3]
    assert seen == [[], [1, 2]]


def test_another_thread_leaves_it_to_the_one_that_asked():
    seen, threads = [], []

    def work(kernel, events):
        worker = threading.Thread(target=kernel.progress, args=(1, 3), daemon=True)
        worker.start()
        worker.join(timeout=30)
        seen.append(only(events))
        kernel.progress(2, 3)
        seen.append(only(events))

    def observer(event):
        threads.append(threading.current_thread())

    asked(work, observer)
    assert seen == [[], [1, 2]]
    assert set(threads) == {threading.current_thread()}


def test_an_observer_may_ask_meanwhile():
    answers = []

    def observer(event):
        if type(event) is Progress and not answers:
            answers.append(None)
            answers.append(event)
            answers[0] = sessions[0].answer(Count(), using=Laplace("0.1"))

    sessions = []
    session = Session(DATA, Budget(1), noise=seeded(1), observer=observer)
    sessions.append(session)
    session.answer(Count(), using=Working(lambda kernel: kernel.progress(1, 2)))
    assert isinstance(answers[0], float)
    assert session.spent.charges == len(session.history) == 2


def test_an_exception_of_the_observer_is_dropped_and_an_interrupt_ends_the_question():
    def angry(event):
        if type(event) is Progress:
            raise ValueError

    assert type(asked(lambda kernel, _: kernel.progress(1, 2), angry)[-2]) is Answered

    def stop(event):
        if type(event) is Progress and event.done == 2:
            raise KeyboardInterrupt

    def work(kernel, events):
        kernel.measure(Count().lower(kernel.facts.domain), LaplaceNoise("0.1"))
        for done in range(4):
            kernel.progress(done, 4)
        found.append("went on")

    found = []
    session = Session(DATA, Budget(1), noise=seeded(1), observer=stop)
    with pytest.raises(KeyboardInterrupt):
        session.answer(Count(), using=Working(lambda kernel: work(kernel, None)))
    assert not found
    assert session.spent.charges == 1
    assert [entry.answered for entry in session.history] == [False]
    session.answer(Count(), using=Laplace("0.1"))


def test_nothing_is_told_from_behind_the_wall():
    def work(kernel, events):
        access = kernel._access
        access.read(access.charge(run), lambda noise, opened: inside(kernel))
        before.extend(only(events))
        kernel.progress(3, 4)

    def inside(kernel):
        kernel.progress(1, 4)
        return True

    run, before = PureGuarantee("0.1"), []
    assert only(asked(work)) == [3]
    assert before == []


def test_a_refusal_comes_before_what_follows_it():
    def work(kernel, events):
        try:
            kernel.measure(Count().lower(kernel.facts.domain), LaplaceNoise(5))
        except Exception:
            kernel.progress(1, 2)

    kinds = [type(event) for event in asked(work)[:-1]]
    assert kinds == [Opened, Refused, Progress, Charged, Answered]


@pytest.mark.parametrize(
    "given",
    [
        (-1, 2), (3, 2), (0, 0), (1.5, 2), (1, 2.5), ("1", 2), (1, 2, ""), (1, 2, 3),
        (True, None, " "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("observed", [True, False])
def test_counts_that_are_none_are_refused(given, observed):
    observer = (lambda event: None) if observed else None
    session = Session(DATA, Budget(1), noise=seeded(1), observer=observer)
    with pytest.raises(InvalidArgument):
        session.answer(Count(), using=Working(lambda kernel: kernel.progress(*given)))
    assert session.spent.charges == 0


def test_units_without_end_are_refused():
    def work(kernel, _):
        for number in range(20):
            kernel.progress(1, 2, f"unit {number}")

    with pytest.raises(InvalidArgument, match="unit"):
        asked(work)


def test_a_question_that_is_over_tells_nothing():
    kernels = []
    asked(lambda kernel, _: kernels.append(kernel))
    with pytest.raises(Closed):
        kernels[0].progress(1, 2)


def test_without_a_session_nobody_is_told():
    events = []
    odometer = Odometer(Budget(1), BasicComposition())
    Kernel(DATA, odometer, seeded(1), "x", events.append).progress(1, 2)
    assert not events


class Locking:
    """A ledger with a lock of its own, in which a finaliser may come at any call."""

    durable = False

    def __init__(self, finaliser):
        self.kept, self.lock, self.finaliser = MemoryLedger(), threading.RLock(), finaliser

    def __getattr__(self, name):
        call = getattr(self.kept, name)

        def locked(*given):
            with self.lock:
                self.finaliser(name)
                return call(*given)

        return locked

    def transact(self, decide, request_id=None):
        return self.__getattr__("transact")(decide, request_id)

    def read(self):
        return self.__getattr__("read")()

    def charges(self, since=0):
        return self.__getattr__("charges")(since)

    def store(self, request_id, answer):
        raise NotImplementedError

    def stored(self, request_id):
        raise NotImplementedError


@pytest.mark.parametrize("call", ["transact", "read", "charges"])
def test_it_is_not_told_from_within_a_ledger(call):
    kernels, told, within = [], [], 0

    def finaliser(name):
        nonlocal within
        if kernels and name == call:
            within += 1
            with suppress(Closed):
                kernels[0].progress(within)

    ledger = Locking(finaliser)

    def observer(event):
        if type(event) is Progress:
            told.append(ledger.lock._is_owned())

    session = Session(DATA, Budget(1), noise=seeded(1), observer=observer, ledger=ledger)

    def work(kernel):
        kernels.append(kernel)
        session.remaining  # noqa: B018  # reads the books
        session.history  # noqa: B018  # and the charges

    session.release(Count(), using=Working(work))
    assert within
    assert told
    assert not any(told)
