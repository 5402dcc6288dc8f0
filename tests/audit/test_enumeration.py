"""Every registered mechanism keeps its claim, exactly, over all neighbours of a tiny universe."""

import itertools
import math
import sys
from contextlib import suppress
from fractions import Fraction

import attrs
import numpy as np
import pytest
from registry import (
    BIT,
    CASES,
    CELLS,
    COUNT,
    MANY,
    OF_TWO_ROWS,
    OPPOSING,
    PAIR,
    THREE,
    Case,
    gained,
    pure_program,
    together_noisy,
    tuned,
)

from dpsdk import Budget, Domain, Integer, Neighbors, Session
from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    PureGuarantee,
)
from dpsdk.data.vault import open_histogram
from dpsdk.errors import Closed, UnsupportedGuarantee
from dpsdk.forms import GapForm, LinearForm, Sensitivity
from dpsdk.forms.residuals import moves
from dpsdk.forms.steps import Steps
from dpsdk.kernel import Kernel, Watching, look, measure, residuals, select
from dpsdk.kernel.gaps import LinearGaps
from dpsdk.kernel.select import SelectPricing
from dpsdk.mechanisms import Gaussian, Laplace, SquareRoot, Tree
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric, NoiseSource
from dpsdk.testing import seeded
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
from dpsdk.testing.audit.enumeration import TAIL, TooManyPaths
from dpsdk.testing.audit.worst_case import renyi
from worlds import thinned

RELATIONS = list(Neighbors)


def cut(parameter, most):
    """The mass of tails that is left out, of each draw.

    No loss is seen that is larger than tails are unlikely.
    """
    return min(most, math.exp(-1.2 * parameter))


def runs_every_relation(case: Case) -> bool:
    """Some programs need a public number of rows."""
    return not case.name.startswith(("Laplace, mean", "one round of PMW", "public, "))


def tier_of(case: Case) -> pytest.MarkDecorator:
    return pytest.mark.audit if case.slow else pytest.mark.thorough


QUICK = {
    "Laplace, count", "Gaussian, weights", "residuals, a line", "select, a weighted row",
    "look, a table", "sparse vector", "proximal gap", "Euclidean, a marginal",
    "small database, any queries",
}  # fmt: skip
"""A program of each primitive, which every run enumerates over both relations."""

# Every other program over one relation by turns, at the last of its parameters, and in an audit all
# over both, deep into tails. A short tail spares a third of the values of each draw.
RUNS = [
    pytest.param(
        case,
        parameter,
        cut(parameter, most),
        relation,
        id=f"{case.name}-{parameter}{note}-{relation.value}",
        marks=tier,
    )
    for turn, case in enumerate((*CASES, *OF_TWO_ROWS))
    for of in [RELATIONS if runs_every_relation(case) else [Neighbors.REPLACE_ONE]]
    for parameters, most, relations, note, tier in (
        (case.parameters[-1:], 1e-9, of, "", ())
        if case.name in QUICK
        else (case.parameters[-1:], 1e-9, [of[turn % len(of)]], "", tier_of(case)),
        (case.parameters, TAIL, of, ", with its tails", pytest.mark.audit),
    )
    for parameter in parameters
    for relation in relations
]


def cells(data):
    """The private counts of each value, and that of the rows outside."""
    histogram = open_histogram(data)
    inside = [int(count) for count in histogram.table(("bit",))]
    return (*inside, histogram.rows - sum(inside))


def rows(data):
    return sum(cells(data))


@pytest.mark.parametrize(("case", "parameter", "tail", "relation"), RUNS)
def test_no_neighbours_exceed_the_claim(case, parameter, tail, relation, monkeypatch):
    if case.lattice is not None:
        monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", case.lattice)
    pairs = list(neighbours(case.domain, case.rows, relation, unit_rows=case.unit_rows))
    # What always fails would tell nothing, and pass. A sparse vector ends with its last top.
    with suppress(Closed):
        case.build(parameter)(pairs[0][0], seeded(0))
    report = audit(case.build(parameter), pairs, case.claim(parameter), tail=tail)
    assert report.passed, report
    assert report.pairs > 0


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("unit_rows", [1, 2])
@pytest.mark.parametrize(
    "epsilon", [pytest.param(Fraction(1, 4), marks=pytest.mark.audit), Fraction(1), Fraction(3)]
)
def test_the_worst_case_of_a_laplace_count_is_its_epsilon(epsilon, unit_rows):
    pairs = neighbours(BIT, 2, unit_rows=unit_rows)
    report = audit(pure_program(Laplace(epsilon), COUNT), pairs, PureGuarantee(epsilon))
    assert report.figure == pytest.approx(float(epsilon), rel=1e-9)


