"""Fitting: a line for each family, and a band that held for tables which the line had not seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import cast

import numpy as np

from dpsdk.calibration.measuring import Observation
from dpsdk.planner.calibration import Calibration
from dpsdk.planner.features import FEATURES, Features
from dpsdk.planner.models import Base, EffortModel, ErrorModel, Line
from dpsdk.typing import Bools, Floats

__all__ = ["fitted"]

_FEWEST = 12
"""Families of fewer answers are left out."""

_FEWEST_TIMED = 5
"""Of so many the time and memory are fitted; of fewer the memory of all families is taken."""

_RIDGE = 1.0
"""What weights cost, in squared decades; features count in their own deviations."""

_LEAST = 1e-12
_HALF = 0.45
"""Half of what a band is to hold."""

_FEW = 0.5
"""Over the number of tables: by how much the band is wider for being taken from few.

Conformal prediction would take 1, if tables differed in one number each; bands were wider than
they say then.
"""

_MOST = 0.95
"""The share of efforts that are to be below what is said."""

_NEAR = 0.5
"""Errors above this share of that of the uniform distribution tell nothing of a slope."""

_OF_NOISE = ("spread", "numbers", "cells", "blocks")
_USED: dict[Base, tuple[str, ...]] = {
    "rows": ("strength", "spread", "cells", "numbers", "blocks", "ways", "pure"),
    "bound": _OF_NOISE,
    "noise": ("strength", *_OF_NOISE),
    "predicted": ("strength", "numbers"),
    "span": ("strength", "spread", "cells", "pure"),
    "answer": ("strength", "cells", "pure"),
}
"""What may matter of a question, by what its error is compared with."""

_FULL = ("rows", "span", "answer")
"""Bases that do not change with what is paid."""

_OF_EFFORT = ("cells", "universe", "numbers", "blocks", "strength")
_SAFE = 0.3
"""What is added to the decimal logarithm of an effort: other machines are slower."""

_RANGED = FEATURES[:7]


def fitted(observations: Iterable[Observation], made: str) -> Calibration:
    """The calibration of what was measured.

    Weights are least squares of decimal logarithms, kept small by a ridge. The band is that of the
    differences which each table has from a line that was fitted on all others, so that it is one
    for tables that were never seen, a little widened where these are few. Tables count by the
    root of how many answers they have.
    """
    ordered = sorted(observations, key=_family)
    errors: dict[str, ErrorModel] = {}
    efforts: dict[str, EffortModel] = {}
    for family, grouped in groupby(ordered, key=_family):
        error = _errors(list(grouped))
        if error is not None:
            errors[family] = error
    ordered = sorted(ordered, key=_kind)
    for kind, grouped in groupby(ordered, key=_kind):
        effort = _efforts(list(grouped), ordered)
        if effort is not None:
            efforts[kind] = effort
    return Calibration(made, errors, efforts)


def _family(one: Observation) -> str:
    return one.family


def _kind(one: Observation) -> str:
    """The family, of models apart: how long it takes is told by the numbers that are asked."""
    code, _, what = one.family.partition(":")
    return one.family if what == "model" else code


def _errors(observations: Sequence[Observation]) -> ErrorModel | None:
    seen = [one for one in observations if one.base is not None and not _exact(one)]
    bases: list[Base] = sorted({one.base for one in seen if one.base is not None})
    if not bases:
        return None
    base = max(bases, key=lambda b: sum(one.base == b for one in seen))
    seen = [one for one in seen if one.base == base]
    if len(seen) < _FEWEST:
        return None
    logs = np.array([math.log10(max(one.error / one.unit, _least(one))) for one in seen])
    trivial = np.array([one.trivial / one.unit for one in seen])
    limited = base == "rows" and bool(np.isfinite(trivial).any())
    ceiling = float(np.log10(np.median(trivial[np.isfinite(trivial)]))) if limited else math.inf
    told = logs < np.log10(np.maximum(trivial * _NEAR, _LEAST)) if limited else logs > -math.inf
    used, most = _USED[base], 0.0 if base in _FULL else 1.0
    design = _design(seen, used)
    tables = np.array([one.table for one in seen])

    def line(chosen: Bools) -> tuple[float, dict[str, float]]:
        kept = chosen & told
        taken = kept if kept.sum() >= _FEWEST else chosen
        return _least_squares(design[taken], logs[taken], used, most)

    def at(found: tuple[float, dict[str, float]], which: Bools) -> Floats:
        return np.minimum(found[0] + design[which] @ _vector(found[1], used), ceiling)

    everything = np.ones(len(seen), dtype=bool)
    left, weights = np.zeros(len(seen)), np.zeros(len(seen))
    several = len(set(tables.tolist())) > 1
    for table in sorted(set(tables.tolist())):
        own = tables == table
        left[own] = logs[own] - at(line(~own if several else everything), own)
        weights[own] = 1.0 / math.sqrt(float(own.sum()))
    found = line(everything)
    half = min(_HALF * (1 + _FEW / len(set(tables.tolist()))), 0.5)
    low, middle, high = (_quantile(left, weights, 0.5 + by) for by in (-half, 0.0, half))
    return ErrorModel(
        base,
        Line(found[0] + middle, found[1]),
        min(low - middle, 0.0),
        max(high - middle, 0.0),
        ceiling if limited else None,
        _ranges(seen, used),
        len(seen),
    )


def _exact(one: Observation) -> bool:
    """Whether its law is known, so that nothing needs to be measured."""
    return one.expected is not None and one.expected.basis == "noise"


def _least(one: Observation) -> float:
    """Errors below a tenth of a row or of a cell, or as good as none, count as that much."""
    if one.base == "rows":
        return 0.1 / one.rows
    if one.base == "span":
        return 0.1 * 10 ** -one.features["cells"]
    return 1e-7 if one.base == "answer" else 0.02


def _efforts(
    observations: Sequence[Observation], every: Sequence[Observation]
) -> EffortModel | None:
    seconds = _upper(observations, _seconds, 1e-4, _FEWEST_TIMED)
    size = _upper(observations, _bytes, 1e4, _FEWEST_TIMED) or _upper(every, _bytes, 1e4, _FEWEST)
    if seconds is None or size is None:
        return None
    return EffortModel(seconds, size, _ranges(observations, _OF_EFFORT))


def _seconds(one: Observation) -> float | None:
    return one.seconds


def _bytes(one: Observation) -> float | None:
    return one.bytes


def _upper(
    observations: Sequence[Observation],
    value: Callable[[Observation], float | None],
    least: float,
    fewest: int,
) -> Line | None:
    seen = [(one, found) for one in observations if (found := value(one)) is not None]
    if len(seen) < fewest:
        return None
    logs = np.array([math.log10(max(found, least)) for _, found in seen])
    design = _design([one for one, _ in seen], _OF_EFFORT)
    start, weights = _least_squares(design, logs, _OF_EFFORT, 1.0, growing=True)
    left = logs - start - design @ _vector(weights, _OF_EFFORT)
    return Line(start + float(np.quantile(left, _MOST)) + _SAFE, weights)


def _design(observations: Sequence[Observation], used: Sequence[str]) -> Floats:
    rows: list[list[float]] = [[one.features[name] for name in used] for one in observations]
    return np.array(rows, dtype=np.float64)


def _vector(weights: Features, used: Sequence[str]) -> Floats:
    return np.array([weights.get(name, 0.0) for name in used])


def _least_squares(
    design: Floats, logs: Floats, used: Sequence[str], most: float, *, growing: bool = False
) -> tuple[float, dict[str, float]]:
    """Start and weights. What varies little is left out, and so is what breaks a limit.

    The weight of `strength` is at most `most`; where all grows, no other weight is below 0.
    """
    spread: Floats = design.std(axis=0)
    kept = [place for place in range(len(used)) if spread[place] > 0.05]
    while True:
        middle: Floats = design[:, kept].mean(axis=0)
        scaled: Floats = (design[:, kept] - middle) / spread[kept]
        gram: Floats = scaled.T @ scaled + _RIDGE * np.eye(len(kept))
        told: Floats = scaled.T @ (logs - logs.mean())
        solved = cast("Floats", np.linalg.solve(gram, told)) / spread[kept]
        weights = [float(one) for one in solved]
        wrong = [
            place
            for place, weight in zip(kept, weights, strict=True)
            if (used[place] == "strength" and weight > most)
            or (growing and used[place] != "strength" and weight < 0)
        ]
        if not wrong:
            start = float(logs.mean()) - float(middle @ solved)
            return start, {used[place]: one for place, one in zip(kept, weights, strict=True)}
        kept = [place for place in kept if place not in wrong]


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    order = np.argsort(values, kind="stable")
    heights: Floats = np.cumsum(weights[order])
    place = int((heights < share * float(heights[-1])).sum())
    return float(values[order[min(place, len(order) - 1)]])


def _ranges(
    observations: Sequence[Observation], used: Sequence[str]
) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name in used:
        if name in _RANGED:
            values = [one.features[name] for one in observations]
            # Rounded outwards, so that what was measured lies inside.
            low, high = math.floor(min(values) * 1e3) / 1e3, math.ceil(max(values) * 1e3) / 1e3
            found[name] = low, high
    return found
