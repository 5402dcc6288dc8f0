"""The file of a ledger among processes: owners that are stopped, threads and forks, names."""

import math
import os
import signal
import sqlite3
import threading

import pytest

from dpsdk.accounting import Decision, SQLiteLedger
from dpsdk.accounting.ledger import file as files
from dpsdk.accounting.ledger import turnstile
from dpsdk.errors import InvalidArgument, LedgerDamaged, LedgerUnavailable
from parallel import ended, forked, needs_fork
from spenders import HUNDREDTH, opened

pytest.importorskip("fcntl", reason="forks, and locks as Unix has them")


@pytest.fixture
def path(quick_disk):
    return quick_disk / "spent.db"


def stopped(books):
    os.kill(os.getpid(), signal.SIGSTOP)
    return Decision(books)


@pytest.mark.thorough
@needs_fork
def test_who_waits_for_a_process_that_was_stopped_is_told_and_goes_on_once_it_is_gone(
    path, monkeypatch
):
    odometer = opened(SQLiteLedger(path))
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    impatient = SQLiteLedger(path)
    child = forked(lambda: impatient.transact(stopped))
    os.waitpid(child, os.WUNTRACED)
    other = opened(SQLiteLedger(path.with_name("other.db")))
    try:
        assert odometer.spent.epsilon == 0  # readers wait for nobody
        for attempt in (
            lambda: opened(impatient),
            lambda: opened(SQLiteLedger(path)),
            lambda: impatient.store("a", b"7"),
        ):
            with pytest.raises(LedgerUnavailable, match="too long"):
                attempt()
        assert other.charge(HUNDREDTH, "x") == 1
    finally:
        os.kill(child, signal.SIGKILL)
        ended(child)
    assert odometer.charge(HUNDREDTH, "x") == 1
    assert opened(impatient).charge(HUNDREDTH, "x") == 2


@needs_fork
def test_making_a_file_waits_no_longer(path, monkeypatch):
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    holding = files.LedgerFile(path, b"")._turnstile

    def make():
        with pytest.raises(LedgerUnavailable, match="too long"):
            SQLiteLedger(path)

    holding.run(make)
    assert not path.exists()
    SQLiteLedger(path)


@needs_fork
def test_a_ledger_that_is_told_so_waits_no_longer_for_others(path):
    opened(SQLiteLedger(path))
    hurried = SQLiteLedger(path, patience=0.05)

    def store():
        with pytest.raises(LedgerUnavailable, match="too long"):
            hurried.store("a", b"7")

    files.LedgerFile(path, b"")._turnstile.run(store)
    hurried.store("a", b"7")


@pytest.mark.thorough
def test_who_is_refused_again_and_again_keeps_no_more_threads_and_files(path):
    opened(SQLiteLedger(path))
    hurried, before = SQLiteLedger(path, patience=0.01), threading.active_count()

    def store():
        for _ in range(60):
            with pytest.raises(LedgerUnavailable, match="too long"):
                hurried.store("a", b"7")
        assert threading.active_count() <= before + 20

    files.LedgerFile(path, b"")._turnstile.run(store)
    SQLiteLedger(path).store("a", b"7")
    while threading.active_count() > before:
        threading.Event().wait(0.001)


def test_a_turn_is_waited_for_no_longer_than_it_may(path, monkeypatch):
    """Also where the queue was long, and then somebody keeps the turn itself."""
    waits = []

    def wait(file, patience):
        waits.append(patience)
        now[0] += patience / 4
        return True

    now = [0.0]
    monkeypatch.setattr(turnstile, "_wait", wait)
    monkeypatch.setattr(turnstile.time, "monotonic", lambda: now[0])
    turnstile.Turnstile(path, 8.0).run(lambda: None)
    assert waits == [8.0, 6.0]


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, 3601, "5", b"5"])
def test_a_patience_is_a_number_of_seconds(path, wrong):
    with pytest.raises(InvalidArgument, match="patience must be") as told:
        SQLiteLedger(path, patience=wrong)
    assert told.value.parameter == "patience"
    assert not path.exists()