def ignored(one, setting):
    del setting
    return one


def not_squared(one, setting):
    factor = setting.unit_rows
    return Sensitivity(one.l1 * factor, one.l2_squared * factor, one.maximum * factor, one.exact)


def of_one_row(law):
    """What a watch would draw if a gap moved by one row at the most."""
    return lambda plan, facts, steps: law(plan, attrs.evolve(facts, unit_rows=1), steps)


def forgetting(move):
    """What a look would be priced by if a person had one row."""
    return lambda sizes, bits, setting: move(sizes, bits, attrs.evolve(setting, unit_rows=1))


def one_step(gaps, spans, setting, bits):
    """What a choice would be priced by if a score moved by one row at the most."""
    del gaps, spans, setting
    return 1 << bits


# By module, since the package has a function of the same name.
SENSITIVITY = sys.modules["dpsdk.forms.sensitivity"], "_of_unit"
BROKEN = {
    "measure, ignored": ("Laplace, count", *SENSITIVITY, ignored),
    "batch, ignored": ("Laplace, workload", *SENSITIVITY, ignored),
    "Gaussian, not squared": ("Gaussian, count", *SENSITIVITY, not_squared),
    "watch, its threshold": (
        "sparse vector", Watching, "threshold_noise", of_one_row(Watching.threshold_noise)
    ),
    "watch, its gaps": (
        "sparse vector", Watching, "query_noise", of_one_row(Watching.query_noise)
    ),
    "look, its rows": ("look, a table", look, "_move", forgetting(look._move)),
    "select, its rows": ("select, a row", select, "_move", one_step),
    "select, its marginals": ("select, a marginal", select, "_move", one_step),
}  # fmt: skip


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("name", BROKEN)
def test_a_primitive_that_forgets_the_rows_of_a_person_is_caught(name, monkeypatch):
    start, owner, attribute, wrong = BROKEN[name]
    case = next(case for case in OF_TWO_ROWS if case.name.startswith(start))
    pairs = neighbours(case.domain, case.rows, unit_rows=2)
    if case.lattice is not None:
        monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", case.lattice)
    monkeypatch.setattr(owner, attribute, wrong)
    parameter = case.parameters[0]
    measure._for_one.cache_clear()
    try:
        report = audit(case.build(parameter), pairs, case.claim(parameter))
    finally:
        measure._for_one.cache_clear()
    assert not report.passed, report
    assert report.figure > report.allowed * 1.1


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sparse vector, signed", "select, signed weights"])
def test_signed_gaps_that_are_priced_as_shares_are_caught(name, monkeypatch):
    (case,) = [case for case in CASES if case.name == name]
    if case.lattice is not None:
        monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", case.lattice)
    # A row of the units of others: the lattice holds it, once its own check is out of the way.
    monkeypatch.setattr(GapForm, "moved", lambda gap, facts: 1.0)
    monkeypatch.setattr("dpsdk.kernel.gaps._check_moved", lambda *given: None)
    parameter = case.parameters[0]
    report = audit(case.build(parameter), neighbours(case.domain, case.rows), case.claim(parameter))
    assert not report.passed, report
    assert report.figure > report.allowed * 1.1


BROKEN_LENGTHS = {
    "by the largest entry": lambda move: move.maximum**2,
    "a length rounded down": lambda move: Fraction(math.isqrt(math.floor(move.l2_squared)) ** 2),
    "of one table": lambda move: move.l2_squared / 4,
}


