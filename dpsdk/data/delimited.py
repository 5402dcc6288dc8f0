"""Delimited text files, read line by line: one line is one row.

The table is the sequence of the lines after the first one, and each is turned into cells by
itself. Tables are neighbours where one line differs, or where one has a line more.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import BinaryIO, TypeAlias, cast

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.data.cut import Cut, cut, is_cut_by_bytes
from dpsdk.data.digits import cells_of, read_decimals
from dpsdk.data.encode import Known
from dpsdk.data.lines import LINE_LIMIT, decoded, splitter, to_encoding, whole_lines
from dpsdk.data.matching import Matcher
from dpsdk.data.persons import PersonMatcher
from dpsdk.data.seen import LONGEST, Seen, words_of
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.typing import Ints

__all__ = ["FileFormat", "lone_field_hint", "read_delimited"]

_Fields: TypeAlias = Sequence[str]

_SHORT = 2**11
"""Blocks of fewer bytes are cut line by line, which then takes less time."""

_TOLD = 2**16
"""So many rows lie between two numbers of rows that are told."""

_OUTSIDE: Ints = np.array([-1])
_NONE: Ints = np.zeros(0, dtype=np.int64)


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


def read_delimited(
    path: str, wanted: FileFormat, matchers: Sequence[Matcher], tell: Callable[[int], object]
) -> list[Ints]:
    """What each matcher makes of its column, line by line; -1 is outside, or nobody.

    `tell` is called with each number of rows that is a multiple of 2^16, once they were read. In
    between it is not: how many rows a block holds depends on what is in them.

    Raises
    ------
    DataError
        If there is no such file, or it lacks a column, or what `wanted` says does not hold.
    """
    with _opened(path) as file:
        try:
            return _read(path, file, wanted, matchers, tell)
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


def _read(
    path: str,
    file: BinaryIO,
    wanted: FileFormat,
    matchers: Sequence[Matcher],
    tell: Callable[[int], object],
) -> list[Ints]:
    split = splitter(wanted.delimiter, strip=wanted.strip)
    blocks, encoding = whole_lines(file, wanted.encoding)
    first, rest = _first_line(next(blocks, b""), encoding)
    titles = _titles(path, first, split, strip=wanted.strip)
    places = [_place(path, titles, matcher.name, strip=wanted.strip) for matcher in matchers]
    columns = [
        _FileColumn(matcher, place, encoding)
        for matcher, place in zip(matchers, places, strict=True)
    ]
    together = is_cut_by_bytes(wanted.delimiter, encoding)
    rows = told = 0
    for block in chain([rest] if rest else [], blocks):
        delimiter = wanted.delimiter if together and len(block or b"") >= _SHORT else None
        made = None if block is None else cut(block, delimiter, len(titles))
        rows += 1 if made is None else len(made.ends)
        if wanted.limit is not None and rows > wanted.limit:
            reason = f"more than max_rows={wanted.limit} rows; declare a larger max_rows"
            raise DataError(path, reason)
        records: list[_Fields] = []
        if made is not None:
            odd = (decoded(made.line(number), encoding) for number in made.others.tolist())
            records = [_record(line, split, len(titles)) for line in odd]
        for column in columns:
            part = _OUTSIDE if made is None else column.numbers(made, records)
            if wanted.complete and not column.persons and (part < 0).any():
                raise DataError(path, f"a value of {column.name!r} is outside the domain")
            column.parts.append(part)
        while rows - told >= _TOLD:
            told += _TOLD
            tell(told)
    return [np.concatenate([_NONE, *column.parts]) for column in columns]


def _first_line(block: bytes | None, encoding: str) -> tuple[str | None, bytes]:
    """The first line of a file, without a byte order mark, and the rest of the first block."""
    if block is None:
        return None, b""
    line, _, rest = block.partition(b"\n")
    text = decoded(line, encoding)
    return None if text is None else text.removeprefix("\ufeff"), rest


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


class _FileColumn:
    """The cell numbers of one column, block by block, and what is known of values met before."""

    def __init__(self, matcher: Matcher, place: int, encoding: str) -> None:
        self.name: str = matcher.name
        self.parts: list[Ints] = []
        self._place = place
        self._encoding = encoding
        self.persons: bool = isinstance(matcher, PersonMatcher)
        """Whether it says whose a row is, and not in which cell."""
        # A field that a line does not have is outside, whatever an empty one would be.
        self._known: Mapping[str | None, int] = (
            matcher.seen
            if isinstance(matcher, PersonMatcher)
            else Known[str | None](lambda text: -1 if text is None else matcher.text(text))
        )
        self._seen = Seen()
        self._cells = cells_of(matcher)

    def numbers(self, made: Cut, records: Sequence[_Fields]) -> Ints:
        """The cell number of each line of a block; `records` are its lines that are not regular."""
        codes = np.empty(len(made.ends), dtype=np.int64)
        codes[made.regular] = self._of_regular(made)
        if records:
            place = self._place
            values = [record[place] if place < len(record) else None for record in records]
            codes[made.others] = self._of_texts(values)
        return codes

    def _of_regular(self, made: Cut) -> Ints:
        starts, lengths = made.field(self._place)

        def read(places: Ints) -> Ints:
            return self._read(made, starts[places], lengths[places])

        if lengths.max(initial=0) <= LONGEST:
            return self._seen.numbers(words_of(made.buffer, starts, lengths), read)
        codes = np.empty(len(starts), dtype=np.int64)
        short, long = np.flatnonzero(lengths <= LONGEST), np.flatnonzero(lengths > LONGEST)
        words = words_of(made.buffer, starts[short], lengths[short])
        codes[short] = self._seen.numbers(words, lambda places: read(short[places]))
        codes[long] = read(long)
        return codes

    def _read(self, made: Cut, starts: Ints, lengths: Ints) -> Ints:
        """The cell numbers of some fields that were not met before."""
        if self._cells is None:
            return self._of_fields(made.block, starts, lengths)
        numbers = read_decimals(made.buffer, starts, lengths)
        codes, rest = self._cells(numbers), ~numbers.plain
        codes[rest] = self._of_fields(made.block, starts[rest], lengths[rest])
        return codes

    def _of_fields(self, block: bytes, starts: Ints, lengths: Ints) -> Ints:
        ends = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        encoding = self._encoding
        return self._of_texts([block[a:b].decode(encoding, "surrogateescape") for a, b in ends])

    def _of_texts(self, values: Sequence[str | None]) -> Ints:
        return np.fromiter(map(self._known.__getitem__, values), np.int64, len(values))
