"""The interface of stores of entries and books: connections and reading.

A store keeps a few connections for the next pieces of work, of which each has one for itself. None
is used, or closed, in a process that was forked from the one that made it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import local
from types import MappingProxyType
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast
from weakref import finalize

from dpsdk._tokens import fresh_token
from dpsdk.accounting.ledger import forks
from dpsdk.accounting.ledger.anchor import Anchor
from dpsdk.accounting.ledger.chain import CHECKPOINT, SPACING, START, TAKEN, Entry, coded, fits
from dpsdk.accounting.ledger.charge import Charge, dumped
from dpsdk.accounting.ledger.snapshot import (
    EMPTY,
    Snapshot,
    digest_of_all,
    restored,
)
from dpsdk.errors import Closed, LedgerDamaged, RecordError

__all__ = [
    "NOTHING",
    "Connection",
    "PAGE",
    "Row",
    "Seen",
    "Store",
    "Uncertain",
    "Wanted",
    "Work",
    "Writing",
    "inherited",
]

Row = tuple[object, ...]
"""The fields of an entry, and the code of the one before it."""

_SHAPE: tuple[type | tuple[type, ...], ...] = (
    int,
    str,
    str,
    int,
    (str, type(None)),
    bytes,
    str,
    bytes,
    bytes,
    (bytes, type(None)),
)

_KEPT = 4
"""So many connections are kept for the next pieces of work."""

PAGE = 256
"""So many entries are read at a time."""


class Connection(Protocol):
    """A connection that stays open until it is closed."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)
R = TypeVar("R")


class Seen(NamedTuple):
    """How far a chain was followed, and the `latest` decision on each table before it."""

    seq: int
    code: bytes
    latest: Mapping[str, int]


NOTHING = Seen(0, START, MappingProxyType({}))


