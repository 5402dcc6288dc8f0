"""Primitives on private data: charge, then read. What mechanisms are built on."""

from dpsdk.data.counts import Counts
from dpsdk.kernel.allowance import Allowance
from dpsdk.kernel.draw_database.bounds import DrawBound
from dpsdk.kernel.draw_database.choose import Limits
from dpsdk.kernel.draw_database.request import (
    DatabaseAccuracy,
    DrawDatabase,
    DrawPricing,
    SmallDatabase,
)
from dpsdk.kernel.kernel import Kernel
from dpsdk.kernel.look import Look, LookPricing, Reference
from dpsdk.kernel.measure import GaussianNoise, LaplaceNoise, Measure, Noise, Pricing
from dpsdk.kernel.primitive import Primitive, Request
from dpsdk.kernel.residuals import MeasureResiduals, ResidualAccuracy, ResidualPricing
from dpsdk.kernel.select import Select, SelectPricing, ShortfallAccuracy
from dpsdk.kernel.terms import Terms
from dpsdk.kernel.watch import RunPricing, Top, Watch, Watching

__all__ = [
    "Allowance",
    "Counts",
    "DatabaseAccuracy",
    "DrawBound",
    "DrawDatabase",
    "DrawPricing",
    "GaussianNoise",
    "Kernel",
    "LaplaceNoise",
    "Limits",
    "Look",
    "LookPricing",
    "Measure",
    "MeasureResiduals",
    "Noise",
    "Pricing",
    "Primitive",
    "Reference",
    "Request",
    "ResidualAccuracy",
    "ResidualPricing",
    "RunPricing",
    "Select",
    "SelectPricing",
    "ShortfallAccuracy",
    "SmallDatabase",
    "Terms",
    "Top",
    "Watch",
    "Watching",
]
