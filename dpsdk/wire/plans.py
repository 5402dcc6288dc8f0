"""The written forms of goals and plans: what is asked of a planner, and what it says."""

from __future__ import annotations

from typing import cast

from dpsdk.accounting.guarantee import GUARANTEE
from dpsdk.codec import (
    AMOUNT,
    FLAG,
    FLOAT,
    INTEGER,
    NATURAL,
    POSITIVE,
    TEXT,
    Choice,
    Entry,
    Kind,
    ListOf,
    Member,
    Nested,
    OrNone,
)
from dpsdk.forms import Form
from dpsdk.planner import Assumptions, Forecast, Goal, Plan, Plans
from dpsdk.release import Cost
from dpsdk.wire.mechanisms import MECHANISM
from dpsdk.wire.queries import QUERY
from dpsdk.wire.releases import BOUND, REASONS

__all__ = ["KINDS"]


def _wrong_forecast(forecast: Forecast) -> str:
    sound = 0 <= forecast.low <= forecast.median <= forecast.high
    return "" if sound else "a median between a low and a high end that are at least 0"


def _wrong_plan(plan: Plan[Form]) -> str:
    share = plan.share_of_remaining
    if share is not None and share > 1:
        return "a share of what is left of at most 1"
    sound = all(one is None or one >= 0 for one in (plan.seconds, plan.attainable))
    return "" if sound else "seconds and an error of at least 0"


_PLANS = ListOf(Nested[object]("a plan", Plan))
_MAYBE_BOUND = OrNone(BOUND)

_FORECAST = Kind(
    Forecast,
    "forecast",
    {
        "median": FLOAT,
        "low": FLOAT,
        "high": FLOAT,
        "basis": Choice[str]("noise", "calibrated", "extrapolated"),
    },
    wrong=_wrong_forecast,
)

_PLAN = Kind(
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
    wrong=_wrong_plan,
)

KINDS: tuple[Kind[object], ...] = (
    Kind(Goal, "goal", {"query": QUERY, "alpha": FLOAT}),
    Kind(
        Assumptions,
        "assumptions",
        {"rows": Member(OrNone(INTEGER), None), "inside": Member(OrNone(AMOUNT), None)},
    ),
    Kind(Cost, "cost", {"runs": ListOf(Entry(guarantee=GUARANTEE, count=POSITIVE))}),
    cast("Kind[object]", _FORECAST),
    cast("Kind[object]", _PLAN),
    Kind(Plans, "plans", {"plans": _PLANS, "question": TEXT}),
)
