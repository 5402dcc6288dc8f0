"""Public facts about a private table, and its neighbours."""

from __future__ import annotations

from enum import Enum

from dpsdk._checks import shown, to_count
from dpsdk._records import Factory, field, frozen
from dpsdk.domain import Attribute, Domain, Periods
from dpsdk.errors import InvalidArgument

__all__ = ["Facts", "Neighbors", "times_of"]


class Neighbors(Enum):
    """The tables that a release must not tell apart: those that differ in the rows of one person.

    A person has one row, unless more are declared as `Facts.unit_rows`. Where a table was loaded
    with a `PrivacyUnit`, a person may have any number, of which so many are kept.
    """

    REPLACE_ONE = "replace-one"
    """Tables of the same number of rows, those of one person exchanged. Their number is public."""

    ADD_REMOVE = "add-remove"
    """Tables of which one has the rows of one person more. The number of rows is private."""


def _to_neighbors(value: Neighbors) -> Neighbors:
    try:
        # By value: another import of this package has a class of its own.
        return Neighbors(value.value)
    except (AttributeError, ValueError):
        # No rule here is proven for another relation.
        expected = f"one of {', '.join(map(str, Neighbors))}"
        raise InvalidArgument("neighbors", expected, shown(value)) from None


def _unit_rows(value: int) -> int:
    return to_count("unit_rows", value)


def _replaced(facts: Facts) -> bool:
    return facts.neighbors is Neighbors.REPLACE_ONE


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
    unit_rows
        How many rows one person may have at the most. Neighbours then differ in as many: under
        replace-one up to so many rows are exchanged, under add-remove one table has up to so many
        more. All sensitivities grow with it. It is declared, and nobody checks it, unless there
        is a `person`.
    person
        The column that tells persons apart, where rows were cut to `unit_rows` of each person.
    distinct
        Whether no two of these rows are in one cell.
    strip
        Whether the persons' identifiers were read without the white space around them. A ledger is
        bound to it, and no price depends on it.
    clipped
        Whether numbers, dates and times beyond the bounds of the domain were moved to the nearest.
    periods
        The periods of time that have a budget each; None where there is one budget for all time.
        Neighbours then differ in one period: by a row, or by all rows of a person there, of which
        one of them has none. `unit_rows` is of a person and a period.
    part_of
        The facts of the whole table where this is a part of one, whose other rows lie outside.
    """

    domain: Domain
    neighbors: Neighbors = field(converter=_to_neighbors)
    rows: int | None
    outside: bool
    row_limit: int
    unit_rows: int = field(default=1, converter=_unit_rows)
    person: str | None = None
    distinct: bool = False
    strip: bool = field(default=False, eq=False, repr=False)
    clipped: bool = field(default=False, eq=False, repr=False, kw_only=True)
    periods: Periods | None = field(
        default=None, repr=False, kw_only=True, metadata={"quiet": True}
    )
    part_of: Facts | None = field(default=None, eq=False, repr=False, kw_only=True)
    replaced: bool = field(
        init=False, eq=False, repr=False, default=Factory(_replaced, takes_self=True)
    )
    """True if neighbours exchange rows. Otherwise one of them has more."""

    @property
    def period_range(self) -> tuple[int, int] | None:
        """The numbers of the first and the last period of the domain; None without periods."""
        if self.periods is None:
            return None
        return self.periods.range(self.domain[self.periods.attribute])

    @property
    def period_rule(self) -> str:
        """The rule by which a row is of a period, in words; empty without periods."""
        if self.periods is None:
            return ""
        return self.periods.rule(self.domain[self.periods.attribute])

    @property
    def unit(self) -> str:
        """The unit of privacy, whose presence no release gives away."""
        rows = "one row" if self.unit_rows == 1 else f"up to {self.unit_rows:,} rows"
        if self.periods is not None:
            if self.person is None:
                return f"a row of one period of {shown(self.periods.attribute)}"
            whose = f"a person by {shown(self.person)}"
            when = f"of one period of {shown(self.periods.attribute)}"
            return f"the rows {when} of {whose}, of which {rows} are kept"
        if self.person is None:
            return f"a person, who has {rows}"
        if self.distinct and self.unit_rows > 1:
            rows = f"{rows} in different cells"
        kept = "is kept" if self.unit_rows == 1 else "are kept"
        return f"a person by {shown(self.person)}, of whom {rows} {kept}"


def times_of(facts: Facts) -> tuple[Periods, Attribute]:
    """The periods of a table and their attribute; refuses a table without."""
    if facts.periods is None:
        expected = "one on a table with periods, loaded with periods=Periods(attribute)"
        raise InvalidArgument("session", expected, "one on a table with one budget for all time")
    return facts.periods, facts.domain[facts.periods.attribute]
