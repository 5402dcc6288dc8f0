"""Tables that were read, kept for reuse."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import final

from dpsdk.typing import Floats

__all__ = ["Kept"]

_CELLS = 2**24
"""The tables kept have no more cells than this together: 128 MiB."""


@final
class Kept:
    """Tables by their names, as many as fit; which go first follows from what was asked alone."""

    __slots__ = ("_cells", "_lock", "_tables", "get")

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[str, ...], Floats] = OrderedDict()
        self._cells = 0
        # A finaliser that runs meanwhile may read a table, too.
        self._lock = RLock()
        self.get: Callable[[tuple[str, ...]], Floats | None] = self._tables.get
        """The table of these names, None if it is not kept."""

    def keep(self, names: tuple[str, ...], table: Floats) -> Floats:
        """The table, read-only from now on."""
        table.flags.writeable = False
        with self._lock:
            if names not in self._tables:
                self._tables[names] = table
                self._cells += table.size
            while self._cells > _CELLS and len(self._tables) > 1:
                _, oldest = self._tables.popitem(last=False)
                self._cells -= oldest.size
        return table
