"""The ledger in a file of SQLite: turns, kills, full disks, edits, and older copies."""

import copy
import pickle
import random
import shutil
import sqlite3
import threading
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpsdk import Budget
from dpsdk.accounting import FileAnchor, SQLiteLedger
from dpsdk.accounting.ledger import file as files
from dpsdk.accounting.ledger.sqlite import network_of
from dpsdk.accounting.ledger.turnstile import Turnstile
from dpsdk.errors import (
    AlreadyCharged,
    InvalidArgument,
    LedgerDamaged,
    LedgerUnavailable,
    NotCopyable,
)
from durable import KEY, DurableLedgers, spent, throw
from parallel import needs_fork
from spenders import HUNDREDTH, edit, opened, shares

fcntl = pytest.importorskip("fcntl", reason="forks, and locks as Unix has them")


@pytest.fixture
def path(quick_disk):
    return quick_disk / "spent.db"


@pytest.fixture
def place(path):
    return SimpleNamespace(ledger=partial(SQLiteLedger, path))


class TestInAFile(DurableLedgers):
    two_processes = 1200, 100


def test_who_waits_has_the_next_turn_and_not_who_just_had_it(path):
    turnstile, order = Turnstile(path), list[str]()

    def work():
        other.start()
        with path.with_name(f"{path.name}-queue").open("a") as queue:
            while True:  # until the other has its place in the queue
                try:
                    fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    break
                fcntl.flock(queue, fcntl.LOCK_UN)

    for _ in range(5):
        waiting = partial(turnstile.run, lambda: order.append("who waited"))
        other = threading.Thread(target=waiting)
        turnstile.run(work)
        turnstile.run(lambda: order.append("who came back"))
        other.join()
    assert order == ["who waited", "who came back"] * 5


@pytest.mark.audit
@needs_fork
def test_thirty_two_processes_end_on_the_budget_and_nobody_starves(path):
    each = shares(lambda: SQLiteLedger(path), 32, 1600)
    assert min(each) >= 10, each


def test_it_cannot_be_copied_and_shows_no_key(path):
    ledger = SQLiteLedger(path, key=KEY, anchor=FileAnchor(path.with_name("anchor")))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyable):
            copied(ledger)
    assert repr(ledger) == f"SQLiteLedger({str(path)!r}, with a key, anchored)"
    for bad in (b"short", "a text of more than sixteen", 7):
        with pytest.raises(InvalidArgument, match="key") as caught:
            SQLiteLedger(path, key=bad)
        assert "short" not in str(caught.value)
        assert "sixteen" not in str(caught.value)
    for bad in (FileAnchor, object(), "anchor"):
        with pytest.raises(InvalidArgument, match="anchor"):
            SQLiteLedger(path, anchor=bad)
    for bad in (7, b"spent.db", "", "a\0b", None):
        with pytest.raises(InvalidArgument, match="path"):
            SQLiteLedger(bad)


# What the system refuses


def refused(code):
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode = code
    return error


def reopen(ledger):
    """Have the next piece of work open the file again."""
    ledger._store.close_idle()


def test_a_full_disk_refuses_and_keeps_what_there_was(path, monkeypatch):
    ledger = SQLiteLedger(path)
    odometer = opened(ledger)
    odometer.charge(HUNDREDTH, "x")
    connect = files.LedgerFile._connect

    def full(self, mode):
        connection = connect(self, mode)
        connection.execute("PRAGMA max_page_count = 1")  # no page more than there are
        return connection

    number, refusal = 1, None
    with monkeypatch.context() as patch:
        patch.setattr(files.LedgerFile, "_connect", full)
        reopen(ledger)
        while refusal is None:
            try:
                number = odometer.charge(HUNDREDTH, "x", request_id=f"{number}")
            except LedgerUnavailable as error:
                refusal = error
        assert "full" in str(refusal)
        assert pickle.loads(pickle.dumps(refusal)) == refusal  # noqa: S301
        assert odometer.count == number
    reopen(ledger)
    assert odometer.charge(HUNDREDTH, "x", request_id=f"{number}") == number + 1
    assert odometer.spent.epsilon == Fraction(number + 1, 100)


