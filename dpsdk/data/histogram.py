"""The private histogram: records as cell numbers along each attribute, with counts.

Only the kernel and the modules of this package may import this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpsdk.data.kept import Kept
from dpsdk.domain import Domain
from dpsdk.errors import Redacted
from dpsdk.forms.blocks import numbered, tally
from dpsdk.typing import Floats, Ints

__all__ = ["Histogram"]


class Histogram:
    """Counts of the records inside a domain, and of those in the extra cell outside it.

    Marginal tables are cached: reading the same attributes again costs one look-up.
    """

    __slots__ = ("_codes", "_counts", "_outside", "_sizes", "_tables")

    def __init__(
        self, domain: Domain, codes: Mapping[str, Ints], counts: Floats, outside: int
    ) -> None:
        # What the domain says of itself later, in the hands of clients, is not asked again.
        sizes = {str.__str__(name): int(domain[name].size) for name in codes}
        self._fill(sizes, codes, counts, outside)

    def _fill(
        self, sizes: Mapping[str, int], codes: Mapping[str, Ints], counts: Floats, outside: int
    ) -> None:
        self._sizes = sizes
        self._codes = {
            str.__str__(name): np.ascontiguousarray(code, _narrow(sizes[name]))
            for name, code in codes.items()
        }
        self._counts = counts
        self._outside = outside
        self._tables = Kept()

    def __repr__(self) -> str:
        return "Histogram(private)"

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        raise Redacted("pickling or copying")

    @property
    def process(self) -> None:
        """None, since all of it is in memory, which a forked process shares."""

    @property
    def rows(self) -> int:
        """The number of rows, outside ones included. Private unless the relation says otherwise."""
        return int(self._counts.sum()) + self._outside

    def only(self, name: str, cell: int, *, keep_rows: bool) -> Histogram:
        """The records in one cell of an attribute; the others outside, or gone without a trace."""
        chosen = self._codes[name] == cell
        codes = {
            other: code[chosen].astype(np.int64, copy=False) for other, code in self._codes.items()
        }
        counts = self._counts[chosen]
        outside = self.rows - int(counts.sum()) if keep_rows else 0
        part = Histogram.__new__(Histogram)
        part._fill(self._sizes, codes, counts, outside)
        return part

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        """Cell numbers along each named attribute, and the count of each such record."""
        return [self._codes[name].astype(np.int64, copy=False) for name in names], self._counts

    def table(self, names: tuple[str, ...]) -> Floats:
        """Counts on the cells of the named attributes; read-only, one axis a name."""
        known = self._tables.get(names)
        return self._tables.keep(names, self.counted(names)) if known is None else known

    def counted(self, names: tuple[str, ...]) -> Floats:
        """The same, but not kept: for very many tables that are read once."""
        known = self._tables.get(names)
        if known is not None:
            return known
        shape = tuple([self._sizes[name] for name in names])
        cells = numbered((self._codes[name] for name in names), shape, len(self._counts))
        return tally(cells, self._counts, shape)


def _narrow(size: int) -> type[np.unsignedinteger | np.int64]:
    for kind in (np.uint8, np.uint16, np.uint32):
        if size <= np.iinfo(kind).max:
            return kind
    return np.int64
