"""Callbacks, finalisers and forked processes that meet a lock go on or are refused: none waits."""

import gc
import importlib
import os
import pkgutil
import sys
import threading
from contextlib import suppress
from fractions import Fraction
from functools import cached_property

import pytest

import dpsdk
from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk._locks import ExclusiveLock
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.errors import Closed, Reentered
from dpsdk.forms import GapForm, Kronecker, LinearForm, Range
from dpsdk.kernel import Kernel, LaplaceNoise, Watching
from dpsdk.mechanisms import Laplace, NumericSparse, OnlinePMW
from dpsdk.noise import DiscreteLaplace, NoiseSource, SystemNoise
from dpsdk.observe import Charged
from dpsdk.planner import trial
from dpsdk.queries import Above, Count
from dpsdk.testing import seeded
from parallel import at_once, count_closed, held, in_a_child, needs_fork
from worlds import people, table

DATA = table(people(60, 4))
MALE = Count({"sex": "Male"})


def within(seconds, work):
    """What some work gives, in a thread that may hang for all that the test cares."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(timeout=seconds)
    assert found, "it hangs, or it raised"
    return found[0]


def online(**given):
    return OnlinePMW(1, updates=2, start="uniform", threshold=1e-9, **given)


def test_an_observer_may_read_the_hypothesis_when_it_is_told_of_a_charge():
    seen = []

    def observer(event):
        if isinstance(event, Charged) and event.query:
            seen.append(channel.hypothesis.answers(MALE.lower(DATA.domain))[0])

    session = Session(DATA, Budget(10), noise=seeded(1), observer=observer)
    channel = session.open(online())
    release = within(60, lambda: channel.release(MALE))
    # The state is consistent: what was learnt is in the hypothesis already.
    assert len(seen) == len(release.cost.guarantees) > 0
    assert set(seen) == {channel.hypothesis.answers(MALE.lower(DATA.domain))[0]}


def test_an_observer_may_ask_the_same_channel_when_it_is_told_of_a_charge():
    asked = []

    def observer(event):
        if isinstance(event, Charged) and not asked:
            asked.append(event)
            asked.append(channel.answer(MALE))

    session = Session(DATA, Budget(10), noise=seeded(1), observer=observer)
    channel = session.open(online())
    within(60, lambda: channel.answer(MALE))
    assert len(asked) == 2
    assert [entry.query for entry in session.history] == [str(MALE)] * 2
    assert sum(e.cost.epsilon for e in session.history) == session.spent.epsilon


class Meddling(BasicComposition):
    """Does something else in the middle of a decision, as a finaliser might."""

    meddle = None

    def charge(self, state, guarantee):
        if Meddling.meddle is not None:
            meddle, Meddling.meddle = Meddling.meddle, None
            meddle()
        return super().charge(state, guarantee)


def test_a_finaliser_that_closes_a_reserve_within_a_charge_neither_hangs_nor_is_lost():
    odometer = Odometer(Budget(1), Meddling())
    scope = ScopeOdometer(odometer, "kept", "0.5", reserve=True)
    Meddling.meddle = scope.close
    assert within(30, lambda: odometer.charge(PureGuarantee("0.3"), "x")) == 1
    assert odometer.remaining.epsilon == Fraction(7, 10)
    with pytest.raises(Closed, match="kept"):
        scope.charge(PureGuarantee("0.1"), "late")
    odometer.charge(PureGuarantee("0.7"), "all")


@pytest.mark.thorough
def test_a_partition_that_is_dropped_within_a_charge_ends():
    odometer = Odometer(Budget(1), Meddling())

    class Owner:
        pass

    owner = [Owner()]
    odometer.divide(odometer.generation(), 2, moves=False, owner=owner[0])
    Meddling.meddle = owner.clear
    within(30, lambda: odometer.charge(PureGuarantee("0.3"), "x"))
    gc.collect()
    odometer.divide(odometer.generation(), 2, moves=False)
    assert odometer.spent.epsilon == Fraction(3, 10)


def test_a_charge_within_a_charge_is_refused_and_both_counts_stay_right():
    odometer = Odometer(Budget(1), Meddling())
    met = []

    def again():
        try:
            odometer.charge(PureGuarantee("0.3"), "inner")
        except Reentered as error:
            met.append(error)
        met.append(odometer.spent.charges)  # looking never waits

    Meddling.meddle = again
    within(30, lambda: odometer.charge(PureGuarantee("0.3"), "outer"))
    assert [type(one) for one in met] == [Reentered, int]
    assert odometer.spent.epsilon == Fraction(3, 10)
    odometer.charge(PureGuarantee("0.7"), "after")


def test_a_question_within_a_question_to_the_same_strategy_is_refused(monkeypatch):
    session = Session(DATA, Budget(10), noise=seeded(1))
    channel = session.open(online())
    met, real = [], type(channel.hypothesis).answers

    def answers(hypothesis, form):
        if not met:
            met.append(None)
            for ask in (lambda: channel.answer(MALE), lambda: channel.hypothesis):
                with pytest.raises(Reentered):
                    ask()
        return real(hypothesis, form)

    monkeypatch.setattr(type(channel.hypothesis), "answers", answers)
    within(60, lambda: channel.answer(MALE))
    assert met


@needs_fork
@pytest.mark.parametrize("kind", ["online", "sparse", "laplace"])
def test_a_forked_child_is_refused_what_another_thread_is_using(kind, monkeypatch):
    session = Session(DATA, Budget(10), noise=seeded(1))
    mechanism = {"online": online(), "sparse": NumericSparse(1, tops=3), "laplace": Laplace(1)}
    query = Above(MALE, 0.5) if kind == "sparse" else MALE
    channel = session.open(mechanism[kind])
    # The other thread is in the middle of an answer, with every lock of its strategy.
    working, forked = held(monkeypatch)
    thread = threading.Thread(target=lambda: channel.answer(query), daemon=True)
    thread.start()
    assert working.wait(timeout=60)
    looks = (lambda: channel.hypothesis,) if kind == "online" else ()
    ended = in_a_child(lambda: count_closed(lambda: channel.answer(query), *looks))
    forked.set()
    thread.join(timeout=60)
    assert ended == 1 + len(looks)
    assert session.spent.charges >= 1


@needs_fork
def test_a_forked_child_is_refused_what_an_odometer_is_deciding():
    odometer = Odometer(Budget(1), Meddling())
    scope = ScopeOdometer(odometer, "s", "0.5", reserve=True)
    ended = []

    def fork():
        ended.append(in_a_child(lambda: attempts() + 10 * (odometer.spent.charges == 0)))

    def attempts():
        return count_closed(
            lambda: odometer.charge(PureGuarantee("0.1"), "child"),
            lambda: odometer.charge_all([PureGuarantee("0.1")] * 2, "child"),
            lambda: odometer.divide(odometer.generation(), 2, moves=False),
            lambda: ScopeOdometer(odometer, "t", "0.1"),
            lambda: (scope.close(), scope.charge(PureGuarantee("0.1"), "child")),
        )

    Meddling.meddle = fork
    odometer.charge(PureGuarantee("0.1"), "parent")
    assert ended == [15]
    assert scope.charge(PureGuarantee("0.1"), "parent") == 2


@needs_fork
@pytest.mark.parametrize("kind", ["measure", "watch"])
def test_what_was_paid_once_is_told_in_one_process_if_it_forks_at_the_draw(kind):
    children = []

    class Forking(NoiseSource):
        """Stands for a finaliser or a signal handler that comes before the draw."""

        private = True

        def _bits(self, count):
            if not children:
                children.append(os.fork())
            return os.urandom(count)

    domain = Domain(Integer("age", 0, 1))
    data = PrivateData.from_counts([3, 4], domain)
    kernel = Kernel(data, Odometer(Budget(1), BasicComposition()), Forking(), "forking")
    form = LinearForm(domain, [Kronecker(("age",), (Range(2, 0, 1),))])
    told = True
    try:
        if kind == "measure":
            kernel.measure(form, LaplaceNoise("0.5"))
        else:
            kernel.watch(Watching("0.2", "0.2")).first_above(GapForm.around(form, [0.0]), 1.0)
    except Closed:
        told = False
    if children[0] == 0:
        os._exit(int(told))
    assert told
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


@pytest.mark.thorough
@needs_fork
def test_noise_can_be_drawn_in_a_child_whatever_other_threads_do():
    for source in (seeded(1), SystemNoise()):
        done = threading.Event()

        def draw(source=source, done=done):
            while not done.is_set():
                source.draw(DiscreteLaplace(10), 3)

        threads = [threading.Thread(target=draw, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            drawn = in_a_child(lambda source=source: len(source.draw(DiscreteLaplace(10), 2)))
            assert drawn == 2
        done.set()
        for thread in threads:
            thread.join(timeout=30)


def test_turns_are_taken_one_at_a_time_and_given_back_after_an_error():
    lock, order = ExclusiveLock("a thing"), []
    with pytest.raises(ZeroDivisionError):
        lock.run(lambda: 1 / 0)
    started = threading.Barrier(4)

    def work():
        started.wait(timeout=30)
        for _ in range(50):
            lock.run(lambda: order.extend([threading.get_ident()] * 2))

    at_once(lambda _: work(), range(4))
    assert order[::2] == order[1::2]
    with pytest.raises(Reentered, match="a thing"):
        lock.run(lambda: lock.run(lambda: None))
    assert lock.run(lambda: 7) == 7


@needs_fork
def test_a_forked_child_plans_whatever_is_planned_by_other_threads(monkeypatch):
    session = Session(DATA, Budget(1), noise=seeded(1))
    planning, forked, forecast = threading.Event(), threading.Event(), trial.forecast
    main = threading.get_ident()

    def slow(*given):
        if threading.get_ident() != main:
            planning.set()
            forked.wait(timeout=60)
        return forecast(*given)

    monkeypatch.setattr(trial, "forecast", slow)
    thread = threading.Thread(target=session.plan, args=(Count(),), kwargs={"error": 0.1})
    thread.start()
    assert planning.wait(timeout=60)

    def plan():
        # Of a session of its own, since that of its parent is refused.
        with pytest.raises(Closed):
            session.plan(Count(), error=0.1)
        return Session(DATA, Budget(1), noise=seeded(1)).plan(Count(), error=0.1).best.feasible

    feasible = in_a_child(plan)
    forked.set()
    thread.join(timeout=60)
    assert feasible == 1


@pytest.mark.thorough
def test_no_value_that_is_kept_is_worked_out_under_a_lock_of_its_class():
    # As functools has it before Python 3.12; a forked child would wait for it for ever.
    for module in pkgutil.walk_packages(dpsdk.__path__, "dpsdk."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of a library that is not there
                importlib.import_module(module.name)
    kept = [
        (name, attribute)
        for name, module in list(sys.modules.items())
        if name.startswith("dpsdk.")
        for kind in list(vars(module).values())
        if isinstance(kind, type)
        for attribute, value in list(vars(kind).items())
        if isinstance(value, cached_property)
    ]
    assert kept == []
