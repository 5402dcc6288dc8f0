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
from dpsdk.typing import Floats

__all__ = ["Correction", "PredictedExcess", "corrected"]

_LEAST = 1e-12
"""A ridge of this part of the mean curvature at least, so that every Hessian has an inverse."""


@frozen
class PredictedExcess(ScalarAccuracy):
    """The mean excess of a model, if its distribution had the curvature of the table.

    Half of σ² tr(H⁻¹), which what is left of an excess after a step of Newton's comes to. It counts
    on a minimum inside the set and on a step so short that curvatures stay what they are.
    """

    value: float
    kind: str = "noise of the gradient, by the curvature of the distribution"
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


def corrected(
    form: ConvexForm, tables: Tables, theta: Floats, gradient: Floats, deviation: float
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
        The standard deviation of the noise of each of its numbers.
    """
    own, hessian = form.expand(tables, theta)
    dimension, diameter = len(theta), form.over.diameter(len(theta))
    # So much curvature keeps a step of noise alone within the set.
    mean = float(np.trace(hessian)) / dimension
    ridge = max(4.0 * deviation * math.sqrt(dimension) / (diameter or 1.0), _LEAST * mean, _LEAST)
    inverse = np.linalg.inv(hessian + ridge * np.eye(dimension))
    noise = deviation**2 * float(np.trace(inverse))
    # No average of gradients has a number beyond the longest of them.
    found = np.clip(np.nan_to_num(gradient), -form.longest, form.longest) - own
    seen = float(found @ inverse @ found)
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
