"""The coordinates of a gradient, which a guarded stream of models lets `watch` compare.

A model that is best for the hypothesis has a gradient there that nothing descends from. If the
table's gradient at the same θ̂ is close to it in every coordinate, the model is good for the table,
too; each coordinate is the average of a public function, so nothing is minimised over the rows.
Coordinates are taken along eigenvectors of the hypothesis's Hessian, and each is mapped to
[0, 1] by its own public range, in which one row counts one.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen

from dpsdk._arrays import ByNumbers, kept, kept_places
from dpsdk._checks import shown
from dpsdk.accuracy import NoiseAccuracy, ScalarAccuracy, Standing
from dpsdk.errors import InvalidArgument
from dpsdk.forms import ConvexForm, Dense, Facts, GapForm, LinearForm
from dpsdk.hypothesis import Hypothesis
from dpsdk.mechanisms.numeric_sparse import drift_of
from dpsdk.mechanisms.pmw.schedule import Schedule
from dpsdk.noise import DiscreteGaussian
from dpsdk.typing import Floats, Ints

__all__ = [
    "WatchedGradient",
    "WatchedExcess",
    "dense",
    "excess_below",
    "release_radius",
    "watch_gradient",
]

_NARROW = 1e-9
"""Coordinates whose range is this part of the widest are not looked at: their range bounds them."""

_ROUNDING = 2.0**-40

_DAMPINGS = (1e-4, 1e-2, 1.0)
"""What is added to a Hessian, in parts of its mean: directions without curvature are common."""


@frozen(eq=False)
class WatchedGradient:
    """A gradient at a public θ̂, its coordinates as gaps, and what they leave open."""

    gradient: LinearForm
    """That of the summed loss at θ̂."""
    measures: LinearForm
    """What is measured if a coordinate is off: the same, of the loss with its kinks rounded."""
    own: Floats
    """The average gradient over the hypothesis."""
    hessian: Floats
    """The hypothesis's Hessian there, of the loss with its kinks rounded."""
    gap: GapForm | None
    """The coordinates; None where no row moves any."""
    ranges: Floats
    """Of each gap, what one of it is worth in the gradient."""
    places: Ints
    """Of each gap, the coordinate that it is of; with a cell outside there are two of one."""
    narrow: float
    """How long the rest of the gradient's difference can be."""
    certificate: float
    """By how much θ̂ may exceed the hypothesis's minimum, by the same gradient."""


