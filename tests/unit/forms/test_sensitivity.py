import itertools
import sys
import time
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest
from random_forms import random_form

from dpsdk import Domain, Integer, Neighbors
from dpsdk.errors import InvalidArgument
from dpsdk.forms import (
    Boxes,
    Dense,
    Facts,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Prefix,
    Range,
    Weights,
    diameter,
    factors,
    search,
    sensitivity,
)
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Terms
from worlds import crossed, facts, moves, weights

# The package has a function of the module's name.
module = sys.modules["dpsdk.forms.sensitivity"]
RELATIONS = list(itertools.product(Neighbors, [True, False]))


def limited(monkeypatch, name, value):
    """A limit of the search, in all modules that know of it."""
    holders = [one for one in (module, search, factors, diameter) if hasattr(one, name)]
    assert holders
    for one in holders:
        monkeypatch.setattr(one, name, value)


def compare(form, neighbors, outside):
    """Whether the sensitivity is marked exact; fails where it is not what it claims to be."""
    of = facts(form.domain, neighbors, outside=outside)
    found = sensitivity(form, of)
    l1, l2, top = moves(weights(form), of)
    assert found.l1 >= l1
    assert found.l2_squared >= l2
    assert found.maximum >= top
    if found.exact:
        assert (found.l1, found.l2_squared, found.maximum) == (l1, l2, top)
    return found.exact


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_small_whole_forms_have_exact_sensitivities(neighbors, outside):
    for seed in range(100):
        form = random_form(np.random.default_rng(seed))
        assert compare(form, neighbors, outside), form


UNSEEN = {"LOOK_STEPS": 2**40, "WRITTEN_LIMIT": 0, "_FEWEST": 2**7}
SHORT = {"PAIR_LIMIT": 0, "SIGN_LIMIT": 0, "_BATCH": 1, "_FIRST": 1, "_SAMPLE": 1, "_CALL": 1}
SHORT |= {"_ROUNDS": 1, "_FEWEST": 2**7}
LIMITS = {
    "clusters": {"SPAN_LIMIT": 6},
    "by rows": {"SPAN_LIMIT": 0},
    "pair bounds only": {"WEIGHT_LIMIT": 1, **UNSEEN},
    "a few pairs": {"PAIR_LIMIT": 3, **UNSEEN},
    "little work": {"WORK_LIMIT": 40, "_WRITTEN_WORK": 40, **UNSEEN},
    "a few pairs from a point": {"PAIR_LIMIT": 3, "LOOK_STEPS": 2**40, "WRITTEN_LIMIT": 0},
    "clusters and few pairs": {"SPAN_LIMIT": 6, "PAIR_LIMIT": 2},
    "no comparisons": {**SHORT, "PRODUCT_LIMIT": 0, "DIFFERENCE_LIMIT": 0},
    "few columns held": {**SHORT, "KEPT_LIMIT": 1},
}


@pytest.mark.thorough
@pytest.mark.parametrize("limits", [{"PAIR_LIMIT": 0, "_FEWEST": 2**7}, SHORT])
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_sensitivities_are_exact_where_few_columns_are_compared(
    limits, neighbors, outside, monkeypatch
):
    for limit, value in limits.items():
        limited(monkeypatch, limit, value)
    for seed in range(60):
        assert compare(random_form(np.random.default_rng(seed)), neighbors, outside), seed


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(("name", "relation"), crossed(LIMITS, RELATIONS, 2))
def test_beyond_the_limits_of_search_sensitivities_are_upper_bounds(name, relation, monkeypatch):
    neighbors, outside = relation
    for limit, value in LIMITS[name].items():
        limited(monkeypatch, limit, value)
    marks = {compare(random_form(np.random.default_rng(s)), neighbors, outside) for s in range(40)}
    # Some forms are exact by their structure whatever the limits; but the branch was reached.
    assert False in marks or (
        neighbors is Neighbors.ADD_REMOVE and "SPAN_LIMIT" not in LIMITS[name]
    )


def random_counts(rng, domain):
    """A form of zeros and ones: boxes, products of ranges, lines with gaps."""
    blocks = []
    for kind in rng.integers(0, 3, 3):
        names = tuple(name for name in domain.names if rng.random() < 0.7) or domain.names[:1]
        sizes = [domain[name].size for name in names]
        ends = np.stack([rng.integers(0, size + 1, (2, 12)) for size in sizes], axis=1)
        starts, stops = np.sort(ends, axis=0)
        if kind == 0:
            blocks.append(Boxes(names, sizes, starts, stops, np.ones(12)))
        elif kind == 1:
            blocks.append(Kronecker(names, [Prefix(size) for size in sizes]))
        else:
            lines = [Weights(rng.integers(0, 2, (1, size))) for size in sizes]
            blocks.append(Kronecker(names, lines))
    return LinearForm(domain, blocks)


