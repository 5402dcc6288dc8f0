import copy
import math
import pickle
from fractions import Fraction
from functools import partial
from itertools import accumulate

import mpmath as mp
import pytest

from dpsdk.errors import InvalidArgument
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from worlds import crossed

SMALL = [
    DiscreteLaplace(Fraction(1, 3)), DiscreteLaplace(1), DiscreteLaplace("7.3"),
    DiscreteGaussian("0.05"), DiscreteGaussian("0.9"), DiscreteGaussian(1),
    DiscreteGaussian("57.3"), DiscreteGaussian(3000), Geometric("0.4"), Geometric(6),
]  # fmt: skip


def weight(law, z):
    if isinstance(law, DiscreteGaussian):
        return mp.exp(-mp.mpf(z * z) * law.variance.denominator / (2 * law.variance.numerator))
    assert isinstance(law, DiscreteLaplace | Geometric)
    return mp.exp(-mp.mpf(z) * law.scale.denominator / law.scale.numerator)


def brute_tails(law, end):
    """P(|Z| > r) for r below `end`, by summing weights at 40 digits."""
    sides = 1 if isinstance(law, Geometric) else 2
    with mp.workdps(40):
        weights = [weight(law, z) for z in range(end)]
        total = 1 + sides * mp.fsum(weights[1:])
        beyond = list(accumulate(reversed(weights), initial=mp.mpf(0)))[::-1]
        return [sides * beyond[r + 1] / total for r in range(end)]


