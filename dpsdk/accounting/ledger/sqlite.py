"""The ledger in a file of SQLite, which many processes share and no crash makes forget."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import final

from dpsdk._checks import shown
from dpsdk.accounting.ledger.anchor import Anchor
from dpsdk.accounting.ledger.file import LedgerFile
from dpsdk.accounting.ledger.stored import StoredLedger, checked_patience
from dpsdk.errors import InvalidArgument, LedgerUnavailable

__all__ = ["SQLiteLedger", "network_of"]

_MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = re.compile(
    r"9p|acfs|afs|afpfs|beegfs|ceph|cifs|cvmfs|davfs|gfs|gfs2|glusterfs|gpfs"
    r"|lustre|ncpfs|nfs|nfs4|ocfs2|orangefs|pvfs2|smb|smb2|smb3|smbfs|vboxsf|virtiofs|vmhgfs"
)

_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.encfs"})

_IN_MEMORY = re.compile(r"file:(:memory:|.*[?&]mode=memory(&|$))")


@final
class SQLiteLedger(StoredLedger):
    """Remembers in one file, for any number of sessions, threads and processes of one machine.

    A session on it finds its books by the name of its table, so that one file holds those of any
    number of tables. A charge is on the disk before anything is read for it: no process that is
    killed, and no machine that stops, makes the ledger forget one. Decisions come one at a time,
    and who has just had a turn waits for another's, so that nobody who is busy keeps others
    waiting. No clock has a say in anything.

    Each entry carries a code over itself and the one before, the budget included. With a key,
    nobody who does not know it can change, add or leave out an entry unseen; without one, the codes
    tell what was damaged by accident. Putting back an older copy of the file is told by whoever
    has seen a newer one: each process for as long as it lives, and the anchor for good.

    It may be used in a forked process; a session may not, so that each worker opens its own. Back
    it up with ``VACUUM INTO`` or SQLite's backup, and not by copying a file in use.

    Parameters
    ----------
    path
        The file; made if there is none. Empty files beside it, whose names end in ``-queue`` and
        ``-turn``, say whose turn it is, and one of each table that was divided, whose name goes on
        with ``-partition-``, who has it open; ``-journal`` or ``-wal`` are of SQLite, and stay.
    key
        At least 16 random bytes, kept elsewhere; the same for all processes and for good, and of no
        other ledger, which could be put in the place of this one.
    anchor
        Remembers in another place how far the ledger has come; see `Anchor`.
    patience
        So many seconds to wait for a turn that others keep, from 0.01 to 3,600; a minute, if left
        out. Who serves others wants to be told sooner that the ledger is busy.
    allow_network
        Whether the file may lie on a network file system, or one shared with a host, of which
        Linux tells. Locks cannot be relied on there, and a budget may be spent twice.

    Raises
    ------
    InvalidArgument
        If an argument is not what it should be, or the file lies on a network file system.
    LedgerUnavailable
        If the file cannot be made, read or written, or another process keeps it for longer than
        the `patience`: here, and whenever the ledger is used.
    LedgerDamaged
        If it is not as it was written, or the key is another: here, and whenever it is used.
    """

    __slots__ = ()

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: bytes | None = None,
        anchor: Anchor | None = None,
        patience: float | None = None,
        allow_network: bool = False,
    ) -> None:
        waits = checked_patience(key, anchor, patience)
        place = _absolute(path)
        network = None if allow_network else network_of(place)
        if network is not None:
            expected = "on a disk of this machine, or come with allow_network=True"
            raise InvalidArgument("path", expected, f"a file on {network}")
        self._begin(LedgerFile(place, bytes(key or b""), waits), anchor)


def _absolute(path: str | os.PathLike[str]) -> Path:
    """The path of a file, whatever becomes of links and of the working directory."""
    expected = "the path of a file"
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument("path", expected, shown(path))
    plain = os.fspath(path)
    if not isinstance(plain, str) or not plain or "\0" in plain:
        raise InvalidArgument("path", expected, shown(plain))
    if plain == ":memory:" or _IN_MEMORY.match(plain):
        # SQLite means no file by it, and would be given one of that name here.
        expected = "the path of a file; MemoryLedger() is what remembers in memory"
        raise InvalidArgument("path", expected, shown(plain))
    try:
        place = Path(plain).resolve()
    except (OSError, RuntimeError) as error:
        raise LedgerUnavailable(str(plain), "its directory cannot be found") from error
    return place


def network_of(path: Path, mounts: str | None = None) -> str | None:
    """The type of a network file system, or one shared with a host, on which a path lies.

    None where it lies on none, or where that cannot be found out.
    """
    if str(path).startswith(("\\\\", "//")):
        return "a share"
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:  # no Linux
            return None
    where, best = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        inside = point == "/" or f"{path}/".startswith(f"{point}/")
        # Of two on one point the later one hides the other.
        if inside and len(point) >= len(where):
            where, best = point, after.split(" ")[0]
    remote = bool(_NETWORK.fullmatch(best)) or (
        best.startswith("fuse.") and best not in _LOCAL_FUSE
    )
    return best if remote else None
