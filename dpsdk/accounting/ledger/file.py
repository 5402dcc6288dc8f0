"""A file of SQLite as a ledger needs it: connections, turns, entries, and errors that say why."""

from __future__ import annotations

import stat
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from dpsdk.accounting.ledger import forks
from dpsdk.accounting.ledger.anchor import sync_folder
from dpsdk.accounting.ledger.chain import Entry
from dpsdk.accounting.ledger.turnstile import Turnstile
from dpsdk.accounting.ledger.work import Row, Store, Wanted, Work
from dpsdk.errors import Closed, LedgerUnavailable

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["FileWork", "LedgerFile"]

_APPLICATION = 0x64505344
_VERSION = 2

_SAFE_LOG = (3, 51, 3)
"""From this version on connections cannot lose each other's pages in a write-ahead log."""

_PATIENCE = 60.0
"""So many seconds others may keep the file busy, or one that was stopped its turn."""

_ENTRY = (
    "CREATE TABLE entry (seq INTEGER PRIMARY KEY, dataset TEXT NOT NULL, kind TEXT NOT NULL, "
    "runs INTEGER NOT NULL, request TEXT, body BLOB NOT NULL, books TEXT NOT NULL, "
    "token BLOB NOT NULL, code BLOB NOT NULL)"
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
    "SELECT e.seq, e.dataset, e.kind, e.runs, e.request, e.body, e.books, e.token, "
    "e.code, b.code "
    "FROM entry e LEFT JOIN entry b ON b.seq = e.seq - 1 WHERE "
)

_TERMS = (
    "e.seq = ?",
    "e.seq > ?",
    "e.dataset = ?",
    "e.kind = ?",
    "e.request = ?",
    "e.runs > ?",
)
"""What each field of `Wanted` asks."""

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


_inherited: list[object] = []
"""What a forked process must not close, since its parent works with it."""


