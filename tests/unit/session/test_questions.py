"""Each charge belongs to its question, whoever makes it and whatever interrupts it."""

import copy
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsdk import Budget, Session
from dpsdk.accounting import (
    BasicComposition,
    DiscreteGaussianGuarantee,
    PureGuarantee,
    ZCDPComposition,
    pure_epsilon,
)
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, Redacted, ReleaseFailed
from dpsdk.forms import GapForm, LinearForm
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Terms, Watching
from dpsdk.mechanisms import Laplace, Mechanism, NumericSparse, OnlinePMW
from dpsdk.queries import Above, Count, Marginal, Threshold
from dpsdk.release import Cost
from dpsdk.testing import seeded
from dpsdk.testing.interrupts import interrupted
from parallel import at_once
from worlds import people, table

DATA = table(people(60, 4))
TENTH = Laplace("0.1")


def opened(epsilon=10, **given):
    given = {"composition": BasicComposition(), "noise": seeded(1)} | given
    return Session(DATA, Budget(epsilon), **given)


def total(session):
    return sum(entry.cost.epsilon for entry in session.history)


class Custom(Mechanism[LinearForm]):
    """A mechanism whose strategy is what a test says."""

    def __init__(self, answer, opening=None):
        self.answer, self.opening = answer, opening

    @property
    def name(self):
        return "Custom"

    def quote(self, form, terms, /):
        raise NotImplementedError

    def open(self, kernel, /):
        if self.opening is not None:
            self.opening(kernel)
        return self


def in_a_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(timeout=30)
    (result,) = found
    return result


def test_two_questions_on_one_strategy_are_each_on_their_own_receipt():
    session = opened(100)
    barrier = threading.Barrier(2)

    def answer(form, kernel):
        barrier.wait(timeout=30)  # both questions are open
        noise = LaplaceNoise(form.rows)
        result = in_a_thread(lambda: kernel.measure(form, noise))
        barrier.wait(timeout=30)  # both are charged
        return result

    channel = session.open(Custom(answer))
    queries = [Count(), Marginal("sex")]
    found = {}

    def ask(query):
        found[str(query)] = channel.release(query).cost.epsilon

    at_once(ask, queries)
    assert found == {"Count()": 1, str(queries[1]): 2}
    assert {entry.query: entry.cost.epsilon for entry in session.history} == found


def test_a_kernel_that_was_kept_is_closed_with_its_question():
    session = opened()
    kept = []
    form = Count().lower(DATA.domain)

    def answer(form, kernel):
        kept.append(kernel)
        return kernel.measure(form, LaplaceNoise(1))

    channel = session.open(Custom(answer, kept.append))
    for kernel in kept:
        with pytest.raises(Closed, match="the opening of Custom"):
            kernel.measure(form, LaplaceNoise(1))
    channel.answer(Count())
    for kernel in kept:
        for spend in (
            lambda kernel=kernel: kernel.measure(form, LaplaceNoise(1)),
            lambda kernel=kernel: kernel.run_all([Measure(form, LaplaceNoise(1))]),
            lambda kernel=kernel: kernel.allowance([PureGuarantee(1)]),
            lambda kernel=kernel: kernel.watch(Watching(1, 1)).open(),
        ):
            with pytest.raises(Closed):
                spend()
    assert session.spent.epsilon == total(session) == 1


@pytest.mark.parametrize("what", ["session", "channel", "scope", "part"])
def test_what_is_closed_meanwhile_charges_no_more(what):
    session = opened(10)
    scope = session.scope("some", share="0.5")
    parts = session.partition("sex")
    desk = {"session": session, "channel": session, "scope": scope, "part": parts["Male"]}[what]

    def answer(form, kernel):
        measured = kernel.measure(form, LaplaceNoise(1))
        {"session": session, "channel": channel, "scope": scope, "part": parts}[what].close()
        kernel.measure(form, LaplaceNoise(1))
        return measured

    channel = desk.open(Custom(answer))
    with pytest.raises(Closed):
        channel.answer(Count(normalized=False))
    assert session.spent.epsilon == 1
    (entry,) = session.history
    assert not entry.answered
    assert entry.cost.epsilon == 1


