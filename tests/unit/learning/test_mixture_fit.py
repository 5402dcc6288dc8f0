"""Mixtures of products that are fitted to public tables."""

import itertools
import math

import numpy as np
import pytest

from dpsdk import Boolean, Domain, Integer
from dpsdk.errors import InvalidArgument, TooLarge, UnknownAttribute
from dpsdk.hypothesis import Mixture
from dpsdk.learning import fit_mixture
from dpsdk.learning import mixture as module

DOMAIN = Domain(Integer("a", 0, 3), Boolean("b"), Integer("c", 0, 4), Integer("d", 0, 0))


def truth(domain=DOMAIN, components=2, seed=1):
    rng = np.random.default_rng(seed)
    tables = {a.name: rng.random((components, a.size)) ** 3 for a in domain.attributes}
    return Mixture(domain, rng.random(components) + 0.3, tables)


def pairs_of(distribution):
    pairs = itertools.combinations(distribution.domain.names, 2)
    return {pair: distribution.table(pair) for pair in pairs}


def variation(one, other, pairs):
    return max(0.5 * np.abs(one.table(p) - other.table(p)).sum() for p in pairs)


def test_a_mixture_is_found_again_from_its_pairs():
    wide = Domain(*(Integer(f"a{i}", 0, 3) for i in range(8)))
    right = truth(wide)
    pairs = pairs_of(right)
    found = fit_mixture(wide, pairs, components=2, iterations=400)
    assert variation(right, found, pairs) < 1e-3
    # Three attributes, too, which no table showed.
    three = [wide.names[:3], wide.names[5:]]
    assert variation(right, found, three) < 2e-3


def test_no_step_makes_the_tables_less_likely():
    rng = np.random.default_rng(2)
    tables = {pair: rng.random(t.shape) ** 4 for pair, t in pairs_of(truth()).items()}

    def likelihood(iterations):
        found = fit_mixture(DOMAIN, tables, components=3, iterations=iterations)
        return sum((t / t.sum() * np.log(found.table(p))).sum() for p, t in tables.items())

    values = [likelihood(steps) for steps in range(1, 25)]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(values))
    assert values[-1] > values[0] + 0.01


def test_a_step_is_expectation_maximisation_cell_by_cell():
    rng = np.random.default_rng(3)
    tables = {pair: t * rng.random(t.shape) for pair, t in pairs_of(truth()).items()}
    tables[("c",)] = rng.random(5)
    before = fit_mixture(DOMAIN, tables, components=3, iterations=2)
    after = fit_mixture(DOMAIN, tables, components=3, iterations=3)
    held = np.zeros(3)
    shares = {name: np.zeros((3, DOMAIN[name].size)) for name in DOMAIN.names}
    for names, table in tables.items():
        for cell in np.ndindex(table.shape):
            likely = before.weights.copy()
            for name, place in zip(names, cell, strict=True):
                likely *= before.shares(name)[:, place]
            got = table[cell] / table.sum() * likely / likely.sum()
            held += got
            for name, place in zip(names, cell, strict=True):
                shares[name][:, place] += got
    assert after.weights == pytest.approx(held / held.sum(), rel=1e-9)
    for name, share in shares.items():
        right = share / share.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(after.shares(name), right, rtol=1e-8, atol=1e-11)


def test_one_component_is_the_product_of_the_one_way_tables():
    pairs = pairs_of(truth())
    found = fit_mixture(DOMAIN, pairs, components=1, iterations=1, rows=50, outside_mass=0.5)
    assert found.rows == 50
    assert found.outside_mass == 0.5
    for name in DOMAIN.names:
        right = truth().table((name,))
        assert found.table((name,)) == pytest.approx(right / 2, rel=1e-9)


def test_one_way_tables_are_enough_and_what_nothing_is_said_of_is_uniform():
    found = fit_mixture(DOMAIN, {("a",): [1, 2, 3, 4], ("c",): [-3, 0, -1, 0, 0]}, components=3)
    assert found.table(("a",)) == pytest.approx([0.1, 0.2, 0.3, 0.4], rel=1e-6)
    assert found.components == 3
    empty = fit_mixture(DOMAIN, {}, components=1)
    assert empty.table(("c",)) == pytest.approx(np.full(5, 0.2))


def test_noise_counts_as_nothing_where_it_is_negative():
    table = np.array([[5.0, -3.0], [1e-300, 5.0]])
    domain = Domain(Boolean("a"), Boolean("b"))
    found = fit_mixture(domain, {("a", "b"): table}, components=2).table(("a", "b"))
    assert found == pytest.approx(np.array([[0.5, 0], [0, 0.5]]), abs=1e-6)
    huge = fit_mixture(domain, {("b", "a"): table.T * 3e307}, components=2).table(("a", "b"))
    assert huge == pytest.approx(found, abs=1e-6)


def test_the_same_tables_give_the_same_mixture():
    pairs = pairs_of(truth())
    given = {pair: table.copy() for pair, table in pairs.items()}
    assert fit_mixture(DOMAIN, pairs) == fit_mixture(DOMAIN, pairs)
    assert all((pairs[pair] == given[pair]).all() for pair in pairs)


def test_many_attributes_are_fitted_at_once():
    wide = Domain(*(Integer(f"a{i}", 0, i % 4 + 1) for i in range(60)))
    right = truth(wide, 3)
    found = fit_mixture(wide, pairs_of(right), components=6, iterations=100)
    assert variation(right, found, list(pairs_of(right))[::50]) < 0.05


@pytest.mark.parametrize(
    ("parameter", "make"),
    [
        ("domain", lambda: fit_mixture("a", {})),
        ("tables", lambda: fit_mixture(DOMAIN, [1])),
        ("tables", lambda: fit_mixture(DOMAIN, {"a": [1, 2, 3, 4]})),
        ("tables", lambda: fit_mixture(DOMAIN, {("a", "a"): np.ones((4, 4))})),
        ("tables", lambda: fit_mixture(DOMAIN, {("a", "b", "c"): np.ones((4, 2, 5))})),
        ("tables", lambda: fit_mixture(DOMAIN, {(): 1.0})),
        ("tables", lambda: fit_mixture(DOMAIN, {("a", "b"): np.ones((2, 4))})),
        ("tables", lambda: fit_mixture(DOMAIN, {("a",): [1, 2, 3, math.nan]})),
        ("tables", lambda: fit_mixture(DOMAIN, {("a",): ["x"] * 4})),
        ("components", lambda: fit_mixture(DOMAIN, {}, components=0)),
        ("components", lambda: fit_mixture(DOMAIN, {}, components=2**11)),
        ("iterations", lambda: fit_mixture(DOMAIN, {}, iterations=0)),
        ("iterations", lambda: fit_mixture(DOMAIN, {}, iterations=10**9)),
        ("rows", lambda: fit_mixture(DOMAIN, {}, rows=-1)),
    ],
)
def test_what_does_not_fit_is_refused_by_name(parameter, make):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.parameter == parameter


def test_unknown_attributes_and_too_many_labels_are_refused():
    with pytest.raises(UnknownAttribute):
        fit_mixture(DOMAIN, {("z",): [1]})
    with pytest.raises(TooLarge):
        fit_mixture(Domain(Integer("x", 0, module._LABELS)), {})
