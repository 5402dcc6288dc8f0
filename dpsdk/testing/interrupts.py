"""Interrupts at a chosen line, so that every moment of a call can be tried."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container
from pathlib import Path
from types import FrameType
from typing import Literal, TypeAlias

import dpsdk

__all__ = ["PACKAGE", "Outcome", "outcome_of", "interrupted", "moments"]

PACKAGE = str(Path(dpsdk.__file__).parent)

Outcome: TypeAlias = Literal["no", "out", "swallowed"]
"""The outcome of an interrupt; "no" says that the work had ended before it."""

_Spared: TypeAlias = Callable[[FrameType], bool]

LOCKED = (
    "counts.py",
    "pool.py",
    "histogram.py",
    "_identity_map.py",
    "_locks.py",
    "primitive.py",
    "forks.py",
    "reuse.py",
    str(Path("dpsdk", "progress.py")),
)
"""Lines at the end of a `with` over a built-in lock: an interrupt cannot come between leaving the
block and giving the lock back, but a trace function can. And finalisers, in which Python tells an
interrupt to nobody."""

_ENDING = frozenset({("server.py", "_connected")})
"""Functions whose last lines end what they began: a trace function can come right before such a
line, and a real interrupt only with the calls that follow."""


def _in_package(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    spared = name.endswith(LOCKED) or (Path(name).name, frame.f_code.co_name) in _ENDING
    return name.startswith(PACKAGE) and not spared


def interrupted(work: Callable[[], object], place: int) -> bool:
    """Do some work, with an interrupt at its `place`-th line here; whether it came so far.

    Lines of the package are counted. What the work raises otherwise is raised again.
    """
    return outcome_of(work, place)[0] != "no"


def outcome_of(
    work: Callable[[], object], place: int, files: Container[str] | None = None
) -> tuple[Outcome, int]:
    """The same, what became of the interrupt, and how many lines were counted.

    Parameters
    ----------
    work
        What to interrupt.
    place
        The number of the line, from 1.
    files
        In which files lines are counted; in the package, where left out.
    """
    seen = 0
    here: _Spared = _in_package if files is None else lambda f: f.f_code.co_filename in files

    def local(frame: FrameType, event: str, argument: object) -> object:
        nonlocal seen
        del frame, argument
        if event == "line":
            seen += 1
            if seen == place:
                raise KeyboardInterrupt
        return local

    def trace(frame: FrameType, event: str, argument: object) -> object:
        del event, argument
        return local if here(frame) else None

    failures: list[BaseException] = []
    out: list[bool] = []

    def traced() -> None:
        sys.settrace(trace)  # type: ignore[arg-type]  # what it returns may be None
        try:
            work()
        except KeyboardInterrupt:
            # Not the error itself, which would keep alive all that it went through.
            out.append(True)
        except BaseException as error:  # noqa: BLE001  # raised below
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
    return ("out" if out else "swallowed" if seen >= place else "no"), seen


def moments(work: Callable[[], object], files: Container[str] | None = None) -> int:
    """How many lines some work takes, in some files or in the package."""
    return outcome_of(work, -1, files)[1]
