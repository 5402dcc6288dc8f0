"""At most so many rows of each person, chosen inside the engine that holds the table.

The rule is that of `dpsdk.data.bounding`, row for row, written in what all engines compute exactly:
products of numbers below 2^31, remainders of numbers from 0 on, counts along an order, and single
characters of texts. So the same rows are kept wherever a table is.
"""

from __future__ import annotations

import sys
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
from dpsdk.data.engine.keys import Key, keys_of
from dpsdk.data.engine.pushed import Pushed, pushed_of_codes
from dpsdk.data.engine.table import UNREADABLE, column_of, opened, stays_in_engine
from dpsdk.data.frames import kind_of_dtype, series_as_column
from dpsdk.data.matching import MISSING, Matcher
from dpsdk.data.persons import WHITE_SPACE, PersonMatcher, kept_codes, persons_of
from dpsdk.data.unit import PrivacyUnit
from dpsdk.errors import DpsdkError
from dpsdk.typing import Floats, Ints

__all__ = ["bounded", "groups_of_persons", "pushed_of_persons"]

_PERSON, _REPEAT, _KEY, _PLACE, _ROWS = (
    f"dpsdk_{name}" for name in ("person", "repeat", "key", "place", "rows")
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
    key = nw.lit(1).cast(nw.Int64)
    for name in names:
        key = (key * CELL_FACTOR + (nw.col(name) + 1) % PRIME) % PRIME
    salt = _salt(nw.col(_PERSON).cast(nw.String)) * PERSON_FACTOR % PRIME
    repeat = nw.col(_REPEAT) * REPEAT_FACTOR % PRIME
    # Step by step, since engines that are asked in SQL would write out each factor once a power.
    rows = rows.with_columns(((key + salt + repeat) % PRIME).alias(_KEY))
    square = "dpsdk_square"
    rows = rows.with_columns((nw.col(_KEY) * nw.col(_KEY) % PRIME).alias(square))
    fifth = nw.col(square) * nw.col(square) % PRIME * nw.col(_KEY) % PRIME
    return rows.with_columns(fifth.alias(_KEY)).drop(square)


def _salt(written: nw.Expr) -> nw.Expr:
    salt = written.str.len_chars().cast(nw.Int64) % LENGTHS
    for place in [*range(FIRST), *range(-LAST, 0)]:
        character = written.str.slice(place, 1)
        for bit in reversed(range(BITS)):
            having = [one for one in ALPHABET if ord(one) >> bit & 1]
            salt = salt * 2 + character.is_in(having).cast(nw.Int64)
    return salt % PRIME


def groups_of_persons(
    frame: object,
    matchers: Sequence[Matcher],
    person: PersonMatcher,
    unit: PrivacyUnit,
    *,
    whole: bool,
) -> tuple[Mapping[str, Ints], Floats] | str:
    """The cells of the rows that are kept, and how many rows each has; or what is wrong.

    Of errors, only those of this package are raised, since others may quote values.

    Parameters
    ----------
    frame
        Of any library.
    matchers, person
        What reads its columns.
    unit
        How many rows of a person are kept.
    whole
        Whether every row must lie inside the domain, whosever it is.
    """
    try:
        kept = _kept(frame, matchers, person, unit, whole=whole)
        return kept if isinstance(kept, str) else kept.groups()
    except DpsdkError:
        raise
    except Exception:  # noqa: BLE001  # its text may quote values
        return UNREADABLE


def pushed_of_persons(
    frame: object,
    matchers: Sequence[Matcher],
    person: PersonMatcher,
    unit: PrivacyUnit,
    *,
    whole: bool,
) -> Pushed | str:
    """The same rows in a snapshot, for their engine to count when they are asked for.

    Raises
    ------
    InvalidArgument
        If the engine of the frame can hold no snapshot.
    """
    try:
        kept = _kept(frame, matchers, person, unit, whole=whole)
        return kept if isinstance(kept, str) else pushed_of_codes(kept.table(), matchers)
    except DpsdkError:
        raise
    except Exception:  # noqa: BLE001  # its text may quote values
        return UNREADABLE


@frozen(eq=False, repr=False)
class _Kept:
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
        counted = self.rows.group_by(*codes).agg(nw.len().alias(_ROWS)).collect()
        counts = np.asarray(counted.get_column(_ROWS).to_numpy(), dtype=np.float64)
        return {
            name: np.asarray(counted.get_column(code).to_numpy(), dtype=np.int64)
            for name, code in zip(self.names, codes, strict=True)
        }, counts

    def table(self) -> nw.LazyFrame[Any]:
        """The records as a table, one row each."""
        if isinstance(self.rows, nw.LazyFrame):
            return self.rows
        codes = {code_name(place): self.rows[name] for place, name in enumerate(self.names)}
        return nw.from_dict(codes, backend=self.backend).lazy()


def _kept(
    frame: object,
    matchers: Sequence[Matcher],
    person: PersonMatcher,
    unit: PrivacyUnit,
    *,
    whole: bool,
) -> _Kept | str:
    table = opened(frame, list({matcher.name: None for matcher in [*matchers, person]}))
    if isinstance(table, str):
        return table
    kind = kind_of_dtype(table.collect_schema()[person.name])
    if kind is not None and (problem := person.mismatch(kind)):
        return problem
    keys = keys_of(table, matchers)
    if isinstance(keys, str):
        return keys
    own = _in_engine if stays_in_engine(table) else _here
    rows = own(table, keys, person, unit, whole=whole)
    if isinstance(rows, str):
        return rows
    return _Kept([key.name for key in keys], rows, table.implementation)


def _here(
    table: nw.LazyFrame[Any],
    keys: Sequence[Key],
    person: PersonMatcher,
    unit: PrivacyUnit,
    *,
    whole: bool,
) -> Mapping[str, Ints] | str:
    frame = table.collect()
    column = series_as_column(frame.get_column(person.name))
    if problem := person.mismatch(column.kind):
        return problem
    codes = {key.name: key.codes(frame.get_column(key.name)) for key in keys}
    if whole and (problem := _outside({name: code.min(initial=0) for name, code in codes.items()})):
        return problem
    return kept_codes(codes, person, persons_of(person, column), unit)


def _in_engine(
    table: nw.LazyFrame[Any],
    keys: Sequence[Key],
    person: PersonMatcher,
    unit: PrivacyUnit,
    *,
    whole: bool,
) -> nw.LazyFrame[Any] | Mapping[str, Ints] | str:
    dtype = table.collect_schema()[person.name]
    if not isinstance(dtype, nw.String | nw.Categorical | nw.Enum) and not dtype.is_integer():
        return person.mismatch("values of an unknown type") or ""
    names = [code_name(place) for place in range(len(keys))]
    cells = coded(table, keys, [person.name])
    if whole:
        lowest = cells.select(*(nw.col(name).min() for name in names)).collect()
        least = zip([key.name for key in keys], lowest.row(0), strict=True)
        if problem := _outside(dict(least)):
            return problem
    if _counts_in_order(table):
        return bounded(cells, names, person.name, unit, strip=person.strips)
    read = cells.collect()
    codes = {
        key.name: np.asarray(read.get_column(name).to_numpy(), dtype=np.int64)
        for key, name in zip(keys, names, strict=True)
    }
    persons = persons_of(person, series_as_column(read.get_column(person.name)))
    return kept_codes(codes, person, persons, unit)


def _counts_in_order(table: nw.LazyFrame[Any]) -> bool:
    """Whether an engine counts rows along an order that it is given; some versions do not."""
    if not table.implementation.is_polars():
        return True
    written: str = sys.modules["polars"].__version__
    return tuple(map(int, written.split(".")[:2])) >= (1, 10)


def _outside(least: Mapping[str, int | None]) -> str | None:
    """What is wrong where the least cell number along an attribute is none."""
    for name, cell in least.items():
        if cell is not None and cell < 0:
            return f"a value of {name!r} is outside the domain"
    return None
