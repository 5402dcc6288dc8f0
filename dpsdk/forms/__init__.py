"""Forms: what a question asks, in numbers; the meeting point of queries and mechanisms."""

from dpsdk.forms.base import Form, Lowers
from dpsdk.forms.blocks import Block, Dense, Kronecker
from dpsdk.forms.boxes import Boxes, FormBlock
from dpsdk.forms.factors import Factor, Groups, Identity, Prefix, Range, Residual, Toeplitz, Weights
from dpsdk.forms.facts import Facts, Neighbors
from dpsdk.forms.gap import Gap, GapForm
from dpsdk.forms.linear import Counts, LinearForm
from dpsdk.forms.members import Members
from dpsdk.forms.sensitivity import Sensitivity, sensitivity

__all__ = [
    "Block",
    "Boxes",
    "Counts",
    "Dense",
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
    "Weights",
    "Neighbors",
    "Prefix",
    "Range",
    "Residual",
    "Sensitivity",
    "Toeplitz",
    "sensitivity",
]
