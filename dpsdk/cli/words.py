"""What the command line prints: one line an error, in characters that the terminal has."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from dpsdk.errors import DpsdkError

__all__ = ["Remark", "called", "complain", "printable", "problem", "say"]


class Remark(str):
    """What is to be told beside an error, as a note of it, in public words."""

    __slots__ = ()


def called() -> str:
    """How the command line was called: as the installed command, or as a module of Python."""
    return "dpsdk" if Path(sys.argv[0]).stem == "dpsdk" else "python -m dpsdk"


def printable(text: str | Path) -> str:
    """A text that UTF-8 can hold: halves of surrogate pairs, as in odd file names, are escaped."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def say(text: str) -> None:
    """Print a text, and escape what the terminal cannot show. Nobody may be listening any more.

    Raises
    ------
    OSError
        If it cannot be written where somebody is.
    """
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
    """An error as one line for a terminal, in public words."""
    if isinstance(error, DpsdkError):
        text = str(error)
    elif isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
        text = reason if error.filename is None else f"{_named(error.filename)}: {reason}"
    elif isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    elif isinstance(error, MemoryError):
        text = "there is not enough memory"
    else:
        # Its own words might quote a row.
        text = f"failed in a way that was not foreseen ({type(error).__name__})"
    remarks = [note for note in getattr(error, "__notes__", ()) if isinstance(note, Remark)]
    return " ".join(printable("; ".join([text, *remarks])).split())


def _named(filename: object) -> str:
    return os.fsdecode(filename) if isinstance(filename, bytes) else str(filename)
