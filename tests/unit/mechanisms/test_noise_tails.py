"""How large measured noise is: sums, lengths and matrices of it, but for a probability."""

import math

import numpy as np
import pytest
from attrs import evolve

from dpsdk.mechanisms.convex.moments import MeasuredMatrix, Pattern
from dpsdk.mechanisms.convex.noise import Tails
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace

LAWS = [
    DiscreteLaplace("0.3"),
    DiscreteLaplace(5),
    DiscreteLaplace(2**40),
    DiscreteGaussian("0.2"),
    DiscreteGaussian(64),
    DiscreteGaussian(2**60),
]
SMALL = [law for law in LAWS if law.standard_deviation() < 2**20]
RNG = np.random.default_rng(3)


def tails(law, step=1.0, bias=0.0):
    return Tails(law, step, bias)


def masses(law):
    reach = law.radius(1e-300) + 1
    z = np.arange(-reach, reach + 1)
    if isinstance(law, DiscreteLaplace):
        weights = np.exp(-np.abs(z) / float(law.scale))
    else:
        weights = np.exp(-(z * z) / (2 * float(law.variance)))
    return z, weights / weights.sum()


def draws(law, shape):
    z, shares = masses(law)
    return RNG.choice(z, size=shape, p=shares).astype(float)


@pytest.mark.parametrize("law", SMALL)
def test_cumulants_are_those_of_the_law_or_above(law):
    z, shares = masses(law)
    known = tails(law, step=0.5)
    limit = 2.0 if isinstance(law, DiscreteGaussian) else 0.9  # of what is finite
    tilts = np.array([0.01, 0.1, 0.5, 1.0]) * limit / known.scale
    plain = np.log(np.exp(np.outer(tilts, 0.5 * z)) @ shares)
    sizes = np.log(np.exp(np.outer(tilts, 0.5 * np.abs(z))) @ shares)
    assert (known.cumulant(tilts) >= plain - 1e-12).all()
    if isinstance(law, DiscreteLaplace):  # exact, and infinite where the expectation is
        assert known.cumulant(tilts) == pytest.approx(plain, abs=1e-9)
        assert known.size_cumulant(tilts) == pytest.approx(sizes, abs=1e-9)
        beyond = np.array([1.0, 2.0]) / known.scale
        assert np.isinf(known.cumulant(beyond)).all()
        assert np.isinf(known.size_cumulant(beyond)).all()


@pytest.mark.parametrize("law", SMALL)
@pytest.mark.parametrize("beta", [0.3, 0.01])
def test_bounds_hold_and_of_wide_noise_are_below_twice_the_truth(law, beta):
    # With probability 1 - 1e-6 fewer draws exceed a true bound than this.
    count, entries = 20_000, 4
    most = count * beta + 5 * math.sqrt(count * beta)
    z = draws(law, (count, entries))
    known, weights = tails(law), RNG.normal(size=entries)
    one, longest = np.eye(entries)[0], float(np.linalg.norm(weights))
    pairs = [
        (z @ weights, known.along(longest, entries, beta)),
        (z @ one, known.along(1.0, entries, beta)),
        (np.linalg.norm(z, axis=1), known.length(entries, beta)),
    ]
    for found, bound in pairs:
        assert (found > bound).sum() <= most
        if law.standard_deviation() > 4 and beta < 0.1:
            assert bound <= 2 * np.quantile(found, 1 - beta)


def test_the_length_of_normal_noise_is_at_most_the_closed_form():
    # Hsu, Kakade and Zhang 2012, Theorem 1.
    for size in (1, 6, 120, 10_000):
        for beta in (0.5, 0.05, 1e-9):
            t = math.log(1 / beta)
            closed = math.sqrt(size + 2 * math.sqrt(size * t) + 2 * t)
            bound = tails(DiscreteGaussian(1)).length(size, beta)
            assert 0.6 * closed < bound <= closed * 1.001


@pytest.mark.parametrize("law", LAWS)
def test_bounds_are_finite_and_grow_with_confidence_and_bias(law):
    for ask in (lambda beta: tails(law).along(2.0, 3, beta), lambda b: tails(law).length(3, b)):
        bounds = [ask(beta) for beta in (0.9, 0.1, 1e-12, 1e-300)]
        assert all(math.isfinite(bound) for bound in bounds)
        assert bounds == sorted(bounds)
    assert tails(law, bias=2.0).length(4, 0.1) == pytest.approx(tails(law).length(4, 0.1) + 4.0)
    rounded = tails(law, bias=2.0).along(3.0, 4, 0.1)
    assert rounded == pytest.approx(tails(law).along(3.0, 4, 0.1) + 12.0)


