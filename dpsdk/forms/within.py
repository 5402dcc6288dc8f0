"""Counts of the records in each of many boxes, where there are too many cells for a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpsdk.typing import Array, Floats, Ints

__all__ = ["counted_within"]

_RECORDS = 2**13
_BOXES = 2**12
_ADDED = 2**6
"""So many records and boxes are looked at together, and so many boxes added up: a few MiB each."""

Bits: TypeAlias = npt.NDArray[np.uint8]
"""One bit a record, eight in a byte, the first of them the highest."""

_Side: TypeAlias = tuple[Ints, Ints]
"""Ends that some boxes have along an attribute, and which of them each box has."""


def counted_within(starts: Ints, stops: Ints, codes: Sequence[Array], counts: Floats) -> Floats:
    """For each box the sum of the counts of the records in it.

    Whether a record lies beyond an end is found once for each end that some box has, and kept as
    one bit; a box takes two look-ups of such bits an attribute, and then one for each byte of them,
    in a table of what eight records count together.

    Parameters
    ----------
    starts, stops
        Of shape (attributes, boxes): the first cells, and the first behind.
    codes
        For each attribute the cells of the records.
    counts
        What each record counts.
    """
    answers = np.zeros(starts.shape[1])
    for first in range(0, len(answers), _BOXES):
        boxes = slice(first, first + _BOXES)
        sides = [
            (_ends(start[boxes]), _ends(stop[boxes]))
            for start, stop in zip(starts, stops, strict=True)
        ]
        for place in range(0, len(counts), _RECORDS):
            records = slice(place, place + _RECORDS)
            packed = [
                (
                    _packed(code[records] >= low[0][:, None]),
                    _packed(code[records] < high[0][:, None]),
                )
                for code, (low, high) in zip(codes, sides, strict=True)
            ]
            chosen = [(low[1], high[1]) for low, high in sides]
            answers[boxes] += _added(packed, chosen, _eights(counts[records]))
    return answers


def _ends(cells: Ints) -> _Side:
    ends, chosen = np.unique(cells, return_inverse=True)
    return ends, chosen.reshape(-1)


def _packed(flags: Array) -> Bits:
    return np.packbits(flags, axis=1)


def _eights(counts: Floats) -> Floats:
    """What each choice among eight records in a row counts, shape (bytes, 256)."""
    padded = np.zeros((-(-len(counts) // 8), 8))
    padded.reshape(-1)[: len(counts)] = counts
    choices = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    return padded @ choices.T.astype(np.float64)


def _added(
    packed: Sequence[tuple[Bits, Bits]], chosen: Sequence[tuple[Ints, Ints]], eights: Floats
) -> Floats:
    """The counts of those records that are in a box along every attribute."""
    answers = np.empty(len(chosen[0][0]))
    flat, offsets = eights.reshape(-1), np.arange(len(eights)) * 256
    for first in range(0, len(answers), _ADDED):
        some = slice(first, first + _ADDED)
        inside = np.full((len(answers[some]), len(eights)), 255, dtype=np.uint8)
        for (above, below), (low, high) in zip(packed, chosen, strict=True):
            inside &= above[low[some]]
            inside &= below[high[some]]
        answers[some] = flat.take(offsets + inside).sum(axis=1)
    return answers
