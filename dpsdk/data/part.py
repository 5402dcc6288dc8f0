"""One part of a partitioned table, as a table of its own."""

from __future__ import annotations

from attrs import evolve

from dpsdk.data.private_data import PrivateData
from dpsdk.data.vault import keep, open_histogram, setting_of
from dpsdk.typing import Label

__all__ = ["part_of"]


def part_of(data: PrivateData, attribute: str, label: Label) -> PrivateData:
    """The rows of one label, as a table that stays the same when other rows change.

    Where the number of rows is public, all other rows are in the cell outside the domain, so that
    the table has as many. Where it is private, they are left out.

    Raises
    ------
    UnknownAttribute, UnknownLabel
        If the domain does not have them.
    """
    cell = data.domain[attribute].index(label)
    setting = setting_of(data)
    public = setting.replaced
    part = PrivateData.__new__(PrivateData)
    name = f"{data.name}, {attribute} {data.domain[attribute].text(cell)}"
    facts = evolve(data.facts, outside=True) if public else data.facts
    # A table is otherwise made from columns or counts only, so its class has no way in for this.
    for field, value in (("_name", name), ("_facts", facts)):
        object.__setattr__(part, field, value)
    kept = open_histogram(data).only(attribute, cell, keep_rows=public)
    keep(part, kept, evolve(setting, outside=True) if public else setting)
    return part