@pytest.mark.parametrize("name", BROKEN_LENGTHS)
def test_noise_by_too_short_a_length_is_caught(name, monkeypatch):
    right, length = measure._euclidean, BROKEN_LENGTHS[name]
    monkeypatch.setattr(
        measure,
        "_euclidean",
        lambda noise, move, rows: right(noise, attrs.evolve(move, l2_squared=length(move)), rows),
    )
    form, epsilon = CELLS.lower(BIT), Fraction(6)  # prices of a form are kept
    report = audit(together_noisy(form)(epsilon), neighbours(BIT, 1), PureGuarantee(epsilon))
    assert not report.passed, report
    assert report.figure > report.allowed * 1.1


def the_largest(self, noise, opened):
    """A choice that nobody paid for."""
    scores = self._gaps.scores(self._gaps.read(opened()))
    return int(np.argmax(scores.reshape(-1, 2).sum(axis=1)))


def among_those_that_are_off(self, noise, opened):
    """A choice whose options follow from the table."""
    scores = self._gaps.scores(self._gaps.read(opened())).reshape(-1, 2).sum(axis=1)
    candidates = np.flatnonzero(scores) if scores.any() else np.arange(len(scores))
    return int(candidates[noise.pick(-scores[candidates], self._rate)])


def in_floats(self, numbers):
    """Gaps as differences of floats that are far from nought, where these are eight rows apart."""
    far = 2**26 + 3
    gaps = np.float32(SCORES(self, numbers) / self.steps + far) - np.float32(far)
    return (gaps * self.steps).astype(np.int64)


SCORES = LinearGaps.scores

BROKEN_ROUNDS = {
    "unpaid": (SelectPricing, "run", the_largest),
    "only those that are off": (SelectPricing, "run", among_those_that_are_off),
    "sensitivity of one": (select, "_move", one_step),
    "scores in floats": (LinearGaps, "scores", in_floats),
}


BROKEN_GAPS = {
    "half of it": ("moved", lambda moved: lambda *given, **how: moved(*given, **how) / 2),
    "a score in other units": ("most", lambda most: lambda *given: 2 * most(*given)),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        "half of it",
        pytest.param("a score in other units", marks=pytest.mark.audit),
        pytest.param(None, marks=pytest.mark.audit),
    ],
)
def test_a_broken_proximal_gap_is_caught(name, monkeypatch):
    (case,) = [case for case in CASES if case.name == "proximal gaps"]
    (epsilon,) = case.parameters
    monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", case.lattice)
    if name is not None:
        method, wrong = BROKEN_GAPS[name]
        monkeypatch.setattr(Steps, method, wrong(getattr(Steps, method)))
    # Prices of forms are kept.
    gaps = [attrs.evolve(gap, gradient=LinearForm(BIT, gap.gradient.blocks)) for gap in OPPOSING]
    report = audit(
        gained(*gaps)(epsilon), neighbours(BIT, 2), case.claim(epsilon), tail=cut(epsilon, 1e-9)
    )
    assert report.passed is (name is None), report
    assert report.figure > report.allowed * (0.9 if name is None else 1.1)


def of_opposed_records():
    """Neighbours with two rows, each right about one of two marginals and wrong about the other."""
    for pair in neighbours(PAIR, 2):
        if all(open_histogram(x).table(PAIR.names).ravel()[1:3].sum() == 2 for x in pair):
            yield pair


@pytest.mark.thorough
@pytest.mark.parametrize("name", thinned([None, *BROKEN_ROUNDS], 2))
def test_a_broken_round_of_mwem_is_caught(name, monkeypatch):
    (case,) = [case for case in CASES if case.build is tuned]
    (epsilon,) = case.parameters
    if name is not None:
        monkeypatch.setattr(*BROKEN_ROUNDS[name])
    report = audit(case.build(epsilon), of_opposed_records(), case.claim(epsilon))
    assert report.pairs == 4
    assert report.passed is (name is None), report
    assert report.figure > report.allowed * (0.9 if name is None else 1.1)


class Silence(NoiseSource):
    """No noise at all, and a note of what was asked for."""

    def __init__(self):
        self.laws = []

    @property
    def private(self):
        return False

    def draw(self, law, size):
        self.laws.extend([law] * size)
        return np.zeros(size, dtype=np.int64)

    def _bits(self, count):
        raise AssertionError


