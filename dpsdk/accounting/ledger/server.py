"""A server of PostgreSQL as a ledger needs it: connections, turns, entries, and typed errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from weakref import WeakSet

from typing_extensions import override

from dpsdk._checks import shown
from dpsdk.accounting.ledger.address import address_of
from dpsdk.accounting.ledger.chain import Entry
from dpsdk.accounting.ledger.store import Row, Seen, Store, Uncertain, Wanted, Work, inherited
from dpsdk.errors import InvalidArgument, LedgerUnavailable

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.errors import Diagnostic

    _Connection: TypeAlias = Connection[tuple[object, ...]]

__all__ = ["LedgerServer"]

R = TypeVar("R")

_VERSION = 2
"""Of the tables."""

_OLD_VERSION = 1
"""That of dpsdk 0.1.0, which wrote all books of a table anew for each charge."""

_TABLES = """
CREATE SCHEMA IF NOT EXISTS {0};
CREATE TABLE {0}.ledger (version bigint NOT NULL);
CREATE TABLE {0}.entry (
    seq bigint PRIMARY KEY, dataset text NOT NULL, kind text NOT NULL, runs bigint NOT NULL,
    request text, body bytea NOT NULL, books text NOT NULL, token bytea NOT NULL,
    code bytea NOT NULL, of_dataset bytea NOT NULL, of_request bytea
);
CREATE TABLE {0}.state (
    of_dataset bytea NOT NULL, dataset text NOT NULL, name text NOT NULL, text text NOT NULL,
    PRIMARY KEY (of_dataset, name)
);
CREATE INDEX by_runs ON {0}.entry (of_dataset, kind, runs, seq);
CREATE UNIQUE INDEX by_request ON {0}.entry (of_dataset, kind, of_request)
    WHERE of_request IS NOT NULL;
CREATE FUNCTION {0}.refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'entries stay'; END $$;
CREATE TRIGGER unchanged BEFORE UPDATE OR DELETE ON {0}.entry
    FOR EACH ROW EXECUTE FUNCTION {0}.refuse();
CREATE TRIGGER untruncated BEFORE TRUNCATE ON {0}.entry
    FOR EACH STATEMENT EXECUTE FUNCTION {0}.refuse();
INSERT INTO {0}.ledger VALUES ({1});
"""
"""Names are kept as JSON spells them, in ASCII, so that every server can hold them; an index has no
room for the longest, and goes by their digests."""

_CONVERT = """
ALTER TABLE {0}.books DROP CONSTRAINT books_pkey;
ALTER TABLE {0}.books DROP COLUMN record;
ALTER TABLE {0}.books ADD COLUMN name text NOT NULL DEFAULT '';
ALTER TABLE {0}.books ADD COLUMN text text NOT NULL DEFAULT '';
DELETE FROM {0}.books;
ALTER TABLE {0}.books ALTER COLUMN name DROP DEFAULT, ALTER COLUMN text DROP DEFAULT;
ALTER TABLE {0}.books ADD PRIMARY KEY (of_dataset, name);
ALTER TABLE {0}.books RENAME TO state;
UPDATE {0}.ledger SET version = {1};
"""
"""The same table with other columns, so that grants on it stay."""

_FOUND = (
    "SELECT c.relname::text, c.relkind::text, c.relpersistence::text, c.relrowsecurity, "
    "(SELECT count(*) FROM pg_catalog.pg_trigger t "
    "WHERE t.tgrelid = c.oid AND NOT t.tgisinternal), "
    "(SELECT count(*) FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid) "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind NOT IN ('i', 'I', 't') ORDER BY c.relname"
)

_EXPECTED = [
    [
        *([("books", "r", "p", False, 0, 0)] if old else []),
        ("entry", "r", "p", False, 2, 0),
        ("ledger", "r", "p", False, 0, 0),
        *([] if old else [("state", "r", "p", False, 0, 0)]),
    ]
    for old in (False, True)
]
"""The tables of this version, and of the older one."""

_MAKING = 0x6470_7364_6B00_0001
"""The number of the lock under which the tables are made: letters of the package's name."""

_PATIENCE = 60.0
"""So many seconds others may keep their turn, and a statement may take."""

_AGAIN = 1.0
"""So many seconds pass before what goes on is cancelled again: it may not have begun before."""

_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}")

