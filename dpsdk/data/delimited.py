"""Delimited text files, read line by line: one line is one row.

The table is the sequence of the lines after the first one, and each is turned into cells by
itself. Tables are neighbours where one line differs, or where one has a line more.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import BinaryIO, TypeAlias, cast

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.data.encode import Known
from dpsdk.data.lines import LINE_LIMIT, decoded_lines, splitter, to_encoding
from dpsdk.data.matching import Matcher
from dpsdk.data.persons import PersonMatcher
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.typing import Ints

__all__ = ["FileFormat", "lone_field_hint", "read_delimited"]

_Fields: TypeAlias = Sequence[str]


def _to_delimiter(value: str) -> str:
    if not isinstance(value, str) or len(value) != 1 or value in '\r\n"':
        raise InvalidArgument("delimiter", "one character, and no quote", shown(value))
    return str.__str__(value)


@frozen
class FileFormat:
    """How a file is cut into fields.

    Parameters
    ----------
    delimiter
        The character between two fields.
    encoding
        That of the text.
    strip
        Whether white space around names, quotes and values is dropped.
    limit
        The most rows that are taken in, or None.
    complete
        Whether every row must lie inside the domain.
    """

    delimiter: str = field(converter=_to_delimiter)
    encoding: str = field(converter=to_encoding)
    strip: bool
    limit: int | None
    complete: bool


def read_delimited(path: str, wanted: FileFormat, matchers: Sequence[Matcher]) -> list[Ints]:
    """What each matcher makes of its column, line by line; -1 is outside, or nobody.

    Raises
    ------
    DataError
        If there is no such file, or it lacks a column, or what `wanted` says does not hold.
    """
    with _opened(path) as file:
        try:
            return _read(path, file, wanted, matchers)
        except (gzip.BadGzipFile, zlib.error, EOFError):
            raise DataError(path, "is not a whole gzip file") from None
        except OSError as error:
            raise DataError(path, f"cannot be read: {error.strerror}") from None


def _opened(path: str) -> BinaryIO:
    try:
        if path.endswith(".gz"):
            return cast("BinaryIO", gzip.open(path, "rb"))
        return open(path, "rb")  # noqa: PTH123
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise DataError(path, "cannot be opened") from None


def _read(path: str, file: BinaryIO, wanted: FileFormat, matchers: Sequence[Matcher]) -> list[Ints]:
    split = splitter(wanted.delimiter, strip=wanted.strip)
    blocks = decoded_lines(file, wanted.encoding)
    first, *lines = next(blocks, [""])
    titles = _titles(path, first, split, strip=wanted.strip)
    places = [_place(path, titles, matcher.name, strip=wanted.strip) for matcher in matchers]
    known = [_known(matcher) for matcher in matchers]
    codes: list[list[Ints]] = [[] for _ in matchers]
    rows = 0
    for block in chain([lines], blocks):
        rows += len(block)
        if wanted.limit is not None and rows > wanted.limit:
            reason = f"more than max_rows={wanted.limit} rows; declare a larger max_rows"
            raise DataError(path, reason)
        records = [_record(line, split, len(titles)) for line in block]
        short = any(len(record) != len(titles) for record in records)
        for matcher, place, numbers, parts in zip(matchers, places, known, codes, strict=True):
            part = _numbered(records, place, numbers, short=short)
            complete = wanted.complete and not isinstance(matcher, PersonMatcher)
            if complete and (part < 0).any():
                raise DataError(path, f"a value of {matcher.name!r} is outside the domain")
            parts.append(part)
    return [np.concatenate(parts) for parts in codes]


def _titles(
    path: str, line: str | None, split: Callable[[str], list[str] | None], *, strip: bool
) -> list[str]:
    if line is None:
        raise DataError(path, f"the first line is longer than {LINE_LIMIT:,} bytes")
    titles = split(line)
    if titles is None:
        raise DataError(path, "the first line has a quote that does not close")
    return [title.strip() for title in titles] if strip else titles


def _place(path: str, titles: Sequence[str], name: str, *, strip: bool) -> int:
    count = titles.count(name)
    if count > 1:
        raise DataError(path, f"the first line names column {name!r} {count} times")
    if count == 1:
        return titles.index(name)
    hint = lone_field_hint(titles)
    if not strip and name in [title.strip() for title in titles]:
        hint = "; there is one with spaces around it, which the option strip drops"
    raise DataError(path, f"no column {name!r} in the first line{hint}")


def lone_field_hint(titles: Sequence[str]) -> str:
    """What a first line of one field suggests where it does not name what was asked for."""
    if len(titles) > 1:
        return ""
    return "; that line is one field, so perhaps the delimiter or the encoding is another"


def _record(line: str | None, split: Callable[[str], list[str] | None], most: int) -> _Fields:
    """The fields of a line; none where it cannot be told which columns they belong to."""
    fields = None if line is None else split(line)
    return () if fields is None or len(fields) > most else fields


def _known(matcher: Matcher) -> dict[str | None, int]:
    if isinstance(matcher, PersonMatcher):
        return matcher.seen
    # A field that a line does not have is outside, whatever an empty one would be.
    return Known[str | None](lambda value: -1 if value is None else matcher.text(value))


def _numbered(
    records: Sequence[_Fields], place: int, known: dict[str | None, int], *, short: bool
) -> Ints:
    values: Sequence[str | None] = (
        [record[place] if place < len(record) else None for record in records]
        if short
        else list(map(itemgetter(place), records))
    )
    return np.fromiter(map(known.__getitem__, values), np.int64, len(values))
