"""Interrupts at each line of taking a turn and committing: nothing is lost, nothing doubled."""

import gc
import sys

import pytest

from dpsdk.accounting import PureGuarantee, SQLiteLedger
from dpsdk.accounting.ledger import file as files
from dpsdk.accounting.ledger import forks, turnstile
from dpsdk.errors import LedgerUnavailable
from dpsdk.testing.interrupts import interrupted
from spenders import interrupted_everywhere, opened

pytest.importorskip("fcntl", reason="locks as Unix has them")

PART = PureGuarantee("0.0001")

# A trace function can come between the end of a `with` and the closing of its file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """So that a lock that was left behind is told soon."""
    monkeypatch.setattr(files, "_PATIENCE", 2.0)


def places(path, step):
    def nothing_is_left_behind():
        # That would keep others waiting, here or in a forked process.
        assert not forks._now.others(0)
        assert not [file for file in turnstile._open if not file.closed]

    interrupted_everywhere(SQLiteLedger(path), step, nothing_is_left_behind)
    assert opened(SQLiteLedger(path)).count > 1


def reads(path, step):
    """A connection that was left open by a reader would keep all who write waiting."""
    odometer = opened(SQLiteLedger(path))
    place, late, reached = 1, 0, True
    while reached:
        reached = interrupted(lambda: odometer.count, place)
        try:
            odometer.charge(PART, "x")
        except LedgerUnavailable:
            # A trace function, unlike an interrupt, can come right before it is closed.
            late += 1
            gc.collect()
            odometer.charge(PART, "x")
        place += step
    assert place > 80  # as many lines as a read passes, nearly
    assert late <= 2


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.audit)])
def test_an_interrupt_of_a_reader_keeps_nobody_waiting(quick_disk, monkeypatch, step):
    monkeypatch.setattr(files, "_PATIENCE", 0.2)
    reads(quick_disk / "spent.db", step)


def test_an_interrupt_at_some_lines_of_a_charge_leaves_the_ledger_whole(quick_disk):
    places(quick_disk / "spent.db", 37)


@pytest.mark.audit
def test_an_interrupt_at_any_line_of_a_charge_leaves_the_ledger_whole(quick_disk):
    places(quick_disk / "spent.db", 1)


def interrupt_call(work, place):
    """Interrupt some work as the call of that number begins, as signals do; those of others too."""
    left = place

    def count(_frame, event, _value):
        nonlocal left
        left -= event == "call"
        if event == "call" and not left:
            sys.setprofile(None)
            raise KeyboardInterrupt

    try:
        sys.setprofile(count)
        work()
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.setprofile(None)
    return None


@pytest.mark.parametrize("what", ["read", "charge"])
def test_who_holds_an_interrupt_waits_for_nothing_that_it_left(quick_disk, what):
    """As a notebook holds the traceback of the last one, and a `finally` that charges."""
    ledger = SQLiteLedger(quick_disk / "spent.db", patience=0.05)
    odometer = opened(ledger)
    doing = {"read": lambda: odometer.count, "charge": lambda: odometer.charge(PART, "x")}
    place = 1
    while (error := interrupt_call(doing[what], place)) is not None:
        gc.disable()  # which would end what only a cycle of the traceback holds
        try:
            odometer.charge(PART, "x")
        finally:
            gc.enable()
        assert error.__traceback__ is not None
        assert not forks._now.others(0)
        place += 1
    assert place > 20
    assert ledger.verify() > 1