def test_a_read_only_file_is_told_and_can_be_read(path, monkeypatch):
    ledger = SQLiteLedger(path)
    odometer = opened(ledger)
    odometer.charge(HUNDREDTH, "x")
    connect = files.LedgerFile._connect
    monkeypatch.setattr(files.LedgerFile, "_connect", lambda self, mode: connect(self, "ro"))
    reopen(ledger)
    with pytest.raises(LedgerUnavailable, match="read-only"):
        odometer.charge(HUNDREDTH, "y")
    assert odometer.count == 1
    assert SQLiteLedger(path).verify() == 2


def test_errors_of_the_system_are_typed(path, monkeypatch):
    ledger = SQLiteLedger(path)
    odometer = opened(ledger)
    for code, why in ((5, "busy"), (10, "read or written"), (14, "opened"), (7, "memory")):
        error = refused(code)
        with monkeypatch.context() as patch:
            patch.setattr(files.LedgerFile, "_connect", lambda *_, error=error: throw(error))
            reopen(ledger)
            for attempt in (lambda: odometer.charge(HUNDREDTH, "x"), lambda: odometer.spent):
                with pytest.raises(LedgerUnavailable, match=why):
                    attempt()
    path.unlink()
    with pytest.raises(LedgerUnavailable, match="opened"):
        odometer.charge(HUNDREDTH, "x")
    assert not path.exists()
    with pytest.raises(LedgerUnavailable):
        SQLiteLedger(path.with_name("nowhere") / "spent.db")
    with pytest.raises(LedgerUnavailable):
        SQLiteLedger(path.parent)


def test_a_commit_that_fails_charges_nothing_and_releases_nothing(path, monkeypatch):
    ledger = SQLiteLedger(path)
    odometer = opened(ledger)
    before = path.read_bytes()
    monkeypatch.setattr(
        files.FileWork, "_commit", lambda _: throw(LedgerUnavailable("x", "it broke"))
    )
    with pytest.raises(LedgerUnavailable):
        odometer.charge(HUNDREDTH, "x")
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert odometer.charge(HUNDREDTH, "x") == 1


def test_no_clock_has_a_say(path, monkeypatch):
    odometer = opened(SQLiteLedger(path))
    for now in (0.0, 4e9, -1.0):
        monkeypatch.setattr("time.time", lambda now=now: now)
        monkeypatch.setattr("time.monotonic", lambda now=now: now)
        odometer.charge(HUNDREDTH, "x")
    assert [one.number for one in odometer.charges] == [1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "network"),
    [("ext4", None), ("nfs4", "nfs4"), ("fuse.sshfs", "fuse.sshfs"), ("fuse.fuse-overlayfs", None)],
)
def test_network_file_systems_are_told_by_the_longest_mount(kind, network):
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        f"2 1 0:9 / /srv/my\\040data rw,x shared:1 - {kind} server:/data rw\n"
        "3 2 8:2 / /srv/my\\040data/local rw - xfs /dev/sdb rw\nodd\n"
    )
    assert network_of(Path("/srv/my data/spent.db"), mounts) == network
    assert network_of(Path("/srv/my data/local/spent.db"), mounts) is None
    assert network_of(Path("/srv/my database/spent.db"), mounts) is None


def test_a_network_file_system_is_refused_unless_allowed(path, monkeypatch):
    monkeypatch.setattr("dpsdk.accounting.ledger.sqlite.network_of", lambda place: "nfs")
    with pytest.raises(InvalidArgument, match="allow_network"):
        SQLiteLedger(path)
    assert not path.exists()
    opened(SQLiteLedger(path, allow_network=True)).charge(HUNDREDTH, "x")


