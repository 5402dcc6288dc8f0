"""From columns, files, frames and counts to private histograms.

All of it may raise while values are at hand, so it is called through `attempt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import PurePath
from typing import TypeAlias, cast

import numpy as np

from dpsdk._checks import shown
from dpsdk.data.columns import Column, array_column, kind_of_array
from dpsdk.data.counts import Counts
from dpsdk.data.declaration import Collect, Declaration, own_collect
from dpsdk.data.delimited import FileFormat, read_delimited
from dpsdk.data.encode import encode
from dpsdk.data.frames import frame_columns, is_of_library, require_narwhals, series_column
from dpsdk.data.histogram import Histogram
from dpsdk.data.matching import Matcher, matcher_of
from dpsdk.data.moments import moment_column
from dpsdk.data.persons import PersonMatcher, kept_codes, persons_of
from dpsdk.data.sources import Parameters, parquet_frame, query_frame
from dpsdk.data.texts import TextFormat
from dpsdk.data.values import plain
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.typing import Array, Floats, Ints

__all__ = [
    "read_codes",
    "take_columns",
    "take_counts",
    "take_file",
    "take_frame",
    "take_parquet",
    "take_query",
    "to_path",
]

Texts: TypeAlias = tuple[bool, str, str | None]
"""What a `TextFormat` is made of, not checked yet."""


def to_path(path: str | PathLike[str]) -> str:
    """A path as a text."""
    try:
        text = fspath(path)
    except TypeError:
        raise InvalidArgument("path", "a path", shown(path)) from None
    if not isinstance(text, str):
        raise InvalidArgument("path", "a path that is a text", shown(path))
    return str.__str__(text)


def titled(name: str, source: str) -> str:
    """What is shown of a table's name: of one that is a path, what the path ends with."""
    return PurePath(name).name or name if name == source else name


def take_columns(
    declared: Declaration, columns: Mapping[str, Array | list[object]], texts: Texts
) -> Histogram:
    """One array of values for each attribute; their types are checked before a value is read."""
    source, reading = "the columns", TextFormat(*texts)
    matchers, person = _matchers(declared, reading), _person(declared, reading)
    found = [_column(source, columns, matcher) for matcher in _all(matchers, person)]
    return _encoded(source, found, matchers, person, declared)


def take_parquet(declared: Declaration, path: str, texts: Texts, collect: Collect) -> Counts:
    """The columns of Parquet files."""
    require_narwhals()
    return _of_frame(path, declared, parquet_frame(path, declared.columns), texts, collect)


def take_query(
    declared: Declaration,
    asked: tuple[object, str, Parameters | None],
    texts: Texts,
    collect: Collect,
) -> Counts:
    """The columns of what a query gives: a connection, its text and its parameters."""
    require_narwhals()
    return _of_frame("the query", declared, query_frame(*asked), texts, collect)


def take_frame(declared: Declaration, frame: object, texts: Texts, collect: Collect) -> Counts:
    """The columns of a frame."""
    require_narwhals()
    return _of_frame("the frame", declared, frame, texts, collect)


def _of_frame(
    source: str, declared: Declaration, frame: object, texts: Texts, collect: Collect
) -> Counts:
    from dpsdk.data.engine.bounded import Protected  # noqa: PLC0415  # an extra
    from dpsdk.data.engine.records import (  # noqa: PLC0415  # an extra
        groups_of_frame,
        pushed_of_frame,
    )

    reading, whole = TextFormat(*texts), declared.outside == "raise"
    matchers, person = _matchers(declared, reading), _person(declared, reading)
    protected = (
        None if declared.unit is None or person is None else Protected(person, declared.unit, whole)
    )
    if own_collect(collect) == "marginals":
        pushed = pushed_of_frame(frame, matchers, protected)
        if isinstance(pushed, str):
            raise DataError(source, pushed)
        if whole and pushed.outside:
            raise DataError(source, "a row is outside the domain")
        return pushed
    found = groups_of_frame(frame, matchers, protected)
    if isinstance(found, str):
        raise DataError(source, found)
    codes, counts = found
    _refuse_outside(source, codes, declared)
    return _inside(codes, declared.domain, counts)


def take_file(
    declared: Declaration, path: str, texts: Texts, delimiter: str, encoding: str
) -> Histogram:
    """The lines of a delimited text file."""
    reading = TextFormat(*texts)
    matchers, person = _matchers(declared, reading), _person(declared, reading)
    # Of persons, only rows that are kept count against the limit.
    limit = declared.limit if person is None else None
    wanted = FileFormat(delimiter, encoding, reading.strip, limit, declared.outside == "raise")
    read = read_delimited(path, wanted, _all(matchers, person), declared.tell)
    codes = {matcher.name: code for matcher, code in zip(matchers, read, strict=False)}
    if declared.unit is not None and person is not None:
        codes = kept_codes(codes, person, read[-1], declared.unit)
    return _inside(codes, declared.domain)


