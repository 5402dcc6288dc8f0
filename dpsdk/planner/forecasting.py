"""Forecasts: how far off an answer is expected to be, and what it takes of a machine.

Independent noise of a known law has an exact one. All else is taken from a calibration: from what
was measured on public tables, by what is public of a question.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from attrs import frozen

from dpsdk._memo import Memo
from dpsdk.accuracy import HalfWidths, NoiseAccuracy, PromisedAccuracy, ScalarAccuracy
from dpsdk.errors import DpsdkError
from dpsdk.forms import LinearForm
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.mechanisms.noisy_histogram import ConsistentAccuracy
from dpsdk.mechanisms.projection import ProjectionAccuracy
from dpsdk.planner.calibration import Calibration, shipped
from dpsdk.planner.families import Family
from dpsdk.planner.features import Features, features_of
from dpsdk.planner.models import Base
from dpsdk.planner.plan import Basis, Effort, Forecast
from dpsdk.planner.task import Task
from dpsdk.queries.base import lifting
from dpsdk.release import Quote
from dpsdk.typing import Floats

__all__ = ["Unit", "effort", "features", "forecast", "key", "over", "unit_of"]

_ENDS = (0.5, 0.05, 0.95)
_DIGITS = 4
_ROUND = 1e-9
_MOST_DISTINCT = 64
_WIDE = Fraction(1, 1000)
_MOST_BYTES = 1 << 60


@frozen(eq=False)
class Unit:
    """What one row of each raw number is worth in the unit of the answer."""

    scales: Floats

    @cached_property
    def distinct(self) -> list[tuple[float, int]]:
        """The different ones, from small to large, with how many numbers have each."""
        values, counts = np.unique(self.scales, return_counts=True)
        return list(zip(values.tolist(), counts.tolist(), strict=True))

    @property
    def largest(self) -> float:
        """That of the number that is worth the most."""
        return self.distinct[-1][0]

    def noisy(self, noise: NoiseAccuracy, share: float) -> float:
        """The error that a share of all answers stays within, by the law of the noise."""
        law, step = noise.law, noise.step
        if len(self.distinct) == 1:
            scale, entries = self.distinct[0]
            return (law.radius(1 - share, entries) * step + noise.bias) * scale
        least = math.log(share)

        def within(error: float) -> bool:
            """Whether all numbers are within an error with this probability, all by themselves."""
            outside = [
                (count, min(law.tail(math.floor(error / (scale * step))), 1 - 1e-16))
                for scale, count in self.distinct
            ]
            return math.fsum(count * math.log1p(-tail) for count, tail in outside) >= least

        low, high = 0.0, law.radius((1 - share) / 2, len(self.scales)) * step * self.largest
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if within(middle) else (middle, high)
        return high + noise.bias * self.largest


_UNITS: Memo[tuple[Unit | None]] = Memo(64, 1 << 24)


def unit_of(task: Task[Any, Any], entries: int) -> Unit | None:
    """What raw numbers are worth, None where errors do not just add up to those of the answer."""
    known = _UNITS.get(task)
    if known is None:
        known = (_unit(task, entries),)
        _UNITS.keep(task, known, 8 * entries)
    return known[0]


def _unit(task: Task[Any, Any], entries: int) -> Unit | None:
    lift = lifting(task.query)
    if lift is None or lift.width != 1:
        return None
    unknown, ones = np.full(entries, np.nan), np.ones(entries)
    once, twice = (lift.spread(unknown, factor * ones, task.facts) for factor in (1.0, 2.0))
    if once.shape != ones.shape or not np.isfinite(once).all() or not (once > 0).all():
        return None
    return Unit(once) if np.allclose(twice, 2 * once, rtol=_ROUND, atol=0.0) else None


_SPREADS: Memo[float] = Memo(64, 1 << 12)


def _noise_of(task: Task[Any, Any]) -> float:
    """How far off noise on each number would be where sqrt(2ρ) is 1, in rows; 1 of a model."""
    known = _SPREADS.get(task)
    if known is None:
        known = _noise(task)
        _SPREADS.keep(task, known, 8)
    return known


def _noise(task: Task[Any, Any]) -> float:
    if not isinstance(task.form, LinearForm):
        return 1.0
    pure = not task.balance.budget.delta
    # So wide that steps of whole rows do not show.
    of = [Laplace(epsilon=_WIDE)] if pure else [Laplace(epsilon=_WIDE), Gaussian(rho=_WIDE**2 / 2)]
    found: list[float] = []
    for mechanism in of:
        try:
            accuracy = mechanism.quote(task.form, task.terms).accuracy
        except DpsdkError:
            continue
        if isinstance(accuracy, HalfWidths):
            found.append(float(accuracy.radii(0.5, joint=True).max()) * float(_WIDE))
    return min(found, default=float(task.form.rows))


def key(task: Task[Any, Any], family: Family, base: Base | None) -> str:
    """The name of the model of a family.

    Models, ratios as means are, places as medians are, and plain numbers are not alike.
    """
    if not isinstance(task.form, LinearForm):
        return f"{family.code}:model"
    if unit_of(task, task.form.rows) is not None:
        return family.code
    return f"{family.code}:{'span' if base == 'span' else 'ratio'}"


def features(task: Task[Any, Any], quote: Quote) -> Features:
    """What is public of a task that says how far off an answer may be."""
    rows = task.rows
    return features_of(
        task.form,
        task.facts,
        rows=rows,
        rho=float(quote.at_most.rho),
        spread=_noise_of(task),
        pure=not task.balance.budget.delta,
    )


def over(task: Task[Any, Any], quote: Quote) -> tuple[Base, float] | None:
    """What an error of the answer is compared with, in the unit of the answer; None for nothing."""
    accuracy = quote.accuracy
    if isinstance(accuracy, ScalarAccuracy):
        if accuracy.standing != "predicted":
            return None
        return _positive("predicted", accuracy.error(0.5))
    if isinstance(accuracy, ProjectionAccuracy):
        return _spread(task, "noise", accuracy.noise, quote)
    if isinstance(accuracy, HalfWidths) and _says(accuracy):
        return _spread(task, "bound", accuracy, quote)
    if not isinstance(task.form, LinearForm):
        return "answer", 1.0
    unit = unit_of(task, task.form.rows)
    if unit is None:
        return _spanned(task)
    return None if task.rows is None else _positive("rows", unit.largest * task.rows)


def _says(accuracy: HalfWidths) -> bool:
    """Whether it is a theorem about the noise of this answer, and close to what happens."""
    close = not isinstance(accuracy, PromisedAccuracy | ConsistentAccuracy)
    return close and accuracy.standing == "proven"


def _spread(
    task: Task[Any, Any], base: Base, accuracy: HalfWidths, quote: Quote
) -> tuple[Base, float] | None:
    radii = accuracy.radii(0.5, joint=True)
    if isinstance(task.form, LinearForm):
        radii = radii[: task.form.rows]
    unit = unit_of(task, len(radii))
    if unit is not None:
        return _positive(base, float((radii * unit.scales).max()))
    said = quote.for_query(lifting(task.query), task.facts, task.assumptions)
    bounds = [one for one in (said.bound(0.5), said.assumed(0.5)) if one is not None]
    # Where they say no more than the range of possible answers, nothing is known of it.
    errors = [one.error for one in bounds if not one.vacuous]
    return _positive(base, min(errors)) if errors else _spanned(task)


def _spanned(task: Task[Any, Any]) -> tuple[Base, float] | None:
    """The range of the answers of a query about about so many rows."""
    lift = lifting(task.query)
    if lift is None or task.rows is None:
        return None
    return _positive("span", lift.span(task.facts))


def _positive(base: Base, value: float) -> tuple[Base, float] | None:
    return (base, value) if 0 < value < math.inf else None


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def forecast(task: Task[Any, Any], family: Family, quote: Quote) -> Forecast | None:
    """How far off the worst entry is expected to be, by the law of the noise or by calibration."""
    noise = quote.accuracy
    lift = lifting(task.query)
    span = math.inf if lift is None else lift.span(task.facts)
    if isinstance(noise, NoiseAccuracy):
        unit = unit_of(task, noise.entries)
        if unit is not None and len(unit.distinct) <= _MOST_DISTINCT:
            median, low, high = (_rounded(unit.noisy(noise, share)) for share in _ENDS)
            return Forecast(median, low, high, "noise")
    base = over(task, quote)
    model = None if base is None else known_to(task).error(key(task, family, base[0]))
    if model is None or base is None or base[0] != model.base:
        return None
    if isinstance(quote.accuracy, ScalarAccuracy):
        span = min(span, quote.accuracy.span)
    given = features(task, quote)
    # A place is told to a cell: what is off by less is right.
    least = base[1] * 10 ** -given["cells"] if base[0] == "span" else 0.0
    errors = [base[1] * 10 ** min(log, 300.0) for log in model.logs(given)]
    median, low, high = (_rounded(min(one, span)) if one >= least else 0.0 for one in errors)
    basis: Basis = "extrapolated" if model.extrapolates(given) else "calibrated"
    return Forecast(median, low, high, basis)


def known_to(task: Task[Any, Any]) -> Calibration:
    """What the forecasts of a task rest on."""
    return shipped() if task.calibration is None else task.calibration


def effort(task: Task[Any, Any], family: Family, quote: Quote) -> Effort | None:
    """What answering takes of a machine, such that nineteen in twenty take less."""
    known = known_to(task)
    linear = isinstance(task.form, LinearForm)
    model = known.effort(family.code if linear else key(task, family, None))
    if model is None:
        return None
    given = features(task, quote)
    seconds, size = (10 ** min(line.at(given), 18.0) for line in (model.seconds, model.bytes))
    return Effort(float(f"{seconds:.2g}"), min(int(float(f"{size:.2g}")), _MOST_BYTES))
