"""A convex loss minimised over weighted cells, with a certificate of how far off that may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk.forms.design import Design
from dpsdk.forms.sets import ConvexSet
from dpsdk.losses import Loss
from dpsdk.typing import Floats

__all__ = ["Minimum", "minimise"]


@frozen
class Minimum:
    """Coefficients, and by how much their value may exceed the least one.

    Parameters
    ----------
    theta
        The coefficients, a point of the set.
    value
        The function there.
    gap
        value − minimum is at most this: a certificate, not an estimate.
    steps
        How many times a Hessian or a gradient was worked out.
    """

    theta: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    value: float
    gap: float
    steps: int


def minimise(
    design: Design,
    loss: Loss,
    labels: Sequence[float] | Floats,
    weights: Floats,
    over: ConvexSet,
    *,
    linear: Floats | None = None,
    ridge: float = 0.0,
    start: Floats | None = None,
    tolerance: float = 1e-6,
    limit: int = 100,
) -> Minimum:
    """Minimise Σ w φ(⟨θ, x⟩, y) + ⟨linear, θ⟩ + ½·ridge·‖θ‖² over a set, with a certified gap.

    `weights` has shape (labels, cells): all labels of one feature vector share its margin.
    """
    raise NotImplementedError