def test_no_noise_is_nothing():
    for law in (DiscreteLaplace(0), DiscreteGaussian(0)):
        known = tails(law, bias=0.5)
        assert tails(law).along(1.0, 3, 0.1) == tails(law).length(3, 0.1) == 0.0
        assert known.length(3, 0.1) == known.along(1.0, 3, 0.1) == pytest.approx(math.sqrt(0.75))


def pattern(dimension, places, weights):
    """Of all pairs i <= j in order."""
    first, second = np.triu_indices(dimension)

    class Form:
        pairs = first, second

    Form.dimension = dimension
    return Pattern.of(Form, np.asarray(places), np.asarray(weights, dtype=float))


def written(known, rows):
    """The matrices A_k, the slow way."""
    return [known.matrix(np.eye(rows)[k]) for k in range(rows)]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_of_a_pattern_is_that_of_its_matrices(seed):
    rng = np.random.default_rng(seed)
    dimension = int(rng.integers(1, 6))
    rows = int(rng.integers(1, 5))
    pairs = dimension * (dimension + 1) // 2
    places = rng.integers(-1, rows, pairs)
    known = pattern(dimension, places, np.where(places < 0, 0.0, rng.random(pairs) + 0.1))
    matrices = written(known, rows)
    top = [np.abs(np.linalg.eigvalsh(one)).max() for one in matrices]
    squares = sum(one @ one for one in matrices)
    assert known.spread == pytest.approx(np.linalg.eigvalsh(squares)[-1], abs=1e-12)
    assert known.peak == pytest.approx(max(top), abs=1e-12)
    length = max(np.linalg.norm(one) for one in matrices)
    assert known.length == pytest.approx(length, abs=1e-12)
    cover = sum(np.abs(one) for one in matrices)
    assert known.cover == pytest.approx(np.linalg.eigvalsh(cover)[-1], abs=1e-12)


@pytest.mark.parametrize("law", [DiscreteGaussian(64), DiscreteLaplace(8)])
def test_a_group_of_equal_rows_that_fills_a_block(law):
    # One noise on all of a 20 by 20 block moves an eigenvalue by 20, where as many independent
    # ones would move it by 2 * sqrt(20) or so.
    dimension, beta = 20, 0.02
    pairs = dimension * (dimension + 1) // 2
    first, second = np.triu_indices(dimension)
    # With weights 2 on all entries of the matrix.
    known = pattern(dimension, np.zeros(pairs, int), np.where(first == second, 2.0, math.sqrt(8)))
    assert known.matrix(np.ones(1)) == pytest.approx(np.full((20, 20), 2.0))
    measured = MeasuredMatrix(known, known.matrix(np.zeros(1)), tails(law), fresh=False)
    found = 40.0 * draws(law, 20_000)
    kappa = measured.excess(beta)
    assert (found > kappa).mean() <= beta
    independent = law.standard_deviation() * 2 * (math.sqrt(40) + math.sqrt(2 * math.log(50)))
    assert (found > independent).mean() > 5 * beta
    assert kappa < 4 * np.quantile(found, 1 - beta)
    # Along one direction that was fixed beforehand it may be just as much.
    assert (found > evolve(measured, fresh=True).excess(beta)).mean() <= beta


@pytest.mark.parametrize("law", [DiscreteGaussian(64), DiscreteLaplace(8)])
@pytest.mark.parametrize("beta", [0.3, 0.02])
def test_the_largest_eigenvalue_of_noise_on_all_entries(law, beta):
    dimension, count = 6, 4000
    pairs = dimension * (dimension + 1) // 2
    known = pattern(dimension, np.arange(pairs), np.ones(pairs))
    noise = np.array([known.matrix(one) for one in draws(law, (count, pairs))])
    found = np.linalg.eigvalsh(noise)[:, -1]
    measured = MeasuredMatrix(known, np.zeros((6, 6)), tails(law), fresh=False)
    kappa = measured.excess(beta)
    assert (found > kappa).sum() <= count * beta + 5 * math.sqrt(count * beta)
    assert kappa < 2.5 * np.quantile(found, 1 - beta)
    rounded = evolve(measured, tails=tails(law, bias=1.0)).excess(beta)
    worst = np.linalg.eigvalsh(known.matrix(np.ones(pairs)))[-1]
    assert rounded == pytest.approx(kappa + worst)
    # Of one direction it is less, and chosen after the noise more than that.
    way = RNG.normal(size=6)
    along = np.einsum("i,nij,j->n", way, noise, way) / (way @ way)
    single = evolve(measured, fresh=True).excess(beta)
    assert (along > single).sum() <= count * beta + 5 * math.sqrt(count * beta)
    assert single < kappa
    assert (found > single).mean() > beta
