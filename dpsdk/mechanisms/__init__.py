"""Mechanisms: interchangeable ways to answer, one behind the other's interface."""

from dpsdk.mechanisms.base import Mechanism, OneShot, Strategy
from dpsdk.mechanisms.gaussian import Gaussian
from dpsdk.mechanisms.laplace import Laplace
from dpsdk.mechanisms.numeric_sparse import NumericSparse

__all__ = ["Gaussian", "Laplace", "Mechanism", "NumericSparse", "OneShot", "Strategy"]
