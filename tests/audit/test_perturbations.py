"""The law of a perturbed minimum of one feature, summed over all of its noise, on neighbours."""

import math
from fractions import Fraction

import attrs
import numpy as np
import pytest

from dpsdk import Boolean, Domain, Integer, Neighbors
from dpsdk.forms import SlopeTable
from dpsdk.kernel import Perturb, Terms, perturb
from dpsdk.kernel.perturb import Minimum
from worlds import facts

DOMAIN = Domain(Integer("a", 0, 1), Boolean("b"))
TABLE = SlopeTable(DOMAIN, ["a", "b"], np.array([[64], [-48]]), np.array([[-1, 2], [0, 1]]), 0, 0)
EPSILON = Fraction(3)
RIDGE = TABLE.curvature / 3
"""Of ε = 3 a determinant then takes ln 4."""

TABLES = {
    Neighbors.ADD_REMOVE: ([0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]),
    Neighbors.REPLACE_ONE: ([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]),
}


def law(pricing, counts, grid):
    """The chances of points of a grid, but for the weight of all of them."""
    scale, hiding = float(pricing.tilt.scale), float(pricing.hiding.scale)
    far = math.ceil(7 * scale)
    sums = np.array(counts, dtype=np.float64).reshape(2, 2)
    found, weights = [], []
    for tilt in range(-far, far + 1):
        minimum = Minimum(pricing.table, sums, pricing.ridge, [tilt], pricing.bits, pricing.wall)
        found.append(minimum.near(pricing.near)[0])
        weights.append(math.exp(-abs(tilt) / scale))
    apart = np.abs(grid[:, None] - np.array(found, dtype=np.float64)[None, :])
    return np.exp(-apart / hiding) @ np.array(weights)


def worst(neighbors, monkeypatch, request=None, change=lambda pricing: pricing):
    # More to hide with, so that the rest is not blurred by it.
    monkeypatch.setattr(perturb, "_HIDING", Fraction(1, 4))
    of = facts(DOMAIN, neighbors, rows=2)
    pricing = change((request or Perturb(TABLE, RIDGE, EPSILON)).price(Terms(of)))
    far = 4 * float(pricing.tilt.scale) * 2.0 ** (pricing.bits - 34) / float(RIDGE)
    grid = np.linspace(-far, far, 301)
    laws = [law(pricing, counts, grid) for counts in TABLES[neighbors]]
    pairs = [
        (one, other)
        for place, one in enumerate(laws)
        for number, other in enumerate(laws)
        if place != number
        and adjacent(TABLES[neighbors][place], TABLES[neighbors][number], neighbors)
    ]
    assert pairs
    return max(float(np.abs(np.log(one / other)).max()) for one, other in pairs)


def adjacent(one, other, neighbors):
    apart = sum(abs(a - b) for a, b in zip(one, other, strict=True))
    return apart == 1 if neighbors is Neighbors.ADD_REMOVE else apart <= 2


@pytest.mark.thorough
@pytest.mark.parametrize("neighbors", Neighbors)
def test_no_neighbours_are_told_apart_by_more_than_epsilon(neighbors, monkeypatch):
    seen = worst(neighbors, monkeypatch)
    assert 0.35 * float(EPSILON) < seen <= float(EPSILON)


def narrower(factor):
    return lambda pricing: attrs.evolve(
        pricing, tilt=attrs.evolve(pricing.tilt, scale=pricing.tilt.scale / factor)
    )


def hiding_less(pricing):
    hiding = attrs.evolve(pricing.hiding, scale=pricing.hiding.scale / 99)
    return attrs.evolve(pricing, hiding=hiding)


def forgetting_the_curvature(pricing):
    """All that is left of ε = 3 goes into noise, however small the ridge is."""
    left = EPSILON * Fraction(3, 4)
    return attrs.evolve(pricing, tilt=attrs.evolve(pricing.tilt, scale=Fraction(2 * 64 + 1) / left))


BROKEN = {
    "noise of a fifth": (Neighbors.ADD_REMOVE, None, narrower(5)),
    "noise of a tenth, replaced": (Neighbors.REPLACE_ONE, None, narrower(10)),
    "a point that nothing hides": (Neighbors.ADD_REMOVE, None, hiding_less),
    "determinants for nothing": (
        Neighbors.ADD_REMOVE,
        Perturb(TABLE, TABLE.curvature / 30, 20),
        forgetting_the_curvature,
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", BROKEN)
def test_too_little_noise_is_caught(name, monkeypatch):
    neighbors, request, change = BROKEN[name]
    assert worst(neighbors, monkeypatch, request, change) > 1.05 * float(EPSILON)
