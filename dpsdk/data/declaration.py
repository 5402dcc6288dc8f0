"""What an owner declares of a table: all that is public about it, checked and made anew."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import evolve, frozen

from dpsdk._checks import shown, to_count, to_name
from dpsdk.data.unit import PrivacyUnit, own_unit
from dpsdk.domain import Attribute, Binned, Boolean, Categorical, Date, Domain, Integer
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.facts import Facts, Neighbors
from dpsdk.progress import Bars

__all__ = [
    "Collect",
    "Declaration",
    "Outside",
    "declared",
    "has_public_rows",
    "own_collect",
    "own_neighbors",
]

Collect: TypeAlias = Literal["histogram", "marginals"]
"""What comes back from the engine of a frame.

- "histogram": the cells that are not empty, once, when the table is taken in.
- "marginals": each marginal table that a query touches, when it is first read. Until then the
  engine holds a snapshot: the cell numbers of all rows as they were when the table was taken in.
"""

Outside: TypeAlias = Literal["cell", "clip", "raise"]
"""What becomes of a row with a value outside the domain.

- "cell": it falls into one extra public cell where every query is zero.
- "clip": numbers, dates and times move to the nearest bound; all else still goes to the extra cell.
- "raise": loading fails. For trusted, offline use, since the failure tells that there is one.
"""

DEFAULT_MAX_ROWS = 2**24
"""The most rows of a table whose row count is private, unless its owner declares another limit."""

_ATTRIBUTE_LIMIT = 2**62


@frozen
class Declaration:
    """The public arguments of every way to load a table, as values that no caller holds."""

    domain: Domain
    name: str
    neighbors: Neighbors
    outside: Outside
    max_rows: int | None
    unit_rows: int
    unit: PrivacyUnit | None = None
    bars: Bars | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read, of attributes and of persons."""
        person = [] if self.unit is None else [self.unit.column]
        return list(dict.fromkeys([*self.domain.names, *person]))

    def tell(self, rows: int) -> None:
        """Show that so many rows were read, where their number is public.

        Nor is it shown where loading ends at a row outside the domain: that would tell which.
        """
        if self.bars is not None and self.outside != "raise" and has_public_rows(self.neighbors):
            self.bars.told(rows, None, "rows")

    @property
    def limit(self) -> int | None:
        """The most rows that the table may have; None where that is not declared.

        Where persons are told apart, these are the rows that are kept.
        """
        if self.max_rows is None and not has_public_rows(self.neighbors):
            return DEFAULT_MAX_ROWS
        return self.max_rows

    def facts(self, rows: int) -> Facts:
        """What is public of a table of so many rows.

        Raises
        ------
        InvalidArgument
            If one person might have more rows than the table has, where that number is public.
        """
        public = has_public_rows(self.neighbors)
        # Whoever asked for an error on any row outside has none; all others may have some.
        outside = self.outside != "raise"
        limit = rows if public or self.limit is None else self.limit
        self._check_within(limit, "the number of rows" if public else "max_rows")
        known = rows if public else None
        whose = (None, False) if self.unit is None else (self.unit.column, self.unit.distinct)
        return Facts(self.domain, self.neighbors, known, outside, limit, self.unit_rows, *whose)

    def _check_within(self, most: int, what: str) -> None:
        if self.unit_rows > most:
            parameter = "unit_rows" if self.unit is None else "unit"
            expected = f"at most {what}, {most:,}"
            given = shown(self.unit_rows)
            got = given if self.unit is None else f"max_rows={given}"
            raise InvalidArgument(parameter, expected, got)

    def check(self) -> None:
        """Refuse, before a table is read, which may take long, more rows a person than in all."""
        if self.limit is not None:
            self._check_within(self.limit, "max_rows")


def has_public_rows(neighbors: Neighbors) -> bool:
    """Whether the number of rows is the same in all neighbouring tables, and so public."""
    match own_neighbors(neighbors).value:
        case "replace-one":
            return True
        case "add-remove":
            return False
        case _:
            raise InvalidArgument("neighbors", "a relation that is known here", shown(neighbors))


