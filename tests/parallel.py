"""Threads and forked processes of tests."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

from dpsdk.accounting import Odometer
from dpsdk.errors import Closed

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., object])


def at_once(work: Callable[[C], object], cases: Iterable[C], timeout: float = 60) -> None:
    """Do some work for each case in a thread of its own, and wait until all have ended."""
    threads = [threading.Thread(target=work, args=(case,), daemon=True) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    assert not any(thread.is_alive() for thread in threads)


def held(patch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold charges up: one event says that some charge has begun, the other lets all go on."""
    begun, go, real = threading.Event(), threading.Event(), Odometer.charge_all

    def charge(odometer: Odometer, *given: Any, **named: Any) -> Any:
        begun.set()
        go.wait(60)
        return real(odometer, *given, **named)

    patch.setattr(Odometer, "charge_all", charge)
    return begun, go


def needs_fork(test: F) -> F:
    """Skip a test where no process can be forked, and let it fork beside threads."""
    quiet = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    skipped = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    return skipped(quiet(test))


def forked(work: Callable[[], int | None]) -> int:
    """Start a process that ends with what some work gives, or with 99; it is killed if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 99
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return child


def ended(child: int) -> int:
    """Wait for a process, and return how it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_a_child(work: Callable[[], int | None]) -> int:
    """Return what some work gives in a forked process."""
    return ended(forked(work))


def count_closed(*attempts: Callable[[], object]) -> int:
    """Count those of the attempts that are closed."""
    count = 0
    for attempt in attempts:
        try:
            attempt()
        except Closed:
            count += 1
    return count