class Uncertain(Exception):
    """The connection was lost in a turn, and nobody can tell yet what was written."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


class Writing(NamedTuple):
    """The parts of an entry to append (see `Entry`), and the books before and after it."""

    dataset: str
    kind: str
    body: bytes
    runs: int = 0
    request: str | None = None
    before: Snapshot = EMPTY
    after: Snapshot = EMPTY


class Wanted(NamedTuple):
    """The wanted entries: those of which all of this is true, None saying nothing.

    Their numbers are above `after`, and their books have counted more charges than `beyond`.
    """

    after: int = -1
    seq: int | None = None
    dataset: str | None = None
    kind: str | None = None
    request: str | None = None
    beyond: int | None = None

    def fits(self, entry: Entry) -> bool:
        """True if an entry is one of these: an index may lead to another."""
        return (
            entry.seq > self.after
            and self.seq in {None, entry.seq}
            and self.dataset in {None, entry.dataset}
            and self.kind in {None, entry.kind}
            and self.request in {None, entry.request}
            and (self.beyond is None or entry.runs > self.beyond)
        )


inherited: list[object] = []
"""Connections that a forked process must not close, since its parent works with them."""


class Store(ABC, Generic[C]):
    """A store of entries and books of any number of tables: a file, or a schema on a server."""

    keeps_turn: ClassVar[bool]
    """True if a turn to write lasts beyond the commit, until the block ends."""

    hides_causes: ClassVar[bool] = False
    """True if errors of the system below may show how it is reached."""

    def __init__(self, name: str, key: bytes) -> None:
        self.name: str = name
        self.key: bytes = key
        self.anchor: Anchor | None = None
        self.busy: local = local()
        """Whether a thread has a turn."""
        self.seen: Seen = NOTHING
        """Replaced as a whole. Who replaces it by less makes others look twice, and no more."""
        self.snapshots: dict[str, tuple[int, Snapshot]] = {}
        """The books of each table behind the entry of a number."""
        self.charges: dict[str, list[Charge]] = {}
        """The charges of each table from the first on, as far as they were read."""
        self._renew()
        forks.stores.add(self)

    def _renew(self) -> None:
        self._idle: list[C] = []
        finalize(self, _close_all, self._idle, forks.process)

    def close_idle(self) -> None:
        _close_all(self._idle, forks.process)

    def abandon(self) -> None:
        """Leave to the parent of a forked process what is its own."""
        inherited.append(self._idle)
        self._renew()

    def damaged(self, why: str) -> LedgerDamaged:
        return LedgerDamaged(self.name, why)

    def typed(self) -> _Typed:
        """Raise what goes wrong with it, in a `with`, as one of two errors in public words."""
        return _Typed(self)

    def explain(self, error: Exception) -> None:
        """Raise an error of the system below in public words; nothing where it is another's."""
        known = self._explained(error)
        if known is not None:
            raise known from None if self.hides_causes else error

    @abstractmethod
    def _explained(self, error: Exception) -> Exception | None:
        """An error in public words; None if it is something else."""

    @abstractmethod
    def begin(self) -> bool:
        """Make it, if there is none, and say whether it was written by an older version."""

    @abstractmethod
    def read(self, act: Callable[[Work], R]) -> R:
        """Act on a moment of it.

        No block of a `with`: an interrupt as one is left would keep the moment open for as long as
        somebody holds the traceback, and the same thread would wait for itself to write.
        """

    @abstractmethod
    def write(self, act: Callable[[Work], R]) -> R:
        """Act in a turn to write, after which nothing is written but what `Work.commit` wrote."""

    @abstractmethod
    def claim(self, dataset: str) -> Connection | None:
        """Claim a partition of a table until it is closed, or the process ends.

        None while somebody else has it.
        """

    @abstractmethod
    def _open(self) -> C:
        """A new connection."""

    @abstractmethod
    def _begin(self, connection: C, begin: str, *, kept: bool) -> bool:
        """Begin a transaction; False if a connection that was kept is of no more use."""

    @abstractmethod
    def _end(self, connection: C) -> None:
        """End a transaction, with nothing written that was not committed."""

    def _connected(self, begin: str, act: Callable[[C], R]) -> R:
        """Act on a connection in a transaction, which is over afterwards."""
        process, whole, held = forks.process, True, list[C]()
        try:
            while not held:
                # It is held from the moment when it is taken: no interrupt leaves it to nobody.
                kept = True
                try:
                    held.append(self._idle.pop())
                except IndexError:
                    kept = False
                    held.append(self._open())
                if not self._begin(held[-1], begin, kept=kept):
                    # It is held until it is closed, too.
                    held[-1].close()
                    held.clear()
            return act(held[-1])
        except BaseException as error:
            # An interrupt came perhaps in the middle of an answer.
            whole = isinstance(error, Exception)
            raise
        finally:
            try:
                while held:
                    self._release(held, process, whole=whole)
            except BaseException:
                # Others that wait for their turn do not wait for a garbage collector.
                if held and process is forks.process:
                    held[-1].close()
                    held.clear()
                raise

    def _release(self, held: list[C], process: object, *, whole: bool) -> None:
        """End a transaction, and keep its connection for the next one if it is whole."""
        connection = held[-1]
        if process is not forks.process:
            inherited.append(held.pop())
            return
        if whole:
            # A signal handler's error, in the middle of an answer, leaves one that cannot go on.
            with suppress(Exception):
                self._end(connection)
                if len(self._idle) < _KEPT:
                    self._idle.append(held.pop())
                    return
        with suppress(Exception):
            connection.close()
        held.clear()


class _Typed:
    def __init__(self, store: Store[C]) -> None:
        self._store = store

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, Exception):
            self._store.explain(error)


def _close_all(connections: list[C], process: object) -> None:
    """Close what was kept, in the process that made it."""
    while connections and process is forks.process:
        with suppress(Exception):
            connections.pop().close()