def own_neighbors(neighbors: Neighbors) -> Neighbors:
    """The member of this package's relations that a value says it is.

    Raises
    ------
    InvalidArgument
        If it is none, so that no rule takes what it does not know for the cheaper relation.
    """
    if type(neighbors) is Neighbors:
        value = getattr(neighbors, "_value_", None)
        for known in (Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE):
            if type(value) is str and value == known.value:
                return known
    raise InvalidArgument("neighbors", "a member of Neighbors", shown(neighbors))


def declared(
    domain: Domain,
    name: str,
    neighbors: Neighbors | None,
    outside: Outside,
    max_rows: int | None,
    unit_rows: int,
    unit: PrivacyUnit | None = None,
    progress: bool = False,  # noqa: FBT001, FBT002  # as whoever loads is given it
) -> Declaration:
    """The public arguments, checked.

    Without a relation it is replace-one for rows, and add-remove for persons.

    Raises
    ------
    InvalidArgument
        If one is not as expected.
    TooLarge
        If an attribute has more cells than can be numbered.
    MissingExtra
        If progress should be shown, and what shows it is not installed.
    """
    own, bars = _own_domain(domain), Bars.of(progress)
    name = str.__str__(to_name("name", name))
    unit = None if unit is None else own_unit(unit)
    neighbors = _relation(neighbors, unit)
    outside = _own_outside(outside)
    if max_rows is not None:
        max_rows = to_count("max_rows", max_rows)
    unit_rows = to_count("unit_rows", unit_rows)
    if unit is not None:
        if unit_rows > 1:
            expected = "left out with unit=, which says by max_rows how many rows a person keeps"
            raise InvalidArgument("unit_rows", expected, f"{unit_rows:,}")
        unit_rows = unit.max_rows
    for attribute in own.attributes:
        if attribute.size > _ATTRIBUTE_LIMIT:
            advice = "declare narrower bounds, or split it into several attributes"
            what = f"attribute {attribute.name!r}"
            raise TooLarge(what, attribute.size, _ATTRIBUTE_LIMIT, "cells", advice)
    declaration = Declaration(own, name, neighbors, outside, max_rows, unit_rows, unit, bars)
    declaration.check()
    return declaration


def _relation(neighbors: Neighbors | None, unit: PrivacyUnit | None) -> Neighbors:
    if neighbors is None:
        return Neighbors.REPLACE_ONE if unit is None else Neighbors.ADD_REMOVE
    known = own_neighbors(neighbors)
    if unit is not None and known is Neighbors.REPLACE_ONE:
        expected = "Neighbors.ADD_REMOVE or left out, as with unit= the number of rows is private"
        raise InvalidArgument("neighbors", expected, known.value)
    return known


def _own_outside(outside: Outside) -> Outside:
    if issubclass(type(outside), str):
        value = str.__str__(outside)
        for known in ("cell", "clip", "raise"):
            if value == known:
                return known
    raise InvalidArgument("outside", '"cell", "clip" or "raise"', shown(outside))


def own_collect(collect: Collect) -> Collect:
    """A mode of collection that no caller holds.

    Raises
    ------
    InvalidArgument
        If it is none.
    """
    if issubclass(type(collect), str):
        value = str.__str__(collect)
        for known in ("histogram", "marginals"):
            if value == known:
                return known
    raise InvalidArgument("collect", '"histogram" or "marginals"', shown(collect))


def _own_domain(domain: Domain) -> Domain:
    """A domain that the caller does not hold, of attributes whose methods are this package's."""
    if not isinstance(domain, Domain):
        raise InvalidArgument("domain", "a domain", shown(domain))
    return Domain(*(_own_attribute(attribute) for attribute in domain.attributes))


def _own_attribute(attribute: Attribute) -> Attribute:
    for known in (Boolean, Categorical, Integer, Binned, Date):
        if type(attribute) is known:
            return evolve(attribute)
    expected = "made of Boolean, Categorical, Integer, Binned and Date"
    raise InvalidArgument("domain", expected, f"an attribute of class {type(attribute).__name__}")
