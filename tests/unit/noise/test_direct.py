"""Draws without a table: exact by enumeration, as arrays and one by one, and by histogram."""

import os
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from chi_square import LAWS, WIDE, fit, fit_parts
from scripted import no_bits

from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric, sampler
from dpsdk.noise.sampler import PRECISION, Exponentials, _Coin, _differences, _floors, _proposals
from dpsdk.noise.table import LIMIT
from dpsdk.testing.noise import seeded

FACTORS = [
    Fraction(1, 2**900), Fraction(1, 10**9), Fraction(2, 7), Fraction(1),
    Fraction(10**6 + 1, 10**6), Fraction(2**31), Fraction(10**15, 3), Fraction(2**55 - 1),
    Fraction(2**55), Fraction(2**55 + 1),
]  # fmt: skip


# Exact enumeration. Words of two bits are few enough to list, and scales of 4 / j and the levels
# of the coins below fall on their edges, so that no word leaves anything open.


def word_masses(count):
    quarter = mp.exp(-mp.mpf(1) / 4)
    return [(1 - quarter) * quarter**word for word in range(count)]


def floor_masses(numerator, denominator, words=700):
    source = Exponentials(no_bits, precision=2)
    masses = {}
    for word, mass in enumerate(word_masses(words)):
        k = source.floor(word, numerator, denominator)
        masses[k] = masses.get(k, mp.mpf(0)) + mass
    return masses


@pytest.mark.parametrize("j", [1, 2, 3, 4, 5, 8])
def test_floors_are_geometric_by_enumeration(j):
    scale = Fraction(4, j)
    with mp.workdps(60):
        masses = floor_masses(scale.numerator, scale.denominator)
        q = mp.exp(-mp.mpf(j) / 4)
        for k in range(10):
            assert abs(masses[k] / ((1 - q) * q**k) - 1) < 1e-40


@pytest.mark.parametrize("j", [1, 2, 3, 4, 5, 8])
def test_differences_are_discrete_laplace_by_enumeration(j):
    scale = Fraction(4, j)
    with mp.workdps(60):
        floors = floor_masses(scale.numerator, scale.denominator)
        q = mp.exp(-mp.mpf(j) / 4)
        for z in range(-8, 9):
            mass = mp.fsum(m * floors.get(k + z, mp.mpf(0)) for k, m in floors.items())
            assert abs(mass / ((1 - q) / (1 + q) * q ** abs(z)) - 1) < 1e-40


def kept_masses(variance, coin):
    """The mass of each value that one round of proposing and tossing leaves."""
    source = Exponentials(no_bits, precision=2)
    q = mp.exp(-mp.mpf(1) / coin.scale)
    words = word_masses(900)
    kept = {}
    for z in range(-6, 7):
        coin_mass = mp.fsum(m for word, m in enumerate(words) if coin.keeps(source, word, z))
        kept[z] = (1 - q) / (1 + q) * q ** abs(z) * coin_mass
    return kept


@pytest.mark.parametrize("variance", [Fraction(2), Fraction(1, 2)], ids=str)
def test_what_the_coin_keeps_is_discrete_gaussian_by_enumeration(variance):
    with mp.workdps(60):
        kept = kept_masses(variance, _Coin(variance.numerator, variance.denominator))
        for z, mass in kept.items():
            expected = mp.exp(-mp.mpf(z * z) * variance.denominator / (2 * variance.numerator))
            assert abs(mass / kept[0] / expected - 1) < 1e-40


def test_a_coin_that_keeps_too_much_is_noticed_by_enumeration():
    class Blind(_Coin):
        def keeps(self, source, word, z):
            return super().keeps(source, word, max(z, 1))

    with mp.workdps(60):
        kept = kept_masses(Fraction(2), Blind(2, 1))
        assert abs(kept[0] / kept[1] - mp.exp(mp.mpf(1) / 4)) > 0.2


