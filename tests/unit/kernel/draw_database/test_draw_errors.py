"""How far off small databases are, by their exact law, beside what is promised of all tables."""

import itertools
import math
from fractions import Fraction

import pytest
from plain_databases import tables, terms
from test_draw_structured import CASES, sampler, world

from dpsdk.kernel.draw_database.bounds import CellCoverage, Family
from dpsdk.kernel.draw_database.choose import recognised
from worlds import crossed

pytestmark = pytest.mark.thorough

BETA = 0.2


def errors(plain, table, *, of_intervals):
    """In rows, the largest error of each small database; of intervals, those between cuts."""
    columns, rows = plain.columns(), int(table.sum())
    counts = columns @ table[: plain.cells]
    found = {}
    for small in set(plain.databases()):
        sums = columns[:, list(small)].sum(axis=1)
        pairs = zip(counts.tolist(), sums.tolist(), strict=True)
        gaps = [0, *(f - Fraction(rows * g, plain.size) for f, g in pairs)]
        found[small] = max(gaps) - min(gaps) if of_intervals else max(map(abs, gaps))
    return found


@pytest.mark.parametrize(
    ("name", "kind"), crossed(CASES, itertools.product([False, True], repeat=2), 2)
)
def test_no_table_is_farther_off_than_promised(name, kind):
    outside, replaced = kind
    asked, kind, _ = CASES[name]
    for size, rows, epsilon in [(1, 4, 3), (2, 3, 8), (5, 3, 30)]:
        plain = world(name, size, outside=outside, replaced=replaced)
        if math.comb(plain.cells + size, size) > 700 or (plain.ordered and size > 3):
            continue
        given = terms(plain, rows, replaced=replaced, epsilon=Fraction(epsilon))
        drawn = recognised(asked, given)
        bound = drawn.bound.error(BETA)
        assert drawn.kind == sampler(name, given).kind == kind
        weight = Fraction(math.exp(-drawn.rate / drawn.grain))
        for table in list(tables(plain.domain.size + 1, rows))[::5]:
            if table[-1] and not outside:
                continue
            off = errors(plain, table, of_intervals=kind == "intervals")
            law = plain.law(table, weight)
            assert sum(mass for small, mass in law.items() if off[small] > bound) <= BETA


def test_one_row_less_could_not_be_promised():
    cells, rate = 6, Fraction(1, 2)
    family = Family(CellCoverage(cells), cells)
    far = family.excess(1, rate, BETA) + 1
    # All rows are in one cell, and so is one database of one record; the others are as far as that.
    beyond = (cells - 1) * math.exp(-rate * far)
    assert beyond / (1 + beyond) <= BETA
    nearer = (cells - 1) * math.exp(-rate * (far - 1))
    assert nearer / (1 + nearer) > BETA * 0.95
