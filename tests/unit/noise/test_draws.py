from fractions import Fraction

import numpy as np
import pytest
from chi_square import LAWS, WIDE, fit, fit_parts

from dpsdk.errors import InvalidArgument
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric, NoiseLaw, SystemNoise, sampler
from dpsdk.noise.sampler import Exponentials
from dpsdk.testing.audit import BranchingNoise
from dpsdk.testing.noise import seeded


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_many_draws_fit_the_law(law):
    assert fit(law, seeded(11).draw(law, 1_000_000)) > 1e-3


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_single_draws_fit_the_law(law):
    source = seeded(12)
    drawn = np.concatenate([source.draw(law, 100) for _ in range(60)])
    assert fit(law, drawn, bins=30) > 1e-3


@pytest.mark.parametrize("size", [1000, 100])
def test_a_wide_gaussian_fits_after_division(size):
    # Cells of 2^20 steps hold the continuous law to within 10^-12; a thousandth of sigma apart.
    law = DiscreteGaussian(Fraction(1000 * 2**20) ** 2)
    source = seeded(13)
    rounds = 200 if size == 1000 else 60
    drawn = np.concatenate([source.draw(law, size) for _ in range(rounds)])
    assert fit(DiscreteGaussian(1000**2), (drawn + 2**19) >> 20, bins=60) > 1e-3


def test_a_wide_gaussian_has_uniform_low_bits():
    drawn = seeded(14).draw(DiscreteGaussian(Fraction(2**30) ** 2), 160_000)
    for shift in range(0, 20, 4):
        counts = np.bincount((drawn >> shift) & 15, minlength=16)
        assert ((counts - 10_000) ** 2 / 10_000).sum() < 45  # chi-square of 15, p about 10^-4


@pytest.mark.parametrize(
    "law", [DiscreteLaplace("9.9"), DiscreteGaussian("98.01")], ids=["Laplace", "Gaussian"]
)
def test_a_scale_one_percent_off_is_noticed(law):
    wrong = DiscreteLaplace(10) if isinstance(law, DiscreteLaplace) else DiscreteGaussian(100)
    assert fit(wrong, seeded(15).draw(law, 1_000_000)) < 1e-6


@pytest.mark.parametrize("law", [DiscreteLaplace(0), DiscreteGaussian(0), Geometric(0)], ids=str)
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_zero_noise_is_zero(law, size):
    drawn = seeded(1).draw(law, size)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == [0] * size


@pytest.mark.parametrize("law", [DiscreteLaplace(2**55), DiscreteGaussian(2**110)], ids=str)
def test_the_widest_laws_stay_in_range(law):
    drawn = seeded(2).draw(law, 100_000)
    assert np.abs(drawn).max() < 2**61
    ratio = np.abs(drawn.astype(float)).max() / law.standard_deviation()
    assert ratio > 3
    assert drawn.astype(float).std() / law.standard_deviation() == pytest.approx(1, abs=0.02)


def test_numbers_of_draws_alone_decide_where_there_is_a_table(monkeypatch):
    built = []
    build = sampler._sampler

    def recording(*law):
        built.append(size)
        return build(*law)

    monkeypatch.setattr(sampler, "_sampler", recording)
    for size in (1, 24, 25, 4095, 4096, 10**5, 5):
        sampler.sample(Exponentials(seeded(1)._bits), DiscreteLaplace("321.1"), size)
    assert built == [4096, 10**5]
    built.clear()
    size = 1
    for before in (4094, 4095, 10**9):
        sampler.sample(Exponentials(seeded(1)._bits), DiscreteLaplace("321.1"), 1, before=before)
    assert len(built) == 2
    built.clear()
    for source in (seeded(1), SystemNoise()):
        for size in [1000] * 6 + [1] * 3657:
            source.draw(DiscreteLaplace("321.1"), size)
        assert built == [1000, 1000]  # the fifth thousand is beyond 4,096
        # Singles are made 1, 8, 64 and 512 at a time, and then 1,024 three times.
        source.draw(DiscreteLaplace("321.1"), 1)
        assert built == [1000, 1000, 1]
        built.clear()


def test_sizes_beyond_one_block_are_filled():
    drawn = seeded(3).draw(DiscreteLaplace(1000), 200_001)
    assert len(drawn) == 200_001
    assert np.abs(drawn[-1000:]).mean() == pytest.approx(1000, rel=0.2)


@pytest.mark.audit
@pytest.mark.parametrize(
    "law",
    [
        DiscreteLaplace(Fraction(1, 3)), DiscreteLaplace(10), DiscreteLaplace("1000.7"),
        DiscreteLaplace(WIDE), DiscreteGaussian(1), DiscreteGaussian(100),
        DiscreteGaussian("1001400.49"), Geometric("33.3"),
    ],
    ids=str,
)  # fmt: skip
def test_a_hundred_million_system_draws_fit_the_law(law):
    source = SystemNoise()
    parts = (source.draw(law, 10**6) for _ in range(100))
    assert fit_parts(law, parts, 10**8, bins=4000) > 1e-7


@pytest.mark.audit
@pytest.mark.parametrize("law", [DiscreteLaplace("47.1"), DiscreteGaussian(2000)], ids=str)
def test_ten_million_small_system_draws_fit_the_law(law):
    source = SystemNoise()
    parts = (source.draw(law, 1000) for _ in range(10_000))
    assert fit_parts(law, parts, 10**7, bins=4000) > 1e-7


class Foreign(NoiseLaw):
    tail = standard_deviation = _guess = None


class Below(DiscreteLaplace):
    pass


@pytest.mark.parametrize(
    "law", [Foreign(), Below(3), Fraction(3), "laplace", None, object(), Geometric]
)
@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("source", [SystemNoise, lambda: seeded(1), BranchingNoise])
def test_every_source_refuses_laws_that_it_has_no_sampler_for(law, size, source):
    with pytest.raises(InvalidArgument, match="law"):
        source().draw(law, size)


@pytest.mark.parametrize(
    "law", [DiscreteLaplace(10**12), DiscreteGaussian(10**6), Geometric(10**12)]
)
@pytest.mark.parametrize("size", [1, 2, 10, 100, 5000])
def test_what_is_drawn_belongs_to_whoever_drew_it(law, size):
    told = []
    for written in (False, True):
        source, drawn = seeded(3), []
        for _ in range(6):
            mine = source.draw(law, size)
            drawn.append(mine.tolist())
            if written:
                mine[...] = 0
        told.append(drawn)
    assert told[0] == told[1]
    assert np.any(told[0][0])
