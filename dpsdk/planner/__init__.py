"""Plans: which mechanism for a question, at which cost, judged from public facts alone."""

from dpsdk.planner.calibration import Calibration
from dpsdk.planner.curve import Curve, Point
from dpsdk.planner.goal import Assumptions, Goal
from dpsdk.planner.plan import Basis, Effort, Forecast, Plan
from dpsdk.planner.plans import Plans
from dpsdk.release.release import Reason

__all__ = [
    "Assumptions",
    "Basis",
    "Calibration",
    "Curve",
    "Effort",
    "Forecast",
    "Goal",
    "Plan",
    "Plans",
    "Point",
    "Reason",
]
