"""Anchors: how far a ledger has come, remembered in another place than the ledger."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Protocol, runtime_checkable

from dpsdk._records import shows_half_made
from dpsdk._whole import sync_folder
from dpsdk.errors import LedgerDamaged

__all__ = ["Anchor", "FileAnchor", "sync_folder"]

_LINE = re.compile(r"dpsdk\.anchor\.1 (0|[1-9][0-9]{0,18}) ([0-9a-f]{64})\n")

_LONGEST = 128
"""So many bytes are read: no such line is as long."""


@runtime_checkable
class Anchor(Protocol):
    """Remembers the last entry of a ledger where who can write to the ledger cannot.

    A file on another volume, a row of another database, a counter in hardware. An older copy of a
    ledger fits in itself; what tells it is that the anchor knows of more.
    """

    def get(self) -> tuple[int, bytes] | None:
        """The number and the code of the last entry that was put; None before the first."""
        ...

    def put(self, seq: int, code: bytes) -> None:
        """Remember an entry in place of the one before, for good once this returns.

        Called before anything is released for what the entry charges, in the order of entries, by
        one thread of one process at a time.
        """
        ...


@shows_half_made
class FileAnchor:
    """An anchor in a small file, which is replaced as a whole.

    Parameters
    ----------
    path
        The file; made when there is something to remember. On another volume than the ledger, with
        other people who may write to it: what restores both to an older copy is not told.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()

    def get(self) -> tuple[int, bytes] | None:
        """The number and the code of the last entry; None if there is no file yet.

        Raises `LedgerDamaged` if the file is no anchor's; and `OSError` if it cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                text = file.read(_LONGEST)
        except FileNotFoundError:
            return None
        found = _LINE.fullmatch(text.decode("latin-1"))
        if found is None:
            raise LedgerDamaged(str(self._path), "it is no file of an anchor")
        return int(found[1]), bytes.fromhex(found[2])

    def put(self, seq: int, code: bytes) -> None:
        """Remember an entry. Raises OSError if the file cannot be written."""
        fresh = self._path.with_name(f"{self._path.name}.new")
        with fresh.open("wb") as file:
            file.write(f"dpsdk.anchor.1 {seq} {code.hex()}\n".encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        sync_folder(self._path.parent)

    def __repr__(self) -> str:
        return f"FileAnchor({str(self._path)!r})"
