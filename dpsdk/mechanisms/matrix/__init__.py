"""An optimised strategy for a workload that is known beforehand."""

from dpsdk.mechanisms.matrix.design import Matrix

__all__ = ["Matrix"]
