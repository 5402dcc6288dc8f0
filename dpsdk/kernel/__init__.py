"""Primitives on private data: charge, then read. What mechanisms are built on."""

from dpsdk.kernel.allowance import Allowance
from dpsdk.kernel.kernel import Kernel
from dpsdk.kernel.measure import GaussianNoise, LaplaceNoise, Measure, Noise, Pricing
from dpsdk.kernel.primitive import Primitive, Request
from dpsdk.kernel.select import Select, SelectPricing, ShortfallAccuracy
from dpsdk.kernel.terms import Terms
from dpsdk.kernel.watch import RunPricing, Top, Watch, Watching

__all__ = [
    "Allowance",
    "GaussianNoise",
    "Kernel",
    "LaplaceNoise",
    "Measure",
    "Noise",
    "Pricing",
    "Primitive",
    "Request",
    "RunPricing",
    "Select",
    "SelectPricing",
    "ShortfallAccuracy",
    "Terms",
    "Top",
    "Watch",
    "Watching",
]
