"""Hypotheses: public distributions over a universe, moved by what was released."""

from dpsdk.hypothesis.base import Hypothesis
from dpsdk.hypothesis.dense import DenseHypothesis
from dpsdk.hypothesis.piecewise import PiecewiseHypothesis

__all__ = ["DenseHypothesis", "Hypothesis", "PiecewiseHypothesis"]
