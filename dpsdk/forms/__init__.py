"""Forms: what a question asks, in numbers; the meeting point of queries and mechanisms."""

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names

if TYPE_CHECKING:
    from dpsdk.forms.base import Form, Lowers
    from dpsdk.forms.blocks import Block, Dense, Kronecker
    from dpsdk.forms.boxes import Boxes, FormBlock
    from dpsdk.forms.convex import ConvexForm, Tables
    from dpsdk.forms.convex_forms import ConvexForms
    from dpsdk.forms.convolution import Toeplitz
    from dpsdk.forms.crossing import Crossing, UnwrittenForm
    from dpsdk.forms.design import Coordinates, Design
    from dpsdk.forms.factors import Factor, Weights
    from dpsdk.forms.facts import Facts, Neighbors
    from dpsdk.forms.gap import Gap, GapForm, ProximalGapForm
    from dpsdk.forms.linear import Counts, LinearForm
    from dpsdk.forms.members import Members
    from dpsdk.forms.ramp import Ramp, Within
    from dpsdk.forms.ranges import Cuts, Groups, Identity, Prefix, Range, Ranges
    from dpsdk.forms.residuals import Residual
    from dpsdk.forms.sensitivity import Sensitivity, sensitivity
    from dpsdk.forms.sets import Ball, Box, ConvexSet, Simplex
    from dpsdk.forms.slope_table import SlopeTable
    from dpsdk.forms.softmax import SoftmaxForm
    from dpsdk.forms.solver import Minimum, minimise
    from dpsdk.forms.squares import Squares
    from dpsdk.forms.tally import TallyForm
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "base": "Form Lowers",
            "blocks": "Block Dense Kronecker",
            "boxes": "Boxes FormBlock",
            "convex": "ConvexForm Tables",
            "convex_forms": "ConvexForms",
            "convolution": "Toeplitz",
            "crossing": "Crossing UnwrittenForm",
            "design": "Coordinates Design",
            "factors": "Factor Weights",
            "facts": "Facts Neighbors",
            "gap": "Gap GapForm ProximalGapForm",
            "linear": "Counts LinearForm",
            "members": "Members",
            "ramp": "Ramp Within",
            "ranges": "Cuts Groups Identity Prefix Range Ranges",
            "residuals": "Residual",
            "sensitivity": "Sensitivity",
            "sets": "Ball Box ConvexSet Simplex",
            "slope_table": "SlopeTable",
            "softmax": "SoftmaxForm",
            "solver": "Minimum minimise",
            "squares": "Squares",
            "tally": "TallyForm",
        },
    )

    # A module has this name too, which would be found in its place.
    from dpsdk.forms.sensitivity import sensitivity

__all__ = [
    "Ball",
    "Block",
    "Boxes",
    "Box",
    "ConvexForm",
    "ConvexForms",
    "ConvexSet",
    "Coordinates",
    "Counts",
    "Crossing",
    "Cuts",
    "Dense",
    "Design",
    "Facts",
    "Factor",
    "Form",
    "FormBlock",
    "Gap",
    "GapForm",
    "Groups",
    "Identity",
    "Kronecker",
    "LinearForm",
    "Lowers",
    "Members",
    "Minimum",
    "Weights",
    "Neighbors",
    "Prefix",
    "ProximalGapForm",
    "Ramp",
    "Range",
    "Ranges",
    "Residual",
    "Sensitivity",
    "Simplex",
    "SlopeTable",
    "SoftmaxForm",
    "Squares",
    "TallyForm",
    "Tables",
    "Toeplitz",
    "UnwrittenForm",
    "Within",
    "minimise",
    "sensitivity",
]
