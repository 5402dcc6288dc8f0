"""What `python -m dpsdk domain` does: make the file of a domain, or say what is wrong with one."""

from __future__ import annotations

import csv
import gzip
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from attrs import frozen

from dpsdk import Attribute, Binned, Boolean, Categorical, Domain, Integer
from dpsdk._checks import read_decimal, read_whole, shown
from dpsdk.cli.words import printable
from dpsdk.errors import DataError, DomainError, InvalidArgument

__all__ = ["Declared", "Header", "declare", "described", "load"]

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
    encoding: str = "utf-8"
    delimiter: str = ","


def load(path: Path) -> Domain:
    """The domain of a file; an error names the file.

    Raises
    ------
    DomainError
        If the file is not a domain.
    """
    try:
        return Domain.load(path)
    except DomainError as error:
        message = f"{printable(path)}: {error}"
        raise DomainError(message) from None
    except UnicodeDecodeError:
        message = f"{printable(path)}: not text in utf-8"
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
        elif declared.kind == "boolean":
            made.append(Boolean(name))
        elif declared.kind == "integer":
            low, high = (_whole(f"the bounds of {name!r}", word) for word in words)
            made.append(Integer(name, low, high))
        elif declared.kind == "binned":
            made.append(Binned(name, [_number(f"the edges of {name!r}", word) for word in words]))
        else:
            made.append(Categorical(name, words))
    if not made:
        expected = "declared by --boolean, --integer, --binned or --categorical, or read by --check"
        raise InvalidArgument("a domain", expected, "nothing")
    return Domain(*made)


def _with_other(last: Attribute | None, label: str) -> Categorical:
    if not isinstance(last, Categorical):
        raise InvalidArgument("--other", "given right after a --categorical", shown(label))
    return Categorical(last.name, last.values, other=label)


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
    if isinstance(attribute, Binned):
        bins = f"{attribute.size:,} bin{'s' if attribute.size > 1 else ''}"
        return f"{attribute.edges[0]:g} to {attribute.edges[-1]:g} in {bins}"
    labels = [shown(label) for label in attribute.labels[:6]]
    more = f", ... ({attribute.size:,} labels)" if attribute.size > len(labels) else ""
    return f"{', '.join(labels)}{more}"


def _held_against(domain: Domain, header: Header) -> str:
    source = printable(header.table)
    counts = Counter(_columns(header))
    missing = [shown(name) for name in domain.names if not counts[name]]
    twice = [shown(name) for name in domain.names if counts[name] > 1]
    wrong = [f"no column {', '.join(missing)}"] if missing else []
    wrong += [f"more than one column {', '.join(twice)}"] if twice else []
    if wrong:
        raise DataError(source, " and ".join(wrong))
    other = [shown(name) for name in counts if name not in domain.names]
    unused = f"; not declared: {', '.join(other[:12])}{', ...' if len(other) > 12 else ''}"
    return f"{source} has these columns{unused if other else ''}"


def _columns(header: Header) -> list[str]:
    """The names in the first line of a table; no row is read."""
    source = printable(header.table)
    opened = gzip.open if header.table.name.endswith(".gz") else open
    try:
        with opened(header.table, "rb") as file:
            line = _first_line(cast("BinaryIO", file), header.encoding)
        (names,) = csv.reader([line], delimiter=header.delimiter, strict=True)
    except TypeError:
        raise InvalidArgument("--delimiter", "one character", shown(header.delimiter)) from None
    except (UnicodeError, csv.Error, EOFError, gzip.BadGzipFile, ValueError):
        raise DataError(source, "its first line is not one of names in this encoding") from None
    return [name.strip() for name in names]


def _first_line(file: BinaryIO, encoding: str) -> str:
    """A line, decoded byte by byte: not even whether the next one is text makes a difference."""
    decoder = getincrementaldecoder(encoding)()
    read: list[str] = []
    for _ in range(_HEADER_LIMIT):
        byte = file.read(1)
        text = decoder.decode(byte, final=not byte)
        if not byte or text in {"\r", "\n"}:
            return "".join([*read, text]).strip("\r\n").removeprefix("\ufeff")
        read.append(text)
    raise ValueError("a line too long to name columns")
