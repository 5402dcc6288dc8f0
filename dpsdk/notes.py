"""Notes on what a number is of, made of public facts and of what was released: they cost nothing.

A bound says how far a number is from the truth about rows that count. A note says which rows these
are, and what was done to their values before they were counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.numbers import as_bound
from dpsdk.accounting.prices.together import most_together
from dpsdk.codec import AMOUNT, FLOAT, NAME, NATURAL, ListOf, Nested, written
from dpsdk.domain import Attribute, Binned, Integer, Number
from dpsdk.forms import Facts

__all__ = [
    "AddsUp",
    "ByPeriod",
    "Clipped",
    "FromRecords",
    "InBins",
    "KnownRowsOnly",
    "Note",
    "Rounded",
]

_NAMED = 2


class Note(ABC):
    """Something that whoever reads a released number has to know; `str` says it in words."""

    __slots__ = ()

    @property
    def subject(self) -> object:
        """What tells it from others of its kind, of which one is enough."""
        return None

    @abstractmethod
    def __str__(self) -> str: ...


@frozen
class _OfAttribute(Note):
    """A note on the values of an attribute, of which there is one of its kind."""

    attribute: str

    @property
    def subject(self) -> object:
        return self.attribute


@written("note.adds-up", {"total": FLOAT, "radius": FLOAT})
@frozen
class AddsUp(Note):
    """So few of the rows count that many values must be missing, or spelled in another way.

    `total` is the share of all rows that count, as released, and is off by no more than `radius`
    with probability 95%. Said where both together are below 0.9.
    """

    total: float
    radius: float

    def __str__(self) -> str:
        return (
            f"what counts adds up to {self.total:.3g} ± {as_bound(self.radius)} of all rows: look "
            "for gaps, spaces and spellings"
        )


@written("note.in-bins", {"attribute": NAME, "widest": FLOAT})
@frozen
class InBins(_OfAttribute):
    """The values of an attribute are known by their bins alone, of which one is so wide.

    An error in the unit of the answer includes that.
    """

    widest: float

    def __str__(self) -> str:
        return (
            f"{shown(self.attribute)} is in bins up to {self.widest:.6g} wide; a Number keeps "
            "values to a step"
        )


@written("note.rounded", {"attribute": NAME, "step": FLOAT})
@frozen
class Rounded(_OfAttribute):
    """The values of an attribute are rounded to a step.

    An error in the unit of the answer includes half of it, for each row that adds up. Which rows
    count, where that depends on the attribute, is told by the rounded values.
    """

    step: float

    def __str__(self) -> str:
        return f"{shown(self.attribute)} is rounded to steps of {self.step:.6g}"


@written("note.clipped", {"attribute": NAME, "low": FLOAT, "high": FLOAT})
@frozen
class Clipped(_OfAttribute):
    """Values of an attribute beyond its bounds count as the nearest bound."""

    low: float
    high: float

    def __str__(self) -> str:
        ends = f"{self.low:.15g} to {self.high:.15g}"
        return f"values of {shown(self.attribute)} beyond {ends} count as these bounds"


@written("note.known-rows-only", {"names": ListOf(NAME, least=1)})
@frozen
class KnownRowsOnly(Note):
    """A row counts if it has declared values of all these attributes, whichever were asked for.

    How many do not is not told.
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, facts: Facts) -> KnownRowsOnly | None:
        """The note on a table; None if no value takes its row out of answers about others."""
        attributes = facts.domain.attributes
        whole = facts.part_of or facts
        # Of a table with periods such a row is left out.
        if not (whole.outside or whole.periods is not None) or len(attributes) == 1:
            return None
        names = tuple([one.name for one in attributes if one.open() != one])
        return cls(names) if names else None

    def __str__(self) -> str:
        count = len(self.names)
        named = " and ".join(map(shown, self.names))
        of = named if count <= _NAMED else f"all {count} attributes"
        return f'only rows with declared values of {of} count; outside="apart" keeps the others'


@written("note.by-period", {"attribute": NAME, "budget": Nested[Budget]("a budget", Budget)})
@frozen
class ByPeriod(Note):
    """The budget protects the rows of one period of time; what is told of several adds up.

    By group privacy, as docs/explanation/proofs/periods.md has it.
    """

    attribute: str
    budget: Budget

    def __str__(self) -> str:
        most = most_together(self.budget)
        end = "" if most is None else f", and by nothing from {most + 1} periods on"
        sums = "(j ε, δ (e^jε - 1) / (e^ε - 1))" if self.budget.delta else "j ε"
        return (
            f"{self.budget} is for the rows of one period of {shown(self.attribute)}; who has rows "
            f"in j of them is protected by {sums}{end}; what all rows of a person share is told by "
            "all of them"
        )


@written("note.from-records", {"records": NATURAL, "share": AMOUNT})
@frozen
class FromRecords(Note):
    """Answers are those of so many weighted records, and not of all cells of the universe.

    Marginals took the `share` of the mechanism's budget, and the records resemble them; 0 where
    they were given and not bought.
    """

    records: int
    share: Fraction

    def __str__(self) -> str:
        bought = f" that resemble marginals, for {self.share} of the budget" if self.share else ""
        return (
            f"the hypothesis is {self.records:,} weighted records{bought}; what none of them shows "
            "it cannot learn, and nothing is promised of answers that no measurement or sparse "
            "vector has checked"
        )


def value_notes(attribute: Attribute, facts: Facts, fineness: float) -> Iterator[Note]:
    """The notes on an answer that is made of the values of an attribute.

    Steps that hide less than `fineness` are not worth one.
    """
    if isinstance(attribute, Binned):
        yield InBins(attribute.name, float(np.diff(attribute.edges).max()))
    elif isinstance(attribute, Number) and not attribute.exact and attribute.step / 2 > fineness:
        yield Rounded(attribute.name, float(attribute.step))
    clips = attribute.outside == "clip" if isinstance(attribute, Number) else facts.clipped
    if clips and isinstance(attribute, Integer | Binned | Number):
        yield Clipped(attribute.name, *map(float, attribute.bounds))


NOTES = ListOf(Nested[Note]("a note", Note))