@pytest.mark.parametrize(
    ("version", "mode", "sync"), [((3, 51, 2), "truncate", 3), ((3, 51, 3), "wal", 2)]
)
def test_the_journal_is_such_that_the_version_loses_nothing(
    tmp_path, monkeypatch, version, mode, sync
):
    monkeypatch.setattr("sqlite3.sqlite_version_info", version)
    ledger = SQLiteLedger(tmp_path / "spent.db")
    opened(ledger).charge(HUNDREDTH, "x")

    def pragma(name):
        ask = f"PRAGMA {name}"
        return ledger._store.read(lambda work: work._connection.execute(ask).fetchone())

    assert pragma("journal_mode") == (mode,)
    assert pragma("synchronous") == (sync,)
    # A version that may lose charges takes the log away, or refuses the file.
    reopen(ledger)
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 40, 1))
    assert opened(ledger).charge(HUNDREDTH, "x") == 2
    assert pragma("journal_mode") != ("wal",)


# What was edited, damaged or put back


def for_both(path):
    for name in ("one", "two"):
        opened(SQLiteLedger(path, key=KEY), name).charge(HUNDREDTH, "x")


EDITS = {
    "cap": "UPDATE state SET text = replace(text, '\"epsilon\":\"1\"', '\"epsilon\":\"9\"')",
    "spent": "UPDATE state SET text = replace(text, '1', '0') WHERE name = 'lines'",
    "no books": "DELETE FROM state WHERE dataset = 'two'",
    "no head": "DELETE FROM state WHERE dataset = 'two' AND name = 'head'",
    "other books": "UPDATE state SET dataset = 'six' WHERE dataset = 'two'",
    "another's lines": "INSERT OR REPLACE INTO state SELECT 'two', name, replace(text, '1', '2') "
    "FROM state WHERE dataset = 'one' AND name = 'lines'",
    "one more": "INSERT INTO state VALUES ('two', 'account 7', '{}')",
    "new books": "INSERT INTO state VALUES ('six', 'head', '{}')",
    "charge": "UPDATE entry SET body = replace(body, '1/100', '1/900') WHERE seq = 3",
    "request": "UPDATE entry SET request = 'b' WHERE request = 'a'",
    "answer": "UPDATE entry SET body = x'38' WHERE kind = 'answer'",
    "left out": "DELETE FROM entry WHERE seq = 3",
    "first left out": "DELETE FROM entry WHERE seq = 1",
    "end cut": "DELETE FROM entry WHERE seq > 6",
    "all of one": "DELETE FROM entry WHERE dataset = 'two'",
    "other order": "UPDATE entry SET seq = -seq",
    "table": "UPDATE entry SET dataset = 'two' WHERE seq = 3",
    "type": "UPDATE entry SET body = CAST(body AS TEXT) WHERE seq = 2",
    "trigger": "CREATE TRIGGER mine AFTER INSERT ON entry BEGIN DELETE FROM state; END",
    "version": "PRAGMA user_version = 9",
    "application": "PRAGMA application_id = 2",
    "repeated": "INSERT INTO entry SELECT 9, dataset, kind, runs, 'c', body, books, token, code "
    "FROM entry WHERE seq = 8",
}  # fmt: skip


@pytest.mark.thorough(quick=8)
@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS)
def test_an_edited_file_is_refused(path, place, statement):
    spent(place, key=KEY)
    edit(path, statement)
    with pytest.raises(LedgerDamaged):
        SQLiteLedger(path, key=KEY).verify()
    if not statement.startswith("INSERT INTO state VALUES ('six'"):
        with pytest.raises(LedgerDamaged):
            for_both(path)


def test_a_key_is_asked_of_a_ledger_that_was_made_without_one(path, place):
    """Without a key, whoever can write the file can write codes as well, and is not told."""
    spent(place)
    with pytest.raises(LedgerDamaged):
        SQLiteLedger(path, key=KEY)


