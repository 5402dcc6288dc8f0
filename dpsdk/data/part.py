"""One part of a partitioned table, as a table of its own."""

from __future__ import annotations

from dpsdk._checks import shown
from dpsdk._records import evolve, frozen
from dpsdk.data.private_data import PrivateData, table_of
from dpsdk.data.vault import open_histogram, public_facts
from dpsdk.domain import Attribute
from dpsdk.errors import InvalidArgument
from dpsdk.forms.facts import times_of
from dpsdk.typing import Label

__all__ = ["Parts", "between"]


@frozen(eq=False)
class Parts:
    """A table that falls into parts by the cells of one attribute, each known by its cell."""

    data: PrivateData
    attribute: Attribute
    moves: bool

    @classmethod
    def by(cls, data: PrivateData, attribute: str) -> Parts:
        """Return the parts of a table by an attribute."""
        declared, setting = data.domain[attribute], public_facts(data)
        if setting.unit_rows > 1:
            expected = "1 in a table that is divided, as rows of one person may lie in many parts"
            if setting.person is None:
                raise InvalidArgument("unit_rows", expected, f"{setting.unit_rows:,}")
            given = f"{setting.unit_rows:,} rows a person by {shown(setting.person)}"
            raise InvalidArgument("unit", f"of max_rows={expected}", given)
        return cls(data, declared, setting.replaced)

    @property
    def name(self) -> str:
        """The name of the attribute."""
        return self.attribute.name

    @property
    def size(self) -> int:
        """The number of parts."""
        return self.attribute.size

    def cell(self, label: Label) -> int:
        """Return the number of the part with a label."""
        return self.attribute.index(label)

    def table(self, cell: int) -> PrivateData:
        """Return the rows of one cell, as a table that stays the same when other rows change.

        Where the number of rows is public, all other rows are in the cell outside the domain, so
        that the table has as many. Where it is private, they are left out.
        """
        public = public_facts(self.data).replaced
        counts = open_histogram(self.data).only(self.name, cell, keep_rows=public)
        whole = self.data.facts
        facts = evolve(whole, outside=public or whole.outside, part_of=whole)
        return table_of(counts, facts, self.data, f", {self.name} {self.attribute.text(cell)}")


def between(data: PrivateData, low: int, high: int) -> PrivateData:
    """Return the rows of some cells of the time that its periods go by, as a table of its own.

    Its domain has these cells alone. All other rows are left out; of a table with periods, how many
    there are is private in any case.
    """
    whole = data.facts
    periods, attribute = times_of(whole)
    name = attribute.name
    domain = periods.cut(whole.domain, low, high)
    counts = open_histogram(data).between(name, low, high)
    facts = evolve(whole, domain=domain, part_of=whole)
    label = f", {name} {attribute.text(low)} to {attribute.text(high)}"
    return table_of(counts, facts, data, label)
