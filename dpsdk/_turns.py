"""One at a time, without waiting for oneself, or for a thread that a forked process lacks."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, get_ident, local
from typing import TypeVar

from dpsdk.errors import Closed, Reentered

__all__ = ["Passage", "Turns"]

R = TypeVar("R")


class Turns:
    """Lets one caller work at a time; the others wait.

    Who would wait for ever is refused instead: a forked process, whose lock another thread may have
    held, and a finaliser or signal handler that runs while its own thread has the turn.

    Parameters
    ----------
    what
        What is shared, for refusals.
    """

    __slots__ = ("_holder", "_lock", "_process", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = Lock()
        self._holder = 0
        self._process = os.getpid()

    def check(self) -> None:
        """Refuse a forked process, and a thread that has the turn already.

        Raises
        ------
        Closed
            In a forked process.
        Reentered
            If this thread has the turn.
        """
        if os.getpid() != self._process:
            raise Closed(f"{self._what} in a forked process")
        if self._holder == get_ident():
            raise Reentered(self._what)

    def take(self, work: Callable[[], R]) -> R:
        """Wait for a turn and do the work. Raises as `check` does."""
        if os.getpid() != self._process or self._holder == get_ident():
            self.check()
        # A built-in lock in a `with`: no interrupt comes between taking it and giving it back.
        with self._lock:
            try:
                self._holder = get_ident()
                return work()
            finally:
                self._holder = 0


class Passage:
    """Lets any number of threads work together, and refuses whom `Turns` refuses.

    Parameters
    ----------
    what
        What is shared, for refusals.
    """

    __slots__ = ("_inside", "_process", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._process = os.getpid()
        self._inside = local()

    def check(self) -> None:
        """Refuse a forked process.

        Raises
        ------
        Closed
            In a forked process.
        """
        if os.getpid() != self._process:
            raise Closed(f"{self._what} in a forked process")

    def take(self, work: Callable[[], R]) -> R:
        """Do the work.

        Raises
        ------
        Closed
            In a forked process.
        Reentered
            If this thread is at work in here already.
        """
        self.check()
        own: Lock | None = getattr(self._inside, "own", None)
        if own is None:
            own = self._inside.own = Lock()
        if own.locked():
            raise Reentered(self._what)
        # A lock that no other thread knows, for the reason that `Turns` has one.
        with own:
            return work()
