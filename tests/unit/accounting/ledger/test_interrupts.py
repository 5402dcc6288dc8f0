"""Interrupts at each line of taking a turn and committing: nothing is lost, nothing doubled."""

from __future__ import annotations

import pytest

from dpsdk.accounting import SQLiteLedger
from dpsdk.accounting.ledger import file as files
from dpsdk.accounting.ledger import forks, turnstile
from spenders import interrupted_everywhere, opened

pytest.importorskip("fcntl", reason="locks as Unix has them")

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
        assert not list(turnstile._open)

    interrupted_everywhere(SQLiteLedger(path), step, nothing_is_left_behind)
    assert opened(SQLiteLedger(path)).count > 1


def test_an_interrupt_at_some_lines_of_a_charge_leaves_the_ledger_whole(quick_disk):
    places(quick_disk / "spent.db", 37)


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_a_charge_leaves_the_ledger_whole(quick_disk):
    places(quick_disk / "spent.db", 1)
