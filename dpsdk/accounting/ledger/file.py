"""A file of SQLite as a ledger needs it: connections, turns, entries, and errors that say why."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dpsdk.accounting.ledger.anchor import sync_folder
from dpsdk.accounting.ledger.chain import START, TAKEN, Entry, digest_of, fits
from dpsdk.accounting.ledger.forks import unforked
from dpsdk.accounting.ledger.turnstile import Turnstile
from dpsdk.errors import Closed, LedgerDamaged, LedgerUnavailable

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["NOTHING", "LedgerFile", "Seen", "Work"]

_APPLICATION = 0x64505344
_VERSION = 1

_SAFE_LOG = (3, 51, 3)
"""From this version on connections cannot lose each other's pages in a write-ahead log."""

_PATIENCE = 60.0
"""So many seconds others may keep the file busy, or one that was stopped its turn."""

_ENTRY = (
    "CREATE TABLE entry (seq INTEGER PRIMARY KEY, dataset TEXT NOT NULL, kind TEXT NOT NULL, "
    "runs INTEGER NOT NULL, request TEXT, body BLOB NOT NULL, books TEXT NOT NULL, "
    "code BLOB NOT NULL)"
)
_BOOKS = "CREATE TABLE books (dataset TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
_BY_RUNS = "CREATE INDEX by_runs ON entry (dataset, kind, runs, seq)"
_BY_REQUEST = (
    "CREATE UNIQUE INDEX by_request ON entry (dataset, kind, request) WHERE request IS NOT NULL"
)
_NO = "CREATE TRIGGER {0} BEFORE {1} ON entry BEGIN SELECT RAISE(ABORT, 'entries stay'); END"

_TABLES = (
    ("table", "entry", _ENTRY),
    ("table", "books", _BOOKS),
    ("index", "by_runs", _BY_RUNS),
    ("index", "by_request", _BY_REQUEST),
    ("trigger", "unchanged", _NO.format("unchanged", "UPDATE")),
    ("trigger", "undeleted", _NO.format("undeleted", "DELETE")),
)

_WITH_BEFORE = (
    "SELECT e.seq, e.dataset, e.kind, e.runs, e.request, e.body, e.books, e.code, b.code "
    "FROM entry e LEFT JOIN entry b ON b.seq = e.seq - 1 WHERE "
)

_SHAPE: tuple[type | tuple[type, ...], ...] = (
    int,
    str,
    str,
    int,
    (str, type(None)),
    bytes,
    str,
    bytes,
    (bytes, type(None)),
)

_PASSING = {
    5: "it is busy",
    6: "it is busy",
    7: "there is not enough memory",
    8: "it is read-only",
    10: "it cannot be read or written",
    13: "the disk is full",
    14: "it cannot be opened",
    23: "it is not allowed",
}
"""What a code of SQLite says of a file that may be whole."""


class Seen(NamedTuple):
    """How far a chain was followed: nothing before it changes any more."""

    seq: int
    code: bytes
    latest: dict[str, int]
    """The last decision on each table."""


NOTHING = Seen(0, START, {})

_inherited: list[object] = []
"""What a forked process must not close, since its parent works with it."""


