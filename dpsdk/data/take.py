"""From columns, files, frames and counts to private histograms.

All of it may raise while values are at hand, so it is called through `attempt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import cast

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
from dpsdk.data.texts import TextFormat
from dpsdk.data.values import plain
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.typing import Array, Floats, Ints

__all__ = ["read_codes", "take_columns", "take_counts", "take_file", "take_frame", "to_path"]


def to_path(path: str | PathLike[str]) -> str:
    """A path as a text."""
    try:
        text = fspath(path)
    except TypeError:
        raise InvalidArgument("path", "a path", shown(path)) from None
    if not isinstance(text, str):
        raise InvalidArgument("path", "a path that is a text", shown(path))
    return str.__str__(text)


def take_columns(
    columns: Mapping[str, Array | list[object]], declared: Declaration, texts: TextFormat
) -> Histogram:
    """One array of values for each attribute; their types are checked before a value is read."""
    source = "the columns"
    matchers = _matchers(declared, texts)
    found = [_column(source, columns, matcher) for matcher in matchers]
    return _encoded(source, found, matchers, declared)


def take_frame(
    frame: object,
    declared: Declaration,
    texts: TextFormat,
    source: str = "the frame",
    collect: Collect = "histogram",
) -> Counts:
    """The columns of a frame."""
    from dpsdk.data.engine.grouped import groups_of_frame  # noqa: PLC0415  # an extra

    matchers = _matchers(declared, texts)
    if own_collect(collect) == "marginals":
        return _pushed(source, frame, matchers, declared)
    found = groups_of_frame(frame, matchers)
    if isinstance(found, str):
        raise DataError(source, found)
    codes, counts = found
    _refuse_outside(source, codes, declared)
    return _inside(codes, declared.domain, counts)


def _pushed(
    source: str, frame: object, matchers: Sequence[Matcher], declared: Declaration
) -> Counts:
    from dpsdk.data.engine.pushed import pushed_of_frame  # noqa: PLC0415  # an extra

    pushed = pushed_of_frame(frame, matchers)
    if isinstance(pushed, str):
        raise DataError(source, pushed)
    if declared.outside == "raise" and pushed.outside:
        raise DataError(source, "a row is outside the domain")
    return pushed


def take_file(
    path: str, declared: Declaration, texts: TextFormat, delimiter: str, encoding: str
) -> Histogram:
    """The lines of a delimited text file."""
    wanted = FileFormat(
        delimiter, encoding, texts.strip, declared.limit, declared.outside == "raise"
    )
    codes = read_delimited(path, wanted, _matchers(declared, texts))
    return _inside(codes, declared.domain)


def take_counts(counts: object, outside_rows: object, declared: Declaration) -> Histogram:
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
    return Column(kind_of_array(values.dtype), values, missing)


def _encoded(
    source: str, columns: Sequence[Column], matchers: Sequence[Matcher], declared: Declaration
) -> Histogram:
    codes = _codes(source, columns, matchers)
    _refuse_outside(source, codes, declared)
    return _inside(codes, declared.domain)


def _refuse_outside(source: str, codes: Mapping[str, Ints], declared: Declaration) -> None:
    for name, code in codes.items():
        if declared.outside == "raise" and (code < 0).any():
            raise DataError(source, f"a value of {name!r} is outside the domain")


def _codes(source: str, columns: Sequence[Column], matchers: Sequence[Matcher]) -> dict[str, Ints]:
    for matcher, column in zip(matchers, columns, strict=True):
        if problem := matcher.mismatch(column.kind):
            raise DataError(source, problem)
    for matcher, column in zip(matchers, columns, strict=True):
        if len(column) != len(columns[0]):
            raise DataError(source, f"column {matcher.name!r} is not as long as the others")
    return {
        matcher.name: encode(matcher, column)
        for matcher, column in zip(matchers, columns, strict=True)
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
        return _codes(source, [_column(source, named, matcher) for matcher in matchers], matchers)
    require_narwhals()
    source, found = "the frame", frame_columns(columns, matchers)
    if isinstance(found, str):
        raise DataError(source, found)
    return _codes(source, found, matchers)


def _inside(codes: Mapping[str, Ints], domain: Domain, counts: Floats | None = None) -> Histogram:
    out = np.zeros(len(next(iter(codes.values()))), dtype=bool)
    for name, code in codes.items():
        # Also what another thread wrote into an array while it was read.
        out |= (code < 0) | (code >= domain[name].size)
    kept = {name: code[~out] for name, code in codes.items()}
    if counts is None:
        return Histogram(domain, kept, np.ones(int((~out).sum())), int(out.sum()))
    return Histogram(domain, kept, counts[~out], int(counts[out].sum()))