def take_counts(declared: Declaration, counts: object, outside_rows: object) -> Histogram:
    """The number of rows in each cell."""
    source, domain = "the counts", declared.domain
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


def _person(declared: Declaration, texts: TextFormat) -> PersonMatcher | None:
    return None if declared.unit is None else PersonMatcher(declared.unit.column, texts)


def _all(matchers: Sequence[Matcher], person: PersonMatcher | None) -> Sequence[Matcher]:
    """What reads the columns of a table; the one of persons, where there is one, comes last."""
    return matchers if person is None else [*matchers, person]


def _matchers(declared: Declaration, texts: TextFormat) -> list[Matcher]:
    clip = declared.outside == "clip"
    return [matcher_of(attribute, texts, clip=clip) for attribute in declared.domain.attributes]


def _column(source: str, columns: Mapping[str, Array | list[object]], matcher: Matcher) -> Column:
    name = matcher.name
    problem, needed = f"column {name!r} cannot be read as a sequence of values", False
    column: Column | None = None
    try:
        # All calls of methods that may be another author's are in here.
        if name not in columns:
            problem = f"no column {name!r}"
        else:
            given = columns[name]
            needed = is_of_library(given)
            column = _as_column(given)
    except Exception:  # noqa: BLE001  # its text may quote values
        column = None
    if needed:
        # Without it, the elements of some libraries are objects that match nothing.
        require_narwhals()
    if column is None:
        raise DataError(source, problem)
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
    return Column(kind_of_array(values.dtype), values, missing)


def _encoded(
    source: str,
    columns: Sequence[Column],
    matchers: Sequence[Matcher],
    person: PersonMatcher | None,
    declared: Declaration,
) -> Histogram:
    _check_columns(source, columns, _all(matchers, person))
    codes = _codes(columns, matchers)
    _refuse_outside(source, codes, declared)
    if declared.unit is not None and person is not None:
        codes = kept_codes(codes, person, persons_of(person, columns[-1]), declared.unit)
    return _inside(codes, declared.domain)


def _refuse_outside(source: str, codes: Mapping[str, Ints], declared: Declaration) -> None:
    for name, code in codes.items():
        if declared.outside == "raise" and (code < 0).any():
            raise DataError(source, f"a value of {name!r} is outside the domain")


def _check_columns(source: str, columns: Sequence[Column], matchers: Sequence[Matcher]) -> None:
    for matcher, column in zip(matchers, columns, strict=True):
        if problem := matcher.mismatch(column.kind):
            raise DataError(source, problem)
    for matcher, column in zip(matchers, columns, strict=True):
        if len(column) != len(columns[0]):
            raise DataError(source, f"column {matcher.name!r} is not as long as the others")


def _codes(columns: Sequence[Column], matchers: Sequence[Matcher]) -> dict[str, Ints]:
    return {
        matcher.name: encode(matcher, column)
        for matcher, column in zip(matchers, columns, strict=False)
    }


def read_codes(columns: object, attributes: Sequence[Attribute]) -> dict[str, Ints]:
    """The cell numbers of public values along some attributes, -1 for those outside.

    Parameters
    ----------
    columns
        A mapping of names to arrays or lists, or a data frame; columns of other names are not read.
    attributes
        At least one. Values are read as a loader reads those of a table that is not clipped.

    Raises
    ------
    DataError
        If a column is missing, of a type that nothing can be read from, or of another length.
    MissingExtra
        For a frame, if narwhals is not installed.
    """
    matchers = [matcher_of(attribute, TextFormat(), clip=False) for attribute in attributes]
    if isinstance(columns, Mapping):
        source = "the columns"
        named = cast("Mapping[str, Array | list[object]]", columns)
        found: list[Column] | str = [_column(source, named, matcher) for matcher in matchers]
    else:
        require_narwhals()
        source, found = "the frame", frame_columns(columns, matchers)
    if isinstance(found, str):
        raise DataError(source, found)
    _check_columns(source, found, matchers)
    return _codes(found, matchers)


def _inside(codes: Mapping[str, Ints], domain: Domain, counts: Floats | None = None) -> Histogram:
    out = np.zeros(len(next(iter(codes.values()))), dtype=bool)
    for name, code in codes.items():
        # Also what another thread wrote into an array while it was read.
        out |= (code < 0) | (code >= domain[name].size)
    inside = {name: code[~out] for name, code in codes.items()}
    if counts is None:
        return Histogram(domain, inside, np.ones(int((~out).sum())), int(out.sum()))
    return Histogram(domain, inside, counts[~out], int(counts[out].sum()))
