"""Plans: which mechanism for a question, at which cost, judged from public facts alone."""

from dpsdk.planner.curve import Curve, Point
from dpsdk.planner.expected import Basis, Effort, Forecast
from dpsdk.planner.plan import Plan
from dpsdk.planner.planner import Planner
from dpsdk.planner.plans import Plans
from dpsdk.planner.task import Assumptions, Goal
from dpsdk.release.release import Reason

__all__ = [
    "Assumptions",
    "Basis",
    "Curve",
    "Effort",
    "Forecast",
    "Goal",
    "Plan",
    "Planner",
    "Plans",
    "Point",
    "Reason",
]
