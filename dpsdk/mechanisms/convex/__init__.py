"""Convex minimisation over a private table: one model, or a guarded stream of them."""

from dpsdk.mechanisms.convex.descent import NoisyDescent
from dpsdk.mechanisms.convex.minimizer import PrivateMinimizer
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.mechanisms.convex.pmw import ConvexPMW, TextbookConvexPMW
from dpsdk.mechanisms.convex.sketch import Sketch
from dpsdk.mechanisms.convex.theorems import Problem

__all__ = [
    "ConvexPMW",
    "NoisyDescent",
    "Oracle",
    "PrivateMinimizer",
    "Problem",
    "Sketch",
    "TextbookConvexPMW",
    "Total",
]