class Work(ABC):
    """One transaction."""

    _ENTRIES: ClassVar[str]
    """Selects entries, each with the code before it."""

    _TERMS: ClassVar[tuple[str, ...]]
    """The condition of each field of `Wanted`."""

    def __init__(self, store: Store[C], seen: Seen) -> None:
        self._store = store
        self._seen = seen
        self._process = forks.process
        self._newest: Entry | None = None
        self._pending: dict[str, tuple[int, Snapshot]] = {}

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """The rows of a statement."""

    def _sought(self, wanted: Wanted) -> Sequence[object]:
        return wanted

    def _rows(self, wanted: Wanted) -> list[Row]:
        """The first entries of some, up to `PAGE`, each with the code before it."""
        values = zip(self._TERMS, self._sought(wanted), strict=True)
        given = [pair for pair in values if pair[1] is not None]
        terms = " AND ".join([term for term, _ in given])
        statement = f"{self._ENTRIES} WHERE {terms} ORDER BY e.seq LIMIT {PAGE}"
        return self._execute(statement, [value for _, value in given])

    @abstractmethod
    def _last(self) -> object:
        """The number of the last entry; None if there is none."""

    @abstractmethod
    def _texts(self, dataset: str) -> list[Row]:
        """The texts of a table's books, each behind its name."""

    @abstractmethod
    def datasets(self) -> list[str]:
        """The names of the tables that there are books for, sorted."""

    def check(self) -> None:  # noqa: B027  # where nothing but entries can be looked at
        """Refuse what the system below finds damaged, as an index that leaves something out."""

    @abstractmethod
    def _append(
        self, entries: list[Entry], dataset: str, texts: Mapping[str, str], gone: list[str]
    ) -> None:
        """Write entries, and texts of a table's books, for the commit to come."""

    @abstractmethod
    def _commit(self) -> None:
        """Have what was written be safe; raises as `commit` does."""

    @abstractmethod
    def old_books(self) -> list[Row] | None:
        """The books of each table as version 0.1.0 wrote them; None if it was another version."""

    @abstractmethod
    def convert(self) -> None:
        """Put the tables of this version in the place of those of version 0.1.0."""

    def follow(self) -> Seen:
        """Follow the chain to its end, from where that was last, or from the last checkpoint."""
        store, seen = self._store, self._seen
        if seen.seq:
            rows = self._rows(Wanted(seen.seq - 1))
            if len(rows) == 1 and rows[0][0] == seen.seq and rows[0][8] == seen.code:
                return seen
        else:
            seen = self._checkpoint()
        self._seen = self._followed(seen)
        if self._seen.seq >= store.seen.seq:
            store.seen = self._seen
        return self._seen

    def follow_all(self) -> Seen:
        """Follow the chain from its beginning to its end. Raises as `follow` does."""
        return self._followed(NOTHING)

    def _followed(self, seen: Seen) -> Seen:
        store, (seq, code, latest) = self._store, seen
        # Where one begins is looked at again: there may be another ledger in this one's place.
        entries = self.where(Wanted(seq - 1))
        if seq:
            first = next(entries, None)
            if first is None or (first.seq, first.code) != (seq, code):
                raise store.damaged("it is an older copy, or another ledger")
            self._newest = first
        for entry in entries:
            if entry.seq != seq + 1:
                raise store.damaged(f"there is no entry {seq + 1}")
            seq, code, self._newest = entry.seq, entry.code, entry
            if (entry.kind == CHECKPOINT) != (not seq % SPACING):
                raise store.damaged(f"entry {seq} is a checkpoint, or ought to be one")
            if entry.kind == CHECKPOINT and self._places(entry) != latest:
                raise store.damaged(f"entry {seq} tells of other tables")
            if entry.kind == TAKEN:
                latest = {**latest, entry.dataset: seq}
        return Seen(seq, code, latest)

    def _checkpoint(self) -> Seen:
        """The reach of the last checkpoint."""
        last = self._last()
        seq = last - last % SPACING if isinstance(last, int) else 0
        if seq <= 0:
            return NOTHING
        entry = self.at(seq)
        if entry is None or entry.kind != CHECKPOINT:
            raise self._store.damaged(f"entry {seq} is no checkpoint")
        return Seen(seq, entry.code, self._places(entry))

    def _places(self, entry: Entry) -> Mapping[str, int]:
        try:
            found = json.loads(entry.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._store.damaged(f"entry {entry.seq} does not say where tables are")
        return cast("dict[str, int]", found)

    def where(self, wanted: Wanted) -> Iterator[Entry]:
        """Some entries, each held against its code, in their order."""
        while True:
            rows = self._rows(wanted)
            for row in rows:
                yield self._checked(row, wanted)
            if len(rows) < PAGE:
                return
            wanted = wanted._replace(after=cast("int", rows[-1][0]))

    def _checked(self, row: Row, wanted: Wanted) -> Entry:
        store = self._store
        if len(row) != len(_SHAPE) or not all(map(isinstance, row, _SHAPE)):
            raise store.damaged("an entry has fields of other types")
        entry, before = Entry(*row[:-1]), row[-1]  # type: ignore[arg-type]  # see _SHAPE
        if entry.seq == 1:
            before = START
        if not isinstance(before, bytes) or not fits(store.key, before, entry):
            raise store.damaged(f"entry {entry.seq} does not fit its code, or the key is another")
        if not wanted.fits(entry):
            raise store.damaged(f"an index leads to entry {entry.seq} in place of another")
        return entry

    def taken(self, dataset: str, since: int = 0) -> Iterator[Entry]:
        """The decisions on a table in order, without those before the first `since` charges."""
        return self.where(Wanted(dataset=dataset, kind=TAKEN, beyond=since or None))

    def of_request(self, dataset: str, kind: str, request: str) -> Entry | None:
        return next(self.where(Wanted(dataset=dataset, kind=kind, request=request)), None)

    def at(self, seq: int) -> Entry | None:
        newest = self._newest
        if newest is not None and newest.seq == seq:
            return newest
        return next(self.where(Wanted(seq=seq)), None)

    def code_at(self, seq: int) -> bytes | None:
        if seq == self._seen.seq:
            return self._seen.code
        entry = self.at(seq)
        return None if entry is None else entry.code

    def holds(self, entry: Entry) -> bool:
        """True if an entry was written that somebody tried to write."""
        return self.at(entry.seq) == entry

    def snapshot(self, dataset: str, seen: Seen) -> Snapshot:
        """The books of a table as they were written last; empty if there are none."""
        store, seq = self._store, seen.latest.get(dataset)
        known, before = store.snapshots.get(dataset, (None, EMPTY))
        if seq is not None and known == seq:
            return before
        rows = self._texts(dataset)
        texts = {
            name: text for name, text in rows if isinstance(name, str) and isinstance(text, str)
        }
        last = None if seq is None else self.at(seq)
        if last is None and not rows:
            return EMPTY
        if last is None or len(texts) != len(rows) or digest_of_all(texts, before) != last.books:
            raise store.damaged(f"the books of {dataset!r} are not those of their last entry")
        try:
            found = restored(texts, last.runs, before)
        except RecordError as error:
            raise store.damaged(str(error)) from error
        binding = found.books.binding
        if binding is not None and binding.dataset.name != dataset:
            raise store.damaged(f"the books of {dataset!r} are of another table")
        store.snapshots[dataset] = last.seq, found
        return found

    def append(self, seen: Seen, writing: Writing) -> tuple[Entry, Seen]:
        """Write an entry and the books to which it leads, for the commit to come.

        It stands behind the last one, with a checkpoint between them if it is time for one.
        """
        dataset, kind, body, runs, request, before, after = writing
        key, (seq, code, latest), entries = self._store.key, seen, list[Entry]()
        token, changed, gone = fresh_token(), dict[str, str](), list[str]()
        if not (seq + 1) % SPACING:
            seq += 1
            places = dumped(dict(latest)).encode("ascii")
            entries.append(coded(key, code, Entry(seq, "", CHECKPOINT, 0, None, places, "", token)))
            code = entries[-1].code
        digest = after.digest if kind == TAKEN else ""
        last = coded(key, code, Entry(seq + 1, dataset, kind, runs, request, body, digest, token))
        entries.append(last)
        if kind == TAKEN:
            old, pieces = before.pieces, after.pieces
            changed = {name: new.text for name, new in pieces.items() if old.get(name) is not new}
            gone = [name for name in old if name not in pieces]
            latest = {**latest, dataset: last.seq}
            self._pending[dataset] = last.seq, after
        self._append(entries, dataset, changed, gone)
        return last, Seen(last.seq, last.code, latest)

    def commit(self, seen: Seen) -> None:
        if forks.process is not self._process:
            raise Closed("a ledger in a forked process")
        self._commit()
        self._store.snapshots.update(self._pending)
        self._store.seen = seen
