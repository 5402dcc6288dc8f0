"""Convex minimisation over a private table: one model, or a guarded stream of them."""

from dpsdk.mechanisms.convex.certify import CertifiedExcess, batches, certified, shares
from dpsdk.mechanisms.convex.confidence import CoefficientSet
from dpsdk.mechanisms.convex.minimizer import PrivateMinimizer
from dpsdk.mechanisms.convex.oracle import Oracle, Total

__all__ = [
    "CertifiedExcess",
    "CoefficientSet",
    "Oracle",
    "PrivateMinimizer",
    "Total",
    "batches",
    "certified",
    "shares",
]