_SET = (
    f"SET LOCAL statement_timeout = {round(2000 * _PATIENCE)}; "
    f"SET LOCAL idle_in_transaction_session_timeout = {round(2000 * _PATIENCE)}; "
    # What is not of a schema is PostgreSQL's, whatever the user has before it.
    "SET LOCAL search_path = pg_catalog, pg_temp; "
)

_READ = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_SET}"

# The system queues who waits for a lock, so that who comes back is behind those who waited.
_WRITE = (
    f"BEGIN ISOLATION LEVEL READ COMMITTED; {_SET} SET LOCAL lock_timeout = {{1}}; "
    "SELECT CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') "
    "THEN set_config('synchronous_commit', 'on', true) END; "
    "LOCK TABLE {0}.ledger IN EXCLUSIVE MODE; "
)

_STATE = "SELECT (SELECT array_agg(version) FROM {0}.ledger), current_setting('fsync')"

_INSERT = "INSERT INTO {0}.entry VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"

_KEEP = (
    "INSERT INTO {0}.state VALUES (%s, %s, %s, %s) "
    "ON CONFLICT (of_dataset, name) DO UPDATE SET text = excluded.text"
)

_DROP = "DELETE FROM {0}.state WHERE of_dataset = %s AND name = %s"

_PASSING = {
    "08": "its server was lost",
    "28": "its server does not let this user in",
    "3D000": "its server has no such database",
    "25006": "it is read-only",
    "0A000": "it is read-only",
    "55000": "it is read-only",
    "40": "it is busy",
    "42501": "it is not allowed",
    "53100": "the disk is full",
    "53": "its server has not enough room, memory or connections",
    "54": "its server cannot hold what is so long",
    "55P03": "others have had it for too long",
    "57014": "it is busy",
    "57": "its server is not there now",
    "58": "it cannot be read or written",
    "25P03": "its server was lost",
    "25P04": "its server was lost",
}
"""The codes of PostgreSQL, or their first letters, for a ledger that may be whole."""


