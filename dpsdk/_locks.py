"""Locks that refuse, instead of waiting for ever: in forked processes, and on re-entry."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, get_ident, local
from typing import TypeVar

from dpsdk.errors import Closed, Reentered

__all__ = ["ExclusiveLock", "SharedLock", "ThreadMark", "lock_held"]

R = TypeVar("R")


class ThreadMark(local):
    """Tells, for each thread by itself, whether some work goes on in it."""

    def __init__(self) -> None:
        # A built-in lock in a `with`: no interrupt comes between taking it and giving it back.
        self.lock = Lock()

    @property
    def on(self) -> bool:
        """True while this thread is at work."""
        return self.lock.locked()

    def run(self, work: Callable[[], R]) -> R:
        """Do the work with the mark set."""
        if self.lock.locked():
            return work()
        with self.lock:
            return work()


lock_held = ThreadMark()
"""Set while a thread holds one of these locks, or asks a ledger, which may have its own."""


class ExclusiveLock:
    """Lets one caller work at a time; the others wait.

    A finaliser or signal handler that runs while its own thread holds the lock is refused, and so
    is a forked process, whose lock another thread of its parent may have held.

    Parameters
    ----------
    subject
        What is shared, for refusals.
    """

    __slots__ = ("_holder", "_lock", "_process", "_subject")

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._lock = Lock()
        self._holder = 0
        self._process = os.getpid()

    def run(self, work: Callable[[], R]) -> R:
        """Wait for the lock and do the work.

        Raises
        ------
        Closed
            In a forked process.
        Reentered
            If this thread holds the lock.
        """
        if os.getpid() != self._process:
            raise Closed(f"{self._subject} in a forked process")
        # An interrupt may have left the holder behind, but not the lock.
        if self._holder == get_ident() and self._lock.locked():
            raise Reentered(self._subject)
        mark = lock_held.lock
        with self._lock:
            try:
                self._holder = get_ident()
                if mark.locked():
                    return work()
                with mark:
                    return work()
            finally:
                self._holder = 0


class SharedLock:
    """Lets any number of threads work together, and refuses whom `ExclusiveLock` refuses.

    Parameters
    ----------
    subject
        What is shared, for refusals.
    """

    __slots__ = ("_inside", "_process", "_subject")

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._process = os.getpid()
        self._inside = ThreadMark()

    def check(self) -> None:
        """Raise `Closed` in a forked process."""
        if os.getpid() != self._process:
            raise Closed(f"{self._subject} in a forked process")

    def run(self, work: Callable[[], R]) -> R:
        """Do the work.

        Raises
        ------
        Closed
            In a forked process.
        Reentered
            If this thread is at work in here already.
        """
        self.check()
        if self._inside.on:
            raise Reentered(self._subject)
        with self._inside.lock:
            return lock_held.run(work)
