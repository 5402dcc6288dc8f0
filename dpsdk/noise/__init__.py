"""Exact integer noise: the laws, the sources, and draws for use on their own.

Given ideal random bits, every draw has exactly the probability that its law says: no rounding, no
truncation, no approximation (docs/explanation/proofs/noise.md).
"""

from __future__ import annotations

from dpsdk._checks import to_fraction
from dpsdk.noise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    EuclideanLaplace,
    Geometric,
    NoiseLaw,
)
from dpsdk.noise.source import NoiseSource, PublicGenerator, SystemNoise
from dpsdk.typing import Ints, Real

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "EuclideanLaplace",
    "Geometric",
    "NoiseLaw",
    "NoiseSource",
    "PublicGenerator",
    "SystemNoise",
    "discrete_gaussian",
    "discrete_laplace",
]

_system = SystemNoise()


def discrete_laplace(scale: Real, size: int) -> Ints:
    """Exact discrete Laplace noise from the operating system's generator.

    P(z) is proportional to exp(-|z| / scale) on the integers. Added to an integer that one person
    changes by at most D, noise of scale D / epsilon gives pure epsilon-differential privacy.
    Nothing is charged to any budget here: that is the kernel's part.

    Parameters
    ----------
    scale
        From 0, which means no noise, to 2^55; text and floats are read as decimals.
    size
        How many independent draws, at least 0: the shape of the answer.

    Raises
    ------
    InvalidArgument
        If scale or size is out of range.
    """
    return _system.draw(DiscreteLaplace(to_fraction("scale", scale)), size)


def discrete_gaussian(sigma: Real, size: int) -> Ints:
    """Exact discrete Gaussian noise from the operating system's generator.

    P(z) is proportional to exp(-z² / (2 sigma²)) on the integers. Added to integers that one person
    changes by at most D in the Euclidean norm, it gives rho-zCDP with rho = D² / (2 sigma²)
    (Canonne, Kamath and Steinke 2020). Sigma and size are as scale and size of `discrete_laplace`,
    and nothing is charged here either.
    """
    return _system.draw(DiscreteGaussian(to_fraction("sigma", sigma) ** 2), size)
