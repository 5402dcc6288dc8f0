"""Random bytes by which a process knows again what it wrote. No noise comes from here."""

from __future__ import annotations

import os

__all__ = ["fresh_token"]

_BYTES = 16


def fresh_token() -> bytes:
    """Bytes of the operating system that nobody else has, on whichever host."""
    return os.urandom(_BYTES)
