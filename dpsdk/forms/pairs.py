"""CoordinatePairs of coordinates: symmetric matrices and second moments as rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from dpsdk._checks import shown, to_array
from dpsdk.errors import InvalidArgument
from dpsdk.forms.moments import within
from dpsdk.typing import Array, Floats, Ints

__all__ = ["CoordinatePairs"]


@frozen(eq=False)
class CoordinatePairs:
    """The pairs i ≤ j of coordinates that come in stacks of such sizes, each pair once.

    Numbers of pairs with i < j are √2 times those of a matrix, so that they are as long together as
    the matrix is in the Frobenius norm.
    """

    sizes: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return sum(self.sizes)

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """The coordinates i and j of each pair. Those of two stacks stand together."""
        sizes = self.sizes
        starts = np.cumsum([0, *sizes])
        found = [
            (rows + starts[place], columns + starts[later])
            for place in range(len(sizes))
            for later in range(place, len(sizes))
            for rows, columns in [within(sizes, place, later)]
        ]
        rows, columns = zip(*found, strict=True)
        return np.concatenate(rows), np.concatenate(columns)

    @property
    def scales(self) -> Floats:
        """How long the number of each pair is beside that of the matrix."""
        first, second = self.ends
        return np.where(first == second, 1.0, math.sqrt(2))

    @property
    def lengths(self) -> Floats:
        """The same for all second moments, of which one for each coordinate follows the pairs."""
        return np.concatenate([self.scales, np.ones(self.dimension)])

    def matrix(self, values: Array | Sequence[float]) -> Floats:
        """The symmetric matrix that numbers stand for. Raises `InvalidArgument` if they do not."""
        first, second = self.ends
        numbers = to_array("values", values, f"{len(first)} numbers")
        if numbers.shape != first.shape:
            raise InvalidArgument("values", f"{len(first)} numbers", f"shape {numbers.shape}")
        numbers = numbers / self.scales
        result = np.zeros((self.dimension, self.dimension))
        result[first, second] = numbers
        result[second, first] = numbers
        return result

    def joint(self, places: Ints) -> Floats:
        """How long second moments are that stand for several, one for each place."""
        kept = places >= 0
        return np.sqrt(np.bincount(places[kept], weights=np.rint(self.lengths[kept] ** 2)))

    def moments(self, values: Array | Sequence[float], places: Ints) -> Floats:
        """All second moments, from those that are distinct; see `ConvexForm.moments_from`."""
        own, lengths = np.asarray(places), self.lengths
        fits = own.shape == lengths.shape and own.dtype.kind == "i"
        if not (fits and own.min() >= -1 and own.max() < len(own)):
            raise InvalidArgument("places", f"{len(lengths)} places from -1", shown(places))
        joint = self.joint(own)
        count = max(len(joint), 1)
        numbers = to_array("values", values, f"{count} numbers")
        if numbers.shape != (count,):
            raise InvalidArgument("values", f"{count} numbers", f"shape {numbers.shape}")
        result = np.zeros(len(own))
        kept = own >= 0
        result[kept] = (numbers[own[kept]] / joint[own[kept]]) * lengths[kept]
        return result
