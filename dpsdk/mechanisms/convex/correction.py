"""One step from the best model of a public distribution towards that of the table.

The step needs one gradient, measured at a public θ̂. What it says beyond the distribution's own
gradient is shrunk where noise explains it, and added to the loss of the distribution as a linear
term. With the curvature of the table and no noise the step is Newton's; and where it finds nothing
to correct, the distribution's θ̂ is a minimum of the table. All of it is post-processing.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk.accuracy import ScalarAccuracy, Standing
from dpsdk.errors import DpsdkError
from dpsdk.forms import ConvexForm
from dpsdk.forms.convex import Tables
from dpsdk.mechanisms.convex.confidence import CoefficientSet
from dpsdk.typing import Floats

__all__ = ["Correction", "PredictedExcess", "corrected", "excess_metric", "noise_harm"]

_FLAT = 1e-10
"""A direction with less than this part of the largest curvature has none."""

_LEAST = 1e-12
"""A ridge of this part of the mean curvature at least, so that every Hessian has an inverse."""


@frozen
class PredictedExcess(ScalarAccuracy):
    """The mean excess of a model, if its distribution had the curvature of the table.

    Half of σ² tr(H⁻¹), over the directions that have curvature: what is left of an excess after a
    step of Newton's comes to that. It counts on a minimum inside the set and on a step so short
    that curvatures stay what they are.
    """

    value: float
    kind: str = "noise of the gradient, by the curvature of the distribution"
    coefficients: CoefficientSet | None = None
    """Where the least-squares coefficients of the table are, for models of measured moments."""
    standing: Standing = field(init=False, default="predicted")

    def error(self, beta: float) -> float:
        """The mean, whatever the confidence."""
        del beta
        return self.value


@frozen
class Correction:
    """A corrected model.

    Parameters
    ----------
    theta
        Its coefficients, a point of the set.
    gap
        By how much they may exceed the minimum of what was minimised: a certificate of the solver.
    predicted
        The mean excess to expect, ½σ² tr(H⁻¹).
    """

    theta: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    gap: float
    predicted: float


def excess_metric(form: ConvexForm, hessian: Floats, deviation: float) -> tuple[float, Floats]:
    """The ridge λ of a step, and (H + λ)⁻¹ where there is curvature: half of it makes excess.

    So much ridge keeps a step of noise alone within the set. A direction without curvature, as
    one-hot features and an intercept have it, costs nothing, however far noise goes along it.
    """
    dimension = len(hessian)
    diameter, mean = form.over.diameter(dimension), float(np.trace(hessian)) / dimension
    ridge = max(4.0 * deviation * math.sqrt(dimension) / (diameter or 1.0), _LEAST * mean, _LEAST)
    values, vectors = np.linalg.eigh(hessian)
    curved = values > _FLAT * max(float(values[-1]), _LEAST)
    kept = vectors[:, curved]
    metric: Floats = (kept / (values[curved] + ridge)) @ kept.T
    return ridge, metric


def noise_harm(
    form: ConvexForm, hessian: Floats, deviation: float, back: Floats | None = None
) -> tuple[float, Floats, float]:
    """The ridge and metric for a noisy gradient, and the mean excess that its noise makes.

    That is ½ tr(H⁻¹ Σ), with the covariance Σ of the gradient: σ² B Bᵀ where a matrix B makes it
    of numbers with noise of deviation σ.
    """
    shape = np.eye(form.dimension) if back is None else back @ back.T
    typical = deviation * math.sqrt(float(np.trace(shape)) / form.dimension)
    ridge, metric = excess_metric(form, hessian, typical)
    return ridge, metric, 0.5 * deviation**2 * float((metric * shape).sum())


def corrected(
    form: ConvexForm,
    tables: Tables,
    theta: Floats,
    gradient: Floats,
    deviation: float,
    back: Floats | None = None,
) -> Correction:
    """The model that a measured gradient corrects. Never fails for what was measured.

    Parameters
    ----------
    form
        The average loss.
    tables
        A public distribution.
    theta
        Its minimum.
    gradient
        What was measured of the table's average gradient there.
    deviation
        The standard deviation of the noise of each of the numbers that were measured.
    back
        The matrix that made the gradient of these numbers, where they were not the gradient itself.
    """
    try:
        own, hessian = form.expand(tables, theta)
    except DpsdkError:
        return Correction(theta, math.inf, math.inf)
    ridge, metric, harm = noise_harm(form, hessian, deviation, back)
    noise = 2.0 * harm
    # No average of gradients has a number beyond the longest of them.
    found = np.clip(np.nan_to_num(gradient), -form.longest, form.longest) - own
    seen = float(found @ metric @ found)
    share = max(0.0, 1.0 - noise / seen) if seen > 0.0 else 0.0
    if not (0.0 < share <= 1.0):  # nothing but noise, or no number
        return Correction(theta, form.over.gap(theta, own), 0.5 * noise)
    # ½ ridge ‖θ′ − θ̂‖² = ½ ridge ‖θ′‖² − ridge ⟨θ̂, θ′⟩ and a constant.
    linear = share * found - ridge * theta
    try:
        moved, gap = form.minimise(tables, linear=linear, ridge=ridge, tolerance=1e-9)
    except DpsdkError:
        return Correction(theta, form.over.gap(theta, own), 0.5 * noise)
    return Correction(moved, gap, 0.5 * noise)
