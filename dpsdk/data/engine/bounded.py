"""At most so many rows of each person, chosen inside the engine that holds the table.

The rule is that of `dpsdk.data.bounding`, row for row, written in what all engines compute exactly:
products of numbers below 2^31, remainders of numbers from 0 on, counts along an order, and single
characters of texts. So the same rows are kept wherever a table is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from attrs import frozen

from dpsdk.data.bounding import (
    ALPHABET,
    BITS,
    CELL_FACTOR,
    FIRST,
    LAST,
    LENGTHS,
    PERSON_FACTOR,
    PRIME,
    REPEAT_FACTOR,
)
from dpsdk.data.engine.coded import code_name, coded
from dpsdk.data.engine.collation import compares_exactly
from dpsdk.data.engine.grouped import counted
from dpsdk.data.engine.keys import Key
from dpsdk.data.engine.table import column_of, stays_in_engine
from dpsdk.data.engine.times import chosen
from dpsdk.data.frames import series_as_column
from dpsdk.data.matching import MISSING
from dpsdk.data.persons import WHITE_SPACE, PersonMatcher, kept_codes, persons_of
from dpsdk.data.unit import PrivacyUnit
from dpsdk.typing import Floats, Ints

__all__ = ["Kept", "Protected", "bounded", "kept_of_persons"]

_PERSON, _REPEAT, _KEY, _PLACE, _WHO = (
    f"dpsdk_{name}" for name in ("person", "repeat", "key", "place", "who")
)

_AROUND = f"^[{WHITE_SPACE}]+|[{WHITE_SPACE}]+$"
"""What `strip` drops. Not every engine trims a text of more than blanks."""


def bounded(
    table: nw.LazyFrame[Any],
    names: Sequence[str],
    column: str,
    unit: PrivacyUnit,
    *,
    strip: bool = False,
) -> nw.LazyFrame[Any]:
    """The cell numbers of the rows that are kept; of a row that lies outside, all are -1.

    Parameters
    ----------
    table
        Cell numbers, as `coded` makes them, beside the column of identifiers.
    names
        The columns of cell numbers.
    column
        That of the identifiers, of integers or texts.
    unit
        How many rows of a person are kept, and whether cells count once.
    strip
        Whether white space around identifiers is dropped.
    """
    outside = nw.any_horizontal(*(nw.col(name) < 0 for name in names), ignore_nulls=False)
    cells = [
        nw.when(outside).then(nw.lit(-1)).otherwise(nw.col(name)).cast(nw.Int64).alias(name)
        for name in names
    ]
    person = column_of(table, column)
    if not table.collect_schema()[column].is_integer():
        person = person.cast(nw.String)
        person = person.str.replace_all(_AROUND, "") if strip else person
        # Before anything is made of it, as null is in no list.
        there = ~person.is_null() & ~person.is_in(sorted(MISSING))
    else:
        there = ~person.is_null()
    rows = table.filter(there).select(*cells, person.alias(_PERSON))
    repeat = nw.col(_PERSON).cum_count().over(_PERSON, *names, order_by=list(names))
    rows = rows.with_columns(repeat.cast(nw.Int64).alias(_REPEAT))
    if unit.distinct:
        rows = rows.filter(nw.col(_REPEAT) == 1)
    rows = _keyed(rows, names)
    place = nw.col(_PERSON).cum_count().over(_PERSON, order_by=[_KEY, *names, _REPEAT])
    rows = rows.with_columns(place.cast(nw.Int64).alias(_PLACE))
    return rows.filter(nw.col(_PLACE) <= unit.max_rows).select(*names)


def _keyed(rows: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    powers = [pow(CELL_FACTOR, power, PRIME) for power in reversed(range(len(names) + 1))]
    key = nw.lit(powers[0]).cast(nw.Int64) + _sum(
        [
            (nw.col(name) + 1) % PRIME * power % PRIME
            for name, power in zip(names, powers[1:], strict=True)
        ]
    )
    salt = _salt(nw.col(_PERSON).cast(nw.String)) * PERSON_FACTOR % PRIME
    repeat = nw.col(_REPEAT) * REPEAT_FACTOR % PRIME
    # Step by step, since engines that are asked in SQL would write out each factor once a power.
    rows = rows.with_columns(((key + salt + repeat) % PRIME).alias(_KEY))
    square = "dpsdk_square"
    rows = rows.with_columns((nw.col(_KEY) * nw.col(_KEY) % PRIME).alias(square))
    fifth = nw.col(square) * nw.col(square) % PRIME * nw.col(_KEY) % PRIME
    return rows.with_columns(fifth.alias(_KEY)).drop(square)


def _salt(written: nw.Expr) -> nw.Expr:
    weight = 2 ** (BITS * (FIRST + LAST))
    terms = [(written.str.len_chars().cast(nw.Int64) % LENGTHS) * weight]
    for place in [*range(FIRST), *range(-LAST, 0)]:
        character = written.str.slice(place, 1)
        for bit in reversed(range(BITS)):
            weight //= 2
            having = [one for one in ALPHABET if ord(one) >> bit & 1]
            # Not every engine makes a number of a truth value.
            terms.append(chosen(character.is_in(having), weight, nw.lit(0)).cast(nw.Int64))
    return _sum(terms) % PRIME


def _sum(terms: Sequence[nw.Expr]) -> nw.Expr:
    """By halves, as some engines read only so many brackets within each other."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return _sum(terms[:middle]) + _sum(terms[middle:])


