"""Curves: how far off answers are for what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from dpsdk._frames import Framed
from dpsdk._records import field, frozen
from dpsdk.accounting.numbers import as_bound
from dpsdk.planner.search import A_DECADE
from dpsdk.planner.trial import Trials
from dpsdk.release import Cost

__all__ = ["Curve", "Point", "curve_of"]

_STEP = A_DECADE // 2
_LOW = -6 * A_DECADE
_HIGH = 2 * A_DECADE
_FAMILIES = 4
_SHOWN = 24


@frozen
class Point:
    """One way to answer: a mechanism, in words, of a family, by its code.

    `cost` is what it would be charged in all, `share` the share of what is left that it would take,
    and `error` bounds the error of the answer, in its own unit.
    """

    family: str
    mechanism: str
    cost: Cost
    share: Fraction
    error: float


def _to_points(points: Iterable[Point]) -> tuple[Point, ...]:
    return tuple(points)


@frozen(repr=False)
class Curve(Framed):
    """The cost of errors: for each of the best families a range of amounts, in increasing order.

    Every error is a bound, and says more than the range of possible answers does.
    """

    points: tuple[Point, ...] = field(converter=_to_points)

    def to_columns(self) -> dict[str, list[str] | list[float]]:
        """The points as columns; of the cost, what it is in words."""
        points = self.points
        return {
            "family": [point.family for point in points],
            "mechanism": [point.mechanism for point in points],
            "cost": [str(point.cost) for point in points],
            "share": [float(point.share) for point in points],
            "error": [point.error for point in points],
        }

    _columns = to_columns

    def __repr__(self) -> str:
        lines = [
            f"{point.mechanism}: {float(point.share):.3%} of what is left, "
            f"± {as_bound(point.error)}"
            for point in self.points[:_SHOWN]
        ]
        more = len(self.points) - len(lines)
        return "\n".join([*lines, f"... {more:,} more"] if more else lines) or "no points"


def curve_of(families: Sequence[Trials[Any]]) -> Curve:
    """The curves of those families whose best that can be had is the least off."""
    curves: list[tuple[float, str, list[Point]]] = []
    for trials in families:
        points = _points(trials)
        if points:
            curves.append((points[-1].error, trials.family.code, points))
    curves.sort(key=lambda one: one[:2])
    return Curve(tuple(point for _, _, points in curves[:_FAMILIES] for point in points))


def _points(trials: Trials[Any]) -> list[Point]:
    points: list[Point] = []
    if trials.family.barred is not None:
        return points
    for place in range(_LOW, _HIGH + 1, 4 * _STEP if trials.family.slow else _STEP):
        trial = trials.at(place)
        if trial is None or trial.refusal is not None:
            continue
        if trial.share is None:  # nor does anything more expensive
            break
        error = max(trial.errors, default=math.inf)
        # Of a budget's plans, too, the share is that of all that is left.
        share = trials.task.balance.share(trial.cost.runs)
        if share is not None and error < math.inf and (not points or error < points[-1].error):
            name = str(trial.mechanism)
            points.append(Point(trials.family.code, name, trial.cost, share, error))
    return points
