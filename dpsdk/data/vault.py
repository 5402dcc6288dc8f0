"""Storage of private counts: beside the objects that stand for them, not inside.

With each goes what was public about it when it was made: a `PrivateData` and its facts are in the
hands of clients, and what they are made to say later must not change a price.

A `PrivateData` holds nothing to look at. Only the kernel and the modules of this package may
import this one; an import contract and a test hold that wall. It keeps out accidents and plugins
that play by the rules, not code in the same process that walks the interpreter's memory
(docs/explanation/threat-model.md).
"""

from __future__ import annotations

import os

from dpsdk._identity_map import IdentityMap
from dpsdk.data.counts import Counts
from dpsdk.data.keyed import KeyedRows, UndeclaredFacts
from dpsdk.errors import Closed, InvalidArgument
from dpsdk.forms.facts import Facts

__all__ = [
    "in_engine",
    "keep",
    "keep_rows",
    "open_histogram",
    "open_rows",
    "public_facts",
    "undeclared_facts",
]

_kept: IdentityMap[tuple[Counts, Facts]] = IdentityMap()
_rows: IdentityMap[tuple[KeyedRows, UndeclaredFacts]] = IdentityMap()


def keep(owner: object, counts: Counts, facts: Facts) -> None:
    """Keep counts, and what is public about them, as long as their owner lives."""
    _kept.keep(owner, (counts, facts))


def open_histogram(owner: object) -> Counts:
    """The counts of an owner. Charge first: whoever reads it must have paid."""
    return _found(owner)[0]


def in_engine(owner: object) -> bool:
    """True if an engine is asked for the counts of an owner, which takes many nested calls."""
    return _found(owner)[0].process is not None


def public_facts(owner: object) -> Facts:
    """The public facts about the counts of an owner, as they were when these were stored."""
    counts, facts = _found(owner)
    if counts.process is not None and counts.process != os.getpid():
        raise Closed("a table of an engine in a forked process")
    return facts


def _found(owner: object) -> tuple[Counts, Facts]:
    kept = _kept.get(owner)
    if kept is None:
        # What says that it equals a table, or was made without one, is none.
        raise InvalidArgument("data", "a PrivateData as it was made", type(owner).__name__)
    return kept


def keep_rows(owner: object, rows: KeyedRows, facts: UndeclaredFacts) -> None:
    """Keep the rows of a table that nobody has described, as long as their owner lives."""
    _rows.keep(owner, (rows, facts))


def open_rows(owner: object) -> KeyedRows:
    """The rows of an owner. Charge first, as for counts."""
    return _found_rows(owner)[0]


def undeclared_facts(owner: object) -> UndeclaredFacts:
    """The public facts about the rows of an owner, as they were when these were stored."""
    return _found_rows(owner)[1]


def _found_rows(owner: object) -> tuple[KeyedRows, UndeclaredFacts]:
    kept = _rows.get(owner)
    if kept is None:
        raise InvalidArgument("undeclared", "an Undeclared as it was made", type(owner).__name__)
    return kept
