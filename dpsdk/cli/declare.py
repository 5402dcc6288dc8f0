"""What `python -m dpsdk domain` does: make the file of a domain, or say what is wrong with one."""

from __future__ import annotations

import gzip
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import BinaryIO, cast

from attrs import frozen

from dpsdk import Attribute, Binned, Boolean, Categorical, Date, Domain, Integer
from dpsdk._checks import read_decimal, read_whole, shown
from dpsdk.cli.contents import contents
from dpsdk.cli.words import printable
from dpsdk.codec import Codebook
from dpsdk.data.delimited import FileFormat, lone_field_hint
from dpsdk.data.lines import splitter
from dpsdk.domain.calendar import Unit
from dpsdk.domain.dates import END
from dpsdk.domain.product import decoded
from dpsdk.errors import DataError, DomainError, InvalidArgument, WireError

__all__ = ["Declared", "Header", "column_names", "declare", "described", "load"]

_HEADER_LIMIT = 2**20
"""The line that names the columns is no longer than this, in bytes."""


@frozen
class Declared:
    """One attribute as the command line declares it: its kind and the words that follow."""

    kind: str
    words: tuple[str, ...]


@frozen
class Header:
    """Where the names of a table's columns are read. Nothing after its first line is."""

    table: Path
    wanted: FileFormat


def load(path: Path, option: str = "--domain") -> Domain:
    """The domain of a file; an error names the file.

    Raises
    ------
    DomainError
        If the file is not a domain.
    InvalidArgument
        If it is no file on a disk, or too long; it names the option that has the path.
    OSError
        If it cannot be read.
    """
    read = contents(option, path)
    try:
        return Domain.from_json(decoded(read))
    except DomainError as error:
        message = f"{printable(path)}: {error}"
        raise DomainError(message) from None


def declare(attributes: Sequence[Declared]) -> Domain:
    """The domain that the command line declares, attribute by attribute.

    Raises
    ------
    InvalidArgument
        If a declaration lacks something, or is out of range.
    """
    made: list[Attribute] = []
    for declared in attributes:
        name, *words = declared.words
        if declared.kind == "other":
            made[-1:] = [_with_other(made[-1] if made else None, name)]
        else:
            made.append(_attribute(declared.kind, name, words))
    if not made:
        kinds = "--boolean, --integer, --binned, --date or --categorical"
        expected = f"declared by {kinds}, or read by --check"
        raise InvalidArgument("a domain", expected, "nothing")
    return Domain(*made)


def _attribute(kind: str, name: str, words: Sequence[str]) -> Attribute:
    try:
        if kind == "boolean":
            return Boolean(name)
        if kind == "integer":
            low, high = (_whole("bounds", word) for word in words)
            return Integer(name, low, high)
        if kind == "binned":
            return Binned(name, [_number("edges", word) for word in words])
        if kind == "date":
            return _date(name, words)
        return Categorical(name, words)
    except InvalidArgument as error:
        if error.parameter == "name":
            raise
        parameter = f"{error.parameter} of {shown(name)}"
        raise InvalidArgument(parameter, error.expected, error.got) from None


def _date(name: str, words: Sequence[str]) -> Date:
    if not 2 <= len(words) <= 4:
        expected = "the first and the last, then a unit and a zone if wanted"
        raise InvalidArgument("dates", expected, shown(list(words)))
    low, high = (_end(name, word) for name, word in zip(("low", "high"), words, strict=False))
    unit = words[2] if len(words) > 2 else "day"
    zone = words[3] if len(words) > 3 else None
    return Date(name, low, high, unit=cast("Unit", unit), zone=zone)


def _end(parameter: str, word: str) -> date:
    try:
        return END.read(word, parameter, Codebook())
    except WireError:
        expected = "a date such as 2024-01-31, or for hours a time such as 2024-01-31T23:00"
        raise InvalidArgument(parameter, expected, shown(word)) from None


def _with_other(last: Attribute | None, label: str) -> Categorical:
    if not isinstance(last, Categorical):
        raise InvalidArgument("--other", "given right after a --categorical", shown(label))
    return Categorical(last.name, last.values, other=label)


