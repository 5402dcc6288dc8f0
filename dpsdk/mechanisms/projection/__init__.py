"""Noisy answers moved to the nearest ones that some table could have."""

from dpsdk.mechanisms.projection.accuracy import ProjectionAccuracy
from dpsdk.mechanisms.projection.mechanism import Projection

__all__ = ["Projection", "ProjectionAccuracy"]
