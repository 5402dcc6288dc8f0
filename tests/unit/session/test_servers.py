"""Sessions in servers, as docs/how-to/servers.md has them: in threads of `asyncio`, and forked."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from fractions import Fraction

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, MemoryLedger, SQLiteLedger
from dpsdk.errors import AnswerLost, BudgetExceeded, Closed
from dpsdk.mechanisms import Laplace
from dpsdk.observe import Answered
from dpsdk.queries import Count, Threshold
from parallel import ended, forked, held, needs_fork

DATA = PrivateData.from_columns(
    {"age": [1, 2, 3] * 20}, Domain(Integer("age", 0, 9)), name="visits"
)
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


# A pre-forking server: table and ledger before the fork, a session in each worker after it.


@pytest.mark.thorough
@needs_fork
def test_workers_share_budget_scopes_and_answers(quick_disk):
    ledger = SQLiteLedger(quick_disk / "spent.db")
    before = opened(ledger)

    def work(place):
        with pytest.raises(Closed):
            before.answer(Threshold("age", 1), using=TENTH)
        scope = opened(ledger).scope("team", "0.5")
        replies = {}
        for number in range(8):
            request_id = f"r{number}"
            for _ in range(2000):  # while another worker is at it
                try:
                    query = Threshold("age", number)
                    replies[request_id] = scope.answer(query, using=TENTH, request_id=request_id)
                except BudgetExceeded:
                    replies[request_id] = None
                except AnswerLost:
                    time.sleep(0.01)
                    continue
                break
        (quick_disk / f"{place}.json").write_text(json.dumps(replies))

    children = [forked(lambda place=place: work(place)) for place in range(3)]
    assert [ended(child) for child in children] == [0, 0, 0]
    found = [json.loads((quick_disk / f"{place}.json").read_text()) for place in range(3)]
    assert found[0] == found[1] == found[2]
    assert sum(one is not None for one in found[0].values()) == 5
    charges = ledger.dataset("visits").charges()
    assert Counter(charge.request_id for charge in charges) == Counter(f"r{n}" for n in range(5))
    assert {charge.scope for charge in charges} == {"team"}
    assert before.spent.epsilon == Fraction(1, 2)
    assert ledger.verify() > 0


@needs_fork
def test_the_scope_of_a_worker_that_was_killed_goes_on_until_somebody_closes_it(quick_disk):
    ledger = SQLiteLedger(quick_disk / "spent.db")

    def work():
        scope = opened(ledger).scope("team", "0.5", reserve=True)
        scope.answer(Threshold("age", 1), using=TENTH)
        os.kill(os.getpid(), signal.SIGKILL)

    assert ended(forked(work)) == -signal.SIGKILL
    session = opened(ledger)
    assert session.remaining.epsilon == Fraction(1, 2)
    scope = session.scope("team", "0.5", reserve=True)
    assert scope.spent.epsilon == Fraction(1, 10)
    assert scope.affords(Threshold("age", 1), using=TENTH) == 4
    scope.close()
    assert session.remaining.epsilon == Fraction(9, 10)
    # The name is free, for another cap.
    fresh = session.scope("team", "0.2")
    assert fresh.spent.charges == 0
    (charge,) = ledger.dataset("visits").charges()
    assert charge.scope == "team"
    assert charge.payer.accounts not in [
        (number,) for number in ledger.dataset("visits").read().accounts
    ]