@pytest.mark.parametrize("variance", [Fraction(10), Fraction(2), Fraction(1, 100)], ids=str)
def test_a_coin_has_the_exponent_of_its_proposal(variance):
    coin = _Coin(variance.numerator, variance.denominator)
    t = Fraction(coin.scale)
    assert coin.scale >= 1
    assert (coin.scale - 1) ** 2 <= variance < coin.scale**2

    class Asked(Exponentials):
        def reaches(self, word, numerator, denominator):
            # Proposal and coin multiply to the law: |z|/t + x is z²/(2v) but for a constant.
            constant = variance / (2 * t**2)
            assert (
                Fraction(numerator, denominator) + abs(z) / t == z * z / (2 * variance) + constant
            )
            return True

    for z in range(-12, 13):
        assert coin.keeps(Asked(no_bits), 0, z)


# The arrays against single draws, on the same words.


class Given(Exponentials):
    """Gives out the words that it was given; further bits are a function of those before."""

    def __init__(self, words):
        super().__init__(no_bits)
        self._given = words
        self._place = 0

    def word(self):
        self._place += 1
        return self.unbounded(int(self._given[self._place - 1]))

    def words(self, count):
        self._place += count
        return self._given[self._place - count : self._place]

    def _longer(self, word, precision):
        return word << 64 | (word * 0x9E3779B97F4A7C15 + precision) & (2**64 - 1)


def some_words(factor, count):
    """Words of all sizes, many of them at the edge of a floor."""
    rng = np.random.default_rng(9)
    free = rng.exponential(2.0**PRECISION, count).astype(np.int64)
    edges = []
    for k in [*range(1, 200), *rng.integers(1, 1 << 50, 200).tolist()]:
        edge = int(Fraction(k << PRECISION) / factor)
        edges += [edge - 1, edge, edge + 1]
    edges += [0, 1, 2, (1 << 32) - 1, 1 << 32, LIMIT - 1]
    return np.concatenate([free, [e for e in edges if 0 <= e < LIMIT]])


@pytest.mark.thorough(quick=6)
@pytest.mark.parametrize("factor", FACTORS, ids=lambda f: f"{float(f):.3g}")
def test_floors_of_arrays_are_told_only_where_they_are_sure(factor):
    words = some_words(factor, 3000)
    floors, sure = _floors(words, factor.numerator, factor.denominator)
    for word, floor, told in zip(words.tolist(), floors.tolist(), sure.tolist(), strict=True):
        low, high = (Fraction(w, 1 << PRECISION) * factor for w in (word, word + 1))
        if told:
            assert floor <= low
            assert high <= floor + 1
    if factor < 2**40:
        assert sure[:3000].mean() > 0.999


@pytest.mark.parametrize("factor", [Fraction(1, 3), Fraction(2**55)], ids=str)
def test_words_at_the_bound_are_never_sure(factor):
    _, sure = _floors(np.array([LIMIT]), factor.numerator, factor.denominator)
    assert not sure.any()


@pytest.mark.parametrize("variance", [f**2 for f in FACTORS[1:-1]], ids=lambda f: f"{float(f):.3g}")
def test_float_exponents_are_within_their_stated_error(variance):
    coin = _Coin(variance.numerator, variance.denominator)
    rng = np.random.default_rng(10)
    t = coin.scale
    near = rng.integers(-2, 3, 40) + t
    z = np.concatenate([rng.integers(-9 * t, 9 * t + 1, 200), [0, 1, -1, t, -t], near])
    x, error = coin.exponents(z)
    for value, approximate, off in zip(z.tolist(), x.tolist(), error.tolist(), strict=True):
        truth = (abs(value) - variance / t) ** 2 / (2 * variance)
        if truth < 200:
            # A half is left for the comparison with a float of E, which errs by 2^-53 and 2^-55.
            assert abs(Fraction(approximate) - truth) <= Fraction(off) / 2
            assert off <= 1e-9
        else:
            assert approximate - off > 150


