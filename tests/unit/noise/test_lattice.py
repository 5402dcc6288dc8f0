from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve

from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from dpsdk.noise.table import LIMIT, Lattice, Sign, gaussian_sampler, laplace_sampler
from dpsdk.testing.noise import seeded

pytestmark = pytest.mark.thorough


LAWS = [
    DiscreteLaplace(128), DiscreteLaplace("1000.7"), DiscreteLaplace(10 * 2**20),
    DiscreteLaplace(2**55), Geometric(Fraction(10**30 + 1, 10**20)), DiscreteGaussian(128**2),
    DiscreteGaussian("1000700.3"), DiscreteGaussian(Fraction(10 * 2**20) ** 2),
    DiscreteGaussian(2**110),
]  # fmt: skip


def lattice_of(law):
    if isinstance(law, DiscreteGaussian):
        built = gaussian_sampler(law.variance)
    else:
        two_sided = isinstance(law, DiscreteLaplace)
        built = laplace_sampler(law.scale, two_sided=two_sided)
    assert isinstance(built, Lattice)
    return built


def exponent(law, z):
    """x with P(z) proportional to exp(-x)."""
    if isinstance(law, DiscreteGaussian):
        return z * z / (2 * law.variance)
    return abs(z) / law.scale


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_start_of_cell_and_coin_multiply_to_the_law(law):
    lattice = lattice_of(law)
    size = 1 << lattice.shift
    signs = (1,) if lattice.table._sign is Sign.NONE else (1, -1)
    for cell in (0, 1, 5, 60, 1000):
        start = exponent(law, cell * size)
        for sign in signs:
            for offset in {0 if sign > 0 else size, 1, size // 2, size - (sign > 0)}:
                z = sign * (cell * size + offset)
                assert exponent(law, z) == start + lattice.exact(cell, offset)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_coarse_table_is_of_the_law_at_the_starts(law):
    lattice = lattice_of(law)
    size = 1 << lattice.shift
    low = lattice.table._low[::-1].astype(float) / 2.0**63
    mass = -np.diff(np.concatenate([[1.0], low]))[:40]
    weights = np.array([np.exp(-float(exponent(law, cell * size))) for cell in range(len(mass))])
    assert mass / mass[0] == pytest.approx(weights, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_first_byte_settles_only_what_it_may(law):
    lattice = lattice_of(law)
    for cell in range(3000):
        most = lattice.exact(cell, 1 << lattice.shift)
        assert min(most * 256, Fraction(256)) <= lattice.base + (cell >> lattice.slope)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_float_exponents_are_within_their_stated_error(law):
    lattice = lattice_of(law)
    rng = np.random.default_rng(8)
    cells = np.concatenate([rng.integers(0, 1200, 300), [0, 0, 2**20]])
    offsets = np.concatenate([rng.integers(1, (1 << lattice.shift) + 1, 300), [0, 1, 1]])
    x = lattice.exponents(cells, offsets)
    for cell, offset, value in zip(cells.tolist(), offsets.tolist(), x.tolist(), strict=True):
        truth = lattice.exact(cell, offset)
        assert abs(Fraction(value) - truth) <= truth / 2**50


@pytest.mark.parametrize("shift", [1, 3])
def test_cells_and_offsets_name_every_integer_once(shift):
    lattice = evolve(lattice_of(DiscreteLaplace(1000)), shift=shift)
    size = 1 << shift
    coarse = np.repeat(np.arange(-5, 5), size)
    fine = np.tile(np.arange(size), 10)
    assert lattice._join(coarse, fine).tolist() == list(range(-5 * size, 5 * size))


@pytest.mark.parametrize("shift", [1, 20, 49])
def test_values_out_of_range_are_set_to_the_bound(shift):
    lattice = evolve(lattice_of(DiscreteLaplace(1000)), shift=shift)
    last = LIMIT >> shift
    full = (1 << shift) - 1
    coarse = np.array(
        [last, last, last + 1, LIMIT, -last - 1, -last - 1, -last - 1, -last - 2, ~LIMIT]
    )
    fine = np.array([0, full, 0, full, 0, 1, full, full, 0])
    assert lattice._join(coarse, fine).tolist() == [
        LIMIT - full, LIMIT, LIMIT, LIMIT, -LIMIT, -LIMIT, full - 2**62, -LIMIT, -LIMIT,
    ]  # fmt: skip


@pytest.mark.parametrize("law", [DiscreteLaplace(2000), DiscreteGaussian(2000**2)], ids=str)
def test_the_place_within_a_cell_has_the_law_that_the_coin_gives_it(law):
    lattice = lattice_of(law)
    size = 1 << lattice.shift
    places = np.abs(lattice.draw(seeded(31)._bits, 3_000_000)) % size
    z = np.arange(40 * 2000 // size * size)
    power = 2 if isinstance(law, DiscreteGaussian) else 1
    weight = np.exp(-float(exponent(law, 1)) * z.astype(float) ** power)
    weight[1:] *= 2
    mass = weight.reshape(-1, size).sum(axis=0) / weight.sum()
    expected = float(mass @ np.arange(size))
    spread = float(mass @ np.arange(size) ** 2 - expected**2) ** 0.5
    # Without the coin the mean would be off by 5 of these deviations at least.
    assert abs(places.mean() - expected) < 3.5 * spread / 3_000_000**0.5
