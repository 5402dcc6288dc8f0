"""Losses of linear models as tables of whole numbers, which cannot say what they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpsdk._arrays import Lasting, frozen_integers
from dpsdk._checks import require, shown, to_within
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms.blocks import to_names
from dpsdk.forms.factors import half_up
from dpsdk.forms.sets import ConvexSet
from dpsdk.typing import Array, Floats, Ints

__all__ = ["SlopeTable"]

FEATURE_BITS, SLOPE_BITS = 14, 20
"""Features and slopes are whole numbers of steps of 2 to the minus so many."""

_LEVELS, _CLOSEST = 14, 24
"""A slope is asked of 2 to the first margins, which are 2 to the minus second apart at least."""

_WIDEST = 2**16


def _to_low(value: int) -> int:
    return to_within("low", value, -(2**30), 2**30, "an integer within 2^30 of 0")


def _integers(values: Array) -> Ints:
    given = np.asarray(values)
    if given.dtype.kind not in "iu" or given.ndim != 2 or not given.size:
        raise InvalidArgument("features and slopes", "two-dimensional arrays of integers", "others")
    if np.abs(given).max() > 2**40:
        raise InvalidArgument("features and slopes", "at most 2^40", "larger ones")
    return frozen_integers(given.astype(np.int64))


@frozen(eq=False)
class SlopeTable(Lasting):
    """A summed loss of linear models, by whole numbers: all that `perturb` is told of one.

    A record with the features x and the label y costs a convex function of ⟨θ, x⟩, whose slope at
    the margin `low` + k · 2^-`level_bits` is `slopes[y, k]`, linear in between and constant beyond.

    Parameters
    ----------
    domain, names
        The attributes: those that the features depend on, and the label last.
    features
        The features of each cell of the first ones, in C order, in steps of 2^-14.
    slopes
        For each label slopes that do not fall, at least two, in steps of 2^-20.
    low, level_bits
        Where the slopes begin, and how close they are.
    over
        The set of coefficients, in the order of the features; None for all.
    """

    domain: Domain
    names: tuple[str, ...] = field(converter=to_names)
    features: Ints = field(converter=_integers, repr=False)
    slopes: Ints = field(converter=_integers, repr=False)
    low: int = field(converter=_to_low)
    level_bits: int
    over: ConvexSet | None = None

    @classmethod
    def of(
        cls,
        domain: Domain,
        names: Sequence[str],
        rows: Floats,
        reach: tuple[float, float],
        slope: Callable[[Floats], Floats],
        over: ConvexSet | None = None,
    ) -> SlopeTable:
        """Round feature vectors, and the slope of a loss at up to 2^14 margins between two ends."""
        low, high = math.floor(reach[0]), math.ceil(reach[1])
        if high - low > _WIDEST:
            expected = f"a set whose margins are at most {_WIDEST:,} apart"
            raise InvalidArgument("over", expected, f"{high - low:,}")
        bits = min(max(_LEVELS - (high - low).bit_length(), 0), _CLOSEST)
        margins = low + np.arange(((high - low) << bits) + 2, dtype=np.float64) * 2.0**-bits
        steps = half_up(slope(margins) * 2.0**SLOPE_BITS).astype(np.int64)
        features = half_up(rows * 2.0**FEATURE_BITS).astype(np.int64)
        return cls(domain, names, features, np.maximum.accumulate(steps, axis=1), low, bits, over)

    def __attrs_post_init__(self) -> None:
        sizes = [self.domain[name].known for name in self.names]
        if self.features.shape[0] != math.prod(sizes[:-1]) or len(self.slopes) != sizes[-1]:
            expected = "a row for each cell of the attributes, and for each label"
            raise InvalidArgument("features and slopes", expected, "another number of rows")
        if self.slopes.shape[1] < 2 or (np.diff(self.slopes, axis=1) < 0).any():
            expected = "at least two for each label, that do not fall"
            raise InvalidArgument("slopes", expected, "others")
        if not 0 <= self.level_bits <= _CLOSEST:
            expected = f"an integer from 0 to {_CLOSEST}"
            raise InvalidArgument("level_bits", expected, shown(self.level_bits))
        if self.over is not None:
            require(isinstance(self.over, ConvexSet), "over", "a set such as Ball(8)", self.over)
            self.over.require(self.dimension)

    @property
    def dimension(self) -> int:
        """How many features there are."""
        return int(self.features.shape[1])

    @property
    def square(self) -> int:
        """The largest squared length of a feature vector, in steps."""
        return int(np.square(self.features).sum(axis=1).max())

    @property
    def steepest(self) -> int:
        """The largest slope, in steps."""
        return int(np.abs(self.slopes).max())

    @property
    def longest(self) -> float:
        """The length of the longest gradient of a record, up to rounding."""
        return self.steepest * math.sqrt(self.square) * 2.0 ** -(SLOPE_BITS + FEATURE_BITS)

    @property
    def curvature(self) -> Fraction:
        """At least the curvature of the loss of any record, in any direction."""
        rise = int(np.diff(self.slopes, axis=1).max())
        bits = SLOPE_BITS + 2 * FEATURE_BITS - self.level_bits
        return Fraction(rise * self.square, 1 << bits)

    def missed(
        self,
        label: int,
        reach: tuple[float, float],
        rule: Callable[[Floats], Sequence[Floats]],
    ) -> float:
        """By how much the difference of a loss and of that of the table varies between two margins.

        `rule` gives the values of the loss at margins, and slopes that do not fall.
        """
        own, step = self.slopes[label] * 2.0**-SLOPE_BITS, 2.0**-self.level_bits
        levels: Floats = self.low + step * np.arange(len(own), dtype=np.float64)
        margins = np.unique(np.clip(levels, *reach))
        level = np.minimum((margins - self.low) / step, len(own) - 2).astype(np.int64)
        rest = margins - levels[level]
        sums = np.append(0.0, np.cumsum(0.5 * step * (own[1:] + own[:-1])))[level]
        there = own[level] + (own[level + 1] - own[level]) * rest / step
        values, true = rule(margins)
        apart = sums + 0.5 * rest * (own[level] + there) - values
        # Between two of these margins both slopes are between those there.
        bent = np.maximum(there, true)[1:] - np.minimum(there, true)[:-1]
        return float(np.ptp(apart)) + float((bent * np.diff(margins)).max(initial=0.0))
