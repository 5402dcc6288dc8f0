"""The ledger in a file of SQLite, which many processes share and no crash makes forget."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import local
from typing import NoReturn, SupportsIndex, cast, final

from dpsdk._checks import shown, to_name
from dpsdk.accounting.ledger.anchor import Anchor
from dpsdk.accounting.ledger.base import Decide, Decision
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.chain import ANSWER, TAKEN, Entry, code_of, digest_of
from dpsdk.accounting.ledger.charge import Charge
from dpsdk.accounting.ledger.file import NOTHING, LedgerFile, Seen, Work
from dpsdk.accounting.ledger.place import network_of
from dpsdk.errors import (
    InvalidArgument,
    LedgerConflict,
    LedgerUnavailable,
    NotCopyable,
    RecordError,
    Reentered,
)

__all__ = ["SQLiteLedger"]

_SHORTEST_KEY = 16

_LONGEST_ANSWER = 1 << 28


class _Shared:
    """What the ledgers of one file have in common in a process."""

    __slots__ = ("anchor", "busy", "file")

    def __init__(self, file: LedgerFile, anchor: Anchor | None) -> None:
        self.file = file
        self.anchor = anchor
        self.busy = local()


@final
class SQLiteLedger:
    """Remembers in one file, for any number of sessions, threads and processes of one machine.

    A session on it finds its books by the name of its table, so that one file holds those of any
    number of tables. A charge is on the disk before anything is read for it: no process that is
    killed, and no machine that stops, makes the ledger forget one. Decisions come one at a time,
    and who has just had a turn waits for another's, so that nobody who is busy keeps others
    waiting. No clock has a say in anything.

    Each entry carries a code over itself and the one before, the budget included. With a key,
    nobody who does not know it can change, add or leave out an entry unseen; without one, the codes
    tell what was damaged by accident. Putting back an older copy of the file is told by whoever
    has seen a newer one: each process for as long as it lives, and the anchor for good.

    It may be used in a forked process; a session may not, so that each worker opens its own. Back
    it up with ``VACUUM INTO`` or SQLite's backup, and not by copying a file in use.

    Parameters
    ----------
    path
        The file; made if there is none. Two empty files beside it, whose names end in ``-queue``
        and ``-turn``, say whose turn it is; ``-journal`` or ``-wal`` are of SQLite, and stay there.
    key
        At least 16 random bytes, kept elsewhere; the same for all processes and for good, and of no
        other ledger, which could be put in the place of this one.
    anchor
        Remembers in another place how far the ledger has come; see `Anchor`.
    allow_network
        Whether the file may lie on a network file system, or one shared with a host, of which
        Linux tells. Locks cannot be relied on there, and a budget may be spent twice.

    Raises
    ------
    InvalidArgument
        If an argument is not what it should be, or the file lies on a network file system.
    LedgerUnavailable
        If the file cannot be made, read or written, or another process keeps it for a minute: here,
        and whenever the ledger is used.
    LedgerDamaged
        If it is not as it was written, or the key is another: here, and whenever it is used.
    """

    __slots__ = ("__weakref__", "_name", "_shared")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: bytes | None = None,
        anchor: Anchor | None = None,
        allow_network: bool = False,
    ) -> None:
        if key is not None and (not isinstance(key, bytes) or len(key) < _SHORTEST_KEY):
            # Not what was given, which may be most of a key.
            expected = f"at least {_SHORTEST_KEY} random bytes"
            raise InvalidArgument("key", expected, type(key).__name__)
        if anchor is not None and (isinstance(anchor, type) or not isinstance(anchor, Anchor)):
            raise InvalidArgument("anchor", "an anchor", shown(anchor))
        place = _absolute(path)
        network = None if allow_network else network_of(place)
        if network is not None:
            expected = "on a disk of this machine, or come with allow_network=True"
            raise InvalidArgument("path", expected, f"a file on {network}")
        self._shared = _Shared(LedgerFile(place, b"" if key is None else bytes(key)), anchor)
        self._name: str | None = None
        file = self._shared.file
        file.begin()
        with file.reading() as work:
            work.check_pages()
            self._check_anchor(work, work.follow(NOTHING))

    @property
    def durable(self) -> bool:
        """True, since it outlives its process."""
        return True

    def dataset(self, name: str) -> SQLiteLedger:
        """The same file for the books of one table. Sessions ask for theirs by themselves.

        Raises
        ------
        LedgerConflict
            If this is the ledger of another table.
        InvalidArgument
            If it is no name. Odometers without a table have the empty one.
        """
        own = name if type(name) is str and not name else to_name("dataset", name)
        if self._name is not None and own != self._name:
            raise LedgerConflict("dataset", shown(self._name), shown(own))
        other = object.__new__(SQLiteLedger)
        other._shared = self._shared
        other._name = own
        return other

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of all tables that the file has books for."""
        with self._shared.file.reading() as work:
            return tuple(sorted(work.follow().latest))

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        """Take a decision whole or not at all, and have it on the disk; see `Ledger`.

        Raises
        ------
        LedgerUnavailable
            If the file, or the anchor, cannot be written. What was decided may be charged, and
            nothing may be released for it.
        LedgerDamaged
            If the file is not as it was written.
        Reentered
            From within a decision.
        Closed
            In a process that was forked within a decision.
        """
        request = None if request_id is None else to_name("request_id", request_id)
        with self._writing() as work:
            seen = work.follow()
            self._check_anchor(work, seen)
            name = self._only(seen)
            books = self._books(work, seen, name)
            if request is not None:
                known = self._charged(work, name, request)
                if known:
                    return Decision(books, known, repeated=True)
            decision = decide(books)
            after, charges = decision.books, decision.charges
            if after is books and not charges:
                return decision
            if name is None:
                name = "" if after.binding is None else after.binding.dataset.name
            record = _dumped(after.to_record())
            body = _dumped([charge.to_record() for charge in charges]).encode("ascii")
            asked = request if charges else None
            entry = Entry(seen.seq + 1, name, TAKEN, after.runs, asked, body, digest_of(record))
            self._commit(work, seen, entry, record)
            return decision

    def read(self) -> Books:
        """The books at this moment. Waits for what is being written, and for no decision.

        Raises
        ------
        InvalidArgument
            If the file has books for several tables, and none was named.
        """
        with self._shared.file.reading() as work:
            seen = work.follow()
            return self._books(work, seen, self._only(seen))

    def charges(self, since: int = 0) -> Sequence[Charge]:
        """The charges in order, without the first `since`. Raises as `read` does."""
        file, found, since = self._shared.file, list[Charge](), max(since, 0)
        with file.reading() as work:
            name = self._only(work.follow())
            taken = work.where(
                "e.dataset = ? AND e.kind = ? AND e.runs > ?", name or "", TAKEN, since
            )
            for entry in taken:
                charges = self._loaded(entry)
                if charges and charges[-1].number != entry.runs:
                    raise file.damaged(f"entry {entry.seq} has charges of other numbers")
                found += charges
        found = [charge for charge in found if charge.number > since]
        if [charge.number for charge in found] != list(range(since + 1, since + 1 + len(found))):
            raise file.damaged("charges are missing")
        return found

    def store(self, request_id: str, answer: bytes) -> None:
        """Keep the answer to a request; see `Ledger`.

        Raises
        ------
        InvalidArgument
            If another answer is stored already, or it is none.
        TooLarge, LedgerUnavailable, LedgerDamaged
            If it cannot be written.
        """
        name = to_name("request_id", request_id)
        if not isinstance(answer, bytes) or len(answer) > _LONGEST_ANSWER:
            expected = f"at most {_LONGEST_ANSWER:,} bytes"
            raise InvalidArgument("answer", expected, type(answer).__name__)
        with self._writing() as work:
            seen = work.follow()
            dataset = self._only(seen)
            if dataset is None:
                raise InvalidArgument("request_id", "of a table with books", "one of none")
            known = self._stored(work, dataset, name)
            if known is None:
                entry = Entry(seen.seq + 1, dataset, ANSWER, 0, name, bytes(answer), "")
                self._commit(work, seen, entry, None)
            elif known != answer:
                raise InvalidArgument("answer", "the one that is stored for the request", "another")

    def stored(self, request_id: str) -> bytes | None:
        """The answer that is stored for a request; None if there is none."""
        name = to_name("request_id", request_id)
        with self._shared.file.reading() as work:
            return self._stored(work, self._only(work.follow()), name)

    def verify(self) -> int:
        """Read everything, hold it against its codes and the anchor, and count the entries.

        Raises
        ------
        LedgerDamaged
            If something is not as it was written.
        LedgerUnavailable
            If it cannot be read.
        """
        with self._shared.file.reading() as work:
            work.check_pages()
            work.follow()  # which tells an older copy than this process has seen
            seen = work.follow(NOTHING)
            self._check_anchor(work, seen)
            if work.datasets() != sorted(seen.latest):
                raise self._shared.file.damaged("there are books that no entry tells of")
            for name in seen.latest:
                books = self._books(work, seen, name)
                count = 0
                for entry in work.where("e.dataset = ? AND e.kind = ?", name, TAKEN):
                    count += len(self._loaded(entry))
                    if entry.runs != count:
                        raise self._shared.file.damaged(f"entry {entry.seq} counts other charges")
                if books.runs != count:
                    raise self._shared.file.damaged(f"the books of {name!r} count other charges")
            return seen.seq

    @contextmanager
    def _writing(self) -> Generator[Work]:
        """A turn, which nobody waits for who has it."""
        busy = self._shared.busy
        if getattr(busy, "inside", False):
            raise Reentered("a ledger")
        try:
            busy.inside = True
            with self._shared.file.writing() as work:
                yield work
        finally:
            busy.inside = False

    def _commit(self, work: Work, seen: Seen, entry: Entry, record: str | None) -> None:
        shared = self._shared
        file = shared.file
        code = code_of(file.key, seen.code, entry)
        work.commit(entry._replace(code=code), record)
        latest = {**seen.latest, entry.dataset: entry.seq} if record is not None else seen.latest
        file.seen = Seen(entry.seq, code, latest)
        if shared.anchor is not None:
            with file.typed():
                shared.anchor.put(entry.seq, code)

    def _check_anchor(self, work: Work, seen: Seen) -> None:
        """Refuse a file that has not what its anchor knows of."""
        shared = self._shared
        if shared.anchor is None:
            return
        with shared.file.typed():
            put = shared.anchor.get()
        if put is not None and (put[0] > seen.seq or (put[0] and work.code_at(put[0]) != put[1])):
            raise shared.file.damaged("its anchor knows of entries that it does not have")

    def _only(self, seen: Seen) -> str | None:
        """The table of this ledger, or the only one; None if the file has none."""
        if self._name is not None:
            return self._name
        if len(seen.latest) > 1:
            expected = f"named by dataset(name), since the file has {len(seen.latest)}"
            raise InvalidArgument("dataset", expected, "none")
        return next(iter(seen.latest), None)

    def _books(self, work: Work, seen: Seen, name: str | None) -> Books:
        text = None if name is None else work.record(name, seen)
        if text is None:
            return Books()
        try:
            books = Books.from_record(json.loads(text))
        except (ValueError, RecursionError) as error:  # RecordError is one
            raise self._unread(error) from error
        if books.binding is not None and books.binding.dataset.name != name:
            raise self._shared.file.damaged(f"the books of {name!r} are of another table")
        return books

    def _loaded(self, entry: Entry) -> list[Charge]:
        try:
            records = json.loads(entry.body)
            if not isinstance(records, list):
                raise self._shared.file.damaged(f"entry {entry.seq} is no list of charges")
            return [Charge.from_record(one) for one in cast("list[object]", records)]
        except (ValueError, RecursionError) as error:
            raise self._unread(error) from error

    def _unread(self, error: Exception) -> Exception:
        why = str(error) if isinstance(error, RecordError) else "it holds what is no JSON"
        return self._shared.file.damaged(why)

    def _charged(self, work: Work, name: str | None, request: str) -> list[Charge]:
        same = "e.dataset = ? AND e.kind = ? AND e.request = ?"
        found = next(work.where(same, name or "", TAKEN, request), None)
        return [] if found is None else self._loaded(found)

    def _stored(self, work: Work, name: str | None, request: str) -> bytes | None:
        same = "e.dataset = ? AND e.kind = ? AND e.request = ?"
        found = next(work.where(same, name or "", ANSWER, request), None)
        return None if found is None else found.body

    def __repr__(self) -> str:
        path, of = str(self._shared.file.path), "" if self._name is None else f", {self._name!r}"
        anchor = "" if self._shared.anchor is None else ", anchored"
        keyed = ", with a key" if self._shared.file.key else ""
        return f"SQLiteLedger({path!r}{of}{keyed}{anchor})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise NotCopyable("a ledger")


def _absolute(path: str | os.PathLike[str]) -> Path:
    """Where a file is, whatever becomes of links and of the working directory."""
    expected = "the path of a file"
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument("path", expected, shown(path))
    plain = os.fspath(path)
    if not isinstance(plain, str) or not plain or "\0" in plain:
        raise InvalidArgument("path", expected, shown(plain))
    try:
        place = Path(plain).resolve()
    except (OSError, RuntimeError) as error:
        raise LedgerUnavailable(str(plain), "its directory cannot be found") from error
    return place


def _dumped(plain: object) -> str:
    return json.dumps(plain, separators=(",", ":"))
