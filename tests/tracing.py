"""Interrupts at a chosen line of the package, so that every moment of a call can be tried."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import dpsdk

PACKAGE = str(Path(dpsdk.__file__).parent)

LOCKED = (
    "_turns.py",
    "pool.py",
    "histogram.py",
    "_beside.py",
    "_memo.py",
    "forks.py",
    "reuse.py",
)
"""Lines at the end of a `with` over a built-in lock: an interrupt cannot come between leaving the
block and giving the lock back, but a trace function can. And finalisers, in which Python tells an
interrupt to nobody."""

ENDING = {("server.py", "_connected")}
"""Functions whose last lines end what they began: a trace function can come right before such a
line, and a real interrupt only with the calls that follow."""


def interrupted(work: Callable[[], object], place: int) -> bool:
    """Do some work, with an interrupt at its `place`-th line; whether it came so far."""
    seen = 0

    def local(frame, event, argument):
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == place:
                raise KeyboardInterrupt
        return local

    def trace(frame, event, argument):
        name = frame.f_code.co_filename
        spared = name.endswith(LOCKED) or (Path(name).name, frame.f_code.co_name) in ENDING
        return local if name.startswith(PACKAGE) and not spared else None

    failures: list[BaseException] = []

    def traced() -> None:
        sys.settrace(trace)
        try:
            work()
        except KeyboardInterrupt:
            pass
        except BaseException as error:
            failures.append(error)
        finally:
            sys.settrace(None)

    # In a thread of its own, since what a trace function raises in an `except` block stays the
    # context of whatever the thread raises later.
    thread = threading.Thread(target=traced)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return seen >= place
