"""Any functions: the classes of cells that none tells apart, and databases counted by their sums.

Databases matter by the sums of the functions over their records alone. Where there are few
functions, how many have each combination of sums is found by admitting one atom after another,
which is public work; a score is picked, then sums of that score, and the records are taken back one
by one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, reduce
from itertools import accumulate, pairwise

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, Kronecker, LinearForm
from dpsdk.forms.linear import EXACT
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler, Work
from dpsdk.kernel.draw_database.bounds import AnyCoverage, Coverage
from dpsdk.kernel.draw_database.dimension import Side, sides_of
from dpsdk.noise import NoiseSource
from dpsdk.typing import Array, Ints

__all__ = ["AtomSampler", "Atoms", "Counting", "Scorer"]

_GRID = 2**20
"""No more cells are told apart by attribute, before those that are alike are merged."""

_CELLS = 2**22
"""No attribute that functions depend on has more cells."""

_WEIGHTS = 2**24
"""No more weights are written out."""

_FINEST = 20
"""Weights that are no integers are rounded to multiples of 2^-20, or coarser ones."""

_LARGEST_WEIGHT = 2**40


@frozen(eq=False)
class Scorer:
    """The score that one function alone would make of sums G: ceil(|size·F - rows·G| / scale)."""

    answers: tuple[int, ...]
    rows: int
    size: int
    widest: int

    @property
    def kind(self) -> type[np.signedinteger]:
        """The narrowest integers that hold every score."""
        return np.int16 if self.rows < 2**15 else np.int32 if self.rows < 2**31 else np.int64

    def __call__(self, function: int, sums: Ints) -> Array:
        """For sums of a function over databases, their scores."""
        gaps = sums * -self.rows
        gaps += self.size * self.answers[function]
        np.abs(gaps, out=gaps)
        scale = self.size * self.widest
        gaps += scale - 1
        gaps //= scale
        return gaps.astype(self.kind)


@frozen(eq=False)
class Atoms:
    """The functions of a form on its atoms, and the records in these, as a general draw needs them.

    Functions that are constant, or that differ from another by a constant or by the sign, are left
    out, since no score depends on them.
    """

    form: LinearForm
    """The functions, with integer weights in units of 2**-bits."""
    setting: Facts
    bits: int
    change: float
    """By how much rounding onto the lattice moved a weight, at the most, in the old unit."""
    kept: Ints
    """Which functions of the form are scored."""
    weights: Ints
    """Their weights (functions, atoms), less the least of each, which no score notices."""
    least: Ints
    """What was subtracted from each of them."""
    widest: int
    """The largest range of a function, at least 1, in units of the lattice."""
    _classes: tuple[Ints, ...] = field(repr=False)
    """For each attribute of the domain, the class of each of its cells; empty where untouched."""
    _of_grid: Ints = field(repr=False)
    """The atom of each combination of classes, in C order over the touched attributes."""

    @classmethod
    def of(cls, form: LinearForm, setting: Facts) -> Atoms:
        """Merge the cells of a domain that the functions of a form do not tell apart."""
        lattice, bits, change = _on_lattice(form, setting)
        touched = set(lattice.names)
        for name, size in zip(setting.domain.names, setting.domain.shape, strict=True):
            if name in touched and size > _CELLS:
                advice = "ask for thresholds, ranges or single cells only, or a coarser attribute"
                raise TooLarge(f"attribute {name!r}", size, _CELLS, "cells", advice)
        classes = tuple(
            _classes_of(lattice, name, size) if name in touched else np.zeros(0, dtype=np.int64)
            for name, size in zip(setting.domain.names, setting.domain.shape, strict=True)
        )
        counts = [int(of.max()) + 1 for of in classes if of.size]
        grid = math.prod(counts)
        if grid > _GRID or grid * lattice.rows > _WEIGHTS:
            advice = "ask fewer functions, or coarser ones"
            limit = min(_GRID, _WEIGHTS // lattice.rows)
            raise TooLarge("to tell the cells apart", grid, limit, "combinations", advice)
        columns = _columns(lattice, setting, classes, counts)
        if setting.outside:
            columns = np.concatenate([columns, np.zeros((len(columns), 1), np.int64)], axis=1)
        merged, place = np.unique(columns, axis=1, return_inverse=True)
        place = place.reshape(-1)
        kept = _told_apart(merged)
        least = merged[kept].min(axis=1, initial=_LARGEST_WEIGHT)
        weights = np.ascontiguousarray(merged[kept] - least[:, None])
        return cls(
            lattice,
            setting,
            bits,
            change,
            kept,
            weights,
            least,
            max(1, int(weights.max(initial=0))),
            classes,
            place[:grid],
        )

    @property
    def number(self) -> int:
        """How many atoms there are."""
        return int(self.weights.shape[1])

    @property
    def functions(self) -> int:
        """How many functions are scored."""
        return int(self.weights.shape[0])

    @cached_property
    def sides(self) -> tuple[Side, ...] | None:
        """The sides of the functions, if they are products of indicators."""
        return sides_of(self.form)

    def scorer(self, counts: Counts, size: int) -> Scorer:
        """The scores of databases of a size against a table, whose outside rows count as well."""
        sums, rows = self.form.evaluate(counts)[self.kept], counts.rows
        if not (np.abs(sums) < EXACT).all():
            raise ArithmeticError("a sum left the integers that floats hold")
        pairs = zip(sums, self.least, strict=True)
        answers = tuple(int(sum_) - int(low) * rows for sum_, low in pairs)
        return Scorer(answers, rows, size, self.widest)

    def records(self, drawn: Sequence[int], noise: NoiseSource) -> Ints:
        """A uniform cell of each of these atoms; see `Sampler.draw` for the array."""
        found = [self._cell(atom, noise) for atom in drawn]
        records = np.array(sorted(found), dtype=np.int64)
        return records.reshape(len(found), len(self.setting.domain.shape))

    @cached_property
    def _volumes(self) -> tuple[Array, ...]:
        """How many cells each class of each attribute has; all in one where it is untouched."""
        return tuple(
            np.bincount(of) if of.size else np.array([size], dtype=object)
            for of, size in zip(self._classes, self.setting.domain.shape, strict=True)
        )

    @cached_property
    def _members(self) -> tuple[tuple[Ints, list[int]], ...]:
        """Of each atom, the combinations in it, and how many cells these have up to each."""
        shape = tuple(len(volume) for volume in self._volumes)
        order = np.argsort(self._of_grid, kind="stable")
        bounds = np.searchsorted(self._of_grid[order], np.arange(self.number + 1))
        members: list[tuple[Ints, list[int]]] = []
        for start, stop in pairwise(bounds):
            inside = order[start:stop]
            places = np.unravel_index(inside, shape)
            sizes = (
                math.prod(int(volume[at]) for volume, at in zip(self._volumes, place, strict=True))
                for place in zip(*places, strict=True)
            )
            members.append((inside, list(accumulate(sizes))))
        return tuple(members)

    def _cell(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        inside, totals = self._members[atom]
        if not totals:
            return (-1,) * len(self.setting.domain.shape)
        at = noise.uniform_below(totals[-1])
        which = bisect_right(totals, at)
        rest = at - (totals[which - 1] if which else 0)
        shape = tuple(len(volume) for volume in self._volumes)
        places = np.unravel_index(int(inside[which]), shape)
        cell: list[int] = []
        for of, volume, place in zip(self._classes, self._volumes, places, strict=True):
            rest, member = divmod(rest, int(volume[place]))
            cell.append(int(np.flatnonzero(of == place)[member]) if of.size else member)
        return tuple(cell)


def _on_lattice(form: LinearForm, setting: Facts) -> tuple[LinearForm, int, float]:
    """The form with integer weights, the bits of their unit, and the largest change of one."""
    most = max(setting.row_limit, 1)
    for bits in (0,) if form.integral else range(_FINEST, -1, -1):
        lattice, change = (form, 0.0) if form.integral else form.rounded(bits)
        if lattice.reach * most < EXACT and lattice.largest < _LARGEST_WEIGHT:
            return lattice, bits, change
    expected = "small enough that rows times weight stay within 2**53"
    raise InvalidArgument("weights", expected, f"up to {form.reach:.3g} a row")


def _classes_of(form: LinearForm, name: str, size: int) -> Ints:
    """Numbers from 0 for the cells of an attribute; cells that differ for some factor differ."""
    classes = np.zeros(size, dtype=np.int64)
    for block in form.blocks:
        if name not in block.names:
            continue
        factor = block.factors[block.names.index(name)] if isinstance(block, Kronecker) else None
        own = None if factor is None else factor.classes()
        if own is None:
            return np.arange(size)
        pairs = classes * (int(own.max()) + 1) + own
        classes = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return classes


def _columns(
    form: LinearForm, setting: Facts, classes: Sequence[Ints], counts: Sequence[int]
) -> Ints:
    """The weights of all functions on all combinations of classes."""
    named = [(name, of) for name, of in zip(setting.domain.names, classes, strict=True) if of.size]
    grid = np.unravel_index(np.arange(math.prod(counts)), tuple(counts)) if counts else ()
    # Any cell stands for its class.
    cells = {
        name: np.unique(of, return_index=True)[1][at]
        for (name, of), at in zip(named, grid, strict=True)
    }
    width = math.prod(counts)
    rows = np.empty((form.rows, width), dtype=np.int64)
    start = 0
    for block in form.blocks:
        weights = block.columns([cells[name] for name in block.names])
        # A block without attributes has one column.
        rows[start : start + block.rows] = np.broadcast_to(weights, (block.rows, width))
        start += block.rows
    return rows


def _told_apart(columns: Ints) -> Ints:
    """The places of functions that vary, and are no copies or complements of others."""
    low, high = columns.min(axis=1), columns.max(axis=1)
    varying = np.flatnonzero(low < high)
    up = columns[varying] - low[varying, None]
    down = high[varying, None] - columns[varying]
    # The larger one in the order of texts, so that a function and its complement are alike.
    first = (up != down).argmax(axis=1)
    at = np.arange(len(varying))
    smaller = np.asarray(up[at, first] < down[at, first])
    up[smaller] = down[smaller]
    places = np.unique(up, axis=0, return_index=True)[1]
    return varying[np.sort(places)]


@frozen(eq=False)
class AtomSampler(Sampler):
    """A sampler over the atoms of any functions."""

    terms: DrawTerms
    merged: Atoms

    @property
    def atoms(self) -> int:
        return self.merged.number

    @property
    def unit(self) -> Fraction:  # type: ignore[override]  # derived here, a constant elsewhere
        return Fraction(self.merged.widest, 1 << self.merged.bits)

    @property
    def bias(self) -> float:  # type: ignore[override]  # derived here, a constant elsewhere
        return self.merged.change

    @property
    def coverage(self) -> Coverage:
        merged = self.merged
        return AnyCoverage(merged.functions, self.atoms, merged.sides, self.terms.declared)


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
        chosen = noise.pick(levels, self.rate, [int(weight) for weight in weights])
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
