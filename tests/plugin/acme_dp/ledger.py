"""A ledger of another author: one file, to which each decision adds a line, under a lock.

Every line holds the books after a decision, its charges and the request that they were for, or the
answer to a request. A line counts once it ends, so that a process that is killed while it writes
leaves nothing behind that counts.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpsdk.accounting import Books, Charge, Decide, Decision
from dpsdk.errors import InvalidArgument

__all__ = ["JSONLedger"]


class JSONLedger:
    """A `dpsdk.accounting.Ledger` in a file of JSON lines, for any number of processes.

    Parameters
    ----------
    path
        The file; made if there is none. Beside it a second one is made, to lock.
    sync
        Whether to wait until each line is on the disk. Without it a charge survives the end of the
        process, but not that of the machine.
    """

    def __init__(self, path: Path, *, sync: bool = True) -> None:
        self._path = path
        self._lock = path.with_name(path.name + ".lock")
        self._sync = sync
        path.touch()

    @property
    def durable(self) -> bool:
        return True

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        with self._alone():
            lines = self._lines()
            books = _books(lines)
            if request_id is not None:
                before = [one for one in _charges(lines) if one.request_id == request_id]
                if before:
                    return Decision(books, before, repeated=True)
            decision = decide(books)
            if decision.books is not books or decision.charges:
                self._add(
                    books=decision.books.to_record(),
                    charges=[charge.to_record() for charge in decision.charges],
                )
            return decision

    def read(self) -> Books:
        return _books(self._lines())

    def charges(self, since: int = 0) -> Sequence[Charge]:
        return _charges(self._lines())[since:]

    def store(self, request_id: str, answer: bytes) -> None:
        with self._alone():
            known = self.stored(request_id)
            if known is None:
                text = base64.b64encode(answer).decode("ascii")
                self._add(request_id=request_id, answer=text)
            elif known != answer:
                raise InvalidArgument("answer", "the one that is stored", "another")

    def stored(self, request_id: str) -> bytes | None:
        for line in self._lines():
            if line.get("request_id") == request_id:
                return base64.b64decode(line["answer"])
        return None

    @contextmanager
    def _alone(self) -> Generator[None, None, None]:
        # A file that is opened anew is locked against other threads as well as other processes.
        with self._lock.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _lines(self) -> list[dict[str, Any]]:
        whole = self._path.read_bytes()
        ended = whole[: whole.rfind(b"\n") + 1]
        return [json.loads(line) for line in ended.splitlines()]

    def _add(self, **line: object) -> None:
        text = json.dumps(line).encode("ascii") + b"\n"
        with self._path.open("r+b") as file:
            # What a killed process has not ended is written over.
            file.truncate(file.read().rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            file.write(text)
            file.flush()
            if self._sync:
                os.fsync(file.fileno())


def _books(lines: list[dict[str, Any]]) -> Books:
    for line in reversed(lines):
        if "books" in line:
            return Books.from_record(line["books"])
    return Books()


def _charges(lines: list[dict[str, Any]]) -> list[Charge]:
    return [Charge.from_record(one) for line in lines for one in line.get("charges", [])]
