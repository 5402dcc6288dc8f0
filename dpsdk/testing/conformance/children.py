"""Processes that are forked to try something in, and end there."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

__all__ = ["forks", "in_child"]


def forks() -> bool:
    """Whether processes can be forked here."""
    return hasattr(os, "fork")


def in_child(work: Callable[[], str]) -> str:
    """What some work says that is done in a forked process.

    Empty where nothing can be forked. What it raises is told as "raised" and the error's class.
    """
    if not forks():
        return ""
    listen, tell = os.pipe()
    with warnings.catch_warnings():
        # Of threads, which the work has no need of.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.close(listen)
            sys.settrace(None)
            sys.setprofile(None)
            said = _said(work).encode()
            while said:
                said = said[os.write(tell, said) :]
        finally:
            os._exit(0)
    ended = False
    try:
        os.close(tell)
        with os.fdopen(listen, encoding="utf-8", errors="replace") as told:
            said_there = told.read()
        ended = True
        return said_there
    finally:
        if not ended:  # whoever waits was interrupted
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _said(work: Callable[[], str]) -> str:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        try:
            return work()
        except BaseException as error:  # noqa: BLE001  # told to whoever waits
            return f"raised {type(error).__name__}: {error}"