@pytest.mark.parametrize(
    "variance",
    [Fraction(1, 2**1000), *(f**2 for f in FACTORS[1:-1])],
    ids=lambda f: f"{float(f):.3g}",
)
def test_arrays_of_gaussians_are_what_single_ones_are(variance):
    coin = _Coin(variance.numerator, variance.denominator)
    count = 1000
    words = np.random.default_rng(11).exponential(2.0**PRECISION, 3 * count).astype(np.int64)
    # The first coins stand at their exponents, where floats cannot tell.
    z, _ = _differences(words[: 2 * count], coin.scale, 1)
    for i in range(100):
        at = (abs(int(z[i])) - variance / coin.scale) ** 2 / (2 * variance) * (1 << PRECISION)
        if at < LIMIT:
            words[2 * count + i] = max(0, at.numerator // at.denominator - i % 3 + 1)
    kept = _proposals(Given(words), coin, count)
    source = Given(words)
    expected = []
    for i in range(count):
        up, down = (source.floor(int(words[k]), coin.scale, 1) for k in (i, count + i))
        if coin.keeps(source, int(words[2 * count + i]), up - down):
            expected.append(up - down)
    assert kept.tolist() == expected
    assert len(kept) > 300


@pytest.mark.parametrize(
    "factor", [f for f in FACTORS if f <= 2**55], ids=lambda f: f"{float(f):.3g}"
)
@pytest.mark.parametrize("cls", [DiscreteLaplace, Geometric])
def test_arrays_are_what_single_draws_are(cls, factor):
    law = cls(factor)
    words = some_words(factor, 2000)
    words = words[: len(words) // 2 * 2]
    size = len(words) // 2 if cls is DiscreteLaplace else len(words)
    many = sampler.draw_untabled(Given(words), law, size)
    paired = words.reshape(2, -1).T.ravel() if cls is DiscreteLaplace else words
    source = Given(paired)
    single = [int(sampler.draw_untabled(source, law, 1)[0]) for _ in range(size)]
    assert many.tolist() == single


def test_draws_beyond_the_bound_are_set_to_it_however_they_are_made():
    far = np.array([LIMIT, LIMIT - 1] + [0] * 100)
    widest = 2**55
    assert sampler.draw_untabled(Given(far), Geometric(widest), 1).tolist() == [LIMIT]
    assert sampler.geometric(Given(far), widest, 1) == 2 * LIMIT - 1
    many = sampler.draw_untabled(Given(np.array([LIMIT] + [0] * 100)), DiscreteLaplace(widest), 30)
    assert many[0] == LIMIT
    down = np.zeros(100, dtype=np.int64)
    down[30] = LIMIT
    assert sampler.draw_untabled(Given(down), DiscreteLaplace(widest), 30)[0] == -LIMIT


# Histograms.


@pytest.mark.thorough(quick=4)
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("size", [1, 24, 25, 4095])
def test_draws_without_a_table_fit_the_law(law, size):
    source = Exponentials(seeded(51 + size)._bits)
    total = 6000 if size < 25 else 12_000 if size == 25 else 200_000
    parts = [sampler.draw_untabled(source, law, size) for _ in range(total // size)]
    assert all(part.dtype == np.int64 and len(part) == size for part in parts)
    assert fit(law, np.concatenate(parts), bins=60) > 1e-3


@pytest.mark.parametrize("size", [1, 1000])
def test_a_wide_gaussian_without_a_table_fits_after_division(size):
    law = DiscreteGaussian(Fraction(1000 * 2**20) ** 2)
    source = Exponentials(seeded(52)._bits)
    parts = [sampler.draw_untabled(source, law, size) for _ in range(20_000 // size)]
    drawn = np.concatenate(parts)
    assert fit(DiscreteGaussian(1000**2), (drawn + 2**19) >> 20, bins=60) > 1e-3
    for shift in range(0, 20, 4):
        counts = np.bincount((drawn >> shift) & 15, minlength=16)
        assert ((counts - 1250) ** 2 / 1250).sum() < 45  # chi-square of 15, p about 10^-4


@pytest.mark.thorough
@pytest.mark.parametrize(
    "law", [DiscreteLaplace("9.6"), DiscreteGaussian("94.09")], ids=["Laplace", "Gaussian"]
)
@pytest.mark.parametrize("size", [10, 4000])
def test_a_scale_a_few_percent_off_is_noticed(law, size):
    wrong = DiscreteLaplace(10) if isinstance(law, DiscreteLaplace) else DiscreteGaussian(100)
    source = Exponentials(seeded(53)._bits)
    parts = [sampler.draw_untabled(source, law, size) for _ in range(200_000 // size)]
    assert fit(wrong, np.concatenate(parts)) < 1e-6


@pytest.mark.thorough
def test_words_of_few_bits_are_refined_until_the_law_fits():
    # With no bit behind the point nearly every draw has to ask for more.
    class Coarse(Exponentials):
        def word(self):
            return super().word() >> PRECISION

    source = Coarse(seeded(54)._bits, precision=0)
    for law in (DiscreteLaplace("10.3"), DiscreteGaussian("40.7"), Geometric("3.3")):
        drawn = np.concatenate([sampler.draw_untabled(source, law, 1) for _ in range(8000)])
        assert fit(law, drawn, bins=30) > 1e-3


def test_words_that_are_not_refined_are_noticed():
    class Careless(Exponentials):
        def word(self):
            return super().word() >> PRECISION

        def _longer(self, word, precision):
            return word << 64

    source = Careless(seeded(54)._bits, precision=0)
    law = DiscreteLaplace("10.3")
    drawn = np.concatenate([sampler.draw_untabled(source, law, 1) for _ in range(8000)])
    assert fit(law, drawn, bins=30) < 1e-6


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("law", [DiscreteLaplace(2**55), DiscreteGaussian(2**110)], ids=str)
@pytest.mark.parametrize("size", [20, 1000])
def test_the_widest_laws_stay_in_range_without_a_table(law, size):
    source = Exponentials(seeded(55)._bits)
    drawn = np.concatenate([sampler.draw_untabled(source, law, size) for _ in range(8000 // size)])
    assert np.abs(drawn).max() < 2**61
    assert drawn.astype(float).std() / law.standard_deviation() == pytest.approx(1, abs=0.04)


@pytest.mark.parametrize("cls", [DiscreteLaplace, DiscreteGaussian, Geometric])
@pytest.mark.parametrize("size", [1, 100])
def test_the_narrowest_laws_are_zero_without_a_table(cls, size):
    law = cls(Fraction(1, 2**1000))
    source = Exponentials(seeded(56)._bits)
    assert sampler.draw_untabled(source, law, size).tolist() == [0] * size


@pytest.mark.audit
@pytest.mark.parametrize(
    "law",
    [
        DiscreteLaplace("0.7"), DiscreteLaplace("1000.7"), DiscreteLaplace(WIDE),
        DiscreteGaussian("1.3"), DiscreteGaussian("1001400.49"), Geometric("33.3"),
    ],
    ids=str,
)  # fmt: skip
def test_ten_million_draws_without_a_table_fit_the_law(law):
    source = Exponentials(os.urandom)
    parts = (sampler.draw_untabled(source, law, 4000) for _ in range(2500))
    assert fit_parts(law, parts, 10**7, bins=2000) > 1e-7


@pytest.mark.audit
@pytest.mark.parametrize("law", [DiscreteLaplace("47.1"), DiscreteGaussian(2000)], ids=str)
def test_a_million_single_draws_without_a_table_fit_the_law(law):
    source = Exponentials(os.urandom)
    parts = (sampler.draw_untabled(source, law, 20) for _ in range(50_000))
    assert fit_parts(law, parts, 10**6, bins=2000) > 1e-7