class LedgerFile:
    """A file with the entries and books of any number of tables.

    A connection lasts for one piece of work, so that nothing is open when a process is forked, or
    when the file is replaced.

    Parameters
    ----------
    path
        The file, absolute.
    key
        Of the codes.
    """

    __slots__ = ("_turnstile", "key", "path", "seen")

    def __init__(self, path: Path, key: bytes) -> None:
        self.path: Path = path
        self.key: bytes = key
        self.seen: Seen = NOTHING
        """Replaced as a whole. Who replaces it by less makes others look twice, and no more."""
        self._turnstile = Turnstile(path, _PATIENCE)

    def damaged(self, why: str) -> LedgerDamaged:
        """The error that says what does not fit."""
        return LedgerDamaged(str(self.path), why)

    @contextmanager
    def typed(self) -> Generator[None]:
        """Raise what goes wrong with the file as one of two errors, in public words."""
        from sqlite3 import Error  # noqa: PLC0415  # some Pythons are built without it

        try:
            yield
        except Error as error:
            code: int | None = getattr(error, "sqlite_errorcode", None)
            why = None if code is None else _PASSING.get(code & 0xFF)
            if why is not None:
                raise LedgerUnavailable(str(self.path), why) from error
            raise self.damaged(f"SQLite says: {error}") from error
        except UnicodeError as error:
            raise self.damaged("it holds what is no text") from error
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise LedgerUnavailable(str(self.path), why) from error

    def begin(self) -> None:
        """Make the file, if there is none or an empty one.

        Raises
        ------
        LedgerUnavailable
            If it cannot be made.
        """
        with self.typed():
            with suppress(FileNotFoundError):
                found = self.path.stat()
                if not stat.S_ISREG(found.st_mode):
                    raise LedgerUnavailable(str(self.path), "it is no file")
                # Who makes it may be at work, or have been killed: a log alone makes it longer.
                if found.st_size and self._begun("rw"):
                    return
            with self._turnstile.turn():
                if self._begun("rwc"):  # by another process meanwhile
                    return
                self._make()
            sync_folder(self.path.parent)

    def _begun(self, mode: str) -> bool:
        """Whether there is something in the file, of whatever kind."""
        with unforked(), closing(self._connect(mode)) as connection:
            ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
            ((application,),) = connection.execute("PRAGMA application_id")
            ((version,),) = connection.execute("PRAGMA user_version")
            return any((tables, application, version))

    def _make(self) -> None:
        with unforked(), closing(self._connect("rw")) as connection:
            self._journal(connection, fresh=True)
            connection.execute("BEGIN IMMEDIATE")
            for _, _, statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Generator[Work]:
        """A moment of the file."""
        with self._working("BEGIN") as work:
            yield work

    @contextmanager
    def writing(self) -> Generator[Work]:
        """A turn to write, which ends with nothing written unless `Work.commit` comes before."""
        turn = self._turnstile.turn()
        with self.typed():
            turn.__enter__()
        try:
            with self._working("BEGIN IMMEDIATE") as work:
                yield work
        finally:
            turn.__exit__(None, None, None)

    @contextmanager
    def _working(self, begin: str) -> Generator[Work]:
        with unforked():
            yield from self._connected(begin)

    def _connected(self, begin: str) -> Generator[Work]:
        process = os.getpid()
        with self.typed():
            self._check_names()
            connection = self._connect("rw")
        try:
            with self.typed():
                self._check(connection)
                self._journal(connection, fresh=False)
                connection.execute(begin)
            yield Work(self, connection)
        finally:
            if os.getpid() != process:
                _inherited.append(connection)
            else:
                with suppress(Exception):
                    connection.rollback()
                with suppress(Exception):
                    connection.close()

    def _connect(self, mode: str) -> Connection:
        from sqlite3 import connect  # noqa: PLC0415  # some Pythons are built without it

        # A file that is gone is not made anew.
        place = f"{self.path.as_uri()}?mode={mode}"
        return connect(place, uri=True, timeout=_PATIENCE, isolation_level=None)

    def _check_names(self) -> None:
        """Refuse a file with several names, of which each would have its own log and turns."""
        with suppress(FileNotFoundError):
            if self.path.stat().st_nlink > 1:
                raise LedgerUnavailable(str(self.path), "it has other names (hard links) as well")

    def _check(self, connection: Connection) -> None:
        """Refuse a file that is none of these, down to its triggers."""
        ((application,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        if application != _APPLICATION:
            raise self.damaged("it is no ledger of dpsdk")
        if version != _VERSION:
            raise self.damaged("it was written by another version of dpsdk")
        made = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        if set(connection.execute(made)) != set(_TABLES):
            raise self.damaged("it has other tables, or others beside them")

    def _journal(self, connection: Connection, *, fresh: bool) -> None:
        """Have commits survive the end of the machine, in whichever mode SQLite does that."""
        from sqlite3 import sqlite_version_info  # noqa: PLC0415  # some Pythons are without it

        safe = sqlite_version_info >= _SAFE_LOG
        ((mode,),) = connection.execute("PRAGMA journal_mode")
        if mode != "wal" or not safe:
            wanted = "wal" if fresh and safe else "truncate"
            ((mode,),) = connection.execute(f"PRAGMA journal_mode = {wanted}")
        if mode == "wal" and not safe:
            why = "it has a write-ahead log, in which this version of SQLite may lose charges"
            raise LedgerUnavailable(str(self.path), why)
        connection.execute(f"PRAGMA synchronous = {'FULL' if mode == 'wal' else 'EXTRA'}")
        # Apple's disks keep to themselves what they were told to write, unless asked like this.
        connection.execute("PRAGMA fullfsync = 1")
        connection.execute("PRAGMA checkpoint_fullfsync = 1")


class Work:
    """One transaction on a file."""

    __slots__ = ("_connection", "_file", "_process")

    def __init__(self, file: LedgerFile, connection: Connection) -> None:
        self._file = file
        self._connection = connection
        self._process = os.getpid()

    def follow(self, seen: Seen | None = None) -> Seen:
        """Follow the chain to its end, from where it was last followed to or from another place.

        Raises
        ------
        LedgerDamaged
            If it is not as it was written, or shorter than it was before.
        """
        file = self._file
        seq, code, latest = file.seen if seen is None else seen
        with file.typed():
            if seq:
                known = self._connection.execute("SELECT code FROM entry WHERE seq = ?", (seq,))
                if known.fetchone() != (code,):
                    raise file.damaged("it is an older copy, or another ledger")
            rows = self._connection.execute(f"{_WITH_BEFORE} e.seq > ? ORDER BY e.seq", (seq,))
            for entry in self._entries(rows):
                if entry.seq != seq + 1:
                    raise file.damaged(f"there is no entry {seq + 1}")
                seq, code = entry.seq, entry.code
                if entry.kind == TAKEN:
                    latest = {**latest, entry.dataset: seq}
        file.seen = Seen(seq, code, latest)
        return file.seen

    def _entries(self, rows: Iterator[tuple[object, ...]]) -> Iterator[Entry]:
        file = self._file
        for row in rows:
            if not all(isinstance(part, kind) for part, kind in zip(row, _SHAPE, strict=True)):
                raise file.damaged("an entry has fields of other types")
            entry, before = Entry(*row[:-1]), row[-1]  # type: ignore[arg-type]  # see _SHAPE
            if entry.seq == 1:
                before = START
            if not isinstance(before, bytes) or not fits(file.key, before, entry):
                raise file.damaged(
                    f"entry {entry.seq} does not fit its code, or the key is another"
                )
            yield entry

    def check_pages(self) -> None:
        """Refuse a file that SQLite finds damaged, as an index that leaves something out.

        Raises
        ------
        LedgerDamaged
            If it is.
        """
        with self._file.typed():
            found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != ("ok",):
            raise self._file.damaged("SQLite finds its pages damaged")

    def where(self, condition: str, *values: object) -> Iterator[Entry]:
        """The entries of which something is true, each held against its code, in their order."""
        statement = f"{_WITH_BEFORE} {condition} ORDER BY e.seq"
        with self._file.typed():
            yield from self._entries(self._connection.execute(statement, values))

    def datasets(self) -> list[str]:
        """The names of the tables that there are books for."""
        with self._file.typed():
            names = self._connection.execute("SELECT dataset FROM books ORDER BY dataset")
            return [str(name) for (name,) in names]

    def record(self, dataset: str, seen: Seen) -> str | None:
        """The books of a table as they were written last; None if there are none.

        Raises
        ------
        LedgerDamaged
            If they are others than the last entry says.
        """
        file, seq = self._file, seen.latest.get(dataset)
        with file.typed():
            named = "SELECT record FROM books WHERE dataset = ?"
            row = self._connection.execute(named, (dataset,)).fetchone()
        if row is None and seq is None:
            return None
        last = next(self.where("e.seq = ?", seq), None) if seq is not None else None
        text = None if row is None else row[0]
        if last is None or not isinstance(text, str) or digest_of(text) != last.books:
            raise file.damaged(f"the books of {dataset!r} are not those of their last entry")
        return text

    def code_at(self, seq: int) -> bytes | None:
        """The code of an entry; None if there is no such entry."""
        entry = next(self.where("e.seq = ?", seq), None)
        return None if entry is None else entry.code

    def commit(self, entry: Entry, record: str | None) -> None:
        """Write an entry, and with it the books that it leads to, and wait for the disk.

        Raises
        ------
        LedgerUnavailable
            If that fails. Then nothing of it is there for anybody.
        Closed
            In a forked process.
        """
        if os.getpid() != self._process:
            raise Closed("a ledger in a forked process")
        with self._file.typed():
            execute = self._connection.execute
            execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", entry)
            if record is not None:
                execute("INSERT OR REPLACE INTO books VALUES (?, ?)", (entry.dataset, record))
            execute("COMMIT")
