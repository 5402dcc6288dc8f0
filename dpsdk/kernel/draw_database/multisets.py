"""All multisets of a size over some atoms, in an order of their own and in blocks.

A multiset is a head over the first atoms and a tail over the others. Tails of one kind, so many
records over the atoms from one on, are written out once, as the sums of all functions over their
records; heads are run through. How many multisets a block has differs; the order and the blocks
depend on the number of atoms, on the size and on limits alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations_with_replacement, islice

import numpy as np
from attrs import frozen

from dpsdk.typing import Ints

__all__ = ["HEAD_SUMS", "Batch", "Multisets"]

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
