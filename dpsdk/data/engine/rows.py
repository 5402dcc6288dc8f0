"""The rows of a table as cell numbers: all of them or those kept of persons, counted or held.

Rows of persons are kept by the rule of `dpsdk.data.persons`, row for row, written in what all
engines compute exactly: products of numbers below 2^31, remainders of numbers from 0 on, counts
along an order, and single characters of texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dpsdk._records import frozen
from dpsdk.data.engine.keys import Key, Values, codes_of, column_of_values
from dpsdk.data.engine.table import Table, column_of, columns_read
from dpsdk.data.engine.times import chosen
from dpsdk.data.frames import series_as_column
from dpsdk.data.histogram import tallied
from dpsdk.data.persons import (
    ALPHABET,
    BITS,
    CELL_FACTOR,
    FIRST,
    LAST,
    LENGTHS,
    PERSON_FACTOR,
    PRIME,
    REPEAT_FACTOR,
    WHITE_SPACE,
    PeriodCells,
    PersonMatcher,
    count_persons,
    kept_codes,
)
from dpsdk.data.texts import MISSING
from dpsdk.data.unit import PrivacyUnit
from dpsdk.errors import DataError
from dpsdk.typing import Floats, Ints

__all__ = [
    "FIRST_ROW",
    "Rows",
    "all_rows",
    "bounded",
    "code_name",
    "coded",
    "kept_rows",
    "packed",
    "packed_runs",
]

_PERSON, _PERIOD, _WHO, _SALT, _REPEAT, _KEY, _SQUARE, _PLACE, _COUNT = (
    f"dpsdk_{name}"
    for name in ("person", "period", "who", "salt", "repeat", "key", "square", "place", "rows")
)
FIRST_ROW = "dpsdk_first"
"""The column that is 1 in one row of each person whose rows are kept, and 0 in all others."""
_PACK_LIMIT = 2**62
"""Cells are packed into numbers below this, so that engines compare few columns."""
_AROUND = f"^[{WHITE_SPACE}]+|[{WHITE_SPACE}]+$"
"""The characters that `strip` drops. Not every engine trims a text of more than blanks."""


def code_name(place: int) -> str:
    """Return what the column of cell numbers of a key is called."""
    return f"dpsdk_{place}"


@frozen(eq=False, repr=False)
class Rows:
    """Cell numbers of rows along each attribute, in their engine or as arrays. Private."""

    names: Sequence[str]
    """Of the attributes."""
    codes: nw.LazyFrame[Any] | Mapping[str, Ints]
    """Columns as `code_name` calls them, or arrays by the names of attributes."""
    backend: Any
    """The library of eager frames."""
    persons: int | None
    """The number of persons; None where nobody is told apart, or `FIRST_ROW` counts them."""

    def groups(self) -> tuple[Mapping[str, Ints], Floats, int | None]:
        """Return the distinct records, outside ones among them, and how many rows each has.

        Several records may be of the same cell. Beside them, the number of persons if it is known.
        """
        if not isinstance(self.codes, nw.LazyFrame):
            return *tallied(self.codes), self.persons
        columns = [code_name(place) for place in range(len(self.names))]
        found, counts = _counted(self.codes, [*columns, FIRST_ROW])
        return (
            {
                name: codes_of(found[column])
                for name, column in zip(self.names, columns, strict=True)
            },
            counts,
            int(counts[codes_of(found[FIRST_ROW]) > 0].sum()),
        )

    def table(self) -> nw.LazyFrame[Any]:
        """Return columns dpsdk_0, dpsdk_1, ... of cell numbers, one row each; maybe `FIRST_ROW`."""
        if isinstance(self.codes, nw.LazyFrame):
            return self.codes
        codes = {code_name(place): self.codes[name] for place, name in enumerate(self.names)}
        return nw.from_dict(codes, backend=self.backend).lazy()


@frozen(eq=False, repr=False)
class _AllRows(Rows):
    """All rows of a table in an engine, which is scanned once to count them."""

    keys: Sequence[Key]
    source: Table

    def groups(self) -> tuple[Mapping[str, Ints], Floats, int | None]:
        columns = [code_name(place) for place in range(len(self.keys))]
        made = [key.expression.alias(name) for key, name in zip(self.keys, columns, strict=True)]
        found, counts = _counted(self.source.frame.select(*made), columns)
        return (
            {
                key.name: key.codes(found[name])
                for key, name in zip(self.keys, columns, strict=True)
            },
            counts,
            None,
        )

    def table(self) -> nw.LazyFrame[Any]:
        if all(key.listed for key in self.keys):
            return coded(self.source, self.keys)
        read = columns_read(_valued(self.source, self.keys))
        return Rows(self.names, _codes(self.keys, read), _backend(self.source), None).table()


def all_rows(table: Table, keys: Sequence[Key]) -> Rows:
    """Return every row of a table."""
    names = [key.name for key in keys]
    if table.in_engine:
        return _AllRows(names, {}, None, None, keys, table)
    frame = table.frame.collect()
    codes = {key.name: key.codes(frame.get_column(key.name)) for key in keys}
    return Rows(names, codes, frame.implementation, None)


def coded(table: Table, keys: Sequence[Key], keep: Sequence[str] = ()) -> nw.LazyFrame[Any]:
    """Return columns of cell numbers, one a key and -1 outside, beside those kept.

    For a key that is no cell number already, its distinct values are read and matched here, so a
    table is scanned twice. What a table that changes meanwhile holds in the second scan only
    is taken for a value that no attribute lists.
    """
    return _selected(table, [_cell(table, key) for key in keys], keep)


def _valued(table: Table, keys: Sequence[Key], keep: Sequence[str] = ()) -> nw.LazyFrame[Any]:
    """Return the values of each key, which become cell numbers once they have come back."""
    return _selected(table, [key.expression for key in keys], keep)


def _selected(
    table: Table, expressions: Sequence[nw.Expr], keep: Sequence[str]
) -> nw.LazyFrame[Any]:
    for name in keep:
        if name.casefold() in {code_name(place) for place in range(len(expressions))}:
            raise DataError(table.source, f"a column {name!r}, which is a name kept for cells")
    made = [one.alias(code_name(place)) for place, one in enumerate(expressions)]
    return table.frame.select(*made, *(table.column(name).alias(name) for name in keep))


def _codes(keys: Sequence[Key], read: Mapping[str, Values]) -> dict[str, Ints]:
    return {key.name: key.codes(read[code_name(place)]) for place, key in enumerate(keys)}


def _backend(table: Table) -> nw.Implementation:
    """Return the library of the frames that rows come in when they are read."""
    known = table.frame.implementation
    eager = known.is_polars() or known.is_pandas_like() or known.is_pyarrow()
    return known if eager else nw.Implementation.PYARROW


def _cell(table: Table, key: Key) -> nw.Expr:
    if key.direct:
        return key.expression
    name = code_name(0)
    found, _ = _counted(table.frame.select(key.expression.alias(name)), [name])
    values = found[name]
    listed: dict[int, list[object]] = {}
    items = values.to_list() if isinstance(values, nw.Series) else values
    for value, cell in zip(items, key.codes(values).tolist(), strict=True):
        if value is not None and cell != key.rest:
            listed.setdefault(cell, []).append(value)
    expression = nw.lit(key.rest)
    if listed:
        among = [value for some in listed.values() for value in some]
        within = _among(key.expression, listed, sorted(listed))
        expression = chosen(key.expression.is_in(among), within, expression)
    return chosen(~key.expression.is_null(), expression, nw.lit(key.gap))


def _among(column: nw.Expr, listed: Mapping[int, list[object]], cells: Sequence[int]) -> nw.Expr:
    """Return the cell that lists a value, found by halves."""
    if len(cells) == 1:
        return nw.lit(cells[0])
    middle = len(cells) // 2
    first = [value for cell in cells[:middle] for value in listed[cell]]
    rest = _among(column, listed, cells[middle:])
    return chosen(column.is_in(first), _among(column, listed, cells[:middle]), rest)


def _counted(frame: nw.LazyFrame[Any], names: Sequence[str]) -> tuple[Mapping[str, Values], Floats]:
    """Return the distinct rows of some columns, and how often each stands there."""
    found = columns_read(frame.group_by(*names).agg(nw.len().alias(_COUNT)))
    return found, codes_of(found[_COUNT]).astype(np.float64)


def kept_rows(
    table: Table,
    keys: Sequence[Key],
    person: PersonMatcher,
    unit: PrivacyUnit,
    periods: PeriodCells | None = None,
    *,
    complete: bool,
) -> Rows:
    """Return the rows that are kept of persons."""
    known, backend = table.frame.implementation, _backend(table)
    names = [key.name for key in keys]
    if not table.in_engine:
        frame = table.frame.collect()
        column = series_as_column(frame.get_column(person.name))
        if problem := person.mismatch(column.kind):
            raise DataError(table.source, problem)
        codes = {key.name: key.codes(frame.get_column(key.name)) for key in keys}
        if complete:
            _check_inside(table, {name: int(code.min(initial=0)) for name, code in codes.items()})
        whose = person.encode(column)
        persons = count_persons(whose)
        return Rows(names, kept_codes(codes, person, whose, unit, periods), backend, persons)
    dtype = table.schema[person.name]
    texts = isinstance(dtype, nw.String | nw.Categorical | nw.Enum)
    # In SQL, floats were declared as such.
    if not texts and not dtype.is_integer() and not (dtype.is_float() and known.is_polars()):
        held = "floats" if dtype.is_float() else "values of an unknown type"
        raise DataError(table.source, person.mismatch(held) or "")
    columns, sizes = [code_name(place) for place in range(len(keys))], [key.size for key in keys]
    listed = all(key.listed for key in keys)
    cells = (coded if listed else _valued)(table, keys, [person.name])
    if complete and listed:
        lowest = cells.select(*(nw.col(name).min() for name in columns)).collect()
        _check_inside(table, dict(zip(names, lowest.row(0), strict=True)))
    if table.compares_exactly and listed:
        if periods is not None:
            cells = _with_periods(cells, columns, names.index(periods.name), periods)
        kept = bounded(
            cells, columns, sizes, person.name, unit, strip=person.texts.strip,
            apart=periods is not None,
        )  # fmt: skip
        return Rows(names, kept, backend, None)
    if known.is_ibis() and dtype.is_integer() and not table.is_loose:
        # On its way through a frame, a column with a null would become one of floats.
        cells = cells.with_columns(nw.col(person.name).cast(nw.String))
    read = columns_read(cells)
    whose = person.encode(column_of_values(read[person.name]))
    if listed:
        found = {name: codes_of(read[column]) for name, column in zip(names, columns, strict=True)}
    else:
        found = _codes(keys, read)
    if complete and not listed:
        _check_inside(table, {name: int(code.min(initial=0)) for name, code in found.items()})
    persons = count_persons(whose)
    return Rows(names, kept_codes(found, person, whose, unit, periods), backend, persons)


def _with_periods(
    cells: nw.LazyFrame[Any], columns: Sequence[str], place: int, periods: PeriodCells
) -> nw.LazyFrame[Any]:
    """Return the rows inside the domain, each with the number of its period."""
    inside = nw.all_horizontal(*(nw.col(name) >= 0 for name in columns), ignore_nulls=False)
    cell = nw.col(columns[place]).cast(nw.Int64) + periods.shift
    number = cell // periods.units if periods.units > 1 else cell
    return cells.filter(inside).with_columns(number.alias(_PERIOD))


def _check_inside(table: Table, least: Mapping[str, int | None]) -> None:
    for name, cell in least.items():
        if cell is not None and cell < 0:
            raise DataError(table.source, f"a value of {name!r} is outside the domain")


def bounded(
    frame: nw.LazyFrame[Any],
    names: Sequence[str],
    sizes: Sequence[int],
    column: str,
    unit: PrivacyUnit,
    *,
    strip: bool = False,
    apart: bool = False,
) -> nw.LazyFrame[Any]:
    """Return the cell numbers of the rows that are kept; of a row that lies outside, all are -1.

    And `FIRST_ROW`. If `apart`, a person is bounded in each period of the frame by itself.
    """
    when = [_PERIOD] if apart else []
    outside = nw.any_horizontal(*(nw.col(name) < 0 for name in names), ignore_nulls=False)
    runs = packed_runs(sizes)
    packs = [f"dpsdk_run_{number}" for number in range(len(runs))]
    # A row outside has the number 0, whatever its cells.
    numbers = [
        nw.when(outside).then(nw.lit(0)).otherwise(packed(names[i:j], sizes[i:j]) + 1)
        .cast(nw.Int64).alias(pack)
        for (i, j), pack in zip(runs, packs, strict=True)
    ]  # fmt: skip
    person = column_of(frame, column)
    if frame.collect_schema()[column].is_integer():
        there = ~person.is_null()
    else:
        person = person.cast(nw.String)
        person = person.str.replace_all(_AROUND, "") if strip else person
        # Before anything is made of it, as null is in no list.
        there = ~person.is_null() & ~person.is_in(sorted(MISSING))
    key = chosen(outside, _cell_part(names, outside=True), _cell_part(names)).alias(_KEY)
    rows = frame.filter(there).select(*numbers, key, person.alias(_PERSON), *map(nw.col, when))
    # Nobody with so few rows can lose one, so there is nothing to choose.
    few = 1 if unit.distinct else unit.max_rows
    people = rows.group_by(_PERSON, *when).agg(nw.len().alias(_COUNT))
    rows = rows.join(_salted(people, few, when), on=[_PERSON, *when])
    repeat = nw.col(_WHO).cum_count().over(_WHO, *when, *packs, order_by=packs)
    rows = rows.with_columns(repeat.cast(nw.Int64).alias(_REPEAT))
    if unit.distinct:
        rows = rows.filter(nw.col(_REPEAT) == 1)
    # Step by step, since engines that are asked in SQL would write out each factor once a power.
    salt, again = nw.col(_SALT) * PERSON_FACTOR, nw.col(_REPEAT) * REPEAT_FACTOR
    base = (nw.col(_KEY) + salt % PRIME + again % PRIME) % PRIME
    rows = rows.with_columns(base.alias(_KEY))
    rows = rows.with_columns((nw.col(_KEY) * nw.col(_KEY) % PRIME).alias(_SQUARE))
    fifth = nw.col(_SQUARE) * nw.col(_SQUARE) % PRIME * nw.col(_KEY) % PRIME
    # Of rows that are alike, any may come first.
    place = nw.col(_WHO).cum_count().over(_WHO, *when, order_by=[_KEY, *packs])
    rows = rows.with_columns(fifth.alias(_KEY)).with_columns(place.cast(nw.Int64).alias(_PLACE))
    kept = rows.filter(nw.col(_PLACE) <= unit.max_rows)
    return kept.select(
        *(
            code.alias(name)
            for (i, j), pack in zip(runs, packs, strict=True)
            for name, code in zip(names[i:j], _unpacked(nw.col(pack), sizes[i:j]), strict=True)
        ),
        chosen(nw.col(_PLACE) == 1, nw.lit(1), nw.lit(0)).cast(nw.Int64).alias(FIRST_ROW),
    )


def packed_runs(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Cut attributes into runs of so few cells together that one number tells them apart."""
    runs: list[tuple[int, int]] = []
    start, cells = 0, 1
    for place, size in enumerate(sizes):
        if cells * size >= _PACK_LIMIT and place > start:
            runs.append((start, place))
            start, cells = place, 1
        cells *= size
    runs.append((start, len(sizes)))
    return runs


