"""Primitives on private data: charge, then read. What mechanisms are built on."""

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names

if TYPE_CHECKING:
    from dpsdk.data.counts import Counts
    from dpsdk.kernel.access import Allowance
    from dpsdk.kernel.discover import Discover, Discovered, DiscoverPricing, Search
    from dpsdk.kernel.draw_database.bounds import DrawBound
    from dpsdk.kernel.draw_database.choose import Limits
    from dpsdk.kernel.draw_database.dimension import Dimension
    from dpsdk.kernel.draw_database.request import (
        DatabaseAccuracy,
        DrawDatabase,
        DrawPricing,
        SmallDatabase,
    )
    from dpsdk.kernel.kernel import Kernel
    from dpsdk.kernel.look import Look, LookPricing, Reference
    from dpsdk.kernel.measure import (
        EuclideanNoise,
        GaussianNoise,
        LaplaceNoise,
        Measure,
        Noise,
        Pricing,
    )
    from dpsdk.kernel.perturb import Perturb, PerturbPricing
    from dpsdk.kernel.points import PointPricing
    from dpsdk.kernel.primitive import Primitive, Request
    from dpsdk.kernel.residuals import MeasureResiduals, ResidualAccuracy, ResidualPricing
    from dpsdk.kernel.select import Select, SelectPricing, ShortfallAccuracy
    from dpsdk.kernel.tally import Tally, TallyPricing
    from dpsdk.kernel.terms import Terms
    from dpsdk.kernel.watch import RunPricing, Top, Watch, Watching
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "dpsdk.data.counts": "Counts",
            "access": "Allowance",
            "discover": "Discover DiscoverPricing Discovered Search",
            "draw_database.bounds": "DrawBound",
            "draw_database.choose": "Limits",
            "draw_database.dimension": "Dimension",
            "draw_database.request": "DatabaseAccuracy DrawDatabase DrawPricing SmallDatabase",
            "kernel": "Kernel",
            "look": "Look LookPricing Reference",
            "measure": "EuclideanNoise GaussianNoise LaplaceNoise Measure Noise Pricing",
            "perturb": "Perturb PerturbPricing",
            "points": "PointPricing",
            "primitive": "Primitive Request",
            "residuals": "MeasureResiduals ResidualAccuracy ResidualPricing",
            "select": "Select SelectPricing ShortfallAccuracy",
            "tally": "Tally TallyPricing",
            "terms": "Terms",
            "watch": "RunPricing Top Watch Watching",
        },
    )

__all__ = [
    "Allowance",
    "Counts",
    "DatabaseAccuracy",
    "Dimension",
    "Discover",
    "DiscoverPricing",
    "Discovered",
    "DrawBound",
    "DrawDatabase",
    "DrawPricing",
    "EuclideanNoise",
    "GaussianNoise",
    "Kernel",
    "LaplaceNoise",
    "Limits",
    "Look",
    "LookPricing",
    "Measure",
    "MeasureResiduals",
    "Noise",
    "Perturb",
    "PerturbPricing",
    "Pricing",
    "PointPricing",
    "Primitive",
    "Reference",
    "Request",
    "ResidualAccuracy",
    "ResidualPricing",
    "RunPricing",
    "Search",
    "Select",
    "SelectPricing",
    "ShortfallAccuracy",
    "SmallDatabase",
    "Tally",
    "TallyPricing",
    "Terms",
    "Top",
    "Watch",
    "Watching",
]
