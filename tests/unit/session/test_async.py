"""Sessions in programs of `asyncio`: questions in threads, as docs/how-to/servers.md has them."""

from __future__ import annotations

import asyncio
import threading
from fractions import Fraction

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, Ledger, MemoryLedger, Odometer, SQLiteLedger
from dpsdk.errors import AnswerLost, BudgetExceeded
from dpsdk.mechanisms import Laplace
from dpsdk.observe import Answered, Event
from dpsdk.queries import Count

DATA = PrivateData.from_columns({"age": [1, 2, 3]}, Domain(Integer("age", 0, 9)), name="few")
ROWS = Count(normalized=False)
TENTH = Laplace("0.1")


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, quick_disk) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    return SQLiteLedger(quick_disk / "spent.db")


def opened(ledger: Ledger | None = None, **more: object) -> Session:
    basic = BasicComposition()
    return Session(DATA, Budget(1), composition=basic, ledger=ledger, **more)  # type: ignore[arg-type]  # as sessions take them


def test_many_tasks_on_one_session_are_charged_exactly():
    events: list[Event] = []
    session = opened(observer=events.append)

    async def ask() -> bool:
        try:
            await asyncio.to_thread(session.answer, ROWS, using=Laplace("0.02"))
        except BudgetExceeded:
            return False
        return True

    async def all_of_them() -> list[bool]:
        return await asyncio.gather(*(ask() for _ in range(80)))

    answered = asyncio.run(all_of_them())
    assert sum(answered) == 50
    assert session.spent.epsilon == 1
    assert len(session.history) == 50
    assert sum(isinstance(event, Answered) for event in events) == 50


class Slow:
    """Holds a charge up until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        charge = Odometer.charge_all

        def slow(odometer, *arguments, **more):
            self.inside.set()
            self.go.wait(60)
            return charge(odometer, *arguments, **more)

        monkeypatch.setattr(Odometer, "charge_all", slow)

    async def cancelled(self, task: asyncio.Task[float]) -> None:
        """Cancel a task while its charge is held up, and then let that go."""
        await asyncio.to_thread(self.inside.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        self.go.set()


def test_a_task_that_is_cancelled_has_paid_and_its_request_gives_the_answer(ledger, monkeypatch):
    session, slow = opened(ledger), Slow(monkeypatch)

    async def handler() -> float:
        return await asyncio.to_thread(session.answer, ROWS, using=TENTH, request_id="a7")

    async def served() -> None:
        await slow.cancelled(asyncio.create_task(handler()))

    asyncio.run(served())  # which waits for the thread
    assert session.spent.epsilon == Fraction(1, 10)
    assert session.history[-1].answered
    answer = session.answer(ROWS, using=TENTH, request_id="a7")
    assert opened(ledger).answer(ROWS, using=TENTH, request_id="a7") == answer
    assert session.spent.epsilon == Fraction(1, 10)


def test_a_retry_while_the_first_is_at_work_is_told_so(ledger, monkeypatch):
    session, slow = opened(ledger), Slow(monkeypatch)

    async def ask() -> float:
        return await asyncio.to_thread(session.answer, ROWS, using=TENTH, request_id="a7")

    async def served() -> list[object]:
        tasks = [asyncio.create_task(ask()) for _ in range(3)]
        await asyncio.to_thread(slow.inside.wait, 60)
        slow.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(served())
    answers = {one for one in results if isinstance(one, float)}
    assert len(answers) == 1
    assert all(isinstance(one, float | AnswerLost) for one in results)
    assert session.spent.epsilon == Fraction(1, 10)
    assert asyncio.run(ask()) in answers


def test_equal_questions_of_many_tasks_are_paid_once_where_answers_are_reused():
    session = opened(reuse=True)

    async def served() -> list[float]:
        asked = (asyncio.to_thread(session.answer, ROWS, using=TENTH) for _ in range(20))
        return await asyncio.gather(*asked)

    answers = asyncio.run(served())
    assert len(set(answers)) == 1
    assert session.spent.epsilon == Fraction(1, 10)
    assert len(session.history) == 20
