"""Sums over days, weeks and years, from one weighted sum that is measured each night."""

from dpsdk.mechanisms.running_sums.mechanism import RunningSums

__all__ = ["RunningSums"]
