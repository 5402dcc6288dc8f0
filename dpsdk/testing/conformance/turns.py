"""Kits take turns: much of what they watch and set aside there is once in a process."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from dpsdk.testing.conformance.patched import Walls

__all__ = ["alone"]

# Of the thread that has it, so that a kit can be carried out within another, and in a fork.
_TURN = threading.RLock()


@contextmanager
def alone() -> Generator[Walls]:
    """The package as it stands, and no other kit meanwhile; afterwards it stands so again."""
    with _TURN:
        walls = Walls()
        try:
            yield walls
        finally:
            walls.restore()
