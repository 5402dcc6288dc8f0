"""Expected errors and efforts: no bounds, and never larger than the bounds that there are.

The law of independent noise gives them exactly; other families have one short table of measured
errors, which docs/explanation/planner.md prints. Elsewhere nothing is expected.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from dpsdk._records import frozen
from dpsdk.accuracy import HalfWidths, NoiseAccuracy
from dpsdk.forms import LinearForm
from dpsdk.mechanisms.projection import ProjectionAccuracy
from dpsdk.planner.family import Family
from dpsdk.planner.plan import Basis, Forecast
from dpsdk.planner.task import Task
from dpsdk.release import Quote
from dpsdk.typing import Floats

__all__ = [
    "MEASURED_BY_BOUND",
    "MEASURED_BY_NOISE",
    "Effort",
    "effort",
    "forecast",
]

Band: TypeAlias = tuple[float, float, float]
"""The 5 %, 50 % and 95 % quantiles of a ratio."""

MEASURED_BY_BOUND: MappingProxyType[str, Band] = MappingProxyType({
    "matrix": (0.21, 0.36, 0.61),
    "matrix+gaussian": (0.66, 0.83, 1.1),
    "noisy-histogram": (0.21, 0.53, 1.2),
    "noisy-histogram+gaussian": (0.26, 0.68, 1.2),
    "projection": (0.2, 0.74, 1.2),
    "residual-planner": (0.68, 0.95, 1.2),
    "small-db": (0.28, 0.46, 0.59),
    "square-root": (0.64, 0.87, 1.1),
    "tree": (0.29, 0.52, 0.83),
    "tree+gaussian": (0.51, 0.7, 0.97),
})  # fmt: skip
"""Largest errors over the bound that holds with probability one half, by family."""

NOISE_DECADES = (-4, -3, -2, -1, 0)

MEASURED_BY_NOISE: MappingProxyType[str, tuple[Band, ...]] = MappingProxyType({
    "local-marginals": (
        (6.9e-5, 1.2e-4, 1.9e-4), (8.4e-4, 1.1e-3, 1.6e-3), (3.1e-3, 9.5e-3, 0.017),
        (0.028, 0.067, 0.13), (0.13, 0.44, 1.0),
    ),
    "mwem": (
        (9.8e-5, 1.1e-4, 1.8e-4), (6.0e-4, 9.9e-4, 5.0e-3), (3.2e-3, 9.7e-3, 0.017),
        (8.9e-3, 0.049, 0.13), (0.031, 0.21, 0.70),
    ),
    "online-pmw": (
        (1.7e-4, 3.0e-4, 8.1e-4), (1.7e-3, 3.0e-3, 8.1e-3), (6.3e-3, 0.025, 0.092),
        (0.062, 0.25, 0.92), (0.96, 1.0, 1.0),
    ),
    "residual-planner+nonnegative": (
        (6.9e-5, 1.1e-4, 1.5e-4), (4.5e-4, 8.4e-4, 1.3e-3), (4.8e-3, 8.4e-3, 0.014),
        (0.031, 0.068, 0.11), (0.17, 0.43, 0.78),
    ),
})  # fmt: skip
"""Largest errors as shares of the rows, by family, where plain noise at the same cost would be off
by 10⁻⁴, 10⁻³, ..., 1 of the rows."""

ON_RECORDS = MappingProxyType({"mwem+records": "mwem", "online-pmw+records": "local-marginals"})
"""On weighted records errors are expected to be those of what they were fitted like, by family."""

_FINE_NOISE = 0.01
"""Where plain noise is off by fewer of the rows, records are too coarse for that."""

_QUANTILES = (0.05, 0.5, 0.95)
_MOST_SCALES = 64
_SECONDS = 4e-9
"""Of one core of a few years' age, for one pass over a cell."""


@frozen
class Effort:
    """The effort of a machine to answer, by a count of passes over the cells of the universe.

    In seconds of one core, and in bytes of memory beyond what the table takes.
    """

    seconds: float
    bytes: int


def effort(task: Task[Any, Any], family: Family) -> Effort | None:
    """Count what a family takes of a machine; None where it does not pass over all cells."""
    if not family.passes:
        return None
    cells = task.facts.domain.size
    return Effort(float(f"{family.passes * cells * _SECONDS:.2g}"), 4 * 8 * cells)


def forecast(task: Task[Any, Any], family: Family, quote: Quote) -> Forecast | None:
    """Return how far off the worst entry is expected to be; None where nothing is known."""
    if not isinstance(task.form, LinearForm):
        return None
    scales = task.scales
    # Of an answer about values in bins nobody knows how far off it is, beside the noise.
    if scales is None or task.bound(quote).bins:
        return None
    noise, known = quote.accuracy, ON_RECORDS.get(family.code, family.code)
    basis: Basis = "calibrated"
    if isinstance(noise, NoiseAccuracy):
        counts = _count(scales)
        if len(counts) > _MOST_SCALES:
            return None
        errors = [_noise_quantile(noise, counts, share) for share in _QUANTILES]
        basis = "noise"
    elif family.code in MEASURED_BY_BOUND and isinstance(noise, HalfWidths):
        base = noise.noise if isinstance(noise, ProjectionAccuracy) else noise
        radii = base.radii(0.5, joint=True)[: task.form.rows]
        largest = float((radii * scales).max())
        errors = [ratio * largest for ratio in MEASURED_BY_BOUND[family.code]]
    elif known in MEASURED_BY_NOISE and task.rows:
        share = _noise_share(task, quote)
        if share is None or (known != family.code and share < _FINE_NOISE):
            return None
        place = math.log10(share)
        inside = NOISE_DECADES[0] <= place <= NOISE_DECADES[-1]
        basis = "calibrated" if inside and known == family.code else "extrapolated"
        # Less noise than was measured lessens the error as much.
        largest = float(scales.max()) * task.rows * 10 ** min(place - NOISE_DECADES[0], 0.0)
        bands: list[Floats] = list(np.log10(np.array(MEASURED_BY_NOISE[known])).T)
        shares = [10 ** float(np.interp(place, NOISE_DECADES, band)) for band in bands]
        # What is read off a distribution is a possible answer.
        errors = [min(one * largest, task.span) for one in shares]
    else:
        return None
    bound = task.bound(quote)
    if bound.proven:
        errors = [min(error, bound.error) for error in errors]
    low, median, high = (float(f"{error:.4g}") for error in errors)
    return Forecast(median, low, high, basis)


def _count(scales: Floats) -> dict[float, int]:
    values, counts = np.unique(scales, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _noise_quantile(noise: NoiseAccuracy, scales: dict[float, int], share: float) -> float:
    """Return the error that a share of all answers stays within, by the law of the noise."""
    law, step = noise.law, noise.step
    largest = max(scales)
    if len(scales) == 1:
        return (law.radius(1 - share, scales[largest]) * step + noise.bias) * largest
    least = math.log(share)

    def within(error: float) -> bool:
        tails = (
            (count, min(law.tail(math.floor(error / (scale * step))), 1 - 1e-16))
            for scale, count in scales.items()
        )
        return math.fsum(count * math.log1p(-tail) for count, tail in tails) >= least

    low, high = 0.0, law.radius((1 - share) / 2, sum(scales.values())) * step * largest
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high + noise.bias * largest


def _noise_share(task: Task[Any, Any], quote: Quote) -> float | None:
    """Return how far off plain noise at the same cost would be at its median, over the rows."""
    epsilon = math.sqrt(2 * float(quote.at_most.rho))
    if not epsilon or not task.rows:
        return None
    return max(task.plain_noise / epsilon / task.rows, 1e-300)
