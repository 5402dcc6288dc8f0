"""Primitives on private data: charge, then read. What mechanisms are built on."""

from dpsdk.kernel.allowance import Allowance
from dpsdk.kernel.kernel import Kernel
from dpsdk.kernel.measure import GaussianNoise, LaplaceNoise, Noise, Pricing, price
from dpsdk.kernel.watch import Top, Watch, Watching

__all__ = [
    "Allowance",
    "GaussianNoise",
    "Kernel",
    "LaplaceNoise",
    "Noise",
    "Pricing",
    "Top",
    "Watch",
    "Watching",
    "price",
]
