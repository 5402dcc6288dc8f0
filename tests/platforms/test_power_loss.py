"""The ledger in a file, when the machine stops at any write: nothing that was released is lost."""

import random
from pathlib import Path

import pytest
from recorded_disk import Connection, Log, crashes, recording

from dpsdk.accounting import SQLiteLedger
from dpsdk.accounting.ledger import file as files
from dpsdk.errors import DpsdkError
from spenders import HUNDREDTH, opened


def written(apsw, path, monkeypatch, mode, sync=""):
    """What the disk is asked for a session with some charges, marked where each is released."""
    log = Log()
    name = f"recording-{path.parent.name}"
    system = recording(apsw, log, name)

    def connect(self, how):
        return Connection(apsw, self.path, how, name, exclusive=mode == "wal")

    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 51, 3) if mode == "wal" else (3, 40, 1))
    monkeypatch.setattr(files.LedgerFile, "_connect", connect)
    monkeypatch.setattr(files, "sync_folder", lambda _: log.events.append(("folder", "")))
    if sync:
        journal = files.LedgerFile._journal

        def careless(self, connection, *, fresh):
            journal(self, connection, fresh=fresh)
            connection.execute(f"PRAGMA synchronous = {sync}")

        monkeypatch.setattr(files.LedgerFile, "_journal", careless)
    ledger = SQLiteLedger(path)
    odometer = opened(ledger)
    for number in range(1, 5):
        request = f"r{number}"
        assert odometer.charge(HUNDREDTH, "x" * 3000 * (number % 2), request_id=request) == number
        log.mark(number)
        ledger.store(request, b"7" * 5000)
        log.mark(request)
    monkeypatch.undo()
    system.unregister()
    return log


def lost(path, log, each):
    """How often something is missing that was released, of how many losses of power."""
    rng, missing, count = random.Random(11), 0, 0
    fresh = path.with_name("after")
    for marks, left in crashes(log, rng, each):
        for old in path.parent.glob("after*"):
            old.unlink()
        for name, content in left.items():
            Path(name.replace(str(path), str(fresh))).write_bytes(content)
        count += 1
        try:
            ledger = SQLiteLedger(fresh)
            ledger.verify()
            charged = [one.request_id for one in ledger.dataset("t").charges()]
            told = sum(isinstance(mark, int) for mark in marks)
            assert charged in ([f"r{i}" for i in range(1, told + more)] for more in (1, 2))
            for name in (mark for mark in marks if isinstance(mark, str)):
                assert ledger.dataset("t").stored(name) == b"7" * 5000
            assert opened(ledger).count == len(charged)
        except (AssertionError, DpsdkError):
            missing += 1
    return missing, count


@pytest.mark.parametrize("mode", ["truncate", "wal"])
@pytest.mark.parametrize("each", [1, pytest.param(16, marks=pytest.mark.audit)])
def test_no_loss_of_power_loses_what_was_released(apsw, quick_disk, monkeypatch, mode, each):
    log = written(apsw, quick_disk / "spent.db", monkeypatch, mode)
    assert sum(event[0] == "sync" for event in log.events) >= 16
    missing, count = lost(quick_disk / "spent.db", log, each)
    assert count > 150 * each
    assert missing == 0


def test_the_disk_that_is_simulated_tells_a_ledger_that_does_not_wait(
    apsw, quick_disk, monkeypatch
):
    """Or nothing would follow from the tests above."""
    log = written(apsw, quick_disk / "spent.db", monkeypatch, "truncate", "OFF")
    assert lost(quick_disk / "spent.db", log, 1)[0] > 20
