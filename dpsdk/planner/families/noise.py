"""Noise on every answer: what is asked is measured, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from dpsdk.mechanisms import Gaussian, Laplace, Projection
from dpsdk.planner.families.family import Family, concentrated, pure
from dpsdk.planner.families.shape import Shape

__all__ = ["noise"]

_OVERLAPPING = 32
"""Fewer answers have little to tell of each other."""

_SEARCHED = 2**20
"""Of more weights on all cells a quote of a projection takes longer than a plan may."""


def noise(shape: Shape, *, delta: bool) -> Iterator[Family]:
    """Laplace, Gaussian, and either of them moved to the nearest possible answers."""
    yield pure("laplace", lambda epsilon: Laplace(epsilon=epsilon))
    if delta:
        yield concentrated("gaussian", Gaussian)
    if shape.form.rows >= _OVERLAPPING and shape.weights <= _SEARCHED:
        if delta:
            yield concentrated("projection", Projection)
        else:
            yield pure("projection", lambda epsilon: Projection(epsilon=epsilon))
