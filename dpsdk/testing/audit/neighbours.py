"""All tables over a tiny universe, and all pairs of them that a release must not tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np

from dpsdk.data import PrivateData
from dpsdk.domain import Domain
from dpsdk.forms import Neighbors
from dpsdk.typing import Ints

__all__ = ["neighbours", "tables"]


def tables(
    domain: Domain, rows: int, relation: Neighbors = Neighbors.REPLACE_ONE
) -> Iterator[PrivateData]:
    """Every table of so many rows, rows outside the domain included."""
    for counts in _histograms(domain, rows):
        yield _table(domain, counts, relation)


def neighbours(
    domain: Domain, rows: int, relation: Neighbors = Neighbors.REPLACE_ONE
) -> Iterator[tuple[PrivateData, PrivateData]]:
    """Every ordered pair of neighbouring tables of at most `rows` rows.

    Under replace-one both have exactly `rows` rows; under add-remove one of them has, and the
    other has one fewer.
    """
    larger = {
        counts.tobytes(): _table(domain, counts, relation) for counts in _histograms(domain, rows)
    }
    cells = domain.size + 1
    if relation is Neighbors.REPLACE_ONE:
        for counts in _histograms(domain, rows):
            for source in np.flatnonzero(counts):
                for target in range(cells):
                    if source != target:
                        moved = counts.copy()
                        moved[source] -= 1
                        moved[target] += 1
                        yield larger[counts.tobytes()], larger[moved.tobytes()]
        return
    for counts in _histograms(domain, rows - 1):
        fewer = _table(domain, counts, relation)
        for target in range(cells):
            added = counts.copy()
            added[target] += 1
            yield fewer, larger[added.tobytes()]
            yield larger[added.tobytes()], fewer


def _histograms(domain: Domain, rows: int) -> Iterator[Ints]:
    """Counts of every cell, the one outside last."""
    cells = domain.size + 1
    for chosen in combinations_with_replacement(range(cells), rows):
        yield np.bincount(np.array(chosen, dtype=np.int64), minlength=cells).astype(np.int64)


def _table(domain: Domain, counts: Ints, relation: Neighbors) -> PrivateData:
    return PrivateData.from_counts(
        counts[:-1], domain, outside_rows=int(counts[-1]), neighbors=relation
    )
