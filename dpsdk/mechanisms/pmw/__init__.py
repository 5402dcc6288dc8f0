"""Private multiplicative weights."""

from dpsdk.mechanisms.pmw.online import OnlinePMW

__all__ = ["OnlinePMW"]
