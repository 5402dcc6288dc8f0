"""One transaction on what holds a chain of entries, wherever that is: follow, read and append."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import NamedTuple, cast

from dpsdk._tokens import fresh_token
from dpsdk.accounting.ledger.chain import (
    CHECKPOINT,
    SPACING,
    START,
    TAKEN,
    Entry,
    coded,
    digest_of,
    fits,
)
from dpsdk.errors import LedgerDamaged

__all__ = ["NOTHING", "Row", "Seen", "Store", "Uncertain", "Wanted", "Work", "dumped"]

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


class Seen(NamedTuple):
    """How far a chain was followed: nothing before it changes any more."""

    seq: int
    code: bytes
    latest: Mapping[str, int]
    """The last decision on each table."""


NOTHING = Seen(0, START, MappingProxyType({}))


class Uncertain(Exception):
    """The connection was lost in a turn, and nobody can tell yet what was written.

    Parameters
    ----------
    why
        What to say if the turn is not tried again.
    """

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


class Wanted(NamedTuple):
    """Which entries are asked for: those of which all of this is true, None saying nothing."""

    seq: int | None = None
    after: int | None = None
    """Its number is above this."""
    dataset: str | None = None
    kind: str | None = None
    request: str | None = None
    beyond: int | None = None
    """The books have counted more charges than this."""

    def fits(self, entry: Entry) -> bool:
        """Whether an entry is one of these: an index may lead to another."""
        return (
            self.seq in {None, entry.seq}
            and (self.after is None or entry.seq > self.after)
            and self.dataset in {None, entry.dataset}
            and self.kind in {None, entry.kind}
            and self.request in {None, entry.request}
            and (self.beyond is None or entry.runs > self.beyond)
        )


class Store(ABC):
    """What holds entries and books of any number of tables: a file, or a schema on a server.

    Parameters
    ----------
    name
        What errors call it; public.
    key
        Of the codes.
    """

    __slots__ = ("__weakref__", "key", "name", "seen")

    keeps_turn: bool
    """Whether a turn to write lasts beyond the commit, until the block ends."""

    def __init__(self, name: str, key: bytes) -> None:
        self.name: str = name
        self.key: bytes = key
        self.seen: Seen = NOTHING
        """Replaced as a whole. Who replaces it by less makes others look twice, and no more."""

    def damaged(self, why: str) -> LedgerDamaged:
        """The error that says what does not fit."""
        return LedgerDamaged(self.name, why)

    @abstractmethod
    def typed(self) -> AbstractContextManager[None]:
        """Raise what goes wrong with it as one of two errors, in public words."""

    @abstractmethod
    def begin(self) -> None:
        """Make it, if there is none.

        Raises
        ------
        LedgerUnavailable
            If it cannot be made.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Work]:
        """A moment of it."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Work]:
        """A turn to write, which ends with nothing written unless `Work.commit` comes before.

        Raises
        ------
        Uncertain
            If the connection was lost meanwhile, where there is one.
        """


class Work(ABC):
    """One transaction.

    Parameters
    ----------
    store
        On what.
    """

    __slots__ = ("_newest", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._newest: Entry | None = None

    @abstractmethod
    def _rows(self, wanted: Wanted) -> Iterator[Row]:
        """Some entries in their order, each with the code before it."""

    @abstractmethod
    def _last(self) -> object:
        """The number of the last entry; None if there is none."""

    @abstractmethod
    def _written(self, dataset: str) -> object:
        """The books of a table as text; None if there are none."""

    @abstractmethod
    def datasets(self) -> list[str]:
        """The names of the tables that there are books for, sorted."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what the system below finds damaged, as an index that leaves something out.

        Raises
        ------
        LedgerDamaged
            If it is.
        """

    @abstractmethod
    def _commit(self, entries: list[Entry], record: str | None) -> None:
        """Write entries, and the books to which the last leads; raises as `commit` does."""

    def follow(self) -> Seen:
        """Follow the chain to its end, from where it was last followed to or the last checkpoint.

        Raises
        ------
        LedgerDamaged
            If it is not as it was written, or shorter than it was before.
        """
        store = self._store
        seen = store.seen if store.seen.seq else self._checkpoint()
        store.seen = self._followed(seen)
        return store.seen

    def follow_all(self) -> Seen:
        """Follow the chain from its beginning to its end. Raises as `follow` does."""
        return self._followed(NOTHING)

    def _followed(self, seen: Seen) -> Seen:
        store, (seq, code, latest) = self._store, seen
        # Where one begins is looked at again: there may be another ledger in this one's place.
        entries = self.where(Wanted(after=seq - 1))
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
        """What the last checkpoint has seen."""
        with self._store.typed():
            last = self._last()
        seq = last - last % SPACING if isinstance(last, int) else 0
        if seq <= 0:
            return NOTHING
        entry = self._at(seq)
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
        store = self._store
        with store.typed():
            for row in self._rows(wanted):
                shaped = zip(row, _SHAPE, strict=True)
                if not all(isinstance(part, kind) for part, kind in shaped):
                    raise store.damaged("an entry has fields of other types")
                entry, before = Entry(*row[:-1]), row[-1]  # type: ignore[arg-type]  # see _SHAPE
                if entry.seq == 1:
                    before = START
                if not isinstance(before, bytes) or not fits(store.key, before, entry):
                    why = f"entry {entry.seq} does not fit its code, or the key is another"
                    raise store.damaged(why)
                if not wanted.fits(entry):
                    raise store.damaged(f"an index leads to entry {entry.seq} in place of another")
                yield entry

    def taken(self, dataset: str, since: int = 0) -> Iterator[Entry]:
        """The decisions on a table in order, without those before the first `since` charges."""
        return self.where(Wanted(dataset=dataset, kind=TAKEN, beyond=since or None))

    def of_request(self, dataset: str, kind: str, request: str) -> Entry | None:
        """The decision on a request, or the answer to it; None if there is none."""
        return next(self.where(Wanted(dataset=dataset, kind=kind, request=request)), None)

    def _at(self, seq: int) -> Entry | None:
        newest = self._newest
        if newest is not None and newest.seq == seq:
            return newest
        return next(self.where(Wanted(seq=seq)), None)

    def code_at(self, seq: int) -> bytes | None:
        """The code of an entry; None if there is no such entry."""
        entry = self._at(seq)
        return None if entry is None else entry.code

    def holds(self, entry: Entry) -> bool:
        """Whether an entry was written that somebody tried to write."""
        return self._at(entry.seq) == entry

    def record(self, dataset: str, seen: Seen) -> str | None:
        """The books of a table as they were written last; None if there are none.

        Raises
        ------
        LedgerDamaged
            If they are others than the last entry says.
        """
        store, seq = self._store, seen.latest.get(dataset)
        with store.typed():
            text = self._written(dataset)
        if text is None and seq is None:
            return None
        last = None if seq is None else self._at(seq)
        if last is None or not isinstance(text, str) or digest_of(text) != last.books:
            raise store.damaged(f"the books of {dataset!r} are not those of their last entry")
        return text

    def chained(
        self,
        seen: Seen,
        dataset: str,
        kind: str,
        body: bytes,
        runs: int,
        request: str | None,
        record: str | None,
    ) -> list[Entry]:
        """An entry behind the last one, with a checkpoint between them if it is time for one."""
        key, (seq, code, latest), entries = self._store.key, seen, list[Entry]()
        token = fresh_token()
        if not (seq + 1) % SPACING:
            seq += 1
            places = dumped(dict(latest)).encode("ascii")
            entry = Entry(seq, "", CHECKPOINT, 0, None, places, "", token)
            entries.append(coded(key, code, entry))
            code = entries[-1].code
        digest = "" if record is None else digest_of(record)
        entry = Entry(seq + 1, dataset, kind, runs, request, body, digest, token)
        entries.append(coded(key, code, entry))
        return entries

    def commit(self, seen: Seen, entries: list[Entry], record: str | None) -> Seen:
        """Write entries and the books to which they lead, and wait until they are safe.

        Raises
        ------
        LedgerUnavailable
            If that fails.
        Uncertain
            If nobody can tell yet whether it failed.
        Closed
            In a forked process.
        """
        self._commit(entries, record)
        last, latest = entries[-1], seen.latest
        if last.kind == TAKEN:
            latest = {**latest, last.dataset: last.seq}
        self._store.seen = Seen(last.seq, last.code, latest)
        return self._store.seen


def dumped(plain: object) -> str:
    """Plain data as JSON, in ASCII and without spaces."""
    return json.dumps(plain, separators=(",", ":"))
