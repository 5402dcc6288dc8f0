"""Choose the tables to measure, and how well: a public plan for the least error in all."""

from __future__ import annotations

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.typing import Floats

__all__ = ["Candidates", "Curves", "deviations_for", "purchases"]

_DEVIATIONS = 80
_LOWEST, _HIGHEST = -1.5, 12.0
"""Powers of two between which standard deviations are tried, over that of all ρ for one table."""

_SHRUNK = 0.8
"""The part of a cell's noise that is left of its error where noise alone decides."""

_GAIN = 0.01
"""A table is measured if that takes more than this part of its error away."""

_BINS = 96
_BINS_AN_OCTAVE = 2
_FIRST_BIN = -40
_BLOCK = 2**14
_HALVINGS = 70


def deviations_for(rho: float) -> Floats:
    """Standard deviations that are tried where so much ρ is there for all tables, in rows."""
    powers = np.linspace(_LOWEST, _HIGHEST, _DEVIATIONS)
    tried: Floats = np.sqrt(1 / (2 * rho)) * np.exp2(powers)
    return tried


@frozen(eq=False)
class Curves:
    """Predicted errors of tables: by the noise of their measurement, and without one."""

    errors: Floats = field(repr=False)
    idle: Floats

    @classmethod
    def of(cls, scales: Floats, deviations: Floats, known: Floats | None = None) -> Curves:
        """The errors of tables whose cells are about so far from their priors."""
        count = len(scales)
        precision = np.zeros(count) if known is None else known
        means, numbers = _binned(scales)
        left = _SHRUNK / np.sqrt(deviations[None] ** -2 + precision[:, None])
        errors = np.empty((count, len(deviations)))
        for first in range(0, count, step := max(1, _BLOCK // len(deviations))):
            part = slice(first, first + step)
            one, other = left[part, :, None], means[part, None, :]
            errors[part] = np.einsum("tdb,tb->td", one * other / (one + other), numbers[part])
        with np.errstate(divide="ignore"):
            before = _SHRUNK / np.sqrt(precision)[:, None]
        # Of what was never measured, the distance itself.
        left_idle = np.where(np.isinf(before), means, means / (1.0 + means / before))
        return cls(errors, np.einsum("tb,tb->t", left_idle, numbers))

    @classmethod
    def joined(cls, parts: list[Curves]) -> Curves:
        """The curves of several lists of tables, one list after the other."""
        errors = np.concatenate([part.errors for part in parts])
        return cls(errors, np.concatenate([part.idle for part in parts]))


def _binned(scales: Floats) -> tuple[Floats, Floats]:
    """The mean and the number of the values in bins of equal ratios, for each table."""
    count = len(scales)
    with np.errstate(divide="ignore"):
        places = np.floor(_BINS_AN_OCTAVE * np.log2(scales)) - _FIRST_BIN
    # Cells with no distance have no error either, and those of next to none as good as none.
    places = np.clip(places, 0, _BINS - 1).astype(np.int64)
    places += _BINS * np.arange(count)[:, None]
    flat = places.reshape(-1)
    numbers = np.bincount(flat, minlength=count * _BINS).astype(np.float64)
    totals = np.bincount(flat, scales.reshape(-1), count * _BINS)
    means = np.divide(totals, numbers, out=np.full_like(totals, 1e-300), where=numbers > 0)
    return np.maximum(means, 1e-300).reshape(count, -1), numbers.reshape(count, -1)


@frozen(eq=False)
class Candidates:
    """Tables that may be measured."""

    prices: Floats
    worths: Floats
    curves: Curves


def purchases(candidates: Candidates, deviations: Floats, rho: float) -> Floats:
    """The noise at which each table is to be measured, for the least error in all."""
    costs = candidates.prices[:, None] * deviations[None] ** -2.0
    errors = candidates.worths[:, None] * candidates.curves.errors
    enough = (1.0 - _GAIN) * candidates.worths * candidates.curves.idle
    every = np.arange(len(costs))

    def chosen(multiple: float) -> Floats:
        best = np.argmin(errors + multiple * costs, axis=1)
        worth = errors[every, best] + multiple * costs[every, best] < enough
        return np.where(worth, deviations[best], np.inf)

    def cost(picked: Floats) -> float:
        return float((candidates.prices / picked**2).sum())

    low, high = np.log(_LEAST_MULTIPLE), np.log(_MOST_MULTIPLE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if cost(chosen(float(np.exp(middle)))) > rho:
            low = middle
        else:
            high = middle
    picked = chosen(float(np.exp(high)))
    paid = cost(picked)
    return picked * np.sqrt(paid / rho) if paid else picked


_LEAST_MULTIPLE, _MOST_MULTIPLE = 1e-12, 1e30
