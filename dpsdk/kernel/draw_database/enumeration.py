"""Every small database over some atoms, one batch after the other."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, combinations_with_replacement, islice

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.atoms import AtomSampler, Scorer
from dpsdk.kernel.draw_database.base import Work
from dpsdk.noise import NoiseSource
from dpsdk.typing import Array, Ints

__all__ = ["Batch", "Enumeration", "HEAD_SUMS", "Multisets"]

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

    `heads` are atoms, an array (heads, records), besides `copies` records in atom `first` - 1.
    `tails` are the sums of the functions over the multisets of `records` atoms from `first` on, an
    array (functions, tails).
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
    """The multisets of `size` atoms, of which functions have weights (functions, atoms) from 0."""

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
                start = array.shape[1] - number
                if records and first < last:
                    tails = arrays[records - 1][:, -self._after(first, records - 1) :]
                    place = slice(start, start + tails.shape[1])
                    np.add(tails, self.weights[:, first, None], out=array[:, place])
                yield from self._headed(first, records, array[:, start:], block)

    def _room(self, records: int, block: int) -> Ints:
        """An array for the longest list of tails of so many records."""
        first = bisect_left(range(self.atoms), -block, key=lambda atom: -self._after(atom, records))
        return np.zeros((len(self.weights), self._after(first, records)), dtype=np.int64)

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
        for atoms in batch.heads.T:
            sums += self.weights[:, atoms]
        if batch.copies:
            sums += batch.copies * self.weights[:, batch.first - 1, None]
        return sums

    def multiset(self, batch: Batch, place: int) -> list[int]:
        """The atoms of one multiset of a batch, in order."""
        head, tail = divmod(place, batch.tails.shape[1])
        drawn: list[int] = batch.heads[head].tolist() + [batch.first - 1] * batch.copies
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
    while some := list(islice(every, most)):
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


class Enumeration(AtomSampler):
    """Databases over the atoms of any functions, all looked at; scores are of the widest range."""

    kind = "any functions"

    def _work(self) -> Work:
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
        multisets, score = self._multisets, self.merged.scorer(histogram, self.terms.size)
        sections = _sections(histogram.rows)
        counts = np.zeros((sections, histogram.rows + 1), dtype=np.int64)
        length = -(-multisets.number // sections)
        for section, values in _buffered(multisets, score, length, counts.shape[1]):
            counts[section] += np.bincount(values, minlength=counts.shape[1])
        totals = counts.sum(axis=0)
        levels = np.flatnonzero(totals)
        level = int(levels[noise.pick(levels, self.rate, totals[levels].tolist())])
        rank = noise.uniform_below(int(totals[level]))
        section = int(np.searchsorted(np.cumsum(counts[:, level]), rank, side="right"))
        rank -= int(counts[:section, level].sum())
        for _, batch, place, values in _scored(multisets, score, length, section):
            at = np.flatnonzero(values == level)
            if rank < len(at):
                found = multisets.multiset(batch, place + int(at[rank]))
                return self.merged.records(found, noise)
            rank -= len(at)
        raise ArithmeticError("the second pass counted other scores than the first")

    @property
    def _multisets(self) -> Multisets:
        return Multisets(self.merged.weights, self.terms.size)


def _sections(rows: int) -> int:
    return min(max(_COUNTERS // (rows + 1), 1), _SECTIONS)


def _buffered(
    multisets: Multisets, score: Scorer, length: int, levels: int
) -> Iterator[tuple[int, Array]]:
    """The scores by section, in arrays so long that counting them costs no more than they do."""
    waiting: list[Array] = []
    last = number = 0
    for section, _, _, values in _scored(multisets, score, length):
        if section != last or number >= max(_BUFFER, 2 * levels):
            yield last, np.concatenate(waiting)
            waiting, last, number = [], section, 0
        waiting.append(values)
        number += len(values)
    yield last, np.concatenate(waiting)


def _scored(
    multisets: Multisets, score: Scorer, length: int, only: int | None = None
) -> Iterator[tuple[int, Batch, int, Array]]:
    """Runs of databases: the section they begin in, their batch, place in it, and scores."""
    start = 0
    known: dict[tuple[int, int], Array] = {}
    tails: tuple[int, int] | None = None
    for batch in multisets.batches():
        section, start = start // length, start + batch.number
        if tails != (batch.first, batch.records):
            tails = batch.first, batch.records
            known.clear()
        if only is None or section == only:
            for place, values in _batch_scores(batch, multisets.sums(batch), score, known):
                yield section, batch, place, values


def _batch_scores(
    batch: Batch, sums: Ints, score: Scorer, known: dict[tuple[int, int], Array]
) -> Iterator[tuple[int, Array]]:
    """The scores of a batch: all at once, or head by head where there are many tails."""
    heads, width = sums.shape[1], batch.tails.shape[1]
    if heads > 1 and width < 2**10:
        worst = np.zeros((heads, width), dtype=score.kind)
        for function, tails in enumerate(batch.tails):
            different, which = np.unique(sums[function], return_inverse=True)
            levels = score(function, different[:, None] + tails)
            np.maximum(worst, levels[which.reshape(-1)], out=worst)
        yield 0, worst.reshape(-1)
        return
    for head in range(heads):
        worst = np.zeros(width, dtype=score.kind)
        for function, tails in enumerate(batch.tails):
            key = function, int(sums[function, head])
            own = known.get(key)
            if own is None:
                own = score(function, tails + key[1])
                if len(known) * width < _KNOWN:
                    known[key] = own
            np.maximum(worst, own, out=worst)
        yield head * width, worst
