"""Every registered mechanism keeps its claim, exactly, over all neighbours of a tiny universe."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from registry import BIT, CASES, COUNT, THREE, Case

from dpsdk import Neighbors
from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    PureGuarantee,
)
from dpsdk.mechanisms import Laplace
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from dpsdk.testing.audit import (
    BranchingNoise,
    audit,
    delta_at,
    enumerate_law,
    neighbours,
    program,
    tables,
    worst_epsilon,
)
from dpsdk.testing.audit.enumeration import TooManyPaths
from dpsdk.testing.audit.worst_case import renyi

RELATIONS = list(Neighbors)
RUNS = [(case, parameter) for case in CASES for parameter in case.parameters]


def runs_every_relation(case: Case, relation: Neighbors) -> bool:
    """Some programs need a public number of rows."""
    public = case.name in {"Laplace, mean", "one round of PMW"}
    return not public or relation is Neighbors.REPLACE_ONE


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.value)
@pytest.mark.parametrize(("case", "parameter"), RUNS, ids=lambda x: getattr(x, "name", str(x)))
def test_no_neighbours_exceed_the_claim(case, parameter, relation, monkeypatch):
    if not runs_every_relation(case, relation):
        return
    if case.lattice is not None:
        monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", case.lattice)
    pairs = neighbours(case.domain, case.rows, relation)
    report = audit(case.build(parameter), pairs, case.claim(parameter))
    assert report.passed, report
    assert report.pairs > 0


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)])
def test_the_worst_case_of_a_laplace_count_is_its_epsilon(epsilon):
    report = audit(program(Laplace(epsilon), COUNT), neighbours(BIT, 2), PureGuarantee(epsilon))
    assert report.figure == pytest.approx(float(epsilon), rel=1e-9)


def test_a_claim_a_thousandth_too_small_is_refuted():
    claim = PureGuarantee(Fraction(999, 1000))
    assert not audit(program(Laplace(1), COUNT), neighbours(BIT, 2), claim).passed


def test_the_law_of_a_count_is_the_law_of_its_noise():
    data = next(iter(tables(BIT, 2)))
    law = enumerate_law(program(Laplace(1), COUNT, outcome=float), data)
    noise = DiscreteLaplace(1)
    assert sum(law.masses.values()) + law.lost == pytest.approx(1, abs=1e-14)
    for radius in range(6):
        beyond = sum(mass for (value,), mass in law.masses.items() if abs(value) > radius)
        assert beyond == pytest.approx(noise.tail(radius), rel=1e-9)


@pytest.mark.parametrize("law", [DiscreteLaplace(2), DiscreteGaussian(3), Geometric(2)])
@pytest.mark.parametrize("level", [-4, -1, 0, 1, 2, 7])
def test_a_comparison_branches_as_the_values_do(law, level):
    data = next(iter(tables(BIT, 1)))
    levels = np.array([level])
    by_value = enumerate_law(lambda _, noise: bool(noise.draw(law, 1)[0] >= level), data)
    lazily = enumerate_law(lambda _, noise: bool(noise.reaches(law, levels)[0]), data)
    assert lazily.paths <= 2
    for outcome in (True, False):
        assert lazily.masses.get(outcome, 0.0) == pytest.approx(
            by_value.masses.get(outcome, 0.0), abs=1e-11
        )


def test_all_paths_are_taken_once():
    data = next(iter(tables(BIT, 1)))

    def tree(_, noise):
        first = noise.uniform_below(3)
        return first, tuple(noise.uniform_below(2) for _ in range(first))

    law = enumerate_law(tree, data)
    assert law.paths == 1 + 2 + 4
    assert law.masses[2, (1, 0)] == pytest.approx(1 / 12)


def test_coins_branch_with_their_exact_chance():
    data = next(iter(tables(BIT, 1)))
    law = enumerate_law(lambda _, noise: noise.bernoulli_exp(Fraction(1, 3)), data)
    assert law.masses[True] == pytest.approx(math.exp(-1 / 3))
    assert law.paths == 2


def test_an_exception_is_an_outcome():
    data = next(iter(tables(BIT, 1)))

    def fails(_, noise):
        message = "on heads"
        if noise.uniform_below(2):
            raise ValueError(message)
        return "tails"

    law = enumerate_law(fails, data)
    assert law.masses == {"tails": 0.5, ("ValueError", "on heads"): 0.5}


def test_too_large_a_tree_is_refused():
    data = next(iter(tables(BIT, 1)))
    with pytest.raises(TooManyPaths):
        enumerate_law(lambda _, noise: noise.uniform_below(2000), data, limit=1000)
    with pytest.raises(TooManyPaths):
        enumerate_law(lambda _, noise: noise.uniform_below(10**6), data)
    with pytest.raises(TooManyPaths):
        enumerate_law(lambda _, noise: int(noise.draw(DiscreteLaplace(10**6), 1)[0]), data)


def test_raw_bytes_cannot_be_enumerated():
    with pytest.raises(TooManyPaths):
        BranchingNoise()._bits(8)


def test_lost_mass_raises_no_false_alarm():
    pairs = list(neighbours(BIT, 1))
    laws = [
        [enumerate_law(program(Laplace(1), COUNT), t, tail=1e-3) for t in pair] for pair in pairs
    ]
    assert max(worst_epsilon(one, other)[0] for one, other in laws) <= 1 + 1e-9


def test_the_delta_curve_of_a_count_is_exact():
    one, other = (
        enumerate_law(program(Laplace(1), COUNT), t) for t in next(iter(neighbours(BIT, 1)))
    )
    for epsilon in (0.0, 0.5, 0.9):
        low, high = delta_at(one, other, epsilon)
        # Two discrete Laplace laws one step apart: the sum over one tail, in closed form.
        q = math.exp(-1)
        expected = (1 - math.exp(epsilon) * q) / (1 + q)
        assert low == pytest.approx(expected, abs=1e-11)
        assert low <= high <= low + 1e-10
    assert delta_at(one, other, 1.0)[0] == pytest.approx(0, abs=1e-12)


def test_renyi_divergences_of_a_gaussian_count_stay_below_its_rho():
    from dpsdk.mechanisms import Gaussian

    run = program(Gaussian(rho=Fraction(1, 8)), COUNT)
    one, other = (enumerate_law(run, table) for table in next(iter(neighbours(BIT, 1))))
    for order in (1.001, 2.0, 8.0):
        assert renyi(one, other, order) <= order / 8 * (1 + 1e-9)
        assert renyi(one, other, order) >= order / 8 * 0.99


def test_a_leak_and_a_bounded_range_are_held_against_their_own_figures():
    pairs = list(neighbours(BIT, 1))

    def leaking(data, noise):
        return "leak" if noise.uniform_below(100) == 0 and data is pairs[0][0] else "nothing"

    assert audit(leaking, pairs, ApproximateGuarantee(0, Fraction(1, 100))).passed
    assert not audit(leaking, pairs, ApproximateGuarantee(0, Fraction(1, 101))).passed
    laplace = program(Laplace(1), COUNT)
    assert audit(laplace, pairs, BoundedRangeGuarantee(2)).passed
    assert not audit(laplace, pairs, BoundedRangeGuarantee(Fraction(19, 10))).passed


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.value)
def test_neighbours_are_all_and_only_neighbours(relation):
    rows = 2
    pairs = list(neighbours(THREE, rows, relation))
    cells = THREE.size + 1
    larger = math.comb(cells + rows - 1, rows)
    smaller = math.comb(cells + rows - 2, rows - 1)
    if relation is Neighbors.ADD_REMOVE:
        assert len(pairs) == 2 * smaller * cells
    else:
        # Take a row away from a table of two, and put another kind back: every table of one row
        # can be extended in `cells` ways, and any two of these are neighbours.
        assert len(pairs) == smaller * cells * (cells - 1)
        assert larger == len({id(table) for pair in pairs for table in pair})
