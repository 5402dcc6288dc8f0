"""Every small database over some atoms, one batch after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, combinations_with_replacement, islice

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.atoms import Atoms
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler, Work
from dpsdk.kernel.draw_database.coverage import AnyFunctions, Coverage
from dpsdk.noise import NoiseSource
from dpsdk.typing import Array, Ints

__all__ = ["Batch", "Enumeration", "HEAD_SUMS", "Multisets", "Scores"]

_CELLS = 2**24
"""The tails together have about as many sums as this, at the most."""

_LONGEST, _SHORTEST = 2**16, 2**8
"""Limits on how many tails of one kind are written out."""

_BATCH = 2**18
"""Heads times tails of one batch, where there are several heads."""

_HEADS = 2**8

HEAD_SUMS = 2**22
"""Sums over the heads of one batch, unless one head has more."""


@frozen(eq=False)
class Batch:
    """Some heads, each to be continued by each of some tails.

    Parameters
    ----------
    heads
        The atoms of each head, an array (heads, records).
    copies
        How many records each head has in atom `first` - 1 besides.
    first
        The least atom of the tails.
    records
        How many records a tail has.
    tails
        The sums of the functions over each tail, an array (functions, tails).
    """

    heads: Ints
    copies: int
    first: int
    records: int
    tails: Ints

    @property
    def number(self) -> int:
        """How many multisets it has, those of one head after one another."""
        return len(self.heads) * int(self.tails.shape[1])


@frozen(eq=False)
class Multisets:
    """The multisets of `size` atoms, of which functions have the given weights (functions, atoms).

    Weights are integers of at least 0.
    """

    weights: Ints
    size: int

    @property
    def atoms(self) -> int:
        """How many atoms there are."""
        return int(self.weights.shape[1])

    @property
    def block(self) -> int:
        """How many tails of one kind are written out at the most."""
        cells = _CELLS // (max(1, len(self.weights)) * (self.size + 1))
        return min(max(cells, _SHORTEST), _LONGEST)

    @property
    def number(self) -> int:
        """How many multisets there are."""
        return self._after(0, self.size)

    def _after(self, first: int, records: int) -> int:
        """How many multisets of so many records there are over the atoms from one on."""
        if not records:
            return 1
        left = self.atoms - first
        return math.comb(left + records - 1, records) if left else 0

    def batches(self) -> Iterator[Batch]:
        """All multisets, each once."""
        block, last = self.block, self.atoms
        # The tails from an atom on end with those from the next one on, so one array holds both.
        arrays = [self._room(records, block) for records in range(self.size + 1)]
        for first in range(last, -1, -1):
            for records, array in enumerate(arrays):
                number = self._after(first, records)
                if not 0 < number <= block:
                    continue
                width = array.shape[1]
                if records and first < last:
                    shorter = self._after(first, records - 1)
                    before = arrays[records - 1]
                    place = slice(width - number, width - number + shorter)
                    tails = before[:, before.shape[1] - shorter :]
                    np.add(tails, self.weights[:, first, None], out=array[:, place])
                yield from self._headed(first, records, array[:, width - number :], block)

    def _room(self, records: int, block: int) -> Ints:
        """An array for the longest list of tails of so many records."""
        low, high = 0, self.atoms
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self._after(middle, records) <= block else (middle + 1, high)
            )
        return np.zeros((len(self.weights), self._after(low, records)), dtype=np.int64)

    def _headed(self, first: int, records: int, tails: Ints, block: int) -> Iterator[Batch]:
        """The batches with these tails: the heads that no shorter list of tails continues."""
        if not first:
            if records == self.size:
                yield Batch(np.zeros((1, 0), dtype=np.int64), 0, 0, records, tails)
            return
        width = tails.shape[1]
        most = max(1, _BATCH // width) if width < _BATCH // _HEADS else _HEADS
        most = max(1, min(most, HEAD_SUMS // max(1, len(self.weights))))
        for copies in range(self.size - records + 1):
            if self._after(first - 1, records + copies) > block:
                length = self.size - records - copies
                for heads in _sequences(first - 1, length, most):
                    yield Batch(heads, copies, first, records, tails)

    def sums(self, batch: Batch) -> Ints:
        """The sums of the functions over each head of a batch, an array (functions, heads)."""
        sums = np.zeros((len(self.weights), len(batch.heads)), dtype=np.int64)
        for place in range(batch.heads.shape[1]):
            sums += self.weights[:, batch.heads[:, place]]
        if batch.copies:
            sums += batch.copies * self.weights[:, batch.first - 1, None]
        return sums

    def multiset(self, batch: Batch, place: int) -> list[int]:
        """The atoms of one multiset of a batch, in order."""
        head, tail = divmod(place, batch.tails.shape[1])
        drawn = [int(atom) for atom in batch.heads[head]] + [batch.first - 1] * batch.copies
        atom, records = batch.first, batch.records
        while records:
            here = self._after(atom, records - 1)
            if tail < here:
                drawn.append(atom)
                records -= 1
            else:
                tail -= here
                atom += 1
        return drawn


def _sequences(atoms: int, length: int, most: int) -> Iterator[Ints]:
    """All multisets of a length over the first atoms, in arrays of at most so many."""
    if not length:
        # Without a pool of all atoms, which takes longer than the one multiset.
        yield np.zeros((1, 0), dtype=np.int64)
        return
    every = combinations_with_replacement(range(atoms), length)
    while True:
        some = list(islice(every, most))
        if not some:
            return
        flat = np.fromiter(chain.from_iterable(some), np.int64, len(some) * length)
        yield flat.reshape(len(some), length)


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
        """The score that one function alone would make, for sums G of it over databases."""
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
    def atoms(self) -> int:
        return self.merged.number

    @property
    def unit(self) -> Fraction:
        return self.merged.unit

    @property
    def coverage(self) -> Coverage:
        return AnyFunctions(self.merged.functions, self.merged.number)

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
    """Runs of databases: where their batch begins, it, their place in it, and their scores."""
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
    """The scores of a batch: all at once, or head by head where there are many tails."""
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
