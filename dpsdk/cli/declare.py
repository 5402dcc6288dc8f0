"""The command `domain`: make the file of a domain, or say what is wrong with one."""

from __future__ import annotations

import gzip
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from dpsdk import Attribute, Binned, Boolean, Categorical, Date, Domain, Integer, Number
from dpsdk._checks import read_decimal, read_whole, shown
from dpsdk._records import frozen
from dpsdk.cli.files import contents
from dpsdk.cli.words import printable
from dpsdk.codec import Codebook
from dpsdk.data.delimited import FileFormat, lone_field_hint
from dpsdk.data.lines import splitter
from dpsdk.domain.calendar import Unit
from dpsdk.domain.dates import END
from dpsdk.domain.product import decoded
from dpsdk.errors import DataError, DomainError, InvalidArgument, WireError

__all__ = [
    "Declared",
    "column_names",
    "declare",
    "described",
    "domain_of",
    "foreign_domain",
    "load",
]

N = TypeVar("N")

_HEADER_LIMIT = 2**20
"""The line that names the columns is no longer than this, in bytes."""


@frozen
class Declared:
    """One attribute as the command line declares it: its kind and the words that follow."""

    kind: str
    words: tuple[str, ...]


def load(path: Path, option: str = "--domain") -> Domain:
    """Return the domain of a file; an error names the file, or the option that has its path."""
    read = contents(option, path)
    try:
        return Domain.from_json(decoded(read))
    except DomainError as error:
        message = f"{printable(path)}: {error}"
        raise DomainError(message) from None


def declare(attributes: Sequence[Declared]) -> list[Attribute]:
    """Return the attributes that the command line declares, in their order."""
    made: list[Attribute] = []
    for declared in attributes:
        name, *words = declared.words
        if declared.kind == "other":
            made[-1:] = [_with_other(made[-1] if made else None, name)]
        else:
            made.append(_attribute(declared.kind, name, words))
    return made


def domain_of(attributes: Sequence[Attribute]) -> Domain:
    """Return the domain of what is declared."""
    if not attributes:
        kinds = "--boolean, --integer, --binned, --number, --date or --categorical"
        expected = f"declared by {kinds}, or read by --check or --from"
        raise InvalidArgument("a domain", expected, "nothing")
    return Domain(*attributes)


def foreign_domain(
    source: Sequence[str],
    attributes: Sequence[Attribute],
    steps: Sequence[tuple[str, str]] | None,
    left: Sequence[str] | None,
) -> Domain:
    """Return the domain that metadata of others declare, with what the command line says of it."""
    path, *table = source
    if len(table) > 1:
        raise InvalidArgument("--from", "a file, and a table's name if wanted", shown(table[1:]))
    try:
        return Domain.from_metadata(
            Path(path),
            table=table[0] if table else None,
            attributes=attributes,
            step=dict(steps or ()),
            # Without a name, all of which the metadata say too little.
            leave_out=left or left is not None,
        )
    except InvalidArgument as error:
        named = {"attributes": "a declaration", "table": "the table of --from"}
        name, bracket, column = error.parameter.partition("[")
        option = named.get(name, f"--{name.replace('_', '-')}")
        raise InvalidArgument(f"{option}{bracket}{column}", error.expected, error.got) from None
    except DomainError as error:
        message = str(error)
        for parameter, words in _OPTIONS.items():
            message = message.replace(parameter, words)
        raise DomainError(message) from None


_OPTIONS = {
    "(step=)": "(--step)",
    "in attributes=": "by options such as --integer",
    "in leave_out=": "in --leave-out",
}


def _attribute(kind: str, name: str, words: Sequence[str]) -> Attribute:
    try:
        if kind == "boolean":
            return Boolean(name)
        if kind == "integer":
            low, high = (_number("bounds", "whole numbers", read_whole, word) for word in words)
            return Integer(name, low, high)
        if kind == "binned":
            edges = [_number("edges", "numbers", read_decimal, word) for word in words]
            return Binned(name, list(map(float, edges)))
        if kind == "number":
            return _on_grid(name, words)
        if kind == "date":
            return _date(name, words)
        return Categorical(name, words)
    except InvalidArgument as error:
        if error.parameter == "name":
            raise
        parameter = f"{error.parameter} of {shown(name)}"
        raise InvalidArgument(parameter, error.expected, error.got) from None


