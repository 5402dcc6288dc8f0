"""Detect files on network or host mounts, where locks cannot be relied on."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["network_of"]

_MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = re.compile(
    r"9p|acfs|afs|afpfs|beegfs|ceph|cifs|cvmfs|davfs|gfs|gfs2|glusterfs|gpfs"
    r"|lustre|ncpfs|nfs|nfs4|ocfs2|orangefs|pvfs2|smb|smb2|smb3|smbfs|vboxsf|virtiofs|vmhgfs"
)

_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.encfs"})


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
