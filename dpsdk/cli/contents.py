"""Files that are read whole: of a size that fits, and no devices, which may have no end."""

from __future__ import annotations

import stat
from pathlib import Path

from dpsdk.cli.words import printable
from dpsdk.errors import InvalidArgument

__all__ = ["check_kept", "contents"]

_LONGEST = 2**26


def check_kept(option: str, path: Path) -> None:
    """Refuse what is no file on a disk: a device, a terminal or a pipe.

    Raises
    ------
    InvalidArgument
        Then; it names the option that has the path.
    OSError
        If nothing is there, or it cannot be looked at.
    """
    mode = path.stat().st_mode
    # Whoever opens a directory is told that it is one.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InvalidArgument(option, "a file on a disk, and no device", printable(path))


def contents(option: str, path: Path, *, most: int = _LONGEST) -> bytes:
    """All bytes of a file, or of a pipe as a shell makes it, at most so many.

    Raises
    ------
    InvalidArgument
        If there are more, or it is a device or a terminal.
    OSError
        If it cannot be read.
    """
    if stat.S_ISCHR(path.stat().st_mode):
        raise InvalidArgument(option, "a file or a pipe, and no device", printable(path))
    with path.open("rb") as stream:
        read = stream.read(most + 1)
    if len(read) > most:
        raise InvalidArgument(option, f"a file of at most {most:,} bytes", printable(path))
    return read
