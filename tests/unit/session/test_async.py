"""Sessions in programs of `asyncio`: questions in threads, as docs/how-to/servers.md has them."""

import asyncio
from fractions import Fraction

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, MemoryLedger, SQLiteLedger
from dpsdk.errors import BudgetExceeded
from dpsdk.mechanisms import Laplace
from dpsdk.observe import Answered
from dpsdk.queries import Count
from parallel import held

DATA = PrivateData.from_columns({"age": [1, 2, 3]}, Domain(Integer("age", 0, 9)), name="few")
ROWS = Count(normalized=False)
TENTH = Laplace("0.1")


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, quick_disk):
    if request.param == "memory":
        return MemoryLedger()
    return SQLiteLedger(quick_disk / "spent.db")


def opened(ledger=None, **more):
    basic = BasicComposition()
    return Session(DATA, Budget(1), composition=basic, ledger=ledger, **more)


def test_many_tasks_on_one_session_are_charged_exactly():
    events = []
    session = opened(observer=events.append)

    async def ask():
        try:
            await asyncio.to_thread(session.answer, ROWS, using=Laplace("0.02"))
        except BudgetExceeded:
            return False
        return True

    async def all_of_them():
        return await asyncio.gather(*(ask() for _ in range(80)))

    answered = asyncio.run(all_of_them())
    assert sum(answered) == 50
    assert session.spent.epsilon == 1
    assert len(session.history) == 50
    assert sum(isinstance(event, Answered) for event in events) == 50


def test_a_task_that_is_cancelled_has_paid_and_its_request_gives_the_answer(ledger, monkeypatch):
    session, (begun, go) = opened(ledger), held(monkeypatch)

    async def served():
        asked = asyncio.to_thread(session.answer, ROWS, using=TENTH, request_id="a7")
        task = asyncio.create_task(asked)
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    asyncio.run(served())  # which waits for the thread
    assert session.spent.epsilon == Fraction(1, 10)
    assert session.history[-1].answered
    answer = session.answer(ROWS, using=TENTH, request_id="a7")
    assert opened(ledger).answer(ROWS, using=TENTH, request_id="a7") == answer
    assert session.spent.epsilon == Fraction(1, 10)
