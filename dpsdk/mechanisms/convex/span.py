"""The directions in which feature vectors of a universe lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk.forms import Coordinates
from dpsdk.typing import Floats

__all__ = ["Span", "vectors"]

_LEAST = 1e-13
"""Directions along which squares add up to no more, beside the largest, are left out."""


def vectors(coordinates: Sequence[Coordinates]) -> Floats:
    """All feature vectors, one a column."""
    sizes: dict[str, int] = {}
    for one in coordinates:
        sizes |= dict(zip(one.names, one.values.shape[1:], strict=True))
    spread = [one.spread(tuple(sizes)) for one in coordinates]
    wide = [np.broadcast_to(part, (len(part), *sizes.values())) for part in spread]
    joint: Floats = np.concatenate(wide)
    return joint.reshape(len(joint), -1)


@frozen
class Span:
    """An orthonormal basis of the feature vectors, and by how much any of them is outside it.

    Labels of an attribute that all have a coordinate, and an intercept beside them, lie in fewer
    directions than there are coordinates. Along the others no table says anything of θ, and no
    loss depends on it.
    """

    basis: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    """One direction a column."""
    missed: float
    """The largest length of what is left of a feature vector, which is rounding as a rule."""

    @classmethod
    def of(cls, coordinates: Sequence[Coordinates]) -> Span:
        """That of all cells."""
        columns = vectors(coordinates)
        values, directions = np.linalg.eigh(columns @ columns.T)
        basis = directions[:, values > _LEAST * max(float(values[-1]), 1e-300)]
        left = columns - basis @ (basis.T @ columns)
        return cls(basis, float(np.linalg.norm(left, axis=0).max()))
