"""Broken twins for sampling to catch: many runs at once, on neighbours that differ in a count."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from attrs import frozen
from canaries import HALF, ONE, count

from dpsdk import PrivateData
from dpsdk.accounting import Guarantee
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, NoiseSource
from dpsdk.testing.audit import Batch


def laplace_batch(scale: Fraction | int) -> Batch:
    return lambda data, noise, size: (
        count(data) + noise.draw(DiscreteLaplace(scale), size)
    ).astype(float)


def gaussian_batch(variance: Fraction | int) -> Batch:
    return lambda data, noise, size: (
        count(data) + noise.draw(DiscreteGaussian(variance), size)
    ).astype(float)


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
