"""Thin readers: columns, files, frames and counts become private counts.

All of it may raise while values are at hand, so it is called through `attempt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TypeAlias, cast

import numpy as np

from dpsdk.data.columns import Column, array_column, kind_of_array, require_columns
from dpsdk.data.counts import Counts
from dpsdk.data.declaration import Declaration
from dpsdk.data.delimited import read_delimited
from dpsdk.data.frames import (
    is_of_library,
    kind_of_dtype,
    require_narwhals,
    series_as_column,
    series_column,
)
from dpsdk.data.guard import explained, hidden
from dpsdk.data.histogram import Histogram, narrow
from dpsdk.data.matcher import Matcher
from dpsdk.data.matching import make_matcher
from dpsdk.data.moments import moment_column
from dpsdk.data.parquet import parquet_frame
from dpsdk.data.persons import count_persons, kept_codes
from dpsdk.data.texts import TextFormat, plain
from dpsdk.domain import Attribute
from dpsdk.errors import DataError
from dpsdk.typing import Array, Bools, Floats, Ints

__all__ = [
    "Parameters",
    "as_column",
    "read_codes",
    "read_columns",
    "read_counts",
    "read_file",
    "read_frame",
    "read_parquet",
    "read_query",
]

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
"""Values for the placeholders of a query."""


def read_columns(
    declared: Declaration, source: str, columns: Mapping[str, Array | list[object]]
) -> Counts:
    """Read one array of values for each attribute."""
    matchers, person = declared.matchers(), declared.person()
    every: list[Matcher] = matchers if person is None else [*matchers, person]
    found = _matched(source, columns, every)
    pairs = zip(matchers, found, strict=False)
    codes = ((one.name, _required(declared, source, one, column)) for one, column in pairs)
    if person is None or declared.unit is None:
        return _histogram(declared, codes)
    whose = person.encode(found[-1])
    kept = kept_codes(dict(codes), person, whose, declared.unit, declared.period_cells)
    return _histogram(declared, kept.items(), persons=_persons(declared, whose))


def _persons(declared: Declaration, whose: Ints) -> int | None:
    """Return how many persons there are; with periods nobody is told who comes again."""
    return count_persons(whose) if declared.periods is None else None


def _required(declared: Declaration, source: str, matcher: Matcher, column: Column) -> Ints:
    code = matcher.encode(column)
    if declared.complete and (code < 0).any():
        raise DataError(source, f"a value of {matcher.name!r} is outside the domain")
    return code


def read_file(declared: Declaration, source: str) -> Counts:
    """Read the lines of a delimited text file."""
    matchers, person = declared.matchers(), declared.person()
    codes = read_delimited(
        source,
        declared.lines,
        matchers if person is None else [*matchers, person],
        # Of persons, only rows that are kept count against the limit.
        limit=declared.limit if person is None else None,
        complete=len(matchers) if declared.complete else 0,
        tell=declared.tell,
    )
    named = {matcher.name: code for matcher, code in zip(matchers, codes, strict=False)}
    if person is None or declared.unit is None:
        return _histogram(declared, named.items())
    persons = _persons(declared, codes[-1])
    named = kept_codes(named, person, codes[-1], declared.unit, declared.period_cells)
    return _histogram(declared, named.items(), persons=persons)


def read_parquet(declared: Declaration, source: str) -> Counts:
    """Read the columns of Parquet files."""
    require_narwhals()
    with explained(source):
        frame = parquet_frame(source, declared.columns)
    return read_frame(declared, source, frame)


def read_query(
    declared: Declaration, source: str, connection: object, query: str, given: Parameters | None
) -> Counts:
    """Read the columns of what a query gives."""
    require_narwhals()
    from dpsdk.data.sql import query_frame  # noqa: PLC0415  # loads a driver

    with ExitStack() as stack:
        with explained(source):
            frame = stack.enter_context(query_frame(connection, query, given))
        return read_frame(declared, source, frame)


def read_frame(declared: Declaration, source: str, frame: object) -> Counts:
    """Read the columns of a frame, in its engine where it has one."""
    require_narwhals()
    from dpsdk.data.engine.keys import group_keys  # noqa: PLC0415  # needs narwhals
    from dpsdk.data.engine.pushed import count_in_engine  # noqa: PLC0415  # needs narwhals
    from dpsdk.data.engine.rows import all_rows, kept_rows  # noqa: PLC0415  # needs narwhals
    from dpsdk.data.engine.table import open_table  # noqa: PLC0415  # needs narwhals

    matchers, person = declared.matchers(), declared.person()
    with explained(source):
        table = open_table(frame, declared.columns, source, whole=person is not None)
        if person is not None:
            kind = kind_of_dtype(table.schema[person.name])
            if kind is not None and (problem := person.mismatch(kind)):
                raise DataError(source, problem)
        keys = group_keys(table, matchers)
    with hidden(source):
        if person is None or declared.unit is None:
            rows = all_rows(table, keys)
        else:
            periods = declared.period_cells
            rows = kept_rows(
                table, keys, person, declared.unit, periods, complete=declared.complete
            )
        if declared.collect == "marginals":
            pushed = count_in_engine(rows, matchers, outside=declared.periods is None)
            if pushed.outside and not declared.has_outside:
                raise DataError(source, "a row is outside the domain")
            return pushed
        codes, counts, persons = rows.groups()
    if declared.periods is not None:
        persons = None
    for name, code in codes.items():
        if declared.complete and (code < 0).any():
            raise DataError(source, f"a value of {name!r} is outside the domain")
    return _histogram(declared, codes.items(), counts, persons)


def read_counts(
    declared: Declaration, source: str, counts: object, outside_rows: object
) -> Histogram:
    """Read the number of rows in each cell."""
    domain = declared.domain
    try:
        array = np.asarray(counts)
    except Exception:  # noqa: BLE001  # its text may quote values
        raise DataError(source, "not an array") from None
    if array.shape not in {domain.shape, (domain.size,)}:
        expected = f"{domain.shape} or ({domain.size},)"
        raise DataError(source, f"of shape {array.shape}, expected {expected}")
    others = plain(outside_rows)
    if not isinstance(others, int) or isinstance(others, bool) or others < 0:
        raise DataError(source, "outside_rows is not a whole number, zero or more")
    if others and not declared.has_outside:
        reason = "outside_rows, though every value has a cell; count these rows there"
        raise DataError(source, reason)
    if array.dtype.kind not in "biuf":
        raise DataError(source, "not whole numbers")
    with np.errstate(all="ignore"):
        flat: Floats = array.reshape(-1).astype(np.float64)
        whole = np.isfinite(flat).all() and (flat >= 0).all() and (flat == np.rint(flat)).all()
        total = flat.sum()
    if not whole:
        raise DataError(source, "not whole numbers, zero or more")
    if total >= 2.0**53 or int(total) + others >= 2**53:
        raise DataError(source, "too many rows to count exactly")
    cells = np.flatnonzero(flat)
    codes = np.unravel_index(cells, domain.shape)
    named = {name: code.astype(np.int64) for name, code in zip(domain.names, codes, strict=True)}
    return Histogram(domain, named, flat[cells], others)


def read_codes(
    columns: object, attributes: Sequence[Attribute], missing_texts: Sequence[str] = ()
) -> dict[str, Ints]:
    """Return the cell numbers of public values along some attributes, -1 for those outside."""
    texts = TextFormat(missing=missing_texts)
    matchers = [make_matcher(attribute, texts, clip=False) for attribute in attributes]
    if isinstance(columns, Mapping):
        named = cast("Mapping[str, Array | list[object]]", columns)
        found = _matched("the columns", named, matchers)
    else:
        require_narwhals()
        from dpsdk.data.engine.table import open_table  # noqa: PLC0415  # needs narwhals

        with hidden("the frame"):
            names = [matcher.name for matcher in matchers]
            frame = open_table(columns, names).frame.collect()
            found = [series_as_column(frame.get_column(name)) for name in names]
        _check("the frame", found, matchers)
    return {one.name: one.encode(column) for one, column in zip(matchers, found, strict=True)}


def _matched(
    source: str, columns: Mapping[str, Array | list[object]], matchers: Sequence[Matcher]
) -> list[Column]:
    """Return the column of each matcher, of a type that can match, all of one length."""
    try:
        held = [name for name in columns if isinstance(name, str)]
    except Exception:  # noqa: BLE001  # its text may quote values
        raise DataError(source, "its columns have no names that can be read") from None
    require_columns(source, held, [matcher.name for matcher in matchers])
    found = [as_column(source, columns, matcher.name) for matcher in matchers]
    _check(source, found, matchers)
    return found


def as_column(source: str, columns: Mapping[str, Array | list[object]], name: str) -> Column:
    """Return one of the columns that were handed in."""
    column: Column | None = None
    needed = False
    try:
        # All calls of methods that may be another author's are in here.
        given: object = columns[name]
        needed = is_of_library(given)
        column = _as_column(given)
    except Exception:  # noqa: BLE001  # its text may quote values
        column = None
    if needed:
        # Without it, the elements of some libraries are objects that match nothing.
        require_narwhals()
    if column is None:
        raise DataError(source, f"column {name!r} cannot be read as a sequence of values")
    if column.values.ndim != 1:
        raise DataError(source, f"column {name!r} is not one-dimensional")
    return column


def _as_column(given: object) -> Column:
    if not issubclass(type(given), list | tuple | range | np.ndarray):
        series = series_column(given)
        if series is not None:
            return series
    values, missing = array_column(given)
    if values.dtype.kind == "M":
        return moment_column(values, missing)
    # Lists keep each value as it is, and masked arrays a type that no gap can change.
    guessed = missing is None and issubclass(type(given), np.ndarray)
    return Column(kind_of_array(values.dtype), values, missing, guessed=guessed)


def _check(source: str, columns: Sequence[Column], matchers: Sequence[Matcher]) -> None:
    for matcher, column in zip(matchers, columns, strict=True):
        if problem := matcher.mismatch(column.kind):
            raise DataError(source, problem)
    for matcher, column in zip(matchers, columns, strict=True):
        if len(column) != len(columns[0]):
            raise DataError(source, f"column {matcher.name!r} is not as long as the others")


def _histogram(
    declared: Declaration,
    codes: Iterable[tuple[str, Ints]],
    counts: Floats | None = None,
    persons: int | None = None,
) -> Histogram:
    domain = declared.domain
    outside: list[Bools] = []
    inside: dict[str, Array] = {}
    # One after another, so that no two columns of wide numbers are held.
    for name, code in codes:
        outside.append(code < 0)
        inside[name] = narrow(code, domain[name].size)
        del code
    out = np.logical_or.reduce(outside)
    places = np.flatnonzero(~out)
    if len(places) < len(out) and not declared.has_outside and declared.periods is None:
        # Prices say that there is none.
        raise DataError("the table", "a row is outside the domain")
    inside = {name: code.take(places) for name, code in inside.items()}
    if counts is None:
        counts = np.ones(len(out))
    left = 0 if declared.periods is not None else int(counts[out].sum())
    return Histogram(domain, inside, counts[places], left, persons)
