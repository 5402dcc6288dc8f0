"""Declarations: all that an owner says of a table, checked before any of it is read."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dpsdk._checks import shown, to_count, to_name
from dpsdk._records import evolve, field, frozen
from dpsdk.data.delimited import FileFormat
from dpsdk.data.matcher import Matcher
from dpsdk.data.matching import make_matcher, require_known
from dpsdk.data.persons import PeriodCells, PersonMatcher
from dpsdk.data.texts import TextFormat
from dpsdk.data.unit import PrivacyUnit
from dpsdk.domain import Attribute, Categorical, Domain, Periods
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.facts import Facts, Neighbors
from dpsdk.progress import Bars
from dpsdk.typing import Extra

__all__ = [
    "DEFAULT_MAX_ROWS",
    "Collect",
    "Declaration",
    "Outside",
    "to_max_rows",
    "to_table_name",
]

Collect: TypeAlias = Literal["histogram", "marginals"]
"""The result that comes back from the engine of a frame.

- "histogram": the cells that are not empty, once, when the table is taken in.
- "marginals": each marginal table that a query touches, when it is first read. Until then the
  engine holds a snapshot: the cell numbers of all rows as they were when the table was taken in.
"""

Outside: TypeAlias = Literal["cell", "clip", "apart", "raise"]
"""The fate of a row with a value outside the domain.

- "cell": it falls into one extra public cell where every query is zero.
- "clip": numbers, dates and times move to the nearest bound; all else still goes to the extra cell.
- "apart": each attribute gets cells of its own for missing and for other values, as by
  `Domain.open`, so that such a value takes its row out of no other attribute. No row is outside.
- "raise": loading fails. For trusted, offline use, since the failure tells that there is one.

A value for which its attribute has a cell, by `missing=True` or `other=True`, is never outside: it
neither moves its row there nor makes loading fail. Clipping comes first: a number beyond the bounds
moves to them even where there is a cell for other values.
"""

DEFAULT_MAX_ROWS = 2**24
"""The most rows of a table whose row count is private, unless its owner declares another limit."""

_ATTRIBUTE_LIMIT = 2**62


def _to_domain(domain: Domain) -> Domain:
    if not isinstance(domain, Domain):
        raise InvalidArgument("domain", "a domain", shown(domain))
    for attribute in domain.attributes:
        require_known(attribute)
        if attribute.known > _ATTRIBUTE_LIMIT:
            advice = "declare narrower bounds, or split it into several attributes"
            what = f"attribute {attribute.name!r}"
            raise TooLarge(what, attribute.known, _ATTRIBUTE_LIMIT, "cells", advice)
    return domain


def _has_all(attribute: Attribute) -> bool:
    """True if whatever stands in a column falls into a cell of the attribute."""
    takes_rest = isinstance(attribute, Categorical) and attribute.other is not None
    return Extra.MISSING in attribute.extras and (takes_rest or Extra.OTHER in attribute.extras)


def to_table_name(name: str) -> str:
    """A table's name, as a plain text."""
    return str.__str__(to_name("name", name))


def _to_outside(outside: Outside) -> Outside:
    if isinstance(outside, str) and outside in ("cell", "clip", "apart", "raise"):
        return outside
    raise InvalidArgument("outside", '"cell", "clip", "apart" or "raise"', shown(outside))


def _to_collect(collect: Collect) -> Collect:
    if isinstance(collect, str) and collect in ("histogram", "marginals"):
        return collect
    raise InvalidArgument("collect", '"histogram" or "marginals"', shown(collect))


def to_max_rows(rows: int | None) -> int | None:
    """A limit of rows, if one is declared."""
    return None if rows is None else to_count("max_rows", rows)


def _to_unit_rows(rows: int) -> int:
    return to_count("unit_rows", rows)


def _to_periods(periods: Periods | None) -> Periods | None:
    if periods is not None and not isinstance(periods, Periods):
        raise InvalidArgument("periods", "Periods or None", shown(periods))
    return periods


def _to_unit(unit: PrivacyUnit | None) -> PrivacyUnit | None:
    if unit is not None and not isinstance(unit, PrivacyUnit):
        raise InvalidArgument("unit", "a PrivacyUnit or None", shown(unit))
    return unit


