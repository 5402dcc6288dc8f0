"""Small databases for workloads of parts: thresholds, cells, or several of either at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsdk._records import frozen
from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.base import Aim, DrawTerms, Effort, Part, Profile, Sampler, Work
from dpsdk.kernel.draw_database.coverage import Coverage, Marginals
from dpsdk.kernel.draw_database.levels import Levels, draw
from dpsdk.kernel.draw_database.ways import choose, shuffled
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["COUNTS", "Structured", "extent", "highest", "records"]

COUNTS = 40
"""About how often the small databases up to some level are counted for one draw, at the most."""


@frozen(eq=False)
class Structured(Sampler):
    """The sampler for parts that share no attribute.

    Several parts are drawn over sequences of records, where they are independent given a bound on
    the error; a single one over multisets. `whole` says whether all records together are asked for,
    which only matters where rows may lie outside.
    """

    kind: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    terms: DrawTerms
    parts: tuple[Part, ...]
    whole: bool

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # derived here, a constant elsewhere
        return len(self.parts) > 1

    @property
    def outside(self) -> bool:
        """True if an atom stands for the outside, because no other one has all functions at 0."""
        spare = all(part.spare for part in self.parts) and not self.whole
        return self.terms.setting.outside and not spare

    @property
    def atoms(self) -> int:
        return math.prod(part.atoms for part in self.parts) + self.outside

    @property
    def coverage(self) -> Coverage:
        if len(self.parts) == 1 and not self.whole:
            return self.parts[0].coverage(self.atoms)
        parts = tuple(part.coverage(part.atoms) for part in self.parts)
        return Marginals(parts, self.outside)

    def work(self) -> Work:
        rows, width = extent(self)
        aim = Aim(rows, self.terms.size, self.ordered)
        efforts = [part.effort(aim, width) for part in self.parts]
        whole = Effort(
            sum(effort.steps for effort in efforts),
            sum(effort.products for effort in efforts),
            sum(effort.numbers for effort in efforts),
        )
        return whole.work(COUNTS, math.ceil(self.log2_candidates), ordered=self.ordered)

    def draw(self, histogram: Counts, noise: NoiseSource) -> Ints:
        near = self.levels(histogram)
        found = draw(near, self.rate, noise)
        return records(self.names, self.shape, self.parts, found, self.terms.size, noise)

    def levels(self, histogram: Counts) -> Near:
        """The small databases by their score for a private table."""
        aim = Aim(histogram.rows, self.terms.size, self.ordered)
        profiles = tuple(part.profile(histogram, aim) for part in self.parts)
        inside = int(histogram.records(())[1].sum()) if self.whole else None
        return Near(aim, profiles, self.outside, inside)


def extent(sampler: Sampler) -> tuple[int, int]:
    """From public facts, the most rows, and by how many records running counts may differ."""
    setting, size = sampler.terms.setting, sampler.terms.size
    if setting.rows is None:
        return setting.row_limit, size + 1
    level = highest(sampler, setting.rows)
    return setting.rows, min(size, 2 * size * level // max(setting.rows, 1) + 1) + 1


def highest(sampler: Sampler, rows: int) -> int:
    """About the highest level, in rows, that has to be counted for a table of so many rows."""
    spread = math.log(2) * sampler.log2_candidates / float(sampler.rate)
    return math.ceil(min(float(rows), 1.25 * (rows / sampler.terms.size + spread)))


def records(
    names: tuple[str, ...],
    shape: tuple[int, ...],
    parts: Sequence[Part],
    found: Sequence[Sequence[int]],
    size: int,
    noise: NoiseSource,
) -> Ints:
    """Records with a uniform cell of their atoms, in a uniform order if there are several parts.

    `found` has the atoms of each part; records that are in none of the lists lie outside.
    """
    drawn = np.full((size, len(names)), -1, dtype=np.int64)
    inside = len(found[0])
    places = {name: place for place, name in enumerate(names)}
    known = set[str]()
    for part, atoms in zip(parts, found, strict=True):
        order = atoms if len(parts) == 1 else shuffled(atoms, noise)
        for row, atom in enumerate(order):
            for name, code in zip(part.names, part.fill(atom, noise), strict=True):
                drawn[row, places[name]] = code
        known.update(part.names)
    for name, cells in zip(names, shape, strict=True):
        if name not in known:
            column = [noise.uniform_below(cells) for _ in range(inside)]
            drawn[:inside, places[name]] = column
    return drawn[np.lexsort(drawn.T[::-1])]


@frozen(eq=False)
class Near(Levels[tuple[tuple[int, ...], ...]]):
    """Small databases by their score. A candidate is a list of atoms, in order, for each part.

    Where records may lie outside, the lists may be shorter than the small database.
    """

    aim: Aim
    profiles: tuple[Profile, ...]
    outside: bool
    inside: int | None
    """How many rows lie in the domain, where that is asked for."""

    @property
    def worst(self) -> int:  # type: ignore[override]  # derived here, a field elsewhere
        # Neither count is above the number of rows.
        return self.aim.rows

    @property
    def guess(self) -> int:  # type: ignore[override]  # derived here, a field elsewhere
        return self.aim.rows // (2 * self.aim.size)

    def _weights(self, level: int) -> list[int]:
        """For each number of records in the domain the weight of the candidates."""
        aim = self.aim
        low, high = 0 if self.outside else aim.size, aim.size
        if self.inside is not None:
            low = max(low, aim.least(self.inside, level))
            high = min(high, aim.most(self.inside, level))
        weights = [0] * (aim.size + 1)
        if low > high:
            return weights
        ways = [profile.ways(level) for profile in self.profiles]
        for records in range(low, high + 1):
            weight = math.comb(aim.size, records) if aim.ordered else 1
            weights[records] = weight * math.prod(way.of(records) for way in ways)
        return weights

    def count(self, level: int) -> int:
        return sum(self._weights(level))

    def sample(self, level: int, noise: NoiseSource) -> tuple[tuple[int, ...], ...]:
        records = choose(self._weights(level), noise)
        return tuple(tuple(profile.sample(level, records, noise)) for profile in self.profiles)

    def level(self, candidate: tuple[tuple[int, ...], ...]) -> int:
        scores = [
            profile.score(atoms) for profile, atoms in zip(self.profiles, candidate, strict=True)
        ]
        if self.inside is not None:
            gap = self.aim.size * self.inside - self.aim.rows * len(candidate[0])
            scores.append(self.aim.score(abs(gap)))
        return max(scores)
