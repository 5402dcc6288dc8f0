"""One part of a partitioned table, as a table of its own."""

from __future__ import annotations

from attrs import evolve, frozen

from dpsdk._checks import shown, to_integer, to_name
from dpsdk.data.private_data import PrivateData, title_of
from dpsdk.data.vault import keep, open_histogram, setting_of
from dpsdk.domain import Attribute
from dpsdk.errors import InvalidArgument, UnknownAttribute, UnknownLabel
from dpsdk.typing import Label

__all__ = ["Parts"]


@frozen(eq=False)
class Parts:
    """How a table falls into parts: by the cells of one attribute, as it was when it was taken in.

    Attributes and facts are in the hands of clients, and could be made to say something else from
    one question to the next. So they only translate labels; a part is known by its cell, and by
    nothing else, when it is paid for and when it is read.

    Parameters
    ----------
    data
        The whole table.
    attribute
        What labels are looked up in.
    name
        The name of the attribute.
    size
        The number of parts.
    moves
        Whether a row may move from one part to another.
    """

    data: PrivateData
    attribute: Attribute
    name: str
    size: int
    moves: bool

    @classmethod
    def by(cls, data: PrivateData, attribute: str) -> Parts:
        """The parts of a table by an attribute.

        Raises
        ------
        UnknownAttribute
            If the table does not have it.
        InvalidArgument
            If a person may have several rows, since these may lie in several parts.
        """
        declared = data.domain[attribute]
        setting, name = setting_of(data), to_name("attribute", declared.name)
        if name not in setting.sizes:
            raise UnknownAttribute(name, setting.names)
        if setting.unit_rows > 1:
            expected = "1 in a table that is divided, as rows of one person may lie in many parts"
            if setting.person is None:
                raise InvalidArgument("unit_rows", expected, f"{setting.unit_rows:,}")
            given = f"{setting.unit_rows:,} rows a person by {shown(setting.person)}"
            raise InvalidArgument("unit", f"of max_rows={expected}", given)
        return cls(data, declared, name, setting.sizes[name], setting.replaced)

    def cell(self, label: Label) -> int:
        """The number of the part with a label.

        Raises
        ------
        UnknownLabel
            If there is none.
        """
        expected = f"one of {self.size} labels"
        # An attribute of another author may answer with an integer that equals any other.
        cell = to_integer("label", self.attribute.index(label), expected)
        if not 0 <= cell < self.size:
            raise UnknownLabel(self.name, shown(label), expected)
        return cell

    def table(self, cell: int) -> PrivateData:
        """The rows of one cell, as a table that stays the same when other rows change.

        Where the number of rows is public, all other rows are in the cell outside the domain, so
        that the table has as many. Where it is private, they are left out.
        """
        data, setting = self.data, setting_of(self.data)
        public = setting.replaced
        part = PrivateData.__new__(PrivateData)
        name = f"{data.name}, {self.name} {self.attribute.text(cell)}"
        title = f"{title_of(data)}, {self.name} {self.attribute.text(cell)}"
        facts = evolve(data.facts, outside=True) if public else data.facts
        # A table is otherwise made from columns or counts, so its class has no way in for this.
        for field, value in (("_name", name), ("_title", title), ("_facts", facts)):
            object.__setattr__(part, field, value)
        kept = open_histogram(data).only(self.name, cell, keep_rows=public)
        keep(part, kept, evolve(setting, outside=True) if public else setting)
        return part
