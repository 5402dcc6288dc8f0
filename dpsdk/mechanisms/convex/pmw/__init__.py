"""Private multiplicative weights for convex minimisations."""

from dpsdk.mechanisms.convex.pmw.mechanism import ConvexPMW
from dpsdk.mechanisms.convex.pmw.offline import OfflineConvexPMW
from dpsdk.mechanisms.convex.pmw.textbook import TextbookConvexPMW

__all__ = ["ConvexPMW", "OfflineConvexPMW", "TextbookConvexPMW"]
