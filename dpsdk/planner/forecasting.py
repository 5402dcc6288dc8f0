"""Forecasts: how far off an answer is expected to be, and what it takes of a machine."""

from __future__ import annotations

from typing import Any

from dpsdk.planner.families import Family
from dpsdk.planner.plan import Effort, Forecast
from dpsdk.planner.task import Task
from dpsdk.release import Quote

__all__ = ["effort", "forecast"]


def forecast(task: Task[Any, Any], family: Family, quote: Quote) -> Forecast | None:
    """How far off the worst entry is expected to be, by the law of the noise or by calibration."""
    del task, family, quote
    return None


def effort(task: Task[Any, Any], family: Family, quote: Quote) -> Effort | None:
    """What answering takes of a machine."""
    del task, family, quote
    return None
