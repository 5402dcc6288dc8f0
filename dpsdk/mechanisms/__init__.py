"""Mechanisms: interchangeable ways to answer, one behind the other's interface.

Names are loaded when they are first asked for.
"""

from inspect import isabstract
from typing import TYPE_CHECKING, Any

from dpsdk._lazy import lazy_names

if TYPE_CHECKING:
    from dpsdk.mechanisms.base import (
        DistributionMechanism,
        DistributionStrategy,
        FittedTable,
        HypothesisMechanism,
        HypothesisStrategy,
        MeasuresOnce,
        Mechanism,
        ModelsMechanism,
        ModelsStrategy,
        OneRun,
        OneShot,
        Single,
        Strategy,
        TablesMechanism,
        TablesStrategy,
        Unfinished,
        WhyStopped,
    )
    from dpsdk.mechanisms.certificate import Certificate
    from dpsdk.mechanisms.convex import (
        CertifiedExcess,
        CoefficientSet,
        ConvexPMW,
        Corrected,
        HeavyBall,
        Moments,
        NoisyDescent,
        OfflineConvexPMW,
        Oracle,
        PairTables,
        PerturbedObjective,
        PredictedExcess,
        PrivateMinimizer,
        Problem,
        Sketch,
        SketchedProblem,
        SufficientStatistics,
        TextbookConvexPMW,
    )
    from dpsdk.mechanisms.exponential_quantile import ExponentialQuantile, RankAccuracy
    from dpsdk.mechanisms.fitted import Fitted
    from dpsdk.mechanisms.independent_noise import Gaussian, Laplace
    from dpsdk.mechanisms.local_marginals import LocalMarginals
    from dpsdk.mechanisms.matrix import Matrix
    from dpsdk.mechanisms.mwem import MWEM, OfflinePMW
    from dpsdk.mechanisms.noisy_histogram import NoisyHistogram
    from dpsdk.mechanisms.numeric_sparse import NumericSparse
    from dpsdk.mechanisms.one_attribute import SquareRoot
    from dpsdk.mechanisms.parts import JointAccuracy, Parts
    from dpsdk.mechanisms.pmw import OnlinePMW
    from dpsdk.mechanisms.projection import Projection, ProjectionAccuracy
    from dpsdk.mechanisms.residual_planner import ResidualPlan, ResidualPlanner
    from dpsdk.mechanisms.running_sums import RunningSums
    from dpsdk.mechanisms.sampled import Sampled
    from dpsdk.mechanisms.smalldb import SmallDB
    from dpsdk.mechanisms.tree import Tree

    BUILT_IN: frozenset[type[Mechanism[Any]]]
    """The mechanisms of the package that a kernel opens, and no ledger has to: all but one."""
else:
    _load, __dir__ = lazy_names(
        __name__,
        {
            "base": (
                "DistributionMechanism DistributionStrategy FittedTable "
                "HypothesisMechanism HypothesisStrategy MeasuresOnce Mechanism "
                "ModelsMechanism ModelsStrategy OneRun OneShot Single Strategy "
                "TablesMechanism TablesStrategy Unfinished WhyStopped"
            ),
            "certificate": "Certificate",
            "convex": (
                "CertifiedExcess CoefficientSet ConvexPMW Corrected HeavyBall Moments "
                "NoisyDescent OfflineConvexPMW Oracle PairTables PerturbedObjective "
                "PredictedExcess PrivateMinimizer Problem Sketch SketchedProblem "
                "SufficientStatistics TextbookConvexPMW"
            ),
            "exponential_quantile": "ExponentialQuantile RankAccuracy",
            "fitted": "Fitted",
            "independent_noise": "Gaussian Laplace",
            "local_marginals": "LocalMarginals",
            "matrix": "Matrix",
            "mwem": "MWEM OfflinePMW",
            "noisy_histogram": "NoisyHistogram",
            "numeric_sparse": "NumericSparse",
            "parts": "JointAccuracy Parts",
            "pmw": "OnlinePMW",
            "projection": "Projection ProjectionAccuracy",
            "residual_planner": "ResidualPlan ResidualPlanner",
            "sampled": "Sampled",
            "running_sums": "RunningSums",
            "smalldb": "SmallDB",
            "one_attribute": "SquareRoot",
            "tree": "Tree",
        },
    )

    def __getattr__(name):
        if name != "BUILT_IN":
            return _load(name)
        mechanism = _load("Mechanism")
        values = [_load(public) for public in __all__]
        kinds = [one for one in values if isinstance(one, type) and issubclass(one, mechanism)]
        own = [one for one in kinds if not isabstract(one) and one.family != "running-sums"]
        globals()["BUILT_IN"] = frozenset(own)
        return globals()["BUILT_IN"]


__all__ = [
    "Certificate",
    "CertifiedExcess",
    "CoefficientSet",
    "ConvexPMW",
    "Corrected",
    "HeavyBall",
    "DistributionMechanism",
    "DistributionStrategy",
    "ExponentialQuantile",
    "FittedTable",
    "Fitted",
    "Gaussian",
    "HypothesisMechanism",
    "HypothesisStrategy",
    "Laplace",
    "JointAccuracy",
    "LocalMarginals",
    "MWEM",
    "Matrix",
    "MeasuresOnce",
    "Mechanism",
    "ModelsMechanism",
    "ModelsStrategy",
    "Moments",
    "NoisyDescent",
    "NoisyHistogram",
    "NumericSparse",
    "OfflineConvexPMW",
    "OfflinePMW",
    "OneRun",
    "OneShot",
    "OnlinePMW",
    "Oracle",
    "PairTables",
    "PerturbedObjective",
    "Parts",
    "PredictedExcess",
    "PrivateMinimizer",
    "Problem",
    "Projection",
    "ProjectionAccuracy",
    "RankAccuracy",
    "ResidualPlan",
    "ResidualPlanner",
    "RunningSums",
    "Sketch",
    "Sampled",
    "SketchedProblem",
    "Single",
    "SmallDB",
    "SquareRoot",
    "Strategy",
    "SufficientStatistics",
    "TablesMechanism",
    "TablesStrategy",
    "TextbookConvexPMW",
    "Tree",
    "Unfinished",
    "WhyStopped",
]