def packed(names: Sequence[str], sizes: Sequence[int]) -> nw.Expr:
    """Return the number of a cell along some attributes, of columns with their cell numbers."""
    number = nw.col(names[0]).cast(nw.Int64)
    for name, size in zip(names[1:], sizes[1:], strict=True):
        number = number * size + nw.col(name).cast(nw.Int64)
    return number


def _unpacked(number: nw.Expr, sizes: Sequence[int]) -> list[nw.Expr]:
    """Return the cell numbers of a number from 1 on; of 0, each is -1."""
    codes: list[nw.Expr] = []
    stride = prod(sizes)
    for size in sizes:
        stride //= size
        # No engine divides what is negative alike.
        code = (number - 1) // stride % size if stride > 1 else (number - 1) % size
        codes.append(nw.when(number > 0).then(code).otherwise(nw.lit(-1)).cast(nw.Int64))
    return codes


def _cell_part(names: Sequence[str], *, outside: bool = False) -> nw.Expr:
    powers = [pow(CELL_FACTOR, power, PRIME) for power in reversed(range(len(names) + 1))]
    terms = [
        (nw.col(name).cast(nw.Int64) + 1) % PRIME * power % PRIME
        for name, power in zip(names, powers[1:], strict=True)
    ]
    first = nw.lit(powers[0]).cast(nw.Int64)
    return first if outside else first + _sum(terms)


