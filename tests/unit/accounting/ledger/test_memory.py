"""The ledger in memory, wherever an interrupt comes, and whatever becomes of what it shows."""

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