def test_an_older_copy_is_told_by_who_has_seen_a_newer_one_and_by_the_anchor(path, place):
    old, put = path.with_name("old.db"), path.with_name("anchor")
    ledger = spent(place, anchor=FileAnchor(put))
    shutil.copy(path, old)
    odometer = opened(ledger, "one")
    odometer.charge(HUNDREDTH, "late")
    shutil.copy(old, path)
    for attempt in (lambda: odometer.charge(HUNDREDTH, "x"), lambda: odometer.spent, ledger.verify):
        with pytest.raises(LedgerDamaged, match="older copy"):
            attempt()
    with pytest.raises(LedgerDamaged, match="anchor"):
        SQLiteLedger(path, anchor=FileAnchor(put))
    # Another that went on from there is no better.
    late = SQLiteLedger(path)
    for _ in range(3):
        opened(late, "one").charge(HUNDREDTH, "x")
    with pytest.raises(LedgerDamaged, match="older copy"):
        odometer.charge(HUNDREDTH, "x")
    with pytest.raises(LedgerDamaged, match="anchor"):
        SQLiteLedger(path, anchor=FileAnchor(put))
    path.unlink()
    SQLiteLedger(path)
    with pytest.raises(LedgerDamaged, match="older copy"):
        odometer.charge(HUNDREDTH, "x")


def test_an_anchor_that_fails_releases_nothing_and_stays_behind(path):
    class Failing(FileAnchor):
        fails = False

        def put(self, seq, code):
            if self.fails:
                raise OSError(28, "No space left on device")
            super().put(seq, code)

    anchor = Failing(path.with_name("anchor"))
    odometer = opened(SQLiteLedger(path, anchor=anchor))
    odometer.charge(HUNDREDTH, "x")
    anchor.fails = True
    with pytest.raises(LedgerUnavailable, match="No space"):
        odometer.charge(HUNDREDTH, "y", request_id="late")
    anchor.fails = False
    # It stays charged, and the ledger is ahead of its anchor, as after a kill in between.
    assert opened(SQLiteLedger(path, anchor=anchor)).count == 2
    with pytest.raises(AlreadyCharged):
        odometer.charge(HUNDREDTH, "y", request_id="late")
    path.with_name("anchor").write_text("dpsdk.anchor.1 1")
    with pytest.raises(LedgerDamaged, match="anchor"):
        odometer.charge(HUNDREDTH, "z")


def flips(path, place, places):
    """What becomes of single flipped bits anywhere in the file."""
    spent(place, key=KEY)
    whole, found, rng = path.read_bytes(), Counter[str](), random.Random(7)
    before = [opened(SQLiteLedger(path, key=KEY), name).charges for name in ("one", "two")]
    whole = path.read_bytes()
    for _ in range(places):
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(changed))
        try:
            ledger = SQLiteLedger(path, key=KEY)
            ledger.verify()
            for name, charges in zip(("one", "two"), before, strict=True):
                odometer = opened(ledger, name)
                assert odometer.charges == charges
                assert odometer.spent.epsilon == Fraction(3, 100)
                assert odometer.budget == Budget(1)
                assert ledger.dataset(name).stored("a") == b"7"
        except (LedgerDamaged, LedgerUnavailable) as error:
            found[type(error).__name__] += 1
        else:
            found["harmless"] += 1
    return found


@pytest.mark.thorough
def test_a_flipped_bit_is_told_or_changes_nothing(path, place):
    found = flips(path, place, 60)
    assert found["LedgerDamaged"] > 5
    assert sum(found.values()) == 60


@pytest.mark.audit
def test_four_thousand_flipped_bits_are_told_or_change_nothing(path, place):
    assert sum(flips(path, place, 4000).values()) == 4000


def test_a_file_of_something_else_is_left_alone(path):
    path.write_text(
        "a text that is no ledger, and longer than a header of SQLite, to be sure. " * 9
    )
    before = path.read_bytes()
    with pytest.raises(LedgerDamaged):
        SQLiteLedger(path)
    assert path.read_bytes() == before
    path.unlink()
    edit(path, "CREATE TABLE mine (x)")
    before = path.read_bytes()
    with pytest.raises(LedgerDamaged, match="no ledger"):
        SQLiteLedger(path)
    assert path.read_bytes() == before
