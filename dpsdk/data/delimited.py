"""Delimited text files: every line after the first one is one row, and decides about no other."""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.data.columns import require_columns
from dpsdk.data.lines import (
    LINE_LIMIT,
    decoded_lines,
    has_long_line,
    is_cut_by_bytes,
    mark_of,
    splitter,
    to_encoding,
    whole_lines,
)
from dpsdk.data.matcher import Matcher
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.typing import Ints

__all__ = ["FileFormat", "column_titles", "lone_field_hint", "read_delimited"]

_Split: TypeAlias = Callable[[str], list[str] | None]

_TOLD = 2**16
"""So many rows lie between two numbers of rows that are told."""

_LONG = 2**16
"""Blocks of fewer bytes are not worth importing pyarrow."""

_RETURN, _FEED = b"\r", b"\n"


def _to_delimiter(value: str) -> str:
    if not isinstance(value, str) or len(value) != 1 or value in '\r\n"':
        raise InvalidArgument("delimiter", "one character, and no quote", shown(value))
    return str(value)


def _to_header(value: Sequence[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InvalidArgument("header", "the names of the columns, or None", shown(value))
    for name in value:
        if not isinstance(name, str):
            raise InvalidArgument("header", "names that are texts", shown(name))
    return tuple(map(str, value))


@frozen
class FileFormat:
    """How a file is cut into fields.

    Parameters
    ----------
    delimiter
        The character between two fields.
    encoding
        That of the text.
    header
        The names of the columns, where the first line is a row; else it names them.
    strip
        Whether white space around names, quotes and values is dropped.
    """

    delimiter: str = field(default=",", converter=_to_delimiter)
    encoding: str = field(default="utf-8", converter=to_encoding)
    header: tuple[str, ...] | None = field(default=None, converter=_to_header)
    strip: bool = field(default=False, kw_only=True)


def read_delimited(
    path: str,
    wanted: FileFormat,
    matchers: Sequence[Matcher],
    *,
    limit: int | None = None,
    complete: int = 0,
    tell: Callable[[int], object] = lambda _: None,
) -> list[Ints]:
    """Return what each matcher makes of its column, line by line; -1 is outside, or nobody."""
    with _read(path) as file:
        return _Table(path, file, wanted, matchers).read(limit, complete, tell)


def column_titles(path: str, wanted: FileFormat) -> tuple[str, ...]:
    """Return the names of all columns of a file."""
    if wanted.header is not None:
        return wanted.header
    with _read(path) as file:
        return tuple(_Table(path, file, wanted, ()).titles)


@contextmanager
def _read(path: str) -> Generator[BinaryIO]:
    try:
        with _opened(path) as file:
            yield file
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise DataError(path, "is not a whole gzip file") from None
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from None


def _opened(path: str) -> BinaryIO:
    try:
        if path.endswith(".gz"):
            return cast("BinaryIO", gzip.open(path, "rb"))
        return open(path, "rb")  # noqa: PTH123  # a path may be no path
    except ValueError:
        raise DataError(path, "cannot be opened") from None


class _Table:
    """An open file whose first line was read."""

    def __init__(
        self, path: str, file: BinaryIO, wanted: FileFormat, matchers: Sequence[Matcher]
    ) -> None:
        self._path, self._wanted, self._matchers = path, wanted, matchers
        self._split: _Split = splitter(wanted.delimiter, strip=wanted.strip)
        named = wanted.header is not None
        blocks, self._encoding = whole_lines(file, wanted.encoding, named=named)
        block = next(blocks, b"")
        if wanted.header is not None:
            titles, where = list(wanted.header), " in header="
            rest = None if block is None else block.removeprefix(mark_of(self._encoding))
        else:
            first, _, rest = (block or b"").partition(_FEED)
            line = None if block is None else decoded_lines(first, self._encoding)[0]
            titles = self._titles(line)
            where = f" in the first line{lone_field_hint(titles)}"
        self.titles: list[str] = titles
        self._fields = len(titles)
        names = [matcher.name for matcher in matchers]
        require_columns(path, titles, names, where, ", whose spaces the option strip drops")
        self._places = [titles.index(name) for name in names]
        # A field that a line does not have is missing, whatever an empty one would be.
        self._memos = [matcher.memo() for matcher in matchers]
        self._blocks = chain([] if rest == b"" else [rest], blocks)

    def _titles(self, line: str | None) -> list[str]:
        if line is None:
            reason = f"the first line is longer than {LINE_LIMIT:,} bytes"
            raise DataError(self._path, reason)
        titles = self._split(line.removeprefix("\ufeff"))
        if titles is None:
            raise DataError(self._path, "the first line has a quote that does not close")
        return [title.strip() for title in titles] if self._wanted.strip else titles

    def read(self, limit: int | None, complete: int, tell: Callable[[int], object]) -> list[Ints]:
        parts: list[list[Ints]] = [[] for _ in self._matchers]
        rows = told = 0
        for block in self._blocks:
            columns = self._columns(block)
            rows += len(columns[0])
            if limit is not None and rows > limit:
                reason = f"more than max_rows={limit} rows; declare a larger max_rows"
                raise DataError(self._path, reason)
            for matcher, column in zip(self._matchers[:complete], columns, strict=False):
                if (column < 0).any():
                    reason = f"a value of {matcher.name!r} is outside the domain"
                    raise DataError(self._path, reason)
            for part, column in zip(parts, columns, strict=True):
                part.append(column)
            while rows - told >= _TOLD:
                told += _TOLD
                tell(told)
        return [np.concatenate([np.zeros(0, dtype=np.int64), *part]) for part in parts]

    def _columns(self, block: bytes | None) -> list[Ints]:
        """Return the codes of the lines of a block; None is one line too long to be kept."""
        if block is None:
            return [np.array([matcher.broken]) for matcher in self._matchers]
        if len(block) >= _LONG and (columns := self._by_arrow(block)) is not None:
            return columns
        records = [
            self._record(line) for line in decoded_lines(block, self._encoding)
        ]  # fmt: skip
        columns = [
            np.fromiter(
                (memo[record[place] if place < len(record) else None] for record in records),
                np.int64,
                len(records),
            )
            for memo, place in zip(self._memos, self._places, strict=True)
        ]
        if broken := [place for place, record in enumerate(records) if not record]:
            for matcher, column in zip(self._matchers, columns, strict=True):
                column[broken] = matcher.broken
        return columns

    def _record(self, line: str | None) -> Sequence[str]:
        """Return the fields of a line; none where nobody knows which columns they belong to."""
        fields = None if line is None else self._split(line)
        return () if fields is None or len(fields) > self._fields else fields

    def _by_arrow(self, block: bytes) -> list[Ints] | None:
        """Return the same codes by pyarrow, if it is there and all lines are plain."""
        blank = (_FEED * 2, _FEED + _RETURN) if self._fields > 1 else ()
        if (
            not ("\0" < self._wanted.delimiter < "\x80" and is_cut_by_bytes(self._encoding))
            or block.startswith((_FEED, _RETURN, BOM_UTF8))
            or block.count(_RETURN) != block.count(_RETURN + _FEED)
            or any(odd in block for odd in (b'"', *blank))
            or has_long_line(block)
        ):
            return None
        try:
            import pyarrow  # noqa: ICN001, PLC0415  # an extra
            from pyarrow import csv  # noqa: PLC0415  # an extra

            arrow, reader = cast("Any", pyarrow), cast("Any", csv)
            names = [str(place) for place in range(self._fields)]
            if self._encoding != "utf-8":
                block = block.decode(self._encoding).encode()
            table = reader.read_csv(
                arrow.py_buffer(block),
                reader.ReadOptions(
                    column_names=names, block_size=len(block) + 1, use_threads=False
                ),
                reader.ParseOptions(
                    delimiter=self._wanted.delimiter, quote_char=False, ignore_empty_lines=False
                ),
                reader.ConvertOptions(
                    column_types=dict.fromkeys(names, arrow.string()),
                    include_columns=[str(place) for place in dict.fromkeys(self._places)],
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except Exception:  # noqa: BLE001  # whatever it was, the lines are read one by one
            return None
        if len(table) != block.count(_FEED) + (not block.endswith(_FEED)):
            return None
        codes: list[Ints] = []
        for matcher, memo, place in zip(self._matchers, self._memos, self._places, strict=True):
            column = table.column(str(place)).combine_chunks().dictionary_encode()
            chunk = column.chunk(0) if isinstance(column, arrow.ChunkedArray) else column
            known = _codes_of(matcher, memo, chunk.dictionary)
            codes.append(known[chunk.indices.to_numpy()])
        return codes


def _codes_of(matcher: Matcher, memo: Mapping[str | None, int], texts: Any) -> Ints:
    """Return the cells of an array of texts of pyarrow, whole numbers among them at once."""
    codes = np.empty(len(texts), dtype=np.int64)
    digits = np.zeros(len(texts), dtype=bool)
    if matcher.reads_digits:
        from pyarrow import compute  # noqa: PLC0415  # an extra

        found = cast("Any", compute).match_substring_regex(texts, r"\A-?[0-9]{1,18}\z")
        digits = np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)
        codes[digits] = matcher.typed(texts.filter(found).cast("int64").to_numpy())
        texts = texts.filter(cast("Any", compute).invert(found))
    codes[~digits] = [memo[text] for text in texts.to_pylist()]
    return codes


def lone_field_hint(titles: Sequence[str]) -> str:
    """Return what a first line of one field suggests where it does not name what was asked for."""
    if len(titles) > 1:
        return ""
    return "; that line is one field, so perhaps the delimiter or the encoding is another"