def without_noise(mechanism, data, monkeypatch):
    """The numbers that are released, in steps, and the law of the noise that each would have."""
    released = []

    def run(kernel, *given):
        found = RUN(kernel, *given)
        released.extend(found.values / found.accuracy.step)
        return found

    source = Silence()
    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "run", run)
        Session(data, Budget(100, "0.1"), noise=source).open(mechanism)
    assert len(released) == len(source.laws)
    return np.array(released), source.laws


def loss(steps, law):
    """The worst log ratio of two discrete Laplace laws so far apart; of Gaussian ones their ρ."""
    if isinstance(law, DiscreteGaussian):
        return steps**2 / (2 * law.variance)
    return steps / law.scale


RUN = Kernel.run
FOUR = Domain(Integer("level", 0, 3))


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.value)
@pytest.mark.parametrize("domain", [THREE, FOUR], ids=["three leaves", "four leaves"])
@pytest.mark.parametrize(
    "mechanism",
    [
        Tree("level", epsilon=3, branching=2),
        Tree("level", rho=3, branching=2),
        SquareRoot("level", epsilon=3),
        SquareRoot("level", rho=3),
    ],
    ids=repr,
)
def test_what_all_nodes_tell_together_is_what_is_claimed(mechanism, domain, relation, monkeypatch):
    # Nodes have independent noise, so that what they tell adds up, exactly.
    worst = 0.0
    for one, other in neighbours(domain, 1, relation):
        numbers, laws = without_noise(mechanism, one, monkeypatch)
        others, same = without_noise(mechanism, other, monkeypatch)
        assert [str(law) for law in laws] == [str(law) for law in same]
        worst = max(worst, sum(map(loss, abs(numbers - others).tolist(), laws)))
    assert 1.5 < worst <= 3 * (1 + 1e-12)


def without_outside(*given, replace, outside):
    """The cell outside the domain, forgotten."""
    del outside
    return moves(*given, replace=replace, outside=False)


def as_added(*given, replace, outside):
    """What one more row moves, in place of one that is exchanged."""
    del replace
    return moves(*given, replace=False, outside=outside)


def in_rows(*given, replace, outside):
    """The length of a residual in rows, where integers of as many times that are measured."""
    found = moves(*given, replace=replace, outside=outside)
    return attrs.evolve(found, squared=-(-found.squared // 4), maximum=1)


BROKEN_RESIDUALS = {
    "the outside cell, forgotten": ("residuals, the total", without_outside),
    "a row that is added, for one that is exchanged": ("residuals, a line", as_added),
    "the number of cells, forgotten": ("residuals, a line", in_rows),
}


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("name", BROKEN_RESIDUALS)
def test_residuals_that_are_priced_too_low_are_caught(name, monkeypatch):
    start, wrong = BROKEN_RESIDUALS[name]
    case = next(case for case in CASES if case.name == start)
    monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", case.lattice)
    monkeypatch.setattr(residuals, "moves", wrong)
    report = audit(case.build(MANY), neighbours(case.domain, case.rows), case.claim(MANY))
    assert not report.passed, report


def test_a_total_of_the_true_rows_inside_is_caught(monkeypatch):
    case = next(case for case in CASES if case.name == "residuals, the total")
    monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", case.lattice)
    honest = case.build(MANY)

    def leaking(data, noise):
        return honest(data, noise), sum(cells(data)[:-1])

    report = audit(leaking, neighbours(case.domain, case.rows), case.claim(MANY))
    assert not report.passed, report


@pytest.mark.thorough
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.value)
def test_who_has_more_rows_than_declared_is_protected_in_proportion(relation):
    declared = neighbours(BIT, 2, relation, unit_rows=2)
    far = [
        tuple(next(t for t in tables(BIT, rows(x), relation) if cells(t) == cells(x)) for x in pair)
        for pair in declared
    ]
    assert all(x.facts.unit_rows == 1 for pair in far for x in pair)
    report = audit(pure_program(Laplace(2), COUNT), far, PureGuarantee(4))
    assert report.passed
    assert report.figure == pytest.approx(4, rel=1e-9)


SELECTIONS = [
    case
    for case in (*CASES, *OF_TWO_ROWS)
    # What two options have in common moves both of them.
    if case.name.startswith("select") and not case.name.endswith("overlapping")
]


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("case", SELECTIONS, ids=lambda case: case.name)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.value)
def test_a_choice_is_no_dearer_than_it_has_to_be(case, relation):
    pairs = neighbours(case.domain, case.rows, relation, unit_rows=case.unit_rows)
    report = audit(case.build(Fraction(1)), pairs, case.claim(Fraction(1)))
    # Rates in between, and options that cannot all move against each other, stay below the claim.
    assert report.figure > 0.37


