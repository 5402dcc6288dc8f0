"""Multiplicative weights with the exponential mechanism, for workloads known beforehand."""

from dpsdk.mechanisms.mwem.learners import MWEMStrategy
from dpsdk.mechanisms.mwem.mechanism import MWEM
from dpsdk.mechanisms.mwem.offline import OfflinePMW
from dpsdk.mechanisms.mwem.plan import OfflinePlan, Plan

__all__ = ["MWEM", "MWEMStrategy", "OfflinePMW", "OfflinePlan", "Plan"]
