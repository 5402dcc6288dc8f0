"""The written forms of goals and plans: what is asked of a planner, and what it says."""

from __future__ import annotations

from dpsdk.planner import Assumptions, Forecast, Goal, Plan, Plans
from dpsdk.release import Cost
from dpsdk.wire.catalogue import Kind, Member, Nested
from dpsdk.wire.charges import RUNS
from dpsdk.wire.fields import (
    AMOUNT,
    FLAG,
    FLOAT,
    INTEGER,
    NATURAL,
    TEXT,
    Choice,
    ListOf,
    OrNone,
)
from dpsdk.wire.mechanisms import MECHANISM
from dpsdk.wire.queries import QUERY
from dpsdk.wire.releases import BOUND, REASONS

__all__ = ["KINDS"]

_PLANS = ListOf(Nested[object]("a plan", Plan))
_MAYBE_BOUND = OrNone(BOUND)

KINDS: tuple[Kind[object], ...] = (
    Kind(Goal, "goal", {"query": QUERY, "alpha": FLOAT}),
    Kind(
        Assumptions,
        "assumptions",
        {"rows": Member(OrNone(INTEGER), None), "inside": Member(OrNone(AMOUNT), None)},
    ),
    Kind(Cost, "cost", {"runs": RUNS}),
    Kind(
        Forecast,
        "forecast",
        {
            "median": FLOAT,
            "low": FLOAT,
            "high": FLOAT,
            "basis": Choice[str]("noise", "calibrated", "extrapolated"),
        },
    ),
    Kind(
        Plan,
        "plan",
        {
            "mechanism": MECHANISM,
            "cost": Nested[Cost]("a cost", Cost),
            "share_of_remaining": OrNone(AMOUNT),
            "promised": _MAYBE_BOUND,
            "assumed": _MAYBE_BOUND,
            "expected": OrNone(Nested[Forecast]("a forecast", Forecast)),
            "seconds": OrNone(FLOAT),
            "bytes": OrNone(NATURAL),
            "feasible": FLAG,
            "because": REASONS,
            "assumes": ListOf(TEXT),
            "free_afterwards": TEXT,
            "attainable": OrNone(FLOAT),
            "parts": _PLANS,
        },
    ),
    Kind(Plans, "plans", {"plans": _PLANS, "question": TEXT}),
)