def test_a_claim_a_thousandth_too_small_is_refuted():
    claim = PureGuarantee(Fraction(999, 1000))
    assert not audit(pure_program(Laplace(1), COUNT), neighbours(BIT, 2), claim).passed


def test_the_law_of_a_count_is_the_law_of_its_noise():
    data = next(iter(tables(BIT, 2)))
    law = enumerate_law(pure_program(Laplace(1), COUNT, outcome=float), data)
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
        [enumerate_law(pure_program(Laplace(1), COUNT), t, tail=1e-3) for t in pair]
        for pair in pairs
    ]
    assert max(worst_epsilon(one, other)[0] for one, other in laws) <= 1 + 1e-9


def test_longer_tails_take_fewer_paths_and_find_the_same():
    pairs = list(neighbours(BIT, 1))
    reports = [
        audit(pure_program(Laplace(1), COUNT), pairs, PureGuarantee(1), tail=tail)
        for tail in (1e-6, TAIL)
    ]
    assert reports[0].paths < reports[1].paths / 2
    assert [report.figure for report in reports] == pytest.approx([1, 1], rel=1e-4)


def test_a_program_is_charged_by_the_composition_that_it_is_given():
    data = next(iter(tables(BIT, 1)))
    with pytest.raises(UnsupportedGuarantee):
        pure_program(Gaussian(rho=1), COUNT)(data, seeded(1))
    assert program(Gaussian(rho=1), COUNT)(data, seeded(1))


def test_lost_mass_that_no_sum_shows_raises_no_false_alarm():
    pairs = list(neighbours(BIT, 1))
    laws = [enumerate_law(pure_program(Laplace(70), COUNT), t) for t in pairs[0]]
    for law in laws:
        assert 0 < law.lost < 1e-20
    assert worst_epsilon(*laws)[0] <= 70 * (1 + 1e-9)
    report = audit(pure_program(Laplace(70), COUNT), pairs, PureGuarantee(70))
    assert report.passed, report


def test_the_delta_curve_of_a_count_is_exact():
    one, other = (
        enumerate_law(pure_program(Laplace(1), COUNT), t) for t in next(iter(neighbours(BIT, 1)))
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
    laplace = pure_program(Laplace(1), COUNT)
    assert audit(laplace, pairs, BoundedRangeGuarantee(2)).passed
    assert not audit(laplace, pairs, BoundedRangeGuarantee(Fraction(19, 10))).passed


@pytest.mark.parametrize("unit_rows", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.value)
def test_neighbours_differ_in_all_rows_that_one_person_may_have(relation, unit_rows):
    found = [
        (cells(one), cells(other))
        for one, other in neighbours(BIT, 3, relation, unit_rows=unit_rows)
    ]
    assert len(found) == len(set(found))
    every = [counts for counts in itertools.product(range(4), repeat=3) if sum(counts) <= 3]
    expected = set()
    for one, other in itertools.permutations(every, 2):
        more = sum(max(b - a, 0) for a, b in zip(one, other, strict=True))
        less = sum(max(a - b, 0) for a, b in zip(one, other, strict=True))
        if relation is Neighbors.REPLACE_ONE:
            near = sum(one) == sum(other) == 3 and more <= unit_rows
        else:
            near = 3 in (sum(one), sum(other)) and not min(more, less)
            near = near and max(more, less) <= unit_rows
        if near:
            expected.add((one, other))
    assert set(found) == expected


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
