"""Convex minimisation over a private table: one model, or a guarded stream of them."""

from dpsdk.mechanisms.convex.corrected import Corrected
from dpsdk.mechanisms.convex.correction import Moments, PredictedExcess
from dpsdk.mechanisms.convex.descent import NoisyDescent
from dpsdk.mechanisms.convex.descent_bounds import Problem
from dpsdk.mechanisms.convex.excess import CertifiedExcess, batches, certified, shares
from dpsdk.mechanisms.convex.heavy_ball import HeavyBall
from dpsdk.mechanisms.convex.minimizer import PrivateMinimizer, SufficientStatistics
from dpsdk.mechanisms.convex.moments import CoefficientSet
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.mechanisms.convex.pair_tables import PairTables
from dpsdk.mechanisms.convex.perturbed import PerturbedObjective
from dpsdk.mechanisms.convex.pmw import ConvexPMW, OfflineConvexPMW, TextbookConvexPMW
from dpsdk.mechanisms.convex.sketch import Sketch, SketchedProblem

__all__ = [
    "CertifiedExcess",
    "CoefficientSet",
    "ConvexPMW",
    "Corrected",
    "HeavyBall",
    "Moments",
    "NoisyDescent",
    "OfflineConvexPMW",
    "Oracle",
    "PairTables",
    "PerturbedObjective",
    "PredictedExcess",
    "PrivateMinimizer",
    "Problem",
    "Sketch",
    "SketchedProblem",
    "SufficientStatistics",
    "TextbookConvexPMW",
    "Total",
    "batches",
    "certified",
    "shares",
]
