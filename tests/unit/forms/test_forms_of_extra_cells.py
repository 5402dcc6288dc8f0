"""What cells for missing and other values cost beside one cell outside for all such rows."""

import numpy as np
import pytest

from dpsdk import Domain, Integer, Neighbors
from dpsdk.forms import (
    Identity,
    Kronecker,
    LinearForm,
    Prefix,
    Range,
    Weights,
    Within,
    sensitivity,
)
from worlds import facts, moves, weights


def worlds(rng):
    """A random domain of attributes of two labels or more, with and without extra cells."""
    sizes = rng.integers(2, 4, rng.integers(1, 4))
    attributes = [
        Integer(f"a{n}", 1, int(size), missing=bool(rng.integers(2)), other=bool(rng.integers(2)))
        for n, size in enumerate(sizes)
    ]
    opened = Domain(*attributes)
    return opened, opened.closed()


def factor(rng, known):
    kind = rng.integers(4)
    if kind == 0:
        return Identity(known)
    if kind == 1:
        return Prefix(known)
    if kind == 2:
        return Range(known, 0, known)
    return Weights(rng.integers(-3, 6, (1, known)))


def stacks(rng, opened, closed, made=factor, blocks=3):
    """The same blocks of the known over both domains."""
    pairs = []
    for _ in range(rng.integers(1, blocks + 1)):
        names = [one.name for one in opened if rng.random() < 0.6] or [opened.names[0]]
        own = {name: made(rng, closed[name].size) for name in names}
        wide = {name: Within(one, opened[name].size) for name, one in own.items()}
        pairs.append((Kronecker.of(opened, wide), Kronecker.of(closed, own)))
    wide, single = zip(*pairs, strict=True)
    return LinearForm(opened, wide), LinearForm(closed, single)


def moved(form, neighbors, *, outside):
    return moves(weights(form), facts(form.domain, neighbors, outside=outside))[:2]


@pytest.mark.parametrize("neighbors", Neighbors)
def test_prices_are_those_of_all_records_and_seldom_higher_than_with_one_cell(neighbors):
    dearer = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        opened, closed = stacks(rng, *worlds(rng))
        of = facts(opened.domain, neighbors, outside=False)
        found, (l1, l2) = sensitivity(opened, of), moved(opened, neighbors, outside=False)
        assert (found.l1, found.l2_squared) >= (l1, l2)
        if found.exact:
            assert (found.l1, found.l2_squared) == (l1, l2)
        globally = moved(closed, neighbors, outside=True)
        dearer += l1 > globally[0] or l2 > globally[1]
    assert dearer == 0 if neighbors is Neighbors.ADD_REMOVE else dearer <= 6


@pytest.mark.parametrize("neighbors", Neighbors)
def test_one_block_and_stacks_of_marginals_are_never_dearer(neighbors):
    def marginal(rng, known):
        del rng
        return Identity(known)

    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        both = worlds(rng)
        for opened, closed in (stacks(rng, *both, blocks=1), stacks(rng, *both, made=marginal)):
            wide = moved(opened, neighbors, outside=False)
            single = moved(closed, neighbors, outside=True)
            assert wide[0] <= single[0]
            assert wide[1] <= single[1]


EXAMPLES = {
    "a marginal and a weight": ((Identity(2), None), (None, Weights([[5.0, 5.0]])), 7, 6),
    "known rows and a marginal": ((Range(2, 0, 2), None), (None, Identity(2)), 3, 2),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_some_stacks_are_dearer_where_rows_are_exchanged(name):
    *blocks, wide, single = EXAMPLES[name]
    closed = Domain(Integer("a", 1, 2), Integer("b", 1, 2))
    opened = Domain(*[Integer(one, 1, 2, missing=True) for one in "ab"])
    for domain, expected, outside in ((opened, wide, False), (closed, single, True)):
        own = [
            {
                name: Within(one, domain[name].size)
                for name, one in zip("ab", block, strict=True)
                if one is not None
            }
            for block in blocks
        ]
        form = LinearForm(domain, [Kronecker.of(domain, one) for one in own])
        of = facts(domain, Neighbors.REPLACE_ONE, outside=outside)
        assert sensitivity(form, of).l1 == moves(weights(form), of)[0] == expected


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("outside", [False, True])
def test_marginals_of_labels_are_exact_in_any_company(neighbors, outside):
    rng = np.random.default_rng(7)
    sizes = {"a": 1, "b": 2, "c": 3}
    domain = Domain(*[Integer(name, 1, known) for name, known in sizes.items()]).open()

    def block():
        names = [name for name in sizes if rng.random() < 0.6] or ["b"]
        own = {}
        for name in names:
            known, size = sizes[name], domain[name].size
            first = int(rng.integers(3)) if rng.random() < 0.2 else 0
            kinds = [Identity(size), Within(Identity(known), size, first), Range(size, 0, known)]
            own[name] = kinds[rng.choice(3, p=[0.3, 0.6, 0.1])]
        return Kronecker.of(domain, own)

    exact = 0
    for _ in range(80):
        form = LinearForm(domain, [block() for _ in range(rng.integers(1, 5))])
        of = facts(domain, neighbors, outside=outside)
        found, moved_by = sensitivity(form, of), moves(weights(form), of)
        assert (found.l1, found.l2_squared, found.maximum) >= moved_by
        if found.exact:
            assert (found.l1, found.l2_squared, found.maximum) == moved_by
            exact += 1
    assert exact > 60
