"""Tables, many of one shape at a time, brought to given margins, or drawn towards prior ones.

A noisy table is fitted by least squares to what was measured of it, with the relative entropy to
its prior as a penalty. How much that counts is chosen by Stein's estimate of the risk, so that a
table of which noise tells nothing stays as its prior. All of it is public post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.forms.residuals import centred
from dpsdk.typing import Bools, Floats, Ints

__all__ = ["Cap", "Margins", "margins_of", "onto_simplex", "rake", "shrink", "sums"]


Margins: TypeAlias = Sequence[Floats]
"""For each axis of a stack of tables, the tables with that axis summed out, of length one.

The first axis of every array counts the tables, and is no axis of a table.
"""

_CLOSE = 1e-6
_LEAST = 1e-9


def sums(tables: Floats) -> Floats:
    """The sum of each table of a stack, shape (tables,)."""
    totals: Floats = tables.reshape(len(tables), -1).sum(axis=1)
    return totals


def margins_of(tables: Floats) -> tuple[Floats, ...]:
    """The margins of each table of a stack."""
    return tuple(tables.sum(axis=axis, keepdims=True) for axis in range(1, tables.ndim))


def rake(tables: Floats, margins: Margins, *, sweeps: int = 40) -> Floats:
    """Scale tables, axis by axis, until they have given margins (Deming and Stephan 1940)."""
    tables = tables.copy()
    for _ in range(sweeps):
        off = np.zeros(len(tables))
        for axis, wanted in enumerate(margins, start=1):
            now = tables.sum(axis=axis, keepdims=True)
            np.maximum(off, sums(np.abs(now - wanted)), out=off)
            there = now > _LEAST
            tables *= np.divide(wanted, now, out=np.zeros_like(now), where=there)
        if (off <= _CLOSE * np.maximum(sums(margins[0]), 1.0)).all():
            break
    return tables


def onto_simplex(values: Floats, total: float) -> Floats:
    """The nearest numbers that are at least zero and sum to a total."""
    # By the largest first, beside which the total may be nothing in floats.
    values = values - values.max()
    falling = np.sort(values)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    shift = shifts[np.flatnonzero(falling > shifts)[-1]] if total > 0 else np.inf
    return np.maximum(values - shift, 0.0)


_STRENGTHS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
"""Weights of the penalty that are tried, in standard deviations of the noise."""

_WORSE = 2
"""After so many weights in a row that are no better, no smaller one is tried."""

_SWEEPS = 8
_STEPS = 2
_LAST_SWEEPS = 3
_STEP_CLOSE = 1e-4
_SWEEP_CLOSE = 5e-4
_NOTHING = 1e-12


@frozen(eq=False)
class Cap:
    """How far each table of a stack may go from a reference, in sums of absolute differences."""

    reference: Floats = field(repr=False)
    distances: Floats

    def passed(self, tables: Floats, chosen: Ints) -> Bools:
        """The chosen tables that are farther away."""
        return sums(np.abs(tables - self.reference[chosen])) > self.distances[chosen]


def shrink(
    residuals: Floats,
    deviations: Floats,
    priors: Floats,
    margins: Margins,
    cap: Cap | None = None,
) -> Floats:
    """Tables with given margins between what was measured and their priors."""
    best = rake(priors, margins)
    axes = best.ndim - 1
    away = residuals - centred(best, axes)
    wanted = best + away
    least = sums(away**2)
    priors = best.copy()
    active = np.arange(len(best))
    behind = np.zeros(len(best), dtype=np.int64)
    potentials = [np.zeros_like(margin) for margin in margins]
    for strength in _STRENGTHS:
        noise = deviations[active]
        within = [margin[active] for margin in margins]
        start = [potential[active] for potential in potentials]
        target, prior = wanted[active], priors[active]
        fitted, found = _penalised(target, prior, strength * noise, within, start)
        for potential, new in zip(potentials, found, strict=True):
            potential[active] = new
        free = _freedom(fitted, strength * noise)
        # Stein's unbiased estimate (1981), and two standard errors of its degrees of freedom: a fit
        # that follows noise by luck must win by more than luck.
        risk = sums(centred(fitted - target, axes) ** 2) + noise**2 * (2 * free + np.sqrt(2 * free))
        better = risk < least[active]
        going: Bools = np.ones(len(active), dtype=bool)
        if cap is not None:
            going = ~cap.passed(fitted, active)
            better &= going
        best[active[better]] = fitted[better]
        least[active[better]] = risk[better]
        behind[active] = np.where(better, 0, behind[active] + 1)
        active = active[going & (behind[active] < _WORSE)]
        if not len(active):
            break
    return best


def _penalised(
    target: Floats, prior: Floats, scales: Floats, margins: Margins, potentials: list[Floats]
) -> tuple[Floats, list[Floats]]:
    """The minimum for each table at one weight of the penalty, with its margins' potentials."""
    from scipy.special import wrightomega  # noqa: PLC0415  # keeps the import of the package quick

    shape = (-1, *[1] * (target.ndim - 1))
    scale = scales.reshape(shape)
    with np.errstate(divide="ignore"):
        base = target / scale + np.log(prior / scale)
    rows = np.maximum(sums(margins[0]), _NOTHING)
    # x + s ln(x / prior) = y + potentials of the margins, so that x is s times Wright's omega
    # function; the potentials are found by Newton's method, a margin at a time.
    fitted = np.empty_like(target)
    left = np.arange(len(target))
    found = [potential.copy() for potential in potentials]
    for _ in range(_SWEEPS):
        worst = np.zeros(len(left))
        step_scale, rest = scale[left], base[left]
        shifts = [potential[left] / step_scale for potential in found]
        now = fitted[left]
        for axis, margin in enumerate(margins, start=1):
            wanted = margin[left]
            fixed = rest + sum(shifts[: axis - 1] + shifts[axis:], np.zeros(1))
            reach = 50.0 + wanted / step_scale
            for step in range(_STEPS):
                omega = wrightomega(fixed + shifts[axis - 1])
                now = step_scale * omega
                gap = now.sum(axis=axis, keepdims=True) - wanted
                off = sums(np.abs(gap))
                if step == 0:
                    np.maximum(worst, off, out=worst)
                slope = (omega / (omega + 1.0)).sum(axis=axis, keepdims=True) * step_scale
                there = (slope > _NOTHING * step_scale) & (wanted > 0)
                move = np.divide(gap, slope, out=np.zeros_like(gap), where=there)
                shifts[axis - 1] = shifts[axis - 1] - np.clip(move, -reach, reach)
                if (off < _STEP_CLOSE * rows[left]).all():
                    break
        fitted[left] = now
        for potential, shift in zip(found, shifts, strict=True):
            potential[left] = shift * step_scale
        left = left[worst >= _SWEEP_CLOSE * rows[left]]
        if not len(left):
            break
    return rake(fitted, margins, sweeps=_LAST_SWEEPS), found


def _freedom(tables: Floats, scales: Floats) -> Floats:
    """Degrees of freedom of each fit: the trace of its derivative by what was measured."""
    slopes = tables / (tables + scales.reshape(-1, *[1] * (tables.ndim - 1)))
    squares = slopes**2
    trace = sums(slopes)
    free = trace + (tables.ndim - 2) * sums(squares) / np.maximum(trace, _NOTHING)
    for axis in range(1, tables.ndim):
        above, below = squares.sum(axis=axis), slopes.sum(axis=axis)
        part = np.divide(above, below, out=np.zeros_like(above), where=below > _NOTHING)
        free -= sums(part) if part.ndim > 1 else part
    return np.maximum(free, 0.0)