def _salted(people: nw.LazyFrame[Any], few: int, when: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return persons, or those of periods, and the number of each that has more rows than these."""
    if not people.implementation.is_duckdb():
        salt = chosen(nw.col(_COUNT) > few, _salt(nw.col(_PERSON).cast(nw.String)), nw.lit(0))
        return people.select(
            _PERSON, *when, nw.col(_PERSON).alias(_WHO), salt.cast(nw.Int64).alias(_SALT)
        )
    # The same in its own language, in which a list of characters need not be searched.
    text = f"CAST({_PERSON} AS VARCHAR)"
    code = f"CAST(length({text}) % {LENGTHS} AS BIGINT)"
    for place in [*range(1, FIRST + 1), *range(-LAST, 0)]:
        letter = f"ord(substr({text}, {place}, 1))"
        known = f"{letter} BETWEEN {ord(ALPHABET[0])} AND {ord(ALPHABET[-1])}"
        code = f"({code} * {2**BITS} + CASE WHEN {known} THEN {letter} & {2**BITS - 1} ELSE 0 END)"
    number = f"CASE WHEN {_COUNT} > {few} THEN {code} % {PRIME} ELSE 0 END"
    native: Any = people.to_native()
    known = ", ".join([_PERSON, *when])
    made: nw.LazyFrame[Any] = nw.from_native(
        native.project(f"{known}, row_number() OVER () AS {_WHO}, {number} AS {_SALT}")
    )
    return made


def _salt(written: nw.Expr) -> nw.Expr:
    weight = 2 ** (BITS * (FIRST + LAST))
    terms = [(written.str.len_chars().cast(nw.Int64) % LENGTHS) * weight]
    for place in [*range(FIRST), *range(-LAST, 0)]:
        weight //= 2**BITS
        character, digit = written.str.slice(place, 1), nw.lit(0)
        for value in range(1, 2**BITS):
            having = [one for one in ALPHABET if ord(one) % 2**BITS == value]
            digit = chosen(character.is_in(having), value * weight, digit)
        terms.append(digit.cast(nw.Int64))
    return _sum(terms) % PRIME


def _sum(terms: Sequence[nw.Expr]) -> nw.Expr:
    """Add by halves, as some engines read only so many brackets within each other."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return _sum(terms[:middle]) + _sum(terms[middle:])
