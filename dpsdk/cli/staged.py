"""A directory that is complete or not there at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

__all__ = ["staged", "write_new"]


@contextmanager
def staged(place: Path, last: str) -> Generator[Path]:
    """A directory to write into, whose files come to `place` once the block has ended well.

    If the block or the move fails, or is interrupted, everything is as it was before. A new place
    is made by one rename. Into a directory that exists the files are moved one by one, the file
    `last` as the last, and other files in there stay.

    Parameters
    ----------
    place
        A directory, or where one will be; parents are made.
    last
        The file that says that the others are complete.
    """
    made: list[Path] = []
    exists = place.is_dir()
    # Inside what exists, since it may be a disk of its own.
    parent = place if exists else place.absolute().parent
    folder = _unused(parent)
    done = False
    try:
        for missing in reversed([p for p in (parent, *parent.parents) if not p.exists()]):
            missing.mkdir()
            made.append(missing)
        folder.mkdir()
        yield folder
        if exists:
            _move_all(folder, place, last)
        else:
            folder.rename(place)
        done = True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not done:
            for directory in reversed(made):
                with suppress(OSError):
                    directory.rmdir()


def _unused(parent: Path) -> Path:
    """A name beside the others that nothing has; no other process takes it meanwhile."""
    names = (f".dpsdk-{os.getpid()}-{number}.part" for number in count())
    return next(parent / name for name in names if not os.path.lexists(parent / name))


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet, whole or not at all.

    Raises
    ------
    OSError
        If it exists, or cannot be written.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    part = _unused(path.parent)
    try:
        part.write_text(text, encoding="utf-8")
        part.rename(path)
    except OSError as error:
        # By the name that was given; nobody knows the other.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with suppress(OSError):
            part.unlink()


def _move_all(folder: Path, place: Path, last: str) -> None:
    names = sorted((path.name for path in folder.iterdir()), key=lambda name: (name == last, name))
    old = folder / "old"
    undo: list[Callable[[], object]] = []
    try:
        old.mkdir()
        # Without its last file the directory is seen to be incomplete meanwhile.
        for name in [last, *names]:
            if os.path.lexists(place / name):
                _move(place / name, old / name, undo)
        for name in names:
            _move(folder / name, place / name, undo)
    except BaseException:
        for step in reversed(undo):
            with suppress(OSError):
                step()
        raise


def _move(source: Path, target: Path, undo: list[Callable[[], object]]) -> None:
    # Before the move, since an interrupt may come right after it; what did not move stays.
    undo.append(lambda: source.exists() or target.rename(source))
    source.rename(target)
