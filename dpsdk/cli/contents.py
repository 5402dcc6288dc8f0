"""Files that are read whole: of a size that fits, and none that has no end or waits for one."""

from __future__ import annotations

import stat
from pathlib import Path

from dpsdk.cli.words import printable
from dpsdk.errors import InvalidArgument

__all__ = ["check_kept", "contents"]

_LONGEST = 2**26


def check_kept(option: str, path: Path, *, pipes: bool = False) -> None:
    """Refuse what is no file on a disk: a device or a terminal, and a pipe unless that will do.

    Raises
    ------
    InvalidArgument
        Then; it names the option that has the path.
    OSError
        If nothing is there, or it cannot be looked at.
    """
    mode = path.stat().st_mode
    # Whoever opens a directory is told that it is one.
    kept = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    if not kept and not (pipes and stat.S_ISFIFO(mode)):
        other = "a file or a pipe" if pipes else "a file on a disk"
        raise InvalidArgument(option, f"{other}, and no device", printable(path))


def contents(option: str, path: Path, *, most: int = _LONGEST, pipes: bool = False) -> bytes:
    """All bytes of a file, at most so many.

    Raises
    ------
    InvalidArgument
        If it is longer, or `check_kept` refuses it.
    OSError
        If it cannot be read.
    """
    check_kept(option, path, pipes=pipes)
    with path.open("rb") as stream:
        read = stream.read(most + 1)
    if len(read) > most:
        raise InvalidArgument(option, f"a file of at most {most:,} bytes", printable(path))
    return read