@pytest.mark.parametrize("law", SMALL, ids=str)
def test_tail_is_the_sum_of_the_law(law):
    end = 20 + math.ceil(40 * law.standard_deviation() + 40)
    truth = brute_tails(law, end)
    for radius in range(0, end // 2, 1 + end // 60):
        if truth[radius] > 1e-290:
            assert law.tail(radius) == pytest.approx(float(truth[radius]), rel=1e-12)
    assert law.tail(-1) == 1.0


@pytest.mark.parametrize("law", SMALL, ids=str)
def test_standard_deviation_is_that_of_the_law(law):
    with mp.workdps(40):
        end = 60 + math.ceil(60 * law.standard_deviation())
        sides = 1 if isinstance(law, Geometric) else 2
        weights = [weight(law, z) for z in range(end)]
        total = 1 + sides * mp.fsum(weights[1:])
        mean = mp.fsum(z * w for z, w in enumerate(weights)) / total if sides == 1 else 0
        square = sides * mp.fsum(z * z * w for z, w in enumerate(weights)) / total
        truth = float(mp.sqrt(square - mean**2))
    assert law.standard_deviation() == pytest.approx(truth, rel=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("sigma", [64, 65, 300, 1000])
def test_gaussian_bound_is_above_the_truth_and_tight(sigma):
    law = DiscreteGaussian(sigma**2)
    with mp.workdps(40):
        total = mp.sqrt(2 * mp.pi) * sigma
        for deviations in (0, 0.7, 1, 2.2, 7.3, 11):
            radius = int(deviations * sigma)
            weights = (weight(law, z) for z in range(radius + 1, radius + 6 * sigma))
            truth = float(2 * mp.fsum(weights) / total)
            excess = (deviations / sigma) ** 2 / 24 + 1 / sigma**2
            assert truth * (1 - 1e-12) <= law.tail(radius) <= truth * (1 + 1.1 * excess)


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("sigma", ["63.9", "64.1", "200.3"])
@pytest.mark.parametrize("beta", [0.9, 0.3, 0.05, 1e-9, 1e-40])
def test_the_bound_moves_a_radius_by_one_at_the_most(sigma, beta):
    law = DiscreteGaussian(Fraction(sigma) ** 2)
    truth = brute_tails(law, int(20 * float(sigma)))
    least = next(radius for radius, tail in enumerate(truth) if tail <= beta)
    assert least <= law.radius(beta) <= least + 1


LARGE = [
    DiscreteLaplace(10 * 2**20), DiscreteGaussian(64**2), DiscreteGaussian(1000),
    DiscreteGaussian(100 * 2**40), DiscreteGaussian(2**110), DiscreteLaplace(2**55),
]  # fmt: skip


@pytest.mark.parametrize("law", [*SMALL, *LARGE, Geometric(2**40)], ids=str)
@pytest.mark.parametrize(
    ("beta", "entries"), crossed([0.9, 0.3, 0.05, 1e-9, 1e-40], [1, 7, 4_000_000], 3)
)
def test_radius_is_minimal(law, beta, entries):
    radius = law.radius(beta, entries)

    def some_exceed(r):
        each = law.tail(r)
        return 1.0 if each >= 1 else -math.expm1(entries * math.log1p(-each))

    assert some_exceed(radius) <= beta * (1 + 1e-12)
    if radius > 0:
        # Steps of a float at this magnitude.
        step = max(1, radius >> 45)
        assert some_exceed(radius - step) > beta * (1 - 1e-12)


def test_radius_of_one_and_of_many_entries_agree_with_arithmetic_by_hand():
    # P(|Z| > r) = 2 q^(r+1) / (1 + q) with q = exp(-1/10): 0.0526 for r = 29, 0.0476 for r = 30.
    assert DiscreteLaplace(10).radius(0.05) == 30
    assert Geometric(10).radius(0.05) == 29


@pytest.mark.parametrize("law", [DiscreteLaplace(0), DiscreteGaussian(0), Geometric(0)], ids=str)
def test_zero_means_no_noise(law):
    assert law.tail(0) == 0.0
    assert law.tail(-1) == 1.0
    assert law.radius(1e-9, 10**6) == 0
    assert law.standard_deviation() == 0.0


def test_laws_are_values():
    law = DiscreteLaplace(Fraction(1, 3))
    assert law == DiscreteLaplace(Fraction(2, 6))
    assert hash(law) == hash(DiscreteLaplace(Fraction(2, 6)))
    assert law != Geometric(Fraction(1, 3))
    assert DiscreteLaplace("0.1").scale == Fraction(1, 10)
    assert copy.deepcopy(law) == law
    assert pickle.loads(pickle.dumps(law)) == law  # noqa: S301
    assert len({law, DiscreteLaplace(Fraction(1, 3)), DiscreteGaussian(Fraction(1, 3))}) == 2


ONE = DiscreteLaplace(1)
REFUSED = {
    DiscreteLaplace: ("scale", [-1, 2**55 + 1, "nan", math.inf, Fraction(1, 2**1024), True]),
    DiscreteGaussian: ("variance", [2**110 + 1, "-0.1"]),
    ONE.radius: ("beta", [0, 1, -0.1, math.nan]),
    partial(ONE.radius, 0.1): ("entries", [0, -1, 10**400]),
}


@pytest.mark.parametrize(
    ("call", "named", "value"),
    [(call, named, value) for call, (named, values) in REFUSED.items() for value in values],
)
def test_what_is_out_of_range_is_refused_by_name(call, named, value):
    assert DiscreteGaussian(2**110)
    with pytest.raises(InvalidArgument, match=named):
        call(value)


@pytest.mark.parametrize("law", [*SMALL, *LARGE], ids=str)
@pytest.mark.parametrize(("beta", "entries"), [(5e-324, 1), (5e-324, 2**1000), (1e-9, 2**1000)])
def test_radii_of_the_rarest_events_are_found(law, beta, entries):
    # The least probability of full precision that a float has is 2.2e-308.
    assert law.tail(law.radius(beta, entries)) <= 2.3e-308


@pytest.mark.parametrize("law", [*SMALL, *LARGE, Geometric(2**55)], ids=str)
@pytest.mark.parametrize("beta", [0.9, 0.05, 1e-9, 1e-40])
def test_a_radius_is_found_without_a_search(law, beta, monkeypatch):
    asked = []
    tail = type(law).tail

    def counted(self, radius):
        asked.append(radius)
        return tail(self, radius)

    monkeypatch.setattr(type(law), "tail", counted)
    law.radius(beta)
    # One at 0, and one to either side of the radius; floats of wide laws take a few more.
    assert len(asked) <= (4 if law.standard_deviation() < 2**44 else 16)


def test_laws_name_themselves_briefly():
    assert str(DiscreteLaplace(10)) == "discrete Laplace noise of scale 10"
    assert str(DiscreteGaussian(100)) == "discrete Gaussian noise of sigma 10"
