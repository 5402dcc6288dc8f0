"""Unbiased marginals of any domain, from residuals that were measured once."""

from dpsdk.mechanisms.residual_planner.mechanism import ResidualPlanner
from dpsdk.mechanisms.residual_planner.residuals import ResidualPlan

__all__ = ["ResidualPlan", "ResidualPlanner"]
