"""The excess that a model is expected to have, from a public distribution: none of it a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from attrs import evolve

from dpsdk.errors import DpsdkError
from dpsdk.forms import Box, ConvexForm, Simplex
from dpsdk.forms.convex import Tables
from dpsdk.forms.design import Coordinates
from dpsdk.hypothesis import Pairs
from dpsdk.mechanisms.convex.correction import excess_metric
from dpsdk.mechanisms.convex.start import Moments
from dpsdk.typing import Floats, Ints

__all__ = [
    "cap_excess",
    "constant_model",
    "remaining_excess",
    "marginal_products",
    "start_harm",
    "smooth",
]

_WIDTH = 1 / 40


def smooth(form: ConvexForm) -> ConvexForm:
    """The form with the kinks of its loss rounded, where it has any.

    A kink has no curvature to correct by. It is rounded by a fortieth of the span of the labels.
    """
    if not form.loss.kinked:
        return form
    rounded = form.loss.smoothed(_WIDTH * (float(np.ptp(form.targets)) or 1.0))
    return form if rounded is None else evolve(form, loss=rounded)


def cap_excess(excess: float, whole: float) -> float:
    """An excess that hardly is more than all that a model loses which knows nothing."""
    if not whole > 0.0:
        return excess
    return whole if math.isinf(excess) else excess * whole / (excess + whole)


def remaining_excess(excess: float, whole: float) -> float:
    """What a step of Newton's leaves of an excess, noise of its gradient aside.

    A step whose curvature is off by a part r leaves r² of the excess. Curvatures are off since the
    step is long, and since what they are taken from is noisy: both by about the root of the excess,
    beside one half of all that there is to lose. So it was found for Adult and wine, within a
    factor of 5. Nothing is known of what a distribution misses beyond its noise.
    """
    beside = excess + 0.5 * whole
    return excess * (excess / beside) if beside > 0.0 else 0.0


def start_harm(
    start: Pairs | Moments, form: ConvexForm, tables: Tables, theta: Floats, deviation: float
) -> float:
    """The mean excess of the best model of a fitted distribution, for the noise it was fitted to.

    What the measured numbers say of each number of the gradient is taken with the least noise that
    any weights give it; what they do not say of it is left out.

    `deviation` is that of the noise of each measured number, as a share. Infinite where the excess
    cannot be told.
    """
    try:
        _, hessian = form.expand(tables, theta)
        if isinstance(start, Pairs):
            noise = marginal_products(form, theta, start.width)
        else:
            noise = _moment_products(form, tables, theta, hessian)
    except DpsdkError:
        return math.inf
    typical = math.sqrt(float(np.trace(noise)) / len(noise))
    _, metric = excess_metric(form, hessian, deviation * typical)
    return 0.5 * deviation**2 * float((metric * noise).sum())


def constant_model(form: ConvexForm, tables: Tables) -> Floats | None:
    """The best model that depends on no feature; None where the set has none, or none is found."""
    theta, over = np.zeros(form.dimension), form.over
    place, intercept = _intercept(form)
    if intercept is None:
        return theta if over.contains(theta) else None
    if isinstance(over, Simplex):
        theta[place] = 1.0
        return theta
    if isinstance(over, Box):
        low, high = over.sides(form.dimension)
        theta[place] = min(max(0.0, float(low[place])), float(high[place]))
        if not over.contains(theta):
            return None
        over = Box(float(low[place]), float(high[place]))
    try:
        alone = evolve(form, coordinates=(intercept,), over=over)
        theta[place] = alone.minimise(tables, tolerance=1e-9)[0][0]
    except DpsdkError:
        return None
    return theta


def _intercept(form: ConvexForm) -> tuple[int, Coordinates | None]:
    """The first coordinate that depends on nothing, and its place."""
    place = 0
    for one in form.coordinates:
        if not one.names:
            return place, Coordinates((), one.values[:1])
        place += one.width
    return 0, None


def marginal_products(form: ConvexForm, theta: Floats, width: int) -> Floats:
    """The products of the weights that read each number of a gradient off marginals, the shortest.

    A function is a sum of effects, one a set of attributes (Hoeffding 1948). The effect of a set is
    read off every marginal that contains it, each the less the more cells it adds up.
    """
    shape = tuple([form.domain[name].size for name in form.names])
    (block,) = form.gradient(theta).blocks
    weights = np.asarray(block.columns(_codes(shape))).reshape(form.dimension, *shape)
    axes, most = range(len(shape)), min(width, len(shape))
    means: dict[tuple[int, ...], Floats] = {}
    for chosen in combinations(axes, most):
        others = tuple([1 + axis for axis in axes if axis not in chosen])
        means[chosen] = weights.mean(axis=others, keepdims=True)
    for count in range(most - 1, -1, -1):
        for chosen in combinations(axes, count):
            added = next(axis for axis in axes if axis not in chosen)
            wider = tuple(sorted((*chosen, added)))
            means[chosen] = means[wider].mean(axis=1 + added, keepdims=True)
    products = np.zeros((form.dimension, form.dimension))
    effects: dict[tuple[int, ...], Floats] = {}
    for count in range(most + 1):
        for chosen in combinations(axes, count):
            effect = means[chosen].copy()
            for fewer in range(count):
                for inner in combinations(chosen, fewer):
                    effect = effect - effects[inner]
            effects[chosen] = effect
            sizes = [shape[axis] for axis in axes if axis not in chosen]
            read = sum([1.0 / math.prod(taken) for taken in combinations(sizes, most - count)])
            flat = effect.reshape(form.dimension, -1)
            products += flat @ flat.T / read
    return products


def _codes(shape: Sequence[int]) -> list[Ints]:
    return [
        np.asarray(code, dtype=np.int64)
        for code in np.unravel_index(np.arange(math.prod(shape)), shape)
    ]


def _moment_products(form: ConvexForm, tables: Tables, theta: Floats, hessian: Floats) -> Floats:
    """The same for second moments, as if the slope of the loss were linear in margin and label."""
    lengths = 0.0
    for one in form.coordinates:
        table = np.asarray(tables.table(one.names), dtype=np.float64)
        lengths += float((np.square(one.values).sum(axis=0) * table).sum())
    bend = float(np.trace(hessian)) / lengths if lengths > 0.0 else 0.0
    slope = float(np.abs(form.loss.derivative(np.zeros_like(form.targets), form.targets)).max())
    square: Floats = (bend**2 * float(theta @ theta) + slope**2) * np.eye(form.dimension)
    return square
