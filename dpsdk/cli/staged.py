"""A directory that is complete or not there at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path

from dpsdk.cli.words import printable
from dpsdk.errors import InvalidArgument

__all__ = ["check_free", "staged", "write_new"]

_LONGEST_NAME = 200


def check_free(place: Path) -> None:
    """Refuse a place that another run is writing, or was when it was killed.

    Raises
    ------
    InvalidArgument
        Then.
    """
    if os.path.lexists(_claim(place)):
        raise _taken(place, f"{_claim(place)} is there")


def _claim(place: Path) -> Path:
    """Where files are put first by the one run that writes to a place."""
    if place.is_dir():
        return place / ".dpsdk.part"
    whole = place.absolute()
    name = os.fsencode(whole.name)
    short = whole.name if len(name) <= _LONGEST_NAME else sha256(name).hexdigest()
    return whole.parent / f".dpsdk-{short}.part"


def _taken(place: Path, why: str) -> InvalidArgument:
    expected = "a directory that no other run writes to, or come with --force"
    return InvalidArgument("--out", expected, printable(f"{place}, but {why}"))


@contextmanager
def staged(place: Path, last: str, *, alone: bool = True) -> Generator[Path]:
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
    alone
        Whether the place has to be empty or new, and for this run alone.

    Raises
    ------
    InvalidArgument
        If another run writes there, or has written there meanwhile. The block does not begin.
    """
    made: list[Path] = []
    exists = place.is_dir()
    # Inside what exists, since it may be a disk of its own.
    parent = place if exists else place.absolute().parent
    folder = _claim(place) if alone else _unused(parent)
    mine = done = False
    try:
        for missing in reversed([p for p in (parent, *parent.parents) if not p.exists()]):
            with suppress(FileExistsError):  # by another run meanwhile
                missing.mkdir()
                made.append(missing)
        try:
            folder.mkdir()
        except FileExistsError:
            raise _taken(place, f"{folder} is there") from None
        mine = True
        # Whoever wrote there before had the folder then: what is written is seen by now.
        filled = exists and alone and any(one.name != folder.name for one in place.iterdir())
        if filled or (not exists and os.path.lexists(place)):
            raise _taken(place, "it was written meanwhile")
        yield folder
        if exists:
            _move_all(folder, place, last)
        else:
            folder.rename(place)
            mine = False
        done = True
    finally:
        if mine:
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
