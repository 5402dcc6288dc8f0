"""Forks at a moment when no other thread works with a file of SQLite, and nothing is kept open.

SQLite keeps in memory which locks a process has, for all its connections together. A child that was
forked while another thread had a connection would take that thread's locks for its own: it could
never write to the file again, and would read it without a lock. So what nobody works with is closed
before each fork, and the parent opens it anew.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, get_ident
from typing import Any, TypeVar
from weakref import WeakSet

__all__ = ["process", "run_unforked", "stores"]

R = TypeVar("R")

_PATIENCE = 60.0
"""So many seconds a fork waits. A child that is forked later than that may find its ledger busy."""

_STEP = 0.001


class _Connections:
    """How many connections each thread of a process has."""

    def __init__(self) -> None:
        self.lock = Lock()
        """Held during a fork, and during the first use of a connection."""
        self.threads: dict[int, int] = {}

    def others(self, thread: int) -> bool:
        """True if other threads have connections. Those that have ended have none."""
        alive = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented all the same
        return bool((self.threads.keys() & alive.keys()) - {thread})


_now = _Connections()

process: object = object()
"""Another one in a process that was forked. To be compared alone, which calls nothing."""

stores: WeakSet[Any] = WeakSet()
"""All that keep connections, with `close_idle` and `abandon`."""


def run_unforked(work: Callable[[], R]) -> R:
    """Do some work while no other thread forks."""
    mine, thread = _now, get_ident()
    # Nobody else has a say in this thread's number, and it is put back whatever comes between.
    before = mine.threads.get(thread, 0)
    try:
        # A built-in lock in a `with`: no interrupt comes between taking it and giving it back.
        with mine.lock:
            mine.threads[thread] = before + 1
        return work()
    finally:
        if before:
            mine.threads[thread] = before
        else:
            mine.threads.pop(thread, None)


def _before() -> None:
    mine, thread = _now, get_ident()
    end = time.monotonic() + _PATIENCE
    while True:
        # Held until the fork is over, so that nobody begins meanwhile.
        mine.lock.acquire()
        if not mine.others(thread) or time.monotonic() > end:
            break
        mine.lock.release()
        time.sleep(_STEP)
    for store in tuple(stores):
        store.close_idle()


def _in_parent() -> None:
    with suppress(RuntimeError):  # an interrupt came before it was acquired
        _now.lock.release()


def _in_child() -> None:
    global _now, process  # the only thread left has no use for what others held
    _now, process = _Connections(), object()
    for store in tuple(stores):
        store.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