@pytest.mark.parametrize("seed", range(30))
def test_columns_seen_from_a_point_bound_all_pairs(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    limited(monkeypatch, "PAIR_LIMIT", int(rng.integers(1, 20)))
    domain = Domain(*(Integer(name, 1, int(rng.integers(1, 7))) for name in "abc"))
    form = random_counts(rng, domain)
    for neighbors, outside in RELATIONS:
        compare(form, neighbors, outside)


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_columns_that_are_all_alike_are_far_from_that_of_the_outside(pairs, monkeypatch):
    limited(monkeypatch, "PAIR_LIMIT", pairs)
    domain, ends = Domain(Integer("a", 0, 4)), np.zeros((1, 9), dtype=np.int64)
    stops = ends + 5
    stops[0, 0] = 4
    form = LinearForm(domain, [Boxes(domain.names, domain.shape, ends, stops, np.ones(9))])
    for neighbors, outside in RELATIONS:
        compare(form, neighbors, outside)


@pytest.mark.parametrize("sizes", [(30, 50), (74, 99)])
def test_a_thousand_rectangles_are_searched_exactly_and_soon(sizes):
    """Their price took two seconds."""
    domain = Domain(Integer("a", 0, sizes[0] - 1), Integer("b", 0, sizes[1] - 1))
    rng = np.random.default_rng(1)
    low, high = np.sort(rng.integers(0, [[sizes[0]], [sizes[1]]], (2, 2, 1000)), axis=0)
    form = LinearForm(domain, [Boxes(domain.names, domain.shape, low, high + 1, np.ones(1000))])
    begin = time.process_time()
    found = sensitivity(form, facts(domain, outside=False))
    assert time.process_time() - begin < 0.5  # on busy machines, and by two threads
    assert found.exact
    if sizes == (30, 50):
        columns = form.blocks[0].written().weights.astype(np.float32)
        norms = columns.sum(axis=0)
        apart = norms[:, None] + norms - 2 * columns.T @ columns
        assert found.l1 == found.l2_squared == apart.max()


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_marginals_are_exact_without_a_search(neighbors, outside, monkeypatch):
    monkeypatch.setattr(module, "SPAN_LIMIT", 0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        domain = Domain(*(Integer(f"a{i}", 0, int(rng.integers(1, 4))) for i in range(3)))
        chosen = [[n for n in domain.names if rng.random() < 0.5] for _ in range(seed % 5 + 1)]
        blocks = [
            Kronecker.of(domain, {n: Identity(domain[n].size) for n in names}) for names in chosen
        ]
        form = LinearForm(domain, blocks)
        assert compare(form, neighbors, outside), form


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_marginals_under_a_condition_are_exact_without_a_search(neighbors, outside, monkeypatch):
    monkeypatch.setattr(module, "SPAN_LIMIT", 0)
    domain = Domain(Integer("a", 0, 2), Integer("b", 0, 3), Integer("c", 0, 1))
    conditions = [
        Range(4, 1, 3), Range(4, 2, 2), Range(4, 0, 4), Weights([[1, 0, 3, 2]]), Weights([[2] * 4]),
    ]  # fmt: skip
    for condition, scale in itertools.product(conditions, [0.0, 1.0, 3.0]):
        block = Kronecker(("a", "b"), (Identity(3), condition), scale)
        assert compare(LinearForm(domain, [block]), neighbors, outside), block


@pytest.mark.parametrize("scale", [1.0, -2.0])
@pytest.mark.parametrize(
    "condition", [Weights([[-1, 0, 3]]), Weights([[1, 0, 0], [0, 2, 1]]), Prefix(3)]
)
def test_signed_or_many_rowed_conditions_are_not_taken_for_masks(condition, scale, monkeypatch):
    domain = Domain(Integer("a", 0, 1), Integer("b", 0, 2))
    form = LinearForm(domain, [Kronecker(("a", "b"), (Identity(2), condition), scale)])
    for neighbors, outside in RELATIONS:
        compare(form, neighbors, outside)


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_weights_of_no_attribute_stand_beside_others(neighbors, outside):
    domain = Domain(Integer("a", 0, 3))
    constant = Dense((), (), np.array([[2.0], [-1.0]]))
    for blocks in ([constant], [constant, Dense(("a",), (4,), np.eye(4))]):
        assert compare(LinearForm(domain, blocks), neighbors, outside)
    counts = np.array([1.0, 4.0])
    assert constant.answer_records([], counts).tolist() == [10.0, -5.0]


def test_all_thresholds_of_one_attribute_move_by_their_number_at_the_most():
    domain = Domain(Integer("age", 0, 9))
    form = LinearForm(domain, [Kronecker.of(domain, {"age": Prefix(10)})])
    found = sensitivity(form, facts(domain, outside=False))
    assert (found.l1, found.l2_squared, found.maximum, found.exact) == (9, 9, 1, True)
    found = sensitivity(form, facts(domain))
    assert (found.l1, found.l2_squared) == (10, 10)


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
@pytest.mark.parametrize("widths", [(1, 3), (1, 2, 4), (7,), (1, 7), (2, 3, 5)])
def test_nested_and_crossing_groups_count_each_record_once(widths, neighbors, outside):
    domain = Domain(Integer("a", 0, 6))
    form = LinearForm(domain, [Kronecker(("a",), (Groups(7, width),)) for width in widths])
    of = facts(domain, neighbors, outside=outside)
    found = sensitivity(form, of)
    assert (found.l1, found.l2_squared, found.maximum) == moves(weights(form), of)
    assert found.exact


def test_replace_one_is_the_largest_difference_of_columns_not_twice_a_norm():
    domain = Domain(Integer("a", 0, 1))
    form = LinearForm(domain, [Dense(("a",), (2,), np.array([[5.0, 4.0], [5.0, 5.0]]))])
    assert sensitivity(form, facts(domain, outside=False)).l1 == 1
    assert sensitivity(form, facts(domain, outside=True)).l1 == 10


@pytest.mark.parametrize("seed", range(20))
def test_columns_with_much_in_common_lose_nothing_to_rounding(seed):
    rng = np.random.default_rng(seed)
    domain = Domain(Integer("a", 0, 4))
    heavy = 2.0 ** rng.integers(26, 50, (3, 1)) + rng.integers(0, 9, (3, 5))
    form = LinearForm(domain, [Dense(("a",), (5,), heavy)])
    for neighbors, outside in RELATIONS:
        of = facts(domain, neighbors, outside=outside)
        found = sensitivity(form, of)
        l1, l2, top = moves(weights(form), of)
        assert (found.l1 >= l1, found.l2_squared >= l2, found.maximum >= top) == (True,) * 3
        assert found.l2_squared <= l2 * (1 + 2**-40) + 1


@pytest.mark.parametrize("seeds", [4, pytest.param(10, marks=pytest.mark.audit)])
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_real_weights_are_bounded_from_above_and_closely(neighbors, outside, seeds):
    for seed in range(seeds):
        form = random_form(np.random.default_rng(seed), whole=False)
        of = facts(form.domain, neighbors, outside=outside)
        found = sensitivity(form, of)
        l1, l2, top = moves(weights(form), of)
        assert l1 * (1 - 2**-40) <= found.l1 <= l1 * (1 + 2**-40)
        assert l2 * (1 - 2**-40) <= found.l2_squared <= l2 * (1 + 2**-40)
        assert top * (1 - 2**-40) <= found.maximum <= top * (1 + 2**-40)


@pytest.mark.thorough
def test_a_huge_universe_is_bounded_without_writing_it_out():
    domain = Domain(*(Integer(f"a{i}", 0, 99) for i in range(10)))
    blocks = [
        Kronecker.of(domain, {f"a{i}": Range(100, 0, 50), f"a{(i + 1) % 10}": Range(100, 10, 20)})
        for i in range(10)
    ]
    found = sensitivity(LinearForm(domain, blocks), facts(domain))
    assert 5 <= found.l1 <= 10
    assert found.maximum == 1


def test_a_form_that_never_moves_has_sensitivity_zero():
    domain = Domain(Integer("a", 0, 3))
    all_rows = LinearForm(domain, [Kronecker((), ())])
    assert sensitivity(all_rows, facts(domain, outside=False)).l1 == 0
    assert sensitivity(all_rows, facts(domain, outside=True)).l1 == 1
    assert sensitivity(all_rows, facts(domain, Neighbors.ADD_REMOVE, outside=False)).l1 == 1


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_a_product_of_weights_is_bounded_by_its_columns_and_not_by_its_rows(
    neighbors, outside, monkeypatch
):
    domain = Domain(Integer("a", 0, 3), Integer("b", 0, 4))
    rng = np.random.default_rng(11)
    factors = [Weights(rng.integers(-1, 4, size=(rows, n)) * 1.0) for rows, n in ((6, 4), (7, 5))]
    form = LinearForm(domain, [Kronecker(("a", "b"), tuple(factors), 3.0)])
    of = facts(domain, neighbors, outside=outside)
    l1, l2, _ = moves(weights(form), of)
    monkeypatch.setattr(module, "SPAN_LIMIT", 0)
    found = sensitivity(form, of)
    assert l1 <= found.l1 <= 2 * np.abs(weights(form)).sum(axis=0).max()
    longest = (weights(form) ** 2).sum(axis=0).max()
    assert l2 <= found.l2_squared < 3.5 * longest
    if neighbors is Neighbors.ADD_REMOVE:
        assert (found.l1, found.l2_squared) == (l1, l2)


def test_blocks_of_other_attributes_are_bounded_one_by_one_where_a_search_is_not_exact(monkeypatch):
    domain = Domain(Integer("a", 0, 5), Integer("b", 0, 5))
    signs = Weights(np.diag([1.0, 1.0, 1.0, 1.0, 1.0, -1.0]))
    form = LinearForm(domain, [Kronecker((name,), (signs,)) for name in domain.names])
    of = facts(domain, outside=False)
    limited(monkeypatch, "PAIR_LIMIT", 6)
    found = sensitivity(form, of)
    alone = sensitivity(LinearForm(domain, form.blocks[:1]), of)
    assert found.l2_squared == 2 * alone.l2_squared == 4
    assert found.l1 == 2 * alone.l1 == 4


@pytest.mark.thorough(quick=3)
@pytest.mark.parametrize("limits", [{}, UNSEEN | SHORT], ids=["exact", "short of work"])
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_one_figure_is_the_same_whether_or_not_the_other_is_sought(
    neighbors, outside, limits, monkeypatch
):
    for name, value in limits.items():
        limited(monkeypatch, name, value)
    for seed in range(24):
        form = random_form(np.random.default_rng(seed))
        of = facts(form.domain, neighbors, outside=outside, unit_rows=1 + seed % 2)
        both, one, two = (sensitivity(form, of, power=power) for power in (None, 1, 2))
        assert (one.l1, two.l2_squared) == (both.l1, both.l2_squared)
        assert one.maximum == two.maximum == both.maximum
        assert one.l2_squared >= both.l2_squared
        assert two.l1 >= both.l1
        assert (one.exact and two.exact) == both.exact


def test_only_the_figure_that_is_asked_for_is_searched(monkeypatch):
    sought, farthest = [], search._farthest

    def spy(columns, norms, power, work, **options):
        sought.append(power)
        return farthest(columns, norms, power, work, **options)

    monkeypatch.setattr(search, "_farthest", spy)
    rng = np.random.default_rng(5)
    domain = Domain(Integer("a", 0, 19))
    gradient = LinearForm(domain, [Dense(("a",), (20,), rng.normal(size=(3, 20)))])
    for noise, power in [(LaplaceNoise(Fraction(1)), 1), (GaussianNoise(Fraction(1)), 2)]:
        Measure(gradient, noise).price(Terms(facts(domain)))
        assert sought == [power]
        sought.clear()


@pytest.mark.parametrize("power", [0, 3, 1.5, "1"])
def test_other_powers_are_refused(power):
    domain = Domain(Integer("a", 0, 3))
    form = LinearForm(domain, [Kronecker.of(domain, {"a": Identity(4)})])
    with pytest.raises(InvalidArgument, match=r"^power"):
        sensitivity(form, facts(domain), power=power)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_pairs_are_compared_by_signs_or_in_parts_alike(rows, outside, monkeypatch):
    rng = np.random.default_rng(rows)
    table = rng.integers(-9, 10, size=(rows + 1, 300)).astype(float)
    domain = Domain(Integer("a", 0, 299))
    form = LinearForm(domain, [Dense(("a",), (300,), table)])
    of = facts(domain, outside=outside)
    found = sensitivity(form, of)
    assert (found.l1, found.l2_squared, found.maximum, found.exact) == (*moves(table, of), True)
    limited(monkeypatch, "SIGN_LIMIT", 0)
    monkeypatch.setattr(search, "_PRODUCT", 0)
    assert sensitivity(form, of) == found


# Relations are told apart by value.


DOMAIN = Domain(Integer("a", 0, 2))
FORM = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"a": Identity(3)})])


class Twin(Enum):
    """The same relations, of a class that was loaded twice."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"


class Other(Enum):
    SUBSTITUTE_TWO = "replace-two"


def facts_of(neighbors):
    return Facts(DOMAIN, neighbors, 10, True, 10)


@pytest.mark.parametrize("kind", [Neighbors, Twin])
def test_a_relation_is_known_by_its_value(kind):
    assert facts_of(kind.REPLACE_ONE).replaced
    assert not facts_of(kind.ADD_REMOVE).replaced
    assert sensitivity(FORM, facts_of(kind.REPLACE_ONE)).l1 == 2
    assert sensitivity(FORM, facts_of(kind.ADD_REMOVE)).l1 == 1


@pytest.mark.parametrize("relation", [Other.SUBSTITUTE_TWO, None, "replace-one", 1])
def test_an_unknown_relation_is_refused_and_not_taken_for_the_cheaper(relation):
    with pytest.raises(InvalidArgument) as caught:
        facts_of(relation)
    assert caught.value.parameter == "neighbors"
