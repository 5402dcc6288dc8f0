"""Families: mechanisms of one kind, from cheap and vague to dear and exact, and when they apply."""

from dpsdk.planner.families.family import Family, Unit
from dpsdk.planner.families.listing import families, shared

__all__ = ["Family", "Unit", "families", "shared"]
