"""Interrupts at each line of taking a turn and committing: nothing is lost, nothing doubled."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsdk.accounting import PureGuarantee, SQLiteLedger
from dpsdk.accounting.ledger import file as files
from dpsdk.accounting.ledger import forks, turnstile
from dpsdk.errors import AlreadyCharged
from spenders import opened
from tracing import interrupted

pytest.importorskip("fcntl", reason="locks as Unix has them")

PART = PureGuarantee("0.0001")

# A trace function can come between the end of a `with` and the closing of its file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """So that a lock that was left behind is told soon."""
    monkeypatch.setattr(files, "_PATIENCE", 2.0)


def places(path, step: int) -> None:
    ledger = SQLiteLedger(path)
    odometer = opened(ledger)
    place, charged, reached = 1, 0, True
    while reached:
        done: list[int] = []
        name = f"at {place}"

        def charge(name: str = name, done: list[int] = done) -> None:
            done.append(odometer.charge(PART, "x", request_id=name))

        reached = interrupted(charge, place)
        # Nothing that an interrupt left behind keeps others waiting, here or in a forked process.
        assert not forks._now.others(0)
        assert not list(turnstile._open)
        assert not getattr(ledger._shared.busy, "inside", False)
        count = odometer.count
        assert count - charged in ({0, 1} if reached else {1})
        assert not done or done == [count]
        if count > charged:
            # It was taken whole, and nothing more may be drawn for it.
            assert odometer.charges[-1].request_id == name
            with pytest.raises(AlreadyCharged):
                odometer.charge(PART, "x", request_id=name)
        charged = count
        place += step
    assert odometer.spent.epsilon == Fraction(charged, 10**4)
    assert ledger.verify() == charged + 1 + (charged + 1) // 256
    assert opened(SQLiteLedger(path)).charge(PART, "x") == charged + 1


def test_an_interrupt_at_some_lines_of_a_charge_leaves_the_ledger_whole(quick_disk):
    places(quick_disk / "spent.db", 37)


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_a_charge_leaves_the_ledger_whole(quick_disk):
    places(quick_disk / "spent.db", 1)
