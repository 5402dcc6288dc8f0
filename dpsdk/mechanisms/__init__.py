"""Mechanisms: interchangeable ways to answer, one behind the other's interface."""

from dpsdk.mechanisms.base import (
    DistributionMechanism,
    DistributionStrategy,
    HypothesisMechanism,
    HypothesisStrategy,
    Mechanism,
    OneShot,
    Strategy,
)
from dpsdk.mechanisms.fitted import Fitted
from dpsdk.mechanisms.gaussian import Gaussian
from dpsdk.mechanisms.laplace import Laplace
from dpsdk.mechanisms.noisy_histogram import NoisyHistogram
from dpsdk.mechanisms.numeric_sparse import NumericSparse
from dpsdk.mechanisms.pmw import OnlinePMW
from dpsdk.mechanisms.square_root import SquareRoot
from dpsdk.mechanisms.tree import Tree

__all__ = [
    "DistributionMechanism",
    "DistributionStrategy",
    "Fitted",
    "Gaussian",
    "HypothesisMechanism",
    "HypothesisStrategy",
    "Laplace",
    "Mechanism",
    "NoisyHistogram",
    "NumericSparse",
    "OneShot",
    "OnlinePMW",
    "SquareRoot",
    "Strategy",
    "Tree",
]
