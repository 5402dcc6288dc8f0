"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

__all__ = ["sync_folder", "write_whole"]


def sync_folder(folder: Path) -> None:
    """Wait until the names in a directory are on the disk, where a system can do that."""
    with suppress(OSError):  # Windows opens no directories
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Put a file in the place of another, or where none is.

    Whatever fails or ends meanwhile, the file has its old content or the new one; what another
    process reads has one of the two. A link stays one, and leads to the new content; a file keeps
    its permissions. What is no plain file, such as a pipe, is written to as it is.

    Raises
    ------
    OSError
        If it cannot be written. The file is as it was, and nothing is left beside it.
    """
    place = Path(os.path.realpath(path))
    if os.path.lexists(place) and not place.is_file():
        place.write_bytes(content)
        return
    part, number = _new_beside(place)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            part.chmod(place.stat().st_mode & 0o7777)
        part.replace(place)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(place.parent)


def _new_beside(place: Path) -> tuple[Path, int]:
    """A new file that nobody else has, in the same directory, and so on the same disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    for number in count():
        part = place.with_name(f".dpsdk-{os.getpid()}-{number}.part")
        with suppress(FileExistsError):
            return part, os.open(part, flags, 0o666)
    raise AssertionError  # there is no last number
