"""How rich a class of functions is, and how closely that lets small databases follow a table.

Any number of functions can be followed that shatter few points, or whose cells are boxes: what
counts is how they cut a table, and not how many they are (docs/explanation/proofs/dimension.md).
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np

from dpsdk._checks import cut, shown, to_within
from dpsdk._records import field, frozen
from dpsdk.codec import INTEGER, TEXT, written
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Factor, Kronecker, LinearForm

__all__ = [
    "MOST_SIDES",
    "Dimension",
    "Side",
    "by_dimension",
    "by_lines",
    "by_strips",
    "dimension_if_given",
    "dimension_of",
    "sides_of",
]

_LARGEST = 2**7
"""No larger dimension says anything of databases that can be drawn."""

_READ_LIMIT = 2**22
"""Factors of more weights than this are not read through."""

_FACTORS = (1, 2, 4, 8, 16, 32, 64, 128)
"""How many times larger a second sample is; the best of them counts."""

MOST_SIDES = 16
"""Strips along more attributes than this would have no record each."""

_STEPS = tuple(sorted({round(2 ** (step / 2)) for step in range(2, 21)}))
"""Of how many records a strip may be."""

_GRIDS = tuple(2**step for step in range(1, 31))
"""Into how many parts each attribute may be cut."""


def _to_dimension(value: int) -> int:
    expected = f"an integer from 0 to {_LARGEST:,}"
    return to_within("dimension", value, 0, _LARGEST, expected)


def _to_reason(value: str) -> str:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= 200:
        expected = "why that is so, in up to 200 characters, as in 'half-planes'"
        raise InvalidArgument("reason", expected, cut(shown(value), 80))
    return value.strip()


@written("dimension", {"value": INTEGER, "reason": TEXT})
@frozen
class Dimension:
    """A dimension of Vapnik and Chervonenkis that is known of a workload, and why.

    It is the largest number of records of which the functions pick out every part. Of functions
    with more than two values it is that of their level sets, {x : f(x) > t} for all f and t.

    Bounds of errors rest on it, and so does the size where that follows from `alpha`. Privacy does
    not: a wrong one makes a database that may be farther off than is said.

    Parameters
    ----------
    value
        The dimension, or any number that it does not exceed; at most 128.
    reason
        Why, in a few words. It is shown wherever a bound rests on it.

    Raises
    ------
    InvalidArgument
        If the value is out of range, or there is no reason.

    >>> from dpsdk.kernel import Dimension
    >>> print(Dimension(3, "half-planes"))
    dimension 3: half-planes
    """

    value: int = field(converter=_to_dimension)
    reason: str = field(converter=_to_reason)

    def __str__(self) -> str:
        return f"dimension {self.value}: {self.reason}"


def dimension_if_given(value: Dimension | None) -> Dimension | None:
    """The argument `dimension` of a draw."""
    if value is not None and not isinstance(value, Dimension):
        expected = "a Dimension, as in Dimension(3, 'half-planes')"
        raise InvalidArgument("dimension", expected, shown(value))
    return value


@frozen
class Side:
    """The sets of cells of one attribute, of which functions are products.

    Parameters
    ----------
    pieces
        How many classes of cells they tell apart, at the most.
    alone
        Of how many records of a shattered set they can leave out one alone, at the most.
    ends
        How many ends of these sets move, if all are ranges; 0 if one is not.
    """

    pieces: int
    alone: int
    ends: int

    def ranges(self, pieces: int) -> int:
        """How many ranges of so many pieces there are, the whole one included."""
        return pieces if self.ends == 1 else pieces * (pieces + 1) // 2


def sides_of(form: LinearForm) -> tuple[Side, ...] | None:
    """The sides of functions that are all products of indicators; None if some are not."""
    factors: defaultdict[str, list[Factor]] = defaultdict(list)
    for block in form.blocks:
        if not isinstance(block, Kronecker):
            return None
        for name, factor in zip(block.names, block.factors, strict=True):
            factors[name].append(factor.simplified())
    sides = [_side_of(own) for own in factors.values()]
    known = tuple([side for side in sides if side is not None])
    return None if len(known) < len(sides) else tuple([side for side in known if side.alone])


def _side_of(factors: list[Factor]) -> Side | None:
    """The side of an attribute; None if it is large, or has weights other than 0 and 1."""
    size, rows = factors[0].size, sum(factor.rows for factor in factors)
    ranges = [factor.ranges for factor in factors if factor.ranges is not None]
    if rows > _READ_LIMIT:
        return None
    if len(ranges) == len(factors):
        starts, stops = map(np.concatenate, zip(*ranges, strict=True))
        proper = (starts < stops) & (stops - starts < size)
        starts, stops = starts[proper], stops[proper]
        cuts = np.unique(np.concatenate([starts, stops]))
        pieces = 1 + int(((cuts > 0) & (cuts < size)).sum())
        ends = int((starts > 0).any()) + int((stops < size).any())
        single = bool((stops - starts == 1).all())
        return Side(pieces, min(1, ends) if single else ends, ends)
    if rows * size > _READ_LIMIT:
        return None
    weights = np.concatenate([factor.matrix() for factor in factors])
    if not ((weights == 0) | (weights == 1)).all():
        return None
    sets = np.unique(weights[weights.min(axis=1) < weights.max(axis=1)], axis=0)
    pieces = len(np.unique(sets, axis=1).T) if len(sets) else 1
    return Side(pieces, min(len(sets), pieces), 0)


def dimension_of(sides: tuple[Side, ...]) -> int:
    """A dimension that products over these sides do not exceed.

    Each record of a shattered set is left out alone by some function, and so by its set of some
    attribute: a threshold leaves out the last record alone, an interval the first or the last, and
    a label, of three records or more, the one that is not like the others.
    """
    alone = sum(side.alone for side in sides)
    labels = any(side.alone < side.ends for side in sides)
    return max(2, alone) if labels else alone


def log_patterns(dimension: int, points: int) -> float:
    """The logarithm of how many parts of so many points functions of a dimension can pick out.

    At most the binomial coefficients up to the dimension together (Sauer 1972, Shelah 1972), given
    here within a relative 2^-45.
    """
    if dimension >= points:
        return points * math.log(2)
    total = term = 1
    for chosen in range(1, dimension + 1):
        term = term * (points - chosen + 1) // chosen
        total += term
    return math.log(total)


def by_dimension(dimension: int, size: int) -> float:
    """A covering radius of functions of a dimension, but for a few roundings."""
    if dimension > _LARGEST:
        return 1.0

    def radius(factor: int) -> float:
        """By a second sample that is `factor` times as large."""
        spread = math.log(2) + log_patterns(dimension, size * (1 + factor))
        return (1 + 1 / factor) * math.sqrt(spread / (2 * size))

    return min(map(radius, _FACTORS))


def by_lines(sides: tuple[Side, ...], size: int) -> Fraction:
    """A covering radius where some attribute has ranges alone: a record for each line along it."""
    along = max(side.pieces for side in sides if side.ends)
    return Fraction(math.prod(side.pieces for side in sides), along * size)


def strip_variance(sides: tuple[Side, ...], size: int, records: int) -> float:
    """The squared ranges of all numbers of records of a box in strips of so many, together.

    One for each strip that it crosses fully, and `records` squared where it crosses one partly.
    """
    *across, _ = sorted(side.ends for side in sides)
    strips = (size / records) ** (1 / len(across)) + 1
    partial = sum(across) * strips ** (len(across) - 1)
    return float(strips ** len(across) + partial * (records**2 - 1))


def by_strips(sides: tuple[Side, ...], functions: int, size: int) -> float:
    """A covering radius of so many boxes of two attributes or more, but for a few roundings.

    The table is cut into strips along all attributes but one, with a few records in each, evenly
    spaced along that one: boxes that cross a strip fully are off by less than one record there, and
    few cross it otherwise.
    """
    variance = min(float(size), *[strip_variance(sides, size, step) for step in _STEPS])

    def radius(boxes: int, blurred: float) -> float:
        return math.sqrt(variance * math.log(2 * boxes) / 2) / size + blurred

    best = radius(functions, 0.0)
    for grid in _GRIDS:
        # Boxes whose ends are among the quantiles stand for all others between them.
        boxes = math.prod(side.ranges(min(side.pieces, 2 * grid - 1)) for side in sides)
        moved = sum(side.ends for side in sides if side.pieces > 2 * grid - 1)
        best = min(best, radius(min(functions, boxes), moved / grid))
    return best
