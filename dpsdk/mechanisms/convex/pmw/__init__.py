"""Private multiplicative weights for convex minimisations."""

from dpsdk.mechanisms.convex.pmw.mechanism import ConvexPMW

__all__ = ["ConvexPMW"]
