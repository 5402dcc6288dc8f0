"""The common part of ledgers that keep a chain of entries in a store many processes share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from time import sleep
from typing import Any, NoReturn, Self, SupportsIndex, TypeVar, cast

from dpsdk._checks import shown, to_finite, to_name
from dpsdk._records import shows_half_made
from dpsdk.accounting.ledger import forks
from dpsdk.accounting.ledger.anchor import Anchor
from dpsdk.accounting.ledger.base import Decide, Decision
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.chain import ANSWER, TAKEN, Entry, digest_of
from dpsdk.accounting.ledger.charge import Charge, charge_of, written
from dpsdk.accounting.ledger.snapshot import EMPTY, snapshot_of
from dpsdk.accounting.ledger.store import Connection, Seen, Store, Uncertain, Work, Writing
from dpsdk.errors import (
    InvalidArgument,
    LedgerConflict,
    LedgerUnavailable,
    NotCopyable,
    RecordError,
    Reentered,
)

__all__ = ["Mark", "StoredLedger", "checked_patience"]

_SHORTEST_KEY = 16

_LEAST_PATIENCE, _MOST_PATIENCE = 0.01, 3600

_LONGEST_ANSWER = 1 << 28

_PAUSES = (0.05, 0.5, 2.0)
"""So many seconds pass before a turn begins again, when a connection was lost in it."""

R = TypeVar("R")


def checked_patience(
    key: bytes | None, anchor: Anchor | None, patience: float | None
) -> float | None:
    """Refuse a key, an anchor or seconds to wait that are none, and give the seconds."""
    if key is not None and (not isinstance(key, bytes) or len(key) < _SHORTEST_KEY):
        # Not what was given, which may be most of a key.
        raise InvalidArgument("key", f"at least {_SHORTEST_KEY} random bytes", type(key).__name__)
    if anchor is not None and (isinstance(anchor, type) or not isinstance(anchor, Anchor)):
        raise InvalidArgument("anchor", "an anchor", shown(anchor))
    if patience is None:
        return None
    seconds = float(to_finite("patience", patience))
    if not _LEAST_PATIENCE <= seconds <= _MOST_PATIENCE:
        expected = f"from {_LEAST_PATIENCE} to {_MOST_PATIENCE:,} seconds"
        raise InvalidArgument("patience", expected, shown(patience))
    return seconds


class Mark:
    """A mark that a partition is open, until it is closed or its process ends."""

    def __init__(self, claim: Connection) -> None:
        self._claim = claim
        self._process = forks.process

    def close(self) -> None:
        """Let others open a partition, unless this is a forked process, whose parent has it."""
        if self._process is forks.process:
            self._claim.close()


@shows_half_made
class StoredLedger:
    """A ledger on a store of entries; see `SQLiteLedger` and `PostgresLedger`."""

    def _begin(self, store: Store[Any], anchor: Anchor | None) -> None:
        """Make the store if there is none, and look how it stands."""
        store.anchor = anchor
        self._store = store
        self._name: str | None = None
        if store.begin():
            self._turn(self._upgrade)
        put = self._anchored()
        store.read(lambda work: self._check_anchor(work, work.follow(), put))

    @property
    def durable(self) -> bool:
        """True, since it outlives its process."""
        return True

    def dataset(self, name: str) -> Self:
        """The same ledger for the books of one table. Sessions ask for theirs by themselves.

        Raises `LedgerConflict` if this is the ledger of another table; and `InvalidArgument` if it
        is no name. Odometers without a table have the empty one.
        """
        own = name if type(name) is str and not name else to_name("dataset", name)
        if self._name is not None and own != self._name:
            raise LedgerConflict("dataset", shown(self._name), shown(own))
        other = object.__new__(type(self))
        other._store = self._store
        other._name = own
        return other

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of all tables that there are books for."""
        return self._store.read(lambda work: tuple(sorted(work.follow().latest)))

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        """Take a decision whole or not at all, and have it on the disk; see `Ledger`.

        Raises `LedgerUnavailable` if the ledger, or the anchor, cannot be written: what was decided
        may be charged, and nothing may be released for it; `LedgerDamaged` if the ledger is not as
        it was written; `Reentered` from within a decision; and `Closed` in a process that was
        forked within a decision.
        """
        request = None if request_id is None else to_name("request_id", request_id)

        def plan(work: Work, seen: Seen) -> tuple[Decision, Writing | None]:
            name = self._only(seen)
            before = EMPTY if name is None else work.snapshot(name, seen)
            books = before.books
            if request is not None:
                known = work.of_request(name or "", TAKEN, request)
                if known is not None:
                    return Decision(books, self._loaded(known), repeated=True), None
            decision = decide(books)
            after, charges = decision.books, decision.charges
            if after is books and not charges:
                return decision, None
            if name is None:
                name = "" if after.binding is None else after.binding.dataset.name
            asked = request if charges else None
            body, texts = written(charges), snapshot_of(after, before)
            return decision, Writing(name, TAKEN, body, after.runs, asked, before, texts)

        return self._take(plan)

    def read(self) -> Books:
        """The books at this moment. Waits for what is being written, and for no decision.

        Raises `InvalidArgument` if there are books for several tables, and none was named.
        """

        def books(work: Work) -> Books:
            seen = work.follow()
            name = self._only(seen)
            return Books() if name is None else work.snapshot(name, seen).books

        return self._store.read(books)

    def charges(self, since: int = 0) -> Sequence[Charge]:
        """The charges in order, without the first `since`. Raises as `read` does."""
        store, since = self._store, max(since, 0)

        def look(work: Work) -> tuple[str, list[Charge], list[Charge]]:
            seen = work.follow()
            name = self._only(seen) or ""
            # What was read once does not change: the codes of later entries rest on it.
            known = store.charges.get(name, [])
            found = [*known]
            for entry in work.taken(name, len(known)):
                charges = self._loaded(entry)
                if charges and charges[-1].number != entry.runs:
                    raise store.damaged(f"entry {entry.seq} has charges of other numbers")
                found += charges
            return name, known, found

        name, known, found = store.read(look)
        if [charge.number for charge in found] != list(range(1, 1 + len(found))):
            raise store.damaged("charges are missing")
        if len(found) > len(known):
            store.charges[name] = found
        return found[since:]

    def store(self, request_id: str, answer: bytes) -> None:
        """Keep the answer to a request; see `Ledger`.

        Raises `InvalidArgument` if another answer is stored already, or it is none; and `TooLarge`,
        `LedgerUnavailable` or `LedgerDamaged` if it cannot be written.
        """
        name = to_name("request_id", request_id)
        if not isinstance(answer, bytes) or len(answer) > _LONGEST_ANSWER:
            expected = f"at most {_LONGEST_ANSWER:,} bytes"
            raise InvalidArgument("answer", expected, type(answer).__name__)

        def plan(work: Work, seen: Seen) -> tuple[None, Writing | None]:
            dataset = self._only(seen)
            if dataset is None:
                raise InvalidArgument("request_id", "of a table with books", "one of none")
            known = work.of_request(dataset, ANSWER, name)
            if known is None:
                return None, Writing(dataset, ANSWER, bytes(answer), request=name)
            if known.body != answer:
                raise InvalidArgument("answer", "the one that is stored for the request", "another")
            return None, None

        self._take(plan)

    def stored(self, request_id: str) -> bytes | None:
        """The answer that is stored for a request; None if there is none."""
        name = to_name("request_id", request_id)

        def look(work: Work) -> bytes | None:
            found = work.of_request(self._only(work.follow()) or "", ANSWER, name)
            return None if found is None else found.body

        return self._store.read(look)

    def mark_partition(self) -> Mark | None:
        """Mark the partition to be opened as its process's own; None if somebody has one open."""
        claim = self._store.claim(self._name or "")
        return None if claim is None else Mark(claim)

    def verify(self) -> int:
        """Read everything, hold it against its codes and the anchor, and count the entries.

        Raises `LedgerDamaged` if something is not as it was written; and `LedgerUnavailable` if it
        cannot be read.
        """
        store, put = self._store, self._anchored()

        def check(work: Work) -> int:
            work.check()
            work.follow()  # which tells an older copy than this process has seen
            seen = work.follow_all()
            self._check_anchor(work, seen, put)
            if work.datasets() != sorted(seen.latest):
                raise store.damaged("there are books that no entry tells of")
            for name in seen.latest:
                books = work.snapshot(name, seen).books
                count = 0
                for entry in work.taken(name):
                    count += len(self._loaded(entry))
                    if entry.runs != count:
                        raise store.damaged(f"entry {entry.seq} counts other charges")
                if books.runs != count:
                    raise store.damaged(f"the books of {name!r} count other charges")
            return seen.seq

        return store.read(check)

    def _take(self, plan: Callable[[Work, Seen], tuple[R, Writing | None]]) -> R:
        """Write what a plan makes of the ledger, and give its result once that is safe."""
        store, tried = self._store, dict[Entry, R]()

        def act(work: Work, seen: Seen) -> tuple[R, Seen | None]:
            self._check_anchor(work, seen, self._anchored())
            # The process that may have written it had a turn, which is over.
            for entry, result in tried.items():
                if work.holds(entry):
                    return result, seen
            result, writing = plan(work, seen)
            if writing is None:
                return result, None
            entry, after = work.append(seen, writing)
            tried[entry] = result
            work.commit(after)
            if store.keeps_turn:
                self._put(after)
            return result, after

        result, after = self._turn(act)
        if after is not None and not store.keeps_turn and self._store.anchor is not None:
            self._turn(self._catch_up)
        return result

    def _turn(self, act: Callable[[Work, Seen], R]) -> R:
        """Act in a turn, which nobody waits for who has it; again if the connection is lost."""
        store = self._store
        if getattr(store.busy, "inside", False):
            raise Reentered("a ledger")
        pauses, lost = iter(_PAUSES), False
        try:
            store.busy.inside = True
            while True:
                try:
                    return store.write(lambda work: act(work, work.follow()))
                except Uncertain as error:
                    why, lost = error.why, True
                except LedgerUnavailable as error:
                    # Once a connection was lost, its server may need a moment to come back.
                    if not lost:
                        raise
                    why = error
                pause = next(pauses, None)
                if pause is None:
                    raise why
                sleep(pause)
        finally:
            store.busy.inside = False

    def _upgrade(self, work: Work, seen: Seen) -> None:
        """Go on with what version 0.1.0 wrote, in one transaction: the chain stays as it is."""
        store, old = self._store, work.old_books()
        if old is None:  # somebody was first
            return
        self._check_anchor(work, seen, self._anchored())
        found = {str(name): str(text) for name, text in old}
        if sorted(found) != sorted(seen.latest):
            raise store.damaged("there are books that no entry tells of")
        work.convert()
        for name, text in found.items():
            last = work.at(seen.latest[name])
            if last is None or digest_of(text) != last.books:
                raise store.damaged(f"the books of {name!r} are not those of their last entry")
            try:
                after = snapshot_of(Books.from_record(json.loads(text)), EMPTY)
            except (ValueError, RecursionError) as error:
                raise self._unread(error) from error
            writing = Writing(name, TAKEN, b"[]", after.books.runs, after=after)
            _, seen = work.append(seen, writing)
        work.commit(seen)

    def _put(self, seen: Seen) -> None:
        store = self._store
        if store.anchor is not None:
            with store.typed():
                store.anchor.put(seen.seq, seen.code)

    def _catch_up(self, work: Work, seen: Seen) -> None:
        """Have the anchor know all that was written, unless somebody saw to that already."""
        put = self._anchored()
        self._check_anchor(work, seen, put)
        if put is None or put[0] < seen.seq:
            self._put(seen)

    def _anchored(self) -> tuple[int, bytes] | None:
        """The entry that the anchor knows. Out of a turn, it is asked before the ledger is read."""
        store = self._store
        if store.anchor is None:
            return None
        with store.typed():
            return store.anchor.get()

    def _check_anchor(self, work: Work, seen: Seen, put: tuple[int, bytes] | None) -> None:
        """Refuse a ledger that has not what its anchor knows of."""
        if put is not None and (put[0] > seen.seq or (put[0] and work.code_at(put[0]) != put[1])):
            damaged = self._store.damaged
            raise damaged("its anchor knows of entries that it does not have")

    def _only(self, seen: Seen) -> str | None:
        """The table of this ledger, or the only one; None if there is none."""
        if self._name is not None:
            return self._name
        if len(seen.latest) > 1:
            expected = f"named by dataset(name), since the ledger has {len(seen.latest)}"
            raise InvalidArgument("dataset", expected, "none")
        return next(iter(seen.latest), None)

    def _loaded(self, entry: Entry) -> list[Charge]:
        try:
            records = json.loads(entry.body)
            if not isinstance(records, list):
                raise self._store.damaged(f"entry {entry.seq} is no list of charges")
            return [charge_of(one) for one in cast("list[object]", records)]
        except (ValueError, RecursionError) as error:
            raise self._unread(error) from error

    def _unread(self, error: Exception) -> Exception:
        why = str(error) if isinstance(error, RecordError) else "it holds what is no JSON"
        return self._store.damaged(why)

    def __repr__(self) -> str:
        store = self._store
        of = "" if self._name is None else f", {self._name!r}"
        anchor = "" if store.anchor is None else ", anchored"
        keyed = ", with a key" if store.key else ""
        return f"{type(self).__name__}({store.name!r}{of}{keyed}{anchor})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise NotCopyable("a ledger")
