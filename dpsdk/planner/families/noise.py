"""Noise on every answer: what is asked is measured, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from dpsdk.mechanisms import Gaussian, Laplace, Projection
from dpsdk.planner.families.family import Family, concentrated, pure
from dpsdk.planner.families.shape import Shape

__all__ = ["noise"]

_OVERLAPPING = 32
"""Fewer answers have little to tell of each other."""

_PLAIN = 2**16
"""Of more weights that are no integers the sensitivity is searched for anew on each lattice."""

_SEARCHED = 2**20
"""Of more weights on all cells a quote of a projection takes longer than a plan may."""


def noise(shape: Shape, *, delta: bool) -> Iterator[Family]:
    """Laplace, Gaussian, and either of them moved to the nearest possible answers."""
    slow = shape.weights > _PLAIN and not shape.form.integral
    yield pure("laplace", lambda epsilon: Laplace(epsilon=epsilon), slow=slow)
    if delta:
        yield concentrated("gaussian", Gaussian, slow=slow)
    if shape.form.rows >= _OVERLAPPING and shape.weights <= _SEARCHED:
        if delta:
            yield concentrated("projection", Projection)
        else:
            yield pure("projection", lambda epsilon: Projection(epsilon=epsilon))
