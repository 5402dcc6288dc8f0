"""A file of SQLite as a ledger needs it: connections, turns, entries, and errors that say why."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from dpsdk._records import define
from dpsdk.accounting.ledger import forks
from dpsdk.accounting.ledger.anchor import sync_folder
from dpsdk.accounting.ledger.chain import Entry
from dpsdk.accounting.ledger.store import Row, Seen, Store, Work
from dpsdk.accounting.ledger.turnstile import Turnstile, claimed
from dpsdk.errors import LedgerUnavailable

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["FileWork", "LedgerFile"]

R = TypeVar("R")

_APPLICATION = 0x64505344
_VERSION = 3
_OLD_VERSION = 2
"""That of dpsdk 0.1.0, which wrote all books of a table anew for each charge."""

_SAFE_LOG = (3, 51, 3)
"""From this version on connections cannot lose each other's pages in a write-ahead log."""

_PATIENCE = 60.0
"""So many seconds others may keep the file busy, or one that was stopped its turn."""

_ENTRY = (
    "CREATE TABLE entry (seq INTEGER PRIMARY KEY, dataset TEXT NOT NULL, kind TEXT NOT NULL, "
    "runs INTEGER NOT NULL, request TEXT, body BLOB NOT NULL, books TEXT NOT NULL, "
    "token BLOB NOT NULL, code BLOB NOT NULL)"
)
_STATE = (
    "CREATE TABLE state (dataset TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, "
    "PRIMARY KEY (dataset, name)) WITHOUT ROWID"
)
_OLD_BOOKS = "CREATE TABLE books (dataset TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
_BY_RUNS = "CREATE INDEX by_runs ON entry (dataset, kind, runs, seq)"
_BY_REQUEST = (
    "CREATE UNIQUE INDEX by_request ON entry (dataset, kind, request) WHERE request IS NOT NULL"
)
_NO = "CREATE TRIGGER {0} BEFORE {1} ON entry BEGIN SELECT RAISE(ABORT, 'entries stay'); END"

_OF_ENTRIES = (
    ("table", "entry", _ENTRY),
    ("index", "by_runs", _BY_RUNS),
    ("index", "by_request", _BY_REQUEST),
    ("trigger", "unchanged", _NO.format("unchanged", "UPDATE")),
    ("trigger", "undeleted", _NO.format("undeleted", "DELETE")),
)
_TABLES = {
    _VERSION: {*_OF_ENTRIES, ("table", "state", _STATE)},
    _OLD_VERSION: {*_OF_ENTRIES, ("table", "books", _OLD_BOOKS)},
}

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
"""The codes of SQLite for a file that may be whole."""


@define(eq=False)
class _Link:
    """A connection, the file and the log that it is of, and the tables that were found."""

    connection: Connection
    place: tuple[int, int] | None
    log: int
    schema: object

    def close(self) -> None:
        self.connection.close()


