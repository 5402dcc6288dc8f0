"""How openings on weighted records end where there is no budget for two, or somebody stops them."""

from threading import Barrier, Thread

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session, SQLiteLedger, Stopped
from dpsdk.errors import BudgetExceeded
from dpsdk.hypothesis import Records
from dpsdk.mechanisms import MWEM, ConvexPMW, OfflinePMW, OnlinePMW, Sampled
from dpsdk.queries import Count, Marginal
from dpsdk.testing import seeded

DOMAIN = Domain(*[Integer(name, 0, 3) for name in "abc"])
COLUMNS = {name: [0, 1, 2, 3] * 500 for name in "abc"}
SMALL = Sampled(records=200)
TOTAL = {"epsilon": 1, "delta": "1e-9"}
MAKERS = {
    "online": lambda: OnlinePMW(**TOTAL, updates=2, start=SMALL),
    "convex": lambda: ConvexPMW(**TOTAL, updates=2, start=SMALL),
    "known": lambda: MWEM(Marginal("a", "b"), **TOTAL, rounds=2, start=SMALL),
    "offline": lambda: OfflinePMW(Marginal("a", "b"), **TOTAL, rounds=2, start=SMALL),
}
each = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def session(**given):
    data = PrivateData.from_columns(COLUMNS, DOMAIN, name="small")
    return Session(data, Budget(**TOTAL), **(given or {"noise": seeded(1)}))


def check(stopped, why, charges):
    assert stopped.why == why
    assert len(stopped.paid.guarantees) == charges
    assert isinstance(stopped.channel.distribution, Records)
    release = stopped.channel.release(Count(where={"a": 0}))
    assert 0 <= release.value <= 1
    assert release.cost.nothing
    assert any("200 weighted records" in str(note) for note in release.notes)


@each
@pytest.mark.parametrize("step", [1, 2])
def test_a_stop_between_two_steps_of_the_start_keeps_what_was_paid(make, step):
    small = session()
    with pytest.raises(Stopped) as caught:
        small.open(make(), stop=lambda progress: progress.done == step)
    check(caught.value, "stop", step)
    assert small.spent.charges == step


@each
def test_an_interrupt_in_the_middle_of_the_start_keeps_what_was_paid(make):
    def interrupted(progress):
        if progress.done == 2:
            raise KeyboardInterrupt
        return False

    with pytest.raises(Stopped) as caught:
        session().open(make(), stop=interrupted)
    check(caught.value, "interrupt", 2)


@each
def test_a_start_that_another_has_left_no_budget_for_says_what_it_paid(make):
    small, others = session(), []

    def another(progress):
        while progress.done == 1 and not (others and others[-1] is None):
            try:
                small.open(MAKERS["known"]())
            except Stopped as early:
                others.append(early.paid)
            except BudgetExceeded:
                others.append(None)
        return False

    with pytest.raises(Stopped) as caught:
        small.open(make(), stop=another)
    check(caught.value, "budget", len(caught.value.paid.guarantees))
    paid = [caught.value.paid, *others[:-1]]
    assert len(paid) > 1
    assert small.spent.charges == sum(len(cost.guarantees) for cost in paid)


@each
def test_a_start_without_budget_for_its_first_step_has_paid_nothing(make):
    small = session()
    small.open(MAKERS["known"]())
    before = small.spent.charges
    with pytest.raises(BudgetExceeded) as caught:
        small.open(make())
    assert not caught.value.charges
    assert small.spent.charges == before


def test_two_threads_open_with_a_budget_for_one(tmp_path):
    together, paid, refused = Barrier(2), [], []
    path = tmp_path / "spend.db"

    def open_one():
        with session(ledger=SQLiteLedger(path)) as own:
            together.wait()
            try:
                own.open(MAKERS["known"]())
                paid.append(own.history[0].cost)
            except Stopped as early:
                paid.append(early.paid)
            except BudgetExceeded as error:
                refused.append(error)

    threads = [Thread(target=open_one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with session(ledger=SQLiteLedger(path)) as after:
        assert after.spent.charges == sum(len(cost.guarantees) for cost in paid) > 0
        assert after.spent.fraction <= 1
    assert len(paid) + len(refused) == 2
    assert not any(error.charges for error in refused)
