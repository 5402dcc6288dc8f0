"""The private histogram: records as cell numbers along each attribute, with counts.

Only the kernel and the modules of this package may import this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from dpsdk.data.counts import CachedCounts
from dpsdk.domain import Domain
from dpsdk.forms.blocks import numbered, tally
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Histogram", "narrow", "tallied"]

_TALLIED = 2**22
"""Records are counted together in a table of at most so many cells: 32 MiB."""


def tallied(codes: Mapping[str, Ints]) -> tuple[Mapping[str, Ints], Floats]:
    """Count equal records together, where the numbers of cells leave few that could be.

    Codes are -1 or more; returned are distinct records, or all of them, and how often each stands.
    """
    rows = len(next(iter(codes.values())))
    shape = [int(code.max(initial=-1)) + 2 for code in codes.values()]
    if prod(shape) > _TALLIED:
        return codes, np.ones(rows)
    number: Ints | None = None
    for code, size in zip(codes.values(), shape, strict=True):
        if number is None:
            number = code + 1
        else:
            number *= size
            number += code
            number += 1
    counts = np.bincount(np.zeros(0, dtype=np.int64) if number is None else number)
    found = np.flatnonzero(counts)
    places = np.unravel_index(found, shape)
    return {
        name: place.astype(np.int64) - 1 for name, place in zip(codes, places, strict=True)
    }, counts[found].astype(np.float64)


class Histogram(CachedCounts):
    """Counts of the records inside a domain, and of those in the extra cell outside it.

    Its arrays are read-only.
    """

    __slots__ = ("_codes", "_counts", "_outside", "_persons", "_sizes")

    def __init__(
        self,
        sizes: Domain | Mapping[str, int],
        codes: Mapping[str, Ints],
        counts: Floats,
        outside: int,
        persons: int | None = None,
    ) -> None:
        super().__init__()
        if isinstance(sizes, Domain):
            sizes = {name: sizes[name].size for name in codes}
        self._sizes = sizes
        self._codes = {name: _frozen(narrow(code, sizes[name])) for name, code in codes.items()}
        self._counts = _frozen(counts)
        self._outside = outside
        self._persons = persons

    @property
    def process(self) -> None:
        """None, since all of it is in memory, which a forked process shares."""

    @property
    def rows(self) -> int:
        """The number of rows, outside ones included. Private unless the relation says otherwise."""
        return int(self._counts.sum()) + self._outside

    @property
    def persons(self) -> int | None:
        """The number of persons, where they were told apart; not known of a part of the rows."""
        return self._persons

    def only(self, name: str, cell: int, *, keep_rows: bool) -> Histogram:
        chosen = self._codes[name] == cell
        codes = {other: code[chosen] for other, code in self._codes.items()}
        counts = self._counts[chosen]
        outside = self.rows - int(counts.sum()) if keep_rows else 0
        return Histogram(self._sizes, codes, counts, outside)

    def between(self, name: str, low: int, high: int) -> Histogram:
        code = self._codes[name].astype(np.int64)
        chosen = (code >= low) & (code <= high)
        codes = {other: one[chosen] for other, one in self._codes.items()}
        codes[name] = code[chosen] - low
        sizes = {**self._sizes, name: high - low + 1}
        return Histogram(sizes, codes, self._counts[chosen], 0)

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        return [_frozen(self._codes[name].astype(np.int64)) for name in names], self._counts

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[tuple[Sequence[Ints], Floats]]:
        """Return the same, so many records at a time: as numbers of 64 bits they take much room."""
        for start in range(0, len(self._counts), rows):
            own = slice(start, start + rows)
            codes = [self._codes[name][own].astype(np.int64) for name in names]
            yield codes, self._counts[own]

    def _count(self, names: tuple[str, ...]) -> Floats:
        shape = tuple([self._sizes[name] for name in names])
        cells = numbered((self._codes[name] for name in names), shape, len(self._counts))
        return tally(cells, self._counts, shape)


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def narrow(codes: Array, size: int) -> Array:
    """Return cell numbers in the fewest bytes that hold them; negative ones become others."""
    kinds = (np.uint8, np.uint16, np.uint32)
    kind = next((kind for kind in kinds if size <= np.iinfo(kind).max), np.int64)
    return np.ascontiguousarray(codes, kind)
