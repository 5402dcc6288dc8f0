"""The directions in which feature vectors of a universe lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import Lasting, kept
from dpsdk.forms import ConvexForm, Coordinates
from dpsdk.forms.design import axes_of, block_of
from dpsdk.typing import Floats, Ints

__all__ = ["Span", "vectors"]

_LEAST = 1e-13
"""Directions along which squares add up to no more, beside the largest, are left out."""

_ROUNDED = 1e-12
_OF_ONE = 1e-6
"""What floats may leave of feature vectors, and of a coordinate, beside their own sizes."""


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
class Span(Lasting):
    """An orthonormal basis of the feature vectors, and by how much any of them is outside it.

    Labels of an attribute that all have a coordinate, and an intercept beside them, lie in fewer
    directions than there are coordinates. Along the others no table says anything of θ, and no
    loss depends on it.
    """

    basis: Floats = field(converter=kept, eq=cmp_using(eq=np.array_equal), hash=False)
    """One direction a column."""
    missed: float
    """At least the length of what is left of any feature vector, which is rounding as a rule."""
    whole: bool
    """Whether it is rounding. If not, feature vectors have other directions, very short ones."""

    @classmethod
    def of(cls, form: ConvexForm) -> Span:
        """That of all cells, without their being written out.

        A feature vector is that of the first cell, and on each axis of attributes what another cell
        differs by.
        """
        starts = np.cumsum([0, *[one.width for one in form.coordinates]])
        first, parts = np.zeros((1, form.dimension)), list[Floats]()
        for axis in axes_of(form.coordinates):
            block = block_of(axis, form.coordinates, form.domain)
            own: list[Ints] = [np.arange(starts[at], starts[at + 1]) for at in axis.members]
            places = np.concatenate(own)
            first[:, places] = block[0]
            parts.append(np.zeros((len(block), form.dimension)))
            parts[-1][:, places] = block - block[0]
        rows = np.concatenate([first, *parts])
        values, directions = np.linalg.eigh(rows.T @ rows)
        basis = directions[:, values > _LEAST * max(float(values[-1]), 1e-300)]
        missed, rest = 0.0, np.zeros(form.dimension)
        for part in (first, *parts):
            left = part - (part @ basis) @ basis.T
            missed += float(np.linalg.norm(left, axis=1).max())
            rest = np.maximum(rest, np.abs(left).max(axis=0))
        size = np.abs(rows).max(axis=0)
        whole = missed <= _ROUNDED * size.max() and (rest <= _OF_ONE * size)[size > 0.0].all()
        return cls(basis, missed, bool(whole))
