"""Counts that an engine works out: each table when it is first read, after the charge.

Only the kernel and the modules of this package may import this one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, final

import narwhals.stable.v2 as nw
import numpy as np

from dpsdk.data.counts import CachedCounts
from dpsdk.data.engine.rows import FIRST_ROW, Rows, code_name, packed, packed_runs
from dpsdk.data.engine.snapshot import Plan, Snapshot, snapshot_of
from dpsdk.data.matcher import Matcher
from dpsdk.errors import Closed, InvalidArgument
from dpsdk.typing import Array, Floats, Ints

__all__ = ["EngineCounts", "count_in_engine"]

_KEY, _COUNT = "dpsdk_key", "dpsdk_count"


@final
class EngineCounts(CachedCounts):
    """Counts of the rows of a snapshot, or of those in chosen cells of some attributes.

    What is asked of an engine follows from the names that are read, and from nothing private: one
    group-by a table, on these attributes alone. Tables are kept as those of a histogram in memory
    are. Records are asked for each time, since how many are there is private.
    """

    __slots__ = (
        "_cells",
        "_inside",
        "_persons",
        "_places",
        "_process",
        "_rows",
        "_sizes",
        "_snapshot",
        "_spans",
    )

    def __init__(
        self,
        sizes: Mapping[str, int],
        snapshot: Snapshot,
        counted: tuple[int | None, int | None] | None = None,
        cells: tuple[tuple[str, int], ...] = (),
        persons: int | None = None,
        spans: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        super().__init__()
        self._sizes = dict(sizes)
        self._spans = dict(spans or {})
        self._places = {name: place for place, name in enumerate(sizes)}
        self._snapshot = snapshot
        self._cells = cells
        self._process = os.getpid()
        self._rows, self._inside = _whole(snapshot) if counted is None else counted
        self._persons = persons

    @property
    def process(self) -> int:
        """Connections and threads of an engine do not outlive a fork."""
        return self._process

    @property
    def rows(self) -> int:
        return self._counted_inside() if self._rows is None else self._rows

    @property
    def persons(self) -> int | None:
        """The number of persons, where they were told apart; not known of a part of the rows."""
        return self._persons

    @property
    def outside(self) -> int:
        """The number of rows outside the domain, or not in the chosen cells; private."""
        return self.rows - self._counted_inside()

    def only(self, name: str, cell: int, *, keep_rows: bool) -> EngineCounts:
        counted = (self._rows if keep_rows else None), None
        cells = (*self._cells, (name, cell + self._first(name)))
        return self._part(self._sizes, counted, cells, self._spans)

    def between(self, name: str, low: int, high: int) -> EngineCounts:
        first = self._first(name)
        sizes = self._sizes | {name: high - low + 1}
        spans = self._spans | {name: (first + low, first + high)}
        return self._part(sizes, (None, None), self._cells, spans)

    def _first(self, name: str) -> int:
        """The cell of the snapshot that is the first one here."""
        return self._spans.get(name, (0, 0))[0]

    def _part(
        self,
        sizes: Mapping[str, int],
        counted: tuple[int | None, int | None],
        cells: tuple[tuple[str, int], ...],
        spans: Mapping[str, tuple[int, int]],
    ) -> EngineCounts:
        part = EngineCounts(sizes, self._snapshot, counted, cells, spans=spans)
        part._process = self._process
        return part

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        if not names:
            return [], np.array([float(self._counted_inside())])
        runs = packed_runs([self._sizes[name] for name in names])
        keys, counts = self._grouped(names, runs)
        # Engines return groups in any order.
        order = np.lexsort(keys[::-1])
        codes: list[Ints] = []
        for (start, stop), key in zip(runs, keys, strict=True):
            shape = tuple([self._sizes[name] for name in names[start:stop]])
            codes.extend(code.astype(np.int64) for code in np.unravel_index(key[order], shape))
        return codes, counts[order]

    def _count(self, names: tuple[str, ...]) -> Floats:
        shape = tuple([self._sizes[name] for name in names])
        flat = np.zeros(math.prod(shape))
        if names:
            (keys,), counts = self._grouped(names, [(0, len(names))])
            flat[keys] = counts
        else:
            flat[0] = self._counted_inside()
        return flat.reshape(shape)

    def _grouped(
        self, names: tuple[str, ...], runs: Sequence[tuple[int, int]]
    ) -> tuple[list[Ints], Floats]:
        """The groups of rows inside the domain that agree in the named attributes: keys, counts."""
        keys = [f"{_KEY}_{number}" for number in range(len(runs))]

        def plan(table: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
            made = [
                packed(
                    [code_name(self._places[name]) for name in names[start:stop]],
                    [self._sizes[name] for name in names[start:stop]],
                ).alias(key)
                for (start, stop), key in zip(runs, keys, strict=True)
            ]
            chosen = self._chosen(table).select(*made)
            return chosen.group_by(*keys).agg(nw.len().alias(_COUNT))

        found = self._ask(plan)
        # A row outside has a negative key, whatever its run.
        inside = found[keys[0]] >= 0
        counts = found[_COUNT][inside].astype(np.float64)
        return [found[key][inside].astype(np.int64, copy=False) for key in keys], counts

    def _counted_inside(self) -> int:
        """The number of rows that are inside the domain and in the chosen cells."""
        if self._inside is None:
            first = self._cells[0][0] if self._cells else next(iter(self._spans))
            counts = self._grouped((first,), [(0, 1)])[1]
            self._inside = int(counts.sum())
        return self._inside

    def _chosen(self, table: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        for name, cell in self._cells:
            table = table.filter(nw.col(code_name(self._places[name])) == cell)
        for name, (low, high) in self._spans.items():
            code = nw.col(code_name(self._places[name]))
            table = table.filter((code >= low) & (code <= high))
            if low:
                table = table.with_columns((code - low).alias(code_name(self._places[name])))
        return table

    def _ask(self, plan: Plan) -> dict[str, Array]:
        if os.getpid() != self._process:
            raise Closed("a table of an engine in a forked process")
        return self._snapshot.ask(plan)


def count_in_engine(
    rows: Rows, matchers: Sequence[Matcher], *, outside: bool = True
) -> EngineCounts:
    """The counts of rows, those outside among them or not, from one snapshot of their cells."""
    sizes, table = {matcher.name: matcher.size for matcher in matchers}, rows.table()
    first = FIRST_ROW in table.collect_schema().names()
    snapshot = snapshot_of(table, list(sizes.values()), [FIRST_ROW] if first else [])
    if snapshot is None:
        engine = table.implementation.value
        expected = f'"histogram" for a frame of {engine}, of which no snapshot is taken'
        raise InvalidArgument("collect", expected, '"marginals"')
    if not outside:
        inside = _whole(snapshot)[1]
        return EngineCounts(sizes, snapshot, (inside, inside))
    persons = _total(snapshot, nw.col(FIRST_ROW) > 0)[1] if first else rows.persons
    return EngineCounts(sizes, snapshot, persons=persons)


def _whole(snapshot: Snapshot) -> tuple[int, int]:
    """The number of rows, and of those inside the domain."""
    return _total(snapshot, nw.col(code_name(0)) >= 0)


def _total(snapshot: Snapshot, among: nw.Expr) -> tuple[int, int]:
    """The number of rows, and of those of which something is so."""
    key = among.alias(_KEY)
    found = snapshot.ask(lambda table: table.select(key).group_by(_KEY).agg(nw.len().alias(_COUNT)))
    counts = found[_COUNT].astype(np.int64)
    return int(counts.sum()), int(counts[found[_KEY].astype(bool)].sum())