class _LoneReturn(Exception):
    """A carriage return ends the first line, without the line feed that lines end with."""


def _whole(parameter: str, text: str) -> int:
    number = read_whole(text)
    if number is None:
        raise InvalidArgument(parameter, "whole numbers", shown(text))
    return number


def _number(parameter: str, text: str) -> float:
    number = read_decimal(text)
    if number is None:
        raise InvalidArgument(parameter, "numbers", shown(text))
    return float(number)


def described(domain: Domain, header: Header | None) -> str:
    """What a domain declares, for people, held against the names of a table's columns.

    Raises
    ------
    DataError
        If the table lacks a declared column, or has it twice.
    """
    lines = [f"{len(domain.names)} attributes, {domain.size:,} cells"]
    width = max(map(len, domain.names))
    lines += [
        f"  {attribute.name:<{width}}  {attribute.kind:<11}  {_range(attribute)}"
        for attribute in domain.attributes
    ]
    if header is not None:
        lines.append(_held_against(domain, header))
    return "\n".join(map(printable, lines))


def _range(attribute: Attribute) -> str:
    if isinstance(attribute, Integer):
        return f"{attribute.low} to {attribute.high}"
    if isinstance(attribute, Date):
        place = "" if attribute.zone is None else f" in {attribute.zone}"
        units = f"{attribute.size:,} {attribute.unit}{'s' if attribute.size > 1 else ''}"
        written = attribute.to_json()
        return f"{written['low']} to {written['high']} in {units}{place}"
    if isinstance(attribute, Binned):
        bins = f"{attribute.size:,} bin{'s' if attribute.size > 1 else ''}"
        return f"{attribute.edges[0]:g} to {attribute.edges[-1]:g} in {bins}"
    labels = [shown(label) for label in attribute.labels[:6]]
    more = f", ... ({attribute.size:,} labels)" if attribute.size > len(labels) else ""
    return f"{', '.join(labels)}{more}"


def _held_against(domain: Domain, header: Header) -> str:
    source = printable(header.table)
    names = column_names(header)
    counts = Counter(names)
    missing = [shown(name) for name in domain.names if not counts[name]]
    twice = [shown(name) for name in domain.names if counts[name] > 1]
    wrong = [f"no column {', '.join(missing)} in the first line"] if missing else []
    wrong += [f"more than one column {', '.join(twice)}"] if twice else []
    if wrong:
        hint = lone_field_hint(names) if missing else ""
        raise DataError(source, f"{', and '.join(wrong)}{hint}")
    other = [shown(name) for name in counts if name not in domain.names]
    unused = f"; not declared: {', '.join(other[:12])}{', ...' if len(other) > 12 else ''}"
    return f"{source} has these columns{unused if other else ''}"


def column_names(header: Header) -> list[str]:
    """The names in the first line of a table; no row is read."""
    source = printable(header.table)
    opened = gzip.open if header.table.name.endswith(".gz") else open
    try:
        with opened(header.table, "rb") as file:
            line = _first_line(cast("BinaryIO", file), header.wanted.encoding)
    except (EOFError, gzip.BadGzipFile):
        raise DataError(source, "is not a whole gzip file") from None
    except _LoneReturn:
        raise DataError(source, "its lines end with a carriage return and no line feed") from None
    except ValueError:
        raise DataError(source, "its first line is not text in this encoding") from None
    strip = header.wanted.strip
    names = splitter(header.wanted.delimiter, strip=strip)(line)
    if names is None:
        raise DataError(source, "the first line has a quote that does not close")
    return [name.strip() for name in names] if strip else names


def _first_line(file: BinaryIO, encoding: str) -> str:
    """A line, decoded byte by byte: not even whether the next one is text makes a difference."""
    decoder = getincrementaldecoder(encoding)("surrogateescape")
    read: list[str] = []
    returned = False
    for _ in range(_HEADER_LIMIT):
        byte = file.read(1)
        text = decoder.decode(byte, final=not byte)
        if not byte or text == "\n":
            return "".join([*read, text]).rstrip("\r\n").removeprefix("\ufeff")
        if returned and text:
            raise _LoneReturn
        returned = returned or text == "\r"
        read.append(text)
    raise ValueError("a line too long to name columns")