@pytest.mark.thorough(quick=1)
@needs_fork
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_process_that_is_forked_while_another_thread_works_can_work_itself(
    path, monkeypatch, kind
):
    ledger = SQLiteLedger(path)
    opened(ledger)
    begun, end = threading.Event(), threading.Event()

    def work(moment):
        moment.follow()
        begun.set()
        end.wait(60)

    def spend():
        monkeypatch.setattr(files, "_PATIENCE", 0.2)
        assert opened(SQLiteLedger(path)).charge(HUNDREDTH, "x") == 1

    thread = threading.Thread(target=getattr(ledger._store, kind), args=(work,))
    thread.start()
    begun.wait(60)
    later = threading.Timer(0.05, end.set)
    later.start()
    assert ended(forked(spend)) == 0
    thread.join()
    later.join()
    assert opened(ledger).charge(HUNDREDTH, "x") == 2
    assert ledger.verify() == 5


@needs_fork
def test_a_fork_waits_for_nobody_for_ever(path, monkeypatch):
    monkeypatch.setattr("dpsdk.accounting.ledger.forks._PATIENCE", 0.01)
    ledger = SQLiteLedger(path)
    begun, end = threading.Event(), threading.Event()

    def work(_):
        begun.set()
        end.wait(60)

    thread = threading.Thread(target=ledger._store.read, args=(work,))
    thread.start()
    begun.wait(60)
    assert ended(forked(lambda: None)) == 0
    end.set()
    thread.join()
    assert ended(forked(lambda: opened(SQLiteLedger(path)).charge(HUNDREDTH, "x") - 1)) == 0


def test_a_file_with_two_names_is_refused_under_either(path):
    odometer = opened(SQLiteLedger(path))
    second = path.with_name("second.db")
    os.link(path, second)
    for attempt in (
        lambda: odometer.charge(HUNDREDTH, "x"),
        lambda: odometer.spent,
        lambda: SQLiteLedger(path),
        lambda: SQLiteLedger(second),
    ):
        with pytest.raises(LedgerUnavailable, match="hard links"):
            attempt()
    second.unlink()
    assert odometer.charge(HUNDREDTH, "x") == 1
    # A link to a name is no other name.
    second.symlink_to(path)
    assert opened(SQLiteLedger(second)).charge(HUNDREDTH, "x") == 2
    assert not second.with_name("second.db-turn").exists()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_who_was_killed_while_making_a_file_leaves_one_that_can_be_made(path, mode):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.close()
    assert bool(path.stat().st_size) == (mode == "wal")
    assert opened(SQLiteLedger(path)).charge(HUNDREDTH, "x") == 1


@pytest.mark.parametrize("mark", ["application_id", "user_version"])
def test_a_file_that_another_program_has_marked_is_left_alone(path, mark):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {mark} = 7")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerDamaged, match="no ledger"):
        SQLiteLedger(path)
    assert path.read_bytes() == before


def loop(path):
    path.symlink_to(path.with_name("b"))
    path.with_name("b").symlink_to(path)


@pytest.mark.parametrize("make", [os.mkfifo, loop, os.mkdir])
def test_what_is_no_file_is_refused(path, make):
    make(path)
    with pytest.raises(LedgerUnavailable):
        SQLiteLedger(path)


def device(path):
    path.symlink_to("/dev/tty")


@pytest.mark.parametrize("companion", ["-queue", "-turn", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, device])
def test_what_is_no_file_beside_it_is_refused_and_not_waited_for(path, companion, make):
    opened(SQLiteLedger(path))
    beside = path.with_name(path.name + companion)
    beside.unlink(missing_ok=True)
    make(beside)
    with pytest.raises(LedgerUnavailable, match=r"no plain file|directory"):
        opened(SQLiteLedger(path, patience=0.2))


@pytest.mark.parametrize(
    "name", [":memory:", "file::memory:", "file:spent?mode=memory&cache=shared"]
)
def test_what_sqlite_has_in_memory_is_no_file(name, quick_disk, monkeypatch):
    monkeypatch.chdir(quick_disk)
    with pytest.raises(InvalidArgument, match="MemoryLedger"):
        SQLiteLedger(name)
    assert not list(quick_disk.iterdir())
