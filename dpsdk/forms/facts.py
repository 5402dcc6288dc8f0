"""What is public about a private table, and what counts as a neighbour of it."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from dpsdk.domain import Domain

__all__ = ["Facts", "Neighbors"]


class Neighbors(Enum):
    """Which tables a release must not tell apart."""

    REPLACE_ONE = "replace-one"
    """Tables of the same number of rows, one row exchanged. The number of rows is public."""

    ADD_REMOVE = "add-remove"
    """Tables of which one has one row more. The number of rows is private."""


@frozen(cache_hash=True)
class Facts:
    """The public facts of a private table: all that a query or a mechanism may use.

    Parameters
    ----------
    domain
        The universe of its records.
    neighbors
        The neighbour relation under which it is protected.
    rows
        The number of rows where that is public, else None.
    outside
        Whether rows may lie in the extra cell outside the domain, where every query is zero. That
        cell then counts in every sensitivity.
    row_limit
        No table has more rows: `rows` where public, else the declared maximum.
    """

    domain: Domain
    neighbors: Neighbors
    rows: int | None
    outside: bool
    row_limit: int
