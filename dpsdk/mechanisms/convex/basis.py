"""In which basis a gradient is measured: that of which the noise is expected to do least.

Excess is what noise does by the inverse of the curvature, so that it is the flat directions where
noise does harm. Numbers that stretch these, and shrink the others, have less noise there at the
same privacy loss, by their own exact sensitivity. The basis follows from a public distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from attrs import frozen

from dpsdk.errors import InvalidArgument
from dpsdk.forms import ConvexForm, Dense, LinearForm
from dpsdk.forms.convex import Tables
from dpsdk.kernel import GaussianNoise, Measure, Noise, Terms
from dpsdk.mechanisms.convex.correction import noise_harm
from dpsdk.typing import Floats

__all__ = ["Asked", "asked_gradient"]


@frozen(eq=False)
class Asked:
    """Numbers from which a gradient is read, and what their noise is expected to do."""

    form: LinearForm
    back: Floats | None
    """The matrix that makes a gradient of them; none where they are one."""
    deviation: float
    """Of the noise of each of them, as a share of the rows."""
    harm: float
    """The mean excess after a step by them, ½ tr(H⁻¹ Σ) with the covariance Σ of their noise."""

    def read(self, numbers: Floats) -> Floats:
        """The gradient that measured numbers stand for."""
        gradient: Floats = numbers if self.back is None else self.back @ numbers
        return gradient


def asked_gradient(
    form: ConvexForm, tables: Tables, theta: Floats, noise: Noise, terms: Terms, rows: float
) -> Asked:
    """How the gradient of a table at θ is best asked for, by what is public.

    With numbers A·g of the gradient g, and their noise of deviation σ in proportion to the longest
    move of A·g, harm is in proportion to σ² tr(H⁻¹ A⁻¹ A⁻ᵀ). Were all moves of g as long in every
    direction, it would be least with the curvatures to the power −¼ for A and Gaussian noise, whose
    moves are lengths; with Laplace noise, whose moves are sums, it is −⅓ along the axes of the
    curvature. Each is tried with its exact sensitivity, beside the gradient itself.
    """
    gradient = form.gradient(theta)
    _, hessian = form.expand(tables, theta)

    def asked(numbers: LinearForm, back: Floats | None) -> Asked:
        try:
            pricing = Measure(numbers, noise).price(terms)
        except InvalidArgument:
            return Asked(numbers, back, math.inf, math.inf)
        deviation = pricing.law.standard_deviation() * 2.0**-pricing.bits / rows
        _, _, harm = noise_harm(form, hessian, deviation, back)
        return Asked(numbers, back, deviation, harm)

    best = asked(gradient, None)
    if not 0.0 < best.harm < math.inf:
        return best
    ridge, _, _ = noise_harm(form, hessian, best.deviation)
    (block,) = gradient.blocks
    weights, shape = block.columns([]), block.shape
    for forth, back in _bases(hessian, ridge, gaussian=isinstance(noise, GaussianNoise)):
        other = asked(LinearForm(form.domain, [Dense(block.names, shape, forth @ weights)]), back)
        best = min(best, other, key=_harm)
    return best


def _harm(asked: Asked) -> float:
    return asked.harm


def _bases(hessian: Floats, ridge: float, *, gaussian: bool) -> Iterator[tuple[Floats, Floats]]:
    """Matrices that stretch where there is little curvature, and their inverses."""
    values, axes = np.linalg.eigh(hessian)
    bends = np.maximum(values, 0.0) + ridge
    stretch = (bends / bends[-1]) ** (-0.25 if gaussian else -1.0 / 3.0)
    yield (axes * stretch).T, axes / stretch
    if not gaussian:  # lengths are the same however axes lie, sums are not
        yield (axes * stretch) @ axes.T, (axes / stretch) @ axes.T
