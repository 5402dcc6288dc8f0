"""Multiplicative weights with the exponential mechanism, for workloads known beforehand."""

from dpsdk.mechanisms.mwem.mechanism import MWEM
from dpsdk.mechanisms.mwem.offline import OfflinePlan, OfflinePMW
from dpsdk.mechanisms.mwem.plan import Plan
from dpsdk.mechanisms.mwem.strategy import MWEMStrategy

__all__ = ["MWEM", "MWEMStrategy", "OfflinePMW", "OfflinePlan", "Plan"]
