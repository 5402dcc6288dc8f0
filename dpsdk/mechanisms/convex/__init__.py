"""Convex minimisation over a private table: one model, or a guarded stream of them."""

from dpsdk.mechanisms.convex.certify import CertifiedExcess, batches, certified, shares
from dpsdk.mechanisms.convex.confidence import CoefficientSet
from dpsdk.mechanisms.convex.corrected import Corrected
from dpsdk.mechanisms.convex.correction import PredictedExcess
from dpsdk.mechanisms.convex.minimizer import PrivateMinimizer
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.mechanisms.convex.start import Moments
from dpsdk.mechanisms.convex.sufficient import SufficientStatistics

__all__ = [
    "CertifiedExcess",
    "CoefficientSet",
    "Corrected",
    "Moments",
    "Oracle",
    "PredictedExcess",
    "PrivateMinimizer",
    "SufficientStatistics",
    "Total",
    "batches",
    "certified",
    "shares",
]
