"""Fair turns of writing to a file, among threads and processes.

Who has just written would win every race for one lock, since all others have to wake up first. So
there are two: the next in turn holds the place at the head of the queue meanwhile, and who
comes back has to queue behind. The system gives both back when a process ends, however it ends. One
that is stopped keeps its own, so that nobody waits for ever.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar
from weakref import WeakSet

__all__ = ["Turnstile", "claimed"]

R = TypeVar("R")

_open: WeakSet[FileIO] = WeakSet()
"""Those whose locks are a process's own. Weakly: an interrupt may come before one is closed, and
then it is the end of the object that gives the lock back."""

_left: WeakSet[FileIO] = WeakSet()
"""Those that a thread waits for which was left alone. It ends when the lock is free."""

_MOST_LEFT = 16


def _close_all() -> None:
    """In a forked child: leave the locks of the parent to the parent."""
    for file in tuple(_open):
        with suppress(OSError):
            file.close()
    _open.clear()
    _left.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)


_STEP = 0.002
"""So many seconds pass before who looks again and again looks again."""


def _looking(had: Callable[[], bool], patience: float) -> bool:
    """True if something was had in time, by looking again and again."""
    end = time.monotonic() + patience
    while not had():
        if time.monotonic() >= end:
            return False
        time.sleep(_STEP)
    return True


if sys.platform == "win32":
    import msvcrt

    def _taken(file: FileIO) -> bool:
        with suppress(OSError):
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            return True
        return False

    def _wait(file: FileIO, patience: float) -> bool:
        return _looking(lambda: _taken(file), patience)

    def _unlock(file: FileIO) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _taken(file: FileIO) -> bool:
        # Of the open file, not of the process: so it is held against other threads as well.
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(file: FileIO, patience: float) -> bool:
        if _taken(file):
            return True
        # Looking again and again would come too late for who is quick. A thread waits, as the
        # system lets nobody wait for so long and no longer; if it is left alone, it lets go.
        # Where a lock is kept for good, and asked for again and again, there are no more of them.
        if len(_left) >= _MOST_LEFT:
            return _looking(lambda: _taken(file), patience)
        had = Event()
        own = FileIO(os.dup(file.fileno()), "a")
        _open.add(own)

        def wait() -> None:
            try:
                with own:
                    fcntl.flock(own, fcntl.LOCK_EX)
                    had.set()
            finally:
                _open.discard(own)

        Thread(target=wait, name="dpsdk-ledger-turn", daemon=True).start()
        try:
            return had.wait(patience)
        finally:
            if not had.is_set():
                _left.add(own)

    def _unlock(file: FileIO) -> None:
        # A child that was forked meanwhile has the file open still; closing it would not do.
        fcntl.flock(file, fcntl.LOCK_UN)


def _plain(path: str, flags: int) -> int:
    """Open a file at once, whatever it is, and refuse what is none."""
    number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0), 0o666)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, f"what is at {path} is no plain file")
    return number


def _opened(path: str) -> FileIO:
    try:
        return FileIO(path, "a", opener=_plain)
    except OSError as error:
        if error.errno != errno.ENXIO:  # of a pipe that nobody reads
            raise
        raise OSError(errno.EINVAL, f"what is at {path} is no plain file") from None


def _lock(path: str, patience: float) -> FileIO:
    """The lock of a file, which ends with `_release` or with the object."""
    file, had = _opened(path), False
    try:
        _open.add(file)
        had = _wait(file, patience)
    finally:
        if not had:
            _release(file)
    if not had:
        raise TimeoutError(errno.ETIMEDOUT, "others have had it for too long")
    return file


def claimed(path: str) -> FileIO | None:
    """The lock of a file, until that is closed or its process ends; None if somebody has it."""
    file, had = _opened(path), False
    try:
        _open.add(file)
        had = _taken(file)
    finally:
        if not had:
            file.close()
    return file if had else None


def _release(file: FileIO) -> None:
    try:
        if not file.closed:
            _unlock(file)
    finally:
        file.close()
        _open.discard(file)


def _release_all(files: list[FileIO]) -> None:
    for file in reversed(files):
        _release(file)


class Turnstile:
    """Turns at a file. The locks are two empty files beside it."""

    __slots__ = ("_patience", "_queue", "_turn")

    def __init__(self, path: Path, patience: float = 60.0) -> None:
        self._patience = patience
        self._queue = f"{path}-queue"
        self._turn = f"{path}-turn"

    def run(self, work: Callable[[], R]) -> R:
        end = time.monotonic() + self._patience
        held: list[FileIO] = []
        try:
            held.append(_lock(self._queue, self._patience))
            held.append(_lock(self._turn, max(end - time.monotonic(), 0.0)))
            _release(held[0])
            return work()
        finally:
            try:
                _release_all(held)
            except BaseException:
                _release_all(held)  # an interrupt came before it had begun
                raise
