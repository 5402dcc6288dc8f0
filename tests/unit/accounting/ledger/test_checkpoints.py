"""Checkpoints: a ledger is opened from the last one, and what came before has its codes."""

import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from dpsdk.accounting import SQLiteLedger
from dpsdk.accounting.ledger import store
from dpsdk.accounting.ledger.chain import SPACING, fits
from dpsdk.accounting.ledger.file import FileWork
from dpsdk.errors import LedgerDamaged
from durable import KEY
from spenders import HUNDREDTH, edit, opened
from worlds import QUICK


@pytest.fixture(scope="module")
def whole():
    """A ledger of two tables with several checkpoints, and one table that was left alone since."""
    folder = Path(tempfile.mkdtemp(dir=QUICK))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "SPACING", 8)
        ledger = SQLiteLedger(folder / "whole.db", key=KEY)
        for name, charges in (("old", 4), ("busy", 18)):
            odometer = opened(ledger, name)
            for number in range(charges):
                odometer.charge(HUNDREDTH, "x", request_id=f"{name} {number}")
    yield folder / "whole.db"
    shutil.rmtree(folder)


@pytest.fixture
def path(whole, quick_disk, monkeypatch):
    monkeypatch.setattr(store, "SPACING", 8)
    return Path(shutil.copy(whole, quick_disk / "spent.db"))


def last(path):
    with sqlite3.connect(path) as connection:
        ((found,),) = connection.execute("SELECT max(seq) FROM entry")
    connection.close()
    return found


def test_opening_reads_what_came_since_the_last_checkpoint_alone(path, monkeypatch):
    read = []

    def noted(key, before, entry):
        read.append(entry.seq)
        return fits(key, before, entry)

    monkeypatch.setattr(store, "fits", noted)
    ledger = SQLiteLedger(path, key=KEY)
    since = last(path) - last(path) % 8
    assert read == list(range(since, last(path) + 1)) or read == [
        since,
        *range(since, last(path) + 1),
    ]
    # All tables are known, also one of which there was nothing since.
    assert ledger.datasets == ("busy", "old")
    assert ledger.dataset("old").read().runs == 4
    assert len(ledger.dataset("busy").charges()) == 18
    assert ledger.verify() == last(path) == 2 + 22 + last(path) // 8


def test_a_spacing_is_part_of_the_format():
    assert SPACING == 256


@pytest.mark.parametrize("which", ["last", "every"])
def test_a_checkpoint_that_is_gone_or_moved_is_told(path, which):
    where = "kind = 'checkpoint'" if which == "every" else "seq = 24"
    assert last(path) - last(path) % 8 == 24
    edit(path, f"UPDATE entry SET kind = 'answer' WHERE {where}")  # noqa: S608  # of this test
    with pytest.raises(LedgerDamaged):
        SQLiteLedger(path, key=KEY)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entry WHERE seq = {0}",
        "DELETE FROM entry WHERE seq = {0} - 1",
        "UPDATE entry SET body = '{{}}' WHERE seq = {0}",
        "UPDATE entry SET body = (SELECT body FROM entry WHERE seq = {0} - 8) WHERE seq = {0}",
        "UPDATE entry SET code = zeroblob(32) WHERE seq = {0}",
        "UPDATE entry SET seq = seq + 8 WHERE seq > {0}",
        "DELETE FROM entry WHERE seq = {0} + 1",
    ],
)
def test_an_edit_at_or_behind_the_last_checkpoint_is_told_at_once(path, statement):
    edit(path, statement.format(last(path) - last(path) % 8))
    with pytest.raises(LedgerDamaged):
        SQLiteLedger(path, key=KEY)


def test_books_of_a_table_that_was_left_alone_cannot_be_put_back(path):
    """Its last decision is before the checkpoint, which says where."""
    edit(path, "UPDATE state SET text = replace(text, '1', '0') WHERE dataset = 'old'")
    with pytest.raises(LedgerDamaged, match="old"):
        SQLiteLedger(path, key=KEY).dataset("old").read()
    edit(path, "DELETE FROM state WHERE dataset = 'old'")
    with pytest.raises(LedgerDamaged, match="old"):
        opened(SQLiteLedger(path, key=KEY), "old")


def test_an_entry_before_it_is_told_once_it_is_read(path):
    edit(path, "DELETE FROM entry WHERE seq = 3")
    ledger = SQLiteLedger(path, key=KEY)
    assert opened(ledger, "busy").charge(HUNDREDTH, "x") == 19
    assert ledger.dataset("old").read().runs == 4  # nothing that was spent is given back
    for attempt in (ledger.dataset("old").charges, ledger.verify):
        with pytest.raises(LedgerDamaged):
            attempt()


def test_a_request_is_never_another_one(path, monkeypatch):
    """An index is not covered by the codes, and SQLite trusts it."""
    ledger = SQLiteLedger(path, key=KEY).dataset("busy")
    rows = FileWork._rows

    def swapped(self, wanted):
        return rows(self, wanted if wanted.request is None else wanted._replace(request="busy 3"))

    monkeypatch.setattr(FileWork, "_rows", swapped)
    with pytest.raises(LedgerDamaged, match="index"):
        opened(ledger, "busy").charge(HUNDREDTH, "x", request_id="busy 2")
