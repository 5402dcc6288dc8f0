"""Covering radii, bounds and sizes: never better than what is true, and tight where they say so."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk.errors import InvalidArgument
from dpsdk.kernel.draw_database.bounds import (
    AnyCoverage,
    CellCoverage,
    Family,
    IntervalCoverage,
    MarginalCoverage,
    ThresholdCoverage,
    size_for,
    theorem_alpha,
    theorem_rows,
)

pytestmark = pytest.mark.thorough


def compositions(cells, total):
    """All counts of `total` records in `cells` cells."""
    for cuts in itertools.combinations(range(total + cells - 1), cells - 1):
        ends = [-1, *cuts, total + cells - 1]
        yield [ends[i + 1] - ends[i] - 1 for i in range(cells)]


def covering_radius(weights, rows, size):
    """Exactly: the worst table of so many rows, by the best database for it."""
    weights = np.array(weights, dtype=object)
    tables = np.array(list(compositions(weights.shape[1], rows)), dtype=object)
    databases = np.array(list(compositions(weights.shape[1], size)), dtype=object)
    answers, sums = size * (tables @ weights.T), rows * (databases @ weights.T)
    worst = max(min(abs(own - sums).max(axis=1)) for own in answers)
    return Fraction(worst, rows * size)


def thresholds(cells):
    return [[int(x <= t) for x in range(cells)] for t in range(cells)]


def intervals(cells):
    pairs = itertools.combinations(range(cells + 1), 2)
    return [[int(low <= x < high) for x in range(cells)] for low, high in pairs]


def cells(number):
    return np.eye(number, dtype=int).tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_classes_are_covered_as_closely_as_claimed(size, number):
    for rows in (1, 4, 7, 12):
        assert covering_radius(thresholds(number), rows, size) <= ThresholdCoverage().radius(size)
        assert covering_radius(intervals(number), rows, size) <= IntervalCoverage().radius(size)
        assert covering_radius(cells(number), rows, size) <= CellCoverage(number).radius(size)
    # Some tables come as far away as that.
    assert covering_radius(thresholds(number), 2 * size, size) == ThresholdCoverage().radius(size)
    if size % number == 1:
        assert covering_radius(cells(number), number, size) == CellCoverage(number).radius(size)


@pytest.mark.parametrize("outside", [True, False])
def test_several_attributes_are_covered_at_once(outside):
    pairs = list(itertools.product(range(2), range(3)))
    for part, other in itertools.product("ct", repeat=2):
        weights = [[int(a == v if part == "c" else a <= v) for a, _ in pairs] for v in range(2)]
        weights += [[int(b == v if other == "c" else b <= v) for _, b in pairs] for v in range(3)]
        weights = [row + [0] * outside for row in weights]
        parts = (
            CellCoverage(2) if part == "c" else ThresholdCoverage(),
            CellCoverage(3) if other == "c" else ThresholdCoverage(),
        )
        for rows, size in ((3, 1), (4, 2), (5, 2), (3, 3)):
            found = covering_radius(weights, rows, size)
            assert found <= MarginalCoverage(parts, outside=outside).radius(size)


@pytest.mark.parametrize("seed", range(25))
def test_any_functions_are_covered_as_closely_as_claimed(seed):
    rng = np.random.default_rng(seed)
    functions, atoms = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    weights = rng.integers(0, 2 if seed % 2 else 8, (functions, atoms))
    widest = int((weights.max(axis=1) - weights.min(axis=1)).max())
    for rows, size in ((4, 1), (7, 2), (6, 4), (5, 3)):
        claimed = AnyCoverage(functions, atoms).radius(size)
        assert covering_radius(weights.tolist(), rows, size) <= claimed * max(widest, 1)


@pytest.mark.parametrize(
    "coverage", [ThresholdCoverage(), IntervalCoverage(), CellCoverage(9), AnyCoverage(50, 1000)]
)
def test_a_radius_never_grows_with_the_size(coverage):
    radii = [coverage.radius(size) for size in range(1, 300)]
    assert radii == sorted(radii, reverse=True)
    assert all(0 < radius <= 1 for radius in radii)


def test_functions_that_do_not_vary_need_no_records():
    assert AnyCoverage(0, 7).radius(1) == 0
    assert AnyCoverage(3, 1).radius(1) == 0


def test_sizes_are_those_of_the_corrected_lemma_and_of_the_classes():
    assert size_for("0.05", ThresholdCoverage()) == 10
    assert size_for("0.03", ThresholdCoverage()) == 17
    assert size_for("0.05", IntervalCoverage()) == 20
    # Lemma 4.3 has ln(k) / alpha², which is not whole, and 0 for one function.
    assert size_for("0.05", AnyCoverage(10**6, 10**9)) == math.ceil(math.log(2e6) / (2 * 0.0025))
    assert size_for(1, AnyCoverage(1, 2)) == 1


@pytest.mark.parametrize("alpha", [0, -1, "1.5", "1e-9", math.nan])
def test_a_share_that_no_size_reaches_is_refused(alpha):
    with pytest.raises(InvalidArgument, match="alpha"):
        size_for(alpha, IntervalCoverage())


@pytest.mark.parametrize("atoms", [1, 2, 7, 1000, 2**62, 10**400])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_candidates_are_counted_from_above_and_closely(atoms, size):
    for ordered in (True, False):
        family = Family(ThresholdCoverage(), atoms, ordered)
        exact = atoms**size if ordered else math.comb(atoms + size - 1, size)
        found = family.log_candidates(size)
        # One more, since the logarithm of an integer is off by one unit in the last place.
        assert math.log(exact) * (1 - 1e-15) <= found <= math.log(exact) * (1 + 1e-12) + 1e-300


@pytest.mark.parametrize("size", [0, -1, 2**20 + 1, 2**63, 1.5])
def test_sizes_are_bounded_before_anything_is_worked_out(size):
    with pytest.raises(InvalidArgument, match="size"):
        Family(ThresholdCoverage(), 9).log_candidates(size)


@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-9])
@pytest.mark.parametrize("epsilon", ["0.1", 1, 20])
def test_the_excess_is_the_least_that_holds_for_every_table(beta, epsilon):
    family, rate = Family(ThresholdCoverage(), 6), Fraction(epsilon) / 2
    size = 4
    number = math.comb(9, 4)
    excess = family.excess(size, rate, beta)

    def bad(above):
        """The chance of the worst case: one database is best, and all others are that far above."""
        weight = (number - 1) * math.exp(-rate * above)
        return weight / (1 + weight)

    assert bad(excess + 1) <= beta * (1 + 1e-9)
    # No smaller whole number is proven, but for the one database that |R| counts too many.
    assert excess == 0 or bad(excess) * number / (number - 1) > beta * (1 - 1e-6)


def draw_law(weights, counts, size, rate):
    """Chances of all databases, with the largest error of each, in rows."""
    rows = sum(counts)
    answers = [sum(w * c for w, c in zip(row, counts, strict=True)) for row in weights]
    gaps = []
    for database in compositions(len(counts), size):
        sums = [sum(w * c for w, c in zip(row, database, strict=True)) for row in weights]
        gaps.append(max(abs(size * f - rows * g) for f, g in zip(answers, sums, strict=True)))
    chances = np.array([math.exp(-rate * -(-gap // size)) for gap in gaps])
    return chances / chances.sum(), [Fraction(gap, size) for gap in gaps]


@pytest.mark.parametrize("beta", [0.3, 0.05])
@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(2)])
@pytest.mark.parametrize(
    ("weights", "coverage"),
    [
        (thresholds(3), ThresholdCoverage()),
        (intervals(3), IntervalCoverage()),
        (cells(3), CellCoverage(3)),
    ],
)
def test_errors_stay_within_the_bound_for_every_table(weights, coverage, rate, beta):
    family, rows = Family(coverage, 3), 6
    for size in (1, 2, 4):
        bound = family.error(size, rate, rows, beta)
        for counts in compositions(3, rows):
            chances, errors = draw_law(weights, counts, size, rate)
            beyond = sum(c for c, e in zip(chances, errors, strict=True) if e > bound)
            assert beyond <= beta


def test_a_bound_from_the_scores_of_a_table_would_tell_it_from_its_neighbour():
    """The canary: sharper, and private. What is stated is the same for both tables."""
    rate, beta = Fraction(1, 2), 0.05

    def from_scores(counts):
        chances, errors = draw_law(thresholds(3), counts, 2, rate)
        order = np.argsort([float(error) for error in errors])
        within = np.cumsum(chances[order])
        return errors[order[int(np.searchsorted(within, 1 - beta))]]

    assert from_scores([6, 0, 0]) != from_scores([5, 1, 0])
    family = Family(ThresholdCoverage(), 3)
    assert family.error(2, rate, 6, beta) >= max(from_scores([6, 0, 0]), from_scores([5, 1, 0]))


@pytest.mark.parametrize(
    "family",
    [
        Family(ThresholdCoverage(), 1024),
        Family(IntervalCoverage(), 1024, rounding=Fraction(2)),
        Family(MarginalCoverage((CellCoverage(10), CellCoverage(10))), 100, ordered=True),
        Family(AnyCoverage(20, 500), 500),
        Family(AnyCoverage(2, 4), 4),
    ],
)
@pytest.mark.parametrize("rows", [10, 1000, 10**5])
def test_the_best_size_is_as_good_as_any(family, rows):
    rate = Fraction(1, 2)
    size = family.best_size(rate, rows, 0.05, most=2000)
    found = family.error(size, rate, rows, 0.05)
    every = [family.error(m, rate, rows, 0.05) for m in range(1, 2001)]
    assert found <= min(every) * 1.002 + 1


@pytest.mark.parametrize("functions", [1, 2, 100, 10**6])
@pytest.mark.parametrize("universe", [2, 1000, 2**62])
@pytest.mark.parametrize("alpha", ["1", "0.3", "0.01"])
@pytest.mark.parametrize("epsilon", ["0.1", 5])
def test_theorem_4_5_promises_no_more_than_the_bound_gives(functions, universe, alpha, epsilon):
    beta = 0.05
    rows = math.ceil(theorem_rows(alpha, beta, epsilon, functions=functions, universe=universe))
    size = math.ceil(2 * math.log(2 * functions) / Fraction(alpha) ** 2)
    family = Family(AnyCoverage(functions, universe), universe)
    error = family.error(size, Fraction(epsilon) / 2, rows, beta)
    assert error <= Fraction(alpha) * rows
    back = theorem_alpha(rows, beta, epsilon, functions=functions, universe=universe)
    public = {"functions": functions, "universe": universe}
    assert theorem_rows(back, beta, epsilon, **public) <= rows or back == 1
    assert theorem_rows(back * Fraction(999, 1000), beta, epsilon, **public) > rows
    assert back <= Fraction(alpha) * Fraction(1001, 1000)


def test_the_printed_theorem_asks_for_more_rows_but_for_what_it_leaves_out():
    printed = (16 * math.log(1024) * math.log(1000) + 4 * math.log(20)) / 0.1**3
    assert theorem_rows("0.1", 0.05, 1, functions=1000, universe=1024) < printed
    # Where all is a matter of one function, it promises an error that nothing bounds.
    assert theorem_rows("0.5", 0.05, 1, functions=1, universe=1024) > 4 * math.log(20) / 0.5**3


@pytest.mark.parametrize(
    "arguments",
    [
        {"alpha": 0}, {"alpha": 2}, {"beta": 1.0}, {"epsilon": -1}, {"functions": 0},
        {"universe": 0}, {"universe": 2.5},
    ],
)  # fmt: skip
def test_arguments_of_the_theorem_are_checked(arguments):
    given = {"alpha": "0.1", "beta": 0.05, "epsilon": 1, "functions": 5, "universe": 9} | arguments
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        theorem_rows(
            given["alpha"],
            given["beta"],
            given["epsilon"],
            functions=given["functions"],
            universe=given["universe"],
        )
