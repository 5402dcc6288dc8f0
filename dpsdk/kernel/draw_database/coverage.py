"""How closely small databases can follow any table: the covering radius of classes of functions.

A radius at a size m is a number r such that for every table of rows, of whatever number, some
database of m records has all functions of the class within r of their shares of the table. It is a
share of the widest function's range, proven for every table, and so public
(docs/explanation/proofs/small-database.md, "Accuracy").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction

from dpsdk._checks import shown, to_count, to_integer
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument

__all__ = [
    "AnyFunctions",
    "Cells",
    "Coverage",
    "Intervals",
    "Marginals",
    "Thresholds",
    "log_patterns",
]

_FACTORS = (2, 4, 8, 16, 32, 64, 128)
"""How many times larger a second sample is; the best of them counts."""


def _above(number: float) -> Fraction:
    """A fraction just above what a few rounded operations on floats came to."""
    return Fraction(math.nextafter(number * (1.0 + 2.0**-48), math.inf))


def _whole(parameter: str, least: int, value: int) -> int:
    """A whole number of any length, at least so large."""
    expected = f"an integer of at least {least}"
    number = to_integer(parameter, value, expected, bits=None)
    if number < least:
        raise InvalidArgument(parameter, expected, shown(number))
    return number


def _to_cells(value: int) -> int:
    return _whole("cells", 1, value)


def _to_functions(value: int) -> int:
    return _whole("functions", 0, value)


def _to_atoms(value: int) -> int:
    return _whole("atoms", 1, value)


def _to_dimension(value: int | None) -> int | None:
    return None if value is None else _whole("dimension", 0, value)


class Coverage(ABC):
    """The proven coverage of one class of functions."""

    __slots__ = ()

    def radius(self, size: int) -> Fraction:
        """A covering radius of databases of so many records; it never grows with the size."""
        return min(Fraction(1), self._radius(to_count("size", size)))

    @abstractmethod
    def _radius(self, size: int) -> Fraction:
        """The bound itself, which may be larger than 1."""


@frozen
class Thresholds(Coverage):
    """Shares at or below a point, for any points of one ordered attribute.

    Rounding a cumulative distribution function to multiples of 1/m gives another one, within
    1/(2m): the smallest size for a radius of a is ceil(1 / 2a).
    """

    def _radius(self, size: int) -> Fraction:
        return Fraction(1, 2 * size)


@frozen
class Intervals(Coverage):
    """Shares between two points, for any points of one ordered attribute.

    Each is a difference of two thresholds whose rounding errors differ by less than 1/m.
    """

    def _radius(self, size: int) -> Fraction:
        return Fraction(1, size)


@frozen
class Cells(Coverage):
    """Shares of disjoint cells, at most `cells` of them with what lies in none.

    Largest remainders miss none of K shares by more than (1 - 1/K) / m.
    """

    cells: int = field(converter=_to_cells)

    def _radius(self, size: int) -> Fraction:
        return Fraction(self.cells - 1, self.cells * size)


@frozen
class Marginals(Coverage):
    """Several attributes, each with its own functions of it alone.

    The columns of a database can be put together at will, so the worst attribute counts. Rows
    outside the domain are outside for each attribute: thresholds agree about their number where
    they are rounded alike, and cells can follow, within 1/m.
    """

    parts: tuple[Coverage, ...]
    outside: bool = False

    def _radius(self, size: int) -> Fraction:
        if self.outside and any(isinstance(part, Cells) for part in self.parts):
            return Fraction(1, size)
        return max((part.radius(size) for part in self.parts), default=Fraction(0))


@frozen
class AnyFunctions(Coverage):
    """Any functions of a record: `functions` of them that are neither constant nor equal.

    A function and its complement count once. `atoms` are the classes of cells that no function
    tells apart, with the outside where there is one. `dimension` is a number that the dimension of
    Vapnik and Chervonenkis does not exceed, for functions of two values.
    """

    functions: int = field(converter=_to_functions)
    atoms: int = field(converter=_to_atoms)
    dimension: int | None = field(default=None, converter=_to_dimension)

    def _radius(self, size: int) -> Fraction:
        if not self.functions or self.atoms == 1:
            return Fraction(0)
        # By Caratheodory, a table is like one on so many atoms.
        support = min(self.atoms, self.functions + 1)
        remainders = Fraction((support // 2) * ((support + 1) // 2), support * size)
        spread = math.log(2 * self.functions) / 2
        radius = min(
            remainders,
            _above(math.sqrt(spread / size)),
            _above(math.sqrt(spread * support) / size),
        )
        if self.dimension is not None:
            dimension = self.dimension
            best = min(self._by_dimension(dimension, size, factor) for factor in _FACTORS)
            radius = min(radius, _above(best))
        return radius

    def _by_dimension(self, dimension: int, size: int, factor: int) -> float:
        """By a second sample that is `factor` times as large."""
        patterns = log_patterns(dimension, size * (1 + factor))
        spread = math.log(2) + min(math.log(self.functions), patterns)
        return (1 + 1 / factor) * math.sqrt(spread / (2 * size))


def log_patterns(dimension: int, points: int) -> float:
    """The logarithm of how many subsets of so many points functions of a dimension can pick out.

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
