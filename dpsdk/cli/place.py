"""The directory that files are written into, and what may not be there."""

from __future__ import annotations

import os
from pathlib import Path

from dpsdk.cli.request import Request
from dpsdk.cli.staged import check_free
from dpsdk.cli.words import printable
from dpsdk.data.parquet import parquet_files
from dpsdk.errors import InvalidArgument

__all__ = ["check_place"]


def check_place(request: Request, names: list[str]) -> None:
    """Refuse a directory into which these files cannot be written.

    Raises
    ------
    InvalidArgument
        If it is a file, or in one; if it holds anything, or another run writes to it, unless
        forced; if it holds a directory of one of these names; if a file that is needed is or will
        be in the place of one of them; or if it is inside of the directory that is the table.
    DataError
        If the table is of Parquet files, and there are none.
    """
    out, table = request.out, request.table
    above = next(place for place in out.absolute().parents if os.path.lexists(place))
    # What is above a directory that is not there yet would be there, and full, once that is made.
    named = out.is_dir() or (not os.path.lexists(out) and out.name != "..")
    if not above.is_dir() or not named:
        expected = "a directory, or the name of a new one in a directory"
        raise InvalidArgument("--out", expected, printable(out))
    if table.is_dir() and out.resolve().is_relative_to(table.resolve()):
        expected = "outside of the directory of the table, all files of which are read"
        raise InvalidArgument("--out", expected, printable(out))
    if not request.force:
        check_free(out)
    if out.exists() and any(out.iterdir()):
        if not request.force:
            expected = "an empty or new directory, or come with --force"
            raise InvalidArgument("--out", expected, printable(out))
        taken = next((name for name in names if (out / name).is_dir()), None)
        if taken is not None:
            expected = f"without a directory {taken!r} in it, where a file should be"
            raise InvalidArgument("--out", expected, printable(out))
    # A ledger that is not there yet would be made first, and then written over.
    read = _read(request)
    places = set(map(os.path.realpath, read))
    for name in names:
        file = out / name
        same = file.exists() and any(file.samefile(one) for one in read if one.exists())
        if same or os.path.realpath(file) in places:
            expected = f"another directory: its {name!r}, which is read, would be written over"
            raise InvalidArgument("--out", expected, printable(out))


def _read(request: Request) -> list[Path]:
    """The files that are needed still."""
    tables = map(Path, parquet_files(str(request.table))) if request.parquet else [request.table]
    files = [request.domain, *tables]
    if request.about is not None:
        files.append(request.about)
    if request.ledger is not None:
        mine = (Path(request.ledger.place), request.ledger.key, request.ledger.anchor)
        files += [file for file in mine if file is not None]
    return files