def watch_gradient(
    form: ConvexForm,
    theta: Floats,
    tables: Hypothesis,
    facts: Facts,
    rounded: ConvexForm | None = None,
) -> WatchedGradient:
    """The coordinates of a gradient, to be compared with those of a hypothesis. Public.

    `rounded` is the form with the kinks of its loss rounded, where it has any.
    """
    gradient = form.gradient(theta)
    block = dense(gradient)
    table = tables.table(form.names).reshape(-1)
    own: Floats = block.weights @ table
    smoothed = form if rounded is None else rounded
    measures = gradient if smoothed is form else smoothed.gradient(theta)
    _, hessian = smoothed.expand(tables, theta)
    _, vectors = np.linalg.eigh(hessian)
    along: Floats = vectors.T @ block.weights
    functions, low = along, along.min(axis=1)
    if facts.outside or tables.outside:
        # A record outside, of the table or the hypothesis, has a gradient of zero, and weights of
        # gaps are zero there: so each sign is a function of its own, zero where the other is not.
        functions = np.concatenate([np.maximum(along, 0.0), np.maximum(-along, 0.0)])
        low = np.zeros(len(functions))
    places = np.tile(np.arange(len(along)), len(functions) // len(along))
    ranges = functions.max(axis=1) - low
    wide = ranges > _NARROW * max(float(ranges.max()), 1e-300)
    narrow = float(np.linalg.norm(np.bincount(places[~wide], ranges[~wide], len(along))))
    # Rounding is allowed for in proportion to what is summed.
    size = float(np.abs(block.weights).max()) * math.sqrt(len(theta))
    slack = _ROUNDING * size * form.over.diameter(len(theta))
    certificate = max(form.over.gap(theta, own), 0.0) + slack
    gap: GapForm | None = None
    if wide.any():
        weights = (functions[wide] - low[wide, None]) / ranges[wide, None]
        np.clip(weights, 0.0, 1.0, out=weights)
        rates = np.clip(weights @ table, 0.0, 1.0)
        whole = LinearForm(form.domain, [Dense(block.names, block.shape, weights)])
        gap = GapForm.around(whole, rates)
    return WatchedGradient(
        gradient, measures, own, hessian, gap, ranges[wide], places[wide], narrow, certificate
    )


def dense(gradient: LinearForm) -> Dense:
    """The weights of a gradient, all in one block."""
    (block,) = gradient.blocks
    if not isinstance(block, Dense):
        raise InvalidArgument("gradient", "one dense block", shown(block))
    return block


@frozen
class WatchedExcess(ScalarAccuracy):
    """The excess of a model whose gradient was called close to the hypothesis's.

    With g the table's average gradient at θ̂ and g_p the hypothesis's, no θ′ of the set has a loss
    below that of θ̂ by more than max ⟨g, θ̂ − θ′⟩ ≤ max ⟨g_p, θ̂ − θ′⟩ + ‖g − g_p‖ · diameter; the
    coordinates of g − g_p are bounded by the threshold and its noise
    (docs/explanation/proofs/convex-pmw.md).
    """

    schedule: Schedule
    facts: Facts
    run: int
    drift: float
    certificate: float
    diameter: float
    narrow: float
    ranges: Floats = field(converter=kept, eq=ByNumbers)
    places: Ints = field(converter=kept_places, eq=ByNumbers)
    span: float = math.inf
    kind: str = field(init=False, default="exact tail of the noise of thresholds, and convexity")
    standing: Standing = field(init=False, default="proven")

    def error(self, beta: float) -> float:
        """In the unit of the loss."""
        schedule, facts = self.schedule, self.facts
        runs = 1 if schedule.watching.tops is not None else schedule.updates
        noise = schedule.watching.below_in(self.run, beta, facts, runs) + self.drift
        # A share differs by no more than one whole row for each row.
        each = self.ranges * min((schedule.threshold + noise) / max(facts.rows or 1, 1), 1.0)
        length = float(np.linalg.norm(np.bincount(self.places, each))) + self.narrow
        return self.certificate + length * self.diameter


def excess_below(
    model: WatchedGradient, form: ConvexForm, schedule: Schedule, facts: Facts, run: int
) -> WatchedExcess:
    """How far off a model is that was called good enough."""
    drift = 0.0 if model.gap is None else drift_of(schedule.watching, model.gap.form, facts)
    return WatchedExcess(
        schedule,
        facts,
        run,
        drift,
        model.certificate,
        form.over.diameter(form.dimension),
        model.narrow,
        model.ranges,
        model.places,
        form.constants.range,
    )


def release_radius(way: Floats, hessian: Floats, accuracy: NoiseAccuracy, beta: float) -> float:
    """How far ⟨way, ĝ⟩ may be off, in the unit of a summed gradient, with probability 1 − beta.

    The way may follow from the noise z of ĝ itself, so that σ‖way‖ would be too little. Whatever
    it is, |⟨way, z⟩| is at most ‖way‖₁ ‖z‖_∞, and at most ‖A⁻¹ way‖ ‖Az‖ for any A that was fixed
    before, such as H^(−1/2) of a public H. ‖z‖_∞ has the exact tail of the noise; ‖Az‖ that of
    Hsu, Kakade and Zhang (2012) where the noise is Gaussian.
    """
    part = beta / (1 + len(_DAMPINGS))  # for whichever bound turns out to be the least
    length = float(np.abs(way).sum())
    least = length * float(accuracy.radii(part, joint=True).max())
    law = accuracy.law
    if not isinstance(law, DiscreteGaussian):
        return least
    dimension, t = len(way), math.log(1.0 / part)
    # The bound is the same for every multiple of A. Powers of two come first: a quotient of numbers
    # below the normal ones overflows in some libraries.
    relative = np.ldexp(hessian, -math.frexp(float(np.trace(hessian)))[1])
    relative = relative / (float(np.trace(relative)) / dimension or 1.0)
    noise = math.sqrt(float(law.variance)) * accuracy.step
    for damping in _DAMPINGS:
        damped = relative + damping * np.eye(dimension)
        spread = np.linalg.inv(damped)
        trace, square = float(np.trace(spread)), float((spread * spread).sum())
        norm = float(np.linalg.norm(spread, 2))
        tail = math.sqrt(trace + 2.0 * math.sqrt(square * t) + 2.0 * norm * t)
        along = math.sqrt(max(float(way @ damped @ way), 0.0))
        least = min(least, noise * along * tail + length * accuracy.bias)
    return least