@frozen(eq=False, repr=False)
class Protected:
    """Whose rows are kept, and how many.

    Parameters
    ----------
    person
        What reads the column of identifiers.
    unit
        How many rows of a person are kept.
    whole
        Whether every row must lie inside the domain, whosever it is.
    """

    person: PersonMatcher
    unit: PrivacyUnit
    whole: bool


@frozen(eq=False, repr=False)
class Kept:
    """The rows that are kept: cell numbers of each, in their engine or as arrays. Private."""

    names: Sequence[str]
    """Of the attributes."""
    rows: nw.LazyFrame[Any] | Mapping[str, Ints]
    """Columns as `code_name` calls them, or arrays by the names of attributes."""
    backend: Any
    """The library of its eager frames."""

    def groups(self) -> tuple[Mapping[str, Ints], Floats]:
        """The distinct records, and how many rows each has."""
        if not isinstance(self.rows, nw.LazyFrame):
            return self.rows, np.ones(len(self.rows[self.names[0]]))
        codes = [code_name(place) for place in range(len(self.names))]
        frame, counts = counted(self.rows, codes)
        return {
            name: np.asarray(frame.get_column(code).to_numpy(), dtype=np.int64)
            for name, code in zip(self.names, codes, strict=True)
        }, counts

    def table(self) -> nw.LazyFrame[Any]:
        """The records as a table, one row each."""
        if isinstance(self.rows, nw.LazyFrame):
            return self.rows
        codes = {code_name(place): self.rows[name] for place, name in enumerate(self.names)}
        return nw.from_dict(codes, backend=self.backend).lazy()


def kept_of_persons(
    table: nw.LazyFrame[Any], keys: Sequence[Key], protected: Protected
) -> Kept | str:
    """The rows that are kept of a table, or what is wrong with it.

    The table is one that `opened` has returned for the columns of the keys and of persons.
    """
    own = _in_engine if stays_in_engine(table) else _here
    rows = own(table, keys, protected)
    if isinstance(rows, str):
        return rows
    known = table.implementation
    # What Ibis has read comes as tables of pyarrow.
    backend = nw.Implementation.PYARROW if known.is_ibis() else known
    return Kept([key.name for key in keys], rows, backend)


def _here(
    table: nw.LazyFrame[Any], keys: Sequence[Key], protected: Protected
) -> Mapping[str, Ints] | str:
    frame, person = table.collect(), protected.person
    column = series_as_column(frame.get_column(person.name))
    if problem := person.mismatch(column.kind):
        return problem
    codes = {key.name: key.codes(frame.get_column(key.name)) for key in keys}
    least = {name: int(code.min(initial=0)) for name, code in codes.items()}
    if protected.whole and (problem := _outside(least)):
        return problem
    return kept_codes(codes, person, persons_of(person, column), protected.unit)


def _in_engine(
    table: nw.LazyFrame[Any], keys: Sequence[Key], protected: Protected
) -> nw.LazyFrame[Any] | Mapping[str, Ints] | str:
    person = protected.person
    dtype = table.collect_schema()[person.name]
    if not isinstance(dtype, nw.String | nw.Categorical | nw.Enum) and not dtype.is_integer():
        return person.mismatch("values of an unknown type") or ""
    names = [code_name(place) for place in range(len(keys))]
    cells = coded(table, keys, [person.name])
    if protected.whole:
        lowest = cells.select(*(nw.col(name).min() for name in names)).collect()
        least = zip([key.name for key in keys], lowest.row(0), strict=True)
        if problem := _outside(dict(least)):
            return problem
    if compares_exactly(table):
        return bounded(cells, names, person.name, protected.unit, strip=person.strips)
    read = _numbered(cells.collect(), person)
    found = {
        name: np.asarray(read.get_column(name).to_numpy(), dtype=np.int64)
        for name in [*names, _PERSON]
    }
    codes = {key.name: found[name] for key, name in zip(keys, names, strict=True)}
    return kept_codes(codes, person, found[_PERSON], protected.unit)


def _numbered(frame: nw.DataFrame[Any], person: PersonMatcher) -> nw.DataFrame[Any]:
    """Cell numbers beside the number of the person, of whom each is looked at once."""
    backend = frame.implementation
    if not backend.is_polars():
        # Texts of these are listed by their library.
        numbers = persons_of(person, series_as_column(frame.get_column(person.name)))
        return frame.with_columns(nw.new_series(_PERSON, numbers, nw.Int64, backend=backend))
    frame = frame.rename({person.name: _WHO})
    people = frame.select(_WHO).unique()
    numbers = persons_of(person, series_as_column(people.get_column(_WHO)))
    people = people.with_columns(nw.new_series(_PERSON, numbers, nw.Int64, backend=backend))
    # In whichever order rows come back: nothing depends on it. Null is joined with nothing.
    return frame.join(people, on=_WHO, how="left").with_columns(nw.col(_PERSON).fill_null(-1))


def _outside(least: Mapping[str, int | None]) -> str | None:
    """What is wrong where the least cell number along an attribute is none."""
    for name, cell in least.items():
        if cell is not None and cell < 0:
            return f"a value of {name!r} is outside the domain"
    return None
