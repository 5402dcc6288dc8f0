"""The law of a perturbed minimum of one feature, summed over all of its noise, on neighbours.

Two universes: of a steep loss, whose noise takes thousands of steps, where neighbours are told
apart by nearly all of epsilon; and of a loss with so few steps that what hides them is seen.
"""

import math
from fractions import Fraction

import attrs
import numpy as np
import pytest

from dpsdk import Boolean, Domain, Integer, Neighbors
from dpsdk.forms import SlopeTable
from dpsdk.kernel import Perturb, Terms, perturb
from dpsdk.kernel.perturb import Minimum
from dpsdk.queries import Box
from worlds import facts

DOMAIN = Domain(Integer("a", 0, 1), Boolean("b"))
EPSILON = Fraction(3)

STEEP = SlopeTable(
    DOMAIN, ["a", "b"], np.array([[2**14], [-(2**14)]]), np.array([[-1, 1], [-1, -1]]), -3, 0
)
"""Where margins are -2 the first label has its largest slope and all of its curvature."""
FEW = SlopeTable(DOMAIN, ["a", "b"], np.array([[64], [-48]]), np.array([[-1, 2], [0, 1]]), 0, 0)
WALLED = attrs.evolve(STEEP, over=Box(-2.5, 2.5))

TABLES = {
    Neighbors.ADD_REMOVE: ([0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 1]),
    Neighbors.REPLACE_ONE: ([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]),
}
OUTCOMES = 601


def asked(table, *, epsilon=EPSILON, part=3):
    """Of ε = 3 a determinant takes ln 4."""
    return Perturb(table, table.curvature / part, epsilon)


def minima(pricing, counts, tilts):
    sums = np.array(counts, dtype=np.float64).reshape(2, 2)
    found = [
        Minimum(pricing.table, sums, pricing.ridge, [int(tilt)], pricing.bits, pricing.wall).near(
            pricing.near
        )[0]
        for tilt in tilts
    ]
    return np.array(found, dtype=np.float64)


def law(pricing, counts, grid):
    """The chances of points of a grid, but for the weight of all of them."""
    scale, hiding = float(pricing.tilt.scale), float(pricing.hiding.scale)
    far = math.ceil(8 * scale)
    # Minima are linear in the noise, but for a few kinks: between many of them they are known.
    tilts = np.unique(np.linspace(-far, far, min(2 * far + 1, 401)).round())
    steps = math.ceil((2 * far + 1) / 2**14)
    fine = np.arange(-far, far + 1, steps)
    found = np.interp(fine, tilts, minima(pricing, counts, tilts))
    weights = np.exp(-np.abs(fine) / scale)
    pieces = [np.exp(-np.abs(part[:, None] - found) / hiding) for part in np.array_split(grid, 40)]
    return np.concatenate([piece @ weights for piece in pieces])


def worst(neighbors, request, change=lambda pricing: pricing, **given):
    """The largest logarithm of a ratio of chances, of all neighbours and outcomes."""
    of = facts(DOMAIN, neighbors, rows=2, **given)
    pricing = change(request.price(Terms(of)))
    far = 4 * float(pricing.tilt.scale) * 2.0 ** (pricing.bits - 34) / float(pricing.ridge)
    grid = np.linspace(-far, far, OUTCOMES)
    laws = [law(pricing, counts, grid) for counts in TABLES[neighbors]]
    pairs = [
        (one, other)
        for place, one in enumerate(laws)
        for number, other in enumerate(laws)
        if place < number
        and adjacent(TABLES[neighbors][place], TABLES[neighbors][number], neighbors)
    ]
    assert pairs
    return max(float(np.abs(np.log(one / other)).max()) for one, other in pairs)


def adjacent(one, other, neighbors):
    apart = sum(abs(a - b) for a, b in zip(one, other, strict=True))
    return apart == 1 if neighbors is Neighbors.ADD_REMOVE else apart <= 2


@pytest.fixture
def more_to_hide_with(monkeypatch):
    """A quarter of ε hides what was computed, so that the rest is not blurred by it."""
    monkeypatch.setattr(perturb, "_HIDING", Fraction(1, 4))


@pytest.mark.thorough
@pytest.mark.parametrize("table", [STEEP, WALLED], ids=["free", "walled"])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_neighbours_are_told_apart_by_nearly_epsilon_and_no_more(neighbors, table):
    seen = worst(neighbors, asked(table))
    assert 0.9 * float(EPSILON) < seen <= float(EPSILON)


@pytest.mark.thorough
@pytest.mark.parametrize("neighbors", Neighbors)
def test_neither_are_they_by_the_steps_of_integers(neighbors, more_to_hide_with):
    seen = worst(neighbors, asked(FEW))
    assert 0.35 * float(EPSILON) < seen <= float(EPSILON)


def narrower(factor):
    return lambda pricing: attrs.evolve(
        pricing, tilt=attrs.evolve(pricing.tilt, scale=pricing.tilt.scale * factor)
    )


def of_another(neighbors=Neighbors.REPLACE_ONE, ridge=None):
    """The noise that another relation or ridge would have."""

    def change(pricing):
        other = Perturb(pricing.table, ridge or pricing.ridge, EPSILON)
        return attrs.evolve(pricing, tilt=other.price(Terms(facts(DOMAIN, neighbors, rows=2))).tilt)

    return change


BROKEN = {
    "noise of two thirds": (Neighbors.ADD_REMOVE, narrower(Fraction(2, 3))),
    "noise of two thirds, replaced": (Neighbors.REPLACE_ONE, narrower(Fraction(2, 3))),
    "noise of rows that are added": (
        Neighbors.REPLACE_ONE,
        of_another(neighbors=Neighbors.ADD_REMOVE),
    ),
    "determinants for nothing": (
        Neighbors.ADD_REMOVE,
        of_another(neighbors=Neighbors.ADD_REMOVE, ridge=10**6 * STEEP.curvature),
    ),
    "determinants for nothing, replaced": (
        Neighbors.REPLACE_ONE,
        of_another(ridge=10**6 * STEEP.curvature),
    ),
    "half of a curvature": (
        Neighbors.REPLACE_ONE,
        of_another(ridge=2 * STEEP.curvature / 3),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", BROKEN)
def test_too_little_noise_is_caught(name):
    neighbors, change = BROKEN[name]
    assert worst(neighbors, asked(STEEP), change) > 1.05 * float(EPSILON)


@pytest.mark.thorough
def test_a_point_that_nothing_hides_is_caught(more_to_hide_with):
    def bare(pricing):
        hiding = attrs.evolve(pricing.hiding, scale=pricing.hiding.scale / 99)
        return attrs.evolve(pricing, hiding=hiding)

    assert worst(Neighbors.ADD_REMOVE, asked(FEW), bare) > 1.05 * float(EPSILON)


@pytest.mark.thorough
def test_a_wall_that_stands_where_the_rows_say_is_caught(monkeypatch):
    built = Minimum.__init__

    def built_by_rows(self, table, counts, *given):
        nearer = attrs.evolve(table, over=Box(-2, 2)) if counts.any() else table
        built(self, nearer, counts, *given)

    monkeypatch.setattr(Minimum, "__init__", built_by_rows)
    assert worst(Neighbors.ADD_REMOVE, asked(WALLED)) > 1.05 * float(EPSILON)
