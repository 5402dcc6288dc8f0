"""An optimised strategy for a workload that is known beforehand."""

from dpsdk.mechanisms.matrix.mechanism import Matrix

__all__ = ["Matrix"]
