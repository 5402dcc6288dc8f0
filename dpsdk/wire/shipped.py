"""The catalogue of all kinds of the package."""

from __future__ import annotations

from functools import cache

from dpsdk.wire import costs, domains, mechanisms, plans, queries, releases
from dpsdk.wire.catalogue import Catalogue

__all__ = ["catalogue"]


@cache
def catalogue() -> Catalogue:
    """All kinds of the package, made once."""
    rooms = (domains, queries, mechanisms, costs, releases, plans)
    return Catalogue([kind for room in rooms for kind in room.KINDS])
