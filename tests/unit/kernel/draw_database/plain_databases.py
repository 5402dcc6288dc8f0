"""Small databases written out one by one, by other code than the samplers': what they must match.

Cells of a universe are columns of 0/1 functions. A table and a small database are counts of cells.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from attrs import field, frozen
from scipy.stats import chi2

from dpsdk.data.histogram import Histogram
from dpsdk.domain import Domain
from dpsdk.forms import Facts, Neighbors
from dpsdk.kernel.draw_database.base import DrawTerms
from dpsdk.kernel.draw_database.structured import Structured

Small = tuple[int, ...]
"""The cells of a small database in order; the outside is the number after the last cell."""

Score = Callable[[Sequence[Fraction]], int]
"""From the gaps F - nG/m of all functions to a score in whole steps."""


def largest(gaps):
    """The score of most samplers: the largest gap, rounded up."""
    return math.ceil(max(map(abs, gaps), default=Fraction(0)))


@frozen(eq=False)
class World:
    """A domain, 0/1 functions of its cells, and the sizes that are asked for."""

    domain: Domain
    functions: np.ndarray
    size: int
    outside: bool
    ordered: bool = False
    score: Score = field(default=largest)

    @property
    def cells(self):
        return self.domain.size + self.outside

    def columns(self):
        """The functions on all cells, and on the one outside."""
        empty = np.zeros((len(self.functions), int(self.outside)), dtype=np.int64)
        return np.hstack([self.functions.astype(np.int64), empty])

    def atoms(self):
        """The first cell of each atom, and for each cell its atom."""
        columns = [tuple(column) for column in self.columns().T.tolist()]
        return [columns.index(column) for column in columns]

    def databases(self):
        """All of them, by the first cell of each atom; ordered ones come once for each order."""
        kinds = sorted(set(self.atoms()))
        if self.ordered:
            for chosen in itertools.product(kinds, repeat=self.size):
                yield tuple(sorted(chosen))
        else:
            yield from itertools.combinations_with_replacement(kinds, self.size)

    def scores(self, table):
        """The score of each, for counts of cells."""
        columns, rows = self.columns(), int(table.sum())
        counts = columns @ table[: self.cells]
        found = {}
        for small in set(self.databases()):
            ours = columns[:, list(small)].sum(axis=1)
            pairs = zip(counts.tolist(), ours.tolist(), strict=True)
            found[small] = self.score([f - Fraction(rows * g, self.size) for f, g in pairs])
        return found

    def weights(self):
        """How often each counts."""
        return Counter(self.databases())

    def law(self, table, weight):
        """The probability of each, if a score larger by a step weighs so much less."""
        base, scores = self.weights(), self.scores(table)
        masses = {small: base[small] * weight ** scores[small] for small in base}
        total = sum(masses.values())
        return {small: mass / total for small, mass in masses.items()}

    def counts(self, table, worst):
        """How many weigh in at each level or below, from level 0 to the worst."""
        base, scores = self.weights(), self.scores(table)
        return [sum(base[y] for y in base if scores[y] <= t) for t in range(worst + 1)]

    def smalls(self, codes):
        """What a sampler's records are here."""
        atoms = self.atoms()
        outside = self.domain.size
        cells = [
            outside if row[0] < 0 else int(np.ravel_multi_index(tuple(row), self.domain.shape))
            for row in codes
        ]
        return tuple(sorted(atoms[cell] for cell in cells))


def histogram(domain, table):
    """A private histogram of counts of cells, the outside last."""
    grid = np.indices(domain.shape).reshape(len(domain.shape), -1)
    codes = dict(zip(domain.names, grid, strict=True))
    return Histogram(domain, codes, table[:-1].astype(np.float64), int(table[-1]))


def setting(domain, rows, *, replaced, outside, unit_rows=1):
    """The public facts of a table."""
    known = rows if replaced else None
    relation = Neighbors.REPLACE_ONE if replaced else Neighbors.ADD_REMOVE
    return Facts(domain, relation, known, outside, rows, unit_rows)


def terms(world, rows, *, replaced=True, epsilon=Fraction(1)):
    """The terms of a draw."""
    facts = setting(world.domain, rows, replaced=replaced, outside=world.outside)
    return DrawTerms(world.size, epsilon, facts)


def levels(sampler, private):
    """What a sampler counts, in whole steps of its score."""
    assert isinstance(sampler, Structured)
    return sampler.levels(private)


def tables(cells, rows):
    """All tables of so many rows, the outside being the last cell."""
    for chosen in itertools.combinations_with_replacement(range(cells), rows):
        yield np.bincount(np.array(chosen, dtype=np.int64), minlength=cells)


def neighbours(world, rows, *, replaced):
    """All pairs of tables, of which the first has so many rows, that must not be told apart."""
    places = [*range(world.domain.size), *([world.domain.size] if world.outside else [])]
    for table in tables(world.domain.size + 1, rows):
        if table[-1] and not world.outside:
            continue
        for source in np.flatnonzero(table):
            fewer = table.copy()
            fewer[source] -= 1
            if not replaced:
                yield table, fewer
                yield fewer, table
                continue
            for target in places:
                if target != source:
                    other = fewer.copy()
                    other[target] += 1
                    yield table, other


def p_value(observed, law):
    """Pearson's, of draws against a law; cells that expect fewer than five are one."""
    total = sum(observed.values())
    assert set(observed) <= set(law)
    often = [y for y in law if law[y] * total >= 5]
    pairs = [(observed[y], law[y] * total) for y in often]
    rest = total - sum(seen for seen, _ in pairs), total - sum(mass for _, mass in pairs)
    if rest[1] >= 5:
        pairs.append(rest)
    statistic = sum((seen - mass) ** 2 / mass for seen, mass in pairs)
    return float(chi2.sf(statistic, len(pairs) - 1))
