"""What is known of the columns of a table after a first look, which was paid for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from dpsdk._arrays import Lasting
from dpsdk._checks import cut
from dpsdk._frames import Column, Framed
from dpsdk._html import html_of, lined_up, page, said, table
from dpsdk._records import field, frozen
from dpsdk.domain import Attribute, Domain, Number
from dpsdk.domain.attributes import printed
from dpsdk.errors import InvalidArgument
from dpsdk.release.cost import Cost

__all__ = ["ColumnDescription", "ColumnKind", "Description"]

ColumnKind: TypeAlias = Literal["number", "date", "labels", "unknown"]
"""What a column holds: numbers between bounds, dates, frequent labels, or nothing that showed."""

_HEADS = ("column", "what it holds", "missing", "covered")
_NAME, _ROOM = 24, 48
"""Characters of a name and of what a column holds, so that a line has less than 100."""
_MORE = ", ..."
_LOUD = 0.1
"""A share of the rows: where missing ones may be off by more, little can be read."""


@frozen
class ColumnDescription(Lasting):
    """What a first look tells of one column. Shares are of the rows, or of persons.

    Parameters
    ----------
    name
        The column.
    kind
        What most of its values are.
    attribute
        A declaration of it, None where it is unknown.
    missing
        The share of missing values, by a noisy count.
    covered
        The share of the values that are there which are labels, or lie within the bounds; a noisy
        estimate.
    radius
        With probability 95%, no `missing` of the description is off by more.
    more
        How many times the noise would have to be smaller to show a value that one row in a hundred
        has; 1 where it shows, and for numbers and dates.
    """

    name: str
    kind: ColumnKind
    attribute: Attribute | None
    missing: float
    covered: float
    radius: float
    more: float

    def __str__(self) -> str:
        missing, covered = _shares(self)
        parts = [f"{self.name}: {self.what}", f"missing {missing}"]
        return ", ".join([*parts, f"covered {covered}"] if covered else parts)

    @property
    def what(self) -> str:
        """Its declaration in a few words, or what it would take to have one."""
        one = self.attribute
        if one is None and self.more > 1:
            more = f"{self.more:,.0f}" if self.more >= 10 else f"{self.more:.1f}"
            return f"unknown; a label of 1% needs {more} times the epsilon"
        if one is None:
            return "unknown; no label has 1% of the rows"
        if self.kind == "labels":
            text = f"{one.known:,} label{'' if one.known == 1 else 's'}: "
            return text + _listed(
                [one.text(place) for place in range(one.known)], _ROOM - len(text)
            )
        words = "dates" if self.kind == "date" else "numbers"
        if isinstance(one, Number) and one.exact:
            words = "whole numbers"
        return f"{words} from {one.text(0)} to {one.text(one.known - 1)}"


def _shares(column: ColumnDescription) -> tuple[str, str]:
    """The shares of missing and of covered values, as a table shows them."""
    radius = math.ceil(column.radius * 1000) / 1000
    covered = "" if column.attribute is None else f"{column.covered:.1%}"
    return f"{column.missing:.1%} ± {radius:.1%}", covered


def _listed(labels: Sequence[str], room: int) -> str:
    """As many labels as there is room for, at least one, as a terminal may show them."""
    text = cut(printed(labels[0]), room - len(_MORE))
    for place, label in enumerate(map(printed, labels[1:]), start=1):
        end = "" if place == len(labels) - 1 else _MORE
        if len(text) + len(label) + len(end) + 2 > room:
            return text + _MORE
        text = f"{text}, {label}"
    return text


def _to_columns(value: Sequence[ColumnDescription]) -> tuple[ColumnDescription, ...]:
    return tuple(value)


@frozen(repr=False)
class Description(Framed, Lasting):
    """What a first look at a table that nobody had described tells of its columns.

    All of it is public: a function of noisy counts, of keys that many rows have, and of the names
    of the columns. `domain` is a declaration to load the table with; a column that stayed unknown
    is no part of it.

    Parameters
    ----------
    columns
        What is known of each, in the order of the table.
    missing_texts
        The texts that counted as missing, which the domain declares.
    rows
        The number of rows, or persons; a noisy count where that is private.
    cost
        What was charged.
    person
        The column that tells persons apart, each of whom counts once; None where rows count.
    """

    columns: tuple[ColumnDescription, ...] = field(converter=_to_columns)
    missing_texts: tuple[str, ...]
    rows: float
    cost: Cost
    person: str | None = None

    @property
    def domain(self) -> Domain:
        """The columns that are known, as attributes.

        Raises
        ------
        InvalidArgument
            If none is.
        """
        attributes = [one.attribute for one in self.columns if one.attribute is not None]
        if not attributes:
            what = "a column that is known; spend more, or look at fewer columns"
            raise InvalidArgument("columns", what, "none")
        return Domain(*attributes, missing_texts=self.missing_texts)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The columns of which too little showed to declare them."""
        return tuple([one.name for one in self.columns if one.attribute is None])

    def _columns(self) -> dict[str, Column]:
        every = self.columns
        return {
            "column": Column([one.name for one in every], "text"),
            "kind": Column([one.kind for one in every], "text"),
            "what": Column([one.what for one in every], "text"),
            "missing": Column([one.missing for one in every], "number"),
            "missing_radius": Column([one.radius for one in every], "number"),
            "covered": Column([one.covered for one in every], "number"),
        }

    def __str__(self) -> str:
        count = len(self.columns)
        known = count - len(self.unknown)
        many = f"about {self.rows:,.0f} {_counted(self)}"
        end = f"{known:,} of {count:,} columns known, {many}, for {self.cost}"
        return "\n".join([*lined_up([_HEADS, *_lines(self)]), "", *_legend(self), end])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return html_of(self)


def _lines(description: Description) -> list[tuple[str, ...]]:
    every = description.columns
    return [(cut(printed(one.name), _NAME), one.what, *_shares(one)) for one in every]


def _counted(description: Description) -> str:
    return "rows" if description.person is None else "persons"


def _legend(description: Description) -> list[str]:
    many = _counted(description)
    told = [
        f"missing  of the {many}; all columns together are off by no more, with probability 95%",
        "covered  about so many of the values that are there are labels, or within the bounds",
    ]
    if max(one.radius for one in description.columns) > _LOUD:
        told.append(
            f"The noise is large beside so few {many}: more epsilon or fewer columns show more."
        )
    return told


@html_of.register
def _html_of_description(description: Description, /) -> str:
    parts = [table(_HEADS, _lines(description), len(description.columns))]
    parts += [f"<p>{said(line)}</p>" for line in _legend(description)]
    return page("Description", *parts)
