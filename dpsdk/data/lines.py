"""The lines of a text file, and the fields of a line. What one line holds touches no other.

A line ends at a line feed; a carriage return before that belongs to the end, too. Bytes are cut
into lines before they are decoded, so that no byte, quote or escape of one reaches into the next.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument

__all__ = [
    "LINE_LIMIT",
    "decoded_lines",
    "is_cut_by_bytes",
    "splitter",
    "to_encoding",
    "whole_lines",
]

LINE_LIMIT = 2**20
"""A longer line, in bytes, is not read. It is one row outside the domain."""

_BLOCK = 2**19
_ESCAPES = {"unicode-escape", "raw-unicode-escape", "idna", "punycode"}
"""Spellings of other texts in ASCII, not encodings; reading them warns of what they meet."""

_WIDE = ("utf-16", "utf-16-le", "utf-16-be")
_BYTEWISE = ("utf-8", "ascii", "iso8859-", "cp125")


def to_encoding(encoding: str) -> str:
    """Return the name of an encoding in whose bytes the line feed can be found."""
    expected = "an encoding of text in which a line feed is the byte 10, or UTF-16"
    try:
        name = codecs.lookup(encoding).name
        feed = "\n".encode(name)
    except (LookupError, TypeError, ValueError):
        raise InvalidArgument("encoding", expected, shown(encoding)) from None
    if name == "utf-8-sig":
        return "utf-8"
    if name in _ESCAPES or (name not in _WIDE and feed != b"\n"):
        raise InvalidArgument("encoding", expected, shown(encoding))
    return name


def is_cut_by_bytes(encoding: str) -> bool:
    """Return whether ASCII bytes are ASCII characters everywhere in texts of an encoding."""
    return encoding.startswith(_BYTEWISE)


def mark_of(encoding: str) -> bytes:
    """Return a byte order mark in an encoding; nothing where it has none."""
    return "\ufeff".encode(encoding, "ignore")


def whole_lines(
    file: BinaryIO, encoding: str, *, named: bool = False
) -> tuple[Iterator[bytes | None], str]:
    """Return the lines of a file in order, many in a block, and the encoding of those blocks.

    A block holds whole lines; only the last one of a file may lack its end. If that is also empty,
    it is no line. None is a line too long to be kept. Unless columns are named already, nothing
    comes after a first line of that kind, since it would name them.
    """
    if encoding in _WIDE:
        return _blocks(_transcoded(file.read, encoding), first=not named), "utf-8"
    return _blocks(file.read, first=not named), encoding


def has_long_line(block: bytes) -> bool:
    """Return whether a line of a block is too long to be kept."""
    return len(block) > LINE_LIMIT and any(
        len(line) > LINE_LIMIT for line in block.removesuffix(b"\n").split(b"\n")
    )


def decoded_lines(block: bytes, encoding: str) -> list[str | None]:
    """Return the lines of a block as texts; None for those that are too long.

    A byte that cannot be decoded becomes a lone surrogate, which is no text to anybody.
    """
    block = block.removesuffix(b"\n")
    if is_cut_by_bytes(encoding) and len(block) <= LINE_LIMIT:
        texts = block.decode(encoding, "surrogateescape").split("\n")
        return [text.removesuffix("\r") for text in texts]
    return [_decoded(line, encoding) for line in block.split(b"\n")]


def _decoded(line: bytes, encoding: str) -> str | None:
    if len(line) > LINE_LIMIT:
        return None
    try:
        text = line.decode(encoding, "surrogateescape")
    except UnicodeError:
        # Some decoders give up where they should escape.
        text = line.decode("ascii", "surrogateescape")
    return text.removesuffix("\r")


def _blocks(read: Callable[[int], bytes], *, first: bool) -> Iterator[bytes | None]:
    rest, too_long = b"", False
    while block := read(_BLOCK):
        feed = block.find(b"\n")
        length = len(rest) + (len(block) if feed < 0 else feed)
        too_long = too_long or length > LINE_LIMIT
        if too_long and first:
            # Without names nothing is read, so the end of this line, if it has one, need not come.
            yield None
            return
        first = first and feed < 0
        if feed < 0:
            rest = b"" if too_long else rest + block
            continue
        after = block.rfind(b"\n") + 1
        if too_long:
            yield None
            whole = block[feed + 1 : after]
        else:
            whole = rest + block[:after]
        if whole:
            yield whole
        rest, too_long = block[after:], False
    if rest or too_long:
        yield None if too_long else rest


def _transcoded(read: Callable[[int], bytes], encoding: str) -> Callable[[int], bytes]:
    """Read UTF-16 as UTF-8. A lone surrogate stays what it is, and touches no other."""
    begun = b""
    if encoding == "utf-16":
        # Without a byte order mark, the smaller half comes first.
        begun = read(2)
        encoding = "utf-16-be" if begun == codecs.BOM_UTF16_BE else "utf-16-le"
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def read_on(size: int) -> bytes:
        nonlocal begun
        while block := begun + read(size):
            begun = b""
            # Empty means the end to those who read, so what is only begun is completed first.
            if text := decoder.decode(block):
                return text.encode("utf-8", "surrogatepass")
        return b""

    return read_on


def splitter(delimiter: str, *, strip: bool) -> Callable[[str], list[str] | None]:
    """Return a function from a line to its fields, or None where its quotes do not close.

    A field that begins with a double quote goes on to the next single one, and two of them in it
    stand for one; after it comes a delimiter or the end of the line. In other fields, a quote is a
    character like any other. With `strip`, white space may stand around the quotes.
    """
    other = re.escape(delimiter)
    space = f"[^\\S{other}]*+" if strip else ""
    quoted, plain = '"([^"]*+(?:""[^"]*+)*+)"', f"([^{other}]*+)"
    field = re.compile(f'(?:{space}{quoted}{space}|(?!{space}"){plain})({other}|\\Z)')

    def split(line: str) -> list[str] | None:
        if '"' not in line:
            return line.split(delimiter)
        fields: list[str] = []
        place = 0
        while found := field.match(line, place):
            inside, text, end = found.groups()
            fields.append(text if inside is None else inside.replace('""', '"'))
            if not end:
                return fields
            place = found.end()
        return None

    return split