class LedgerServer(Store["_Connection"]):
    """A schema on a server with the entries and books of any number of tables."""

    keeps_turn = False
    hides_causes = True

    def __init__(self, dsn: str, schema: str, key: bytes, patience: float | None = None) -> None:
        if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
            expected = "up to 63 letters, digits and underscores, and none of PostgreSQL's own"
            raise InvalidArgument("schema", expected, shown(schema))
        self._reached, public = address_of(dsn)
        super().__init__(f"{public} schema {schema}", key)
        self._schema = f'"{schema}"'
        self._patience = patience
        self._claims: WeakSet[_Connection] = WeakSet()

    @override
    def _explained(self, error: Exception) -> Exception | None:
        from psycopg import (  # noqa: PLC0415  # of an extra
            DataError,
            Error,
            InternalError,
            OperationalError,
        )

        if isinstance(error, OSError):
            return LedgerUnavailable(self.name, error.strerror or type(error).__name__)
        if not isinstance(error, Error):
            return None
        code = error.sqlstate
        if code is None:
            lost = isinstance(error, OperationalError)
            why = "its server cannot be reached" if lost else "its server was lost"
            return LedgerUnavailable(self.name, why)
        for known in (code, code[:2]):
            if known in _PASSING:
                return LedgerUnavailable(self.name, _PASSING[known])
        diagnostic: Diagnostic = error.diag
        said = f"PostgreSQL says: {diagnostic.message_primary or code}"
        if isinstance(error, DataError | InternalError) or code[:2] in {"23", "42", "3F", "XX"}:
            return self.damaged(said)
        return LedgerUnavailable(self.name, said)

    def there(self) -> bool:
        """True if there is something in the schema, of whatever kind. Nothing is made."""

        def look(connection: _Connection) -> bool:
            with self.typed():
                return bool(self._found(connection))

        return self._connected(f"BEGIN READ ONLY; {_SET}", look)

    @override
    def begin(self) -> bool:
        if not self.there():
            self._make()
        versions = f"SELECT array_agg(version) FROM {self._schema}.ledger"  # noqa: S608  # checked

        def look(connection: _Connection) -> bool:
            with self.typed():
                return connection.execute(versions.encode()).fetchall() == [([_OLD_VERSION],)]

        return self._connected(f"BEGIN READ ONLY; {_SET}", look)

    def _make(self) -> None:
        def make(connection: _Connection) -> None:
            with self.typed():
                connection.execute(f"SELECT pg_advisory_xact_lock({_MAKING})".encode())
                if not self._found(connection):  # by another process meanwhile
                    connection.execute(_TABLES.format(self._schema, _VERSION).encode())
                    connection.execute("COMMIT")

        # At another level, who waited for the lock would not see what was made meanwhile.
        self._connected(f"BEGIN ISOLATION LEVEL READ COMMITTED; {_SET}", make)

    def _found(self, connection: _Connection) -> list[Row]:
        rows: list[Row] = connection.execute(_FOUND, (self._schema[1:-1],)).fetchall()
        return rows

    @override
    def read(self, act: Callable[[Work], R]) -> R:
        seen = self.seen
        begin = _READ + _STATE

        def work(connection: _Connection) -> R:
            return act(_ServerWork(self, connection, self._schema, seen))

        return self._connected(begin.format(self._schema), work)

    @override
    def write(self, act: Callable[[Work], R]) -> R:
        seen = self.seen
        waits = _PATIENCE if self._patience is None else self._patience
        begin = (_WRITE + _STATE).format(self._schema, round(1000 * waits))

        def work(connection: _Connection) -> R:
            try:
                return act(_ServerWork(self, connection, self._schema, seen))
            except LedgerUnavailable as error:
                if connection.closed:
                    raise Uncertain(error) from None
                raise

        return self._connected(begin, work)

    @override
    def claim(self, dataset: str) -> _Connection | None:
        digest = sha256(f"{self._schema} {dataset}".encode()).digest()
        number = int.from_bytes(digest[:8], "big", signed=True)
        connection = self._open()
        had = False
        try:
            with self.typed():
                row = connection.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()
            had = row == (True,)
        finally:
            if not had:
                connection.close()
        if had:
            self._claims.add(connection)
        return connection if had else None

    @override
    def abandon(self) -> None:
        super().abandon()
        inherited.extend(self._claims)
        self._claims.clear()

    @override
    def _begin(self, connection: _Connection, begin: str, *, kept: bool) -> bool:
        """Begin a transaction, on a server whose state allows it."""
        try:
            with self.typed():
                cursor = connection.execute(begin.encode())
                while cursor.nextset():
                    pass
                row = cursor.fetchone() if cursor.description else ([_VERSION], "on")
        except LedgerUnavailable:
            if kept and connection.closed:
                return False
            raise
        versions, sync = (None, None) if row is None else row
        if versions not in ([_VERSION], [_OLD_VERSION]):
            raise self.damaged("it was written by another version of dpsdk")
        if sync != "on":
            why = "its server does not wait for the disk (fsync is off)"
            raise LedgerUnavailable(self.name, why)
        return True

    @override
    def _open(self) -> _Connection:
        from psycopg import connect  # noqa: PLC0415  # of an extra

        with self.typed():
            # Statements that are prepared do not get on with poolers between here and the server.
            made: _Connection = connect(self._reached, autocommit=True, prepare_threshold=None)
            try:
                made.execute(f"BEGIN READ ONLY; {_SET}".encode())
                found = self._found(made)
                made.execute("ROLLBACK")
            except BaseException:
                made.close()
                raise
        if found and found not in _EXPECTED:
            made.close()
            raise self.damaged("it has other tables, or others beside them")
        return made

    @override
    def _end(self, connection: _Connection) -> None:
        if connection.info.transaction_status:  # 0 where there is none any more
            connection.execute("ROLLBACK")


