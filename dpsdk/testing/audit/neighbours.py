"""All tables over a tiny universe, and all pairs of them that a release must not tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations

import numpy as np

from dpsdk.data import PrivateData
from dpsdk.domain import Domain
from dpsdk.forms import Neighbors
from dpsdk.typing import Ints

__all__ = ["neighbours", "tables"]


def tables(
    domain: Domain,
    rows: int,
    relation: Neighbors = Neighbors.REPLACE_ONE,
    *,
    unit_rows: int = 1,
) -> Iterator[PrivateData]:
    """Every table of so many rows, rows outside the domain included.

    A person may have `unit_rows` of them, as `PrivateData` says.
    """
    for counts in _histograms(domain, rows):
        yield _table(domain, counts, relation, unit_rows)


def neighbours(
    domain: Domain,
    rows: int,
    relation: Neighbors = Neighbors.REPLACE_ONE,
    *,
    unit_rows: int = 1,
) -> Iterator[tuple[PrivateData, PrivateData]]:
    """Every ordered pair of neighbouring tables of at most `rows` rows.

    They differ in 1 to `unit_rows` rows. Under replace-one both have exactly `rows` rows; under
    add-remove one of them has, and the other has as many fewer.
    """
    larger = {
        counts.tobytes(): _table(domain, counts, relation, unit_rows)
        for counts in _histograms(domain, rows)
    }
    for moved in range(1, min(unit_rows, rows) + 1):
        lots = list(_histograms(domain, moved))
        for kept in _histograms(domain, rows - moved):
            if relation is Neighbors.REPLACE_ONE:
                for gone, come in permutations(lots, 2):
                    # Rows that both of them hold were not exchanged.
                    if not ((gone > 0) & (come > 0)).any():
                        yield larger[(kept + gone).tobytes()], larger[(kept + come).tobytes()]
                continue
            fewer = _table(domain, kept, relation, unit_rows)
            for added in lots:
                more = larger[(kept + added).tobytes()]
                yield fewer, more
                yield more, fewer


def _histograms(domain: Domain, rows: int) -> Iterator[Ints]:
    """Counts of every cell, the one outside last."""
    cells = domain.size + 1
    for chosen in combinations_with_replacement(range(cells), rows):
        yield np.bincount(np.array(chosen, dtype=np.int64), minlength=cells).astype(np.int64)


def _table(domain: Domain, counts: Ints, relation: Neighbors, unit_rows: int) -> PrivateData:
    return PrivateData.from_counts(
        counts[:-1],
        domain,
        outside_rows=int(counts[-1]),
        neighbors=relation,
        unit_rows=unit_rows,
    )