def test_a_watch_is_charged_to_the_question_that_opens_its_run():
    session = opened(100)
    watches = []

    def answer(form, kernel):
        gap = GapForm.around(form, np.zeros(form.rows))
        watches[0].first_above(gap, -100.0, kernel=kernel)
        return kernel.measure(form, LaplaceNoise(1))

    channel = session.open(Custom(answer, lambda k: watches.append(k.watch(Watching(1, 1)))))
    gap = GapForm.around(Count().lower(DATA.domain), np.zeros(1))
    with pytest.raises(Closed, match="the opening"):
        watches[0].first_above(gap, 1.0)
    assert channel.release(Count()).cost.epsilon == 3
    assert channel.release(Marginal("sex")).cost.epsilon == 3
    assert [entry.cost.epsilon for entry in session.history] == [3, 3]


def test_a_run_that_is_open_ends_with_its_session():
    session, kept = opened(100), []

    def answer(form, kernel):
        kept.append(kernel)
        gap = GapForm.around(form, np.zeros(form.rows))
        watch.first_above(gap, 1e6, kernel=kernel)  # which leaves the run open
        session.close()
        watch.first_above(gap, 1e6, kernel=kernel)

    channel = session.open(Custom(answer, lambda kernel: kept.append(kernel.watch(Watching(1, 1)))))
    watch = kept.pop()
    with pytest.raises(Closed, match="the session"):
        channel.answer(Count())
    assert session.spent.epsilon == 2


# All or none


def test_runs_are_paid_for_all_at_once_or_not_at_all():
    session = opened(1)
    form = Marginal("sex").lower(DATA.domain)
    noises = [LaplaceNoise("0.2"), LaplaceNoise("0.3"), LaplaceNoise("0.4")]

    def answer(form, kernel):
        return kernel.run_all([Measure(form, noise) for noise in noises])[0]

    channel = session.open(Custom(answer))
    release = channel.release(Marginal("sex"))
    assert release.cost == Cost(
        tuple(Measure(form, n).price(Terms(DATA.facts)).guarantee for n in noises)
    )
    with pytest.raises(BudgetExceeded) as caught:
        channel.release(Marginal("sex"))
    assert caught.value.charges == ()
    assert session.spent.charges == 3
    assert len(session.history) == 1


def test_many_measurements_are_those_of_one_after_the_other():
    requests = [
        Measure(Marginal("sex").lower(DATA.domain), LaplaceNoise(1)),
        Measure(Count().lower(DATA.domain), GaussianNoise("0.1")),
    ]
    found = []

    def one_by_one(form, kernel):
        found.append([kernel.run(request) for request in requests])
        return found[-1][0]

    def together(form, kernel):
        found.append(list(kernel.run_all(requests)))
        return found[-1][0]

    for answer in (one_by_one, together):
        session = Session(DATA, Budget(10, "0.1"), composition=ZCDPComposition(), noise=seeded(7))
        session.open(Custom(answer)).answer(Marginal("sex"))
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first.values, second.values)
        assert first.accuracy == second.accuracy
        assert second.source == "measured"


def test_an_allowance_of_gaussians_serves_every_lattice():
    session = Session(DATA, Budget(10, "0.1"), composition=ZCDPComposition(), noise=seeded(7))
    rho = Fraction(1, 100)
    paid = DiscreteGaussianGuarantee(64, 2, 1)
    assert paid.rho > rho
    taken = []
    channel = session.open(
        Custom(
            lambda form, kernel: kernel.measure(form, GaussianNoise(rho), allowance=taken[0]),
            lambda kernel: taken.append(kernel.allowance([paid] * 3)),
        )
    )
    for query in (Count(), Marginal("sex"), Threshold("age", 20)):
        assert channel.release(query).cost.free
    assert taken[0].left == 0
    assert session.spent.charges == 3


