"""Coordinates of feature vectors, each on the cells of a few attributes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import Lasting
from dpsdk._checks import shown, to_name
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.design import CELL_LIMIT
from dpsdk.forms.factors import to_weights
from dpsdk.typing import Floats

__all__ = ["Axis", "Coordinates", "axes_of", "block_of", "check_cells", "longest"]


def _names(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InvalidArgument("names", "a sequence of names", shown(values))
    return tuple([to_name("names", value) for value in values])


@frozen
class Coordinates(Lasting):
    """Some coordinates of a feature vector, as numbers on the cells of some attributes.

    Parameters
    ----------
    names
        The attributes that they depend on, distinct; none for constants such as an intercept.
    values
        Finite, one axis for the coordinates and one for each name.
    """

    names: tuple[str, ...] = field(converter=_names)
    values: Floats = field(converter=to_weights, eq=cmp_using(eq=np.array_equal), hash=False)

    def __attrs_post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise InvalidArgument("names", "distinct", shown(self.names))
        if self.values.ndim != 1 + len(self.names) or not self.values.size:
            expected = "an array with an axis for the coordinates and one for each name"
            raise InvalidArgument("values", expected, f"shape {self.values.shape}")

    @property
    def width(self) -> int:
        """How many coordinates there are."""
        return len(self.values)

    def times(self, scale: float) -> Coordinates:
        """The same, each so many times as large."""
        return Coordinates(self.names, self.values * scale)

    def spread(self, names: Sequence[str]) -> Floats:
        """The numbers with an axis for each of some names in their order, of length 1 where idle.

        The names of the coordinates are among them.
        """
        left = [name for name in names if name in self.names]
        moved = self.values.transpose([0, *(1 + self.names.index(name) for name in left)])
        sizes = dict(zip(left, moved.shape[1:], strict=True))
        return moved.reshape(len(moved), *[sizes.get(name, 1) for name in names])


@frozen
class Axis:
    """Coordinates that share attributes, directly or by way of others: one axis of a design."""

    names: tuple[str, ...]
    members: tuple[int, ...]
    """The places of the coordinates."""


def axes_of(coordinates: Sequence[Coordinates]) -> list[Axis]:
    """Coordinates by the attributes that they share."""
    axes: list[Axis] = []
    for place, one in enumerate(coordinates):
        names, members = dict.fromkeys(one.names), [place]
        for axis in [axis for axis in axes if names.keys() & set(axis.names)]:
            axes.remove(axis)
            names = dict.fromkeys(axis.names) | names
            members = [*axis.members, *members]
        axes.append(Axis(tuple(names), tuple(sorted(members))))
    return axes


def block_of(axis: Axis, coordinates: Sequence[Coordinates], domain: Domain) -> Floats:
    """The feature vectors along one axis, an array (cells, coordinates)."""
    shape = tuple([domain[name].size for name in axis.names])
    spread = [coordinates[place].spread(axis.names) for place in axis.members]
    wide = [np.broadcast_to(part, (len(part), *shape)) for part in spread]
    joint: Floats = np.concatenate(wide).reshape(-1, math.prod(shape)).T
    return joint


def longest(coordinates: Sequence[Coordinates]) -> float:
    """The largest Euclidean length of a feature vector of any record of the domain."""
    total = 0.0
    for axis in axes_of(coordinates):
        parts = [np.square(coordinates[place].spread(axis.names)) for place in axis.members]
        squares: Floats = sum([part.sum(axis=0) for part in parts], np.zeros(()))
        total += float(squares.max())
    return math.sqrt(total)


def check_cells(names: Iterable[str], domain: Domain) -> None:
    """Refuse what depends on too many cells, before anything of that size is made.

    Raises
    ------
    UnknownAttribute
        If the domain does not have an attribute of these.
    TooLarge
        If there are more than 10^6 cells.
    """
    cells = math.prod([domain[name].size for name in set(names)])
    if cells > CELL_LIMIT:
        advice = "use fewer attributes in one model, or coarser ones"
        raise TooLarge("a model", cells, CELL_LIMIT, "cells", advice)
