"""Any functions: all small databases over the atoms are scored, twice, in blocks.

The first pass counts how many there are of each score, a score is picked, and the second pass looks
for one of that score in the part of the enumeration where it lies. Memory holds a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from attrs import frozen
from typing_extensions import override

from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.atoms import Atoms
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler, Work
from dpsdk.kernel.draw_database.multisets import HEAD_SUMS, Batch, Multisets
from dpsdk.noise import NoiseSource
from dpsdk.typing import Array, Ints

__all__ = ["Enumeration", "Scores"]

_EXACT = 2**62
"""Integers on the way to a score stay below this."""

_LEVELS = 2**24
"""No more scores than this are counted."""

_MOST_BITS = 60
"""No more than 2 to this power databases are looked at, whatever the limits are."""

_COUNTERS = 2**22
_SECTIONS = 64
_BUFFER = 2**18
_KNOWN = 2**24

_EACH, _EACH_FUNCTION = 4e-9, 2.5e-10
"""Seconds for a database, and for each function of one."""

_EACH_STEP, _EACH_SUM = 1.5e-5, 4e-6
"""Seconds for a head or a kind of tail, and for each function of one."""


@frozen(eq=False)
class Scores:
    """Scores of small databases against one private table: ceil(max |size·F - rows·G| / scale)."""

    answers: tuple[int, ...]
    rows: int
    size: int
    widest: int

    def of_sums(self, function: int, sums: Ints) -> Ints:
        """What one function alone would make the score, for sums G of it over databases."""
        gaps = sums * -self.rows
        gaps += self.size * self.answers[function]
        np.abs(gaps, out=gaps)
        scale = self.size * self.widest
        gaps += scale - 1
        gaps //= scale
        return gaps

    @property
    def kind(self) -> type[np.signedinteger]:
        """The narrowest integers that hold every score."""
        return np.int16 if self.rows < 2**15 else np.int32 if self.rows < 2**31 else np.int64


@frozen(eq=False)
class Enumeration(Sampler):
    """Databases over the atoms of any functions of a record, all of them looked at.

    A function of wide range counts fully, and one that is narrower as much less as it is: scores
    are in units of the widest range.
    """

    terms: DrawTerms
    merged: Atoms

    kind = "any functions"

    @property
    @override
    def atoms(self) -> int:
        return self.merged.number

    @property
    @override
    def unit(self) -> Fraction:
        return self.merged.unit

    @override
    def work(self) -> Work:
        setting, multisets = self.terms.setting, self._multisets
        rows = setting.row_limit if setting.rows is None else setting.rows
        functions = self.merged.functions
        largest = max(rows, 1) * self.terms.size * self.merged.widest
        # There are at least 2 to the power of the lesser of the records and the other atoms.
        many = min(self.terms.size, self.atoms - 1) > _MOST_BITS
        if many or rows > _LEVELS or 2 * largest >= _EXACT:
            return Work(math.inf, 8 * (rows + 1))
        number = multisets.number
        steps = self.atoms * (self.terms.size + 1) + number / max(1, multisets.block // 8)
        narrow = 1 if rows < 2**15 else 2
        each = _EACH + _EACH_FUNCTION * narrow * functions
        # Two passes, of which the second stops within one part of many.
        sections = _sections(rows)
        each_step = _EACH_STEP + _EACH_SUM * functions
        seconds = (number * each + steps * each_step) * (1 + 1 / sections)
        counters = 8 * (sections + 3) * (rows + 1)
        tails = min(multisets.block, number) * max(1, functions) * (self.terms.size + 1)
        # Sums over heads are added up, so there are two of each.
        heads = min(number, max(1, HEAD_SUMS // max(1, functions))) * max(1, functions)
        buffers = (2**25 + 2**21) * narrow
        return Work(seconds, counters + 8 * tails + 16 * heads + buffers)

    @override
    def draw(self, histogram: Counts, noise: NoiseSource) -> Ints:
        rows, multisets = histogram.rows, self._multisets
        answers = self.merged.answers(histogram, rows)
        scores = Scores(answers, rows, self.terms.size, self.merged.widest)
        sections = _sections(rows)
        counts = np.zeros((sections, rows + 1), dtype=np.int64)
        length = -(-multisets.number // sections)
        buffer = _Buffer(counts, rows)
        for start, _, _, values in _scored(multisets, scores):
            buffer.add(start // length, values)
        buffer.flush()
        totals = counts.sum(axis=0)
        levels = np.flatnonzero(totals)
        level = int(levels[noise.pick(levels, self.rate, totals[levels].tolist())])
        rank = noise.uniform_below(int(totals[level]))
        section = int(np.searchsorted(np.cumsum(counts[:, level]), rank, side="right"))
        rank -= int(counts[:section, level].sum())
        return self.merged.records(self._found(scores, level, section, length, rank), noise)

    @property
    def _multisets(self) -> Multisets:
        return Multisets(self.merged.weights, self.terms.size)

    def _found(
        self, scores: Scores, level: int, section: int, length: int, rank: int
    ) -> Sequence[int]:
        """The atoms of the database of this rank among those of one score in one section."""
        multisets = self._multisets
        for _, batch, place, values in _scored(multisets, scores, (section, length)):
            at = np.flatnonzero(values == level)
            if rank < len(at):
                return multisets.multiset(batch, place + int(at[rank]))
            rank -= len(at)
        raise ArithmeticError("the second pass counted other scores than the first")


def _sections(rows: int) -> int:
    return min(max(_COUNTERS // (rows + 1), 1), _SECTIONS)


def _scored(
    multisets: Multisets, scores: Scores, only: tuple[int, int] | None = None
) -> Iterator[tuple[int, Batch, int, Array]]:
    """Runs of databases: where their batch begins, it, their place in it, and their scores.

    With `only`, a section and the length of sections, the batches that begin in that section.
    """
    start = 0
    known: dict[tuple[int, int], Array] = {}
    tails: tuple[int, int] | None = None
    for batch in multisets.batches():
        here, start = start, start + batch.number
        if tails != (batch.first, batch.records):
            tails = batch.first, batch.records
            known.clear()
        if only is not None and here // only[1] != only[0]:
            continue
        sums = multisets.sums(batch)
        for place, values in _batch_scores(batch, sums, scores, known):
            yield here, batch, place, values


def _batch_scores(
    batch: Batch, sums: Ints, scores: Scores, known: dict[tuple[int, int], Array]
) -> Iterator[tuple[int, Array]]:
    """The scores of a batch: all at once, or head by head where there are many tails.

    Heads have few sums where functions have few values, so what one function makes of all tails is
    kept while these stay.
    """
    functions, heads = sums.shape
    width = batch.tails.shape[1]
    if heads > 1 and width < 2**10:
        worst = np.zeros((heads, width), dtype=scores.kind)
        for function in range(functions):
            different, which = np.unique(sums[function], return_inverse=True)
            both = different[:, None] + batch.tails[function]
            levels = scores.of_sums(function, both).astype(scores.kind)
            np.maximum(worst, levels[which.reshape(-1)], out=worst)
        yield 0, worst.reshape(-1)
        return
    for head in range(heads):
        worst = np.zeros(width, dtype=scores.kind)
        for function in range(functions):
            key = function, int(sums[function, head])
            if key in known:
                levels = known[key]
            else:
                both = batch.tails[function] + key[1]
                levels = scores.of_sums(function, both).astype(scores.kind)
                if len(known) * width < _KNOWN:
                    known[key] = levels
            np.maximum(worst, levels, out=worst)
        yield head * width, worst


class _Buffer:
    """Collects scores, so that counting them costs no more than there are of them."""

    def __init__(self, counts: Ints, rows: int) -> None:
        self._counts = counts
        self._values = np.empty(max(_BUFFER, 2 * (rows + 1)), dtype=np.intp)
        self._filled = 0
        self._section = 0

    def add(self, section: int, values: Array) -> None:
        """Count these scores in a section; sections come in ascending order."""
        if section != self._section:
            self.flush()
            self._section = section
        start = 0
        while start < len(values):
            some = values[start : start + len(self._values) - self._filled]
            self._values[self._filled : self._filled + len(some)] = some
            self._filled += len(some)
            start += len(some)
            if self._filled == len(self._values):
                self.flush()

    def flush(self) -> None:
        """Count what was collected."""
        levels = self._counts.shape[1]
        found = np.bincount(self._values[: self._filled], minlength=levels)
        self._counts[self._section] += found
        self._filled = 0