def _on_grid(name: str, words: Sequence[str]) -> Number:
    if not 2 <= len(words) <= 3:
        expected = "the lowest and the highest, then a step if it is not 1"
        raise InvalidArgument("numbers", expected, shown(list(words)))
    return Number(name, *[_number("numbers", "numbers", read_decimal, word) for word in words])


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


def _number(parameter: str, expected: str, read: Callable[[str], N | None], text: str) -> N:
    number = read(text)
    if number is None:
        raise InvalidArgument(parameter, expected, shown(text))
    return number


def _with_other(last: Attribute | None, label: str) -> Categorical:
    if not isinstance(last, Categorical):
        raise InvalidArgument("--other", "given right after a --categorical", shown(label))
    if label not in last.values:
        raise InvalidArgument("other", "one of the labels", shown(label))
    return Categorical(last.name, last.values, other=label)


def described(domain: Domain, table: Path | None, wanted: FileFormat) -> str:
    """Tell people what a domain declares, held against the columns of a table if there is one."""
    lines = [f"{len(domain.names)} attributes, {domain.size:,} cells"]
    width = max(map(len, domain.names))
    lines += [
        f"  {attribute.name:<{width}}  {attribute.kind:<11}  {_range(attribute)}"
        for attribute in domain.attributes
    ]
    if table is not None:
        lines.append(_held_against(domain, table, wanted))
    return "\n".join(map(printable, lines))


def _range(attribute: Attribute) -> str:
    extras = [extra.value for extra in attribute.extras]
    return ", and ".join([_known_range(attribute), *extras])


def _known_range(attribute: Attribute) -> str:
    if isinstance(attribute, Integer):
        return f"{attribute.low} to {attribute.high}"
    if isinstance(attribute, Number):
        ends = f"{attribute.text(0)} to {attribute.text(attribute.known - 1)}"
        exactly = ", exactly" if attribute.exact else ""
        return f"{ends} in steps of {attribute.to_json()['step']}{exactly}"
    if isinstance(attribute, Date):
        place = "" if attribute.zone is None else f" in {attribute.zone}"
        units = f"{attribute.known:,} {attribute.unit}{'s' if attribute.known > 1 else ''}"
        written = attribute.to_json()
        return f"{written['low']} to {written['high']} in {units}{place}"
    if isinstance(attribute, Binned):
        bins = f"{attribute.known:,} bin{'s' if attribute.known > 1 else ''}"
        return f"{attribute.edges[0]:g} to {attribute.edges[-1]:g} in {bins}"
    labels = [shown(attribute.label(cell)) for cell in range(min(attribute.known, 6))]
    more = f", ... ({attribute.known:,} labels)" if attribute.known > len(labels) else ""
    return f"{', '.join(labels)}{more}"


def _held_against(domain: Domain, table: Path, wanted: FileFormat) -> str:
    source, names = printable(table), column_names(table, wanted)
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


class _LoneReturn(Exception):
    """A carriage return ends the first line, without the line feed that lines end with."""


def column_names(table: Path, wanted: FileFormat) -> list[str]:
    """Return the names in the first line of a table; no row is read."""
    source = printable(table)
    opened = gzip.open if table.name.endswith(".gz") else open
    try:
        with opened(table, "rb") as file:
            line = _first_line(cast("BinaryIO", file), wanted.encoding)
    except (EOFError, gzip.BadGzipFile):
        raise DataError(source, "is not a whole gzip file") from None
    except _LoneReturn:
        raise DataError(source, "its lines end with a carriage return and no line feed") from None
    except ValueError:
        raise DataError(source, "its first line is not text in this encoding") from None
    names = splitter(wanted.delimiter, strip=wanted.strip)(line)
    if names is None:
        raise DataError(source, "the first line has a quote that does not close")
    return [name.strip() for name in names] if wanted.strip else names


def _first_line(file: BinaryIO, encoding: str) -> str:
    """Decode a line byte by byte: not even whether the next one is text makes a difference."""
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
