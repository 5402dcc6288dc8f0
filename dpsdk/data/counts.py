"""Private counts: what the kernel reads of a table once it was paid, wherever rows are counted.

Only the kernel and the modules of this package may import this one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from threading import RLock
from typing import Protocol, final

from dpsdk.errors import Redacted
from dpsdk.typing import Floats, Ints

__all__ = ["CachedCounts", "Counts"]

_CELLS = 2**24
"""Cached tables have no more cells than this together: 128 MiB."""


@final
class _TableCache:
    """Read-only tables by their names, as many as fit; the oldest ones go first."""

    __slots__ = ("_cells", "_lock", "tables")

    def __init__(self) -> None:
        self.tables: OrderedDict[tuple[str, ...], Floats] = OrderedDict()
        self._cells = 0
        # A finaliser that runs meanwhile may read a table, too.
        self._lock = RLock()

    def keep(self, names: tuple[str, ...], table: Floats) -> Floats:
        table.flags.writeable = False
        with self._lock:
            if names not in self.tables:
                self.tables[names] = table
                self._cells += table.size
            while self._cells > _CELLS and len(self.tables) > 1:
                _, oldest = self.tables.popitem(last=False)
                self._cells -= oldest.size
        return table


class Counts(Protocol):
    """Counts of the records of a private table: in memory, or by an engine that is asked for them.

    All of it is private. What is public of a table, as the sizes of its attributes and the number
    of rows where that is public, is kept beside it, and never taken from here. Names are those of
    attributes, each at most once.
    """

    @property
    def process(self) -> int | None:
        """The process that alone can read it; None where any that was forked from it can, too."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows, outside ones included. Private unless the relation says otherwise."""
        ...

    @property
    def persons(self) -> int | None:
        """The number of persons, where they were told apart; not known of a part of the rows."""
        ...

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        """Return cell numbers along each named attribute, and the count of each such record."""
        ...

    def table(self, names: tuple[str, ...]) -> Floats:
        """Return counts on the cells of the named attributes, read-only, one axis a name."""
        ...

    def counted(self, names: tuple[str, ...]) -> Floats:
        """Return the same, but do not keep it: for very many tables that are read once."""
        ...

    def only(self, name: str, cell: int, *, keep_rows: bool) -> Counts:
        """Return the records in one cell of an attribute; the others are outside, or gone.

        Nothing is read for it where an engine is to be asked: it is made before a charge.
        """
        ...

    def between(self, name: str, low: int, high: int) -> Counts:
        """Return the records in some cells of an attribute, which are numbered from the first.

        The others are gone. Nothing is read for it, as for `only`.
        """
        ...


class CachedCounts(ABC):
    """Counts whose tables are cached, and which show themselves to nobody."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables = _TableCache()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        raise Redacted("pickling or copying")

    @abstractmethod
    def _count(self, names: tuple[str, ...]) -> Floats:
        """Return counts on the cells of the named attributes, one axis a name."""

    def table(self, names: tuple[str, ...]) -> Floats:
        """Return counts on the cells of the named attributes, read-only, one axis a name."""
        known = self._tables.tables.get(names)
        return self._tables.keep(names, self._count(names)) if known is None else known

    def counted(self, names: tuple[str, ...]) -> Floats:
        """Return the same, but do not keep it: for very many tables that are read once."""
        known = self._tables.tables.get(names)
        return self._count(names) if known is None else known
