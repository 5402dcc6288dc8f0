"""The ledger in memory, wherever an interrupt comes, and whatever becomes of what it shows."""

import os
import subprocess
import sys
from fractions import Fraction

import pytest

from dpsdk.accounting import BasicComposition, Budget, MemoryLedger, Odometer, PureGuarantee
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.errors import AlreadyCharged
from dpsdk.testing.interrupts import interrupted

TENTH = PureGuarantee("0.1")


def test_an_interrupt_leaves_each_request_charged_whole_or_not_at_all_and_no_reserve():
    place, more = 1, True
    while more:
        ledger = MemoryLedger()
        odometer = Odometer(Budget(1), BasicComposition(), ledger=ledger)

        def work(odometer=odometer):
            scope = ScopeOdometer(odometer, "kept", "0.5", reserve=True)
            scope.charge(TENTH, "x", request_id="one")
            odometer.charge_all([TENTH] * 2, "y", request_id="two")
            scope.close()

        more = interrupted(work, place)
        assert odometer.spent.epsilon == Fraction(odometer.count, 10)
        assert len(odometer.charges) == len(ledger.charges()) == odometer.count
        # Whatever was reserved is given back.
        assert odometer.remaining.epsilon == 1 - Fraction(odometer.count, 10)
        for name, runs in (("one", 1), ("two", 2)):
            numbers = tuple(one.number for one in ledger.charges() if one.request_id == name)
            assert len(numbers) in {0, runs}
            if numbers:
                with pytest.raises(AlreadyCharged) as caught:
                    odometer.charge(TENTH, "again", request_id=name)
                assert caught.value.charges == numbers
            else:
                odometer.charge_all([TENTH] * runs, "again", request_id=name)
        assert odometer.count == 3
        place += 7
    assert place > 300


FINALISER_THAT_APPENDS = """
import gc
from dpsdk.accounting import MemoryLedger
from dpsdk.accounting.ledger.session_ledger import SessionLedger

ledger = SessionLedger(MemoryLedger())
pending = ledger._changes.pending

def unchanged(books):
    return books

class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        for _ in range(5000):  # so that the list has to move
            pending.append(unchanged)

gc.set_threshold(1, 1, 1)
for _ in range(20):
    pending.extend([unchanged] * 30)
    Cycle()
    ledger.read()
    pending.clear()
"""


def test_changes_may_come_from_a_finaliser_while_those_that_wait_are_read():
    # A debugging allocator overwrites what is freed, so that reading it crashes.
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    command = [sys.executable, "-c", FINALISER_THAT_APPENDS]
    subprocess.run(command, env=environment, check=True, timeout=60)
