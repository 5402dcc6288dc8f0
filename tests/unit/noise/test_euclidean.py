"""Vectors of Euclidean Laplace noise: their law, their tails, and how proposals become them."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpsdk.errors import InvalidArgument
from dpsdk.noise import DiscreteLaplace, EuclideanLaplace, sampler
from dpsdk.noise.sampler import rounded_up_root
from dpsdk.testing import seeded


def masses(law, reach):
    """The probabilities of all vectors within a cube, by their definition."""
    weights = {
        z: math.exp(-math.ceil(math.hypot(*z)) / law.scale)
        for z in itertools.product(range(-reach, reach + 1), repeat=law.entries)
    }
    total = math.fsum(weights.values())
    return {z: weight / total for z, weight in weights.items()}


def p_value(law, count, seed=3):
    source = seeded(seed)
    seen = Counter(tuple(source.vector(law)) for _ in range(count))
    expected = {z: count * mass for z, mass in masses(law, 14).items()}
    likely = [z for z, many in expected.items() if many >= 20]
    observed = np.array([seen[z] for z in likely] + [count - sum(seen[z] for z in likely)])
    wanted = np.array([expected[z] for z in likely])
    wanted = np.append(wanted, count - wanted.sum())
    return float(chi2.sf(((observed - wanted) ** 2 / wanted).sum(), len(likely)))


@pytest.mark.parametrize(
    "law", [EuclideanLaplace("1.3", 1), EuclideanLaplace(1, 2), EuclideanLaplace("0.6", 3)], ids=str
)
def test_vectors_have_their_law(law):
    assert p_value(law, 4_000) > 1e-4


BROKEN = {
    "lengths rounded down": lambda square: math.isqrt(square),
    "a length one short": lambda square: max(rounded_up_root(square) - 1, 0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_other_lengths_are_told_from_it(name, monkeypatch):
    exact, wrong = rounded_up_root, BROKEN[name]
    # The root of the number of entries, far larger than any square of a length, stays as it is.
    monkeypatch.setattr(
        sampler, "rounded_up_root", lambda n: exact(n) if n >= 1 << 40 else wrong(n)
    )
    monkeypatch.setattr(sampler.Exponentials, "reaches", forgiving(sampler.Exponentials.reaches))
    assert p_value(EuclideanLaplace(1, 2), 4_000) < 1e-6


def forgiving(reaches):
    return lambda source, word, above, below: reaches(source, word, max(above, 0), below)


@pytest.mark.parametrize("entries", [1, 2, 3, 6, 23])
def test_no_proposal_is_kept_with_more_than_certainty(entries, monkeypatch):
    exponents = []
    scale = Fraction(7, 3)

    def reaches(source, word, above, below):
        exponents.append(Fraction(above, below))
        return True

    monkeypatch.setattr(sampler.Exponentials, "reaches", reaches)
    for _ in range(50):
        z = seeded(len(exponents)).vector(EuclideanLaplace(scale, entries))
        # What was proposed by, times what it is kept by, is the law.
        root = Fraction(rounded_up_root(entries << 40), 1 << 20)
        length = rounded_up_root(sum(each * each for each in z))
        assert exponents[-1] + sum(map(abs, z)) / (scale * root) == length / scale
    assert min(exponents) >= 0


@pytest.mark.parametrize("square", [0, 1, 2, 3, 4, 5, 10**40, 10**40 + 1])
def test_roots_are_rounded_up(square):
    root = rounded_up_root(square)
    assert root**2 >= square > (root - 1) ** 2 - (square == 0) * 2


@pytest.mark.parametrize(("scale", "entries"), [("0.5", 2), (1, 1), (2, 2), ("1.5", 3)])
def test_tails_and_deviations_are_no_smaller_than_they_are(scale, entries):
    law = EuclideanLaplace(scale, entries)
    known = masses(law, 30 if entries < 3 else 16)
    for radius in range(-1, 12):
        tail = math.fsum(mass for z, mass in known.items() if math.hypot(*z) > radius)
        assert law.tail(radius) >= tail * (1 - 1e-9)
    squared = math.fsum(mass * z[0] ** 2 for z, mass in known.items())
    assert law.standard_deviation() >= math.sqrt(squared)


def test_of_a_wide_law_both_are_nearly_exact():
    law = EuclideanLaplace(10**6, 6)
    assert law.standard_deviation() == pytest.approx(math.sqrt(7) * 1e6, rel=1e-5)
    # The sum of six exponentials exceeds ten with a chance of .0671.
    assert law.tail(10**7) == pytest.approx(0.067086, rel=1e-4)
    assert law.radius(0.05) == law.radius(0.05, 6) < law.radius(0.05, 7)
    assert law.tail(law.radius(1e-9)) <= 1e-9


def test_no_scale_is_no_noise():
    law = EuclideanLaplace(0, 3)
    assert seeded(1).vector(law) == [0, 0, 0]
    assert (law.tail(0), law.standard_deviation()) == (0.0, 0.0)


def test_vectors_are_as_long_as_they_are_and_not_clamped():
    vector = seeded(5).vector(EuclideanLaplace(2**55, 24))
    assert len(vector) == 24
    assert all(type(each) is int for each in vector)


@pytest.mark.parametrize("entries", [0, 25, 1.5])
def test_other_numbers_of_entries_are_refused(entries):
    with pytest.raises(InvalidArgument, match="entries"):
        EuclideanLaplace(1, entries)


def test_laws_of_independent_draws_and_of_vectors_are_not_mixed_up():
    with pytest.raises(InvalidArgument, match="law"):
        seeded(1).draw(EuclideanLaplace(1, 2), 2)
    with pytest.raises(InvalidArgument, match="EuclideanLaplace"):
        seeded(1).vector(DiscreteLaplace(1))
