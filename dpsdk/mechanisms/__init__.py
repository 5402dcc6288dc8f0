"""Mechanisms: interchangeable ways to answer, one behind the other's interface."""

from dpsdk.mechanisms.base import Mechanism, OneShot, Strategy
from dpsdk.mechanisms.gaussian import Gaussian
from dpsdk.mechanisms.laplace import Laplace

__all__ = ["Gaussian", "Laplace", "Mechanism", "OneShot", "Strategy"]