class _ServerWork(Work):
    """One transaction on a server."""

    _ENTRIES = (
        "SELECT e.seq, e.dataset, e.kind, e.runs, e.request, e.body, e.books, e.token, e.code, "
        "b.code, e.of_dataset, e.of_request "
        "FROM {0}.entry e LEFT JOIN {0}.entry b ON b.seq = e.seq - 1"
    )
    _TERMS = (
        "e.seq > %s",
        "e.seq = %s",
        "e.of_dataset = %s",
        "e.kind = %s",
        "e.of_request = %s",
        "e.runs > %s",
    )

    def __init__(
        self, server: LedgerServer, connection: _Connection, schema: str, seen: Seen
    ) -> None:
        super().__init__(server, seen)
        self._connection = connection
        self._schema = schema
        self._statements: list[str] = []
        self._values: list[object] = []

    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        with self._store.typed():
            cursor = self._connection.execute(statement.format(self._schema).encode(), values)
            return cursor.fetchall() if cursor.description else []

    @override
    def _sought(self, wanted: Wanted) -> Sequence[object]:
        dataset, request = (
            None if name is None else _digest(name) for name in (wanted.dataset, wanted.request)
        )
        return wanted.after, wanted.seq, dataset, wanted.kind, request, wanted.beyond

    @override
    def _rows(self, wanted: Wanted) -> list[Row]:
        return list(map(self._named, super()._rows(wanted)))

    def _named(self, row: Row) -> Row:
        """A row with names as they are, once they fit the digests by which it was found."""
        fields, digests = list(row[:-2]), row[-2:]
        for place, digest in zip((1, 4), digests, strict=True):
            spelled = fields[place]
            if spelled is None and digest is None:
                continue
            name = _unspelled(spelled)
            if name is None or _digest(name) != digest:
                raise self._store.damaged(f"entry {fields[0]} is listed under another name")
            fields[place] = name
        return tuple(fields)

    @override
    def _last(self) -> object:
        return self._execute("SELECT max(seq) FROM {0}.entry")[0][0]

    @override
    def _texts(self, dataset: str) -> list[Row]:
        named = "SELECT name, text FROM {0}.state WHERE of_dataset = %s"
        return self._execute(named, [_digest(dataset)])

    @override
    def datasets(self) -> list[str]:
        names = self._execute("SELECT DISTINCT dataset FROM {0}.state")
        return sorted([str(_unspelled(name)) for (name,) in names])

    @override
    def old_books(self) -> list[Row] | None:
        if self._execute("SELECT version FROM {0}.ledger") != [(_OLD_VERSION,)]:
            return None
        rows = self._execute("SELECT dataset, record FROM {0}.books ORDER BY of_dataset")
        return [(_unspelled(name), record) for name, record in rows]

    @override
    def convert(self) -> None:
        self._execute(_CONVERT.format("{0}", _VERSION))

    @override
    def _append(
        self, entries: list[Entry], dataset: str, texts: Mapping[str, str], gone: list[str]
    ) -> None:
        statements, values = self._statements, self._values
        for entry in entries:
            fields: list[object] = list(entry)
            fields[1] = _spelled(entry.dataset)
            request = entry.request
            fields[4] = None if request is None else _spelled(request)
            digest = None if request is None else _digest(request)
            statements.append(_INSERT)
            values += [*fields, _digest(entry.dataset), digest]
        of = _digest(dataset)
        for name, text in texts.items():
            statements.append(_KEEP)
            values += [of, _spelled(dataset), name, text]
        for name in gone:
            statements.append(_DROP)
            values += [of, name]

    @override
    def _commit(self) -> None:
        with self._store.typed():
            self._sure("; ".join([*self._statements, "COMMIT"]), self._values)

    def _sure(self, statements: str, values: Sequence[object]) -> None:
        """Write and commit at one go, without any objection."""
        from psycopg import ClientCursor  # noqa: PLC0415  # of an extra

        warnings: list[str] = []

        def note(notice: Diagnostic) -> None:
            if notice.severity_nonlocalized == "WARNING":
                warnings.append(notice.message_primary or "a warning")

        self._connection.add_notice_handler(note)
        try:
            # No limit of the server ends the waiting for standbys; and whether there are any that
            # have to have it is known at the commit, not before.
            with _limited(self._connection, _PATIENCE):
                cursor = ClientCursor(self._connection)
                cursor.execute(statements.format(self._schema).encode(), values)
                while cursor.nextset():
                    pass
                status = cursor.statusmessage
        finally:
            self._connection.remove_notice_handler(note)
        if warnings or status != "COMMIT":
            # As when it gave up waiting for the standbys that have to have it as well.
            why = f"PostgreSQL says: {'; '.join(warnings) or status}"
            raise LedgerUnavailable(self._store.name, why)


@contextmanager
def _limited(connection: _Connection, seconds: float) -> Generator[None]:
    """Cancel what a connection is at after so many seconds, again and again until it is over."""
    over = Event()

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            with suppress(Exception):  # of a server that is lost, of which the block is told
                connection.cancel_safe()
            wait = _AGAIN

    watching = Thread(target=watch, name="dpsdk-ledger-limit", daemon=True)
    try:
        with suppress(RuntimeError):  # no thread can be had when an interpreter ends
            watching.start()
        yield
    finally:
        over.set()
        if watching.ident is not None:
            watching.join()


def _spelled(name: str) -> str:
    """A name in ASCII, without characters that no text of a server can hold."""
    return json.dumps(name)[1:-1]


def _unspelled(text: object) -> str | None:
    try:
        name = json.loads(f'"{text}"')
    except (ValueError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def _digest(name: object) -> bytes:
    return sha256(str(name).encode("utf-8")).digest()
