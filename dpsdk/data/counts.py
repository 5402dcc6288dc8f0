"""What the kernel reads of a private table, once it was paid, wherever the rows are counted.

Only the kernel and the modules of this package may import this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpsdk.typing import Floats, Ints

__all__ = ["Counts"]


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

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        """Cell numbers along each named attribute, and the count of each such record."""
        ...

    def table(self, names: tuple[str, ...]) -> Floats:
        """Counts on the cells of the named attributes; read-only, one axis a name."""
        ...

    def counted(self, names: tuple[str, ...]) -> Floats:
        """The same, but not kept: for very many tables that are read once."""
        ...

    def only(self, name: str, cell: int, *, keep_rows: bool) -> Counts:
        """The records in one cell of an attribute; the others outside, or gone without a trace.

        Nothing is read for it where an engine is to be asked: it is made before a charge.
        """
        ...
