"""Public distributions over a universe, and hypotheses, which are moved by what was released."""

from dpsdk.hypothesis.base import Hypothesis
from dpsdk.hypothesis.dense import DenseHypothesis
from dpsdk.hypothesis.distribution import Distribution
from dpsdk.hypothesis.mixture import Mixture
from dpsdk.hypothesis.piecewise import PiecewiseHypothesis
from dpsdk.hypothesis.start import Given, Product, Start, Uniform
from dpsdk.hypothesis.streams import Streams
from dpsdk.hypothesis.synthetic import SyntheticData

__all__ = [
    "DenseHypothesis",
    "Distribution",
    "Given",
    "Hypothesis",
    "Mixture",
    "PiecewiseHypothesis",
    "Product",
    "Start",
    "Streams",
    "SyntheticData",
    "Uniform",
]