class LedgerFile(Store):
    """A file with the entries and books of any number of tables.

    A connection lasts for one piece of work, so that nothing is open when a process is forked, or
    when the file is replaced.

    Parameters
    ----------
    path
        The file, absolute.
    key
        Of the codes.
    patience
        So many seconds others may keep the file busy; a minute, if left out.
    """

    __slots__ = ("_patience", "_turnstile", "path")

    keeps_turn = True

    def __init__(self, path: Path, key: bytes, patience: float | None = None) -> None:
        super().__init__(str(path), key)
        self.path: Path = path
        self._patience: float = _PATIENCE if patience is None else patience
        self._turnstile = Turnstile(path, self._patience)

    @override
    @contextmanager
    def typed(self) -> Generator[None]:
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

    def there(self) -> bool:
        """Whether there is something in the file, of whatever kind. Nothing is made.

        Raises
        ------
        LedgerUnavailable
            If it is no file, or cannot be read.
        LedgerDamaged
            If it is none of SQLite.
        """
        with self.typed():
            try:
                found = self.path.stat()
            except FileNotFoundError:
                return False
            if not stat.S_ISREG(found.st_mode):
                raise LedgerUnavailable(str(self.path), "it is no file")
            # Who makes it may be at work, or have been killed: a log alone makes it longer.
            return found.st_size > 0 and self._begun("rw")

    @override
    def begin(self) -> None:
        if self.there():
            return  # what is there is looked at whenever it is used
        with self.typed():
            self._make_once()
            sync_folder(self.path.parent)

    def _make_once(self) -> None:
        with self._turnstile.turn():
            if not self._begun("rwc"):  # nor by another process meanwhile
                self._make()

    def _begun(self, mode: str) -> bool:
        """Whether there is something in the file, of whatever kind."""
        with forks.unforked(), closing(self._connect(mode)) as connection:
            ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
            ((application,),) = connection.execute("PRAGMA application_id")
            ((version,),) = connection.execute("PRAGMA user_version")
            return any((tables, application, version))

    def _make(self) -> None:
        with forks.unforked(), closing(self._connect("rw")) as connection:
            self._journal(connection, fresh=True)
            connection.execute("BEGIN IMMEDIATE")
            for _, _, statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")

    @override
    @contextmanager
    def reading(self) -> Generator[Work]:
        with self._working("BEGIN") as work:
            yield work

    @override
    @contextmanager
    def writing(self) -> Generator[Work]:
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
        with forks.unforked():
            yield from self._connected(begin)

    def _connected(self, begin: str) -> Generator[Work]:
        process = forks.process
        with self.typed():
            self._check_names()
            connection = self._connect("rw")
        try:
            with self.typed():
                self._check(connection)
                self._journal(connection, fresh=False)
                connection.execute(begin)
            yield FileWork(self, connection)
        finally:
            # Python's connections keep themselves alive, and with them their locks. So an interrupt
            # must not come before one is closed, and it cannot where nothing is called.
            try:
                with suppress(Exception):
                    if forks.process is process:
                        connection.rollback()
            finally:
                if forks.process is process:
                    connection.close()
                else:
                    _inherited.append(connection)

    def _connect(self, mode: str) -> Connection:
        from sqlite3 import connect  # noqa: PLC0415  # some Pythons are built without it

        # A file that is gone is not made anew.
        place = f"{self.path.as_uri()}?mode={mode}"
        return connect(place, uri=True, timeout=self._patience, isolation_level=None)

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

        # Also what changes the mode must not come back with a journal that was deleted.
        connection.execute("PRAGMA synchronous = EXTRA")
        safe = sqlite_version_info >= _SAFE_LOG
        ((mode,),) = connection.execute("PRAGMA journal_mode")
        if mode != "wal" or not safe:
            wanted = "wal" if fresh and safe else "truncate"
            ((mode,),) = connection.execute(f"PRAGMA journal_mode = {wanted}")
        if mode == "wal" and not safe:
            why = "it has a write-ahead log, in which this version of SQLite may lose charges"
            raise LedgerUnavailable(str(self.path), why)
        if mode == "wal":
            connection.execute("PRAGMA synchronous = FULL")
        # Apple's disks keep to themselves what they were told to write, unless asked like this.
        connection.execute("PRAGMA fullfsync = 1")
        connection.execute("PRAGMA checkpoint_fullfsync = 1")


class FileWork(Work):
    """One transaction on a file."""

    __slots__ = ("_connection", "_process")

    def __init__(self, file: LedgerFile, connection: Connection) -> None:
        super().__init__(file)
        self._connection = connection
        self._process = forks.process

    @override
    def _rows(self, wanted: Wanted) -> Iterator[Row]:
        given = [
            (term, value) for term, value in zip(_TERMS, wanted, strict=True) if value is not None
        ]
        condition = " AND ".join([term for term, _ in given])
        values = [value for _, value in given]
        return self._connection.execute(f"{_WITH_BEFORE} {condition} ORDER BY e.seq", values)

    @override
    def _last(self) -> object:
        return self._connection.execute("SELECT max(seq) FROM entry").fetchone()[0]

    @override
    def _written(self, dataset: str) -> object:
        named = "SELECT record FROM books WHERE dataset = ?"
        row = self._connection.execute(named, (dataset,)).fetchone()
        return None if row is None else row[0]

    @override
    def datasets(self) -> list[str]:
        with self._store.typed():
            names = self._connection.execute("SELECT dataset FROM books")
            return sorted([str(name) for (name,) in names])

    @override
    def check(self) -> None:
        with self._store.typed():
            found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != ("ok",):
            raise self._store.damaged("SQLite finds its pages damaged")

    @override
    def _commit(self, entries: list[Entry], record: str | None) -> None:
        if forks.process is not self._process:
            raise Closed("a ledger in a forked process")
        with self._store.typed():
            execute = self._connection.execute
            for entry in entries:
                execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", entry)
            if record is not None:
                execute("INSERT OR REPLACE INTO books VALUES (?, ?)", (entries[-1].dataset, record))
            execute("COMMIT")
