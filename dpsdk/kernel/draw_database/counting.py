"""Few functions: how many small databases have which sums, by dynamic programming.

Databases matter by the sums of the functions over their records alone. How many there are of each
combination of sums is found by admitting one atom after another, which is public work; a score is
picked, then sums of that score, and the records are taken back one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.atoms import AtomSampler
from dpsdk.kernel.draw_database.base import Work
from dpsdk.noise import NoiseSource
from dpsdk.typing import Array, Ints

__all__ = ["Counting"]

_MOST_FUNCTIONS = 4
_MACHINE = 2**62
"""Counts below this are kept in the integers of the machine."""

_MOST_SUMS = 2**40
"""No more sums than this are worked out, whatever the limits are."""

_EACH, _EACH_LARGE, _EACH_SCORE = 4e-9, 1e-7, 5e-8
"""Seconds for a sum of two counts, of two larger ones, and for the score of a combination."""

_LARGE_BYTES = 40


class Counting(AtomSampler):
    """Databases over the atoms of at most four functions, counted by what these sum up to."""

    kind = "few functions"

    @property
    def fits(self) -> bool:
        """True if there are few enough functions."""
        return 1 <= self.merged.functions <= _MOST_FUNCTIONS

    @property
    def _steps(self) -> tuple[int, ...]:
        """The greatest common divisor of the weights of each function."""
        return tuple(math.gcd(*row.tolist()) for row in self.merged.weights)

    @property
    def _shape(self) -> tuple[int, ...]:
        """How many numbers of records, and sums of each function, there may be."""
        size, widest = self.terms.size, self.merged.weights.max(axis=1)
        sums = (
            size * (int(most) // step) + 1 for most, step in zip(widest, self._steps, strict=True)
        )
        return size + 1, *sums

    @property
    def _large(self) -> bool:
        return self.candidates >= _MACHINE

    def _work(self) -> Work:
        states = math.prod(self._shape)
        rows = self.terms.setting.row_limit
        exact = 2 * max(rows, 1) * self.terms.size * self.merged.widest < _MACHINE
        if states * self.atoms > _MOST_SUMS or not exact:
            return Work(math.inf, states * 8)
        large = self._large
        each = _EACH_LARGE if large else _EACH
        final = states // self._shape[0]
        # Once up, to count, and once down, to take the records back.
        seconds = 2 * self.atoms * states * each + final * _EACH_SCORE
        width = 8 + (_LARGE_BYTES + self.candidates.bit_length() // 8 if large else 0)
        return Work(seconds, 2 * states * width + 32 * final)

    def draw(self, histogram: Counts, noise: NoiseSource) -> Ints:
        table = self._counted()
        counts = table[self.terms.size].reshape(-1)
        # Of combinations of sums that no database has, none can be picked.
        places = np.flatnonzero(counts)
        levels, which = np.unique(self._scores(histogram)[places], return_inverse=True)
        weights = np.zeros(len(levels), dtype=counts.dtype)
        np.add.at(weights, which, counts[places])
        chosen = noise.pick(levels, self.rate, weights.tolist())
        rank = noise.uniform_below(int(weights[chosen]))
        within = places[which == chosen]
        totals = np.cumsum(counts[within])
        at = int(np.searchsorted(totals, rank, side="right"))
        rank -= int(totals[at - 1]) if at else 0
        sums = [int(sum_) for sum_ in np.unravel_index(int(within[at]), self._shape[1:])]
        return self.merged.records(self._taken_back(table, sums, rank), noise)

    def _scores(self, histogram: Counts) -> Array:
        """The score of each combination of sums, in C order."""
        score = self.merged.scorer(histogram, self.terms.size)
        steps = zip(self._steps, self._shape[1:], strict=True)
        each = [score(i, np.arange(length) * step) for i, (step, length) in enumerate(steps)]
        return reduce(np.maximum, np.ix_(*each)).reshape(-1)

    def _moves(self) -> list[tuple[int, ...]]:
        """By how much a record in each atom moves each sum."""
        weights = self.merged.weights // np.array(self._steps)[:, None]
        return [tuple(int(weight) for weight in column) for column in weights.T]

    def _counted(self) -> Array:
        """How many databases of each number of records have which sums."""
        table: Array = np.zeros(self._shape, dtype=object if self._large else np.int64)
        table[(0,) * table.ndim] = 1
        for move in self._moves():
            # A database has a record in this atom, which leaves one with a record less, or none.
            for records in range(1, len(table)):
                into, from_ = _shifted(move)
                table[records][into] += table[records - 1][from_]
        return table

    def _taken_back(self, table: Array, sums: Sequence[int], rank: int) -> list[int]:
        """The atoms of the database of a rank among those of the given sums."""
        records, left, drawn = self.terms.size, list(sums), list[int]()
        for atom, move in reversed(list(enumerate(self._moves()))):
            table = table[: records + 1]
            into, from_ = _shifted(move)
            while records:
                before = [sum_ - step for sum_, step in zip(left, move, strict=True)]
                with_one = int(table[(records - 1, *before)]) if min(before) >= 0 else 0
                if rank < with_one:
                    records, left = records - 1, before
                    drawn.append(atom)
                else:
                    rank -= with_one
                    break
            # Without this atom.
            for many in range(records, 0, -1):
                table[many][into] -= table[many - 1][from_]
        return drawn[::-1]


def _shifted(move: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The sums that a record can lead to, and those from which it does."""
    into = tuple(slice(step, None) for step in move)
    from_ = tuple(slice(None, -step or None) for step in move)
    return into, from_
