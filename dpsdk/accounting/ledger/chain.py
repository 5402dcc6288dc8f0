"""The chain of a ledger's entries: each carries a code over itself and the code before it.

With a key the code is an HMAC (Bellare, Canetti & Krawczyk 1996): one who does not know the key can
neither change an entry, nor leave one out between two others, nor add one. Without a key it tells
what was damaged by accident alone. That the newest entries were cut off is told by neither; an
`Anchor` remembers how many there were.

At every `SPACING`-th place stands a checkpoint, an entry that says where the last decision on each
table is. Who opens a ledger follows its chain from the last one on. That comes to the same for what
is spent: the code of the checkpoint rests on all codes before, and nothing before it is believed,
once it is read, unless it fits its own code.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import NamedTuple

__all__ = [
    "ANSWER",
    "CHECKPOINT",
    "SPACING",
    "START",
    "TAKEN",
    "Entry",
    "code_of",
    "coded",
    "digest_of",
    "fits",
]

START = sha256(b"dpsdk.ledger.2").digest()
"""Stands for the code before the first entry."""

SPACING = 256
"""Every so many entries there is a checkpoint, and nowhere else."""

TAKEN = "taken"
ANSWER = "answer"
CHECKPOINT = "checkpoint"


class Entry(NamedTuple):
    """One thing that was written: a decision with its charges, an answer, or a checkpoint."""

    seq: int
    dataset: str
    kind: str
    runs: int
    request: str | None
    body: bytes
    books: str
    token: bytes
    code: bytes = b""


def digest_of(text: str) -> str:
    """The digest of books in an entry, so that these need not be kept twice."""
    return sha256(text.encode("utf-8")).hexdigest()


def code_of(key: bytes, before: bytes, entry: Entry) -> bytes:
    """The code of an entry behind another."""
    request = b"" if entry.request is None else b"=" + entry.request.encode("utf-8")
    parts = (
        before,
        b"%d" % entry.seq,
        entry.dataset.encode("utf-8"),
        entry.kind.encode("utf-8"),
        b"%d" % entry.runs,
        request,
        entry.body,
        entry.books.encode("utf-8"),
        entry.token,
    )
    # With its length before each, no two entries are written alike.
    framed = b"".join([len(part).to_bytes(8, "big") + part for part in parts])
    return hmac.digest(key, framed, "sha256")


def coded(key: bytes, before: bytes, entry: Entry) -> Entry:
    """An entry with its code, behind another."""
    return entry._replace(code=code_of(key, before, entry))


def fits(key: bytes, before: bytes, entry: Entry) -> bool:
    """True if an entry is behind another as it was written."""
    return hmac.compare_digest(code_of(key, before, entry), entry.code)
