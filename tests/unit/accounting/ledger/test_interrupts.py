"""Interrupts at each line of taking a turn and committing: nothing is lost, nothing doubled."""

from __future__ import annotations

import gc

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


def places(path, step: int) -> None:
    def nothing_is_left_behind() -> None:
        # That would keep others waiting, here or in a forked process.
        assert not forks._now.others(0)
        assert not [file for file in turnstile._open if not file.closed]

    interrupted_everywhere(SQLiteLedger(path), step, nothing_is_left_behind)
    assert opened(SQLiteLedger(path)).count > 1


def reads(path, step: int) -> None:
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
    assert place > 100
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