@frozen
class Declaration:
    """The public arguments of every way to load a table.

    Parameters
    ----------
    domain, name, neighbors, outside, max_rows, unit_rows, unit, periods
        What is public of the table, as `PrivateData` says. Without a relation it is replace-one for
        rows, and add-remove for persons and for periods.
    texts
        How the texts of the table are written.
    lines
        How a text file is cut into fields.
    collect
        What comes back from an engine.
    bars
        What shows how far loading is.

    Raises
    ------
    InvalidArgument
        If one is not as expected.
    TooLarge
        If an attribute has more cells than can be numbered.
    """

    domain: Domain = field(converter=_to_domain)
    name: str = field(converter=to_table_name)
    neighbors: Neighbors | None = None
    outside: Outside = field(default="cell", converter=_to_outside)
    max_rows: int | None = field(default=None, converter=to_max_rows)
    unit_rows: int = field(default=1, converter=_to_unit_rows)
    unit: PrivacyUnit | None = field(default=None, converter=_to_unit)
    periods: Periods | None = field(default=None, converter=_to_periods)
    texts: TextFormat = field(factory=TextFormat, kw_only=True)
    lines: FileFormat = field(factory=FileFormat, kw_only=True)
    collect: Collect = field(default="histogram", converter=_to_collect, kw_only=True)
    bars: Bars | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.periods is not None:
            self.periods.check(self.domain)
        if self.outside == "apart":
            object.__setattr__(self, "domain", self._opened())
        self._check_missing_texts()
        if not isinstance(self.neighbors, Neighbors | None):
            raise InvalidArgument("neighbors", "a member of Neighbors", shown(self.neighbors))
        if self.periods is not None:
            self._check_periods()
        if self.unit is not None:
            if self.neighbors is Neighbors.REPLACE_ONE:
                expected = (
                    "Neighbors.ADD_REMOVE or left out, as with unit= the number of rows is private"
                )
                raise InvalidArgument("neighbors", expected, self.neighbors.value)
            if self.unit_rows > 1:
                expected = (
                    "left out with unit=, which says by max_rows how many rows a person keeps"
                )
                raise InvalidArgument("unit_rows", expected, f"{self.unit_rows:,}")
        if self.limit is not None:
            # Before the table is read, which may take long.
            self._check_rows_of_a_person(self.limit, "max_rows")

    @property
    def relation(self) -> Neighbors:
        """The neighbour relation."""
        if self.neighbors is not None:
            return self.neighbors
        plain = self.unit is None and self.periods is None
        return Neighbors.REPLACE_ONE if plain else Neighbors.ADD_REMOVE

    @property
    def has_public_rows(self) -> bool:
        """True if the number of rows is the same in all neighbouring tables, and so public."""
        return self.relation is Neighbors.REPLACE_ONE

    @property
    def complete(self) -> bool:
        """True if every row must lie inside the domain."""
        return self.outside == "raise"

    @property
    def has_outside(self) -> bool:
        """True if a row may lie outside the domain, as far as is declared.

        Of a table with periods, rows outside are left out: of no period, they are nobody's.
        """
        return (
            self.periods is None
            and not self.complete
            and not all(map(_has_all, self.domain.attributes))
        )

    @property
    def rows_of_a_person(self) -> int:
        """The most rows that a person has, or keeps."""
        return self.unit_rows if self.unit is None else self.unit.max_rows

    @property
    def limit(self) -> int | None:
        """The most rows that the table may have, or keep; None where that is not declared."""
        if self.max_rows is None and not self.has_public_rows:
            return DEFAULT_MAX_ROWS
        return self.max_rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read, of attributes and of persons."""
        person = [] if self.unit is None else [self.unit.column]
        return list(dict.fromkeys([*self.domain.names, *person]))

    def matchers(self) -> list[Matcher]:
        """Return what reads the column of each attribute, in order."""
        clip = self.outside == "clip"
        texts = evolve(self.texts, missing=self.domain.missing_texts)
        when = None if self.periods is None else self.periods.attribute
        # A time that is moved to the bounds would be of another period in another domain.
        return [
            make_matcher(one, texts, clip=clip and one.name != when)
            for one in self.domain.attributes
        ]

    def person(self) -> PersonMatcher | None:
        """Return what reads the column of identifiers, if there is one."""
        return None if self.unit is None else PersonMatcher(self.unit.column, self.texts)

    @property
    def period_cells(self) -> PeriodCells | None:
        """The periods of the cells of their attribute, if there are any."""
        if self.periods is None:
            return None
        shift = self.periods.offset(self.domain[self.periods.attribute]) % self.periods.units
        return PeriodCells(self.periods.attribute, shift, self.periods.units)

    def tell(self, rows: int) -> None:
        """Show that so many rows were read, where their number is public.

        Nor is it shown where loading ends at a row outside the domain: that would tell which.
        """
        if self.bars is not None and self.has_public_rows and not self.complete:
            self.bars.told(rows, None, "rows")

    def facts(self, rows: int) -> Facts:
        """Return what is public of a table of so many rows."""
        public = self.has_public_rows
        # Whoever asked for an error on any row outside has none; all others may have some.
        limit = rows if public or self.limit is None else self.limit
        self._check_rows_of_a_person(limit, "the number of rows" if public else "max_rows")
        person, distinct, strip = None, False, False
        if self.unit is not None:
            person, distinct, strip = self.unit.column, self.unit.distinct, self.texts.strip
        return Facts(
            self.domain,
            self.relation,
            rows if public else None,
            self.has_outside,
            limit,
            self.rows_of_a_person,
            person,
            distinct,
            strip,
            clipped=self.outside == "clip",
            periods=self.periods,
        )

    def _opened(self) -> Domain:
        """The domain with cells for other and missing values, but not for the time of a period."""
        if self.periods is None:
            return self.domain.open()
        when = self.periods.attribute
        opened = [one if one.name == when else one.open() for one in self.domain.attributes]
        return Domain(*opened, missing_texts=self.domain.missing_texts)

    def _check_periods(self) -> None:
        if self.neighbors is Neighbors.REPLACE_ONE:
            expected = (
                "Neighbors.ADD_REMOVE or left out, as with periods= a row that is exchanged could "
                "leave one period for another"
            )
            raise InvalidArgument("neighbors", expected, self.neighbors.value)
        if self.unit_rows > 1:
            expected = "left out with periods=: say by unit= whose each row is"
            raise InvalidArgument("unit_rows", expected, f"{self.unit_rows:,}")

    def _check_missing_texts(self) -> None:
        for attribute in self.domain.attributes if self.domain.missing_texts else ():
            matcher = make_matcher(attribute, self.texts, clip=False)
            for text in self.domain.missing_texts:
                if matcher.reads(text):
                    expected = f"texts that are no values of {shown(attribute.name)}"
                    raise InvalidArgument("missing_texts", expected, shown(text))

    def _check_rows_of_a_person(self, most: int, what: str) -> None:
        rows = self.rows_of_a_person
        if rows > most:
            parameter = "unit_rows" if self.unit is None else "unit"
            got = shown(rows) if self.unit is None else f"max_rows={shown(rows)}"
            raise InvalidArgument(parameter, f"at most {what}, {most:,}", got)
