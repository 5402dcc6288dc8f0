"""Corners of knots: the same prices as all cells, and lower ones where a knot is left out."""

import itertools
import sys

import numpy as np
import pytest
from random_forms import random_form

from dpsdk import Domain, Integer, Neighbors
from dpsdk.forms import (
    Cuts,
    Factor,
    Kronecker,
    LinearForm,
    Ramp,
    Range,
    Weights,
    Within,
    sensitivity,
)
from dpsdk.forms.ranges import Indicators
from dpsdk.queries import Mean
from worlds import facts, moves, weights

module = sys.modules["dpsdk.forms.sensitivity"]
SLOW = pytest.mark.thorough
RELATIONS = list(itertools.product(Neighbors, [True, False]))


@pytest.fixture(autouse=True)
def _corners_only(monkeypatch):
    monkeypatch.setattr(module, "WHOLE_LIMIT", 0)


def stack(seed):
    """A random stack on one or two attributes: every second one of all kinds of blocks."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, rng.integers(1, 3))
    domain = Domain(*(Integer(f"a{i}", 0, int(size) - 1) for i, size in enumerate(sizes)))
    if seed % 2:
        return random_form(rng, domain, dense=0.05)
    blocks = []
    for _ in range(rng.integers(1, 4)):
        chosen = {name: size for name, size in domain.sizes.items() if rng.random() < 0.7}
        block = Kronecker.of(domain, {n: part(rng, size) for n, size in chosen.items()})
        blocks.append(block.times(float(rng.integers(-9, 10))))
    return LinearForm(domain, blocks)


def part(rng, size):
    """A ramp, a range or cuts, on some of the cells."""
    known = int(rng.integers(1, size + 1))
    start, stop = np.sort(rng.integers(0, known + 1, 2)).tolist()
    begin, step = rng.integers(-3, 4, 2).tolist()
    cuts = Cuts(known, [0, *range(1, known, 2)])
    made = [Ramp(known, begin, step), Range(known, start, stop), cuts]
    return Within(made[rng.integers(3)], size, int(rng.integers(size - known + 1)))


LINE = Domain(Integer("a", 0, 9))
SQUARES = Weights([[(2 * i - 9) ** 2 - 40 for i in range(10)], range(10)])
HARD = [
    LinearForm(LINE, [Kronecker(("a",), (factor,), scale) for factor, scale in parts])
    for parts in [
        [(Ramp(10, 0, 1), 1.0), (Range(10, 2, 6), 9.0)],
        [(Ramp(10, 9, -1), 1.0), (Range(10, 2, 6), 9.0)],
        [(Within(Ramp(7, 1, 1), 10, 1), 1.0), (Range(10, 0, 10), 3.0)],
        [(Ramp(10, -9, 2), 1.0), (SQUARES, -1.0)],
        [(Cuts(10, [0, 3, 4]), 5.0), (Ramp(10, 4, -1), 1.0)],
    ]
]


def wrong(form):
    """Whether a price is not what enumeration says, under any relation."""
    for neighbors, outside in RELATIONS:
        of = facts(form.domain, neighbors, outside=outside)
        found = sensitivity(form, of)
        if (found.l1, found.l2_squared, found.maximum) != moves(weights(form), of):
            return True
    return False


@pytest.mark.parametrize(
    "seeds",
    [range(16), *(pytest.param(range(n, n + 25), marks=SLOW) for n in range(0, 475, 25))],
)
def test_stacks_have_the_prices_of_all_their_cells(seeds):
    assert not any(map(wrong, map(stack, seeds)))


def test_stacks_with_knots_of_every_kind_do():
    assert not any(map(wrong, HARD))


def without_ends(blocks):
    found = KNOTS(blocks).items()
    return {n: own if own is None or len(own) < 4 else own[1:-1] for n, own in found}


def starts_only(self):
    return np.unique(np.append(self.ranges[0][self.ranges[0] < self.size], [0, self.size - 1]))


KNOTS = module._knots
MUTANTS = {
    "no first and last cell": (module, "_knots", without_ends),
    "one side of an end": (Indicators, "knots", starts_only),
    "no border of labels": (Within, "knots", lambda self: np.array([0, self.size - 1])),
    "straight squares": (Factor, "knots", lambda self: np.array([0, self.size - 1])),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_knot_that_is_left_out_is_noticed(name, monkeypatch):
    monkeypatch.setattr(*MUTANTS[name])
    assert any(map(wrong, [*HARD, *map(stack, range(40))]))


@pytest.mark.parametrize("bits", [8, 20, 22, 40])
def test_the_mean_of_any_number_of_cells_moves_by_twice_its_width(bits):
    domain, width = Domain(Integer("a", 0, 2**bits - 1), Integer("b", 0, 99)), 2**bits - 1
    total = Kronecker.of(domain, {"a": Ramp(2**bits, -width, 2)})
    count = Kronecker.of(domain, {}).times(width)
    for outside in (True, False):
        for masked in (False, True):
            blocks = [total, count]
            if masked:
                mask = {"b": Range(100, 20, 30)}
                blocks = [
                    Kronecker.of(domain, {"a": total.factors[0], **mask}),
                    Kronecker.of(domain, mask).times(width),
                ]
            found = sensitivity(
                LinearForm(domain, blocks), facts(domain, Neighbors.REPLACE_ONE, outside=outside)
            )
            assert found.exact
            # Squares beyond 2^53 are floats, and what these round off is added.
            slack = 1 + 2.0**-40 * (bits > 22)
            assert 2 * width <= found.l1 <= 2 * width * slack
            assert 4 * width**2 <= found.l2_squared <= 4 * width**2 * slack


def test_a_mean_beyond_the_searched_cells_costs_what_it_moves(monkeypatch):
    monkeypatch.setattr(module, "WHOLE_LIMIT", module.SPAN_LIMIT)
    for bits in (20, 21, 22):
        domain, width = Domain(Integer("a", 0, 2**bits - 1)), 2**bits - 1
        found = sensitivity(Mean("a").lower(domain), facts(domain, Neighbors.REPLACE_ONE))
        assert (found.l1, found.l2_squared, found.exact) == (2 * width, 4 * width**2, True)
