"""Quantiles by `select`, enumerated: how far scores move, what comes out, and broken twins of both.

Scores and laws are worked out anew here, point by point, from the definition in the proof note.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.accounting.guarantee import BoundedRangeGuarantee
from dpsdk.data.vault import open_histogram
from dpsdk.forms import Crossing, Kronecker, Range
from dpsdk.kernel import Kernel, points
from dpsdk.testing.audit import audit, enumerate_law, neighbours

RELATIONS = tuple(Neighbors)
POINTS = 5
SHARES = [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]
TWO = Domain(Integer("level", 0, 1))
THREE = Domain(Integer("level", 0, 2))
EIGHT = Domain(Integer("level", 0, 7))
MASKED = Domain(Integer("level", 0, 1), Boolean("b"))
OUT = None
"""A row that does not count."""


def score(rows, x, q):
    """How far a point is below a quantile, in steps of 1 / b rows."""
    a, b = q.numerator, q.denominator
    counted = [row for row in rows if row is not OUT]
    up_to, below = sum(row <= x for row in counted), sum(row < x for row in counted)
    return -max(0, a * len(counted) - b * up_to, b * below - a * len(counted))


def moved(q, relation, unit_rows=1):
    a, b = q.numerator, q.denominator
    return (b if relation is Neighbors.REPLACE_ONE else max(a, b - a)) * unit_rows


def tables(rows):
    """All tables of so many rows, of which some do not count, whatever their order."""
    return itertools.combinations_with_replacement([*range(POINTS), POINTS], rows)


def near(rows, relation, unit_rows):
    """The neighbours of a table, by the rows that one person has of it or adds to it."""
    kept = Counter(rows)
    for mine in range(unit_rows + 1):
        for gone in set(itertools.combinations(rows, mine)):
            others = kept - Counter(gone)
            if relation is Neighbors.ADD_REMOVE:
                yield tuple(others.elements())
            else:
                for come in tables(mine):
                    yield tuple((others + Counter(come)).elements())


def read(rows):
    return [OUT if row == POINTS else row for row in rows]


@cache
def scores_of(rows, q):
    return np.array([score(read(rows), x, q) for x in range(POINTS)])


def law_of(rows, q, epsilon, move):
    weights = np.exp(scores_of(rows, q) * float(epsilon / (2 * move)))
    return np.log(weights / weights.sum())


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("q", SHARES)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda one: one.value)
@pytest.mark.parametrize("unit_rows", [1, 2])
def test_scores_move_by_what_is_paid_for_and_losses_stay_within(q, relation, unit_rows):
    move, epsilon = moved(q, relation, unit_rows), Fraction(1)
    farthest = loss = spread = 0
    for size in range(5):
        for rows in tables(size):
            first = law_of(rows, q, epsilon, move)
            for other in {tuple(sorted(one)) for one in near(rows, relation, unit_rows)}:
                moves = np.abs(scores_of(rows, q) - scores_of(other, q))
                losses = first - law_of(other, q, epsilon, move)
                farthest, loss = max(farthest, int(moves.max())), max(loss, np.abs(losses).max())
                spread = max(spread, float(losses.max() - losses.min()))
    assert farthest == move  # so that no smaller one would do
    assert 0.3 < loss <= 1 + 1e-12
    assert 0.5 < spread <= 1 + 1e-12


def crossing(domain, q, where=None):
    factors = {} if where is None else where
    return Crossing(domain, "level", q, Kronecker.of(domain, factors))


def choosing(asked, epsilon):
    def run(data, noise):
        odometer = Odometer(Budget(10**6), BasicComposition())
        return Kernel(data, odometer, noise, "select").select(asked, epsilon)

    return run


WHERE = {"b": Range(2, 1, 2)}
CASES = {
    "a median": (THREE, Fraction(1, 2), None, 3, 1),
    "a lower quantile": (TWO, Fraction(1, 4), None, 4, 1),
    "of two rows a person": (THREE, Fraction(1, 2), None, 4, 2),
    "of some rows": (MASKED, Fraction(1, 2), WHERE, 2, 1),
    "of a part of the values": (THREE, Fraction(1, 4), {"level": Range(3, 1, 3)}, 3, 1),
}


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda one: one.value)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(6)])
def test_no_neighbours_exceed_the_claim(name, relation, epsilon):
    domain, q, where, rows, unit_rows = CASES[name]
    program = choosing(crossing(domain, q, where), epsilon)
    pairs = neighbours(domain, rows, relation, unit_rows=unit_rows)
    report = audit(program, pairs, BoundedRangeGuarantee(epsilon))
    assert report.passed, report
    assert report.figure > 0.2 * float(epsilon)


def of_added_rows(q, facts):
    """What a row that comes moves, for one that is exchanged."""
    return max(q.numerator, q.denominator - q.numerator) * facts.unit_rows


def of_one_row(q, facts):
    return MOVE(q, facts) // facts.unit_rows


def twice(values, counts, q, cells):
    """Scores in steps of half of what is paid for."""
    starts, lengths, levels = RUNS(values, counts, q, cells)
    return starts, lengths, 2 * levels


def without_gaps(values, counts, q, cells):
    """Gaps of no row, dropped where nobody is next to them: so what may come out is private."""
    starts, lengths, levels = RUNS(values, counts, q, cells)
    lengths = lengths.copy()
    lengths[::2] = 0
    return starts, lengths if len(values) else RUNS(values, counts, q, cells)[1], levels


def one_too_many(values, counts, q, cells):
    """A cell of a gap counted twice, with the next value."""
    starts, lengths, levels = RUNS(values, counts, q, cells)
    return starts, lengths + (np.arange(len(lengths)) % 2 == 0), levels


MOVE, RUNS = points._move, points.runs_of
BROKEN = {
    "priced as added": ("_move", of_added_rows, "a median", Neighbors.REPLACE_ONE),
    "one row of two": ("_move", of_one_row, "of two rows a person", Neighbors.REPLACE_ONE),
    "twice the score": ("runs_of", twice, "a median", Neighbors.ADD_REMOVE),
    "gaps left out": ("runs_of", without_gaps, "a median", Neighbors.ADD_REMOVE),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_choice_is_caught(name, monkeypatch):
    attribute, wrong, case, relation = BROKEN[name]
    domain, q, where, rows, unit_rows = CASES[case]
    monkeypatch.setattr(points, attribute, wrong)
    program = choosing(crossing(domain, q, where), Fraction(6))
    pairs = neighbours(domain, rows, relation, unit_rows=unit_rows)
    report = audit(program, pairs, BoundedRangeGuarantee(6))
    assert not report.passed, report


def table_of(levels, relation=Neighbors.ADD_REMOVE):
    return PrivateData.from_columns({"level": levels}, EIGHT, neighbors=relation)


def pointwise(data, q, epsilon, move):
    """The law of the mechanism over single points."""
    counts = open_histogram(data).table(("level",))
    rows = [int(x) for x, count in enumerate(counts) for _ in range(int(count))]
    weights = [math.exp(float(epsilon * score(rows, x, q) / (2 * move))) for x in range(8)]
    return np.array(weights) / sum(weights)


def drawn(data, q, epsilon):
    law = enumerate_law(choosing(crossing(EIGHT, q), epsilon), data)
    assert law.lost < 1e-14
    found = np.zeros(8)
    for chosen, mass in law.masses.items():
        found[chosen] += float(mass)
    return found


TABLES = [[], [3], [0, 7], [2, 2, 5], [0, 0, 0, 6, 7], [4] * 5]


@pytest.mark.parametrize("levels", TABLES, ids=repr)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda one: one.value)
def test_the_law_of_runs_is_that_of_single_points(levels, relation):
    if not levels and relation is Neighbors.REPLACE_ONE:
        pytest.skip("there is no such table")
    data, epsilon = table_of(levels, relation), Fraction(3, 2)
    for q in SHARES:
        expected = pointwise(data, q, epsilon, moved(q, relation))
        np.testing.assert_allclose(drawn(data, q, epsilon), expected, rtol=1e-12)


def test_a_gap_with_a_point_too_many_is_seen(monkeypatch):
    monkeypatch.setattr(points, "runs_of", one_too_many)
    data, q, epsilon = table_of([2, 2, 5]), Fraction(1, 2), Fraction(3, 2)
    expected = pointwise(data, q, epsilon, moved(q, Neighbors.ADD_REMOVE))
    law = enumerate_law(choosing(crossing(EIGHT, q), epsilon), data)
    found = np.zeros(9)
    for chosen, mass in law.masses.items():
        found[chosen] += float(mass)
    assert np.abs(found[:8] - expected).max() > 0.01


def by_rank(values, counts, q, cells):
    """The distance of the rows at or below a cell from the share of all (Smith 2011)."""
    starts, lengths, _ = RUNS(values, counts, q, cells)
    up_to = np.repeat(np.concatenate([[0], np.cumsum(counts)]), 2)[1:]
    return starts, lengths, np.abs(q.denominator * up_to - q.numerator * int(counts.sum()))


def test_the_score_of_ranks_misses_a_median_with_ties(monkeypatch):
    # Seven of ten rows are 0, and by ranks no better than any value up to the next one.
    data, q = table_of([0] * 7 + [4] * 3), Fraction(1, 2)
    assert drawn(data, q, Fraction(9))[0] > 0.99
    monkeypatch.setattr(points, "runs_of", by_rank)
    found = drawn(data, q, Fraction(9))
    assert found[0] == pytest.approx(found[3])
    assert found[0] < 0.26
