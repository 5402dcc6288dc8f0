"""Public distributions over a universe, and hypotheses, which are moved by what was released."""

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names

if TYPE_CHECKING:
    from dpsdk.hypothesis.dense import DenseHypothesis
    from dpsdk.hypothesis.distribution import Distribution, Hypothesis
    from dpsdk.hypothesis.mixture import Mixture
    from dpsdk.hypothesis.piecewise import PiecewiseHypothesis
    from dpsdk.hypothesis.records import Records
    from dpsdk.hypothesis.start import Given, Pairs, Product, Start, Uniform
    from dpsdk.hypothesis.streams import Streams
    from dpsdk.hypothesis.synthetic import SyntheticData
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "dense": "DenseHypothesis",
            "distribution": "Distribution Hypothesis",
            "mixture": "Mixture",
            "piecewise": "PiecewiseHypothesis",
            "records": "Records",
            "start": "Given Pairs Product Start Uniform",
            "streams": "Streams",
            "synthetic": "SyntheticData",
        },
    )

__all__ = [
    "DenseHypothesis",
    "Distribution",
    "Given",
    "Hypothesis",
    "Mixture",
    "Pairs",
    "PiecewiseHypothesis",
    "Product",
    "Records",
    "Start",
    "Streams",
    "SyntheticData",
    "Uniform",
]
