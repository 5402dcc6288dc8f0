"""Convex minimisation over a private table: one model, or a guarded stream of them."""

from dpsdk.mechanisms.convex.corrected import Corrected
from dpsdk.mechanisms.convex.minimizer import PrivateMinimizer
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.mechanisms.convex.start import Moments

__all__ = ["Corrected", "Moments", "Oracle", "PrivateMinimizer", "Total"]
