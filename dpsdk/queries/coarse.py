"""How far answers about cells may be from those about the values that cells stand for.

That is proven in docs/explanation/proofs/bins.md.
"""

from __future__ import annotations

import numpy as np

from dpsdk.domain import Attribute, Binned, Number
from dpsdk.typing import Floats

__all__ = ["farthest", "farthest_mean", "farthest_means", "is_coarse"]

_STEPS = 64
_MANY = 2**12
_ROUNDED = 1 + 2.0**-44
"""The rounding of the few operations below, and more."""


def is_coarse(attribute: Attribute) -> bool:
    """True if a cell of an attribute stands for more values than one."""
    if isinstance(attribute, Number):
        return not attribute.exact
    return isinstance(attribute, Binned)


def farthest(attribute: Attribute) -> float:
    """How far a value may be from the middle of its cell, or of its bounds where it was clipped."""
    if isinstance(attribute, Binned):
        return float(np.diff(attribute.edges).max()) / 2 * _ROUNDED
    if isinstance(attribute, Number) and not attribute.exact:
        return float(attribute.step / 2) * _ROUNDED
    return 0.0


def farthest_mean(attribute: Attribute, low: float, high: float, *, padded: bool = False) -> float:
    """How far the mean of values may be from that of the middles of their cells.

    The mean of the middles is between `low` and `high`, or anywhere if these are NaN. If `padded`,
    it is one of middles and of any number of noughts, as of rows that do not count.
    """
    if not isinstance(attribute, Binned):
        return farthest(attribute)
    edges = np.array(attribute.edges)
    halves: Floats = np.diff(edges) / 2
    middles: Floats = edges[:-1] / 2 + edges[1:] / 2
    if padded:
        middles, halves = np.append(middles, 0.0), np.append(halves, 0.0)
    slack = 2.0**-44 * float(np.abs(edges).max())
    return _highest(middles, halves, low, high) * _ROUNDED + slack


def farthest_means(
    attribute: Attribute, low: Floats, high: Floats, *, padded: bool = False
) -> Floats:
    """The same of several means; where these are very many, the most of any."""
    if len(low) > _MANY or not isinstance(attribute, Binned):
        return np.full(len(low), farthest_mean(attribute, np.nan, np.nan, padded=padded))
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return np.array([farthest_mean(attribute, *pair, padded=padded) for pair in ends])


def _highest(places: Floats, heights: Floats, low: float, high: float) -> float:
    """The largest mean of heights of which the mean of places is from `low` to `high`.

    A little more where that takes too long: each step of the search has an upper bound.
    """
    top = int(heights.argmax())
    if not (low <= high) or low <= places[top] <= high:
        return float(heights[top])
    # The largest means fall on either side of the top, so that the end next to it has the largest.
    rising = high < places[top]
    place = min(max(high if rising else low, float(places.min())), float(places.max()))
    left, right = (int(places.argmin()), top) if rising else (top, int(places.argmax()))
    best = float(heights[top])
    for _ in range(_STEPS):
        if places[left] == places[right]:
            return min(best, float(heights[places == places[left]].max()))
        slope = (heights[right] - heights[left]) / (places[right] - places[left])
        above = heights + slope * (place - places)
        peak = int(above.argmax())
        # No line through it with any slope is below a mean.
        best = min(best, float(above[peak]))
        if peak in (left, right) or above[peak] <= above[left]:
            break
        left, right = (peak, right) if places[peak] <= place else (left, peak)
    return best
