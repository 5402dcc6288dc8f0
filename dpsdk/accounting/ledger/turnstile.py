"""Whose turn it is to write to a file, among threads and processes: in about the order of coming.

Who has just written would win every race for one lock, since all others have to wake up first. So
there are two: whoever waits for a turn holds the place at the head of the queue meanwhile, and who
comes back has to queue behind. The system gives both back when a process ends, however it ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

__all__ = ["Turnstile"]

if sys.platform == "win32":
    import msvcrt

    def _lock(file: FileIO) -> None:
        while True:
            # It tries for ten seconds, and then raises.
            with suppress(OSError):
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                return

    def _unlock(file: FileIO) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(file: FileIO) -> None:
        # Of the open file, not of the process: so it is held against other threads as well.
        fcntl.flock(file, fcntl.LOCK_EX)

    def _unlock(file: FileIO) -> None:
        # A child that was forked meanwhile has the file open still; closing it would not do.
        fcntl.flock(file, fcntl.LOCK_UN)


_open: set[FileIO] = set()


def _close_all() -> None:
    """In a forked child: leave the locks of the parent to the parent."""
    for file in tuple(_open):
        with suppress(OSError):
            file.close()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)


@contextmanager
def _held(path: Path) -> Generator[None]:
    with FileIO(path, "a") as file:
        _open.add(file)
        try:
            _lock(file)
            try:
                yield
            finally:
                if not file.closed:
                    _unlock(file)
        finally:
            _open.discard(file)


class Turnstile:
    """Turns at a file. The locks are two empty files beside it.

    Parameters
    ----------
    path
        The file.
    """

    __slots__ = ("_queue", "_turn")

    def __init__(self, path: Path) -> None:
        self._queue = path.with_name(f"{path.name}-queue")
        self._turn = path.with_name(f"{path.name}-turn")

    @contextmanager
    def turn(self) -> Generator[None]:
        """Wait for a turn, and have it for the length of the block.

        Raises
        ------
        OSError
            If the files of the locks cannot be made or opened.
        """
        queue = _held(self._queue)
        queue.__enter__()
        try:
            turn = _held(self._turn)
            turn.__enter__()
        finally:
            queue.__exit__(None, None, None)
        try:
            yield
        finally:
            turn.__exit__(None, None, None)