def test_what_two_worker_threads_ask_for_is_on_the_receipt_of_their_question():
    session, watches = opened(100), []
    gap = GapForm.around(Marginal("sex").lower(DATA.domain), np.zeros(2))

    def answer(form, kernel):
        def measuring():
            requests = [Measure(form, LaplaceNoise("0.1")), Measure(form, LaplaceNoise("0.2"))]
            return kernel.run_all(requests)[0]

        def watching():
            # It was made for the opening of the channel, and works for this question.
            return watches[0].first_above(gap, 10.0**6, kernel=kernel)

        both = [in_a_thread(measuring), in_a_thread(watching)]
        return both[0]

    def opening(kernel):
        watches.append(kernel.watch(Watching("0.3", "0.4")))

    channel = session.open(Custom(answer, opening))
    first = channel.release(Marginal("sex"))
    assert [pure_epsilon(run) for run in first.cost.guarantees] == [
        Fraction(1, 10),
        Fraction(2, 10),
        Fraction(7, 10),
    ]
    # The run is still open, so that another question has only its numbers on its receipt.
    second = channel.release(Marginal("sex"))
    assert len(second.cost.guarantees) == 2
    assert [entry.cost for entry in session.history] == [first.cost, second.cost]


def test_an_allowance_is_used_once_among_threads():
    session = opened(1000)
    taken, noise = [], LaplaceNoise(1)
    channel = session.open(
        Custom(
            lambda form, kernel: kernel.measure(form, noise, allowance=taken[0]),
            lambda kernel: taken.append(kernel.allowance([PureGuarantee(1)] * 40)),
        )
    )
    costs = []

    def work():
        costs.extend(channel.release(Count()).cost.epsilon for _ in range(20))

    at_once(lambda _: work(), range(4))
    assert sorted(costs) == [0] * 40 + [1] * 40
    assert session.spent.epsilon == total(session) == 80


# History


def mechanisms():
    yield "laplace", lambda s: lambda: s.answer(Count(), using=TENTH)
    yield "pmw", lambda s: lambda: s.open(OnlinePMW(1, updates=2)).answer(Count({"sex": "Male"}))
    yield "sparse", lambda s: lambda: s.open(NumericSparse(1, tops=1)).answer(Above(Count(), 0.5))


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "make"), list(mechanisms()), ids=lambda x: str(x)[:7])
def test_every_charge_is_in_the_history_wherever_an_interrupt_comes(name, make):
    # Every line of a short question; of the others each seventh, so that all kinds of places come.
    place, step, more = 1, 1 if name == "laplace" else 41, True
    while more:
        session = opened()
        work = make(session)
        more = interrupted(work, place)
        assert sum(len(entry.cost.guarantees) for entry in session.history) == session.spent.charges
        assert total(session) == session.spent.epsilon
        assert all(entry.mechanism for entry in session.history)
        place += step
    assert place > 100


REAL = """
import signal
from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition
from dpsdk.errors import DpsdkError
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count

data = PrivateData.from_columns({"age": [39, 50]}, Domain(Integer("age", 17, 90)))
session = Session(data, Budget(10**6), composition=BasicComposition())
using, armed, met = Laplace(epsilon="0.1"), False, 0

def interrupt(signum, frame):
    if armed:
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.00031)
for _ in range(3000):
    try:
        armed = True
        session.answer(Count(), using=using)
        armed = False
    except (KeyboardInterrupt, DpsdkError):
        armed = False
        met += 1
armed = False
signal.setitimer(signal.ITIMER_REAL, 0)
runs = sum(len(entry.cost.guarantees) for entry in session.history)
assert runs == session.spent.charges > 0, (runs, session.spent.charges)
assert sum(entry.cost.epsilon for entry in session.history) == session.spent.epsilon
session.answer(Count(), using=using)
print(met)
"""


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of signals")
def test_every_charge_is_in_the_history_under_real_interrupts():
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", REAL],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 0


