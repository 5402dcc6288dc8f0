"""The fields of many lines at once, of those lines that are cut by counting alone.

A line is regular if it has as many delimiters as the first one of its file, no zero, no quotes but
such as are the first and the last byte of a field and the only two in it, and is no longer than a
line may be. Whether it is, and where its fields end, follows from its own bytes: what one line
holds reaches into no other here either. All other lines are left to those who cut them one by one.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from dpsdk.data import lines
from dpsdk.data.seen import LONGEST
from dpsdk.typing import Array, Bools, Ints

__all__ = ["Cut", "cut", "is_cut_by_bytes"]

_FEED, _RETURN, _QUOTE = 10, 13, 34
_OF_BYTES = ("iso8859-", "cp125")


def is_cut_by_bytes(delimiter: str, encoding: str) -> bool:
    """Whether a delimiter is one byte, and that byte nothing else, in texts of an encoding.

    Then the fields of a line, each decoded by itself, are those of the decoded line.
    """
    plain = encoding in {"utf-8", "ascii"} or encoding.startswith(_OF_BYTES)
    return plain and "\0" < delimiter < "\x80"


@frozen(eq=False, repr=False)
class Cut:
    """The lines of a block, the regular ones cut into fields. Private: has no repr."""

    block: bytes
    buffer: Array
    """The bytes of the block, and some more."""
    starts: Ints
    """Where each line starts."""
    ends: Ints
    """Where each line has its line feed."""
    regular: Ints
    """The numbers of the lines that are cut."""
    others: Ints
    """The numbers of all other lines."""
    _delimiters: Ints
    _first: Ints
    """The number of the first delimiter of each regular line."""
    _fields: int
    _quoted: bool
    """Whether fields may stand between quotes."""

    def line(self, number: int) -> bytes:
        """A line without its line feed."""
        return self.block[self.starts[number] : self.ends[number]]

    def field(self, place: int) -> tuple[Ints, Ints]:
        """Where a field starts, and its length, of each regular line."""
        if place == 0:
            starts = self.starts[self.regular]
        else:
            starts = self._delimiters[self._first + (place - 1)] + 1
        if place < self._fields - 1:
            stops = self._delimiters[self._first + place]
        else:
            stops = self.ends[self.regular]
            # A line that is empty has the end of another before it, or the end of the buffer.
            stops = stops - ((self.buffer[stops - 1] == _RETURN) & (stops > starts))
        if self._quoted:
            # Where a field is empty, what stands in its place ends it, and is no quote.
            between = self.buffer[starts] == _QUOTE
            starts, stops = starts + between, stops - between
        return starts, stops - starts


def cut(block: bytes, delimiter: str | None, fields: int) -> Cut:
    """Cut a block of whole lines. Where no delimiter is given, no line is regular."""
    size = len(block)
    buffer = np.zeros(size + LONGEST, dtype=np.uint8)
    held = buffer[:size]
    held[:] = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(held == _FEED)
    if not block.endswith(b"\n"):
        ends = np.append(ends, size)
    starts = np.concatenate(([0], ends[:-1] + 1))
    if delimiter is None:
        all_lines, none = np.arange(len(ends)), np.zeros(0, dtype=np.int64)
        return Cut(block, buffer, starts, ends, none, all_lines, none, none, fields, False)
    delimiters = np.flatnonzero(held == ord(delimiter))
    before = np.searchsorted(delimiters, ends)
    first = np.concatenate(([0], before[:-1]))
    is_regular = (before - first == fields - 1) & (ends - starts <= lines.LINE_LIMIT)
    if b"\0" in block:
        is_regular[np.searchsorted(ends, np.flatnonzero(held == 0))] = False
    if quoted := b'"' in block:
        is_regular[np.searchsorted(ends, _odd_quotes(buffer, size, ord(delimiter)))] = False
    regular, others = np.flatnonzero(is_regular), np.flatnonzero(~is_regular)
    first = first[regular]
    return Cut(block, buffer, starts, ends, regular, others, delimiters, first, fields, quoted)


def _odd_quotes(buffer: Array, size: int, delimiter: int) -> Ints:
    """Where quotes are that are no pair around all else of a field."""
    held = buffer[:size]
    marks = np.flatnonzero((held == _QUOTE) | (held == delimiter) | (held == _FEED))
    places = np.concatenate(([-1], marks, [size]))
    kinds = np.concatenate(([_FEED], held[marks], [_FEED]))
    is_quote, steps = kinds == _QUOTE, np.diff(places)
    opens: Bools = np.zeros(len(places), dtype=bool)
    opens[1:] = is_quote[1:] & ~is_quote[:-1] & (steps == 1)
    # A carriage return belongs to the end of its line.
    returned = (kinds[1:] == _FEED) & (buffer[places[:-1] + 1] == _RETURN)
    ended = ~is_quote[1:] & (steps == 1 + returned)
    closes: Bools = np.zeros(len(places), dtype=bool)
    closes[1:-1] = is_quote[1:-1] & opens[:-2] & ended[1:]
    paired = closes.copy()
    paired[:-1] |= opens[:-1] & closes[1:]
    odd: Ints = places[is_quote & ~paired]
    return odd
