"""Public facts about a private table, and its neighbours."""

from __future__ import annotations

from enum import Enum

from dpsdk._checks import shown, to_count, to_name
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument

__all__ = ["Facts", "Neighbors", "Setting", "replaces"]


class Neighbors(Enum):
    """The tables that a release must not tell apart: those that differ in the rows of one person.

    A person has one row, unless more are declared as `Facts.unit_rows`. Where a table was loaded
    with a `PrivacyUnit`, a person may have any number, of which so many are kept.
    """

    REPLACE_ONE = "replace-one"
    """Tables of the same number of rows, those of one person exchanged. Their number is public."""

    ADD_REMOVE = "add-remove"
    """Tables of which one has the rows of one person more. The number of rows is private."""


def replaces(neighbors: Neighbors) -> bool:
    """True if a relation is replace-one and not add-remove, by value.

    Raises
    ------
    InvalidArgument
        If it is neither: no rule here is proven for another relation.
    """
    value: object = getattr(neighbors, "value", None)
    if type(value) is str:
        for known in Neighbors:
            if value == known.value:
                return known is Neighbors.REPLACE_ONE
    expected = f"one of {', '.join(map(str, Neighbors))}"
    raise InvalidArgument("neighbors", expected, shown(neighbors))


def _unit_rows(value: int) -> int:
    return to_count("unit_rows", value)


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
    """

    domain: Domain
    neighbors: Neighbors
    rows: int | None
    outside: bool
    row_limit: int
    unit_rows: int = field(default=1, converter=_unit_rows)
    person: str | None = None
    distinct: bool = False

    @property
    def unit(self) -> str:
        """The unit of privacy, whose presence no release gives away."""
        rows = "one row" if self.unit_rows == 1 else f"up to {self.unit_rows:,} rows"
        if self.person is None:
            return f"a person, who has {rows}"
        if self.distinct and self.unit_rows > 1:
            rows = f"{rows} in different cells"
        return f"a person by {shown(self.person)}, of whom {rows} {_kept(self.unit_rows)} kept"


def _kept(rows: int) -> str:
    return "is" if rows == 1 else "are"


def _sizes(setting: Setting) -> dict[str, int]:
    return dict(zip(setting.names, setting.shape, strict=True))


@frozen(cache_hash=True)
class Setting:
    """The public facts of a table in plain numbers: what sensitivities and prices rest on.

    Facts are handed out, and could be changed by who holds them. So a table keeps a setting beside
    its rows from the moment that it is made, and the kernel uses that.
    """

    replaced: bool
    """True if neighbours exchange rows. Otherwise one of them has more."""
    outside: bool
    rows: int | None
    row_limit: int
    unit_rows: int
    """In how many rows neighbours differ at the most."""
    names: tuple[str, ...]
    shape: tuple[int, ...]
    person: str | None = None
    """The column that tells persons apart, where rows were cut to so many of each person."""
    distinct: bool = False
    """True if no two rows of a person are in one cell."""
    sizes: dict[str, int] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        # Derived once, at birth.
        object.__setattr__(self, "sizes", _sizes(self))

    @classmethod
    def of(cls, facts: Facts) -> Setting:
        """Take the facts as they stand."""
        return cls(
            replaces(facts.neighbors),
            bool(facts.outside),
            None if facts.rows is None else _plain(facts.rows),
            _plain(facts.row_limit),
            # Checked anew: 0 would make every sensitivity 0.
            _unit_rows(facts.unit_rows),
            # Texts and integers of another class may answer as they like when they are asked again.
            tuple([str.__str__(name) for name in facts.domain.names]),
            tuple([_plain(size) for size in facts.domain.shape]),
            None if facts.person is None else to_name("person", facts.person),
            bool(facts.distinct),
        )


def _plain(number: int) -> int:
    return number if type(number) is int else int.__add__(int(number), 0)