def test_a_question_that_costs_nothing_is_in_the_history_and_a_refused_one_is_not():
    session = opened(1)
    channel = session.open(OnlinePMW("0.9", updates=1, start="uniform", threshold=0.9))
    for _ in range(2):
        channel.answer(Count({"sex": "Male"}))
    for _ in range(3):
        with pytest.raises(BudgetExceeded):
            session.answer(Count(), using=Laplace(5))
    assert len(session.history) == 2
    assert session.history[1].cost.free
    assert len(session._context.history._asked) == 2


# Errors of strategies


def test_what_a_strategy_raises_keeps_its_text_and_tells_what_was_charged():
    session = opened(1)

    def answer(form, kernel):
        kernel.measure(form, LaplaceNoise("0.5"))
        raise ValueError("my own bug")

    with pytest.raises(ValueError, match="my own bug") as caught:
        session.open(Custom(answer)).answer(Count())
    assert caught.value.__notes__ == [
        "charged before it failed, and still charged: 0.5-DP, discrete Laplace"
    ]
    assert not session.history[0].answered


def test_a_refusal_after_a_first_run_names_what_stays_charged():
    session = opened(1)

    def answer(form, kernel):
        kernel.measure(form, LaplaceNoise("0.6"))
        return kernel.measure(form, LaplaceNoise("0.6"))

    with pytest.raises(BudgetExceeded) as caught:
        session.open(Custom(answer)).answer(Count())
    assert caught.value.charges == (1,)
    assert "still charged" in caught.value.__notes__[0]
    assert session.spent.epsilon == total(session) == Fraction(6, 10)


def test_what_fails_behind_the_wall_is_told_by_no_strategy(monkeypatch):
    def broken(owner):
        raise ValueError("the secret of row 7")

    def answer(form, kernel):
        return kernel.run_all([Measure(form, LaplaceNoise("0.1"))] * 2)[0]

    session = opened(1)
    channel = session.open(Custom(answer))
    monkeypatch.setattr("dpsdk.kernel.access.open_histogram", broken)
    with pytest.raises(ReleaseFailed) as caught:
        channel.answer(Count())
    assert caught.value.charge == 1
    assert "secret" not in repr(caught.value) + str(caught.value.__notes__)
    assert session.spent.charges == 2
    assert total(session) == Fraction(2, 10)


# What is handed out


def test_only_an_allowance_is_an_allowance_and_a_free_run_uses_none():
    session = opened()
    allowances = []

    def answer(form, kernel):
        for fake in (object(), [PureGuarantee(5)], 7):
            with pytest.raises(InvalidArgument, match="allowance"):
                kernel.measure(form, LaplaceNoise(1), allowance=fake)
            with pytest.raises(InvalidArgument, match="allowance"):
                kernel.watch(Watching(1, 1), allowance=fake)
        allowances.append(kernel.allowance([PureGuarantee(1)]))
        measured = kernel.measure(form, LaplaceNoise(1), allowance=allowances[0])
        assert (
            "0 runs left" in repr(allowances[0])
            or Measure(form, LaplaceNoise(1)).price(Terms(kernel.facts)).guarantee.free
        )
        with pytest.raises(Redacted):
            copy.copy(allowances[0])
        return measured

    session.open(Custom(answer)).answer(Count({"sex": "Male"}))
    assert allowances[0].left == 0
    inside = Session(
        table(people(60, 4, stray=False), outside="raise"), Budget(10), noise=seeded(1)
    )
    allowances.clear()
    inside.open(Custom(answer)).answer(Count())  # which no record moves
    assert allowances[0].left == 1
