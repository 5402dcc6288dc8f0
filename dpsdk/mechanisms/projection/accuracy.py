"""How far projected answers may be off: all of them together, and each by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import evolve, field, frozen

from dpsdk.accuracy import SIZE, SIZES, NoiseAccuracy
from dpsdk.codec import FLAG, NATURAL, POSITIVE, Member, Nested, OrNone, written
from dpsdk.forms import Facts, LinearForm, Neighbors, sensitivity
from dpsdk.mechanisms.linear_accuracy import bernstein_length
from dpsdk.noise import DiscreteGaussian
from dpsdk.release import HalfWidths, Standing
from dpsdk.typing import Floats

__all__ = ["TOTAL_BETA", "ProjectionAccuracy", "widest"]

TOTAL_BETA = 1e-9
"""Where the number of rows is private, the probability that the table has more than is assumed."""

_ROUND = 1 + 1e-9
"""What floats may round off in a bound."""


def widest(form: LinearForm, facts: Facts) -> float:
    """The largest distance of two columns, that of rows which do not count included where such are.

    Of one row, whatever neighbours are.
    """
    beside = facts.outside or facts.rows is None
    of = evolve(facts, neighbors=Neighbors.REPLACE_ONE, outside=beside, unit_rows=1)
    return math.sqrt(sensitivity(form, of, power=2).l2_squared)


def _wrong(accuracy: ProjectionAccuracy) -> str:
    if not 1 <= accuracy.entries <= accuracy.noise.entries:
        return "numbers that were measured"
    moved = accuracy.distances
    return "" if moved is None or len(moved) == accuracy.entries else "a distance for each number"


def _to_moved(moved: Sequence[float] | Floats | None) -> tuple[float, ...] | None:
    return None if moved is None else tuple(map(float, moved))


@written(
    "accuracy.projection",
    {
        "noise": Nested[NoiseAccuracy]("an accuracy", NoiseAccuracy),
        "reach": SIZE,
        "cells": POSITIVE,
        "gap": SIZE,
        "distances": Member(OrNone(SIZES), key="moved"),
        "counted": FLAG,
        "entries": NATURAL,
    },
    wrong=_wrong,
    public=False,
)
@frozen
class ProjectionAccuracy(HalfWidths):
    """Noisy answers that were moved to the nearest ones of a convex set that has the truth in it.

    The root of the sum of all squared errors is within `distance`, and so is each error; each is
    also within the bound of the noise and by how much the answer was moved. See
    docs/explanation/proofs/projection.md.
    """

    noise: NoiseAccuracy
    """The accuracy of the noisy answers."""
    reach: float
    """By how much all rows, in the largest number that is assumed, can move the answers."""
    cells: int
    gap: float
    """How far half the squared distance from the noisy answers is above the least, at the most."""
    _moved: tuple[float, ...] | None = field(converter=_to_moved, repr=False)
    counted: bool
    """Whether the largest number of rows was told by a noisy count, and may be exceeded."""
    entries: int  # pyright: ignore[reportIncompatibleMethodOverride]  # a field here
    """How many numbers are answers; more may be measured."""

    @property
    def standing(self) -> Standing:  # type: ignore[override]  # derived here, a field elsewhere
        """A theorem once it is known how far answers were moved, and a prediction before."""
        return "predicted" if self._moved is None else "proven"

    @property
    def kind(self) -> str:  # type: ignore[override]  # derived here, a field elsewhere
        """What it rests on."""
        if self._moved is None:
            return "a projection, if it comes as near as it is meant to"
        return "projection of noisy answers on those of possible tables"

    @property
    def distances(self) -> Floats | None:  # type: ignore[override]  # derived here
        """By how much each answer was moved, in rows; None before that is known."""
        return None if self._moved is None else np.array(self._moved)

    def distance(self, beta: float) -> float:
        """With probability 1 - beta the sum of the squared errors is not above this squared."""
        left = beta - TOTAL_BETA if self.counted else beta
        if left <= 0:
            return math.inf
        slack = self.noise.bias * math.sqrt(self.noise.entries)
        _, length = bernstein_length(self.noise.law, self.noise.step, self.noise.entries, left / 2)
        length += slack
        by_length = length / 2 + math.sqrt(length**2 / 4 + self.gap)
        by_width = slack + math.sqrt(self._width(left / 2) + self.gap)
        return min(by_length, by_width) * _ROUND

    def mean_square(self, beta: float) -> float:
        """With probability 1 - beta the mean of the squared errors, in squared rows, is not above.

        Half of that of the noise, or less, is the point of a projection; it is of all answers
        together, and of a single one no more follows than what `error` says.
        """
        return self.distance(beta) ** 2 / self.entries

    def _width(self, beta: float) -> float:
        """How far the noise points along the set, by the tail of the normal law."""
        law = self.noise.law
        if not isinstance(law, DiscreteGaussian):
            return math.inf
        deviation = math.sqrt(law.variance) * self.noise.step
        return self.reach * deviation * math.sqrt(2 * math.log(self.cells / beta))

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        if self._moved is None:
            return np.full(self.entries, self.distance(beta))
        each = self.noise.radius(beta / 2, joint=joint) + np.array(self._moved)
        result: Floats = np.minimum(each, self.distance(beta / 2))
        return result
