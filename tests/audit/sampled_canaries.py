"""Broken twins for sampling to catch: many runs at once, on neighbours that differ in a count."""

from fractions import Fraction

import numpy as np
from attrs import frozen
from canaries import HALF, ONE, count

from dpsdk import PrivateData
from dpsdk.accounting import Guarantee, PureGuarantee
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric, NoiseLaw, NoiseSource
from dpsdk.testing.audit import Batch


def laplace_batch(scale: Fraction | int) -> Batch:
    return lambda data, noise, size: (
        count(data) + noise.draw(DiscreteLaplace(scale), size)
    ).astype(float)


def gaussian_batch(variance: Fraction | int) -> Batch:
    return lambda data, noise, size: (
        count(data) + noise.draw(DiscreteGaussian(variance), size)
    ).astype(float)


TWO_FIFTHS = PureGuarantee(Fraction(2, 5))

_FEW = 4000


def untabled(law: NoiseLaw) -> Batch:
    """The noise of first uses of a law: too few draws at a time for a table."""

    def batch(data: PrivateData, noise: NoiseSource, size: int) -> np.ndarray:
        parts = [NoiseSource.draw(noise, law, _FEW) for _ in range(size // _FEW)]
        return (count(data) + np.concatenate(parts)).astype(float)

    return batch


def whole_exponentials(data: PrivateData, noise: NoiseSource, size: int) -> np.ndarray:
    """Differences of floors of 5/2 E, with E cut to an integer before and not after."""
    e = np.concatenate([NoiseSource.draw(noise, Geometric(1), _FEW) for _ in range(size // 2000)])
    floors = 5 * e[: 2 * size] // 2
    return (count(data) + floors[:size] - floors[size:]).astype(float)


def float_laplace(data: PrivateData, noise: NoiseSource, size: int) -> np.ndarray:
    """Whether a porous float release lies on the grid of its own binade (Mironov 2012)."""
    generator = np.random.default_rng(noise.uniform_below(2**32))
    released = count(data) + generator.laplace(0.0, 1.0, size)
    scaled = np.abs(released) * 2.0**53
    small = (np.abs(released) >= 0.25) & (np.abs(released) < 0.5)
    return np.where(small, (scaled % 2 == 0).astype(float), 2.0)


def four_gaussians(data: PrivateData, noise: NoiseSource, size: int) -> np.ndarray:
    """The same flaw survives a sum of four float Gaussians."""
    generator = np.random.default_rng(noise.uniform_below(2**32))
    released = count(data) + generator.normal(0.0, 0.5, (4, size)).sum(axis=0)
    scaled = np.abs(released) * 2.0**53
    small = (np.abs(released) >= 0.25) & (np.abs(released) < 0.5)
    return np.where(small, (scaled % 2 == 0).astype(float), 2.0)


def lattice_bits(data: PrivateData, noise: NoiseSource, size: int) -> np.ndarray:
    """The low bits of releases on a lattice, which tell nothing."""
    return ((count(data) * 2**10 + noise.draw(DiscreteLaplace(2**10), size)) % 8).astype(float)


@frozen
class Sampled:
    """A batch program that must pass, the broken ones, and how many samples it takes."""

    name: str
    batch: Batch
    claim: Guarantee
    canaries: dict[str, Batch]
    samples: int


SAMPLED = (
    Sampled(
        "Laplace, sampled",
        laplace_batch(1),
        ONE,
        {
            "scale halved, sampled": laplace_batch(Fraction(1, 2)),
            "scale times 10/11, sampled": laplace_batch(Fraction(10, 11)),
        },
        400_000,
    ),
    Sampled(
        "Gaussian, sampled on its own curve",
        gaussian_batch(9),
        HALF,
        {
            "deviation times 0.9, sampled": gaussian_batch(Fraction(729, 100)),
        },
        1_000_000,
    ),
    Sampled(
        "Laplace without a table, sampled",
        untabled(DiscreteLaplace("2.5")),
        TWO_FIFTHS,
        {
            "scale times 8/10 without a table": untabled(DiscreteLaplace(2)),
            "exponentials of too few bits": whole_exponentials,
        },
        400_000,
    ),
    Sampled(
        "Gaussian without a table, sampled on its own curve",
        untabled(DiscreteGaussian(9)),
        HALF,
        {
            "deviation times 0.9 without a table": untabled(DiscreteGaussian("7.29")),
        },
        1_000_000,
    ),
    Sampled(
        "low bits",
        lattice_bits,
        ONE,
        {
            "float Laplace noise": float_laplace,
            "sum of four float Gaussians": four_gaussians,
        },
        400_000,
    ),
)
