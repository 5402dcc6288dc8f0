"""Plans: which mechanism for a question, at which cost, judged from public facts alone.

Names are loaded when they are first asked for.
"""

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names

if TYPE_CHECKING:
    from dpsdk.forms.assumptions import Assumptions
    from dpsdk.planner.curve import Curve, Point
    from dpsdk.planner.expected import Effort
    from dpsdk.planner.plan import Basis, Forecast, Plan
    from dpsdk.planner.planner import Planner
    from dpsdk.planner.plans import Plans
    from dpsdk.planner.task import Goal
    from dpsdk.release.release import Reason
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "curve": "Curve Point",
            "expected": "Effort",
            "plan": "Basis Forecast Plan Reason",
            "planner": "Planner",
            "plans": "Plans",
            "task": "Assumptions Goal",
        },
    )

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
