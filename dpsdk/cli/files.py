"""Files that are read whole, new files, and a directory that is complete or not there at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path

from dpsdk.cli.words import printable
from dpsdk.errors import InvalidArgument

__all__ = ["check_no_device", "check_place", "contents", "staged", "write_new"]

_LONGEST = 2**26
_LONGEST_NAME = 200


def check_no_device(option: str, path: Path) -> None:
    """Refuse a path that is a device, a terminal or a pipe; opening a directory fails by itself."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InvalidArgument(option, "a file on a disk, and no device", printable(path))


def contents(option: str, path: Path, *, most: int = _LONGEST) -> bytes:
    """Read all bytes, at most so many, of a file or of a pipe as a shell makes it."""
    if stat.S_ISCHR(path.stat().st_mode):
        raise InvalidArgument(option, "a file or a pipe, and no device", printable(path))
    with path.open("rb") as stream:
        read = stream.read(most + 1)
    if len(read) > most:
        raise InvalidArgument(option, f"a file of at most {most:,} bytes", printable(path))
    return read


def check_place(
    out: Path, names: Sequence[str], table: Path, read: Iterable[Path], *, force: bool
) -> None:
    """Refuse a directory `out` into which files of these names cannot be written.

    The table and the files `read` are needed still: none of them may be written over, and nothing
    may be written among the files of a table that is a directory.
    """

    def refuse(expected: str) -> InvalidArgument:
        return InvalidArgument("--out", expected, printable(out))

    above = next(place for place in out.absolute().parents if os.path.lexists(place))
    # What is above a directory that is not there yet would be there, and full, once that is made.
    named = out.is_dir() or (not os.path.lexists(out) and out.name != "..")
    if not above.is_dir() or not named:
        raise refuse("a directory, or the name of a new one in a directory")
    if table.is_dir() and out.resolve().is_relative_to(table.resolve()):
        raise refuse("outside of the directory of the table, all files of which are read")
    if not force and os.path.lexists(_claim(out)):
        raise _taken(out, f"{_claim(out)} is there")
    if out.exists() and any(out.iterdir()):
        if not force:
            raise refuse("an empty or new directory, or come with --force")
        taken = next((name for name in names if (out / name).is_dir()), None)
        if taken is not None:
            raise refuse(f"without a directory {taken!r} in it, where a file should be")
    # A ledger that is not there yet would be made first, and then written over.
    needed = list(read)
    places = set(map(os.path.realpath, needed))
    for name in names:
        file = out / name
        same = file.exists() and any(file.samefile(one) for one in needed if one.exists())
        if same or os.path.realpath(file) in places:
            raise refuse(f"another directory: its {name!r}, which is read, would be written over")


def _claim(place: Path) -> Path:
    """Return where files are put first by the one run that writes to a place."""
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
    """Lend a directory whose files come to `place`, all or none, once the block has ended well.

    If the block or the move fails, or is interrupted, everything is as it was before. A new place
    is made by one rename, and its parents before. Into a directory that exists the files are moved
    one by one, the file `last`, which says that the others are complete, as the last; other files
    in there stay. Where the place has to be for this run `alone`, and another run writes there or
    has written there meanwhile, the block does not begin.
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
    """Return a path beside the others that nothing has; no other process takes it meanwhile."""
    names = (f".dpsdk-{os.getpid()}-{number}.part" for number in count())
    return next(parent / name for name in names if not os.path.lexists(parent / name))


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet, whole or not at all."""
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
