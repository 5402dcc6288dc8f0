"""A pre-forking server: table and ledger before the fork, a session in each worker after it."""

import json
import os
import signal
import time
from collections import Counter
from fractions import Fraction

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, SQLiteLedger
from dpsdk.errors import AnswerLost, BudgetExceeded, Closed
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Threshold
from parallel import ended, forked, needs_fork

DATA = PrivateData.from_columns(
    {"age": [1, 2, 3] * 20}, Domain(Integer("age", 0, 9)), name="visits"
)
TENTH = Laplace("0.1")


def opened(ledger):
    return Session(DATA, Budget(1), composition=BasicComposition(), ledger=ledger)


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
