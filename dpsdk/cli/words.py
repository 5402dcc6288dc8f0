"""Texts as the command line prints them: one line an error, in characters of the terminal."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from dpsdk.errors import DpsdkError

__all__ = ["Remark", "called", "complain", "printable", "problem", "say"]


class Remark(str):
    """A note of an error in public words, which is told beside it."""

    __slots__ = ()


def called() -> str:
    """Return how the command line was called: as the installed command, or as a module."""
    return "dpsdk" if Path(sys.argv[0]).stem == "dpsdk" else "python -m dpsdk"


def printable(text: str | Path) -> str:
    """Escape halves of surrogate pairs, as in odd file names, which UTF-8 cannot hold."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def say(text: str) -> None:
    """Print a text, and escape what the terminal cannot show. Nobody may be listening any more."""
    _write(text, sys.stdout)


def complain(text: str) -> None:
    """Print a text where errors are told, if that can be done."""
    with suppress(OSError):
        _write(text, sys.stderr)


def _write(text: str, stream: TextIO | None) -> None:
    if stream is None:  # closed before the process began
        return
    encoding = stream.encoding or "utf-8"
    shown = printable(text).encode(encoding, "backslashreplace").decode(encoding)
    try:
        print(shown, file=stream, flush=True)
    except BrokenPipeError:
        # What is still buffered would fail once more when Python ends.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def problem(error: BaseException) -> str:
    """Tell an error as one line for a terminal, in public words."""
    if isinstance(error, DpsdkError):
        text = str(error)
    elif isinstance(error, OSError):
        reason, name = error.strerror or type(error).__name__, error.filename
        named = os.fsdecode(name) if isinstance(name, bytes) else str(name)
        text = reason if name is None else f"{named}: {reason}"
    elif isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    elif isinstance(error, MemoryError):
        text = "there is not enough memory"
    else:
        # Its own words might quote a row.
        text = f"failed in a way that was not foreseen ({type(error).__name__})"
    remarks = [note for note in getattr(error, "__notes__", ()) if isinstance(note, Remark)]
    return " ".join(printable("; ".join([text, *remarks])).split())