class LedgerFile(Store[_Link]):
    """A file with the entries and books of any number of tables."""

    keeps_turn = True

    def __init__(self, path: Path, key: bytes, patience: float | None = None) -> None:
        super().__init__(str(path), key)
        self.path: Path = path
        self._patience: float = _PATIENCE if patience is None else patience
        self._turnstile = Turnstile(path, self._patience)

    @override
    def _explained(self, error: Exception) -> Exception | None:
        from sqlite3 import Error  # noqa: PLC0415  # some Pythons are built without it

        if isinstance(error, Error):
            code: int | None = getattr(error, "sqlite_errorcode", None)
            why = None if code is None else _PASSING.get(code & 0xFF)
            if why is None:
                return self.damaged(f"SQLite says: {error}")
            return LedgerUnavailable(self.name, why)
        if isinstance(error, UnicodeError):
            return self.damaged("it holds what is no text")
        if isinstance(error, OSError):
            return LedgerUnavailable(self.name, error.strerror or type(error).__name__)
        return None

    def there(self) -> bool:
        """True if there is something in the file, of whatever kind. Nothing is made."""
        with self.typed():
            try:
                found = self.path.stat()
            except FileNotFoundError:
                return False
            self._where()
            # Who makes it may be at work, or have been killed: a log alone makes it longer.
            return found.st_size > 0 and self._marks("rw") is not None

    @override
    def begin(self) -> bool:
        with self.typed():
            if not self.there():
                self._make_once()
                sync_folder(self.path.parent)
            return self._marks("rw") == (_APPLICATION, _OLD_VERSION)

    def _make_once(self) -> None:
        def make() -> None:
            if self._marks("rwc") is None:  # nor by another process meanwhile
                forks.run_unforked(self._make)

        self._turnstile.run(make)

    def _marks(self, mode: str) -> tuple[int, int] | None:
        """The marks in the file that identify it; None if there is nothing in it."""

        def look() -> tuple[int, int] | None:
            with closing(self._connect(mode)) as connection:
                ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
                ((application,),) = connection.execute("PRAGMA application_id")
                ((version,),) = connection.execute("PRAGMA user_version")
                return (application, version) if any((tables, application, version)) else None

        self._beside()
        return forks.run_unforked(look)

    def _make(self) -> None:
        with closing(self._connect("rw")) as connection:
            self._journal(connection, fresh=True)
            connection.execute("BEGIN IMMEDIATE")
            for _, _, statement in (*_OF_ENTRIES, ("", "", _STATE)):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")

    @override
    def read(self, act: Callable[[Work], R]) -> R:
        return self._act("BEGIN", act, self.seen)

    @override
    def write(self, act: Callable[[Work], R]) -> R:
        seen, begun = self.seen, list[bool]()

        def work() -> R:
            begun.append(True)
            return self._act("BEGIN IMMEDIATE", act, seen)

        try:
            return self._turnstile.run(work)
        except OSError as error:
            if not begun:
                self.explain(error)
            raise

    def _act(self, begin: str, act: Callable[[Work], R], seen: Seen) -> R:
        def work(link: _Link) -> R:
            return act(FileWork(self, link.connection, seen))

        return forks.run_unforked(lambda: self._connected(begin, work))

    @override
    def claim(self, dataset: str) -> FileIO | None:
        digest = sha256(dataset.encode("utf-8")).hexdigest()[:12]
        with self.typed():
            return claimed(f"{self.name}-partition-{digest}")

    @override
    def _open(self) -> _Link:
        with self.typed():
            self._beside()
            connection: Connection | None = None
            try:
                connection = self._connect("rw")
                schema = self._check(connection)
                self._journal(connection, fresh=False)
                return _Link(connection, self._where(), self._beside(), schema)
            except BaseException:
                if connection is not None:
                    connection.close()
                raise

    @override
    def _begin(self, connection: _Link, begin: str, *, kept: bool) -> bool:
        try:
            # Of another file, or a log that somebody has taken away, it is not.
            if self._where() != connection.place or (
                connection.log and self._beside() != connection.log
            ):
                return False
            execute = connection.connection.execute
            execute(begin)
            if execute("PRAGMA schema_version").fetchone() != connection.schema:
                connection.schema = self._check(connection.connection)
        except Exception as error:
            self.explain(error)
            raise
        return True

    @override
    def _end(self, connection: _Link) -> None:
        if connection.connection.in_transaction:
            connection.connection.rollback()

    def _connect(self, mode: str) -> Connection:
        from sqlite3 import connect  # noqa: PLC0415  # some Pythons are built without it

        # A file that is gone is not made anew.
        place = f"{self.path.as_uri()}?mode={mode}"
        timeout = self._patience
        return connect(
            place, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )

    def _where(self) -> tuple[int, int] | None:
        """The device and inode of the file; None if there is none."""
        try:
            found = os.stat(self.name)  # noqa: PTH116  # quicker than a path, for each transaction
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise LedgerUnavailable(self.name, "it is no file")
        if found.st_nlink > 1:
            raise LedgerUnavailable(self.name, "it has other names (hard links) as well")
        return found.st_dev, found.st_ino

    def _beside(self) -> int:
        """The inode of its write-ahead log; 0 for none."""
        log = 0
        for companion in ("-journal", "-shm", "-wal"):
            place = self.name + companion
            with suppress(FileNotFoundError):
                found = os.stat(place)  # noqa: PTH116
                if not stat.S_ISREG(found.st_mode):
                    raise LedgerUnavailable(place, "it is no plain file")
                log = found.st_ino if companion == "-wal" else 0
        return log

    def _check(self, connection: Connection) -> object:
        """Refuse a file that is none of these, down to its triggers; and tell its schema."""
        ((application,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        if application != _APPLICATION:
            raise self.damaged("it is no ledger of dpsdk")
        if version not in _TABLES:
            raise self.damaged("it was written by another version of dpsdk")
        schema = connection.execute("PRAGMA schema_version").fetchone()
        made = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        if set(connection.execute(made)) != _TABLES[version]:
            raise self.damaged("it has other tables, or others beside them")
        return schema

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

    _ENTRIES = (
        "SELECT e.seq, e.dataset, e.kind, e.runs, e.request, e.body, e.books, e.token, e.code, "
        "b.code FROM entry e LEFT JOIN entry b ON b.seq = e.seq - 1"
    )
    _TERMS = (
        "e.seq > ?",
        "e.seq = ?",
        "e.dataset = ?",
        "e.kind = ?",
        "e.request = ?",
        "e.runs > ?",
    )

    def __init__(self, file: LedgerFile, connection: Connection, seen: Seen) -> None:
        super().__init__(file, seen)
        self._connection = connection

    @override
    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except Exception as error:
            self._store.explain(error)
            raise

    @override
    def _last(self) -> object:
        return self._execute("SELECT max(seq) FROM entry")[0][0]

    @override
    def _texts(self, dataset: str) -> list[Row]:
        return self._execute("SELECT name, text FROM state WHERE dataset = ?", (dataset,))

    @override
    def datasets(self) -> list[str]:
        return sorted({str(name) for (name,) in self._execute("SELECT dataset FROM state")})

    @override
    def check(self) -> None:
        if self._execute("PRAGMA integrity_check(1)") != [("ok",)]:
            raise self._store.damaged("SQLite finds its pages damaged")

    @override
    def _append(
        self, entries: list[Entry], dataset: str, texts: Mapping[str, str], gone: list[str]
    ) -> None:
        execute = self._execute
        for entry in entries:
            execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", entry)
        for name, text in texts.items():
            execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", (dataset, name, text))
        for name in gone:
            execute("DELETE FROM state WHERE dataset = ? AND name = ?", (dataset, name))

    @override
    def _commit(self) -> None:
        self._execute("COMMIT")

    @override
    def old_books(self) -> list[Row] | None:
        if self._execute("PRAGMA user_version") != [(_OLD_VERSION,)]:
            return None
        return self._execute("SELECT dataset, record FROM books ORDER BY dataset")

    @override
    def convert(self) -> None:
        for statement in ("DROP TABLE books", _STATE, f"PRAGMA user_version = {_VERSION}"):
            self._execute(statement)
